import unittest

from semver import Version


def in_order(*texts):
    return [str(version) for version in sorted(Version.parse(text) for text in texts)]


class Reading(unittest.TestCase):
    def test_a_version_has_its_parts(self):
        version = Version.parse("1.20.3-rc.1+linux.x86")
        self.assertEqual(version.release, (1, 20, 3))
        self.assertEqual(version.pre, ("rc", "1"))
        self.assertEqual(version.build, ("linux", "x86"))

    def test_it_is_written_as_it_was_read(self):
        for text in ("0.0.1", "1.2.3-alpha", "1.2.3-0.x-y.7", "1.2.3+001", "1.2.3-rc.1+linux"):
            self.assertEqual(str(Version.parse(text)), text)

    def test_what_is_no_version_is_refused(self):
        for text in ("", "1", "1.2", "01.2.3", "1.2.3-", "1.2.3-rc..1", "1.2.3-01", "v1.2.3", "1.2.3 "):
            with self.assertRaises(ValueError, msg=text):
                Version.parse(text)


class Ordering(unittest.TestCase):
    def test_numbers_are_compared_as_numbers(self):
        self.assertEqual(in_order("1.10.0", "1.9.0", "1.2.10", "1.2.9"), ["1.2.9", "1.2.10", "1.9.0", "1.10.0"])

    def test_a_release_comes_after_its_pre_releases(self):
        self.assertEqual(in_order("1.0.0", "1.0.0-rc.1"), ["1.0.0-rc.1", "1.0.0"])

    def test_numbered_pre_releases_are_compared_as_numbers(self):
        self.assertEqual(in_order("1.0.0-rc.10", "1.0.0-rc.9"), ["1.0.0-rc.9", "1.0.0-rc.10"])

    def test_the_example_of_the_specification(self):
        alphas = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta"]
        expected = [*alphas, "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"]
        self.assertEqual(in_order(*reversed(expected)), expected)

    def test_the_build_part_does_not_count(self):
        self.assertEqual(Version.parse("1.0.0+a"), Version.parse("1.0.0+b"))
        self.assertEqual(len({Version.parse("1.0.0+a"), Version.parse("1.0.0+b")}), 1)


class Bumping(unittest.TestCase):
    def test_the_next_version(self):
        version = Version.parse("1.2.3")
        self.assertEqual([str(version.bump(part)) for part in ("major", "minor", "patch")], ["2.0.0", "1.3.0", "1.2.4"])

    def test_a_pre_release_becomes_its_release(self):
        self.assertEqual(str(Version.parse("1.2.3-rc.1").bump("patch")), "1.2.3")
