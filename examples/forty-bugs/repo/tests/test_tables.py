import unittest

from daily import tables


class Tables(unittest.TestCase):
    def test_invert(self):
        self.assertEqual(tables.invert({"a": 1, "b": 2}), {1: "a", 2: "b"})

    def test_merged(self):
        self.assertEqual(tables.merged({"a": 1, "b": 1}, {"b": 2}), {"a": 1, "b": 2})

    def test_without(self):
        self.assertEqual(tables.without({"a": 1, "b": 2}, ["a", "c"]), {"b": 2})

    def test_most_common(self):
        self.assertEqual([tables.most_common(values) for values in ([], ["b", "a", "a", "b", "c"])], [None, "b"])
