"""The sentences of a job's history."""

from __future__ import annotations

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.scheduling.history import Event, Subject, actor, sentence, subject_text
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_MOVES, TASK_MOVES, TaskStatus

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))


def event(subject: Subject, old: str = "", new: str = "", **more: object) -> Event:
    return Event(job_id="j", subject=subject, at_ms=1, old=old, new=new, **more)  # type: ignore[arg-type]


def test_an_event_with_a_cause_says_the_cause() -> None:
    reason = Reason(code="BadData", message="row 3 has no label", site=HOST)
    assert sentence(event(Subject.TASK, "running", "failed", reason=reason)) == reason.message


@pytest.mark.parametrize(("move", "new"), [*JOB_MOVES.items()])
def test_every_move_of_a_job_has_a_sentence(move: tuple[str, object], new: str) -> None:
    for subject in (Subject.JOB, Subject.SHARE):
        assert sentence(event(subject, str(move[0]), str(new)))


def test_what_happens_to_most_jobs_is_told_in_its_own_words() -> None:
    usual = [
        (Subject.JOB, "ready", "waiting"), (Subject.JOB, "waiting", "running"),
        (Subject.JOB, "running", "success"), (Subject.JOB, "failed", "ready"),
        (Subject.SHARE, "", "waiting"), (Subject.SHARE, "failed", "waiting"),
        (Subject.CORES, "free", "held"), (Subject.CORES, "held", "free"),
        *((Subject.TASK, old.value, "success") for old in TaskStatus if (old, None) in TASK_MOVES),
        *((Subject.SITE, "", phase.value) for phase in SitePhase if phase is not SitePhase.CREATED),
        (Subject.SITE, "creating", "created"), (Subject.SITE, "granted", "created"),
    ]  # fmt: skip
    for subject, old, new in usual:
        told = sentence(event(subject, old, new))
        assert not told.startswith(("it is success", "it was changed")), (subject, old, new)
        assert told != f"it is {new}", (subject, old, new)


@pytest.mark.parametrize(
    ("told", "who"),
    [
        (event(Subject.JOB, "", "ready"), "a user"),
        (event(Subject.JOB, "ready", "waiting"), "the scheduler"),
        (event(Subject.JOB, "failed", "ready"), "a user"),
        (event(Subject.TASK, "waiting", "running", component="a"), "the scheduler"),
        (event(Subject.SITE, "creating", "created", site=HOST), "host 10000"),
        (event(Subject.SITE, "applying", "denied", site=HOST), "host 10000"),
        (event(Subject.SITE, "created", "applying", site=HOST), "the scheduler"),
        (event(Subject.SITE, "granted", "created", site=HOST), "the scheduler"),
        (event(Subject.REPORT, "waiting", "failed", site=HOST), "reported by host 10000"),
        (event(Subject.SHARE, "waiting", "running", site=HOST), "the initiator"),
        (event(Subject.PARTY_TASK, "waiting", "running", site=HOST), "its process"),
    ],
)
def test_it_is_told_who_made_it_happen(told: Event, who: str) -> None:
    assert actor(told) == who


@pytest.mark.parametrize(
    ("code", "site", "who"),
    [
        ("Stopped", GUEST, "a user at guest 9999"),
        ("Paused", HOST, "a user at host 10000"),
        ("InitiatorLost", GUEST, "the detector"),
        ("BadData", HOST, "its process"),
        ("ExecutorDied", HOST, "the detector"),
        ("ServerLost", HOST, "the detector"),
        ("PeerFailed", GUEST, "the initiator"),
    ],
)
def test_a_cause_tells_who_ended_a_share(code: str, site: Site, who: str) -> None:
    reason = Reason(code=code, message="why", site=site)
    assert actor(event(Subject.PARTY_TASK, "running", "failed", site=HOST, reason=reason)) == who


@pytest.mark.parametrize(
    ("subject", "code", "site", "new"),
    [
        (Subject.PARTY_TASK, "ExecutorDied", GUEST, "failed"),
        (Subject.PARTY_TASK, "ExecutorDied", HOST, "canceled"),
        (Subject.PARTY_TASK, "BadData", HOST, "canceled"),
        (Subject.PARTY_TASK, "PartyUnreachable", HOST, "failed"),
        (Subject.SHARE, "ExecutorDied", HOST, "failed"),
    ],
)
def test_what_the_initiator_concluded_is_not_told_as_found_here(
    subject: Subject, code: str, site: Site, new: str
) -> None:
    reason = Reason(code=code, message="why", site=site)
    assert actor(event(subject, "running", new, site=HOST, reason=reason)) == "the initiator"


def test_what_an_event_is_about_is_named_as_people_do() -> None:
    about = {"component": "reader_0", "site": HOST}
    assert subject_text(event(Subject.PARTY_TASK, version=0, **about)) == "reader_0 at host 10000"
    assert subject_text(event(Subject.REPORT, version=2, **about)) == (
        "reader_0 (attempt 2) at host 10000"
    )
    assert subject_text(event(Subject.TASK, component="reader_0")) == "reader_0"
    assert subject_text(event(Subject.JOB)) == "job"
    assert subject_text(event(Subject.SHARE, site=HOST)) == "job at host 10000"
    assert subject_text(event(Subject.CORES, site=HOST)) == "cores at host 10000"
    assert subject_text(event(Subject.SITE, site=HOST)) == "host 10000"
