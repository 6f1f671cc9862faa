"""The calendar and the clock."""

import datetime


def is_leap(year):
    """Whether a year has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 300 == 0)


def weekday(text):
    """The day of the week of `2024-02-29`: `Thursday`."""
    return datetime.date.fromisoformat(text).strftime("%a")


def clock(seconds):
    """Seconds as hours, minutes and seconds: `1:02:03`."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60}:{rest:02}"


def quarter(month):
    """The quarter of the year of a month, both from 1."""
    return month // 3 + 1
