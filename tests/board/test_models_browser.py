"""Models, data and tables as people use them: by keyboard, on a phone, with drawings."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from fedflow.domain.records import TableRecord
from tests.board import real_models
from tests.board.model_seeds import (
    add_attempts,
    add_share,
    model_path,
    put_model,
    put_output,
    stored_table,
)
from tests.board.places import NARROW, WIDE, Place, Visitor, check_fits
from tests.board.real_models import GUEST, GUEST_MARK, HOST
from tests.board.seeds import HOSTILE, job, put, task

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
WEIGHTS, BINS, MAP, STEPS, SELECTION, HOSTILE_BINS, PSI, ATTEMPTS, TREES, DEEP = range(400, 410)


@pytest.fixture(scope="module")
def models(seeded: Place) -> Place:
    """The server, with some models."""
    weights = {f"feature_{i:04}": random.Random(i).uniform(-1, 1) for i in range(300)}
    param = {"weight": weights, "header": list(weights), "iters": 3, "is_converged": True}
    add_share(
        seeded, WEIGHTS, GUEST, "HeteroLR",
        param_name="HeteroLogisticRegressionParam", param={**param, "intercept": 0.25},
    )  # fmt: skip
    put_model(seeded, BINS, real_models.binning())
    put_model(seeded, STEPS, real_models.stepwise())
    put_model(seeded, SELECTION, real_models.selection())
    put_model(seeded, PSI, real_models.stability())
    put_model(seeded, TREES, real_models.boosted(3, holes=True))
    add_share(
        seeded, DEEP, GUEST, "HeteroSecureBoost",
        param_name="HeteroSecureBoostingTreeGuestParam", param=deep_trees(),
    )  # fmt: skip
    names = [f"column_{i}" for i in range(200)]
    flat = [random.Random(i * j).uniform(-1, 1) for i in range(200) for j in range(200)]
    correlated = {"names": names, "local_corr": flat, "local_vif": [1.5] * 200}
    add_share(seeded, MAP, GUEST, "P", param_name="HeteroPearsonModelParam", param=correlated)
    bins = {
        text: {"split_points": [1.0, 2.0], "bin_nums": 2, "woe_array": [0.1, -0.2], "iv": 0.3,
               "event_count_array": [1, 2], "non_event_count_array": [3, 4]}
        for text in HOSTILE
    }  # fmt: skip
    binned = {"binning_result": {"binning_result": bins}, "header": list(bins)}
    add_share(seeded, HOSTILE_BINS, GUEST, "B", param_name="FeatureBinningParam", param=binned)
    return seeded


@pytest.fixture(scope="module")
def table(seeded: Place) -> TableRecord:
    count = 230
    columns = {"uid": [f"row{i:04}" for i in range(count)], "a": [i / 4 for i in range(count)]}
    made = stored_table(seeded, "shown", "table", columns)
    of = job(1)
    put(seeded.store, of, task(of, "dataio_0", "DataTransform"))
    put_output(seeded, 1, GUEST, made)
    return made


def deep_trees() -> dict[str, object]:
    """Return a tree of seven levels of splits, by columns with hostile names."""
    nodes: list[dict[str, object]] = [
        {"id": i, "sitename": "guest:9999", "fid": i % len(HOSTILE), "left_nodeid": 2 * i + 1,
         "right_nodeid": 2 * i + 2}
        for i in range(127)
    ]  # fmt: skip
    nodes += [{"id": i, "is_leaf": True, "weight": i / 64} for i in range(127, 255)]
    return {
        "trees_": [
            {
                "tree_": nodes,
                "split_maskdict": {str(i): i / 8 for i in range(127)},
                "leaf_count": {str(i): 10 for i in range(127, 255)},
            }
        ],
        "feature_name_fid_mapping": {str(i): text for i, text in enumerate(HOSTILE)},
    }


def first_cells(page: Page, table_id: str) -> list[str]:
    return page.locator(f"#t-{table_id} tbody th").all_inner_texts()


def test_a_table_is_sorted_and_searched_by_keyboard(models: Place, visitor: Visitor) -> None:
    page = visitor.open(model_path(WEIGHTS, GUEST))
    head = page.get_by_role("columnheader", name="Weight")
    expect(head).to_have_attribute("aria-sort", "none")
    head.get_by_role("link").focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    values = page.locator("#t-weights tbody td").all_inner_texts()
    numbers = [float(text) for text in values]
    assert numbers == sorted(numbers, reverse=True)
    field = page.get_by_label("Text in a row")
    field.focus()
    page.keyboard.type("feature_001")
    page.keyboard.press("Enter")
    expect(page.locator("#t-weights tbody tr")).to_have_count(10)
    expect(head).to_have_attribute("aria-sort", "descending")
    assert sorted(first_cells(page, "weights"))[0] == "feature_0010"


def test_a_long_table_is_paged(models: Place, visitor: Visitor) -> None:
    page = visitor.open(model_path(WEIGHTS, GUEST))
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("Page 2 of 13")).to_be_visible()
    assert first_cells(page, "weights")[0] == "feature_0025"


def test_a_feature_of_the_bins_is_chosen_and_drawn(
    models: Place, visitor: Visitor, axe: Callable[[Page], None], shot: Callable[[Page, str], None]
) -> None:
    page = visitor.open(model_path(BINS, GUEST))
    page.get_by_role("link", name=f"{GUEST_MARK}_age").click()
    expect(page.get_by_role("heading", name=f"Bins of {GUEST_MARK}_age")).to_be_visible()
    charts = page.locator("svg.chart")
    expect(charts).to_have_count(2)
    expect(charts.nth(0).locator("rect")).to_have_count(8)
    expect(charts.nth(1).locator("polyline")).to_have_count(1)
    colours = charts.nth(0).locator("rect").evaluate_all(
        "all => [...new Set(all.map((one) => getComputedStyle(one).fill))]"
    )  # fmt: skip
    assert len(colours) == 2
    axe(page)
    shot(page, "model-bins")
    page.get_by_label("Columns of").select_option("host 10000")
    page.get_by_role("button", name="Show").first.click()
    expect(page.get_by_role("link", name="host_10000_x0", exact=True)).to_be_visible()


def test_a_tree_is_chosen_by_round_and_class_and_drawn(
    models: Place, visitor: Visitor, axe: Callable[[Page], None], shot: Callable[[Page, str], None]
) -> None:
    page = visitor.open(model_path(TREES, GUEST))
    page.get_by_label("Tree of round", exact=True).select_option("1")
    page.get_by_role("button", name="Show").first.click()
    page.get_by_label("Class", exact=True).select_option("2")
    page.get_by_role("button", name="Show").nth(1).click()
    expect(page.get_by_role("heading", name="Tree of round 1", exact=True)).to_be_visible()
    boxes = page.locator("svg.splits rect.box")
    rows = page.locator("#t-nodes tbody tr")
    assert boxes.count() == rows.count() > 6
    assert page.locator("svg.splits path.edge").count() == boxes.count() - 1
    expect(page.locator("svg.splits text.first", has_text="host 10000").first).to_be_visible()
    axe(page)
    shot(page, "model-trees")
    page = visitor.open(model_path(TREES, HOST))
    expect(page.locator("#t-own-splits tbody tr").first).to_be_visible()
    expect(page.locator("svg.splits")).to_have_count(0)
    shot(page, "model-trees-host")


def test_a_deep_tree_with_hostile_names_is_drawn_in_parts(
    models: Place, visitor: Visitor, axe: Callable[[Page], None]
) -> None:
    page = visitor.open(model_path(DEEP, GUEST))
    expect(page.locator("svg.splits rect.box")).to_have_count(63)
    axe(page)
    page.get_by_role("link", name="go on").last.press("Enter")
    expect(page.get_by_text("From node 62 on.")).to_be_visible()
    expect(page.locator("svg.splits rect.box.leaf")).to_have_count(4)
    assert "owned" not in page.title()


def test_a_map_of_200_features_is_drawn_without_freezing_the_page(
    models: Place, visitor: Visitor, axe: Callable[[Page], None], shot: Callable[[Page, str], None]
) -> None:
    page = visitor.open(model_path(MAP, GUEST))
    grid = page.locator("ff-heatmap")
    grid.scroll_into_view_if_needed()
    expect(grid).to_have_attribute("data-drawn", "200x200")
    took = page.evaluate("performance.getEntriesByName('ff-heatmap')[0].duration")
    assert took < 10_000
    canvas = grid.locator("canvas").last
    canvas.focus()
    expect(grid.locator(".said")).to_contain_text("column_0 and column_0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(grid.locator(".said")).to_contain_text("column_2 and column_1")
    expect(page.locator("#ff-status")).to_contain_text("column_2 and column_1")
    page.keyboard.press("End")
    expect(grid.locator(".said")).to_contain_text("column_199 and column_199")
    before = canvas.evaluate("one => one.toDataURL()")
    grid.get_by_label("At least").fill("0.9")
    assert canvas.evaluate("one => one.toDataURL()") != before
    grid.get_by_role("button", name="Larger").click()
    expect(page.get_by_role("heading", name="Correlations within this site: pairs")).to_be_visible()
    axe(page)
    shot(page, "model-correlations")


def test_a_part_of_the_name_picks_columns_of_the_map(models: Place, visitor: Visitor) -> None:
    page = visitor.open(model_path(MAP, GUEST))
    page.get_by_label("Columns whose name has").fill("column_19")
    page.keyboard.press("Enter")
    grid = page.locator("ff-heatmap")
    expect(grid).to_have_attribute("data-drawn", "11x11")


def test_hostile_names_are_shown_as_texts(models: Place, visitor: Visitor) -> None:
    page = visitor.open(model_path(HOSTILE_BINS, GUEST))
    for text in HOSTILE:
        if len(text) < 60:
            expect(page.get_by_text(text).first).to_be_attached()
    links = page.locator("#t-features tbody th a")
    assert links.count() == len(HOSTILE)
    for number in range(len(HOSTILE)):
        page.locator("#t-features tbody th a").nth(number).click()
        expect(page.locator("svg.chart")).to_have_count(2)
    assert "owned" not in page.title()


@pytest.mark.parametrize("number", [WEIGHTS, BINS, MAP, STEPS, SELECTION, PSI, TREES])
def test_model_pages_are_accessible_and_fit_a_phone(
    models: Place, visitor: Visitor, axe: Callable[[Page], None], number: int
) -> None:
    page = visitor.open(model_path(number, GUEST))
    axe(page)
    visitor.sized(NARROW)
    check_fits(page)
    axe(page)


def test_another_attempt_is_chosen_by_keyboard_and_named_in_both_languages(
    models: Place, visitor: Visitor, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    add_attempts(models, ATTEMPTS, {i: 0.5 + i / 64 for i in range(12)}, count=14)
    path = model_path(ATTEMPTS, GUEST)
    page = visitor.open(path)
    choice = page.get_by_role("navigation", name="Attempts that stored a model")
    expect(choice.locator("[aria-current=true]")).to_contain_text("Attempt 11")
    choice.get_by_role("link", name="Attempt 3").press("Enter")
    expect(page.get_by_text("This is the model of attempt 3.")).to_be_visible()
    expect(page.get_by_role("cell", name="0.546875").first).to_be_visible()
    assert page.url.endswith(f"{path}?attempt=3")
    axe(page)
    visitor.sized(NARROW)
    check_fits(page)
    axe(page)
    page = visit(models, locale="zh-CN").open(f"{path}?attempt=12")
    expect(page.get_by_text("第 12 次尝试在本站点没有存储模型。")).to_be_visible()
    page.get_by_role("navigation", name="存储了模型的尝试").get_by_role("link").last.click()
    expect(page.get_by_text("这是第 0 次尝试的模型。")).to_be_visible()


def test_models_are_read_in_the_dark_and_in_chinese(
    models: Place,
    visit: Callable[..., Visitor],
    axe: Callable[[Page], None],
) -> None:
    visitor = visit(models, color_scheme="dark", locale="zh-CN")
    for number in (BINS, MAP):
        page = visitor.open(model_path(number, GUEST))
        axe(page)
        expect(page.get_by_role("link", name="以 JSON 下载模型")).to_be_visible()


def test_models_are_read_without_scripts(models: Place, visit: Callable[..., Visitor]) -> None:
    visitor = visit(models, java_script_enabled=False)
    page = visitor.open(model_path(BINS, GUEST))
    expect(page.locator("svg.chart")).to_have_count(2)
    page.get_by_role("columnheader", name="IV").first.get_by_role("link").click()
    expect(page.locator("#t-features th[aria-sort=descending]")).to_have_count(1)
    page = visitor.open(model_path(MAP, GUEST))
    expect(page.get_by_text("The map needs JavaScript")).to_be_visible()
    expect(page.locator("#t-own-pairs tbody tr").first).to_be_visible()


# --- data and tables ------------------------------------------------------------------------------


def test_rows_of_an_output_are_paged(
    table: TableRecord, visitor: Visitor, axe: Callable[[Page], None]
) -> None:
    page = visitor.open(model_path(1, GUEST, "data", "dataio_0"))
    expect(page.get_by_role("rowheader", name="row0000")).to_be_visible()
    axe(page)
    page.get_by_role("link", name="5", exact=True).click()
    expect(page.get_by_role("rowheader", name="row0229")).to_be_visible()
    page.get_by_role("link", name="shown / table").click()
    expect(page.get_by_role("heading", name="shown / table")).to_be_visible()


def test_pages_of_tables_are_accessible_and_fit_a_phone(
    table: TableRecord,
    visitor: Visitor,
    axe: Callable[[Page], None],
    shot: Callable[[Page, str], None],
) -> None:
    paths = {
        "tables": "/board/tables",
        "table": "/board/tables/table?namespace=shown&name=table",
        "upload": "/board/tables/upload",
        "data": model_path(1, GUEST, "data", "dataio_0"),
    }
    for name, path in paths.items():
        visitor.sized(WIDE)
        page = visitor.open(path)
        axe(page)
        shot(page, name)
        visitor.sized(NARROW)
        check_fits(page)
        axe(page)
        shot(page, f"{name}-narrow")


def test_a_file_is_uploaded_and_its_job_is_shown(
    table: TableRecord, visitor: Visitor, tmp_path: Path
) -> None:
    (tmp_path / "d.csv").write_text("id,x\n1,2\n")
    page = visitor.open("/board/tables/upload")
    page.get_by_label("Namespace").fill("from a browser")
    page.get_by_label("Name", exact=True).fill("<b>bold</b>")
    page.get_by_label("File").set_input_files(tmp_path / "d.csv")
    page.get_by_role("button", name="Upload").click()
    page.wait_for_url("**/local/0")


def test_a_refused_upload_says_why_and_can_be_repeated(
    table: TableRecord, visitor: Visitor, tmp_path: Path
) -> None:
    (tmp_path / "d.csv").write_text("id,x\n1,2\n")
    page = visitor.open("/board/tables/upload")
    page.get_by_label("Namespace").fill("shown")
    page.get_by_label("Name", exact=True).fill("table")
    page.get_by_label("File").set_input_files(tmp_path / "d.csv")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert").filter(has_text="exists already")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("another")
    page.get_by_role("button", name="Upload").click()
    page.wait_for_url("**/local/0")


def test_deleting_a_table_says_what_uses_it_first(
    seeded: Place, table: TableRecord, visitor: Visitor
) -> None:
    made = stored_table(seeded, "shown", "goes", {"uid": ["1"], "a": [1]})
    put_output(seeded, 1, HOST, made, component="other_0")
    page = visitor.open("/board/tables/table?namespace=shown&name=goes")
    page.get_by_text("Delete", exact=True).click()
    expect(page.get_by_text("1 tasks created or read it")).to_be_visible()
    page.get_by_role("button", name="Delete this table").click()
    expect(page.get_by_text("The table shown / goes was deleted.")).to_be_visible()
