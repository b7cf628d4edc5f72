"""The list of jobs in a browser and over HTTP: 10,000 jobs, filters, live rows, actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Locator, Page, expect

from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    SUBMIT_FAILED,
    JobKey,
    JobRecord,
    ScheduledJob,
    ScheduledSite,
)
from fedflow.domain.scheduling.history import EventFilter
from fedflow.domain.states import JobEvent, JobStatus, TaskStatus
from tests.board import seeds
from tests.board.places import NARROW, Place, Visitor, check_fits, serving, shoot
from tests.board.seeds import GUEST, HOST, HOSTILE, job_id

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
COUNT = 10_000
KINDS = (JobStatus.SUCCESS, JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELED)


def numbered(number: int) -> JobRecord:
    """Return one of many jobs; each has other notes, and takes longer than the one before."""
    made = seeds.job(number, status=KINDS[number % 4], description=f"run {number} of many")
    return replace(made, started_ms=made.created_ms, ended_ms=made.created_ms + 1000 + number)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server with 10,000 jobs, one of them with hostile notes and tags."""
    with serving(tmp_path_factory.mktemp("many")) as place:
        with place.store.transaction() as tx:
            for number in range(1, COUNT + 1):
                tx.jobs.add(numbered(number))
            tx.jobs.set_description(
                JobKey(job_id=job_id(4321), site=GUEST), HOSTILE[0], now_ms=seeds.START_MS
            )
            for hostile in HOSTILE[:6]:
                tx.job_tags.add(job_id(4321), hostile[:50].strip(), now_ms=1)
            tx.job_tags.add(job_id(77), "baseline", now_ms=1)
        yield place


def ids(text: str) -> list[str]:
    """Return the jobs that a page lists, in its order."""
    return re.findall(r'<tr id="job-(\d+)-', text)


def listed(place: Place, query: str) -> list[str]:
    answer = requests.get(f"{place.url}/board/jobs?{query}", timeout=CALL_S)
    assert answer.status_code == 200, answer.text
    return ids(answer.text)


# --- over HTTP ------------------------------------------------------------------------------------


def test_the_newest_jobs_come_first(many: Place) -> None:
    assert listed(many, "") == [job_id(COUNT - n) for n in range(20)]


@pytest.mark.parametrize(
    ("query", "first", "count"),
    [
        ("sort=elapsed", COUNT, 20),
        ("sort=elapsed&order=asc", 1, 20),
        ("sort=job_id&order=asc", 1, 20),
        ("sort=start_time", COUNT, 20),
        ("sort=end_time&order=asc", 1, 20),
        ("size=200", COUNT, 200),
        ("page=500", 20, 20),
        ("page=999999999999", 20, 20),
        ("page=500&size=20&sort=job_id&order=asc", COUNT - 19, 20),
        ("status=failed", COUNT - 2, 20),
        ("status=failed&status=canceled", COUNT - 1, 20),
        ("tag=baseline", 77, 1),
        ("text=baseline", 77, 1),
        ("text=%3Cscript%3Edocument", 4321, 1),
        (f"job={job_id(4321)[-9:]}", 4321, 1),
        ("notes=run+1234+of", 1234, 1),
        ("partner=10000", COUNT, 20),
        ("party=999", COUNT, 20),
        ("role=guest", COUNT, 20),
        ("since={day}T12:46:40", COUNT, 1),
        ("until={day}T10:00:01", 1, 1),
        ("until={day}", 0, 0),
        ("role=host", 0, 0),
        ("tag=base", 0, 0),
        ("period=hour&since={day}", None, None),
    ],
)
def test_filters_orders_and_pages_show_what_they_should(
    many: Place, query: str, first: int | None, count: int | None
) -> None:
    found = listed(many, query.replace("{day}", seeds.DAY.isoformat()))
    if count is not None:
        assert len(found) == count
    if first:
        assert found[0] == job_id(first)


