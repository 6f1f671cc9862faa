"""Files under way."""

import errno
import os
import stat

import pytest

from sandboxes.toolbox.helper.drafts import Draft


@pytest.fixture(params=["nameless", "named"])
def folder(request, tmp_path, monkeypatch):
    """A folder on a file system that has nameless files, and on one that has none."""
    if request.param == "named":
        real = os.open

        def without_nameless_files(path, flags, mode=0o777):
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, "no nameless files here")
            return real(path, flags, mode)

        monkeypatch.setattr(os, "open", without_nameless_files)
    return tmp_path


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_draft_is_there_whole_once_it_is_published(folder):
    draft = Draft(str(folder / "new" / "a"), 0o640)
    draft.write(b"world", 6)
    draft.write(b"hello ")
    assert not (folder / "new" / "a").exists()
    draft.publish(str(folder / "new" / "a"), exclusive=True)
    draft.close()
    assert (folder / "new" / "a").read_bytes() == b"hello world"
    assert stat.S_IMODE((folder / "new" / "a").stat().st_mode) == 0o640
    assert names(folder / "new") == ["a"]


def test_a_draft_replaces_what_is_there_only_when_it_may(folder):
    (folder / "a").write_text("old")
    draft = Draft(str(folder / "a"))
    draft.write(b"new")
    with pytest.raises(FileExistsError):
        draft.publish(str(folder / "a"), exclusive=True)
    assert (folder / "a").read_text() == "old"
    draft.publish(str(folder / "a"), exclusive=False)
    draft.close()
    assert (folder / "a").read_text() == "new"
    assert names(folder) == ["a"]


def test_a_draft_that_is_given_up_leaves_nothing(folder):
    draft = Draft(str(folder / "a"))
    draft.write(b"x")
    draft.close()
    assert names(folder) == []
