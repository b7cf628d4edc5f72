"""Whose runs a server stores, and how many."""

from __future__ import annotations

import pytest

from fedflow.app.administration.rendezvous import RendezvousRuns, RunCaller, RunLink
from fedflow.base.errors.rendezvous import RendezvousNotAllowed
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.domain.administration.rendezvous import (
    KEPT_MS,
    MAX_RUNS,
    MAX_RUNS_OF_ONE,
    MAX_STATE_TEXT,
    RunKey,
)
from tests.contract.store.conftest import Make
from tests.memory_store import MemoryStore

TEXT = "00000000"
JOB = "202611201000000000000000"


class Turned:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000


@pytest.fixture
def clock() -> Turned:
    return Turned()


@pytest.fixture
def runs(clock: Turned) -> RendezvousRuns:
    return RendezvousRuns(store=MemoryStore(), clock=clock)


def by(party_id: str, counted: str = "") -> RunCaller:
    return RunCaller(party_id=party_id, counted=counted or f"party {party_id}")


def begin(runs: RendezvousRuns, run_id: str, *, caller: RunCaller) -> RunLink:
    link = runs.run(run_id, caller=caller)
    assert link.write(TEXT, None).was_set
    return link


def test_runs_of_different_parties_are_apart_though_their_ids_agree(runs: RendezvousRuns) -> None:
    begin(runs, "r", caller=by("9999"))
    assert runs.run("r", caller=by("10000")).read(None).token is None
    assert runs.run("r", caller=by("9999", "another address")).read(None).text == TEXT


def test_a_run_of_a_job_is_for_its_parties_alone(runs: RendezvousRuns) -> None:
    with runs._store.transaction() as tx:
        tx.jobs.add(Make().job(JOB))
    guest = runs.run("r", caller=by("9999"), job_id=JOB)
    assert guest.write(TEXT, None).was_set
    assert runs.run("r", caller=by("10000"), job_id=JOB).read(None).text == TEXT
    assert runs.run("r", caller=by("9999")).read(None).token is None
    for party, job in (
        ("8888", JOB),
        ("9999", "202611201000000000000001"),
        ("9999", "%"),
        ("9", ""),
    ):
        with pytest.raises(NotAuthenticated):
            runs.run("r", caller=by(party), job_id=job)


def test_a_caller_that_begins_too_many_runs_is_refused_and_others_are_not(
    runs: RendezvousRuns, clock: Turned
) -> None:
    links = [begin(runs, f"r{n}", caller=by("9999")) for n in range(MAX_RUNS_OF_ONE)]
    with pytest.raises(RendezvousNotAllowed, match="32 runs of this caller"):
        runs.run("more", caller=by("9999")).write(TEXT, None)
    begin(runs, "r", caller=by("10000"))
    assert links[0].write(TEXT, links[0].read(None).token).was_set  # those that exist go on
    clock.ms += KEPT_MS // 2
    assert links[1].write(TEXT, links[1].read(None).token).was_set
    clock.ms += KEPT_MS // 2 + 1
    begin(runs, "more", caller=by("9999"))  # nobody wrote to the others for a day
    assert {run.key.run_id for run in runs.all()} == {"r1", "more"}


def test_all_callers_together_have_a_limit(runs: RendezvousRuns) -> None:
    for party in range(MAX_RUNS // MAX_RUNS_OF_ONE):
        for number in range(MAX_RUNS_OF_ONE):
            begin(runs, str(number), caller=by(str(party)))
    with pytest.raises(RendezvousNotAllowed, match="1024 runs are stored"):
        begin(runs, "r", caller=by("9999"))


@pytest.mark.parametrize(
    "text", ["", "0000000", "0000000G", "00000000!", "00000000é", "00000000A=A", "00000000====",
             "0" * (MAX_STATE_TEXT + 1)],
)  # fmt: skip
def test_what_is_no_text_of_a_state_is_not_stored(runs: RendezvousRuns, text: str) -> None:
    link = runs.run("r", caller=by("9999"))
    with pytest.raises(BadRequest):
        link.write(text, None)
    assert link.read(None).token is None


@pytest.mark.parametrize("run_id", ["", "a b", "a\n", "é", "x" * 129, "a%b"])
def test_what_is_no_run_id_is_refused(runs: RendezvousRuns, run_id: str) -> None:
    with pytest.raises(BadRequest):
        runs.run(run_id, caller=by("9999"))


def test_a_state_that_the_caller_has_is_not_sent_again(runs: RendezvousRuns) -> None:
    link = begin(runs, "r", caller=by("9999"))
    token = link.read(None).token
    assert link.read(token).text is None
    assert link.read("another").text == TEXT


def test_a_run_can_be_removed(runs: RendezvousRuns) -> None:
    begin(runs, "r", caller=by("9999"))
    key = RunKey(scope="party:9999", run_id="r")
    assert runs.remove(key)
    assert not runs.remove(key)
    assert runs.all() == []
