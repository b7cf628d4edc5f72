"""Pages of tables: search, order, pages, columns, CSV; and which rows of a stored table show."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import replace

import pytest

from fedflow.board.presenters.models.drawing import bars_of, chart_of
from fedflow.board.presenters.models.sections import (
    Bars,
    ChoiceLink,
    Column,
    Dropped,
    Groups,
    Table,
)
from fedflow.board.presenters.models.slices import COLUMNS, ROWS, csv_of, slice_of
from fedflow.board.presenters.table_facts import columns_of, facts_of
from fedflow.board.presenters.table_rows import COLUMNS as WIDE
from fedflow.board.presenters.table_rows import headers_of, part_of, shown_cell
from fedflow.domain.records import ColumnFacts, TableRecord


def numbered(count: int) -> Table:
    """Return rows (name, number) in no order."""
    rows = [(f"x{i}", float(i)) for i in range(count)]
    random.Random(1).shuffle(rows)
    columns = (Column(title="Name"), Column(title="Number", numeric=True))
    return Table(id="t", title="T", columns=columns, rows=rows)


def names(table: Table, **asked: str) -> list[object]:
    return [row[0] for row in slice_of(table, {f"t-{k}": v for k, v in asked.items()}).rows]


def test_a_long_table_is_sorted_as_a_whole_and_shown_by_the_page() -> None:
    table = numbered(20_000)
    assert names(table, sort="-1")[0] == "x19999"
    assert names(table, sort="1", page="2")[0] == f"x{ROWS}"
    last = slice_of(table, {"t-sort": "1", "t-page": "999999"})
    assert (last.page, last.pages, last.last) == (800, 800, 20_000)
    assert last.after is None
    assert last.before == {"t-page": "799"}
    assert len(last.rows) == ROWS


def test_a_search_looks_at_all_texts_whatever_their_case() -> None:
    rows = [
        ("Age", 1),
        ("income", 2),
        (ChoiceLink(text="wAGEs", choices={}), 3),
        (Dropped(value="b"), 4),
    ]
    table = Table(id="t", title="T", columns=(Column(title="A"), Column(title="B")), rows=rows)
    assert [r[1] for r in slice_of(table, {"t-find": "AGE"}).rows] == [1, 3]
    none = slice_of(table, {"t-find": "zzz"})
    assert (none.rows, none.found, none.first, none.last) == ([], 0, 0, 0)


def test_cells_without_a_value_come_last_in_both_directions() -> None:
    rows = [(None, "a"), (2.0, "b"), ("text", "c"), (1, "d"), (True, "e")]
    table = Table(id="t", title="T", columns=(Column(title="A"), Column(title="B")), rows=rows)
    assert [r[1] for r in slice_of(table, {"t-sort": "0"}).rows] == ["d", "e", "b", "c", "a"]
    assert [r[1] for r in slice_of(table, {"t-sort": "-0"}).rows] == ["c", "b", "d", "e", "a"]


def test_a_heading_says_how_it_is_sorted_and_turns_it() -> None:
    table = numbered(3)
    first = slice_of(table, {}).headings
    assert [h.order for h in first] == ["none", "none"]
    assert first[0].change["t-sort"] == "0"
    assert first[1].change["t-sort"] == "-1"
    turned = slice_of(table, {"t-sort": "-1"}).headings[1]
    assert (turned.order, turned.change["t-sort"]) == ("descending", "1")


@pytest.mark.parametrize(
    "asked", ["", "x", "-", "--1", "9", "-9", "1e3", "٣", "0" * 5000, "1.0", "-1 OR 1=1"]
)
def test_a_strange_address_breaks_nothing(asked: str) -> None:
    table = numbered(3)
    query = {f"t-{name}": asked for name in ("sort", "page", "columns")}
    assert len(slice_of(table, query).rows) == 3


def test_of_a_wide_table_some_columns_are_shown_with_the_first() -> None:
    count = 3 * COLUMNS
    columns = [Column(title=str(i)) for i in range(count)]
    table = Table(id="t", title="T", columns=columns, rows=[tuple(range(count))])
    seen: list[object] = []
    for part in range(1, 9):
        found = slice_of(table, {"t-columns": str(part)})
        assert found.rows[0][0] == 0
        seen += found.rows[0][1:]
        if found.columns_after is None:
            break
    assert seen == list(range(1, count))


def test_a_table_goes_to_csv_and_runs_nothing_in_a_spreadsheet() -> None:
    rows = [("=1+1", -2.5), ('a"b,c\n', None), ("@x", True), ("-y", Dropped(value=1))]
    table = Table(id="t", title="T", columns=(Column(title="A"), Column(title="B")), rows=rows)
    found = list(csv.reader(io.StringIO("".join(csv_of(table)))))
    assert found == [
        ["A", "B"], ["'=1+1", "-2.5"], ['a"b,c\n', ""], ["'@x", "True"], ["'-y", "1"],
    ]  # fmt: skip


# --- drawings -------------------------------------------------------------------------------------


def test_bars_begin_at_one_zero() -> None:
    first, second = bars_of(Bars(title="", bars=(("a", 3.0), ("b", -1.0))))
    assert (first.start, first.length, first.series) == (25.0, 75.0, 1)
    assert (second.start, second.length, second.series) == (0.0, 25.0, 2)
    (flat,) = bars_of(Bars(title="", bars=(("a", 0.0),)))
    assert flat.length > 0


def test_stacked_bars_stand_on_each_other() -> None:
    groups = Groups(
        title="", bins=("x", "y"), series=(("a", (1.0, 3.0)), ("b", (1.0, None))), stacked=True
    )
    chart = chart_of(groups)
    low, high = chart.rects[0], chart.rects[1]
    assert high.y + high.height == pytest.approx(low.y)
    assert low.y + low.height == pytest.approx(chart.zero) == pytest.approx(chart.bottom)


def test_negative_bars_hang_from_zero_and_the_line_goes_through_their_ends() -> None:
    values = (0.5, -1.0, None)
    groups = Groups(title="", bins=("x", "y", "z"), series=(("w", values),), line=("w", values))
    chart = chart_of(groups)
    assert chart.rects[1].y == pytest.approx(chart.zero)
    assert chart.rects[1].y + chart.rects[1].height == pytest.approx(chart.dots[1][1])
    assert len(chart.dots) == 2
    assert chart.line_ticks == []


def test_a_line_of_other_values_has_a_scale_of_its_own() -> None:
    groups = Groups(title="", bins=("x",), series=(("a", (100.0,)),), line=("b", (0.1,)))
    assert [tick.text for tick in chart_of(groups).line_ticks] == ["0", "0.05", "0.1"]


# --- stored tables --------------------------------------------------------------------------------


TABLE = TableRecord(
    namespace="n",
    name="t",
    address="ab" * 16,
    schema={
        "kind": "instances",
        "id": "uid",
        "label": "y",
        "columns": [f"c{i}" for i in range(70)],
    },
    count=1000,
    partitions=4,
    origin="output",
    created_ms=1,
)


def test_the_id_is_shown_on_every_page_of_columns() -> None:
    part = part_of(TABLE, {"columns": "2", "page": "3"}, rows=1000)
    assert part.columns == [0, *range(1 + WIDE, 1 + 2 * WIDE)]
    assert [part.header[0].name, part.header[0].kind] == ["uid", "id"]
    assert part.page.offset == 100
    assert [(h.name, h.kind) for h in headers_of(TABLE)[:3]] == [
        ("uid", "id"), ("y", "label"), ("c0", ""),
    ]  # fmt: skip


def test_pages_that_do_not_exist_are_the_last_one() -> None:
    assert part_of(TABLE, {"page": "99"}, rows=120).page.number == 3
    assert part_of(TABLE, {"page": "-1", "columns": "x"}, rows=0).page.number == 1
    assert part_of(replace(TABLE, schema=None), {}, rows=0).columns == []


def test_cells_without_a_value_are_told_from_others() -> None:
    assert [shown_cell(text) for text in ("None", "", "nan", "0", "nothing")] == [
        None, None, None, "0", "nothing",
    ]  # fmt: skip


def test_of_a_cell_of_a_megabyte_the_beginning_is_sent() -> None:
    shown = shown_cell("x" * 1_000_000)
    assert shown is not None
    assert len(shown) < 500


def test_facts_of_a_bound_table_say_where_it_is_without_secrets() -> None:
    address = {"host": "h", "port": 3306, "user": "u", "passwd": "secret", "db": "d", "name": "t"}
    bound = replace(TABLE, engine="MYSQL", storage={"address": address})
    told = dict(facts_of(bound).pairs)
    assert told["Rows are stored in"] == "host=h port=3306 db=d name=t"
    assert "Rows are stored in" not in dict(facts_of(TABLE).pairs)


def test_facts_of_columns_are_a_table() -> None:
    one = ColumnFacts(name="a", kind="number", count=3, missing=1, least=0.0, mean=0.5)
    assert list(columns_of([one]).rows) == [("a", "number", 3, 1, 0.0, None, 0.5)]
    assert columns_of([]).note
