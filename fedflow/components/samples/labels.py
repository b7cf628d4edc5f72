"""Labels of a table, and labels as the keys of JSON objects name them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.sdk import BadData, Table


def read_labels(table: Table, *, needed_by: str) -> pa.ChunkedArray:
    """Return the labels of all rows.

    Raises: BadData: there is no label column, or labels are missing; `needed_by` says who needs
        them.
    """
    where = f"table {table.namespace}.{table.name}"
    if table.schema.label is None:
        raise BadData(where=where, reason=f"has no label column, which {needed_by} needs")
    labels = table.read((table.schema.label,)).column(0)
    missing = pc.sum(pc.is_null(labels, nan_is_null=True)).as_py()
    if missing:
        raise BadData(where=where, reason=f"{missing} of {len(labels)} rows have no label")
    return labels


def label_key(label: Any) -> str:
    """Return the text that stands for a label, equal for 1, 1.0, "1" and "1.0".

    Text that is no number stands for itself; so does text with leading zeros or spaces.
    """
    text = str(label)
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number) or text != text.strip() or _zero_padded(text):
        return text
    return str(int(number)) if number.is_integer() else repr(number)


def _zero_padded(text: str) -> bool:
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1] != "."
