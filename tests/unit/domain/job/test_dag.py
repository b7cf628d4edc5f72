"""The graph of a job: order, neighbours, levels, cycles."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.domain.job.dag import Dag, find_cycle

DIAMOND = Dag(
    names=("end", "left", "start", "right"),
    edges=(("start", "right"), ("start", "left"), ("left", "end"), ("right", "end")),
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return acyclic graphs whose declaration order says nothing about the order of running."""
    count = draw(st.integers(1, 12))
    ranked = [f"c{i}" for i in range(count)]
    pairs = [(ranked[i], ranked[j]) for j in range(count) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=40)) if pairs else []
    return tuple(draw(st.permutations(ranked))), tuple(edges)


def test_order_respects_edges_and_prefers_the_first_declared() -> None:
    assert DIAMOND.order == ("start", "left", "right", "end")
    free = Dag(names=("b", "a", "c"), edges=())
    assert free.order == ("b", "a", "c")


def test_neighbours_are_in_declaration_order_and_without_repeats() -> None:
    dag = Dag(names=("a", "b", "c"), edges=(("b", "c"), ("a", "c"), ("b", "c")))
    assert dag.upstream("c") == ("a", "b")
    assert dag.downstream("b") == ("c",)
    assert dag.upstream("a") == ()
    assert dag.edges == (("a", "c"), ("b", "c"))


def test_levels_are_the_longest_way_from_a_source() -> None:
    dag = Dag(names=("a", "b", "c", "d"), edges=(("a", "b"), ("b", "c"), ("a", "c")))
    assert dag.levels == (("a", "d"), ("b",), ("c",))
    assert dag.depth("c") == 2


def test_descendants_are_all_that_must_run_again() -> None:
    assert DIAMOND.descendants("start") == ("left", "right", "end")
    assert DIAMOND.descendants("left", "start") == ("left", "right", "end")
    assert DIAMOND.descendants("end") == ()


def test_a_cycle_is_named_and_refused() -> None:
    names, edges = ("a", "b", "c", "d"), (("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"))
    assert find_cycle(names, edges) == ("b", "c", "b")
    assert find_cycle(names, edges[:2]) is None
    assert find_cycle(("a",), (("a", "a"),)) == ("a", "a")
    with pytest.raises(ValueError, match="cycle: b->c->b"):
        Dag(names=names, edges=edges)


@pytest.mark.parametrize(
    ("names", "edges", "message"),
    [
        (("a", "a"), (), "named twice"),
        (("a",), (("a", "x"), ("y", "a")), "unknown components: x, y"),
    ],
)
def test_wrong_names_are_refused(
    names: tuple[str, ...], edges: tuple[tuple[str, str], ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Dag(names=names, edges=edges)


def test_an_empty_graph_has_an_empty_order() -> None:
    empty = Dag(names=(), edges=())
    assert (empty.order, empty.levels) == ((), ())


def test_a_chain_of_5000_needs_no_recursion() -> None:
    names = tuple(f"c{i}" for i in reversed(range(5_000)))
    edges = tuple((f"c{i}", f"c{i + 1}") for i in range(4_999))
    assert Dag(names=names, edges=edges).order == tuple(reversed(names))
    cycle = find_cycle(names, (*edges, ("c4999", "c0")))
    assert cycle is not None
    assert len(cycle) == 5_001


@given(graphs())
def test_every_component_comes_after_its_upstream(
    graph: tuple[tuple[str, ...], tuple[tuple[str, str], ...]],
) -> None:
    names, edges = graph
    dag = Dag(names=names, edges=edges)
    assert sorted(dag.order) == sorted(names)
    place = {name: i for i, name in enumerate(dag.order)}
    assert all(place[up] < place[down] for up, down in edges)
    assert all(dag.depth(up) < dag.depth(down) for up, down in edges)
    assert dag == Dag(names=names, edges=tuple(reversed(edges)))
    assert find_cycle(names, edges) is None


@given(graphs(), st.data())
def test_a_cycle_is_found_wherever_an_edge_closes_one(
    graph: tuple[tuple[str, ...], tuple[tuple[str, str], ...]], data: st.DataObject
) -> None:
    names, edges = graph
    if not edges:
        return
    up, down = data.draw(st.sampled_from(edges))
    closed = (*edges, (down, up))
    cycle = find_cycle(names, closed)
    assert cycle is not None
    assert cycle[0] == cycle[-1]
    assert all(step in closed for step in pairwise(cycle))
