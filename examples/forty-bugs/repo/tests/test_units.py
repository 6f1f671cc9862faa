import unittest

from daily import units


class Units(unittest.TestCase):
    def test_celsius(self):
        self.assertEqual([units.celsius(degrees) for degrees in (32, 212, -40)], [0, 100, -40])

    def test_size(self):
        self.assertEqual([units.size(count) for count in (0, 1024, 1536, 5 * 1024**3)], ["0 B", "1 KiB", "1.5 KiB", "5 GiB"])

    def test_feet(self):
        self.assertEqual([units.feet(meters) for meters in (1.8542, 1.8288)], ["6'1\"", "6'0\""])

    def test_seconds(self):
        self.assertEqual([units.seconds(text) for text in ("90s", "15m", "2h")], [90, 900, 7200])
