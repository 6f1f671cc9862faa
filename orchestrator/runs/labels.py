"""The labels of a sandbox: whose it is. Its provider keeps them with the sandbox, from the moment that it is made."""

from __future__ import annotations

INSTALLATION_LABEL = "fanfold.installation"
"""The id of the record that knows the run. What carries another one, or none, is somebody else's."""
RUN_LABEL = "fanfold.run"
ATTEMPT_LABEL = "fanfold.attempt"


def sandbox_labels(installation: str, run_id: str, attempt: int) -> dict[str, str]:
    """The labels of an attempt's sandbox. When it expires is in every handle (`expires_at`)."""
    return {INSTALLATION_LABEL: installation, RUN_LABEL: run_id, ATTEMPT_LABEL: str(attempt)}