def test_every_job_stands_on_exactly_one_page(many: Place) -> None:
    found = [one for n in range(1, 51) for one in listed(many, f"size=200&page={n}&sort=elapsed")]
    assert len(found) == len(set(found)) == COUNT


def test_a_time_that_is_none_is_told_and_does_not_count(many: Place) -> None:
    answer = requests.get(f"{many.url}/board/jobs?since=yesterday", timeout=CALL_S)
    assert len(ids(answer.text)) == 20
    assert "A time could not be read" in answer.text


@pytest.mark.parametrize("given", [*HOSTILE, "\x00", "%", "a" * 100_000])
def test_hostile_filters_are_shown_as_text(many: Place, given: str) -> None:
    names = ("text", "job", "party", "partner", "notes", "tag", "since", "page", "sort", "status")
    for name in names:
        if len(given) > 10_000 and name != "text":
            continue
        url = f"{many.url}/board/jobs"
        answer = requests.get(url, params={name: given[:30_000]}, timeout=CALL_S)
        assert answer.status_code in (200, 414, 431), name
        assert "<script>document" not in answer.text
        assert "<img src=x" not in answer.text


def test_notes_and_tags_are_shown_as_text(many: Place) -> None:
    url = f"{many.url}/board/jobs?text={job_id(4321)}"
    text = requests.get(url, timeout=CALL_S).text
    assert "&lt;script&gt;document.title" in text
    assert "<script>document" not in text
    assert "<img src=x" not in text


def test_rows_that_have_not_changed_cost_a_304(many: Place) -> None:
    url = f"{many.url}/board/jobs/rows"
    with requests.Session() as browser:
        browser.get(f"{many.url}/board/jobs", timeout=CALL_S)
        first = browser.get(url, timeout=CALL_S)
        assert first.status_code == 286
        known = {"If-None-Match": first.headers["ETag"]}
        assert browser.get(url, headers=known, timeout=CALL_S).status_code == 304


def test_a_page_without_jobs_says_how_to_begin(seeded: Place) -> None:
    text = requests.get(f"{seeded.url}/board/jobs?text=nothing", timeout=CALL_S).text
    assert "No job fits." in text


def test_the_first_page_is_small(many: Place) -> None:
    answer = requests.get(f"{many.url}/board/jobs", timeout=CALL_S, stream=True)
    assert len(answer.raw.read()) < 40_000


# --- in a browser ---------------------------------------------------------------------------------


@pytest.mark.browser
def test_ten_thousand_jobs_are_searched_sorted_and_paged(
    visit: Callable[..., Visitor], many: Place, axe: Callable[[Page], None]
) -> None:
    visitor = visit(many)
    page = visitor.open("/board/jobs")
    expect(page.locator("tbody tr")).to_have_count(20)
    axe(page)
    shoot(visitor, page, "jobs")
    page.get_by_role("link", name="500", exact=True).click()
    expect(page.locator("tbody tr").first).to_contain_text(job_id(20)[-12:])
    page.get_by_role("link", name="Duration").click()
    expect(page.locator("tbody tr").first).to_contain_text(job_id(COUNT)[-12:])
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Duration")
    page.get_by_label("Search in names, ids, notes, parties and tags").fill("<script>document")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator(".notes")).to_contain_text("<script>document.title='owned'</script>")
    assert page.title() == "Jobs - fedflow"
    page.get_by_role("link", name="Show all").click()
    page.get_by_role("link", name=f"failed {COUNT // 4:,}").click()
    expect(page.locator("tbody .status.bad")).to_have_count(20)


@pytest.mark.browser
def test_the_list_works_without_scripts_and_on_a_phone(
    visit: Callable[..., Visitor], many: Place, axe: Callable[[Page], None]
) -> None:
    visitor = visit(many, java_script_enabled=False)
    page = visitor.open("/board/jobs")
    page.get_by_label("Search in names, ids, notes, parties and tags").fill("run 1234 of")
    page.get_by_role("button", name="Find").first.click()
    expect(page.locator("tbody tr")).to_have_count(1)
    narrow = visit(many)
    page = narrow.open("/board/jobs")
    narrow.sized(NARROW)
    check_fits(page)
    axe(page)


