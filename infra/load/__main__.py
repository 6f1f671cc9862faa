"""`python -m infra.load`: put a load on the API of an installation, and say how it bore it.

It submits real runs, with the label `load=yes`, whose command does nothing; workers that are there execute them. The exit code
is 0; 1 when an operation failed; 2 for an option that makes no sense; 3 when the API cannot be reached or does not keep up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from infra.load.generator import Generator, Load, Measured, Overrun
from infra.load.operations import MIX, TASK, Failed, Operations

TIMEOUT = 60.0
"""Seconds for any answer."""
BEFORE = 10
"""Runs that are submitted before anything is measured, so that there are some to be read."""
MILLISECONDS = 1000.0


def client(url: str, key: str) -> httpx.AsyncClient:
    """A client that may have as many connections as it takes."""
    unlimited = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT, limits=unlimited, trust_env=False)


async def put(load: Load, url: str, key: str, task: Mapping[str, Any] = TASK) -> Generator:
    """Put a load on an API; what was measured. Raises `Failed` when it cannot even be begun, and `Overrun`."""
    async with client(url, key) as opened:
        operations = Operations(opened, task)
        for _ in range(BEFORE):
            await operations.submit()
        generator = Generator(load, operations.named)
        await generator.run()
        await operations.ended()
    return generator


def rows(done: Generator) -> list[dict[str, Any]]:
    """A row for each operation, and one for all of them: counts, operations a second, milliseconds."""
    whole = Measured([one for each in done.measured.values() for one in each.seconds])
    for each in done.measured.values():
        whole.errors.update(each.errors)
    return [row(name, one, done.taken) for name, one in [*sorted(done.measured.items()), ("all", whole)]]


def row(name: str, one: Measured, taken: float) -> dict[str, Any]:
    """What is told of one operation."""
    count = len(one.seconds)
    times = {
        name: round(one.percentile(share) * MILLISECONDS, 2) if count else None
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0))
    }
    return {"what": name, "ok": count, "errors": dict(one.errors), "per_s": round(count / taken, 1), **times}


def told(found: Sequence[Mapping[str, Any]]) -> str:
    """The rows for people."""
    lines = [f"{'':8}{'ok':>8}{'per s':>9}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}  errors"]
    for one in found:
        errors = ", ".join(f"{count} x {name}" for name, count in sorted(one["errors"].items())) or "none"
        times = "".join(f"{'' if one[name] is None else one[name]:>10}" for name in ("p50_ms", "p99_ms", "max_ms"))
        numbers = f"{one['ok']:>8}{one['per_s']:>9}{times}"
        lines.append(f"{one['what']:8}{numbers}  {errors}")
    return "\n".join(lines)


def mix_of(text: str) -> dict[str, int]:
    """`submit=1,read=6` as numbers."""
    found = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name not in MIX or not number.isdigit():
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME=NUMBER, where NAME is one of {', '.join(MIX)}")
        found[name] = int(number)
    if not any(found.values()):
        raise argparse.ArgumentTypeError("nothing is to be done: give one of them a number above 0")
    return found


def positive(text: str) -> float:
    """A number above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m infra.load", description="Put a load on the API, and say how it bore it.")
    mix = ",".join(f"{name}={number}" for name, number in MIX.items())
    url = os.environ.get("FANFOLD_URL", "http://127.0.0.1:8000")
    made.add_argument("--url", default=url, help="the API (default: %(default)s)")
    made.add_argument("--key", default=os.environ.get("FANFOLD_API_KEY"), help="its key (default: FANFOLD_API_KEY)")
    made.add_argument("--seconds", type=positive, default=10.0, help="for how long (default: 10)")
    made.add_argument("--concurrency", type=int, default=16, metavar="N", help="so many at once (default: 16)")
    made.add_argument("--rate", type=positive, metavar="N", help="instead: so many a second, however long they take")
    made.add_argument("--mix", type=mix_of, default=MIX, help=f"how often what is done (default: {mix})")
    made.add_argument("--task", type=Path, metavar="FILE", help="what is submitted (default: the command `true`, locally)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = parser()
    asked = options.parse_args(arguments)
    if not asked.key:
        options.error("there is no key: give --key, or set FANFOLD_API_KEY (`fanfold keys create`)")
    if asked.concurrency < 1:
        options.error("--concurrency is 1 or more")
    try:
        task = yaml.safe_load(asked.task.read_text()) if asked.task else TASK
    except (OSError, yaml.YAMLError) as exc:
        options.error(f"--task: {exc}")
    load = Load(asked.seconds, asked.mix, asked.concurrency, asked.rate)
    try:
        found = rows(asyncio.run(put(load, asked.url, asked.key, task)))
    except (Failed, Overrun, httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
        sys.stderr.write(f"infra.load: {asked.url}: {exc}\n")
        return 3
    print(told(found))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if found[-1]["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
