import pytest

from sandboxes.toolbox.helper import spool


@pytest.fixture
def filled(tmp_path):
    made = spool.Spool(str(tmp_path / "out"))

    def fill(*chunks):
        for chunk in chunks:
            made.append(chunk)
        return made

    yield fill
    made.remove()


def test_output_is_read_by_offset(filled):
    made = filled(b"hello ", b"world")
    assert made.read(6, 100) == b"world"
    assert made.read(11, 100) == b""


def test_a_short_output_is_whole_and_a_long_one_head_and_tail(filled):
    made = filled(b"a" * 10 + b"b" * 10)
    assert made.digest(20) == (b"a" * 10 + b"b" * 10, 0, b"")
    assert made.digest(4) == (b"aa", 16, b"bb")


def test_what_does_not_fit_is_counted_and_its_end_is_kept(filled, monkeypatch):
    monkeypatch.setattr(spool, "CAP", 10)
    made = filled(b"0123456789ab", b"the end")
    assert (made.kept, made.total, made.lost) == (10, 19, 9)
    assert made.digest(8) == (b"0123", 11, b" end")


def test_nothing_is_written_for_a_silent_command(filled, tmp_path):
    made = filled()
    made.remove()
    assert list(tmp_path.iterdir()) == []
