import contextlib
import threading

import pytest

from sandboxes.toolbox.helper.journal import Journal
from sandboxes.toolbox.helper.text import Refused


@pytest.fixture
def open_journal(tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(contextlib.closing(Journal(str(tmp_path))))


def test_a_known_call_is_answered_and_not_done_again(open_journal):
    journal, done = open_journal(), []
    for _ in range(3):
        assert journal.once("k", lambda: done.append(1) or {"n": len(done)}) == {"n": 1}
    assert done == [1]


def test_a_call_without_a_key_is_always_done(open_journal):
    journal, done = open_journal(), []
    journal.once(None, lambda: done.append(1) or {})
    journal.once(None, lambda: done.append(1) or {})
    assert done == [1, 1]


def refuse():
    raise Refused("already_exists", "Error: exists")


def test_a_refusal_is_a_result_too(open_journal):
    journal = open_journal()
    with pytest.raises(Refused, match="exists"):
        journal.once("k", refuse)
    with pytest.raises(Refused, match="exists"):
        journal.once("k", dict)


def test_the_next_helper_knows_what_was_done_and_what_is_in_doubt(open_journal):
    first = open_journal()
    first.once("done", lambda: {"n": 1})
    assert first.begin("in doubt") is None
    second = open_journal()
    assert second.once("done", lambda: {"n": 2}) == {"n": 1}
    with pytest.raises(Refused) as refused:
        second.once("in doubt", dict)
    assert refused.value.code == "call_lost"


def test_a_torn_last_line_is_no_harm(open_journal, tmp_path):
    open_journal().once("done", lambda: {"n": 1})
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"key": "to')
    assert open_journal().known("done") == {"ok": {"n": 1}}


def test_two_callers_of_one_key_get_one_result(open_journal):
    journal, entered, go, results = open_journal(), threading.Event(), threading.Event(), []

    def slowly():
        entered.set()
        assert go.wait(10)
        return {"who": "first"}

    first = threading.Thread(target=lambda: results.append(journal.once("k", slowly)))
    first.start()
    assert entered.wait(10)
    second = threading.Thread(target=lambda: results.append(journal.once("k", lambda: {"who": "second"})))
    second.start()
    go.set()
    first.join(10)
    second.join(10)
    assert results == [{"who": "first"}] * 2


def test_the_journal_forgets_the_oldest(open_journal, tmp_path, monkeypatch):
    monkeypatch.setattr("sandboxes.toolbox.helper.journal.KEPT", 5)
    journal = open_journal()
    for number in range(40):
        journal.once(str(number), lambda number=number: {"n": number})
    assert journal.known("39") == {"ok": {"n": 39}}
    assert journal.known("0") is None
    assert len((tmp_path / "journal.jsonl").read_text().splitlines()) < 30
