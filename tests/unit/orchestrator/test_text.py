"""Hostile output, made fit to be shown."""

from __future__ import annotations

import pytest

from orchestrator.text import MAX_LINE, Lines, TerminalFilter, ago, clean, duration, names, one_line, size


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;new title\x07after", "after"),
        ("\x1b]8;;x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;c3RvbGVu\x1b\\x", "x"),
        ("\x1bP1$r0m\x1b\\y", "y"),
        ("\x1b(0lqk", "lqk"),
        ("\x9b2Jwiped", "wiped"),
        ("never ended \x1b]0;title", "never ended 0;title"),
        ("bell\x07 back\x08space\x7f nul\x00", "bell backspace nul"),
        ("\u202egnp.exe", "gnp.exe"),
        ("line\r\nline", "line\nline"),
        ("half \udce4 byte", "half \ufffd byte"),
        ("Grüße, 世界", "Grüße, 世界"),
    ],
)
def test_terminal_sequences_and_control_characters_do_not_get_through(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


def test_a_text_becomes_one_line_of_at_most_a_width() -> None:
    assert one_line("  a\n\n b\tc ") == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_pieces_of_a_stream_become_lines() -> None:
    lines = Lines()

    shown = [*lines.feed("one\ntw"), *lines.feed("o\nthr"), *lines.feed("ee"), *lines.finish()]

    assert shown == ["one", "two", "three"]
    assert list(lines.finish()) == []


def test_a_carriage_return_overwrites_its_line_as_on_a_terminal() -> None:
    assert list(Lines().feed("10 %\r50 %\r100 %\r\n")) == ["100 %"]


def test_an_endless_line_is_shown_in_pieces() -> None:
    lines = Lines()

    shown = [line for _ in range(100) for line in lines.feed("x" * 10_000)] + list(lines.finish())

    assert sum(map(len, shown)) == 1_000_000
    assert max(map(len, shown)) <= MAX_LINE


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["\x1b[1;31mred\x1b[0m\tx\n"], "\x1b[1;31mred\x1b[0m\tx\n\x1b[0m"),
        (["\x1b[3", "1mred"], "\x1b[31mred\x1b[0m"),
        (["a\x1b", "]0;title\x07b"], "ab"),
        (["a\x1b]0;ti", "tle\x1b", "\\b"], "ab"),
        (["\x1b[2J\x1b[Hcleared"], "cleared"),
        (["end \x1b["], "end "),
        (["plain"], "plain"),
    ],
)
def test_a_terminal_gets_colours_and_nothing_else(pieces: list[str], shown: str) -> None:
    terminal = TerminalFilter()

    assert "".join(terminal.feed(piece) for piece in pieces) + terminal.finish() == shown


def test_an_unended_sequence_is_not_held_for_ever() -> None:
    terminal = TerminalFilter()

    shown = "".join(terminal.feed("\x1b]0;" + "x" * 3000) for _ in range(3))

    assert len(shown) >= 3000


def test_durations_sizes_and_ages_are_short() -> None:
    assert [duration(0.04), duration(12.34), duration(59.97), duration(185), duration(7800)] == [
        "0.0 s",
        "12.3 s",
        "1 min 00 s",
        "3 min 05 s",
        "2 h 10 min",
    ]
    assert [size(812), size(1434), size(50 * 1024**2)] == ["812 B", "1.4 KiB", "50.0 MiB"]
    assert [ago(0.2), ago(5), ago(200), ago(7300), ago(86400), ago(5 * 86400)] == [
        "now",
        "5 s ago",
        "3 min ago",
        "2 h ago",
        "1 day ago",
        "5 days ago",
    ]


def test_of_many_names_the_first_ones_are_told() -> None:
    assert names([]) == ""
    assert names(["a", "b"]) == "a, b"
    assert names([str(number) for number in range(12)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
