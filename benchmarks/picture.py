"""Curves as a small SVG, without any library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 56
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#7f7f7f")
STEPS = (1, 2, 2.5, 5, 10)
LINES = 5
"""About as many lines of a grid in each direction."""
POINTS = 200
"""Of a curve: more could not be told apart."""

Curve = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """From 0 to `end`, which a grid of `step` reaches."""

    end: float
    step: float

    @classmethod
    def to(cls, most: float) -> Axis:
        """One that has room for this."""
        rough = max(most, 1e-9) / LINES
        power = 10.0 ** (len(f"{int(rough)}") - 1) if rough >= 1 else 0.1
        step = next((power * one for one in STEPS if power * one >= rough), power * 10)
        count = -(-most // step)
        return cls(step * max(count, 1), step)

    def marks(self) -> list[float]:
        """The lines of the grid."""
        return [self.step * number for number in range(round(self.end / self.step) + 1)]


def svg(title: str, across: str, up: str, curves: Mapping[str, Curve]) -> str:
    """Points joined by lines, a colour for each curve; `across` and `up` say what the axes are."""
    points = [point for curve in curves.values() for point in curve]
    x, y = Axis.to(max(point[0] for point in points)), Axis.to(max(point[1] for point in points))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        right = LEFT + point[0] / x.end * (WIDTH - LEFT - RIGHT)
        return round(right, 1), round(HEIGHT - BOTTOM - point[1] / y.end * (HEIGHT - TOP - BOTTOM), 1)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 16, title, "middle", 'font-size="13"'),
    ]
    for mark in x.marks():
        at, low = place((mark, 0))
        lines += [_line(at, low, at, TOP), _text(at, low + 14, f"{mark:g}", "middle")]
    for mark in y.marks():
        at, low = place((0, mark))
        lines += [_line(at, low, WIDTH - RIGHT, low), _text(at - 6, low + 4, f"{mark:g}", "end")]
    lines.append(_text(WIDTH / 2, HEIGHT - BOTTOM + 30, across, "middle"))
    lines.append(_text(0, 0, up, "middle", f'transform="translate(14 {(HEIGHT - BOTTOM + TOP) / 2:.0f}) rotate(-90)"'))
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn = " ".join(f"{right},{height}" for right, height in map(place, _thinned(curve)))
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{drawn}"/>')
        at = LEFT + number * (WIDTH - LEFT - RIGHT) / len(curves)
        lines.append(f'<rect x="{at:.0f}" y="{HEIGHT - 18}" width="10" height="10" fill="{colour}"/>')
        lines.append(_text(at + 14, HEIGHT - 9, name, "start"))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _thinned(curve: Curve) -> Curve:
    step = -(-len(curve) // POINTS)
    return [*curve[:-1:step], curve[-1]]


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="#ddd"/>'
