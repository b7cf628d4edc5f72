"""Where the nodes of a tree of splits stand, from left to right: numbers for SVG."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.models.sections import SplitNode, SplitTree

WIDTH: Final = 196  #: of a box, pixels
HEIGHT: Final = 40
GAP: Final = 64  #: between two levels
STEP: Final = 50  #: from a leaf to the next one
MARGIN: Final = 4
LETTERS: Final = 25  #: of a line in a box, Chinese ones count twice; the title has all


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnNode:
    """A node with its two lines of text."""

    x: float
    y: float
    look: str
    lines: tuple[str, str]
    title: str
    beyond: Mapping[str, str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnEdge:
    """A way from a node to one that follows, and what it is taken for."""

    path: str
    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeDrawing:
    """A drawn tree, in pixels."""

    width: float
    height: float
    box: tuple[int, int]  #: width and height of each
    boxes: Sequence[DrawnNode]
    edges: Sequence[DrawnEdge]


def tree_of(section: SplitTree) -> TreeDrawing:
    """Return the boxes and edges of a tree, the root at the left, the leaves one below another."""
    boxes: list[DrawnNode] = []
    edges: list[DrawnEdge] = []
    _place(section.root, depth=0, top=0, boxes=boxes, edges=edges)
    return TreeDrawing(
        width=max(box.x + WIDTH + (GAP if box.beyond else MARGIN) for box in boxes),
        height=max(box.y for box in boxes) + HEIGHT + MARGIN,
        box=(WIDTH, HEIGHT),
        boxes=boxes,
        edges=edges,
    )


def _place(
    node: SplitNode, *, depth: int, top: int, boxes: list[DrawnNode], edges: list[DrawnEdge]
) -> tuple[float, int]:
    """Place a node and all below it from the leaf number `top` on; return its y, and the next."""
    x = MARGIN + depth * (WIDTH + GAP)
    following, below = [], top
    for child in node.children:
        y, below = _place(child, depth=depth + 1, top=below, boxes=boxes, edges=edges)
        following.append(y)
    own = sum(following) / len(following) if following else MARGIN + STEP * top
    for y, text in zip(following, ("≤", ">"), strict=False):
        edges.append(_edge(x + WIDTH, own + HEIGHT / 2, y + HEIGHT / 2, text))
    boxes.append(
        DrawnNode(
            x=x,
            y=own,
            look=node.look,
            lines=(f"{_cut(node.text, LETTERS - len(node.end))}{node.end}", node.more),
            title=f"{node.text}{node.end} · {node.more}",
            beyond=node.beyond,
        )
    )
    return own, max(below, top + 1)


def _edge(x: float, start: float, end: float, text: str) -> DrawnEdge:
    middle = x + GAP / 2
    path = f"M{x:g} {start:g} C{middle:g} {start:g} {middle:g} {end:g} {x + GAP:g} {end:g}"
    return DrawnEdge(path=path, x=x + GAP - 14, y=end - 5, text=text)


def _cut(text: str, letters: int) -> str:
    used = 0
    for place, letter in enumerate(text):
        used += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if used > letters:
            return f"{text[: max(0, place - 1)]}…"
    return text
