"""Pages of tables: rows from what is kept of each table, others from its file, and who uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fedflow.app.data.table_pages import MOST_ROWS, TablePages
from fedflow.base.errors.data import NoData
from fedflow.domain.data.table_lists import TableFilter
from fedflow.domain.records import OutputTable, TableRecord, TaskKey
from tests.unit.app.fakes import GUEST, OneServer, conf, dsl, table

PREVIEW = tuple((f"u{i}", str(i), "x") for i in range(3))
READER = {"module": "Reader", "output": {"data": ["data"]}}


class Kept:
    """The first rows are those of the record."""

    def read(self, table: TableRecord) -> Sequence[Sequence[str]]:
        return table.preview


class Windows:
    """A table whose cell in column c of row r says so; remembers what was read."""

    def __init__(self) -> None:
        self.read_at: list[int] = []

    def read(
        self, table: TableRecord, *, offset: int, limit: int, columns: Sequence[int]
    ) -> list[list[str]]:
        self.read_at.append(offset)
        return [[f"{r}/{c}" for c in columns] for r in range(offset, offset + limit)]


@pytest.fixture
def windows() -> Windows:
    return Windows()


@pytest.fixture
def pages(alone: OneServer, windows: Windows) -> TablePages:
    alone.live()
    return TablePages(store=alone.store, previews=Kept(), windows=windows)


def long(count: int = 10, **changes: object) -> TableRecord:
    return replace(table("n", "t"), count=count, preview=PREVIEW, **changes)  # type: ignore[arg-type]


def test_first_rows_are_shown_without_a_look_at_the_file(
    pages: TablePages, windows: Windows
) -> None:
    assert pages.rows(long(), offset=1, limit=2, columns=(0, 2)) == [["u1", "x"], ["u2", "x"]]
    assert windows.read_at == []


def test_further_rows_come_from_the_file_and_end_with_the_table(pages: TablePages) -> None:
    assert pages.rows(long(), offset=8, limit=5, columns=(1,)) == [["8/1"], ["9/1"]]
    assert pages.rows(long(), offset=10, limit=5, columns=(1,)) == []


def test_one_page_has_a_bounded_number_of_rows(pages: TablePages) -> None:
    found = pages.rows(long(10**9), offset=10, limit=10**9, columns=(0,))
    assert len(found) == MOST_ROWS


def test_columns_that_do_not_exist_are_refused(pages: TablePages) -> None:
    for columns in ((3,), (-1,)):
        with pytest.raises(NoData):
            pages.rows(long(), offset=0, limit=1, columns=columns)


def test_of_a_bound_table_only_what_is_kept_is_shown(pages: TablePages) -> None:
    bound = long(engine="PATH", source="/x")
    assert pages.reachable(bound) == 3
    assert pages.reachable(long()) == 10
    assert len(pages.rows(bound, offset=0, limit=9, columns=(0,))) == 3
    cut = replace(bound, preview=())
    assert pages.rows(cut, offset=0, limit=9, columns=(0,)) == []


def test_a_page_of_the_list_comes_with_the_number_of_all(
    alone: OneServer, pages: TablePages
) -> None:
    with alone.store.transaction() as tx:
        for name in "abc":
            tx.tables.put(table("list", name))
    found, count = pages.listed(TableFilter(namespace="list", limit=2))
    assert (len(found), count) == (2, 3)


def test_it_is_known_which_jobs_use_a_table(alone: OneServer, pages: TablePages) -> None:
    with alone.store.transaction() as tx:
        tx.tables.put(table("n", "used"))
    reads = {"0": {"r": {"table": {"namespace": "n", "name": "used"}}}}
    parameters = {"role": {"guest": reads, "host": reads}}
    job = alone.core.submissions.submit(dsl(r=READER), conf(parameters=parameters))
    assert pages.use("n", "used").running == [job.job_id]
    key = TaskKey(job_id="old", component="r", version=0, site=GUEST)
    output = OutputTable(key=key, data_name="data", position=0, namespace="n", name="used")
    with alone.store.transaction() as tx:
        tx.tracking.put_output(output, now_ms=1)
        replaced = replace(output, key=replace(key, job_id="older"), address="other rows")
        tx.tracking.put_output(replaced, now_ms=0)
    assert [one.key.job_id for one in pages.use("n", "used").made] == ["old"]
    assert pages.use("n", "none").running == []
