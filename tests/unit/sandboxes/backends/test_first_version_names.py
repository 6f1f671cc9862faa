"""The names of the first version of the protocol on our own backends."""

import asyncio
import warnings

import pytest

from sandboxes import protocol as p
from tests.unit.sandboxes.backends.samples import Memory


@pytest.fixture
def ours():
    return Memory({"/a/x.md": "todo\n", "/y.md": "todo\n"})


def test_our_backends_answer_to_the_first_versions_names(ours):
    with pytest.warns(DeprecationWarning, match="ls_info is deprecated: call ls") as caught:
        assert [one["path"] for one in ours.ls_info("/")] == ["/a/", "/y.md"]
    assert (caught[0].filename, len(caught)) == (__file__, 1)
    with pytest.warns(DeprecationWarning, match="glob_info is deprecated: call glob") as caught:
        assert [one["path"] for one in ours.glob_info("*.md")] == ["/a/x.md", "/y.md"]
    assert (caught[0].filename, len(caught)) == (__file__, 1)
    with pytest.warns(DeprecationWarning, match="grep_raw is deprecated: call grep") as caught:
        assert ours.grep_raw("todo", "/a") == [{"path": "/a/x.md", "line": 1, "text": "todo"}]
    assert (caught[0].filename, len(caught)) == (__file__, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_errors_come_as_the_first_version_told_them(ours):
    assert ours.grep_raw("") == "Error: the pattern must not be empty"
    assert ours.ls_info("/none") == ours.glob_info("*", "/none") == []


async def test_the_async_names_warn_where_they_are_called(ours):
    with pytest.warns(DeprecationWarning, match="als_info") as caught:
        listing = asyncio.create_task(ours.als_info("/"))
    assert caught[0].filename == __file__
    assert [one["path"] for one in await listing] == ["/a/", "/y.md"]
    with pytest.warns(DeprecationWarning, match="aglob_info"):
        assert len(await ours.aglob_info("*.md")) == 2
    with pytest.warns(DeprecationWarning, match="agrep_raw"):
        assert len(await ours.agrep_raw("todo")) == 2


def test_a_warning_comes_once_for_each_place_that_calls(ours):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            ours.ls_info("/")
        ours.ls_info("/")
    assert len(caught) == 2


def test_overriding_only_a_first_version_name_is_refused():
    with pytest.raises(TypeError, match=r"Hiding overrides ls_info, .* override ls"):

        class Hiding(Memory):
            def ls_info(self, path):
                return []

    class Mixin:
        async def aglob_info(self, pattern, path="/"):
            return []

    with pytest.raises(TypeError, match="override aglob"):

        class Mixed(Mixin, Memory):
            pass


def test_overriding_both_names_is_fine():
    class Both(Memory):
        def ls_info(self, path):
            return []

        def ls(self, path):
            return p.LsResult(entries=[])

    assert Both().ls("/").entries == Both().ls_info("/") == []
