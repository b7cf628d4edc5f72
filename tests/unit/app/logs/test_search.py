"""Searches in logs, part by part, against a plain reading of the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.app.logs.lines import BLOCK, LogIndexes
from fedflow.app.logs.records import start_of
from fedflow.app.logs.search import Query, SearchCursor, parse_cursor, parse_query, search
from fedflow.base.errors.requests import BadRequest

INFO = "[INFO] [2026-11-22 06:49:10,123] - "
ERROR = "[ERROR] [2026-11-22 06:49:11,124] - "
WARNING = "[WARNING] [2026-11-22 06:49:11,124] - "


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def found(
    path: Path, query: Query, *, budget: int = 1 << 20, limit: int = 500, indexes: LogIndexes
) -> list[int]:
    """Return the numbers of the lines that a whole search finds, in as many calls as it needs."""
    numbers: list[int] = []
    cursor = SearchCursor()
    for _ in range(100_000):
        with indexes.open(path.parent, (path.name,)) as log:
            assert log is not None
            log.count()
            part = search(log, query, cursor, budget=budget, limit=limit)
            assert len(part.hits) <= limit
            numbers += part.hits
            cursor = parse_cursor(str(part.cursor))
            if part.is_done:
                return numbers
    raise AssertionError("the search does not end")


def expected(text: str, query: Query) -> list[int]:
    numbers, level = [], ""
    lines = text.split("\n")
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        start = start_of(line)
        level = start.level if start is not None else level
        if query.text.lower() in line.lower() and (not query.levels or level in query.levels):
            numbers.append(number)
    return numbers


QUERIES = [
    Query(text="needle"),
    Query(text="NEEDLE"),
    Query(text="針"),
    Query(text="É"),
    Query(text="("),
    Query(levels=frozenset({"ERROR"})),
    Query(levels=frozenset({"ERROR", "WARNING"})),
    Query(levels=frozenset({"INFO"}), text="needle"),
    Query(levels=frozenset({"CRITICAL"})),
    Query(),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: "-".join([q.text, *sorted(q.levels)]))
@pytest.mark.parametrize("budget", [1, 70_000, 1 << 30])
def test_a_search_in_parts_finds_what_a_reading_of_the_whole_finds(
    tmp_path: Path, query: Query, budget: int
) -> None:
    traceback = f"{ERROR}a failed: Needle\nTraceback:\n  File needle\nValueError: 針 É (\n"
    quiet = f"{INFO}nothing here\n" * 3000
    text = f"before any record, needle\n{quiet}{traceback}{quiet}{WARNING}nEEdle\r\nmore é\n"
    text += f"{quiet}{INFO}{'x' * 200_000}needle\n{quiet}{ERROR}the end, a needle without an end"
    path = write(tmp_path / "log", text)
    assert found(path, query, budget=budget, indexes=LogIndexes()) == expected(text, query)


@settings(max_examples=80, deadline=None)
@given(
    lines=st.lists(
        st.text(max_size=20).map(lambda t: t.replace("\n", "").replace("\r", ""))
        | st.sampled_from([INFO + "needle", ERROR + "x", WARNING, "  needle", "n" * 70_000]),
        max_size=30,
    ),
    query=st.sampled_from(QUERIES),
    limit=st.integers(1, 4),
    ended=st.booleans(),
)
def test_no_line_is_found_twice_or_lost(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    query: Query,
    limit: int,
    ended: bool,
) -> None:
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    text = text.encode(errors="replace").decode()
    path = write(tmp_path_factory.mktemp("search") / "log", text)
    assert found(path, query, limit=limit, indexes=LogIndexes()) == expected(text, query)


def test_a_search_goes_on_in_what_was_appended(tmp_path: Path) -> None:
    path, indexes = write(tmp_path / "log", f"{ERROR}one\n  more of it\n{INFO}x\n"), LogIndexes()
    query = Query(levels=frozenset({"ERROR"}))
    with indexes.open(tmp_path, ("log",)) as log:
        assert log is not None
        log.count()
        first = search(log, query, SearchCursor())
    assert (list(first.hits), first.is_done) == ([1, 2], True)
    with path.open("a") as file:
        file.write(f"{INFO}y\n{ERROR}two\n  and more\n")
    with indexes.open(tmp_path, ("log",)) as log:
        assert log is not None
        log.count()
        then = search(log, query, first.cursor)
    assert list(then.hits) == [5, 6]


def test_a_search_in_a_log_that_was_cut_meanwhile_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "log", "needle" * 500_000)
    with LogIndexes().open(path.parent, (path.name,)) as log:
        assert log is not None
        log.count()
        path.write_text("needle")
        assert not search(log, Query(text="no"), SearchCursor()).is_done
        path.write_text("")
        assert not search(log, Query(text="no"), SearchCursor(offset=3)).is_done


def test_a_line_that_is_longer_than_what_is_read_at_once_is_found_once(tmp_path: Path) -> None:
    text = "a\n" + "needle " * 400_000 + "\n" + "n" * (1024 * 1024 - 3) + "needle\nb needle\n"
    path = write(tmp_path / "log", text)
    assert found(path, Query(text="needle"), budget=1, indexes=LogIndexes()) == [2, 3, 4]


def test_errors_among_many_other_lines_are_found_in_one_call(tmp_path: Path) -> None:
    quiet = f"{INFO}nothing here\n" * 200_000
    path = write(tmp_path / "log", f"{quiet}{ERROR}one\n{quiet}{ERROR}two\n")
    indexes = LogIndexes()
    query = Query(levels=frozenset({"ERROR"}))
    assert found(path, query, budget=1 << 30, indexes=indexes) == [200_001, 400_002]
    with indexes.open(tmp_path, ("log",)) as log:
        assert log is not None
        part = search(log, query, SearchCursor())
        assert (list(part.hits), part.is_done) == ([200_001, 400_002], True)


def test_a_search_waits_for_lines_to_be_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "log", f"{INFO}needle\n" * 10_000)
    query, indexes = Query(text="needle"), LogIndexes()
    with indexes.open(path.parent, (path.name,)) as log:
        assert log is not None
        assert search(log, query, SearchCursor()).cursor == SearchCursor()
        log.count(BLOCK)
        first = search(log, query, SearchCursor(), limit=10_000)
        assert not first.is_done
        assert search(log, query, first.cursor).cursor == first.cursor
        log.count()
        then = search(log, query, first.cursor, limit=10_000)
    assert then.is_done
    assert [*first.hits, *then.hits] == [*range(1, 10_001)]


@pytest.mark.parametrize("text", ["x", "1-2", "1-2-INFO", "-1-2--0", "1-2-INFO-3; rm", "9" * 99])
def test_a_cursor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_cursor(text)


def test_a_query_is_checked() -> None:
    assert parse_query("x", "error,warning").levels == {"ERROR", "WARNING"}
    for text, levels in (("x" * 201, ""), ("", "LOUD"), ("", "ERROR;INFO")):
        with pytest.raises(BadRequest):
            parse_query(text, levels)
