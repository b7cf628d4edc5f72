"""The history of a model version as a drawing: where it comes from, and what came of it.

Columns from left to right: what it was made from, the version, what was deployed from it, the jobs
that predicted. A column shows at most `MOST` boxes; the lists beside the drawing have all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from fedflow.base.values import dataclass

MOST: Final = 12  #: boxes of a column
WIDTH: Final = 190  #: of a box, in units of the drawing
HEIGHT: Final = 44
GAP_X: Final = 60
GAP_Y: Final = 14
MARGIN: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryItem:
    """What a box stands for; `of` are the names of those that it comes from."""

    name: str
    title: str
    detail: str
    url: str = ""
    of: tuple[str, ...] = ()
    kind: str = "version"  #: `job`, `version`, `child` or `use`
    is_current: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """An item with the place of its box."""

    item: HistoryItem
    x: int
    y: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """Boxes and the paths between them, in a view of `width` by `height`."""

    boxes: Sequence[Box] = field(default=())
    paths: Sequence[str] = field(default=())
    width: int = 0
    height: int = 0
    left_out: int = 0  #: items without a box


def draw(columns: Sequence[Sequence[HistoryItem]]) -> Drawing:
    """Return the drawing of columns of items; an empty column takes no room."""
    filled = [column for column in columns if column]
    tallest = max((min(len(c), MOST) for c in filled), default=0)
    height = tallest * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN if tallest else 0
    boxes: dict[str, Box] = {}
    for number, column in enumerate(filled):
        shown = column[:MOST]
        own = len(shown) * (HEIGHT + GAP_Y) - GAP_Y
        top = MARGIN + (height - 2 * MARGIN - own) // 2
        for place, item in enumerate(shown):
            boxes[item.name] = Box(
                item=item,
                x=MARGIN + number * (WIDTH + GAP_X),
                y=top + place * (HEIGHT + GAP_Y),
            )
    paths = [
        _path(boxes[source], box)
        for box in boxes.values()
        for source in box.item.of
        if source in boxes
    ]
    return Drawing(
        boxes=list(boxes.values()),
        paths=paths,
        width=len(filled) * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN if filled else 0,
        height=height,
        left_out=sum(max(0, len(column) - MOST) for column in filled),
    )


def _path(source: Box, target: Box) -> str:
    """Return a curve from the right side of one box to the left side of another."""
    x1, y1 = source.x + WIDTH, source.y + HEIGHT // 2
    x2, y2 = target.x, target.y + HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
