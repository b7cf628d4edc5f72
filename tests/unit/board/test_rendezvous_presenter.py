"""What the page of rendezvous shows."""

from __future__ import annotations

from fedflow.board.presenters.rendezvous import run_view
from fedflow.domain.administration.rendezvous import Run, RunKey
from fedflow.elastic.state import Membership, Presence, State, state_to_bytes
from fedflow.elastic.stored import text_of


def run(text: str) -> Run:
    key = RunKey(scope="party:0", run_id="r")
    return Run(key=key, caller="clients", token="", text=text, created_ms=1, updated_ms=2)


def test_participants_stand_by_rank_before_those_who_wait() -> None:
    members = {
        "a_1_0": Presence(membership=Membership.WAITING, heartbeat_ms=5),
        "b_1_0": Presence(membership=Membership.PARTICIPANT, heartbeat_ms=5, rank=0),
        "c_1_0": Presence(membership=Membership.PARTICIPANT, heartbeat_ms=5, rank=1),
    }
    found = run_view(run(text_of(state_to_bytes(State(round=1, size=2, members=members)))))
    assert [(line.name, line.rank) for line in found.members] == [
        ("b_1_0", 0), ("c_1_0", 1), ("a_1_0", None),
    ]  # fmt: skip
    assert (found.participants, found.waiting) == (2, 1)


def test_what_cannot_be_read_has_no_state() -> None:
    assert run_view(run("00000000AAAA")).state is None
