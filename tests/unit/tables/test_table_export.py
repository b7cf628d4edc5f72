"""Tables as text, as FATE's clients read it."""

from __future__ import annotations

import csv
import io
import json
import math
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from fedflow.base.errors.data import BadTableName, NoData
from fedflow.sdk import Table, TableKind, TableSchema
from fedflow.tables.archive_file import write_archive
from fedflow.tables.export import write_csv
from fedflow.tables.text import text_rows
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.tables import local_store


def table_of(rows: dict[str, object], /, **schema: object) -> Table:
    return MemoryTableStore().add(pa.table(rows), schema=TableSchema(**schema))  # type: ignore[arg-type]


def text_of(table: Table, **options: object) -> str:
    target = io.BytesIO()
    write_csv(table, target, **options)  # type: ignore[arg-type]
    return target.getvalue().decode()


def instances() -> Table:
    return table_of(
        {
            "id": ["a", "b", "c"],
            "y": pa.array([1, None, 0], pa.int64()),
            "x0": [0.254879, -1e-7, math.nan],
            "x1": [1.0, 1e22, 0.1 + 0.2],
        },
        kind=TableKind.INSTANCES,
        id="id",
        label="y",
        columns=("x0", "x1"),
    )


def predictions(detail: object) -> Table:
    return table_of(
        {
            "id": ["133"],
            "label": [1],
            "predict_result": [1],
            "predict_score": [0.9123],
            "predict_detail": detail,
            "type": ["train"],
        },
        kind=TableKind.PREDICTIONS,
        id="id",
        columns=("label", "predict_result", "predict_score", "predict_detail", "type"),
    )


def test_numbers_are_printed_as_python_prints_them() -> None:
    assert text_of(instances()) == (
        "id,y,x0,x1\na,1,0.254879,1.0\nb,None,-1e-07,1e+22\nc,0,nan,0.30000000000000004\n"
    )


@pytest.mark.parametrize(
    "detail",
    [
        ['{"0": 0.0877, "1": 0.9123}'],
        ["{'0': 0.0877, '1': 0.9123}"],
        pa.array([[("0", 0.0877), ("1", 0.9123)]], pa.map_(pa.string(), pa.float64())),
        pa.array([{"0": 0.0877, "1": 0.9123}]),
    ],
)
def test_a_prediction_line_is_the_one_of_the_reference(detail: object) -> None:
    line = text_of(predictions(detail), head=False)
    assert line == "133,1,1,0.9123,\"{'0': 0.0877, '1': 0.9123}\",train\n"
    shown = line.split('"')[1]  # as the pipeline SDK cuts and parses it
    assert json.loads(shown.replace("'", '"')) == {"0": 0.0877, "1": 0.9123}


def test_the_detail_of_a_regression_keeps_its_outer_quotes() -> None:
    assert text_of(predictions(['{"label": 3.4}']), head=False).endswith(
        ",\"{'label': 3.4}\",train\n"
    )


def test_rows_for_a_json_answer_are_lists_of_text() -> None:
    assert list(text_rows(instances(), limit=1)) == [["a", "1", "0.254879", "1.0"]]
    assert len(list(text_rows(instances(), limit=0))) == 0
    assert len(list(text_rows(instances()))) == 3
    (row,) = text_rows(predictions(['{"0": 0.25, "1": 0.75}']))
    assert row[4] == "{'0': 0.25, '1': 0.75}"


def test_text_with_delimiters_comes_back_from_a_csv_reader() -> None:
    cells = ["plain", "a,b", 'q"q', "l\nl", "", "None"]
    table = table_of(
        {"id": [str(n) for n in range(6)], "t": cells}, kind=TableKind.RAW, id="id", columns=("t",)
    )
    back = list(csv.reader(io.StringIO(text_of(table), newline="")))
    assert [row[1] for row in back] == ["t", *cells]


def test_a_limit_cuts_rows_and_another_delimiter_joins_them() -> None:
    assert text_of(instances(), limit=2, delimiter="\t").splitlines()[2].split("\t")[0] == "b"
    assert len(text_of(instances(), limit=2).splitlines()) == 3
    assert text_of(instances(), limit=0, head=False) == ""


def test_an_exported_upload_equals_the_file(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "examples" / "data" / "breast_hetero_guest.csv"
    table = local_store(tmp_path).import_csv(source, namespace="n", name="t")
    assert text_of(table).splitlines() == source.read_text().splitlines()


def test_the_archive_has_a_csv_and_a_meta_per_table_with_rows() -> None:
    empty = table_of({"id": pa.array([], pa.string())}, kind=TableKind.RAW, id="id", columns=())
    target = io.BytesIO()
    write_archive(target, {"data": instances(), "none": empty}, modified_ms=1_700_000_000_000)
    target.seek(0)
    with tarfile.open(fileobj=target, mode="r:gz") as tar:
        assert tar.getnames() == ["data.csv", "data.meta"]
        rows, meta = (tar.extractfile(n) for n in tar.getnames())
        assert rows is not None
        assert meta is not None
        assert rows.read().decode() == text_of(instances())
        assert json.load(meta) == {"header": ["id", "y", "x0", "x1"]}


def test_nothing_to_export_is_no_data() -> None:
    with pytest.raises(NoData):
        write_archive(io.BytesIO(), {})
    with pytest.raises(NoData):
        write_archive(io.BytesIO(), {"data": instances()}, limit=0)


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "..", "", "a\\b"])
def test_an_archive_member_never_leaves_the_folder(name: str) -> None:
    with pytest.raises(BadTableName):
        write_archive(io.BytesIO(), {name: instances()})
