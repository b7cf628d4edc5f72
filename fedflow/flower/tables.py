"""A party's tables as files that a Flower app reads: CSV, Parquet, or arrays of numpy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from fedflow.sdk import BadData, Context, Table, TableKind

if TYPE_CHECKING:
    from fedflow.flower.project import Scalar

DataFormat: TypeAlias = Literal["csv", "parquet", "npz"]
_KEYS: Final = {
    "train_data": "data-path",
    "data": "data-path",
    "validate_data": "validate-data-path",
}
PORTS: Final = tuple(_KEYS)


def table_files(ctx: Context, data_format: DataFormat) -> dict[str, Scalar]:
    """Write the run's tables into its private folder, and return where they are as node_config.

    Members: `data-path` of `train_data` or `data`, `validate-data-path`; of the first of them
    `id-column` and `label-column`.

    Raises: BadData: numpy's arrays are wanted of a table of text.
    """
    found: dict[str, Scalar] = {}
    for port, key in _KEYS.items():
        table = ctx.inputs.first(port)
        if table is None or key in found:
            continue
        path = ctx.work_dir / f"{port}.{data_format}"
        _WRITERS[data_format](table, path)
        found[key] = str(path)
        found.setdefault("id-column", table.schema.id)
        if table.schema.label is not None:
            found.setdefault("label-column", table.schema.label)
    return found


def _write_csv(table: Table, path: Path) -> None:
    from pyarrow import csv

    with csv.CSVWriter(path, table.head(0).schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)


def _write_parquet(table: Table, path: Path) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(path, table.head(0).schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)


def _write_npz(table: Table, path: Path) -> None:
    """Write `x` (float64, rows x features), `y` (labels, if any), `ids` and `columns` (texts)."""
    import numpy as np

    schema = table.schema
    if schema.kind is TableKind.RAW:
        reason = "npz needs numbers and this is a raw table: use DataTransform before, or take csv"
        raise BadData(where=table.name, reason=reason)
    rows = table.read()
    features = [rows.column(name).to_numpy().astype(np.float64) for name in schema.columns]
    arrays: dict[str, Any] = {
        "x": np.stack(features, axis=1) if features else np.empty((table.count, 0)),
        "ids": np.array(rows.column(schema.id).to_pylist(), dtype=np.str_),
        "columns": np.array(schema.columns, dtype=np.str_),
    }
    if schema.label is not None:
        arrays["y"] = rows.column(schema.label).to_numpy()
    np.savez(path, **arrays)


_WRITERS: Final = {"csv": _write_csv, "parquet": _write_parquet, "npz": _write_npz}
