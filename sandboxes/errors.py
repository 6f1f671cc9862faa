"""One error tree for the package.

    FanfoldSandboxError
    |-- InvalidSpec            the caller asked for something that makes no sense
    |-- Unsupported            the provider cannot do (or cannot enforce) what the spec asks for
    |-- ProviderUnavailable    the platform is not there: no engine, no network
    |   |-- NotAuthenticated   it does not know the key, or the key may not do this
    |   |-- QuotaExceeded      the account has no room for more: sandboxes, cores, memory, money
    |   `-- RateLimited        too many requests; `retry_after` seconds until the next may go
    |-- ImageNotFound          the image or root filesystem does not exist
    |-- ImageBuildFailed       a Dockerfile could not be built
    |-- ArchiveRefused         an archive or folder that is unsafe, broken or too large to be a workspace
    |-- PatchRefused           what a sandbox holds cannot be told as a patch: too large, or names that cannot be
    `-- SandboxError           a sandbox that existed, or should exist, failed
        |-- SandboxNotFound    nothing answers to this handle
        |-- SandboxGone        it ended: killed, out of lifetime, idle too long
        |-- SandboxTimeout     it did not answer within the deadline
        |-- ProtocolError      what it said is not the toolbox protocol (it may be hostile)
        `-- CallLost           the outcome of a call cannot be known

"The command failed" is never an exception: it is a result with an exit code. "The file is missing" is never an exception
either: it is a result with an `error`. These exceptions mean that the sandbox or its platform failed, and they are never
shown to a model as the output of its command.
"""

from __future__ import annotations


class FanfoldSandboxError(Exception):
    """Base of everything this package raises on purpose. The message says what was wrong and what to do."""


class InvalidSpec(FanfoldSandboxError):
    """A spec that no provider could satisfy."""


class Unsupported(FanfoldSandboxError):
    """The chosen provider cannot do, or cannot enforce, what the spec asks for. Nothing was created."""


class ProviderUnavailable(FanfoldSandboxError):
    """The provider's platform cannot be reached or used from here."""


class NotAuthenticated(ProviderUnavailable):
    """The platform refused the key, or what this key asks for."""


class QuotaExceeded(ProviderUnavailable):
    """The account has no room for what was asked, now; another provider may have."""


class RateLimited(ProviderUnavailable):
    """The platform takes no more requests for a while. `retry_after`: seconds, None when it does not say."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ImageNotFound(FanfoldSandboxError):
    """The image (or root filesystem) that the spec names does not exist on the platform."""


class ImageBuildFailed(FanfoldSandboxError):
    """A Dockerfile could not be built. The message ends with the last lines that the build has printed."""


class ArchiveRefused(FanfoldSandboxError):
    """An archive or folder cannot become a workspace: unsafe names, broken data, or too large. Nothing was unpacked."""


class PatchRefused(FanfoldSandboxError):
    """The state of a workspace cannot become a patch: too large, or with names that no patch can carry."""


class SandboxError(FanfoldSandboxError):
    """A sandbox failed, as opposed to a command in it."""


class SandboxNotFound(SandboxError):
    """No sandbox answers to this handle."""


class SandboxGone(SandboxError):
    """The sandbox existed and has ended."""


class SandboxTimeout(SandboxError):
    """The sandbox did not answer within the deadline."""


class ProtocolError(SandboxError):
    """The sandbox's helper broke the toolbox protocol; its connection was closed."""


class CallLost(SandboxError):
    """The helper died while this call ran: whether it took effect cannot be known."""
