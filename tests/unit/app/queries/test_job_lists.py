"""Job lists and tags as people ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedflow.app.protocol.party_leases import PartyLeases
from fedflow.app.protocol.timing import Timing
from fedflow.app.queries.job_lists import DAY_MS, JobLists
from fedflow.app.queries.job_tags import JobTagging
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job_lines import MAX_TAG, MAX_TAGS
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobFilter
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import FakeClock, FakeParties
from tests.unit.app.queries.test_deleting import GUEST, HOST, World

NOW_MS = 100 * DAY_MS


class NoQueue:
    """Says of every waiting job that it waits its turn."""

    def reason(self, tx: Any, job_id: str) -> Reason:
        return Reason(code="Queued", message=f"{job_id} waits", site=None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(MemoryStore(), tmp_path)


def lists_of(world: World, clock: FakeClock) -> JobLists:
    parties = FakeParties(local=None, known=frozenset())
    leases = PartyLeases(store=world.store, parties=parties, clock=clock, timing=Timing())
    queue: Any = NoQueue()
    return JobLists(store=world.store, queue=queue, party_leases=leases, clock=clock)


@pytest.fixture
def lists(world: World) -> JobLists:
    clock = FakeClock()
    clock.ms = NOW_MS
    return lists_of(world, clock)


def put(world: World, job_id: str, status: JobStatus, site: Site = GUEST, **more: Any) -> None:
    more = {"created_ms": NOW_MS - 1000, "updated_ms": NOW_MS, **more}
    world.job(job_id, site, status=status, **more)


def test_a_page_counts_all_that_fit(world: World, lists: JobLists) -> None:
    for n in range(7):
        put(world, f"j{n}", JobStatus.SUCCESS)
    first = lists.page(JobFilter(limit=3))
    last = lists.page(JobFilter(limit=3, offset=6))
    beyond = lists.page(JobFilter(limit=3, offset=60))
    assert [len(p.lines) for p in (first, last, beyond)] == [3, 1, 0]
    assert {p.count for p in (first, last, beyond)} == {7}


def test_the_overview_counts_a_day_and_a_week(world: World, lists: JobLists) -> None:
    put(world, "a", JobStatus.SUCCESS)
    put(world, "a", JobStatus.SUCCESS, HOST)
    put(world, "b", JobStatus.SUCCESS, created_ms=NOW_MS - 3 * DAY_MS)
    put(world, "c", JobStatus.SUCCESS, created_ms=NOW_MS - 30 * DAY_MS)
    put(world, "d", JobStatus.READY)
    put(world, "e", JobStatus.WAITING)
    found = lists.overview()
    assert found.day == {JobStatus.SUCCESS: 1, JobStatus.WAITING: 2}
    assert found.week == {JobStatus.SUCCESS: 2, JobStatus.WAITING: 2}


def test_the_overview_shows_a_job_once_with_why_it_waits_or_failed(
    world: World, lists: JobLists
) -> None:
    failure = Reason(code="ComponentFailed", message="no label", site=GUEST)
    put(world, "a", JobStatus.FAILED, HOST, ended_ms=NOW_MS - 5)
    put(world, "a", JobStatus.FAILED, ended_ms=NOW_MS - 5, reason=failure)
    put(world, "old", JobStatus.FAILED, ended_ms=NOW_MS - 8 * DAY_MS)
    put(world, "w", JobStatus.WAITING)
    put(world, "r", JobStatus.RUNNING)
    found = lists.overview()
    assert [(x.key.job_id, x.reason) for x in found.failed] == [("a", failure)]
    assert [x.reason.message for x in found.waiting if x.reason] == ["w waits"]
    assert [x.key.job_id for x in found.running] == ["r"]


def test_many_who_look_at_once_cost_one_look(world: World) -> None:
    clock = FakeClock()
    lists = lists_of(world, clock)
    clock.ms = NOW_MS
    first = lists.overview()
    put(world, "a", JobStatus.RUNNING)
    assert lists.overview() is first
    clock.ms += 1_000
    assert [x.key.job_id for x in lists.overview().running] == ["a"]
    assert lists.overview().day == {}
    clock.ms += 10_000
    assert lists.overview().day == {JobStatus.RUNNING: 1}
    clock.ms -= 60_000  # a clock that was set back keeps nothing
    assert lists.overview().now_ms == clock.ms


def test_tags_are_added_and_removed(world: World) -> None:
    tags = JobTagging(store=world.store, clock=FakeClock())
    world.job("j")
    assert tags.add("j", "b") == ("b",)
    assert tags.add("j", "b") == ("b",)
    assert tags.add("j", "<script>") == ("<script>", "b")
    assert tags.all() == [("<script>", 1), ("b", 1)]
    assert tags.remove("j", "b") == ("<script>",)
    assert tags.remove("j", "b") == ("<script>",)
    assert tags.of("j") == ("<script>",)


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a" * (MAX_TAG + 1), "\x7f", "\ud800"])
def test_what_is_no_tag_is_refused(world: World, name: str) -> None:
    world.job("j")
    with pytest.raises(BadRequest):
        JobTagging(store=world.store, clock=FakeClock()).add("j", name)


def test_a_job_has_a_bounded_number_of_tags(world: World) -> None:
    tags = JobTagging(store=world.store, clock=FakeClock())
    world.job("j")
    for n in range(MAX_TAGS):
        tags.add("j", str(n))
    assert len(tags.add("j", "0")) == MAX_TAGS
    with pytest.raises(BadRequest):
        tags.add("j", "one more")


def test_tags_are_of_jobs_that_exist(world: World) -> None:
    tags = JobTagging(store=world.store, clock=FakeClock())
    for call in (lambda: tags.add("x", "a"), lambda: tags.remove("x", "a"), lambda: tags.of("x")):
        with pytest.raises(JobNotFound):
            call()
