"""The component page in a real browser: drawings, legend, zoom, sliders, liveness."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from fedflow.domain.records import TaskRecord
from fedflow.domain.states import TaskEvent, TaskStatus
from tests.board import seeds
from tests.board.component_seeds import address, evaluation, losses, metric, put_trained
from tests.board.places import NARROW, Place, Visitor, check_fits

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def trained(seeded: Place) -> tuple[TaskRecord, TaskRecord]:
    _, model, evaluated = put_trained(seeded.store, 1)
    return model, evaluated


def chart(page: Page, key: str) -> object:
    return page.locator(f"#view-{key} ff-chart")


def test_charts_are_drawn_and_the_page_is_accessible(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord], axe: Callable[[Page], None],
    shot: Callable[[Page, str], None],
) -> None:  # fmt: skip
    page = visitor.open(address(trained[1], "metrics"))
    for key in ("roc", "ks"):
        page.locator(f"#view-{key}").scroll_into_view_if_needed()
        canvas = page.locator(f"#view-{key} ff-chart canvas")
        expect(canvas).to_be_visible()
        assert canvas.evaluate("c => c.width") > 200
    page.locator("#view-psi-0").scroll_into_view_if_needed()
    expect(page.locator("#view-psi-0 ff-chart rect[x]").first).to_be_visible()
    page.locator("#view-confusion").scroll_into_view_if_needed()
    expect(page.locator("#view-confusion ff-steps input[type=range]")).to_be_visible()
    axe(page)
    shot(page, "component-metrics")


def test_the_drawing_library_and_the_points_are_asked_for_once_a_chart_is_seen(
    visitor: Visitor, seeded: Place
) -> None:
    job = seeds.job(2)
    task = seeds.task(job, "reader_0", "Reader")
    seeds.put(seeded.store, job, task)
    tables = [metric("", f"table {i}", *((f"n{j}", j) for j in range(80))) for i in range(6)]
    seeds.put_metrics(seeded.store, task, losses())
    page = visitor.page()
    page.set_viewport_size({"width": 800, "height": 200})
    seeds.put_metrics(seeded.store, task, *tables, metric("", "far", (0, 1), (1, 2)))
    page.goto(visitor.url + address(task, "metrics"))
    expect(page.locator("#view-loss")).to_be_attached()
    urls = [request.url for request in visitor.asked]
    assert not [url for url in urls if "uPlot" in url]
    assert not [url for url in urls if "metrics/view" in url]
    page.locator("#view-loss ff-chart").scroll_into_view_if_needed()
    expect(page.locator("#view-loss ff-chart canvas")).to_be_visible()
    urls = [request.url for request in visitor.asked]
    assert [url for url in urls if "uPlot.esm" in url]
    assert len([url for url in urls if "metrics/view?" in url]) == 1


def test_curves_are_hidden_and_shown_by_keyboard_one_by_one_and_by_part(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    page = visitor.open(address(trained[1], "metrics"))
    page.locator("#view-ks").scroll_into_view_if_needed()
    legend = page.locator("#view-ks ff-chart .legend")
    button = legend.get_by_role("button", name=re.compile("train tpr"))
    expect(button).to_have_attribute("aria-pressed", "true")
    button.press("Space")
    expect(button).to_have_attribute("aria-pressed", "false")
    assert page.locator("#view-ks ff-chart").evaluate("c => c.lines.plot.series[1].show") is False
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    part = page.locator("#view-ks ff-chart .filters").get_by_role("button", name="validate")
    part.press("Space")
    shown = page.locator("#view-ks ff-chart").evaluate(
        "c => c.lines.plot.series.slice(1).map(s => s.show)"
    )
    assert shown == [True, True, False, False]


def test_values_are_read_and_zoomed_by_keyboard(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    page = visitor.open(address(trained[1], "metrics"))
    page.locator("#view-roc").scroll_into_view_if_needed()
    plot = page.locator("#view-roc ff-chart .plot")
    expect(plot.locator("canvas")).to_be_visible()
    expect(plot).to_have_attribute("role", "img")
    expect(plot).to_have_attribute("aria-label", re.compile("ROC curve"))
    plot.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    readout = page.locator("#view-roc ff-chart .readout")
    expect(readout).to_contain_text("False positive rate 0.02")
    expect(readout).to_contain_text("(Threshold 0.98)")
    page.keyboard.press("+")
    zoomed = page.locator("#view-roc ff-chart").evaluate("c => c.lines.zoomed()")
    assert zoomed is not None
    assert zoomed[1] < 1
    page.keyboard.press("0")
    assert page.locator("#view-roc ff-chart").evaluate("c => c.lines.zoomed()") is None


def test_dragging_zooms_and_the_button_shows_all_again(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    page = visitor.open(address(trained[1], "metrics"))
    page.locator("#view-roc").scroll_into_view_if_needed()
    over = page.locator("#view-roc ff-chart .u-over")
    expect(over).to_be_visible()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=5)
    page.mouse.up()
    low, high = page.locator("#view-roc ff-chart").evaluate("c => c.lines.zoomed()")
    assert 0.1 < low < 0.3 < 0.5 < high < 0.7
    page.locator("#view-roc ff-chart").get_by_role("button", name="Show all").click()
    assert page.locator("#view-roc ff-chart").evaluate("c => c.lines.zoomed()") is None


def test_the_slider_changes_the_matrix(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    page = visitor.open(address(trained[1], "metrics"))
    page.locator("#view-confusion").scroll_into_view_if_needed()
    slider = page.locator("#view-confusion ff-steps").get_by_label("Threshold")
    cell = page.locator("#view-confusion ff-steps tbody td:visible").nth(2)
    expect(cell).to_have_text("50 (25.0 %)")
    slider.press("ArrowRight")
    expect(cell).to_have_text("49 (24.5 %)")
    slider.press("End")
    expect(page.locator("#view-confusion ff-steps output")).to_have_text("0.99")


def test_pictures_are_saved_as_png_and_svg_and_points_as_csv(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    page = visitor.open(address(trained[1], "metrics"))
    page.locator("#view-roc").scroll_into_view_if_needed()
    tools = page.locator("#view-roc ff-chart .tools")
    expect(page.locator("#view-roc ff-chart canvas")).to_be_visible()
    for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with page.expect_download() as saved:
            tools.get_by_role("button", name=kind).click()
        assert saved.value.suggested_filename == f"roc.{kind.lower()}"
        with open(saved.value.path(), "rb") as file:
            assert file.read().startswith(begins)
    with page.expect_download() as saved:
        tools.get_by_role("link", name="CSV").click()
    with open(saved.value.path(), "rb") as file:
        assert file.read().count(b"\r\n") == 203


def test_a_running_component_gets_new_points_and_the_zoom_stays(
    visitor: Visitor, seeded: Place
) -> None:
    job = seeds.job(3)
    task = replace(
        seeds.task(job, "reader_0", "Reader"), status=TaskStatus.RUNNING,
        party_status=TaskStatus.RUNNING, ended_ms=None, progress=0.5,
    )  # fmt: skip
    seeds.put(seeded.store, job, task)
    seeds.put_metrics(seeded.store, task, losses(20))
    page = visitor.open(address(task, "metrics"))
    drawing = page.locator("#view-loss ff-chart")
    expect(drawing.locator("canvas")).to_be_visible()
    details = page.locator("#view-loss details")
    details.locator("summary").click()
    drawing.get_by_role("button", name="Zoom in").click()
    before = drawing.evaluate("c => c.lines.zoomed()")
    assert before is not None
    seeds.put_metrics(seeded.store, task, metric("LOSS", "loss", (20, 0.1), (21, 0.09)))
    expect(details.locator("tbody tr")).to_have_count(22)
    expect(details).to_have_attribute("open", "")
    page.wait_for_function(
        "() => document.querySelector('#view-loss ff-chart').lines.plot.data[0].length === 22"
    )
    assert drawing.evaluate("c => c.lines.zoomed()") == before
    with seeded.store.transaction() as tx:
        tx.tasks.move_party(task.key, TaskEvent.SUCCEEDED, seen=TaskStatus.RUNNING, now_ms=1)
    expect(page.locator("#component-head .status").first).to_contain_text("success")


def test_a_drawing_that_could_not_be_loaded_says_so_and_is_tried_again(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    page = visitor.page()
    page.route(re.compile("metrics/view"), lambda route: route.fulfill(status=503, body="{}"))
    page.goto(visitor.url + address(trained[0], "metrics"))
    drawing = page.locator("#view-loss ff-chart")
    expect(drawing).to_contain_text("The drawing could not be loaded.")
    page.unroute(re.compile("metrics/view"))
    drawing.get_by_role("button", name="Try again").click()
    expect(drawing.locator("canvas")).to_be_visible()


def test_a_job_that_is_deleted_while_one_looks_is_told(visitor: Visitor, seeded: Place) -> None:
    job = seeds.job(6)
    task = seeds.task(job, "reader_0", "Reader", status=TaskStatus.RUNNING,
                      party_status=TaskStatus.RUNNING, ended_ms=None)  # fmt: skip
    seeds.put(seeded.store, job, task)
    page = visitor.open(address(task, "metrics"))
    expect(page.get_by_text("No metrics yet")).to_be_visible()
    with seeded.store.transaction() as tx:
        tx.tasks.drop(job.key.job_id)
        tx.jobs.drop(job.key.job_id)
    expect(page.locator("#ff-alert")).to_contain_text("This no longer exists")


def test_bars_are_hidden_and_shown_and_saved_as_a_picture(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    page = visitor.open(address(trained[1], "metrics"))
    page.locator("#view-psi-0").scroll_into_view_if_needed()
    drawing = page.locator("#view-psi-0 ff-chart")
    bars = drawing.locator(".plot g[data-series]")
    expect(bars).to_have_count(2)
    drawing.locator(".legend").get_by_role("button", name="Train share").press("Enter")
    expect(bars).to_have_count(1)
    with page.expect_download() as saved:
        drawing.get_by_role("button", name="SVG").click()
    with open(saved.value.path(), encoding="utf-8") as file:
        picture = file.read()
    assert "Validate share" in picture
    assert "Train share" not in picture


def test_gaps_and_steps_are_drawn(visitor: Visitor, seeded: Place) -> None:
    job = seeds.job(7)
    task = seeds.task(job, "reader_0", "Reader")
    seeds.put(seeded.store, job, task)
    seeds.put_metrics(
        seeded.store, task,
        metric("LOSS", "loss.0", (0, 1), (1, -9_999_999), (2, 3), curve_name="a"),
        metric("LOSS", "loss.1", (0, 1), (0.5, 2), (0.5, 3), (2, 1), curve_name="b"),
        metric("LOSS", "loss.2", (0, -9_999_999), curve_name="c"),
    )  # fmt: skip
    page = visitor.open(address(task, "metrics"))
    expect(page.locator("#view-loss ff-chart canvas")).to_be_visible()
    found = page.locator("#view-loss ff-chart").evaluate(
        "c => c.lines.plot.data.map(l => l.map(v => v === undefined ? 'no' : v))"
    )
    assert found == [
        [0, 0.5, 0.5, 1, 2], [1, "no", "no", None, 3], [1, 2, 3, "no", 1],
        [None, "no", "no", "no", "no"],
    ]  # fmt: skip


def test_hostile_names_are_texts_in_charts_legends_and_tables(
    visitor: Visitor, seeded: Place
) -> None:
    job = seeds.job(4)
    task = seeds.task(job, "reader_0", "Reader")
    seeds.put(seeded.store, job, task)
    hostile = [text[:150] for text in seeds.HOSTILE]
    for text in hostile:
        seeds.put_metrics(
            seeded.store, task,
            metric("ROC_EVALUATION", f"{text[:100]}_roc", (0, 0), (1, 1), thresholds=[text, text]),
            metric("NEW", f"new {text[:100]}", (text, text), (text + "2", 1)),
            metric("CONFUSION_MAT", f"{text[:100]}_confusion_mat", tp=[1], fn=[1], fp=[1],
                   tn=[text], thresholds=[0.5]),
        )  # fmt: skip
    page = visitor.open(address(task, "metrics"))
    page.locator("#view-roc").scroll_into_view_if_needed()
    legend = page.locator("#view-roc ff-chart .legend")
    expect(legend).to_contain_text(hostile[0])
    page.locator("#view-confusion").scroll_into_view_if_needed()
    expect(page.locator("#view-confusion ff-steps output")).to_have_text("0.5")
    page.locator("#view-roc ff-chart .plot").press("ArrowRight")
    assert page.title().startswith("reader_0")
    assert page.evaluate("document.querySelectorAll('img, [onerror]').length") == 0


def test_a_phone_shows_the_page_without_scrolling_sideways(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord], axe: Callable[[Page], None]
) -> None:
    page = visitor.open(address(trained[1], "metrics"))
    visitor.sized(NARROW)
    page.locator("#view-roc").scroll_into_view_if_needed()
    expect(page.locator("#view-roc ff-chart canvas")).to_be_visible()
    page.locator("#view-psi-0").scroll_into_view_if_needed()
    expect(page.locator("#view-psi-0 ff-chart rect[x]").first).to_be_visible()
    check_fits(page)
    for tab in ("", "parameters"):
        page.goto(visitor.url + address(trained[0], tab))
        check_fits(page)
        axe(page)


def test_the_theme_of_a_drawing_follows_the_page(
    visitor: Visitor, trained: tuple[TaskRecord, TaskRecord], axe: Callable[[Page], None]
) -> None:
    page = visitor.open(address(trained[1], "metrics"))
    page.emulate_media(color_scheme="dark")
    page.locator("#view-roc").scroll_into_view_if_needed()
    expect(page.locator("#view-roc ff-chart canvas")).to_be_visible()
    axe(page)


def test_without_scripts_the_numbers_are_there(
    visit: Callable[..., Visitor], seeded: Place, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    page = visit(seeded, java_script_enabled=False).open(address(trained[1], "metrics"))
    expect(page.locator("#view-confusion table").first).to_be_visible()
    page.locator("#view-roc details summary").click()
    expect(page.locator("#view-roc table")).to_be_visible()


def test_a_folder_of_folds_filters_by_model(visitor: Visitor, seeded: Place) -> None:
    job = seeds.job(5)
    task = seeds.task(job, "reader_0", "Reader")
    seeds.put(seeded.store, job, task)
    for fold in range(3):
        found = [m for m in evaluation(2.0 + fold, model=f"fold_{fold}") if "roc" in m.name]
        seeds.put_metrics(seeded.store, task, *found)
    page = visitor.open(address(task, "metrics"))
    page.locator("#view-roc").scroll_into_view_if_needed()
    filters = page.locator("#view-roc ff-chart .filters")
    filters.get_by_role("button", name="fold_1").click()
    shown = page.locator("#view-roc ff-chart").evaluate(
        "c => c.lines.plot.series.slice(1).map(s => s.show)"
    )
    assert shown.count(False) == 2
