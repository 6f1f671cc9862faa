import unittest

from daily import text


class Text(unittest.TestCase):
    def test_slug(self):
        self.assertEqual(text.slug("  Hello, World: 2 of 3!"), "hello-world-2-of-3")

    def test_initials(self):
        self.assertEqual(text.initials("Ada king Lovelace"), "AKL")

    def test_shorten(self):
        self.assertEqual([text.shorten("a long text", width) for width in (11, 10)], ["a long text", "a long ..."])

    def test_is_palindrome(self):
        self.assertTrue(text.is_palindrome("Never odd, or even."))
