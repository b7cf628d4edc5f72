"""The kinds of sections of a model's page: values that templates draw.

Texts that a person wrote or that came from another party are plain `str` cells; nothing here is
markup. A `Table` holds all its rows: `slices` cuts what one page shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fedflow.base.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """A value that is struck out: its column did not pass."""

    value: float | str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceLink:
    """A text that leads to this page with other choices."""

    text: str
    choices: Mapping[str, str]


Cell = str | int | float | bool | None | Dropped | ChoiceLink


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    numeric: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A few named values."""

    kind: ClassVar[str] = "facts"
    title: str
    pairs: Sequence[tuple[str, Cell]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows that can be sorted, searched, paged and downloaded; `id` names it in the address."""

    kind: ClassVar[str] = "table"
    id: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceSection:
    """What else this page can show: `name` is the parameter of the address."""

    kind: ClassVar[str] = "choice"
    name: str
    label: str
    options: Sequence[tuple[str, str]]  #: value, text
    chosen: str
    anchor: str = "chosen"  #: the id of what its answer is about


@dataclass(frozen=True, kw_only=True, slots=True)
class Bars:
    """Values by name as horizontal bars, from the greatest; a table beside it has all of them."""

    kind: ClassVar[str] = "bars"
    title: str
    bars: Sequence[tuple[str, float]]
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """Per bin: stacked or side-by-side bars, with an optional line over them.

    `series` are (name, value per bin); `line` has another scale of its own.
    """

    kind: ClassVar[str] = "groups"
    title: str
    bins: Sequence[str]
    series: Sequence[tuple[str, Sequence[float | None]]]
    stacked: bool = False
    line: tuple[str, Sequence[float | None]] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatMap:
    """A matrix of values from -1 to 1; `id` names it in the address of its data."""

    kind: ClassVar[str] = "heatmap"
    id: str
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitNode:
    """A node of a tree of splits; `look` is `own`, `other` (another party's split) or `leaf`."""

    look: str
    text: str
    end: str = ""  #: of the text, which is never cut
    more: str = ""  #: a second line
    children: Sequence[SplitNode] = ()
    beyond: Mapping[str, str] | None = None  #: choices that draw what follows, if it is left out


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitTree:
    """A tree of splits, from a node on; the table `nodes` has all of its numbers."""

    kind: ClassVar[str] = "splits"
    title: str
    root: SplitNode
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeSection:
    """A sentence."""

    kind: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A JSON value."""

    kind: ClassVar[str] = "tree"
    title: str
    value: Any


Section = Facts | Table | ChoiceSection | Bars | Groups | HeatMap | SplitTree | NoticeSection | Tree


def plain(cell: Cell) -> str | int | float | bool | None:
    """Return what a cell says, without how it is shown."""
    if isinstance(cell, Dropped):
        return cell.value
    return cell.text if isinstance(cell, ChoiceLink) else cell
