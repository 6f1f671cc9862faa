import unittest

from semver import Range


class Ranges(unittest.TestCase):
    def test_every_condition_must_hold(self):
        wanted = Range.parse(">=1.2.0 <2.0.0")
        self.assertEqual([text for text in ("1.1.9", "1.2.0", "1.99.0", "2.0.0") if text in wanted], ["1.2.0", "1.99.0"])

    def test_caret_and_tilde(self):
        self.assertIn("1.9.0", Range.parse("^1.2.3"))
        self.assertNotIn("2.0.0", Range.parse("^1.2.3"))
        self.assertNotIn("0.3.0", Range.parse("^0.2.3"))
        self.assertNotIn("1.3.0", Range.parse("~1.2.3"))

    def test_one_alternative_is_enough(self):
        self.assertIn("3.1.0", Range.parse("^1.0.0 || ^3.0.0"))

    def test_the_latest_pre_release_is_found(self):
        self.assertEqual(str(Range.parse("<1.0.0").latest(["1.0.0-rc.2", "1.0.0-rc.10", "1.0.0-rc.9"])), "1.0.0-rc.10")
