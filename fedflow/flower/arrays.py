"""Arrays of a Flower app as a model or as a table; both can be read without flwr."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.sdk import Table, TableKind, TableSchema, TableStore

MODEL_BYTES: Final = 20 * 2**20  #: of arrays that become a model; 31 MiB of JSON may be reported

PART_BYTES: Final = 768 * 1024  #: of an array that one row of a table holds; MiB as base64
COLUMNS: Final = ("name", "dtype", "shape", "part")

Arrays: TypeAlias = dict[str, NDArray[Any]]


def arrays_to_json(arrays: Arrays) -> list[dict[str, Any]]:
    """Return arrays as plain JSON; `arrays_from_json` reads it.

    Members: name, dtype (numpy's, little endian), shape, data (base64 of the numbers, rows first).
    """
    found = []
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        data = base64.b64encode(plain.tobytes()).decode()
        found.append(
            {"name": name, "dtype": plain.dtype.str, "shape": list(array.shape), "data": data}
        )
    return found


def arrays_from_json(stored: Iterable[Mapping[str, Any]]) -> Arrays:
    """Return what `arrays_to_json` gave, read-only. Raises: ValueError: it is something else."""
    return {
        one["name"]: np.frombuffer(base64.b64decode(one["data"]), np.dtype(one["dtype"])).reshape(
            one["shape"]
        )
        for one in stored
    }


def arrays_to_table(arrays: Arrays, tables: TableStore) -> Table:
    """Return a table of texts: a row per part of an array, in order; `arrays_from_table` reads it.

    Columns: id (a number), name, dtype, shape (numbers with `x` between), part (base64).
    """
    schema = TableSchema(kind=TableKind.RAW, id="id", columns=COLUMNS)
    rows = 0
    with tables.create(schema) as writer:
        for name, array in arrays.items():
            plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            data = memoryview(plain.tobytes())
            shape = "x".join(map(str, array.shape))
            for start in range(0, max(len(data), 1), PART_BYTES):
                part = base64.b64encode(data[start : start + PART_BYTES]).decode()
                cells = (str(rows), name, plain.dtype.str, shape, part)
                writer.write(pa.table({c: [v] for c, v in zip(schema.names, cells, strict=True)}))
                rows += 1
        return writer.close()


def arrays_from_table(table: Table) -> Arrays:
    """Return what `arrays_to_table` gave. Raises: ValueError: it is something else."""
    parts: dict[str, list[bytes]] = {}
    kinds: dict[str, tuple[str, str]] = {}
    for batch in table.to_batches():
        for row in batch.select(list(COLUMNS)).to_pylist():
            parts.setdefault(row["name"], []).append(base64.b64decode(row["part"]))
            kinds[row["name"]] = (row["dtype"], row["shape"])
    found = {}
    for name, (dtype, shape) in kinds.items():
        numbers = np.frombuffer(b"".join(parts[name]), np.dtype(dtype))
        found[name] = numbers.reshape([int(one) for one in shape.split("x") if one])
    return found
