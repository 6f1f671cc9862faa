import unittest

from daily import paths


class Paths(unittest.TestCase):
    def test_extension(self):
        self.assertEqual([paths.extension(name) for name in ("a.tar.GZ", "README", ".profile")], ["gz", "", ""])

    def test_parent(self):
        self.assertEqual([paths.parent(path) for path in ("/a/b", "/a/b/", "/a")], ["/a", "/a", "/"])

    def test_joined(self):
        self.assertEqual([paths.joined("/a/", name) for name in ("b", "/c")], ["/a/b", "/c"])

    def test_depth(self):
        self.assertEqual([paths.depth(path) for path in ("/", "/a//b/")], [0, 2])
