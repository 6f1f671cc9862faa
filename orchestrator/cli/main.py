"""The entry point of `fanfold`. It imports nothing that costs time before it knows what is wanted."""

from __future__ import annotations

import sys

VERSION_ARGUMENTS = (["--version"], ["-V"])


def main() -> int:
    """Run the command line; the answer is the process's exit code."""
    arguments = sys.argv[1:]
    if arguments in VERSION_ARGUMENTS:
        show_version()
        return 0
    from orchestrator.cli.guard import guarded

    return guarded(arguments)


def show_version() -> None:
    """Print the installed version."""
    from importlib.metadata import version

    sys.stdout.write(f"fanfold {version('fanfold')}\n")


if __name__ == "__main__":
    sys.exit(main())
