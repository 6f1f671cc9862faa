"""Changes that merge line by line and still break each other: only the tests see it, and they decide who is merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.runs.models import RunStatus
from tests.integration.orchestrator.fan_out.conftest import Ended

FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": "def total(prices):\n    return sum(prices)\n",
    "shop/bill.py": "from shop import prices\n\n\ndef bill(items):\n    return prices.total(items)\n",
    "tests/__init__.py": "",
    "tests/test_bill.py": (
        "import unittest\n\nfrom shop import bill\n\n\nclass Bill(unittest.TestCase):\n"
        "    def test_it_is_the_sum(self):\n        self.assertEqual(bill.bill([1, 2]), 3)\n"
    ),
}
CHECK = "python3 -B -m unittest"
ADD_TEST = (
    "printf 'import unittest\\n\\nfrom shop import cart\\n\\n\\nclass Cart(unittest.TestCase):\\n"
    "    def test_cart(self):\\n        self.assertEqual(cart.cart([5]), 5)\\n' > tests/test_cart.py"
)
COMMANDS = {
    "note": "echo prices > NOTES",
    "rename": f"sed -i s/total/add_up/ shop/*.py; {CHECK}",
    "caller": "printf 'from shop.prices import total\\n\\n\\ndef cart(items):\\n    return total(items)\\n' > shop/cart.py; "
    f"{ADD_TEST}; {CHECK}",
    "license": "echo free > LICENSE",
}
TASKS = [{"name": name, "command": command} for name, command in COMMANDS.items()]


def test_without_a_check_the_merge_is_clean_and_wrong(play: Callable[..., Ended]) -> None:
    done = play(FILES, fan_out={"tasks": TASKS}, verify=CHECK)
    assert done.run.status is RunStatus.ERROR
    assert set(done.statuses().values()) == {"success"}
    assert done.report["conflicts"] == []
    assert "cannot import name 'total'" in done.output


@pytest.mark.parametrize(("on_conflict", "exit_code"), [("keep", 0), ("fail", 1)])
def test_the_culprit_is_found_and_the_rest_is_merged(
    play: Callable[..., Ended], on_conflict: str, exit_code: int
) -> None:
    merge: dict[str, Any] = {"verify": CHECK, "on_conflict": on_conflict}
    done = play(FILES, fan_out={"tasks": TASKS, "merge": merge}, verify=f"{CHECK} && ls")
    assert done.run.exit_code == exit_code
    (left,) = done.report["not_merged"]
    assert left["name"] == "caller"
    assert "cannot import name 'total'" in left["output"]
    assert "cannot import name 'total'" in done.artifacts["merge.md"]
    merged = {one["path"]: one["children"] for one in done.report["merged"]}
    assert merged == {"LICENSE": ["license"], "NOTES": ["note"], "shop/bill.py": ["rename"], "shop/prices.py": ["rename"]}
    assert "+def cart(items):" in done.artifacts["unmerged/caller.patch"]
    assert "cart" not in done.artifacts["patch.diff"]
