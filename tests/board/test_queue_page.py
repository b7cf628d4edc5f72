"""The queue page: engines, who holds cores, who waits and why, with 10,000 jobs that wait."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobFilter, ScheduledJob, ScheduledSite
from fedflow.domain.states import JOB_FINAL, JobStatus
from tests.board import seeds
from tests.board.jobs_to_submit import Person, empty_conf, empty_dsl
from tests.board.places import NARROW, Place, Visitor, check_fits, serving
from tests.support.executors import wait_until

pytestmark = pytest.mark.timeout(600)
expect.set_options(timeout=60_000)
CORES, WAITING = 8, 10_000
FAR_MS = 4_000_000_000_000


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server whose cores one job holds, and 10,000 jobs that wait for them."""
    home = tmp_path_factory.mktemp("full")
    with serving(home, {"fate_on_standalone": {"standalone": {"cores_per_node": CORES}}}) as place:
        dsl = empty_dsl(("first",))
        conf = {
            **empty_conf({"first": {"sleep_s": 600}}, task_cores=CORES),
            "role": {"guest": [9999]},
        }
        job_id = place.services.submissions.submit(dsl, conf).job_id
        which = JobFilter(job_id=job_id)
        wait_until(lambda: any(j.in_use for j in place.services.jobs.find(which)), 60.0)
        put_waiting(place, WAITING)
        yield place
        place.services.jobs.stop(job_id)
        wait_until(lambda: not any(j.in_use for j in place.services.jobs.find(which)), 60.0)


def put_waiting(place: Place, count: int) -> None:
    """Let jobs wait that need more than is free; they are looked at again in a far future."""
    now_ms = place.services.info.now_ms()
    for first in range(0, count, 1000):
        with place.store.transaction() as tx:
            for number in range(first, min(first + 1000, count)):
                job_id = seeds.job_id(number)
                tx.schedules.add(
                    ScheduledJob(
                        job_id=job_id,
                        initiator=seeds.GUEST,
                        status=JobStatus.WAITING,
                        epoch=0,
                        dsl=empty_dsl(("first",)),
                        conf=empty_conf(),
                        priority=number % 5,
                        created_ms=now_ms + number,
                        updated_ms=now_ms,
                        sites=(ScheduledSite(site=seeds.GUEST, phase=SitePhase.CREATED),),
                        tasks=(),
                    )
                )
                tx.queue.enter(
                    job_id, ComputeResources(cores=1 + number % CORES), queued_ms=now_ms + number,
                    deadline_ms=FAR_MS, look_ms=FAR_MS,
                )  # fmt: skip


@pytest.fixture
def person(full: Place) -> Person:
    return Person(full.url)


def places(page: str) -> list[str]:
    """Return the ids of the waiting jobs that a page shows."""
    return re.findall(r'<tr id="wait-(\w+)">', page)


def test_the_engine_and_who_holds_its_cores_are_shown(person: Person) -> None:
    page = person.get("/board/queue").text
    assert f"{CORES} of {CORES} held, 0 free" in page
    holders = page[page.index('id="holders"') :]
    assert 'action="/board/jobs/' in holders
    assert "guest 9999" in holders


def test_ten_thousand_waiting_jobs_are_paged_in_their_order(person: Person) -> None:
    first = person.get("/board/queue").text
    assert "(10,000)" in first
    ids = places(first)
    assert ids[:3] == [seeds.job_id(4), seeds.job_id(9), seeds.job_id(14)]  # of priority 4
    assert len(ids) == 50
    last = person.get("/board/queue?page=200").text
    assert len(places(last)) == 50
    assert not set(places(last)) & set(ids)
    for beyond in ("999999", "9" * 50):
        assert places(person.get(f"/board/queue?page={beyond}").text) == places(last)
    for wrong in ("0", "-1", "x", "%00"):
        assert places(person.get(f"/board/queue?page={wrong}").text) == ids


def test_every_waiting_job_says_what_it_waits_for(person: Person) -> None:
    page = person.get("/board/queue").text
    assert page.count("<strong>NotEnoughResources</strong>") == 50
    assert "cores at guest 9999: 0 of 8 free" in page


