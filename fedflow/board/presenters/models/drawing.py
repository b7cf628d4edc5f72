"""Where bars and lines stand: numbers for SVG that templates write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.models.sections import Bars, Groups

HEIGHT: Final = 180  #: of the area of a chart, pixels
STEPS: Final = (56.0, 110.0)  #: pixels per bin: the least and the most
WIDE: Final = 760  #: pixels that few bins fill
LEFT: Final = 96  #: room for numbers, and for the slanted name of the first bin
RIGHT: Final = 56
TOP: Final = 12
BOTTOM: Final = 84

Scale = Callable[[float], float]  #: from a value to its y


@dataclass(frozen=True, kw_only=True, slots=True)
class BarDrawing:
    """A horizontal bar, in percent of the width."""

    name: str
    value: float
    start: float
    length: float
    series: int  #: 1 = not negative, 2 = negative


@dataclass(frozen=True, kw_only=True, slots=True)
class Rect:
    """A vertical bar, in pixels."""

    x: float
    y: float
    width: float
    height: float
    series: int  #: from 1
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A mark of an axis."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartDrawing:
    """A chart of groups, in pixels."""

    width: float
    height: float
    zero: float  #: y of the value 0
    left: float
    right: float
    bottom: float
    rects: Sequence[Rect]
    line: str  #: points of a polyline
    dots: Sequence[tuple[float, float, str]]
    ticks: Sequence[Tick]
    line_ticks: Sequence[Tick]
    labels: Sequence[Tick]


def bars_of(section: Bars) -> list[BarDrawing]:
    """Return bars from a common zero, which is in the middle if some values are negative."""
    values = [value for _, value in section.bars]
    low, high = min([0.0, *values]), max([0.0, *values])
    span = (high - low) or 1.0
    found = []
    for name, value in section.bars:
        start, end = sorted(((0.0 - low) / span, (value - low) / span))
        found.append(
            BarDrawing(
                name=name,
                value=value,
                start=round(100 * start, 2),
                length=round(max(0.3, 100 * (end - start)), 2),
                series=2 if value < 0 else 1,
            )
        )
    return found


def chart_of(section: Groups) -> ChartDrawing:
    """Return the bars of every bin, with the line over them if there is one."""
    count = len(section.bins)
    step = min(STEPS[1], max(STEPS[0], WIDE / max(1, count)))
    low, high = _range(section)
    y = _scale(low, high)
    rects: list[Rect] = []
    for place in range(count):
        rects += _group(section, place, y, step)
    points, line_ticks = _line(section, y, step)
    return ChartDrawing(
        width=round(LEFT + step * count + RIGHT, 2),
        height=TOP + HEIGHT + BOTTOM,
        zero=y(0.0),
        left=LEFT,
        right=round(LEFT + step * count, 2),
        bottom=TOP + HEIGHT,
        rects=rects,
        line=" ".join(f"{px:g},{py:g}" for px, py, _ in points),
        dots=points,
        ticks=_ticks(low, high, y),
        line_ticks=line_ticks,
        labels=[Tick(at=_middle(i, step), text=name) for i, name in enumerate(section.bins)],
    )


def _range(section: Groups) -> tuple[float, float]:
    """Return the least and the greatest value that is drawn, 0 among them."""
    if section.stacked:
        sums = [
            sum(max(0.0, _value(values, place)) for _, values in section.series)
            for place in range(len(section.bins))
        ]
        return 0.0, max([0.0, *sums])
    values = [value for _, series in section.series for value in series if value is not None]
    return min([0.0, *values]), max([0.0, *values])


def _group(section: Groups, place: int, y: Scale, step: float) -> list[Rect]:
    left, inner = LEFT + step * place + 0.1 * step, 0.8 * step
    found = []
    below = 0.0
    for number, (name, values) in enumerate(section.series):
        value = _value(values, place)
        said = f"{section.bins[place]}: {name} {value:g}"
        if section.stacked:
            low, high = below, below + max(0.0, value)
            below, x, width = high, left, inner
        else:
            low, high = min(0.0, value), max(0.0, value)
            width = inner / len(section.series)
            x = left + width * number
        height = round(y(low) - y(high), 2)
        rect = Rect(
            x=round(x, 2), y=y(high), width=round(width, 2), height=height, series=number + 1,
            title=said,
        )  # fmt: skip
        found.append(rect)
    return found


def _line(
    section: Groups, y: Scale, step: float
) -> tuple[list[tuple[float, float, str]], list[Tick]]:
    """Return the points of the line, and marks of its own scale if it has one."""
    if section.line is None:
        return [], []
    name, values = section.line
    known = [value for value in values if value is not None]
    own_scale = all(list(values) != list(series) for _, series in section.series)
    ticks: list[Tick] = []
    scale = y
    if own_scale and known:
        low, high = min([0.0, *known]), max([0.0, *known])
        scale = _scale(low, high)
        ticks = _ticks(low, high, scale)
    points = [
        (_middle(i, step), scale(value), f"{section.bins[i]}: {name} {value:g}")
        for i, value in enumerate(values)
        if value is not None and i < len(section.bins)
    ]
    return points, ticks


def _ticks(low: float, high: float, scale: Scale) -> list[Tick]:
    """Return marks at both ends and at 0, or half way if an end is 0."""
    between = 0.0 if low < 0 < high else (low + high) / 2
    return [Tick(at=scale(value), text=f"{value:.3g}") for value in (low, between, high)]


def _middle(place: int, step: float) -> float:
    return round(LEFT + step * (place + 0.5), 2)


def _scale(low: float, high: float) -> Scale:
    span = (high - low) or 1.0
    return lambda value: round(TOP + HEIGHT * (high - value) / span, 2)


def _value(values: Sequence[float | None], place: int) -> float:
    return (values[place] or 0.0) if place < len(values) else 0.0
