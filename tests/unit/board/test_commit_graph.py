"""Lanes of a graph of commits: who stands where, and which lines meet."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fedflow.board.presenters.commit_graph import (
    HEIGHT,
    WIDTH,
    CommitGraph,
    graph_of,
    measures_of,
)
from fedflow.domain.models.history import Commit, VersionId
from fedflow.domain.models.lists import ModelKind
from fedflow.domain.models.model import ModelKey
from tests.board.seeds import GUEST


def commit(number: int, *parents: int) -> Commit:
    return Commit(
        key=ModelKey(site=GUEST, model_id="m", model_version=str(number)),
        kind=ModelKind.TRAINED,
        initiator=GUEST,
        parents=[VersionId("m", str(one)) for one in parents],
        created_ms=number,
    )


def lanes(graph: CommitGraph) -> list[int]:
    return [round((row.x - WIDTH / 2) / WIDTH) for row in graph.rows]


def ends(graph: CommitGraph, row: int, y: int) -> list[float]:
    """Return where lines of a row meet its upper or lower edge."""
    found = []
    for line in graph.rows[row].lines:
        if line.is_open:
            continue
        first = re.match(r"M([\d.]+) ([\d.]+)", line.path)
        assert first
        if float(first[2]) == y or line.path.endswith(f"V{y}"):
            found.append(float(first[1]))
    return sorted(set(found))


def test_a_line_of_commits_has_one_lane() -> None:
    graph = graph_of([commit(3, 2), commit(2, 1), commit(1)], {})
    assert lanes(graph) == [0, 0, 0]
    assert graph.width == WIDTH
    assert [len(row.lines) for row in graph.rows] == [1, 2, 1]


def test_two_children_of_one_parent_have_two_lanes() -> None:
    graph = graph_of([commit(3, 1), commit(2, 1), commit(1)], {})
    assert lanes(graph) == [0, 1, 0]
    assert graph.width == 2 * WIDTH


def test_a_commit_of_two_parents_leads_to_both() -> None:
    graph = graph_of([commit(4, 3, 2), commit(3, 1), commit(2, 1), commit(1)], {})
    assert lanes(graph) == [0, 0, 1, 0]


def test_a_parent_that_is_not_on_the_page_ends_open() -> None:
    graph = graph_of([commit(3, 9), commit(2)], {})
    (line,) = graph.rows[0].lines
    assert line.is_open
    assert graph.rows[1].lines == []
    assert lanes(graph) == [0, 0]


@st.composite
def histories(draw: st.DrawFn) -> list[Commit]:
    count = draw(st.integers(1, 12))
    numbers = st.integers(0, count + 2)
    return [
        commit(number, *draw(st.lists(numbers, max_size=3, unique=True)))
        for number in range(count, 0, -1)
    ]


@given(histories())
def test_lines_go_on_from_row_to_row(commits: list[Commit]) -> None:
    graph = graph_of(commits, {})
    assert ends(graph, 0, 0) == []
    assert ends(graph, len(commits) - 1, HEIGHT) == []
    for upper, lower in pairwise(range(len(commits))):
        assert ends(graph, upper, HEIGHT) == ends(graph, lower, 0)
    assert all(0 < row.x < graph.width for row in graph.rows)


def test_measures_are_those_of_the_validation() -> None:
    measured = {"validate": {"AUC": 0.8}, "train": {"AUC": 0.9}}
    metrics = {"evaluation_0": {"lr_0": measured}, "lr_0": {"best_iteration": 3, "ok": True}}
    assert measures_of(metrics) == [("auc", 0.8)]
    assert measures_of({}) == []
