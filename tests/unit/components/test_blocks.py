"""Components on tables of several blocks: sums, and what is said of wrong cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.components.binning.columns import counts_of
from fedflow.components.binning.labels import read_classes
from fedflow.components.binning.splitting import bin_numbers
from fedflow.components.binning.statistics import counts_per_bin
from fedflow.components.features import data_transform
from fedflow.components.features.data_transform import DataTransform
from fedflow.components.features.label_transform import LabelTransform
from fedflow.components.features.scale import FeatureScale
from fedflow.components.samples.decoding import block_numbers, counted_in_all
from fedflow.domain.site import Role, Site
from fedflow.sdk import BadData, Inputs, Table, TableKind, TableSchema
from fedflow.tables.local import LocalTableStore
from fedflow.testing.run import RunResult, run_component
from fedflow.testing.tables import local_store

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]


@pytest.fixture(params=[1, 3])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalTableStore:
    """Return a store of one, and of several, threads."""
    return local_store(tmp_path / "tables", cores=request.param)


def in_blocks(
    store: LocalTableStore, cells: dict[str, Any], sizes: Sequence[int], **schema: Any
) -> Table:
    """Return a table whose rows were written in blocks of `sizes` rows."""
    rows = pa.table(cells)
    first, *others = rows.column_names
    given = {"kind": TableKind.INSTANCES, "id": first, "columns": tuple(others)} | schema
    with store.create(TableSchema(**given)) as writer:
        start = 0
        for size in sizes:
            writer.write(rows.slice(start, size))
            start += size
        table = writer.close()
    assert table.count == sum(sizes)
    return table


def raw(store: LocalTableStore, columns: dict[str, Sequence[str]], sizes: Sequence[int]) -> Table:
    return in_blocks(store, columns, sizes, kind=TableKind.RAW)


def run(
    module: Any, store: LocalTableStore, table: Table, folder: Path, **params: Any
) -> RunResult:
    return run_component(
        module, sites=[GUEST], work_dir=folder, params={GUEST: params}, tables={GUEST: store},
        inputs={GUEST: Inputs(data={"data": [("reader_0", table)]}, model={})},
    )[GUEST]  # fmt: skip


def says(result: RunResult) -> str:
    assert isinstance(result.error, BadData)
    return result.error.message


IDS = [f"u{i}" for i in range(7)]


def test_wrong_cells_of_later_blocks_have_their_row_in_the_table(
    store: LocalTableStore, tmp_path: Path
) -> None:
    columns = {"id": IDS, "a": list("123456x"), "b": ["1", "2", "3", "4", "p", "q", "r"]}
    for params in ({}, {"missing_fill": True}):
        result = run(DataTransform, store, raw(store, columns, [3, 3, 1]), tmp_path, **params)
        assert says(result) == ("column 'b': 3 of 7 cells hold no valid number, first in row 5.")
    whole = run(DataTransform, store, raw(store, columns, [7]), tmp_path)
    assert says(whole).startswith("column 'a': 1 of 7 cells")


def test_wrong_labels_are_told_before_wrong_features(
    store: LocalTableStore, tmp_path: Path
) -> None:
    columns = {"id": IDS, "y": list("01010x1"), "a": list("12345xy")}
    result = run(
        DataTransform, store, raw(store, columns, [5, 2]), tmp_path, with_label=True, label_name="y"
    )
    assert says(result).endswith("1 of 7 cells hold no valid label, first in row 6.")


def test_texts_of_another_width_are_told_before_all_else(
    store: LocalTableStore, tmp_path: Path
) -> None:
    texts = ["1;x", "2;3", "4;5", "6", "7;8", "9", "1;2"]
    table = raw(store, {"id": IDS, "a;b": texts}, [2, 2, 3])
    result = run(DataTransform, store, table, tmp_path, delimitor=";")
    assert says(result).endswith("2 of 7 rows have not 2 cells between ';', first row 4.")


def test_braces_between_cells_are_named_as_they_are(store: LocalTableStore, tmp_path: Path) -> None:
    table = raw(store, {"id": IDS[:2], "a{b": ["1{2", "3"]}, [2])
    result = run(DataTransform, store, table, tmp_path, delimitor="{")
    assert says(result).endswith("1 of 2 rows have not 2 cells between '{', first row 2.")


def test_wrong_values_of_tags_are_counted_in_all_blocks(
    store: LocalTableStore, tmp_path: Path
) -> None:
    texts = ["0,0:1", "1,1:2", "0,0:x", "1,2:1", "x,1:y", "0,0:1", "0,0:z"]
    table = raw(store, {"id": IDS, "x0": texts}, [2, 2, 3])
    result = run(DataTransform, store, table, tmp_path, input_format="sparse", with_label=True)
    assert says(result).endswith("3 values of features are no valid number, first in row 3.")
    texts[1] = "q,1:2"
    table = raw(store, {"id": IDS, "x0": texts}, [2, 2, 3])
    result = run(DataTransform, store, table, tmp_path, input_format="sparse", with_label=True)
    assert says(result).endswith("2 of 7 cells hold no valid label, first in row 2.")


def test_items_that_are_no_pairs_have_their_row_in_the_table(
    store: LocalTableStore, tmp_path: Path
) -> None:
    texts = ["0:1", "1:2", "0:3", "1:1", "oops", "0:1", "x:1"]
    table = raw(store, {"id": IDS, "x0": texts}, [2, 2, 3])
    result = run(DataTransform, store, table, tmp_path, input_format="sparse")
    assert says(result).endswith("2 items are not <number>:<value>, first in row 5.")


def test_many_tags_are_written_in_parts_and_are_the_same(
    store: LocalTableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["0:1 3:2", "1:2", "0:3", "", "4:1 0:7", "0:1", "2:1"]
    table = raw(store, {"id": IDS, "x0": texts}, [2, 2, 3])
    made = []
    for most in (256, 2):
        monkeypatch.setattr(data_transform, "MAPPED_COLUMNS", most)
        result = run(
            DataTransform, store, table, tmp_path, input_format="sparse", delimitor=" ",
            missing_fill=True,
        )  # fmt: skip
        assert result.outputs is not None
        assert result.progress[-1] == 1.0
        assert result.outputs.data[0] is not None
        made.append(result.outputs.data[0].read())
    assert made[0].equals(made[1])
    assert made[0].column("x0").to_pylist() == [1.0, 0.0, 3.0, 0.0, 7.0, 1.0, 0.0]
    texts[6] = "2:x"
    wrong = raw(store, {"id": IDS, "x0": texts}, [2, 2, 3])
    result = run(DataTransform, store, wrong, tmp_path, input_format="sparse", delimitor=" ")
    assert says(result).endswith("1 values of features are no valid number, first in row 7.")


def test_what_fills_is_learnt_from_all_blocks(store: LocalTableStore, tmp_path: Path) -> None:
    columns = {"id": IDS, "a": ["1", "", "3", "NA", "5", "-9", "8"]}
    result = run(
        DataTransform, store, raw(store, columns, [2, 2, 3]), tmp_path,
        missing_fill=True, missing_fill_method="mean", outlier_replace=True,
        outlier_replace_method="max", outlier_impute=[-9],
    )  # fmt: skip
    assert result.outputs is not None
    assert result.outputs.data[0] is not None
    fill = (1 + 3 + 5 - 9 + 8) / 5
    assert result.outputs.data[0].read(("a",)).column(0).to_pylist() == [
        1.0, fill, 3.0, fill, 5.0, 8.0, 8.0,
    ]  # fmt: skip


def test_infinite_values_are_counted_in_all_blocks(store: LocalTableStore, tmp_path: Path) -> None:
    inf = float("inf")
    columns = {"id": IDS, "a": [1.0, 2, 3, 4, 5, inf, inf], "b": [1.0, 2, 3, inf, 5, inf, inf]}
    result = run(FeatureScale, store, in_blocks(store, columns, [3, 2, 2]), tmp_path)
    assert says(result).endswith("column 'b' has 3 infinite values.")


def test_an_error_without_a_wrong_number_stays_as_it_is(store: LocalTableStore) -> None:
    table = in_blocks(store, {"id": IDS, "a": [1.0] * 7}, [4, 3])
    with pytest.raises(BadData, match="something else"), counted_in_all(table, ("a",)):
        raise BadData(where="a", reason="is something else")
    batch = next(iter(table.to_batches()))
    assert block_numbers(batch, "a", where="t").tolist() == [1.0] * 4


def test_unknown_labels_are_counted_in_all_blocks(store: LocalTableStore, tmp_path: Path) -> None:
    columns = {"id": IDS, "y": [0, 1, 0, 1, 0, 1, 0], "a": [1.0] * 7}
    learnt = run(
        LabelTransform, store, in_blocks(store, columns, [7], label="y", columns=("a",)), tmp_path
    )
    assert learnt.outputs is not None
    columns["y"] = [0, 1, 2, 1, 0, 2, 3]
    table = in_blocks(store, columns, [2, 3, 2], label="y", columns=("a",))
    assert learnt.outputs.model is not None
    inputs = Inputs(data={"data": [("up", table)]}, model={"label": learnt.outputs.model})
    result = run_component(
        LabelTransform, sites=[GUEST], work_dir=tmp_path, tables={GUEST: store},
        inputs={GUEST: inputs},
    )[GUEST]  # fmt: skip
    assert says(result).endswith("3 of 7 rows have a label that the model does not name.")


@pytest.mark.parametrize("sizes", [[500], [100, 1, 399]])
def test_counts_per_bin_and_class_do_not_depend_on_blocks(
    store: LocalTableStore, sizes: list[int]
) -> None:
    random = np.random.default_rng(5)
    values = np.where(random.random(500) < 0.1, np.nan, random.normal(size=500))
    columns = {
        "id": [f"u{i}" for i in range(500)], "y": random.integers(0, 3, 500), "a": values,
        "b": random.normal(size=500), "c": np.full(500, np.nan),
    }  # fmt: skip
    table = in_blocks(store, columns, sizes, label="y", columns=("a", "b", "c"))
    points = {"a": np.array([-1.0, 0.0, 9.0]), "b": np.array([0.5, 9.0]), "c": np.empty(0)}
    labels = read_classes(table)
    found = counts_of(table, points, classes=labels.names)
    for name, cuts in points.items():
        bins = bin_numbers(np.asarray(columns[name]), cuts)
        wanted = counts_per_bin(bins, labels.numbers, shape=(len(cuts) + 1, 3))
        assert found[name].tolist() == wanted.tolist()
