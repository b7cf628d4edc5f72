"""What a server remembers of jobs is bounded, and full before 1,000 jobs of one task."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fedflow
from fedflow.app.protocol.commands import REPLIES
from fedflow.app.protocol.newest import Newest
from fedflow.app.protocol.parsed_jobs import ParsedJobs
from fedflow.base.ids import PartyId
from fedflow.domain.scheduling.history import Event, Subject
from fedflow.domain.site import Role, Site
from fedflow.federation.session import MAX_ENDED, SessionRegistry
from fedflow.store import codec, session
from fedflow.store.recording import Recent
from fedflow.store.sql import schedules
from fedflow.wire import paths
from tests.unit.app.fakes import FakeCatalog, conf, dsl

JOBS = 1_000
BURST = 500  #: jobs at once that a server must serve without working anything out again
GUEST = Site(Role.GUEST, PartyId("9999"))

SERVER = ("app", "base", "board", "domain", "federation", "rpc", "server", "store", "web", "wire")
FINITE = {
    "first_error._follow_on_text", "assets.assets", "outside._public",  # one value each
    "language.catalogue", "message_catalog.catalogue", "message_catalog.sentences",  # languages
    "requests._required", "session._insert",  # classes, tables
}  # fmt: skip


def test_ended_sessions() -> None:
    registry = SessionRegistry()
    for number in range(JOBS):
        registry.open((str(number), GUEST), token="t", sites=(GUEST,))
        registry.end((str(number), GUEST), None)
    assert len(registry._ended) == MAX_ENDED < JOBS
    assert registry.find((str(JOBS - BURST), GUEST)) is not None


def test_last_events_of_jobs() -> None:
    recent = Recent()
    denied = partial(Event, subject=Subject.CORES, site=GUEST, old="free", new="held", at_ms=0)
    for number in range(JOBS):
        recent.wrote([denied(job_id=str(number))])
    assert BURST < len(recent._jobs) < JOBS
    assert recent.news([denied(job_id=str(JOBS - BURST))]) == []


def test_parsed_jobs() -> None:
    specs = ParsedJobs(FakeCatalog())
    parsed = specs.parse(dsl(), conf())
    for number in range(JOBS):
        specs.keep(str(number), parsed)
    assert BURST < len(specs._kept) == len(specs._sizes) < JOBS
    assert specs.kept(str(JOBS - BURST)) is parsed


def test_names_of_replies() -> None:
    newest = Newest(REPLIES)
    commands = [f"{job}/9999/{number}" for job in range(JOBS) for number in range(6)]
    gone = [old for name in commands for old in newest.add("9999", name)]
    assert len(commands) - len(gone) <= REPLIES
    assert gone == commands[: len(gone)]
    assert len(commands) - len(gone) > 6 * BURST


@pytest.mark.parametrize(
    ("cache", "per_job"),
    [
        (schedules._task, 1.8),
        (schedules._party_task, 2.0),
        (paths._party_match, 7.0),
        (codec.document_from_json, 2.0),
        (codec.message_from_text, 1.0),
        (codec._reason_from_text, 1.0),
        (session._in_dialect, 1.0),
    ],
)
def test_caches_of_functions(cache: Any, per_job: float) -> None:
    """`per_job` is what a job of one Empty at two parties was seen to add at most."""
    assert cache.cache_parameters()["maxsize"] < per_job * JOBS


def test_a_cache_without_a_bound_has_few_possible_keys() -> None:
    found = set()
    for package in SERVER:
        for file in (Path(fedflow.__file__).parent / package).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            for name in re.findall(r"@(?:functools\.)?cache\ndef (\w+)", text):
                found.add(f"{file.stem}.{name}")
    assert found == FINITE
