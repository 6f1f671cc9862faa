import unittest

from daily import colors


class Colors(unittest.TestCase):
    def test_to_rgb(self):
        self.assertEqual(colors.to_rgb("#ff8001"), (255, 128, 1))

    def test_to_code(self):
        self.assertEqual(colors.to_code(255, 128, 1), "#ff8001")

    def test_mixed(self):
        self.assertEqual(colors.mixed((0, 100, 255), (10, 100, 0)), (5, 100, 127))

    def test_is_dark(self):
        self.assertEqual([colors.is_dark(*color) for color in ((0, 0, 255), (0, 255, 0))], [True, False])