def test_an_unchanged_queue_costs_a_304(person: Person) -> None:
    first = person.get("/board/queue/now")
    again = person.get("/board/queue/now", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert again.text == ""


def test_waiting_jobs_of_other_sites_are_shown_with_their_reason(
    person: Person, full: Place
) -> None:
    reason = Reason(code="Reserved", message=seeds.HOSTILE[0], site=seeds.HOST)
    theirs = replace(
        seeds.job(20_000), initiator=seeds.HOST, status=JobStatus.WAITING, reason=reason,
        ended_ms=None, started_ms=None, queued_ms=seeds.START_MS,
    )  # fmt: skip
    own = replace(theirs, key=seeds.job(20_002).key, initiator=seeds.GUEST)
    own_host = replace(own, key=replace(own.key, site=seeds.HOST))  # played by this server too
    seeds.put(full.store, theirs, own, own_host)
    page = person.get("/board/queue").text
    guests = page[page.index('id="guests"') :]
    assert seeds.job_id(20_000) in guests
    assert seeds.job_id(20_002) not in guests[: guests.index("</table>")]
    assert "<strong>Reserved</strong>" in guests
    assert "<script>document" not in page


def test_cores_are_returned_only_by_ended_jobs_without_processes(
    person: Person, full: Place
) -> None:
    token = person.opened()["csrf"]
    holder = next(j for j in full.services.resources.query().jobs if j.status not in JOB_FINAL)
    url = f"{full.url}/board/queue/return/{holder.key.job_id}"
    answer = person.session.post(url, data={"csrf": token}, timeout=60.0)
    assert "keeps its cores" in answer.text
    ended = replace(seeds.job(20_001), in_use=True, applied_ms=seeds.START_MS, cores=0)
    seeds.put(full.store, ended)
    assert "Return the cores" in person.get("/board/queue").text
    url = f"{full.url}/board/queue/return/{seeds.job_id(20_001)}"
    answer = person.session.post(url, data={"csrf": token}, timeout=60.0)
    assert "were given back" in answer.text
    missing = person.session.post(f"{full.url}/board/queue/return/none", data={"csrf": token})
    assert "JobNotFound" in missing.text or "No job none" in missing.text


@pytest.mark.browser
def test_the_queue_is_live_paged_and_accessible(
    visit: Callable[..., Visitor], full: Place, axe: Callable[[Page], None]
) -> None:
    visitor = visit(full)
    page = visitor.open("/board/queue")
    rows = page.locator("#waiters tbody tr")
    expect(rows).to_have_count(50)
    axe(page)
    first = rows.first.get_attribute("id")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("51 to 100 of 10,000")).to_be_visible()
    assert rows.first.get_attribute("id") != first
    page.go_back()
    job_id = places_of(page)[0]
    with full.store.transaction() as tx:
        job = tx.schedules.get(job_id)
        assert job is not None
    stop = page.locator(f"#wait-{job_id}")
    stop.get_by_text("Stop", exact=True).click()
    stop.get_by_role("button", name="Stop the job").click()
    expect(page.locator(f"#wait-{job_id}")).to_have_count(0)
    page.goto(visitor.url + "/board/queue")
    expect(page.get_by_text("(9,999)")).to_be_visible()
    visitor.sized(NARROW)
    check_fits(page)
    axe(page)


def places_of(page: Page) -> list[str]:
    """Return the ids of the waiting jobs that a browser shows."""
    found = page.locator("#waiters tbody tr").evaluate_all("rows => rows.map((row) => row.id)")
    return [name.removeprefix("wait-") for name in found]


@pytest.mark.browser
def test_an_empty_queue_says_so(visitor: Visitor, axe: Callable[[Page], None]) -> None:
    page = visitor.open("/board/queue")
    expect(page.get_by_text("No job holds cores")).to_be_visible()
    expect(page.get_by_text("No job waits")).to_be_visible()
    axe(page)