def running(number: int, place: Place) -> JobKey:
    """Put a job that runs into a place."""
    record = seeds.job(
        number, status=JobStatus.RUNNING, ended_ms=None, progress=10, initiator=HOST,
        started_ms=seeds.START_MS,
    )  # fmt: skip
    seeds.put(place.store, record)
    return record.key


@pytest.mark.browser
def test_a_running_job_moves_on_while_one_looks(seeded: Place, visitor: Visitor) -> None:
    key = running(50_001, seeded)
    page = visitor.open(f"/board/jobs?text={key.job_id}")
    row = page.locator("tbody tr")
    expect(row.locator(".status")).to_have_text("running")
    expect(row).to_contain_text("10 %")
    row.get_by_role("checkbox").check()
    with seeded.store.transaction() as tx:
        tx.jobs.set_progress(key, 60, now_ms=seeds.START_MS + 9)
    expect(row).to_contain_text("60 %")
    expect(row.get_by_role("checkbox")).to_be_checked()
    with seeded.store.transaction() as tx:
        why = Reason(code="ComponentFailed", message="no label", site=GUEST)
        tx.jobs.move(
            key, JobEvent.FAILED, seen=JobStatus.RUNNING, now_ms=seeds.START_MS + 10, reason=why
        )
    expect(row.locator(".status")).to_have_text("failed")


def menu(page: Page) -> Locator:
    """Return the button that opens the menu of the only row."""
    return page.get_by_role("button", name=re.compile("^Actions: job"))


@pytest.mark.browser
def test_a_strip_shows_the_components_and_leads_to_them(
    seeded: Place, visitor: Visitor, axe: Callable[[Page], None]
) -> None:
    record = seeds.job(50_005, status=JobStatus.FAILED)
    bad = {"status": TaskStatus.FAILED, "party_status": TaskStatus.FAILED}
    seeds.put(
        seeded.store, record, seeds.task(record, "reader_0", "Reader"),
        seeds.task(record, "dataio_0", "DataTransform", **bad),
    )  # fmt: skip
    page = visitor.open(f"/board/jobs?text={record.key.job_id}")
    cells = page.locator(".strip a")
    expect(cells).to_have_count(2)
    expect(cells.last).to_have_attribute("title", "dataio_0: failed")
    axe(page)
    assert page.locator("tbody tr").bounding_box()["height"] < 40  # type: ignore[index]
    cells.last.click()
    page.wait_for_url("**/components/dataio_0")


@pytest.mark.browser
def test_ticked_jobs_get_a_tag_at_once(seeded: Place, visitor: Visitor) -> None:
    keys = [seeds.job(50_050 + n) for n in range(2)]
    seeds.put(seeded.store, *keys)
    page = visitor.open("/board/jobs?job=5005")
    for record in keys:
        page.get_by_label(f"Select job {record.key.job_id}").check()
    page.locator("#ticked").get_by_label("New tag").fill("together")
    page.get_by_role("button", name="Add the tag").click()
    expect(page.get_by_text("Done for 2 of 2 jobs.")).to_be_visible()
    expect(page.locator("td.tags a", has_text="together")).to_have_count(2)


def test_a_refused_job_is_listed_found_and_counted(seeded: Place) -> None:
    why = Reason(code="TableNotFound", message="there is no table x.y")
    record = seeds.job(50_060, status=JobStatus.FAILED, tag=SUBMIT_FAILED, reason=why)
    seeds.put(seeded.store, record)
    for query in (f"text={record.key.job_id}", "status=refused"):
        answer = requests.get(f"{seeded.url}/board/jobs?{query}", timeout=CALL_S)
        assert ids(answer.text) == [record.key.job_id]
        assert "there is no table x.y" in answer.text
    assert record.key.job_id not in listed(seeded, "status=failed")


