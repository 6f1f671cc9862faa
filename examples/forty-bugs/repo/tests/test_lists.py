import unittest

from daily import lists


class Lists(unittest.TestCase):
    def test_chunks(self):
        self.assertEqual(lists.chunks([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]])

    def test_unique(self):
        self.assertEqual(lists.unique([3, 1, 3, 2, 1]), [3, 1, 2])

    def test_flatten(self):
        self.assertEqual(lists.flatten([1, [2, [3, []]], 4]), [1, 2, 3, 4])

    def test_rotate(self):
        self.assertEqual([lists.rotate([1, 2, 3], places) for places in (0, 1, 5)], [[1, 2, 3], [3, 1, 2], [2, 3, 1]])
