"""Fixtures of every test: what needs a service skips on a laptop where it is missing, and fails in CI."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

ENGINE_SECONDS = 20
"""Seconds within which the engine must say that it is there."""
IMAGES = ("fanfold-test/base:latest", "fanfold-test/nopython:latest")


def missing(reason: str) -> None:
    """Skip the test, or fail it in CI, where nothing may be missing."""
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(f"{reason} In CI this is an error: `make test` prepares it.", pytrace=False)
    pytest.skip(f"{reason} `make test` prepares it.")


def engine_problem() -> str | None:
    """Why Docker tests cannot run here; None when they can."""
    try:
        subprocess.run(
            ["docker", "image", "inspect", "--format", "{{.Id}}", *IMAGES],
            check=True,
            capture_output=True,
            timeout=ENGINE_SECONDS,
            text=True,
        )
    except FileNotFoundError:
        return "There is no docker command."
    except subprocess.TimeoutExpired:
        return f"The Docker engine did not answer within {ENGINE_SECONDS} s."
    except subprocess.CalledProcessError as exc:
        return f"The Docker engine or a test image is missing: {exc.stderr.strip()}."
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With `--reruns`: how those tests failed at first that were run again. Each is a bug, of the test or of what it tests."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed, and was run again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.write_line(f"--- {title}\n{text}")


@pytest.fixture(scope="session", autouse=True)
def given_servers() -> Iterator[dict[str, str]]:
    """The variables that name servers for tests. They leave the environment: the processes under test would refuse them."""
    given = {name: value for name, value in os.environ.items() if name.startswith("FANFOLD_TEST_")}
    for name in given:
        del os.environ[name]
    yield given
    os.environ.update(given)


@pytest.fixture(scope="session")
def _engine_problem() -> str | None:
    return engine_problem()


@pytest.fixture(autouse=True)
def _needs_docker(request: pytest.FixtureRequest) -> None:
    """Every test that is marked `docker` needs the engine and its images."""
    if request.node.get_closest_marker("docker") and (problem := request.getfixturevalue("_engine_problem")):
        missing(problem)