def test_a_job_that_runs_again_comes_first(seeded: Place) -> None:
    old = running(49_000, seeded)
    ended = seeds.job(50_071)
    late = seeds.job(50_070, ended_ms=ended.updated_ms + 10**6)
    seeds.put(seeded.store, late, ended)
    found = listed(seeded, "size=200")
    assert found.index(old.job_id) < found.index(late.key.job_id) < found.index(ended.key.job_id)


@pytest.mark.browser
def test_a_job_is_stopped_from_the_list(seeded: Place, visitor: Visitor) -> None:
    record = seeds.job(50_002, status=JobStatus.WAITING, started_ms=None, ended_ms=None)
    key, site = record.key, ScheduledSite(site=GUEST, phase=SitePhase.CREATED)
    seeds.put(seeded.store, record)
    with seeded.store.transaction() as tx:
        tx.schedules.add(
            ScheduledJob(
                job_id=key.job_id, initiator=GUEST, status=JobStatus.WAITING, epoch=0,
                dsl=record.dsl, conf=record.conf, priority=0, created_ms=record.created_ms,
                updated_ms=record.updated_ms, sites=(site,), tasks=(),
            )
        )  # fmt: skip
    page = visitor.open(f"/board/jobs?text={key.job_id}")
    menu(page).click()
    page.get_by_role("button", name="Stop the job").click()
    expect(page.get_by_role("status").filter(has_text="being stopped")).to_be_visible()
    assert f"text={key.job_id}" in page.url
    with seeded.store.read() as tx:
        events = tx.events.find(EventFilter(job_id=key.job_id))
    assert any("stopped by a user" in e.reason.message for e in events if e.reason)


@pytest.mark.browser
def test_notes_are_edited_by_keyboard(seeded: Place, visitor: Visitor) -> None:
    record = seeds.job(50_003)
    seeds.put(seeded.store, record)
    page = visitor.open(f"/board/jobs?text={record.key.job_id}")
    menu(page).focus()
    page.keyboard.press("Enter")
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.type(f"{HOSTILE[0]} 中文 & more")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="notes were saved")).to_be_visible()
    expect(page.locator(".notes")).to_contain_text(f"{HOSTILE[0]} 中文 & more")
    assert seeded.services.jobs.job(record.key.job_id).description == f"{HOSTILE[0]} 中文 & more"


@pytest.mark.browser
def test_tags_are_given_used_and_taken(seeded: Place, visitor: Visitor) -> None:
    record = seeds.job(50_004)
    seeds.put(seeded.store, record)
    page = visitor.open(f"/board/jobs?text={record.key.job_id}")
    menu(page).click()
    page.get_by_label(re.compile("A new tag")).fill('<b>"tag"&')
    page.keyboard.press("Enter")
    page.locator("td.tags").get_by_role("link", name='<b>"tag"&').click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_label("Tag", exact=True)).to_have_value('<b>"tag"&')
    menu(page).click()
    page.get_by_role("button", name="Remove the tag").click()
    expect(page.get_by_text("No job fits.")).to_be_visible()


@pytest.mark.browser
def test_selected_jobs_are_compared(seeded: Place, visitor: Visitor) -> None:
    keys = [seeds.job(50_010 + n) for n in range(3)]
    seeds.put(seeded.store, *keys)
    page = visitor.open("/board/jobs?job=5001")
    bar = page.locator("#ticked")
    expect(bar).to_be_hidden()
    for record, told in zip(keys[:2], ("1 job selected", "2 jobs selected"), strict=True):
        page.get_by_label(f"Select job {record.key.job_id}").check()
        expect(bar.get_by_role("status")).to_have_text(told)
    bar.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/board/compare?**")
    assert sorted(re.findall(r"job=(\d+)", page.url)) == sorted(r.key.job_id for r in keys[:2])


def left_something(number: int, place: Place) -> tuple[JobRecord, Path]:
    """Put an ended job with a log file into a place."""
    record = seeds.job(number)
    seeds.put(place.store, record, seeds.task(record, "reader_0", "Reader"))
    log = place.home / "logs" / record.key.job_id / "guest" / "9999" / "INFO.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line\n")
    return record, log


