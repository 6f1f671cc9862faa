"""Ours and those of the `deepagents` package, each as the other: `for_deepagents` and `from_deepagents`.

    agent = deepagents.create_deep_agent(model, backend=for_deepagents(sandbox))
    backend = from_deepagents(TheirSandbox(...))

There is an adapter and no registration of ours as virtual subclasses of theirs. Registered, ours would pass `isinstance`,
and still fail: their `CompositeBackend` looks at the classes of the results, the agent's state has a place for files only when
the backend is their own `StateBackend`, and their permissions follow links only in their own `FilesystemBackend`. The adapter
is each of those where it has to be.

The package is an optional extra (`fanfold[deepagents]`). Nothing here imports it before there is something to adapt.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from sandboxes import protocol as p

if TYPE_CHECKING:
    from deepagents.backends.protocol import BackendProtocol as Theirs
    from typing_extensions import TypeIs

PACKAGE: Final = "deepagents.backends.protocol"


def is_deepagents(value: object) -> TypeIs[Theirs]:
    """Whether `value` is a backend of the `deepagents` package. Does not import it: without it, nothing can be."""
    package = sys.modules.get(PACKAGE)
    return package is not None and isinstance(value, package.BackendProtocol)


def for_deepagents(backend: p.BackendProtocol, *, overwrite: bool = False) -> Theirs:
    """A backend of ours as one of theirs, for `create_deep_agent(backend=...)` of the `deepagents` package.

    It is a `SandboxBackendProtocol` of theirs when ours can run commands, their `StateBackend` when ours keeps files in the
    agent's state, their `CompositeBackend` when ours is one. A write creates, as everywhere here; `overwrite` makes it
    replace an existing file, as theirs do. Uploads and downloads take absolute paths only. An attached sandbox serves `ainvoke`
    on every loop; for `invoke`, attach it by `portal.run(provider.attach(handle))`, so that its connection has a loop of its
    own. What came from `from_deepagents` is handed back. Raises `TypeError` for what is no backend of ours, `ImportError`
    without the package.
    """
    if not isinstance(backend, p.BackendProtocol):
        raise TypeError(f"for_deepagents takes a backend of `sandboxes`, not {type(backend).__name__}")
    try:
        from sandboxes.backends.released.exported import exported
        from sandboxes.backends.released.imported import Imported
    except ModuleNotFoundError as exc:
        raise ImportError(f"for_deepagents needs the deepagents package ({exc}): install fanfold[deepagents]") from exc
    return backend.theirs if isinstance(backend, Imported) else exported(backend, overwrite)


def from_deepagents(backend: object) -> p.BackendProtocol:
    """A backend of theirs, a third party's too, as one of ours; a sandbox of theirs becomes a `SandboxBackendProtocol`.

    Everything comes as ours says it: a write creates only, a missing folder is an error, listings and matches are sorted, and
    what their backend raises over a path, a pattern or a text is a result with `error`. What it raises because its sandbox
    failed is a `SandboxError`. What came from `for_deepagents` is handed back. Raises `TypeError` for anything else.
    """
    if not is_deepagents(backend):
        raise TypeError(f"from_deepagents takes a backend of the deepagents package, not {type(backend).__name__}")
    from sandboxes.backends.released.exported import Files
    from sandboxes.backends.released.imported_shell import imported

    return backend.ours if isinstance(backend, Files) else imported(backend)
