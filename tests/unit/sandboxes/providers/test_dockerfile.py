"""A Dockerfile is read before any platform sees it: what could reach further than the sandbox may is refused, with its line."""

import pytest

from sandboxes.errors import InvalidSpec, Unsupported
from sandboxes.providers.base import Capabilities, SandboxSpec
from sandboxes.providers.dockerfile import Dockerfile, bases, check, check_reach, instructions


def test_continued_lines_are_one_instruction_and_comments_are_none():
    text = "# a comment\nFROM base\nRUN one && \\\n  # between\n\n  two\ncopy a b\n"
    assert [(one.word, one.end) for one in instructions(text)] == [("FROM", 2), ("RUN", 6), ("COPY", 7)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RUN true\n", "does not begin with FROM"),
        ("FROM a\nNONSENSE x\n", "line 2: 'NONSENSE'"),
        ("FROM a\nADD http://127.0.0.1/x /x\n", "line 2: ADD"),
        ("FROM a\nADD ht\\\ntp:/\\\n/127.0.0.1/x /x\n", "line 4: ADD"),
        ("FROM a\nENV U=http:\nADD $U /x\n", "line 3: ADD"),
        ("FROM a\nADD git@there:x.git /x\n", "line 2: ADD"),
        ("FROM a\nONBUILD RUN evil\n", "line 2: ONBUILD"),
        ("FROM a\nRUN <<END\nevil\nEND\n", "line 2: here-documents"),
        ("# syntax=stranger/frontend\nFROM a\n", "line 1: `# syntax=stranger/frontend`"),
        ("#!/usr/bin/env x\n# syntax=stranger/frontend\nFROM a\n", "line 2: `# syntax"),
        ("# escape=`\nFROM a\n", "line 1: `# escape=`"),
        ("FROM a\nENV A=b \\\u2003\nRUN evil\n", r"line 2: the character '\\u2003'"),
        ("FROM a\nENV A=b\rRUN evil\n", "line 2: the character"),
    ],
)
def test_what_builders_could_be_misled_by_is_refused_with_its_line(text, why):
    with pytest.raises(InvalidSpec, match=why):
        check(text)


def test_the_usual_frontend_and_line_ends_of_windows_are_fine():
    assert [one.word for one in check("# syntax=docker/dockerfile:1\r\nARG V=1\r\nFROM a:$V\r\nADD . /app\r\n")] == [
        "ARG",
        "FROM",
        "ADD",
    ]


def test_the_images_that_it_takes_something_from_are_named_and_its_own_stages_are_not():
    text = "FROM --platform=linux/amd64 one AS Build\nFROM build\nCOPY --chown=1 --from=build a b\n"
    text += "COPY --from=0 a b\nCOPY --from=two a b\nFROM scratch\n"
    assert bases(text) == ["one", "two"]


@pytest.mark.parametrize(("network", "refused"), [("none", True), ("allowlist", True), ("public", False)])
def test_where_a_build_always_has_a_network_run_is_refused_to_who_may_have_none(network, refused):
    check_reach("FROM a\nCOPY a b\n", network, "there")
    if refused:
        with pytest.raises(Unsupported, match=f"`network` is {network}.*`network: public`"):
            check_reach("FROM a\nRUN x\n", network, "there")
    else:
        check_reach("FROM a\nRUN x\n", network, "there")


def test_a_spec_has_one_image():
    with pytest.raises(ValueError, match="an image or a dockerfile"):
        SandboxSpec(image="a", dockerfile=Dockerfile(path="b"))


def test_what_declares_no_dockerfiles_misses_them():
    assert Capabilities(pids=True).missing(SandboxSpec(dockerfile=Dockerfile(path="x"))) == ["dockerfile"]


@pytest.mark.parametrize("fields", [{}, {"path": "a", "archive": "b"}, {"archive": "b", "context": "c"}])
def test_a_dockerfile_has_one_source(fields):
    with pytest.raises(ValueError, match="give a Dockerfile by its path"):
        Dockerfile(**fields)
