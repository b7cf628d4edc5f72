"""The bytes of a state, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.rendezvous import RendezvousStateCorrupt
from fedflow.elastic.member import ADDRESS_LENGTH, NAME_LENGTH, MemberIdentity, member_name
from fedflow.elastic.state import (
    MAX_BYTES,
    Membership,
    Presence,
    RendezvousSettings,
    State,
    state_from_bytes,
    state_to_bytes,
)
from tests.unit.elastic.rendezvous import NOW_MS, a_state


def test_a_thousand_members_with_the_longest_names_fit() -> None:
    members = {
        f"{number:0{NAME_LENGTH}d}": Presence(
            membership=Membership.PARTICIPANT,
            heartbeat_ms=NOW_MS + 10**9 * (number % 2),
            address="a" * ADDRESS_LENGTH,
            rank=number,
        )
        for number in range(1_000)
    }
    state = State(round=10**9, size=1_000, members=members)
    raw = state_to_bytes(state)
    assert len(raw) <= MAX_BYTES
    assert state_from_bytes(raw) == state


def good() -> list[Any]:
    """Return the plain form of a state with two ranks."""
    found: list[Any] = json.loads(state_to_bytes(a_state("ab", waiting="c", complete=True)))
    return found


def changed(*path: int, to: Any) -> bytes:
    """Return the bytes of a state with one place replaced."""
    plain = good()
    inner = plain
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return json.dumps(plain).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"null", b"{}", b"[]", b"[1", b"\xff\xfe", b"[" * 100_000, b" " * (MAX_BYTES + 1),
        b"\x80\x04\x95",  # a pickle
        changed(0, to=2), changed(1, to=-1), changed(1, to=2**60), changed(1, to=1.5),
        changed(2, to=0), changed(2, to=True), changed(2, to=1_001), changed(2, to=1),
        changed(3, to="soon"), changed(3, to=1), changed(4, to=None),
        changed(5, to=-1), changed(6, to={}), changed(6, to=[]), changed(6, to=good()[6] * 400),
        changed(6, 0, 0, to="a b"), changed(6, 0, 0, to=""), changed(6, 0, 0, to="a" * 65),
        changed(6, 0, 0, to="a\n"), changed(6, 0, 0, to="b"), changed(6, 0, 1, to="x y"),
        changed(6, 0, 2, to=3), changed(6, 0, 2, to="0"), changed(6, 0, 3, to=1),
        changed(6, 0, 3, to=-2), changed(6, 0, 3, to=1_000), changed(6, 0, 3, to=-1),
        changed(6, 2, 3, to=2), changed(6, 0, 4, to=-1), changed(6, 0, 4, to=float("nan")),
        changed(6, 0, 4, to=2**60), changed(6, 0, to=["a", "", 0, 0, 0, 0]), changed(2, to=False),
    ],
)  # fmt: skip
def test_hostile_bytes_are_refused_with_a_name(raw: bytes) -> None:
    with pytest.raises(RendezvousStateCorrupt):
        state_from_bytes(raw)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    with contextlib.suppress(RendezvousStateCorrupt):
        state_from_bytes(raw)


def test_names_tell_members_of_one_machine_and_process_apart_and_always_fit() -> None:
    names = {
        member_name("db.example.org", process=process, number=number)
        for process in (1, 2)
        for number in (0, 1)
    }
    assert len(names) == 4
    for host in ("", "Übung 1", "h" * 300):
        MemberIdentity(name=member_name(host, process=2**40, number=10**9))


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_members": 0}, {"min_members": 4}, {"max_members": 1_001}, {"join_timeout_s": 0.0},
        {"last_call_s": -1.0}, {"keep_alive_attempts": 0}, {"heartbeat_timeout_s": float("nan")},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    given_: dict[str, Any] = {"run_id": "r", "min_members": 1, "max_members": 3, **wrong}
    with pytest.raises(ValueError):
        RendezvousSettings(**given_)


@pytest.mark.parametrize(("name", "address"), [("", ""), ("a b", ""), ("a", "x\n"), ("a\n", "")])
def test_a_member_with_a_name_that_no_state_holds_is_refused(name: str, address: str) -> None:
    with pytest.raises(ValueError):
        MemberIdentity(name=name, address=address)
