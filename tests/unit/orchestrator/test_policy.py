"""The policy is what its file says, and a slip in it is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import BadInput
from orchestrator.policy import Placed, Policy, load_policy

WHOLE = """
caps:
  provider: {docker: 10}
  label: {"team=ml": 5}
routes:
  - {provider: docker, label: "team=ml", queue: both}
  - {provider: docker, queue: gpu}
  - {label: "team=ml", queue: ml}
tenants: {max_running: 20, max_queued: 1000}
fan_out: {max_children: 7, max_depth: 1}
"""


def read(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return load_policy(path)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    policy = read(tmp_path, WHOLE)
    assert policy.caps.provider == {"docker": 10}
    assert policy.caps.label == {"team=ml": 5}
    assert (policy.tenants.max_running, policy.tenants.max_queued, policy.tenants.max_tokens) == (20, 1000, None)
    assert (policy.fan_out.max_children, policy.fan_out.max_depth, policy.fan_out.max_parallel) == (7, 1, 50)
    assert policy.queues == ["both", "fanfold", "gpu", "ml"]


def test_without_a_file_or_with_an_empty_one_nothing_is_ruled(tmp_path: Path) -> None:
    assert load_policy(None) == read(tmp_path, "") == Policy()


@pytest.mark.parametrize(
    ("provider", "labels", "queue"),
    [
        ("docker", {"team": "ml"}, "both"),
        ("docker", {"team": "web"}, "gpu"),
        ("docker", {}, "gpu"),
        ("local", {"team": "ml", "x": "y"}, "ml"),
        ("local", {"team": "mlx"}, "fanfold"),
        ("local", {}, "fanfold"),
    ],
)
def test_the_first_route_that_fits_holds(tmp_path: Path, provider: str, labels: dict[str, str], queue: str) -> None:
    assert read(tmp_path, WHOLE).queue(Placed(provider, labels)) == queue


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("caps:\n  providers: {docker: 1}\n", "policy.yaml:2: caps.providers: unknown key; did you mean 'provider'?"),
        ("tenants: {max_runing: 1}\n", "policy.yaml:1: tenants.max_runing: unknown key; did you mean 'max_running'?"),
        ("caps: {provider: {docker: -1}}\n", "caps.provider.docker: must be greater than or equal to 0, not -1"),
        ("caps: {label: {ml: 1}}\n", "write a label as KEY=VALUE, not 'ml'"),
        ("routes:\n  - {queue: gpu}\n", "a route says which runs it is for"),
        ("routes:\n  - {provider: docker, queue: 'G P U'}\n", "'G P U' cannot be the name of a queue"),
        ("providers: {docker: {max_runing: 1}}\n", "providers.docker.max_runing: unknown key; did you mean 'max_running'?"),
        ("providers: {docker: {max_running: -1}}\n", "docker.max_running: must be greater than or equal to 0, not -1"),
        ("providers: {docker: {breaker: {failures: 0}}}\n", "breaker.failures: must be greater than or equal to 1, not 0"),
        ("providers: {docker: {breaker: {cool_down: soon}}}\n", "'soon' is not a duration"),
        ("providers: {docker: {not_authenticated: ignore}}\n", "providers.docker.not_authenticated: "),
        ("providers: {auto: {}}\n", "'auto' is no provider: it stands for those that are listed here, in their order"),
        ("providers: [docker]\n", "providers: must be a mapping"),
        ("fan_out: {max_child: 1}\n", "fan_out.max_child: unknown key; did you mean 'max_children'?"),
        ("fan_out: {max_parallel: 0}\n", "fan_out.max_parallel: must be greater than or equal to 1, not 0"),
        ("- 1\n", "policy.yaml: "),
    ],
)
def test_a_slip_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(tmp_path, text)
    assert told in str(refused.value)


def test_how_far_a_run_may_fan_out_is_the_operators_to_say(tmp_path: Path) -> None:
    caps = read(tmp_path, WHOLE).fan_out
    caps.check(7)
    with pytest.raises(BadInput, match="fan_out: makes 8 children, and this installation allows a run 7: make fewer"):
        caps.check(8)


def test_auto_is_what_is_listed_in_its_order_and_docker_or_local_without_a_list(tmp_path: Path) -> None:
    policy = read(tmp_path, "providers:\n  modal: {max_running: 20}\n  docker:\n")
    assert policy.candidates(["auto"]) == ("modal", "docker")
    assert policy.candidates(["docker"]) == ("docker",)
    assert policy.candidates(["docker", "local"]) == ("docker", "local")
    assert Policy().candidates(["auto"]) == ("docker", "local")


def test_what_is_not_said_of_a_provider_is_the_default(tmp_path: Path) -> None:
    policy = read(tmp_path, "providers:\n  modal: {max_running: 20, breaker: {cool_down: 2m}}\n")
    assert (policy.rule("modal").max_running, policy.rule("modal").breaker.cool_down) == (20, 120)
    assert (policy.rule("modal").breaker.failures, policy.rule("modal").not_authenticated) == (5, "fail")
    assert policy.rule("docker").max_running is None


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such file"):
        load_policy(tmp_path / "nothing.yaml")
