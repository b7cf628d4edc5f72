"""Sections with what a template draws of them: the page of a table, where bars stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedflow.base.values import dataclass
from fedflow.board.presenters.models.drawing import BarDrawing, ChartDrawing, bars_of, chart_of
from fedflow.board.presenters.models.sections import (
    Bars,
    Groups,
    HeatMap,
    Section,
    SplitTree,
    Table,
)
from fedflow.board.presenters.models.slices import Slice, slice_of
from fedflow.board.presenters.models.tree_drawing import TreeDrawing, tree_of


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedSection:
    """A section, and one of the others if its kind has it."""

    section: Section
    slice: Slice | None = None
    bars: list[BarDrawing] | None = None
    chart: ChartDrawing | None = None
    tree: TreeDrawing | None = None

    @property
    def kind(self) -> str:
        """Return the kind, by which templates choose."""
        return self.section.kind


def shown(sections: Iterable[Section], asked: Mapping[str, str]) -> list[SelectedSection]:
    """Return what an address asks for of each section."""
    found = []
    for section in sections:
        if isinstance(section, Table):
            found.append(SelectedSection(section=section, slice=slice_of(section, asked)))
        elif isinstance(section, Bars):
            found.append(SelectedSection(section=section, bars=bars_of(section)))
        elif isinstance(section, Groups):
            found.append(SelectedSection(section=section, chart=chart_of(section)))
        elif isinstance(section, SplitTree):
            found.append(SelectedSection(section=section, tree=tree_of(section)))
        else:
            found.append(SelectedSection(section=section))
    return found


def table_named(sections: Iterable[Section], name: str) -> Table | None:
    """Return the table with an id, None if there is none."""
    return next((s for s in sections if isinstance(s, Table) and s.id == name), None)


def map_named(sections: Iterable[Section], name: str) -> HeatMap | None:
    """Return the heat map with an id, None if there is none."""
    return next((s for s in sections if isinstance(s, HeatMap) and s.id == name), None)
