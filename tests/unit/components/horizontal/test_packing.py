"""Named arrays as one vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedflow.components.horizontal.messages import state_body, state_of
from fedflow.components.horizontal.packing import layout_of, pack, unpack
from fedflow.components.horizontal.rounds import (
    HISTORY,
    Participation,
    RoundState,
    check_history,
    history_with,
)
from fedflow.sdk import Role, Site

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
NAMED = st.dictionaries(
    st.text(min_size=1, max_size=5),
    arrays(np.float64, array_shapes(min_dims=0, max_dims=3, max_side=4), elements=FINITE),
    min_size=1,
    max_size=4,
)
MEMBERS = [Site(Role.GUEST, "1"), Site(Role.HOST, "2"), Site(Role.HOST, "3")]


@given(NAMED)
def test_what_was_packed_is_unpacked(named: dict[str, Any]) -> None:
    layout = layout_of(named)
    found = unpack(pack(named, layout), layout)
    assert list(found) == list(named)
    assert all(np.array_equal(found[name], named[name]) for name in named)


@given(NAMED, st.integers(0, 100), st.booleans())
def test_a_state_keeps_its_digest_on_its_way(named: Any, number: int, ended: bool) -> None:
    state = RoundState(round=number, arrays=named, notes={"a": [1, None]}, ended=ended)
    assert state_of(state_body(state)).digest == state.digest


@given(NAMED)
def test_states_that_differ_have_other_digests(named: dict[str, Any]) -> None:
    state = RoundState(round=1, arrays=named)
    changed = {name: one + 1.0 for name, one in named.items()}
    others = [
        RoundState(round=2, arrays=named),
        RoundState(round=1, arrays=named, ended=True),
        RoundState(round=1, arrays=named, notes={"x": 1}),
    ]
    if any(not np.array_equal(changed[name], named[name]) for name in named):
        others.append(RoundState(round=1, arrays=changed))
    assert state.digest not in {one.digest for one in others}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_not_packed(bad: float) -> None:
    named = {"w": np.array([1.0, bad])}
    with pytest.raises(ValueError, match="'w' has a number that is not finite"):
        pack(named, layout_of(named))


@given(st.lists(st.sets(st.sampled_from(MEMBERS), min_size=1), max_size=12))
def test_the_history_says_of_every_round_who_took_part(rounds: list[set[Site]]) -> None:
    notes: dict[str, Any] = {}
    for number, counted in enumerate(rounds):
        one = Participation(
            round=number,
            counted=dict.fromkeys(sorted(counted, key=lambda s: s.order), 1),
            left_out={site: "gone" for site in MEMBERS if site not in counted},
            seconds=0.0,
        )
        notes = {HISTORY: history_with(notes, one)}
    check_history(notes, len(rounds))
    found = [
        set(entry["counted"])
        for entry in notes.get(HISTORY, ())
        for _ in range(entry["first"], entry["last"] + 1)
    ]
    assert found == [{site.key for site in counted} for counted in rounds]


def test_a_history_with_a_gap_is_none() -> None:
    entry = {"counted": {}, "left_out": {}}
    for entries in (
        [{"first": 1, "last": 1, **entry}],
        [{"first": 0, "last": 0, **entry}, {"first": 2, "last": 2, **entry}],
        [{"first": 0, "last": 3, **entry}],
        "x",
    ):
        with pytest.raises(ValueError, match="rounds"):
            check_history({HISTORY: entries}, 3)
