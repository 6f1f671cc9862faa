import unittest

from daily import dates


class Dates(unittest.TestCase):
    def test_is_leap(self):
        self.assertEqual([year for year in (1900, 2000, 2023, 2024) if dates.is_leap(year)], [2000, 2024])

    def test_weekday(self):
        self.assertEqual(dates.weekday("2024-02-29"), "Thursday")

    def test_clock(self):
        self.assertEqual([dates.clock(seconds) for seconds in (59, 3723, 90000)], ["0:00:59", "1:02:03", "25:00:00"])

    def test_quarter(self):
        self.assertEqual([dates.quarter(month) for month in (1, 3, 4, 12)], [1, 1, 2, 4])
