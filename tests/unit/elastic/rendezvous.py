"""Builders of states: only what matters is named."""

from __future__ import annotations

from fedflow.elastic.operators import View
from fedflow.elastic.state import NO_RANK, Membership, Presence, RendezvousSettings, State

NOW_MS = 1_800_000_000_000
SETTINGS = RendezvousSettings(run_id="r", min_members=2, max_members=3)


def a_state(
    participants: str = "", waiting: str = "", redundant: str = "", *, complete: bool = False,
    closed: bool = False, round_: int = 0, deadline_ms: int | None = None,
    ages_s: dict[str, float] | None = None,
) -> State:  # fmt: skip
    """Return a state of members with names of one letter; `ages_s` are those of heartbeats."""
    ages = ages_s or {}
    members = {}
    for membership, names in zip(Membership, (participants, waiting, redundant), strict=True):
        for name in names:
            ranked = complete and membership is Membership.PARTICIPANT
            members[name] = Presence(
                membership=membership,
                heartbeat_ms=NOW_MS - int(ages.get(name, 0) * 1000),
                rank=sorted(participants).index(name) if ranked else NO_RANK,
            )
    return State(
        round=round_,
        size=len(participants) if complete else 0,
        deadline_ms=deadline_ms,
        closed=closed,
        members=members,
    )


def seen(state: State, name: str = "a", *, late_s: float = -1.0, now_ms: int = NOW_MS) -> View:
    """Return what a member sees of a state."""
    return View(state=state, name=name, settings=SETTINGS, now_ms=now_ms, late_s=late_s)
