"""A command's output, handed on."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable

from orchestrator.cli.passthrough import PassThrough
from orchestrator.runs.models import Event

EXACT = b"\xff\xfe\x00\x1b]0;x\x07"


def test_each_stream_goes_where_it_came_from_byte_for_byte(event: Callable[..., Event]) -> None:
    out, err = io.BytesIO(), io.BytesIO()

    with PassThrough(io.TextIOWrapper(out, "utf-8"), io.TextIOWrapper(err, "utf-8")) as view:
        view.event(event("command.output", stream="stdout", text="Grüße\r\n"))
        view.event(event("command.output", stream="stderr", text="oh\n"))
        view.event(event("command.output", stream="stdout", text="?", base64=base64.b64encode(EXACT).decode()))
        view.event(event("command.finished", exit_code=0))

        assert out.getvalue() == "Grüße\r\n".encode() + EXACT
        assert err.getvalue() == b"oh\n"


def test_a_terminal_gets_colours_but_no_other_sequence(event: Callable[..., Event]) -> None:
    ours, theirs = os.openpty()

    with os.fdopen(ours, "rb", buffering=0) as shown, os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        with PassThrough(terminal) as view:
            view.event(event("command.output", stream="stdout", text="\x1b[32mok\x1b[0m \x1b]0;x\x07\x1b[2J!\n"))

        assert shown.read(1000) == b"\x1b[32mok\x1b[0m !\r\n\x1b[0m"
