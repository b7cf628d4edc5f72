"""Repeated ids are found exactly, whatever the pass they fall in."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.data import FolderNotWritable
from fedflow.tables import unique
from fedflow.tables.unique import IdLedger, Repeated, Rows


def check(ids: list[str], *, rows_per_pass: int = 1_000_000, step: int = 5) -> Repeated | None:
    def ids_at(rows: Rows) -> Iterator[tuple[int, str]]:
        assert np.all(np.diff(rows) > 0)
        return ((int(r), ids[r]) for r in rows)

    with IdLedger(Path("/tmp"), rows_per_pass=rows_per_pass) as ledger:
        for start in range(0, len(ids), step):
            ledger.add(pa.array(ids[start : start + step], pa.string()))
        return ledger.repeated(ids_at)


@given(
    st.lists(st.text(max_size=3), max_size=40),
    st.sampled_from([1, 3, 10, 1000]),
)
def test_the_first_row_that_repeats_is_found(ids: list[str], rows_per_pass: int) -> None:
    found = check(ids, rows_per_pass=rows_per_pass)
    expected = next((r for r in range(len(ids)) if ids[r] in ids[:r]), None)
    if found is None:
        assert expected is None
    elif not found.at_least:  # a class that was cut need not hold the very first
        assert found.again == expected
        assert ids[found.first] == ids[found.again]
        assert found.count == len(ids) - len(set(ids))
    else:
        assert ids[found.first] == ids[found.again]


def test_many_different_ids_are_all_different() -> None:
    ids = [f"user-{n}" for n in range(20_000)]
    assert check(ids, rows_per_pass=3000, step=1000) is None
    found = check([*ids, "user-17"], rows_per_pass=3000, step=1000)
    assert found == Repeated(first=17, again=20_000, count=1, at_least=False)


def test_a_folder_that_may_not_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(**_named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(FolderNotWritable, match="may not write below"):
        IdLedger(tmp_path)


def test_one_id_in_every_row_is_cut_short() -> None:
    found = check(["same"] * 10_000, rows_per_pass=100, step=50)
    assert found is not None
    assert (found.first, found.again, found.at_least) == (0, 1, True)


def test_colliding_hashes_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique, "hash", len, raising=False)
    assert check(["ab", "cd", "ef"]) is None
    found = check(["ab", "cd", "ef", "cd"])
    assert found is not None
    assert (found.first, found.again) == (1, 3)
