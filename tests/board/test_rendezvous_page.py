"""The page of the runs of rendezvous that a server stores."""

from __future__ import annotations

import pytest

from fedflow.app.administration.rendezvous import RunCaller
from fedflow.elastic.state import Membership, Presence, State, state_to_bytes
from fedflow.elastic.stored import text_of
from tests.board.jobs_to_submit import Person
from tests.board.places import Place

pytestmark = pytest.mark.timeout(600)
CALLER = RunCaller(party_id="0", counted="clients")


def test_an_empty_page_says_how_a_run_begins_and_a_run_shows_its_members(seeded: Place) -> None:
    person = Person(seeded.url)
    assert "--rdzv-backend=fedflow" in person.get("/board/rendezvous").text
    there = Presence(membership=Membership.PARTICIPANT, heartbeat_ms=1, rank=0)
    late = Presence(membership=Membership.WAITING, heartbeat_ms=2)
    state = State(round=3, size=1, members={"node-a_1_0": there, "node-b_1_0": late})
    runs = seeded.services.rendezvous
    runs.run("my-run", caller=CALLER).write(text_of(state_to_bytes(state)), None)
    runs.run("odd", caller=CALLER).write("00000000AAAA", None)
    page = person.get("/board/rendezvous").text
    for text in ("my-run", "3, complete", "node-a_1_0", "node-b_1_0", "waits"):
        assert text in page
    assert page.count("Its state cannot be read.") == 1
