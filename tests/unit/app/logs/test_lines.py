"""The index of a log's lines and levels, compared with what reading the whole file says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.app.logs.lines import BLOCK, LogIndexes
from fedflow.app.logs.records import start_of

INFO = b"[INFO] [2026-11-22 06:49:10,123] - "
ERROR = b"[ERROR] [2026-11-22 06:49:11,124] - "


def plain(content: bytes) -> list[bytes]:
    """Return the lines of a file, as they are meant to be."""
    lines = content.split(b"\n")
    return [line.removesuffix(b"\r") for line in (lines if lines[-1] else lines[:-1])]


def read(indexes: LogIndexes, path: Path, begin: int = 1, longest: int = 1 << 30) -> list[bytes]:
    with indexes.open(path.parent, (path.name,)) as log:
        assert log is not None
        log.count()
        lines = list(log.lines(begin, longest=longest))
        assert [line.number for line in lines] == list(range(begin, begin + len(lines)))
        assert log.total == begin - 1 + len(lines) or begin > (log.total or 0)
        return [line.content for line in lines]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\n\n\n",
        b"one",
        b"o",
        b"one\n",
        b"one\r\ntwo\r\n",
        b"one\ntwo, not ended",
        b"\xff\xfe not utf-8 \xc3\n\x00\n",
        b"x" * (3 * BLOCK),
        b"x" * (9 * BLOCK) + b"\nend\n",
        b"first\n" + b"x" * (20 * BLOCK) + b"\r\n" + b"y" * (5 * BLOCK) + b"\nend",
        b"x" * (BLOCK - 1) + b"\n" + b"y" * BLOCK + b"\n",
        b"z\n" * (3 * BLOCK),
    ],
    ids=lambda content: f"{content[:8]!r}-{len(content)}",
)
def test_every_line_is_found_by_its_number(tmp_path: Path, content: bytes) -> None:
    path, indexes = tmp_path / "log", LogIndexes()
    path.write_bytes(content)
    lines = plain(content)
    assert read(indexes, path) == lines
    for begin in {1, 2, 3, len(lines) // 2 + 1, max(1, len(lines) - 1), len(lines) + 1}:
        assert read(indexes, path, begin) == lines[begin - 1 :]
    with indexes.open(tmp_path, ("log",)) as log:
        assert log is not None
        for number in range(1, len(lines) + 1, max(1, len(lines) // 50)):
            offset = log.offset_of(number)
            assert offset is not None
            assert log.number_at(offset) == number
        ends = [line.content for line in log.tail(5, longest=1 << 30)]
        assert ends == lines[-5:] or b"".join(lines[-5:]).endswith(b"".join(ends))


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(
        st.binary(max_size=40)
        | st.sampled_from([b"\n", b"\r\n", INFO, ERROR, b"\n" + ERROR, b"q" * BLOCK]),
        max_size=12,
    ),
    cuts=st.lists(st.integers(1, 3), max_size=4),
)
def test_a_log_that_grows_has_the_lines_and_levels_of_one_that_is_read_at_the_end(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], cuts: list[int]
) -> None:
    path, indexes = tmp_path_factory.mktemp("grows") / "log", LogIndexes()
    path.write_bytes(b"")
    read(indexes, path)
    while parts:
        count = cuts.pop() if cuts else len(parts)
        with path.open("ab") as file:
            file.write(b"".join(parts[:count]))
        parts = parts[count:]
        lines = plain(path.read_bytes())
        assert read(indexes, path) == lines
    with path.open("ab") as file:
        file.write(b"\n")
    with indexes.open(path.parent, ("log",)) as log:
        assert log is not None
        levels = log.count_levels(1 << 40)
        starts = [start_of(line.decode(errors="replace")) for line in plain(path.read_bytes())]
        assert levels == Counter(start.level for start in starts if start is not None)


def test_counting_goes_on_where_its_budget_ended(tmp_path: Path) -> None:
    path, indexes = tmp_path / "log", LogIndexes()
    path.write_bytes(b"a line\n" * 300_000)
    with indexes.open(tmp_path, ("log",)) as log:
        assert log is not None
        assert not log.count(BLOCK)
        assert log.total is None
        assert log.offset_of(300_000) is None
        assert [line.content for line in log.tail(2, longest=10)] == [b"a line"] * 2
        assert [line.number for line in log.tail(2, longest=10)] == [None, None]
        assert log.count(until=20_000) is False
        assert log.offset_of(20_001) == 20_000 * 7
        assert log.count()
        assert log.total == 300_000


def test_threads_that_count_at_once_count_each_record_once(tmp_path: Path) -> None:
    path, indexes = tmp_path / "log", LogIndexes()
    path.write_bytes((INFO + b"x\n" + ERROR + b"y\n") * 200_000)

    def count(budget: int) -> Counter[str] | None:
        with indexes.open(tmp_path, ("log",)) as log:
            assert log is not None
            while (levels := log.count_levels(budget)) is None:
                pass
            return levels

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(count, [1000, 70_000, 1 << 20, 1 << 30]))
    assert found == [Counter(INFO=200_000, ERROR=200_000)] * 4


def _shorter(path: Path) -> None:
    os.truncate(path, 3)


def _rotated(path: Path) -> None:
    path.rename(path.with_name("old"))
    path.write_bytes(b"new\n" * 100_000)


def _rewritten_in_place(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(b"new line\n" * (size // 9 + 10))


def _rewritten_with_the_same_size(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"y" * (size - 1) + b"\n")
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize(
    "change", [_shorter, _rotated, _rewritten_in_place, _rewritten_with_the_same_size]
)
def test_a_log_that_was_replaced_is_counted_anew(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path, indexes = tmp_path / "log", LogIndexes()
    path.write_bytes(b"old\n" * 50_000)
    assert len(read(indexes, path)) == 50_000
    with indexes.open(tmp_path, ("log",)) as log:
        assert log is not None
        before = log.tag
    change(path)
    assert read(indexes, path) == plain(path.read_bytes())
    with indexes.open(tmp_path, ("log",)) as log:
        assert log is not None
        assert log.tag.rpartition(".")[0] != before.rpartition(".")[0]


def test_what_is_open_is_as_long_as_when_it_was_opened(tmp_path: Path) -> None:
    path, indexes = tmp_path / "log", LogIndexes()
    path.write_bytes(b"one\ntwo")
    with indexes.open(tmp_path, ("log",)) as before:
        assert before is not None
        with path.open("ab") as file:
            file.write(b", and more\nthree\n")
        assert len(read(indexes, path)) == 3
        before.count()
        assert before.total == 2
        assert [line.content for line in before.lines(1, longest=99)] == [b"one", b"two"]


def test_indexes_are_kept_of_the_files_that_were_looked_at_last(tmp_path: Path) -> None:
    indexes = LogIndexes(files=2)
    for name in "abc":
        (tmp_path / name).write_bytes(b"x\n")
        read(indexes, tmp_path / name)
    assert [Path(path).name for path in indexes._kept] == ["b", "c"]
    small = LogIndexes(blocks=2)
    for name in "abb":
        (tmp_path / name).write_bytes(b"x\n" * BLOCK)
        read(small, tmp_path / name)
    assert [Path(path).name for path in small._kept] == ["b"]


def test_links_pipes_and_names_that_lead_elsewhere_are_not_opened(tmp_path: Path) -> None:
    root, outside = tmp_path / "logs", tmp_path / "outside"
    (root / "1").mkdir(parents=True)
    outside.mkdir()
    (outside / "INFO.log").write_bytes(b"secret\n")
    (root / "1" / "link.log").symlink_to(outside / "INFO.log")
    (root / "1" / "folder").symlink_to(outside)
    os.mkfifo(root / "1" / "pipe.log")
    indexes = LogIndexes()
    for parts in (
        ("1", "link.log"), ("1", "folder", "INFO.log"), ("1", "pipe.log"), ("1",), ("1", "none"),
        ("..", "outside", "INFO.log"), ("1", "../../outside", "INFO.log"), ("1", "\0"),
    ):  # fmt: skip
        with indexes.open(root, parts) as log:
            assert log is None, parts
    (tmp_path / "other").symlink_to(root)  # an administrator may put the logs elsewhere
    (root / "1" / "own.log").write_bytes(b"x")
    with indexes.open(tmp_path / "other", ("1", "own.log")) as log:
        assert log is not None
