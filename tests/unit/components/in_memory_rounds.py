"""Rounds without messages: a combiner and members that call each other, for tests of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from fedflow.components.horizontal.packing import layout_of, pack, unpack
from fedflow.components.horizontal.rounds import Combiner, RoundState, Total, Worker
from fedflow.sdk import Site


def nobody(_round: int) -> Set[Site]:
    """Return who is absent from a round."""
    return frozenset()


def run_rounds(
    combiner: Combiner,
    members: Mapping[Site, Worker],
    *,
    absent: Callable[[int], Set[Site]] = nobody,
    most: int = 300,
) -> RoundState:
    """Return the last state, which all members get, those that were absent too."""
    state = combiner.begin({site: member.newcomer for site, member in members.items()})
    for number in range(most):
        if state.ended:
            break
        state = _one_round(combiner, members, state, absent(number))
    assert state.ended, f"not ended after {most} rounds"
    for member in members.values():
        member.took(state)
    return state


def _one_round(
    combiner: Combiner, members: Mapping[Site, Worker], state: RoundState, absent: Set[Site]
) -> RoundState:
    layout = combiner.layout(state)
    counted = {s: m for s, m in members.items() if s not in absent}
    vectors: dict[Site, Any] = {}
    for site, member in counted.items():
        member.took(state)
        parts = member.work(state, tuple(counted))
        assert layout_of(parts) == dict(layout)
        vectors[site] = pack(parts, layout)
    total = sum(vectors.values())
    rows = {site: member.newcomer.rows for site, member in counted.items()}
    sums = Total(arrays=unpack(total, layout), rows=sum(rows.values()), counted=rows)
    return combiner.combine(state, sums)
