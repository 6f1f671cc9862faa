"""Whichever write to the record is a worker's last: the next worker ends the run, and no tool call is done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed.py")
ROOT = Path(__file__).parents[4]
EVERY = {"sqlite": 1, "postgresql": 2}
"""Each so many-th of the writes is once the last, or the first that is not made any more."""
FEWEST = 10
"""Writes of a run at least. What tools that run at the same time answer is sometimes written together."""
DEADLINE = 240.0
"""Seconds for all of them."""
IN_FLIGHT = 3
"""Most tools that run at the same time."""


@pytest.mark.timeout(DEADLINE + 30)
def test_no_tool_call_is_done_twice_wherever_its_worker_dies(database: str, tmp_path: Path) -> None:
    every = EVERY[database.partition(":")[0].partition("+")[0]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-B", PROGRAM, database, tmp_path, str(every)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ended.returncode == 0, ended.stderr
    whole, *trials = [json.loads(line) for line in ended.stdout.splitlines()]
    assert whole["codes"] == [0]
    assert len(whole["done"]) == len(set(whole["done"])) == 8
    assert len(trials) >= whole["writes"] // every >= FEWEST // every
    for one in trials:
        where = f"killed {'after' if one['after'] else 'before'} write {one['at']}: {one}"
        assert one["codes"] == [9, 0] or (one["codes"] == [0] and FEWEST <= one["writes"] < one["at"]), where + ended.stderr
        assert (one["done"], one["said"]) == (whole["done"], whole["said"]), where
        # What had not been recorded when the worker died is begun again, and finds that it is done.
        assert len(one["begun"]) - len(whole["begun"]) <= IN_FLIGHT, where
