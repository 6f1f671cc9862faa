"""What goes wrong inside leaves as one message and a documented exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import app as app_module
from orchestrator.cli.guard import guarded
from orchestrator.errors import BadInput, InfrastructureError, RunTimedOut, TaskFailed


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Has every command raise this."""

    def set_failure(exc: BaseException) -> None:
        def fail(*args: Any, **options: Any) -> None:
            raise exc

        monkeypatch.setattr(app_module, "app", fail)

    return set_failure


@pytest.mark.parametrize(
    ("error", "code"),
    [(TaskFailed("no"), 1), (BadInput("no"), 2), (InfrastructureError("no"), 3), (RunTimedOut("no"), 4)],
)
def test_an_error_of_ours_is_one_line_and_its_exit_code(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    failing(error)

    assert guarded(["run"]) == code
    assert capsys.readouterr() == ("", "fanfold: error: no\n")


def test_each_problem_of_a_file_is_a_line(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(BadInput("task.yaml:1: a\ntask.yaml:2: \x1b[2Jb"))

    guarded(["run"])

    assert capsys.readouterr().err == "fanfold: error: task.yaml:1: a\nfanfold: error: task.yaml:2: b\n"


def test_ctrl_c_is_130(failing: Callable[[BaseException], None]) -> None:
    failing(KeyboardInterrupt())

    assert guarded(["run"]) == 130


def test_a_fault_of_ours_is_short_and_its_traceback_in_a_file(
    failing: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("FANFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FANFOLD_DEBUG", raising=False)
    failing(ZeroDivisionError("by zero"))

    assert guarded(["run"]) == 3

    log = tmp_path / "home" / "cli-errors.log"
    assert capsys.readouterr().err == f"fanfold: error: internal error: ZeroDivisionError: by zero; details are in {log}\n"
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_fault_of_ours_is_shown_whole_when_debugging(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FANFOLD_DEBUG", "1")
    failing(ZeroDivisionError("by zero"))

    assert guarded(["run"]) == 3
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "No such command 'rnu'"),
        (["run"], "Missing argument"),
        (["run", "task.yaml", "--retries", "many"], "--retries"),
        (["run", "task.yaml", "--nonsense"], "--nonsense"),
        (["worker", "--concurrency", "0"], "--concurrency"),
    ],
)
def test_a_wrong_command_line_is_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert guarded(arguments) == 2

    said = capsys.readouterr().err
    assert said.startswith("fanfold: error: ")
    assert message in said
    assert said.splitlines()[-1].endswith("--help'.")


def test_the_help_of_every_command_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["run"], ["exec"], ["runs"], ["runs", "ls"], ["runs", "logs"], ["worker"], ["doctor"]):
        assert guarded([*arguments, "--help"]) == 0
    assert "130  cancelled" in capsys.readouterr().out


def test_the_commands_import_nothing_heavy_before_they_run() -> None:
    import subprocess

    heavy = ("sqlalchemy", "celery", "kombu", "rich", "redis", "langchain", "docker", "orchestrator.service")
    script = f"import sys; import orchestrator.cli.app; print([name for name in {heavy!r} if name in sys.modules])"

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"
