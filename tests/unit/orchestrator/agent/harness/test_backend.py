"""From what a user gives as a backend to the backend of a call."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from orchestrator.agent.harness.backend import (
    SANDBOX_ARTIFACTS,
    artifacts_root,
    can_delete,
    can_execute,
    fixed_backend,
    is_factory,
    resolve_backend,
    working_directory,
)
from sandboxes import protocol as p
from sandboxes.backends import CompositeBackend, FilesystemBackend, PolicyBackend, StateBackend
from sandboxes.sandbox import Sandbox


class FirstVersion:
    """A backend of the protocol's first version, with no base class of ours."""

    def ls_info(self, path: str) -> list[Any]:
        return [{"path": "/f", "is_dir": False}]

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> str:
        return "     1\tone"

    def grep_raw(self, pattern: str, path: str | None = None, glob: str | None = None) -> list[Any]:
        return []

    def glob_info(self, pattern: str, path: str = "/") -> list[Any]:
        return []

    def write(self, file_path: str, content: str) -> Any:
        return p.WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> Any:
        return p.EditResult(path=file_path, occurrences=1)


def test_no_backend_is_the_agents_state() -> None:
    assert isinstance(resolve_backend(None, None), StateBackend)


def test_a_backend_is_itself() -> None:
    backend = StateBackend()
    assert resolve_backend(backend, None) is backend
    assert fixed_backend(backend) is backend
    assert not is_factory(backend)


def test_a_factory_is_called_with_the_runtime_and_warns() -> None:
    given = []

    def factory(runtime: Any) -> StateBackend:
        given.append(runtime)
        return StateBackend()

    with pytest.warns(DeprecationWarning, match="a backend factory is deprecated"):
        assert isinstance(resolve_backend(factory, "runtime"), StateBackend)
    assert given == ["runtime"]


def test_a_backend_of_the_first_protocol_is_adapted() -> None:
    found = resolve_backend(FirstVersion(), None)
    assert found.ls("/").entries == [{"path": "/f", "is_dir": False}]
    assert isinstance(found, p.BackendProtocol)


def test_a_backend_of_the_released_package_is_adapted(tmp_path: Any) -> None:
    theirs = pytest.importorskip("deepagents.backends")
    found = resolve_backend(theirs.FilesystemBackend(root_dir=tmp_path, virtual_mode=True), None)
    assert isinstance(found, p.BackendProtocol)
    assert found.write("/f", "x").error is None
    assert (tmp_path / "f").read_text() == "x"


@pytest.mark.parametrize("given", [3, "state", object()])
def test_what_is_no_backend_is_told(given: Any) -> None:
    with pytest.raises(TypeError, match="is not a backend"):
        resolve_backend(given, None)


def test_what_a_backend_can_do_is_seen_through_what_is_around_it(backend: Any) -> None:
    around = CompositeBackend(default=PolicyBackend(backend), routes={"/m/": StateBackend()})
    assert can_execute(around)
    assert not can_execute(CompositeBackend(default=StateBackend(), routes={"/s/": backend}))
    assert can_delete(StateBackend())


def test_relative_paths_begin_where_the_backend_says(tmp_path: Any, backend: Any, folder: Any) -> None:
    assert working_directory(StateBackend()) == "/"
    assert working_directory(backend) == str(folder)
    assert working_directory(FilesystemBackend(root_dir=tmp_path)) == str(tmp_path)
    assert working_directory(FilesystemBackend(root_dir=tmp_path, virtual_mode=True)) == "/"
    assert working_directory(PolicyBackend(backend)) == str(folder)


def test_the_harness_keeps_its_own_files_out_of_a_sandboxs_workspace() -> None:
    sandbox: Any = Sandbox.__new__(type("Bare", (Sandbox,), dict.fromkeys(Sandbox.__abstractmethods__)))
    assert artifacts_root(StateBackend()) == ""
    assert artifacts_root(sandbox) == SANDBOX_ARTIFACTS
    assert artifacts_root(CompositeBackend(default=sandbox)) == SANDBOX_ARTIFACTS
    assert artifacts_root(CompositeBackend(default=sandbox, artifacts_root="/mine/")) == "/mine"
    assert artifacts_root(CompositeBackend(default=sandbox, routes={"/large_tool_results/": StateBackend()})) == ""


def test_importing_the_agent_is_cheap_until_something_of_it_is_used() -> None:
    script = "import sys, orchestrator.agent; print('langchain' in sys.modules); orchestrator.agent.create_deep_agent"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_the_harness_does_not_load_the_released_package() -> None:
    script = "import sys, orchestrator.agent.harness; print(sorted({'deepagents', 'langchain_anthropic'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