@pytest.mark.browser
def test_a_job_is_deleted_after_its_statement(
    seeded: Place, visitor: Visitor, axe: Callable[[Page], None]
) -> None:
    record, log = left_something(50_020, seeded)
    page = visitor.open(f"/board/jobs?text={record.key.job_id}")
    menu(page).click()
    page.get_by_role("link", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(record.key.job_id)
    expect(page.locator("main")).to_contain_text("Other parties keep theirs: 10000")
    axe(page)
    page.get_by_role("button", name="Delete the job for good").click()
    expect(page.get_by_role("status").filter(has_text="was deleted")).to_be_visible()
    assert not log.exists()
    assert (
        requests.get(f"{seeded.url}/board/jobs/{record.key.job_id}", timeout=CALL_S).status_code
        == 404
    )


@pytest.mark.browser
def test_a_running_job_is_not_deleted(seeded: Place, visitor: Visitor) -> None:
    key = running(50_021, seeded)
    page = visitor.open(f"/board/jobs/{key.job_id}/delete")
    expect(page.locator("main")).to_contain_text("stop it first")


@pytest.mark.browser
def test_a_job_that_is_deleted_while_its_page_is_open_is_told(
    seeded: Place, visitor: Visitor
) -> None:
    key = running(50_022, seeded)
    page = visitor.open(f"/board/jobs/{key.job_id}/guest/9999")
    expect(page.locator("main")).to_contain_text(key.job_id)
    with seeded.store.transaction() as tx:
        tx.jobs.move(key, JobEvent.FAILED, seen=JobStatus.RUNNING, now_ms=seeds.START_MS + 10)
        tx.jobs.drop(key.job_id)
    expect(page.get_by_role("alert").filter(has_text="deleted while this page")).to_be_visible()
    page.get_by_role("link", name="To the list of jobs").click()
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#/dashboard?job_id={id}&role=guest&party_id=9999", "/board/jobs/{id}/guest/9999"),
        ("#/details?job_id={id}&role=guest&party_id=9999", "/board/jobs/{id}/guest/9999"),
        ("#/history", "/board/jobs"),
        ("#/running", "/board/jobs?status=waiting&status=running"),
        ("#/dashboard?job_id=%22%3E%3Cscript%3E", "/board/jobs/%22%3E%3Cscript%3E"),
        ("", "/board/"),
    ],
)
def test_old_links_lead_to_the_new_pages(
    seeded: Place, visitor: Visitor, old: str, new: str
) -> None:
    record = seeds.job(50_030)
    seeds.put(seeded.store, record)
    page = visitor.open(f"/index.html{old.format(id=record.key.job_id)}")
    page.wait_for_url(f"{seeded.url}{new.format(id=record.key.job_id)}")


@pytest.mark.browser
def test_the_home_page_shows_how_all_stands(
    seeded: Place, visitor: Visitor, axe: Callable[[Page], None], shot: Callable[[Page, str], None]
) -> None:
    now_ms = seeded.services.info.now_ms()
    key = running(50_040, seeded)
    failed = seeds.job(
        50_041, status=JobStatus.FAILED, created_ms=now_ms, ended_ms=now_ms,
        reason=Reason(code="ComponentFailed", message=HOSTILE[0], site=HOST),
    )  # fmt: skip
    seeds.put(seeded.store, failed)
    page = visitor.open("/board/")
    expect(page.locator("section", has_text="Running now").last).to_contain_text(key.job_id)
    failures = page.locator("section", has_text="Failed last").last
    expect(failures).to_contain_text(failed.key.job_id)
    expect(failures).to_contain_text(HOSTILE[0])
    expect(page.locator("section", has_text="Server").first).to_contain_text("ready")
    axe(page)
    shot(page, "home")
    visitor.sized(NARROW)
    check_fits(page)
    with seeded.store.transaction() as tx:
        tx.jobs.set_progress(key, 73, now_ms=now_ms)
    expect(page.locator("main")).to_contain_text("73 %")
