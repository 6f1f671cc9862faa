import unittest

from daily import shapes


class Shapes(unittest.TestCase):
    def test_distance(self):
        self.assertEqual(shapes.distance((1, 1), (4, 5)), 5)

    def test_area(self):
        self.assertEqual([shapes.area(corners) for corners in ([(1, 1), (5, 1), (1, 4)], [(1, 4), (5, 1), (1, 1)])], [6, 6])

    def test_inside(self):
        self.assertEqual([shapes.inside(point, (0, 0), (2, 2)) for point in ((1, 1), (2, 2), (1, 3))], [True, True, False])

    def test_center(self):
        self.assertEqual(shapes.center([(0, 0), (4, 0), (2, 3)]), (2, 1))
