import unittest

from daily import numbers


class Numbers(unittest.TestCase):
    def test_clamp(self):
        self.assertEqual([numbers.clamp(value, 1, 5) for value in (0, 3, 9)], [1, 3, 5])

    def test_is_prime(self):
        self.assertEqual([number for number in range(30) if numbers.is_prime(number)], [2, 3, 5, 7, 11, 13, 17, 19, 23, 29])

    def test_digits_sum(self):
        self.assertEqual([numbers.digits_sum(number) for number in (0, 407, -25)], [0, 11, 7])

    def test_mean(self):
        self.assertEqual([numbers.mean(values) for values in ([], [1, 2], [4])], [0, 1.5, 4])
