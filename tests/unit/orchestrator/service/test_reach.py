"""Which lists of providers no worker can serve, from what workers tell of themselves."""

import pytest

from orchestrator.sandboxspec import TaskSandbox
from orchestrator.service.reach import refusal

HERE = {"local": None, "docker": None, "modal": "there is no key for it", "daytona": "there is no key for it"}
CLOUDS = {**HERE, "modal": None, "daytona": None}


def asking(*providers, **fields):
    return TaskSandbox(providers=providers, **fields)


@pytest.mark.parametrize("providers", [("docker",), ("docker", "local"), ("local", "modal"), ("docker", "modal")])
def test_a_list_is_taken_when_one_of_it_may_work(providers):
    assert refusal(asking(*providers), [HERE]) is None


def test_without_a_key_for_any_it_is_refused_with_the_reason_of_each():
    why = refusal(asking("modal", "daytona"), [HERE])
    assert why is not None
    assert why.endswith("modal: there is no key for it; daytona: there is no key for it")


def test_what_is_weaker_than_the_first_does_not_count_unless_it_may_be():
    why = refusal(asking("modal", "docker"), [HERE])
    assert why is not None
    assert "docker: its isolation (container) is weaker than that of modal (machine)" in why
    assert refusal(asking("modal", "docker", weaker_isolation="allow"), [HERE]) is None


def test_one_worker_that_can_is_enough():
    assert refusal(asking("modal", "daytona"), [HERE, CLOUDS]) is None


def test_a_name_that_no_worker_knows_is_refused_though_others_are_known():
    why = refusal(asking("docker", "dokcer"), [HERE, CLOUDS])
    assert why is not None
    assert "there is no sandbox provider 'dokcer'. Did you mean 'docker'?" in why
    assert refusal(asking("docker", "theirs"), [HERE, {**HERE, "theirs": None}]) is None


def test_how_a_third_partys_provider_separates_is_not_known_before_it_is_asked():
    assert refusal(asking("modal", "theirs"), [{**HERE, "theirs": None}]) is None


def test_where_no_worker_tells_anything_nothing_is_refused():
    assert refusal(asking("modal", "nobody"), []) is None
