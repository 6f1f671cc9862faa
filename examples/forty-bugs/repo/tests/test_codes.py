import unittest

from daily import codes


class Codes(unittest.TestCase):
    def test_rot13(self):
        self.assertEqual(codes.rot13("Hello, World!"), "Uryyb, Jbeyq!")

    def test_roman(self):
        self.assertEqual([codes.roman(number) for number in (4, 1994, 2024)], ["IV", "MCMXCIV", "MMXXIV"])

    def test_luhn(self):
        self.assertEqual([codes.luhn(number) for number in ("4539578763621486", "4539578763621487")], [True, False])

    def test_runs(self):
        self.assertEqual(codes.runs("aabccc"), "2a1b3c")
