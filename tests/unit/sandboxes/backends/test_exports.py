from __future__ import annotations

import subprocess
import sys

import pytest

from sandboxes import backends


def test_importing_the_package_loads_no_framework() -> None:
    script = (
        "import sys, sandboxes.backends, sandboxes.backends.keyvalue;"
        "print([name for name in sys.modules if name.split('.')[0] in ('langgraph', 'langchain_core', 'deepagents')])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize("name", backends.__all__)
def test_every_public_name_is_found_by_its_name(name: str) -> None:
    assert getattr(backends, name) is getattr(backends, name)
    assert name in dir(backends)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = backends.Nothing
