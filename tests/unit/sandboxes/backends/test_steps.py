import pytest

from sandboxes.backends.layered.steps import Call, answering, arun, in_turn, run
from sandboxes.protocol import LsResult
from sandboxes.toolbox.helper.text import Refused


class Twins:
    """Methods with async forms that say so; `alone` has none."""

    def name(self, what):
        return f"sync {what}"

    async def aname(self, what):
        return f"async {what}"

    def alone(self):
        return "alone"

    def fail(self):
        raise KeyError("lost")

    async def afail(self):
        raise KeyError("lost")


def steps():
    first, second = yield [Call(Twins(), "name", ("a",)), Call(Twins(), "name", (), {"what": "b"})]
    (third,) = yield [Call(Twins(), "alone")]
    nothing = yield []
    return [first, second, third, *nothing]


def mending():
    try:
        yield [Call(Twins(), "fail")]
    except KeyError:
        (answer,) = yield [Call(Twins(), "alone")]
    return answer


async def test_steps_are_run_in_both_forms():
    assert run(steps()) == ["sync a", "sync b", "alone"]
    assert await arun(steps()) == ["async a", "async b", "alone"]
    assert run(in_turn([steps(), steps()])) == [run(steps())] * 2


async def test_what_a_call_raises_can_be_mended_where_it_was_made():
    assert run(mending()) == await arun(mending()) == "alone"


async def test_what_is_not_mended_reaches_the_caller():
    def broken():
        yield [Call(Twins(), "fail")]

    with pytest.raises(KeyError):
        run(broken())
    with pytest.raises(KeyError):
        await arun(broken())


def test_a_refusal_is_a_result_with_its_words():
    @answering(LsResult, ValueError)
    def refusing(error):
        yield []
        raise error

    assert run(refusing(Refused("invalid_path", "Error: no"))) == LsResult(error="Error: no")
    assert run(refusing(ValueError("bad"))) == LsResult(error="Error: bad")
    with pytest.raises(KeyError):
        run(refusing(KeyError("a defect")))
