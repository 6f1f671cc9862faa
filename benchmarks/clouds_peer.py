"""The peers of `clouds.py`: langchain-modal and langchain-daytona, in an environment of their own.

`python clouds_peer.py modal|daytona IMAGE` takes a word on each line of its input (`create`, `first`, `fill`, `destroy`, or the
numbers of an operation and its turn), does that, and answers each with a line of JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

from clouds_operations import check, files, furniture, operations

LIFE = 3600
"""Seconds."""
FOLDER = "/tmp/bench"


class Modal:
    """As langchain-modal's documentation makes it. Its files need sandboxes of the platform's first kind."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._app: Any = None

    def create(self) -> Any:
        import modal

        if self._app is None:
            self._app = modal.App.lookup("peer", create_if_missing=True)
            self._built = modal.Image.from_registry(self._image)
        return modal.Sandbox.create("sleep", "infinity", app=self._app, image=self._built, timeout=LIFE)

    def backend(self, sandbox: Any) -> Any:
        from langchain_modal import ModalSandbox

        return ModalSandbox(sandbox=sandbox)

    def destroy(self, sandbox: Any) -> None:
        sandbox.terminate()


class Daytona:
    """As langchain-daytona's documentation makes it."""

    def __init__(self, _image: str) -> None:
        self._client: Any = None

    def create(self) -> Any:
        from daytona import Daytona as Client

        self._client = self._client or Client()
        return self._client.create()

    def backend(self, sandbox: Any) -> Any:
        from langchain_daytona import DaytonaSandbox

        return DaytonaSandbox(sandbox=sandbox)

    def destroy(self, sandbox: Any) -> None:
        sandbox.delete()


class Side:
    """One sandbox at a time."""

    def __init__(self, cloud: Any) -> None:
        self._cloud = cloud
        self._sandbox: Any = None
        self._backend: Any = None

    def do(self, word: str) -> None:
        if word == "create":
            self._sandbox = self._cloud.create()
        elif word == "first":
            self._backend = self._cloud.backend(self._sandbox)
            self._sound(self._backend.execute("true"))
        elif word == "fill":
            self._sound(self._backend.execute(furniture(FOLDER)))
            for one in self._backend.upload_files(files(FOLDER)):
                self._sound(one)
        elif word == "destroy":
            self._cloud.destroy(self._sandbox)
        else:
            number, turn = map(int, word.split())
            operation = operations(FOLDER, turn)[number]
            check(operation, getattr(self._backend, operation.method)(*operation.arguments))

    @staticmethod
    def _sound(answer: Any) -> None:
        if getattr(answer, "error", None) or getattr(answer, "exit_code", 0):
            raise RuntimeError(repr(answer)[:500])


def main() -> None:
    """Until the input ends."""
    warnings.simplefilter("ignore")  # what they use of the SDK is deprecated there
    name, image = sys.argv[1:]
    side = Side({"modal": Modal, "daytona": Daytona}[name](image))
    for line in sys.stdin:
        try:
            side.do(line.strip())
            told = {"error": None}
        except Exception as exc:
            told = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
