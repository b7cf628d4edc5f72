"""The log viewer in a browser: long logs, what is appended, searches, links, keyboard."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.board.log_seeds import (
    component_logs_path,
    logs_path,
    put_log,
    record,
    seed_failed_then_good,
    seed_running,
)
from tests.board.places import NARROW, Place, Visitor, check_fits
from tests.board.seeds import HOSTILE, job, put

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

BIG = 100 * 1024 * 1024


def viewer(page: Page) -> Locator:
    """Return the viewer once it has its first lines, with all of its box in sight."""
    expect(page.locator("ff-log .viewer")).to_be_visible()
    page.locator("ff-log .log-lines").evaluate("box => box.scrollIntoView({ block: 'end' })")
    return page.locator("ff-log .viewer")


def line(page: Page, number: int) -> Locator:
    return page.locator(f'ff-log li[data-number="{number}"]')


def write_big(path: Path) -> int:
    """Write 100 MB of log and return how many lines."""
    rows = [
        record("WARNING" if n % 97 == 0 else "INFO", f"iteration {n}, loss 0.69{n:06d}", n)
        for n in range(5000)
    ]
    block = "".join(rows).encode()
    repeats = -(-BIG // len(block))
    with path.open("ab") as file:
        for _ in range(repeats):
            file.write(block)
        file.write(record("ERROR", "the needle in it").encode())
        file.write(block)
    return 5000 * (repeats + 1) + 1


def test_a_log_of_100_mb_opens_at_its_end_and_is_read_anywhere(
    seeded: Place, visitor: Visitor, shot: Callable[[Page, str], None]
) -> None:
    of = job(201)
    put(seeded.store, of)
    count = write_big(put_log(seeded, of, ""))
    page = visitor.open(logs_path(of))
    viewer(page)
    expect(line(page, count)).to_be_in_viewport()
    expect(page.locator("ff-log .where")).to_have_text(f"{count:,} of {count:,}")
    lines = page.locator("ff-log .log-lines")
    before = page.locator("ff-log ol.lines > li").count()
    lines.evaluate("box => { box.scrollTop = 0; }")
    expect(line(page, count - 300)).to_be_attached()
    assert page.locator("ff-log ol.lines > li").count() > before
    lines.focus()
    page.keyboard.press("Home")
    expect(line(page, 1)).to_be_in_viewport()
    page.get_by_label("Line", exact=True).fill("500000")
    page.get_by_label("Line", exact=True).press("Enter")
    expect(line(page, 500_000)).to_be_in_viewport()
    expect(page.locator("ff-log .levels")).to_contain_text("ERROR 1")
    shot(page, "logs-100-mb")
    page.get_by_role("checkbox", name="ERROR").check()
    expect(page.locator("ff-log ol.lines > li")).to_have_count(1)
    expect(page.locator("ff-log ol.lines > li")).to_contain_text("the needle in it")
    page.get_by_role("checkbox", name="ERROR").uncheck()
    page.get_by_label("Search in the log").fill("THE NEEDLE")
    expect(page.locator("ff-log .state")).to_contain_text("1 of 1 lines found.")
    expect(page.locator("ff-log li.current mark")).to_have_text("the needle")
    lines.focus()
    page.keyboard.press("End")
    expect(line(page, count)).to_be_in_viewport()


def test_lines_appear_as_they_are_written_until_one_scrolls_away(
    seeded: Place, visitor: Visitor
) -> None:
    of = seed_running(seeded, 202)
    put_log(seeded, of, "".join(record("INFO", f"old row {n}") for n in range(1, 301)))
    page = visitor.open(logs_path(of))
    viewer(page)
    expect(line(page, 300)).to_be_in_viewport()
    go_on = threading.Event()

    def write() -> None:
        for n in range(301, 601):
            put_log(seeded, of, record("INFO", f"new row {n}"))
            if n == 450:
                go_on.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        expect(line(page, 450)).to_be_in_viewport()
        expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="Follow").click()
        page.get_by_role("button", name="To the beginning").click()
        expect(line(page, 1)).to_be_in_viewport()
    finally:
        go_on.set()
        writer.join()
    expect(page.locator("ff-log .where")).to_contain_text("of 600")
    expect(line(page, 1)).to_be_in_viewport()
    page.get_by_role("button", name="To the end").click()
    expect(line(page, 600)).to_be_in_viewport()
    numbers = page.locator("ff-log ol.lines > li").evaluate_all(
        "rows => rows.map(row => Number(row.dataset.number))"
    )
    assert numbers == list(range(numbers[0], 601))


def test_an_unended_line_grows_in_place(seeded: Place, visitor: Visitor) -> None:
    of = seed_running(seeded, 203)
    put_log(seeded, of, "first\nbegun")
    page = visitor.open(logs_path(of))
    viewer(page)
    expect(line(page, 2)).to_contain_text("begun")
    put_log(seeded, of, " and ended\nthird\n")
    expect(line(page, 3)).to_contain_text("third")
    expect(line(page, 2).locator("code")).to_have_text("begun and ended")
    assert page.locator("ff-log ol.lines > li").count() == 3


def test_searches_step_from_match_to_match_and_filter(seeded: Place, visitor: Visitor) -> None:
    of = job(204)
    put(seeded.store, of)
    rows = [record("WARNING" if n % 10 == 0 else "INFO", f"row {n} end") for n in range(1, 1001)]
    put_log(seeded, of, "".join(rows))
    page = visitor.open(logs_path(of))
    viewer(page)
    state = page.locator("ff-log .state")
    page.get_by_label("Search in the log").fill("Row 1")
    expect(state).to_have_text("1 of 112 lines found.")
    page.get_by_role("button", name="Next match").click()
    expect(page.locator("ff-log li.current code")).to_contain_text("row 10 end")
    page.get_by_label("Search in the log").press("Shift+Enter")
    page.get_by_label("Search in the log").press("Shift+Enter")
    expect(page.locator("ff-log li.current code")).to_contain_text("row 1000 end")
    expect(state).to_have_text("112 of 112 lines found.")
    page.get_by_label("Only lines found").check()
    expect(page.locator("ff-log ol.lines > li")).to_have_count(112)
    page.get_by_label("Search in the log").fill("")
    page.get_by_role("checkbox", name="WARNING").check()
    expect(page.locator("ff-log ol.lines > li")).to_have_count(100)
    expect(page.locator("ff-log ol.lines > li").first).to_contain_text("row 10 end")
    page.get_by_role("checkbox", name="WARNING").uncheck()
    expect(line(page, 1000)).to_be_in_viewport()
    page.get_by_label("Search in the log").fill("no such thing")
    expect(state).to_have_text("Nothing was found.")


def test_the_link_to_a_line_is_kept_in_the_address_and_leads_back(
    seeded: Place, visitor: Visitor
) -> None:
    of = job(205)
    put(seeded.store, of)
    put_log(seeded, of, "".join(record("INFO", f"row {n}") for n in range(1, 1001)))
    page = visitor.open(logs_path(of, "?file=info&line=300"))
    viewer(page)
    expect(line(page, 300)).to_have_class("INFO current")
    expect(line(page, 300)).to_be_in_viewport()
    line(page, 302).locator("a").click()
    expect(page.locator("ff-log .state")).to_contain_text("302")
    assert page.url.endswith("/logs?file=info&line=302")
    page.reload()
    viewer(page)
    expect(line(page, 302)).to_be_in_viewport()


def test_lines_are_text_whatever_they_hold(seeded: Place, visitor: Visitor) -> None:
    of = job(206)
    put(seeded.store, of)
    put_log(seeded, of, "".join(record("INFO", text) for text in HOSTILE))
    put_log(seeded, of, b"\x1b[31mred\x1b[0m \xff\n" + b"y" * 5_000_000 + b"\n")
    page = visitor.open(logs_path(of))
    viewer(page)
    expect(line(page, 1)).to_contain_text("<script>document.title='owned'</script>")
    expect(line(page, 7)).to_contain_text("\\u202egpj.exe\\u2066")
    expect(line(page, len(HOSTILE) + 1).locator("code")).to_have_text("red \ufffd")
    expect(line(page, len(HOSTILE) + 2)).to_contain_text("cut: the line has 4.8 MiB")
    assert page.locator("ff-log script, ff-log img").count() == 0
    expect(page).not_to_have_title("owned")
    page.get_by_role("button", name="Wrap lines").click()
    check_fits(page)


def test_a_log_that_is_deleted_while_one_looks_is_said(seeded: Place, visitor: Visitor) -> None:
    of = seed_running(seeded, 207)
    path = put_log(seeded, of, "one\n")
    page = visitor.open(logs_path(of))
    viewer(page)
    shutil.rmtree(path.parent)
    expect(page.locator("ff-log .state")).to_contain_text("may have been deleted")
    expect(line(page, 1)).to_contain_text("one")


def test_a_log_that_is_begun_anew_is_shown_anew(seeded: Place, visitor: Visitor) -> None:
    of = seed_running(seeded, 208)
    path = put_log(seeded, of, "one\ntwo\nthree\n")
    page = visitor.open(logs_path(of))
    viewer(page)
    path.write_text("other\n")
    expect(page.locator("ff-log ol.lines > li")).to_have_count(1)
    expect(line(page, 1)).to_contain_text("other")


def test_the_first_error_of_a_failed_attempt_is_a_click_away(
    seeded: Place, visitor: Visitor, shot: Callable[[Page, str], None]
) -> None:
    of = seed_failed_then_good(seeded, 209)
    page = visitor.open(logs_path(of))
    page.get_by_role("link", name="Show it in the log").click()
    viewer(page)
    expect(line(page, 41)).to_have_class("ERROR current")
    expect(page.get_by_role("heading", name="First real error")).to_be_visible()
    shot(page, "logs-first-error")
    page.get_by_role("link", name="Attempt 1").click()
    expect(line(page, 1)).to_contain_text("attempt one ends well")


def test_pages_of_logs_are_accessible_wide_and_narrow(
    seeded: Place, visitor: Visitor, axe: Callable[[Page], None]
) -> None:
    of = seed_failed_then_good(seeded, 210)
    rows = [record(level, f"row of {level}") for level in ("DEBUG", "INFO", "WARNING", "ERROR")]
    put_log(seeded, of, "".join(rows) + "more\n")
    for path in (logs_path(of, "?line=2"), component_logs_path(of, "lr_0", "?attempt=0")):
        page = visitor.open(path)
        viewer(page)
        axe(page)
        visitor.sized(NARROW)
        check_fits(page)
        axe(page)
        page.emulate_media(color_scheme="dark")
        axe(page)
        page.close()


def test_without_scripts_the_page_has_the_same_lines(
    seeded: Place, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    of = seed_failed_then_good(seeded, 211)
    page = visit(seeded, java_script_enabled=False).open(
        component_logs_path(of, "lr_0", "?attempt=0")
    )
    expect(page.locator("ol.lines > li")).to_have_count(45)
    page.get_by_role("checkbox", name="ERROR").check()
    page.get_by_role("button", name="Search").click()
    expect(page.locator("ol.lines > li")).to_have_count(5)
