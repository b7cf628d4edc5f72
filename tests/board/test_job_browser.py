"""The pages of a job in a browser: live, the graph by mouse and keyboard, small screens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from fedflow.base.ids import PartyId
from fedflow.board.page import STOP_POLLING
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobKey
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.board import seeds
from tests.board.job_seeds import CONF, large, put_job, submit, wait_for_end, wait_for_rest
from tests.board.places import NARROW, Place, Visitor, check_fits
from tests.board.seeds import GUEST, HOST, HOSTILE

pytestmark = [pytest.mark.timeout(600), pytest.mark.browser]
LONG_MS = 60_000  #: for what a real job does on a busy machine
DIAMOND = {
    "reader_0": ("Reader", ()),
    "left_0": ("DataTransform", ("reader_0",)),
    "right_0": ("DataTransform", ("reader_0",)),
    "union_0": ("Union", ("left_0", "right_0")),
}
TABS = ("", "/timeline", "/timeline?by=site", "/events", "/definition")


def address(job_id: str, site: Site = GUEST, tab: str = "") -> str:
    return f"/board/jobs/{job_id}/{site.role.value}/{site.party_id}{tab}"


def opened(visitor: Visitor, job_id: str, site: Site = GUEST) -> Page:
    """Return the page of a job with its graph drawn."""
    page = visitor.open(address(job_id, site))
    expect(page.locator("ff-dag[data-drawn]")).to_be_visible()
    return page


def box(page: Page, name: str) -> Locator:
    return page.locator(f'ff-dag a.box[data-name="{name}"]')


def row(page: Page, name: str) -> Locator:
    head = page.locator("th", has_text=re.compile(rf"^\s*{name}(?![0-9])"))
    return page.locator("table.components tbody tr").filter(has=head)


# --- live -----------------------------------------------------------------------------------------


def test_a_running_job_changes_before_ones_eyes_until_it_ends(
    visitor: Visitor, seeded: Place
) -> None:
    job_id = submit(seeded, {}, {}, {}, step=True)
    wait_for_rest(seeded, job_id)
    page = opened(visitor, job_id)
    page.evaluate("window.neverReloaded = true")
    expect(page.locator(".job-state .status").first).to_contain_text("paused")
    expect(row(page, "empty_0")).to_contain_text("waiting")
    seeded.services.control.proceed(job_id)
    expect(row(page, "empty_0").locator(".status").first).to_contain_text(
        "success", timeout=LONG_MS
    )
    expect(box(page, "empty_0")).to_have_attribute(
        "aria-label", re.compile("success"), timeout=LONG_MS
    )
    expect(row(page, "empty_2")).to_contain_text("waiting")
    seeded.services.control.proceed(job_id, all_=True)
    expect(page.locator(".job-state .status").first).to_contain_text("success", timeout=LONG_MS)
    expect(box(page, "empty_2")).to_have_class(re.compile(r"\bok\b"))
    expect(page.get_by_text("Run all", exact=True)).to_be_visible()
    assert page.evaluate("window.neverReloaded") is True


def test_polling_stops_once_a_job_has_ended(visitor: Visitor, seeded: Place) -> None:
    job_id = submit(seeded, {}, step=True)
    wait_for_rest(seeded, job_id)
    page = opened(visitor, job_id)
    with page.expect_response(
        lambda answer: answer.url.endswith("/live") and answer.status == STOP_POLLING,
        timeout=LONG_MS,
    ):
        seeded.services.control.proceed(job_id)
    expect(page.locator(".job-state .status").first).to_contain_text("success")


def test_what_one_unfolded_stays_so_while_the_job_goes_on(visitor: Visitor, seeded: Place) -> None:
    job_id = submit(seeded, {}, {}, step=True)
    wait_for_rest(seeded, job_id)
    page = opened(visitor, job_id)
    page.locator("summary", has_text="Stop").click()
    expect(page.get_by_role("button", name="Stop the job")).to_be_visible()
    seeded.services.control.proceed(job_id)
    expect(row(page, "empty_0").locator(".status").first).to_contain_text(
        "success", timeout=LONG_MS
    )
    expect(page.get_by_role("button", name="Stop the job")).to_be_visible()
    page.get_by_role("button", name="Stop the job").click()
    expect(page.locator(".job-state .status").first).to_contain_text("canceled", timeout=LONG_MS)


def test_a_job_that_is_deleted_while_one_looks_says_so(visitor: Visitor, seeded: Place) -> None:
    job_id = submit(seeded, {}, step=True)
    wait_for_rest(seeded, job_id)
    page = opened(visitor, job_id)
    deleted = f"{seeded.url}{address('none')}/live"
    page.route("**/live", lambda route: route.continue_(url=deleted))
    expect(page.locator("#ff-alert")).to_contain_text("deleted while this page")
    seeded.services.jobs.stop(job_id)


def test_a_server_that_does_not_answer_is_told_and_forgotten_when_it_does(
    visitor: Visitor, seeded: Place
) -> None:
    job_id = submit(seeded, {}, step=True)
    wait_for_rest(seeded, job_id)
    page = opened(visitor, job_id)
    page.route("**/live", lambda route: route.abort("connectionrefused"))
    expect(page.locator("#ff-alert")).to_contain_text("does not answer")
    page.unroute("**/live")
    expect(page.locator("#ff-alert")).to_be_hidden(timeout=LONG_MS)
    visitor.troubles[:] = [told for told in visitor.troubles if "htmx:" not in told]
    seeded.services.jobs.stop(job_id)


def test_the_time_line_and_the_events_of_a_running_job_go_on(
    visitor: Visitor, seeded: Place
) -> None:
    job_id = submit(seeded, {}, {}, step=True)
    wait_for_rest(seeded, job_id)
    events, lines = (visitor.open(address(job_id, tab=tab)) for tab in ("/events", "/timeline"))
    expect(lines.locator(".gantt-plot .bar.ok")).to_have_count(0)
    seeded.services.control.proceed(job_id, all_=True)
    expect(events.locator("#events-live")).to_contain_text(
        "everything that was to run has run", timeout=LONG_MS
    )
    expect(lines.locator(".gantt-plot .bar.ok")).to_have_count(5, timeout=LONG_MS)


# --- the graph ------------------------------------------------------------------------------------


def test_a_graph_is_walked_by_keyboard_and_a_component_opened(
    visitor: Visitor, seeded: Place
) -> None:
    job_id = put_job(seeded, 31, DIAMOND)
    page = opened(visitor, job_id)
    page.locator("ff-dag").get_by_role("button", name="Save as SVG").focus()
    page.keyboard.press("Tab")
    expect(box(page, "reader_0")).to_be_focused()
    expect(page.locator("ff-dag a.box.near")).to_have_count(3)
    page.keyboard.press("ArrowDown")
    first = page.evaluate("document.activeElement.shadowRoot.activeElement.dataset.name")
    assert first in ("left_0", "right_0")
    other = "right_0" if first == "left_0" else "left_0"
    spots = {name: box(page, name).bounding_box() or {"x": 0} for name in (first, other)}
    page.keyboard.press("ArrowRight" if spots[first]["x"] < spots[other]["x"] else "ArrowLeft")
    expect(box(page, other)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(box(page, "union_0")).to_be_focused()
    page.keyboard.press("Home")
    expect(box(page, "reader_0")).to_be_focused()
    page.keyboard.press("End")
    expect(box(page, "union_0")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(box(page, "union_0")).not_to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page).to_have_url(seeded.url + address(job_id, tab="/components/reader_0"))


def test_a_chain_of_five_components_is_seen_whole_at_first(visitor: Visitor, seeded: Place) -> None:
    names = [f"step_{i}" for i in range(5)]
    chain = {name: ("Empty", names[:i][-1:]) for i, name in enumerate(names)}
    page = visitor.page()
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(seeded.url + address(put_job(seeded, 39, chain)))
    expect(page.locator("ff-dag[data-drawn]")).to_be_visible()
    for name in names:
        expect(box(page, name)).to_be_in_viewport(ratio=1)
    spots = [box(page, name).bounding_box() or {"x": 0, "y": 0} for name in names]
    assert len({round(spot["y"]) for spot in spots}) == 1, "one row"
    assert spots == sorted(spots, key=lambda spot: spot["x"])
    whole = page.locator("ff-dag").bounding_box()
    assert whole is not None
    assert whole["height"] <= 150
    row(page, "step_2").hover()
    expect(page.locator("ff-dag a.box.near")).to_have_count(3)
    box(page, "step_3").hover()
    expect(row(page, "step_3")).to_have_class("near")


def test_a_graph_is_zoomed_dragged_and_saved(
    visitor: Visitor, seeded: Place, tmp_path: Path
) -> None:
    job_id = put_job(seeded, 32, DIAMOND)
    page = opened(visitor, job_id)
    view = page.locator("ff-dag g.view")
    tools = page.locator("ff-dag")
    begin = view.get_attribute("transform")
    tools.get_by_role("button", name="Zoom in").click()
    near = view.get_attribute("transform")
    tools.get_by_role("button", name="Zoom out").click()
    tools.get_by_role("button", name="Show the whole graph").click()
    whole = view.get_attribute("transform")
    assert len({begin, near, whole}) == 3
    at = page.locator("ff-dag svg").bounding_box()
    assert at is not None
    spot = box(page, "reader_0").bounding_box()
    assert spot is not None
    page.mouse.move(spot["x"] + 30, spot["y"] + 20)
    page.mouse.down()
    page.mouse.move(spot["x"] + 90, spot["y"] + 50, steps=4)
    page.mouse.up()
    assert view.get_attribute("transform") != whole
    expect(page).to_have_url(seeded.url + address(job_id))  # a drag opens nothing
    page.mouse.move(at["x"] + 20, at["y"] + 20)
    before = view.get_attribute("transform")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    expect(view).not_to_have_attribute("transform", str(before))
    with page.expect_download() as saved:
        tools.get_by_role("button", name="Save as SVG").click()
    saved.value.save_as(tmp_path / "dag.svg")
    text = (tmp_path / "dag.svg").read_text()
    assert "reader_0" in text
    assert "viewBox" in text


def test_three_hundred_components_are_drawn(
    visitor: Visitor, seeded: Place, shot: Callable[[Page, str], None]
) -> None:
    job_id = put_job(seeded, 33, large(300))
    page = opened(visitor, job_id)
    expect(page.locator("ff-dag a.box")).to_have_count(300)
    taken = page.evaluate("performance.getEntriesByName('ff-dag').map((e) => e.duration)")
    print(f"300 components drawn in {taken[0]:.0f} ms")
    count = page.evaluate(
        "document.querySelectorAll('*').length"
        " + document.querySelector('ff-dag').shadowRoot.querySelectorAll('*').length"
    )
    assert count <= 3000
    box(page, "step_0").focus()
    page.keyboard.press("End")
    expect(box(page, "step_299")).to_be_focused()
    expect(box(page, "step_299")).to_be_in_viewport()
    shot(page, "job_300_components")


def test_one_of_many_components_is_found_and_what_failed_is_seen_first(
    visitor: Visitor, seeded: Place
) -> None:
    of = seeds.job(42, dsl=seeds.dsl(large(90)), conf=CONF)
    failed = {"status": TaskStatus.FAILED, "party_status": TaskStatus.FAILED}
    seeds.put(
        seeded.store,
        of,
        *(
            seeds.task(of, f"step_{i}", "Empty", **(failed if i in (70, 80) else {}))
            for i in range(90)
        ),
    )
    page = opened(visitor, of.key.job_id)
    expect(box(page, "step_70")).to_be_in_viewport(ratio=1)
    tools = page.locator("ff-dag")
    tools.get_by_role("button", name="next failed").click()
    expect(box(page, "step_70")).to_be_focused()
    tools.get_by_role("button", name="next failed").click()
    expect(box(page, "step_80")).to_be_focused()
    tools.get_by_role("button", name="failed 2", exact=True).click()
    expect(page.locator("table.components tbody tr:visible")).to_have_count(2)
    tools.get_by_role("button", name="failed 2", exact=True).click()
    tools.get_by_role("searchbox").fill("step_33")
    expect(page.locator("table.components tbody tr:visible")).to_have_count(1)
    expect(box(page, "step_33")).to_be_in_viewport(ratio=1)
    tools.get_by_role("button", name="What the signs mean").click()
    expect(page.get_by_text("A box is a component")).to_be_visible()


def test_a_time_line_is_as_wide_as_its_window(visitor: Visitor, seeded: Place) -> None:
    page = visitor.open(address(put_job(seeded, 43, DIAMOND), tab="/timeline"))
    for width in (1440, 1000):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(
            "() => { const box = document.querySelector('.gantt');"
            " const plot = document.querySelector('.gantt-plot').getBoundingClientRect();"
            " return Math.abs(plot.right - box.getBoundingClientRect().right) < 6 &&"
            " box.scrollWidth <= box.clientWidth; }"
        )


def test_who_holds_up_a_component_is_framed_and_named(visitor: Visitor, seeded: Place) -> None:
    job_id = submit(seeded, {}, {}, host={"empty_0": {"sleep_s": 8.0}})
    page = opened(visitor, job_id)
    expect(box(page, "empty_0").locator(".part.held")).to_have_count(1, timeout=LONG_MS)
    told = re.compile("blocked by host 10000")
    expect(box(page, "empty_0")).to_have_attribute("aria-label", told)
    expect(row(page, "empty_0")).to_contain_text("blocked by host 10000")
    seeded.services.jobs.stop(job_id)


def test_a_graph_that_cannot_be_had_says_so_beside_the_table(
    visitor: Visitor, seeded: Place
) -> None:
    job_id = put_job(seeded, 34, DIAMOND)
    page = visitor.page()
    page.route("**/graph.json", lambda route: route.fulfill(status=503, body="{}"))
    page.goto(visitor.url + address(job_id))
    expect(page.locator("ff-dag")).to_contain_text("The graph cannot be drawn")
    expect(row(page, "union_0")).to_be_visible()


# --- people ---------------------------------------------------------------------------------------


def test_pages_of_a_job_are_accessible_and_fit_a_phone(
    visitor: Visitor, seeded: Place, axe: Callable[[Page], None],
    shot: Callable[[Page, str], None],
) -> None:  # fmt: skip
    reason = Reason(code="BadData", message="no label " + HOSTILE[0], site=HOST)
    job_id = put_job(
        seeded, 35, DIAMOND, status=JobStatus.FAILED, task_status=TaskStatus.FAILED,
        reason=reason, own_sites=(GUEST, HOST), description="a note",
        warnings=(JobWarning(code="c", path="p", message="odd"),),
    )  # fmt: skip
    for place, tab in enumerate(TABS):
        page = visitor.open(address(job_id, tab=tab))
        if not tab:
            expect(page.locator("ff-dag[data-drawn]")).to_be_visible()
        axe(page)
        shot(page, f"job_{place}")
        page.set_viewport_size(NARROW)
        check_fits(page)
        axe(page)
        shot(page, f"job_{place}_narrow")
        page.close()


def test_dark_pages_of_a_job_are_readable(
    visit: Callable[..., Visitor], seeded: Place, axe: Callable[[Page], None]
) -> None:
    job_id = put_job(seeded, 36, DIAMOND)
    dark = visit(seeded, color_scheme="dark")
    for tab in TABS:
        page = dark.open(address(job_id, tab=tab))
        axe(page)


def test_without_scripts_a_job_is_read_and_stopped(
    visit: Callable[..., Visitor], seeded: Place
) -> None:
    job_id = submit(seeded, {}, step=True)
    wait_for_rest(seeded, job_id)
    page = visit(seeded, java_script_enabled=False).open(address(job_id))
    expect(row(page, "empty_0")).to_contain_text("guest 9999")
    expect(page.locator("ff-dag")).to_be_hidden()
    page.locator("summary", has_text="Stop").click()
    page.get_by_role("button", name="Stop the job").click()
    expect(page.locator(".message.ok")).to_be_visible()
    wait_for_end(seeded, job_id)
    page.reload()
    expect(page.locator(".job-state .status").first).to_contain_text("canceled")


def test_one_looks_at_a_job_as_each_of_its_sites_here(visitor: Visitor, seeded: Place) -> None:
    job_id = put_job(seeded, 37, DIAMOND, own_sites=(GUEST, HOST))
    page = opened(visitor, job_id)
    page.get_by_label("Sites of this job on this server").get_by_text("host 10000").click()
    expect(page).to_have_url(seeded.url + address(job_id, HOST))
    expect(page.locator(".you")).to_contain_text("You are host 10000")


def test_a_document_is_copied_and_downloaded(visit: Callable[..., Visitor], seeded: Place) -> None:
    job_id = put_job(seeded, 38, DIAMOND)
    visitor = visit(seeded, permissions=["clipboard-read", "clipboard-write"])
    page = visitor.open(address(job_id, tab="/definition"))
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert '"union_0"' in page.evaluate("navigator.clipboard.readText()")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download").first.click()
    assert saved.value.suggested_filename == f"dsl_{job_id}.json"


def test_a_component_that_does_not_run_here_leads_to_its_row(
    visitor: Visitor, seeded: Place
) -> None:
    every = {"components": {**seeds.dsl(DIAMOND)["components"], "keys_0": {"module": "Keys"}}}
    of = seeds.job(40, dsl=every, conf=CONF)
    seeds.put(seeded.store, of, seeds.task(of, "reader_0", "Reader"))
    page = opened(visitor, of.key.job_id)
    expect(box(page, "keys_0")).to_have_class(re.compile("elsewhere"))
    expect(box(page, "keys_0")).to_have_attribute("href", re.compile("^#component-"))
    expect(row(page, "keys_0")).to_contain_text("does not run at this site")


def test_a_job_of_one_component_is_drawn(visitor: Visitor, seeded: Place) -> None:
    local = Site(Role.LOCAL, PartyId("9999"))
    of = seeds.job(
        39, key=JobKey(job_id=seeds.job_id(39), site=local), initiator=local,
        roles={"local": ["9999"]}, dsl={"components": {"upload_0": {"module": "Upload"}}},
    )  # fmt: skip
    seeds.put(seeded.store, of, seeds.task(of, "upload_0", "Upload"))
    page = opened(visitor, of.key.job_id, local)
    expect(page.locator("ff-dag a.box")).to_have_count(1)
