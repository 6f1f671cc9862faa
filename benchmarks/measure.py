"""How every benchmark here measures and speaks: interleaved samples, medians, one table.

Both sides of a comparison run in one process, in turns, so that a slow minute of the machine is slow for both. Every call
must succeed: a benchmark of failures is quick and says nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

Call = Callable[[], object]
"""Something to measure. What it returns is awaited when it can be, and must not be a failure."""

MILLISECONDS = 1000.0


@dataclass(frozen=True)
class Config:
    """How much to measure, and on which image."""

    quick: bool = False
    image: str = "fanfold-test/base:latest"
    pictures: Path | None = None
    """A folder for curves."""

    def rounds(self, full: int) -> int:
        """`full`, or one when it has to be quick."""
        return 1 if self.quick else full


@dataclass(frozen=True)
class Row:
    """One line of the table. A target is a ratio to reach (`at_least`) or a value of ours to stay under (`below`)."""

    what: str
    unit: str
    ours: float
    peer: float | None = None
    at_least: float | None = None
    below: float | None = None

    @property
    def ratio(self) -> float | None:
        """The peer's value over ours: how many times less we take; None where there is no peer, or we take nothing."""
        return None if self.peer is None or not self.ours else self.peer / self.ours

    @property
    def verdict(self) -> str:
        """`met`, `MISSED`, or nothing when there is no target."""
        if self.at_least is not None and self.ratio is not None:
            return "met" if self.ratio >= self.at_least else "MISSED"
        if self.below is not None:
            return "met" if self.ours < self.below else "MISSED"
        return ""

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        target = f">= {self.at_least:g}x" if self.at_least is not None else ""
        target = f"< {self.below:g} {self.unit}" if self.below is not None else target
        peer = "" if self.peer is None else f"{figure(self.peer)} {self.unit}"
        ratio = "" if self.ratio is None else f"{figure(self.ratio)}x"
        return self.what, f"{figure(self.ours)} {self.unit}", peer, ratio, target, self.verdict


Bench = Callable[[Config], Awaitable[list[Row]]]


def figure(value: float) -> str:
    """Three digits of it; all of them when it has more before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def need(module: str, distribution: str) -> None:
    """Leave with one clear message when a peer is not installed."""
    try:
        importlib.import_module(module)
    except ImportError as exc:
        raise SystemExit(f"benchmarks: {distribution} is missing ({exc}): make bench") from exc


def sound(result: object) -> None:
    """Raise when `result`, or a part of it, is a failure: `error` is set, or the exit code is not 0."""
    for one in result if isinstance(result, (list, tuple)) else (result,):
        error = getattr(one, "error", None)
        if error or getattr(one, "exit_code", 0) != 0:
            raise RuntimeError(f"a measured call failed: {error or one!r}")


async def seconds(call: Call) -> float:
    """The wall time of one call."""
    started = time.perf_counter()
    result = call()
    if inspect.isawaitable(result):
        result = await result
    taken = time.perf_counter() - started
    sound(result)
    return taken


async def median(call: Call, samples: int) -> float:
    """The median wall time in seconds, after one call to warm up."""
    await seconds(call)
    return statistics.median([await seconds(call) for _ in range(samples)])


async def compare(ours: Call, peer: Call, *, rounds: int, ours_each: int = 20, peer_each: int = 2) -> tuple[float, float]:
    """The median milliseconds of both, which take turns: some of ours, some of the peer's. The first turn only warms up."""
    of_ours, of_peer = [], []
    for turn in range(rounds + 1):
        first = [await seconds(ours) for _ in range(ours_each)]
        second = [await seconds(peer) for _ in range(peer_each)]
        if turn:
            of_ours += first
            of_peer += second
    return statistics.median(of_ours) * MILLISECONDS, statistics.median(of_peer) * MILLISECONDS


def table(title: str, rows: Iterable[Row]) -> str:
    """The rows in columns under their title."""
    lines = [(title, "ours", "peer", "ratio", "target", ""), *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = tuple("-" * width for width in widths)
    return "\n".join("  ".join(map(_aligned, line, widths, range(6))).rstrip() for line in (lines[0], rule, *lines[1:]))


def _aligned(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column in (0, 5) else text.rjust(width)


def run(benches: Mapping[str, Bench], arguments: Sequence[str] | None = None) -> None:
    """The command line of every script here: measure, print a table each, and write them all to a file if asked."""
    parser = argparse.ArgumentParser(description="Measure Fanfold beside its peers. See benchmarks/README.md.")
    parser.add_argument("--quick", action="store_true", help="few samples: does it run at all?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    parser.add_argument("--image", default=Config.image, help="the image of the containers (default: %(default)s)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw curves there, where a script has some")
    asked = parser.parse_args(arguments)
    config = Config(asked.quick, asked.image, asked.pictures)
    everything = {}
    for title, bench in benches.items():
        rows = measured(bench, config)
        print(table(title, rows), end="\n\n", flush=True)
        everything[title] = [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in rows]
    if asked.json:
        asked.json.write_text(json.dumps(everything, indent=2) + "\n")


def measured(bench: Bench, config: Config) -> list[Row]:
    """Its rows."""

    async def rows() -> list[Row]:
        return await bench(config)

    return asyncio.run(rows())
