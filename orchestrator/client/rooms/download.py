"""Fetching an artifact: where a connection breaks it goes on, and what arrives is what the run left or an error."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

import httpx

from orchestrator.client.caller import Caller, at
from orchestrator.client.models import Artifact
from orchestrator.client.problems import Unavailable
from orchestrator.client.retrying import Tries
from orchestrator.client.transport import Ask, Stream
from orchestrator.errors import InfrastructureError

PIECE_PATIENCE = 60.0
"""Seconds for the next piece of an artifact."""


class _Arrival:
    """What has arrived of an artifact, in order."""

    def __init__(self, artifact: Artifact, out: BinaryIO) -> None:
        self._artifact = artifact
        self._out = out
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def whole(self) -> bool:
        return self.size == self._artifact.size

    async def take(self, stream: Stream) -> None:
        """Keep what the answer brings; one that begins at the artifact's beginning brings again what has arrived before."""
        known = self.size if stream.response.status_code != httpx.codes.PARTIAL_CONTENT else 0
        async for piece in stream.pieces:
            new, known = piece[known:], max(known - len(piece), 0)
            if self.size + len(new) > self._artifact.size:
                raise InfrastructureError(f"'{self._artifact.name}': more than its {self._artifact.size} bytes arrive")
            self._digest.update(new)
            self._out.write(new)
            self.size += len(new)

    def check(self) -> None:
        """Raise `InfrastructureError` when it is not what the run left."""
        if self._digest.hexdigest() != self._artifact.sha256:
            raise InfrastructureError(f"'{self._artifact.name}': what arrives is not what the run left")


async def fetch(caller: Caller, run_id: str, artifact: Artifact, out: BinaryIO) -> None:
    """Write the content of an artifact to `out`. Raises `InfrastructureError` when it is not to be had as it was left."""
    arrival, tries = _Arrival(artifact, out), Tries()
    while not arrival.whole:
        before, error = arrival.size, InfrastructureError(f"'{artifact.name}': its content ends before its end")
        try:
            async with caller.stream(_question(run_id, artifact, arrival.size)) as stream:
                await arrival.take(stream)
        except Unavailable as exc:
            error = exc
        if arrival.whole:
            break
        tries = Tries() if arrival.size > before else tries
        wait = tries.next_wait()
        if wait is None:
            raise error
        await caller.transport.sleep(wait)
    arrival.check()


def _question(run_id: str, artifact: Artifact, begin: int) -> Ask:
    headers = {"Accept-Encoding": "identity"}  # a range of something that was packed on the way would be another one
    if begin:
        headers |= {"Range": f"bytes={begin}-", "If-Range": f'"{artifact.sha256}"'}
    path = at("runs", run_id, "artifacts", *artifact.name.split("/"))
    return Ask("GET", path, headers=headers, repeatable=True, patience=PIECE_PATIENCE)
