"""Writing a job in a browser: mistakes while typing, the picture, sending it once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from fedflow.domain.records import JobFilter
from tests.board import seeds
from tests.board.jobs_to_submit import Person, empty_conf, empty_dsl
from tests.board.places import NARROW, Place, Visitor, check_fits

pytestmark = [pytest.mark.timeout(600), pytest.mark.browser]
expect.set_options(timeout=60_000)
JOB_PAGE = re.compile(r"/board/jobs/\d+/guest/9999$")


def write(page: Page, dsl: object, conf: object) -> None:
    """Fill both fields; what is no text is written as JSON."""
    for label, value in (("DSL", dsl), ("Runtime conf", conf)):
        text = value if isinstance(value, str) else json.dumps(value, indent=2)
        page.get_by_label(label, exact=True).fill(text)


def verdict(page: Page) -> Locator:
    """Return the line that says how many mistakes there are."""
    return page.locator(".verdict")


def drawn(page: Page) -> Locator:
    """Return the boxes of the picture, which is drawn when it is seen."""
    page.locator("ff-dag").scroll_into_view_if_needed()
    return page.locator("ff-dag a.box")


def jobs(place: Place) -> int:
    return len({job.key.job_id for job in place.services.jobs.find(JobFilter())})


def test_three_mistakes_are_seen_mended_and_the_job_is_submitted(
    visitor: Visitor, shot: Callable[[Page, str], None], axe: Callable[[Page], None]
) -> None:
    page = visitor.open("/board/submit")
    dsl = empty_dsl(("first", "second", "third"))
    dsl["components"]["first"]["module"] = "Emty"
    dsl["components"]["second"]["input"]["data"]["data"] = ["nobody.data"]
    dsl["components"]["third"]["output"] = "blue"
    write(page, dsl, empty_conf())
    items = page.locator(".mistakes li")
    expect(items).to_have_count(3)
    expect(items.nth(1)).to_contain_text('there is no component "nobody"')
    shot(page, "submit-mistakes")
    axe(page)

    items.first.get_by_role("link").click()
    field = page.get_by_label("DSL", exact=True)
    expect(field).to_be_focused()
    chosen = field.evaluate("a => a.value.slice(a.selectionStart, a.selectionEnd)")
    assert chosen == '"module": "Emty"'
    page.keyboard.insert_text('"module": "Empty"')
    expect(items).to_have_count(2)

    write(page, empty_dsl(("first", "second", "third")), empty_conf())
    expect(verdict(page)).to_have_text("No mistakes found.")
    expect(drawn(page)).to_have_count(3)
    shot(page, "submit")
    axe(page)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(JOB_PAGE)
    expect(page.get_by_text("was submitted.")).to_be_visible()


def test_the_picture_follows_what_is_written(visitor: Visitor) -> None:
    page = visitor.open("/board/submit")
    write(page, empty_dsl(("one", "two")), empty_conf())
    boxes = drawn(page)
    expect(boxes).to_have_count(2)
    write(page, empty_dsl(("one", "two", "three", "four")), empty_conf())
    expect(boxes).to_have_count(4)
    boxes.nth(1).press("Enter")
    expect(page.locator("#steps")).to_have_attribute("open", "")


def test_what_is_no_json_is_told_with_its_place_while_one_types(visitor: Visitor) -> None:
    page = visitor.open("/board/submit")
    write(page, '{\n  "components": {"a": 1,}\n}', empty_conf())
    item = page.locator(".mistakes li").first
    expect(item).to_contain_text("DSL, line 2, column 24")
    expect(item).to_contain_text("There is a comma after the last member")


def test_a_double_click_and_a_reload_submit_once(visitor: Visitor, seeded: Place) -> None:
    before = jobs(seeded)
    page = visitor.open("/board/submit")
    write(page, empty_dsl(), empty_conf())
    expect(verdict(page)).to_have_text("No mistakes found.")
    page.get_by_role("button", name="Submit", exact=True).dblclick()
    expect(page).to_have_url(JOB_PAGE)
    assert jobs(seeded) == before + 1
    page.reload()
    expect(page).to_have_url(JOB_PAGE)
    assert jobs(seeded) == before + 1


def test_files_are_opened_in_place(visitor: Visitor, tmp_path: Path) -> None:
    dsl, conf = tmp_path / "my_dsl.json", tmp_path / "my_conf.json"
    dsl.write_text(json.dumps(empty_dsl(), indent=2), encoding="utf-8")
    conf.write_text(json.dumps(empty_conf(), indent=2), encoding="utf-8")
    page = visitor.open("/board/submit")
    page.get_by_label("Files: DSL, conf, or one file with both").set_input_files([conf, dsl])
    expect(page.get_by_label("DSL", exact=True)).to_have_value(dsl.read_text(encoding="utf-8"))
    expect(page.get_by_label("Runtime conf", exact=True)).to_have_value(
        conf.read_text(encoding="utf-8")
    )
    expect(verdict(page)).to_have_text("No mistakes found.")
    bad = tmp_path / "table.csv"
    bad.write_bytes(b"\xff\xfe1,2")
    page.get_by_label("Files: DSL, conf, or one file with both").set_input_files(bad)
    expect(page.get_by_role("alert")).to_contain_text("table.csv is no UTF-8 text")


def test_a_copy_is_changed_in_one_place_and_submitted(visitor: Visitor, seeded: Place) -> None:
    sent = Person(seeded.url).send(empty_dsl(), empty_conf({"first": {"sleep_s": 0}}))
    job_id = sent.headers["Location"].split("/")[3]
    page = visitor.open(f"/board/submit?from={job_id}")
    expect(page.get_by_text("Nothing: this is an exact copy.")).to_be_visible()
    conf = page.get_by_label("Runtime conf", exact=True)
    conf.fill(conf.input_value().replace('"sleep_s": 0', '"sleep_s": 0.25'))
    rows = page.locator("#changes tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("$.conf.component_parameters.common.first.sleep_s")
    expect(rows).to_contain_text("0.25")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(JOB_PAGE)
    assert job_id not in page.url


def test_the_editor_indents_and_lets_the_keyboard_leave(visitor: Visitor) -> None:
    page = visitor.open("/board/submit")
    field = page.get_by_label("DSL", exact=True)
    field.focus()
    page.keyboard.type("{")
    page.keyboard.press("Enter")
    page.keyboard.type("x")
    expect(field).to_have_value("{\n  x")
    page.keyboard.press("Tab")
    expect(field).to_have_value("{\n  x  ")
    page.keyboard.press("Shift+Tab")
    expect(field).to_have_value("{\nx  ")
    page.keyboard.press("Control+z")
    expect(field).to_have_value("{\n  x  ")
    expect(page.locator(".lines").first).to_have_text("1\n2")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Runtime conf", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+Tab")
    expect(field).to_be_focused()


def test_hostile_names_are_texts_in_the_page(visitor: Visitor) -> None:
    page = visitor.open("/board/submit")
    for text in seeds.HOSTILE:
        write(page, {"components": {text: {"module": text}}}, empty_conf({text: {text: text}}))
        expect(page.locator(".mistakes li").first).to_be_visible()
        expect(page).to_have_title("Submit a job - fedflow")
    good = empty_conf({"first": {"sleep_s": 0}}, user=seeds.HOSTILE[0])
    write(page, empty_dsl(), good)
    expect(verdict(page)).to_have_text("No mistakes found.")


def test_a_file_of_one_million_characters_does_not_stop_the_editor(
    visitor: Visitor, tmp_path: Path
) -> None:
    page = visitor.open("/board/submit")
    dsl = empty_dsl(tuple(f"component_{i}" for i in range(4_000)))
    file = tmp_path / "both.json"
    file.write_text(json.dumps({"dsl": dsl, "runtime_conf": empty_conf()}, indent=4), "utf-8")
    assert file.stat().st_size > 1_000_000
    page.get_by_label("Files: DSL, conf, or one file with both").set_input_files(file)
    expect(verdict(page)).to_have_text("No mistakes found.")
    expect(page.locator("ff-dag")).to_have_count(0)
    expect(page.get_by_text("The 4,000 components as a list")).to_be_visible()


def test_the_page_fits_a_phone(visitor: Visitor, axe: Callable[[Page], None]) -> None:
    visitor.sized(NARROW)
    page = visitor.page()
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    page.goto(visitor.url + "/board/submit?example=hetero_lr")
    expect(drawn(page)).to_have_count(5)
    check_fits(page)
    axe(page)


def test_without_scripts_the_page_checks_and_submits(
    visit: Callable[..., Visitor], seeded: Place
) -> None:
    page = visit(seeded, java_script_enabled=False).open("/board/submit")
    write(page, '{"components": {}}', empty_conf())
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".mistakes li")).to_have_count(1)
    write(page, empty_dsl(), empty_conf())
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(JOB_PAGE)


def test_a_server_that_does_not_answer_is_told_and_the_text_stays(visitor: Visitor) -> None:
    page = visitor.open("/board/submit")
    page.route("**/board/submit/findings", lambda route: route.abort("connectionrefused"))
    write(page, empty_dsl(), empty_conf())
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.unroute("**/board/submit/findings")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(verdict(page)).to_have_text("No mistakes found.")
    expect(page.locator("#ff-alert")).to_be_hidden()
    visitor.troubles.clear()  # htmx tells the console of the request that failed


def test_the_page_speaks_chinese(visit: Callable[..., Visitor], seeded: Place) -> None:
    page = visit(seeded, locale="zh-CN").open("/board/submit?example=hetero_lr")
    expect(page.get_by_role("heading", level=1)).to_have_text("提交作业")
    expect(verdict(page)).to_have_text("2 处错误：")  # its two tables
