"""When a schedule is due, in particular in the nights in which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import BadInput
from orchestrator.timetable import Timetable

BERLIN = "Europe/Berlin"


def times(cron: str, begin: str, number: int, timezone: str = BERLIN) -> list[str]:
    """The next times after `begin` (UTC), as days, hours and offsets of the zone."""
    table, moment, found = Timetable.of(cron, timezone), datetime.fromisoformat(begin), []
    for _ in range(number):
        moment = table.after(moment)
        assert moment.tzinfo is UTC
        found.append(moment.astimezone(table.zone).strftime("%d. %H:%M %z"))
    return found


def test_a_job_in_the_hour_that_a_day_does_not_have_comes_when_that_hour_is_over() -> None:
    assert times("30 2 * * *", "2026-03-27T12:00+00:00", 3) == ["28. 02:30 +0100", "29. 03:00 +0200", "30. 02:30 +0200"]


def test_a_job_in_the_hour_that_a_day_has_twice_comes_the_first_time() -> None:
    assert times("30 2 * * *", "2026-10-23T12:00+00:00", 3) == ["24. 02:30 +0200", "25. 02:30 +0200", "26. 02:30 +0100"]


def test_in_the_second_of_two_hours_the_first_one_does_not_come_again() -> None:
    in_the_second = "2026-10-25T01:10+00:00"
    assert times("30 2 * * *", in_the_second, 1) == ["26. 02:30 +0100"]


def test_what_comes_every_half_hour_comes_in_both_of_two_hours_and_not_in_one_that_is_not_there() -> None:
    assert times("*/30 * * * *", "2026-10-24T23:45+00:00", 5) == [
        "25. 02:00 +0200", "25. 02:30 +0200", "25. 02:00 +0100", "25. 02:30 +0100", "25. 03:00 +0100"
    ]  # fmt: skip
    assert times("*/30 * * * *", "2026-03-29T00:10+00:00", 3) == ["29. 01:30 +0100", "29. 03:00 +0200", "29. 03:30 +0200"]


def test_the_zone_decides_what_noon_is() -> None:
    assert times("0 12 * * 1-5", "2026-06-01T00:00+00:00", 1, "Asia/Kolkata") == ["01. 12:00 +0530"]
    assert Timetable.of("0 12 * * *", "UTC").after(datetime(2026, 6, 1, tzinfo=UTC)) == datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("cron", ["", "x", "* * * *", "* * * * * *", "60 * * * *", "* * * * 1#2/3", "²/2 * * * *", "@daily"])
def test_a_line_that_makes_no_sense_is_refused(cron: str) -> None:
    with pytest.raises(BadInput, match="cron: "):
        Timetable.of(cron, "UTC")


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "9" * 150 + " * * * *", " ".join(["*"] * 5) + " " * 200])
def test_a_line_that_never_comes_or_is_too_long_is_refused(cron: str) -> None:
    with pytest.raises(BadInput, match="cron: "):
        Timetable.of(cron, "UTC")


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../../etc/passwd", "/etc/passwd", "America", "UTC\0", "é", "Z" * 5000])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(BadInput, match=r"timezone: .*Europe/Berlin"):
        Timetable.of("* * * * *", zone)


@given(st.text("0123456789*/-,#LW SUNMOAPR", max_size=30))
@settings(max_examples=300, deadline=None)
def test_any_line_is_either_refused_or_due_a_whole_minute_later(cron: str) -> None:
    moment = datetime(2026, 10, 25, 0, 59, 59, 999999, tzinfo=UTC)
    try:
        due = Timetable.of(cron, BERLIN).after(moment)
    except BadInput:
        return
    assert due > moment
    assert due.second == due.microsecond == 0


@given(st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)))
@settings(max_examples=200, deadline=None)
def test_no_two_times_are_less_than_a_minute_apart(moment: datetime) -> None:
    table = Timetable.of("* * * * *", BERLIN)
    first = table.after(moment)
    assert table.after(first) - first == timedelta(minutes=1)
