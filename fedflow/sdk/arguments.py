"""What authors easily pass wrongly, told in words of the call instead of from deep inside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def check_function(function: object, call: str) -> None:
    """Do nothing if a function came first. Raises: TypeError: it did not."""
    if not callable(function):
        raise TypeError(f"{call}: the function comes first, not a {type(function).__name__}")


def check_names(names: object, call: str) -> None:
    """Do nothing if `names` are several names. Raises: TypeError: they are not."""
    if isinstance(names, str):
        raise TypeError(f"{call}: names come as a list or tuple, such as [{names!r}]")
    if not isinstance(names, Sequence):
        raise TypeError(f"{call}: names come as a list or tuple, not a {type(names).__name__}")


def check_rows(rows: object) -> None:
    """Do nothing if `rows` can be written to a table. Raises: TypeError: they are no Arrow rows."""
    if not hasattr(rows, "num_rows") or not hasattr(rows, "schema"):
        raise TypeError(
            f"rows of a table are a pyarrow RecordBatch or Table, not a {type(rows).__name__}"
        )


def check_metric(
    name: str, points: Sequence[tuple[Any, Any]], meta: Mapping[str, Any] | None
) -> list[tuple[Any, Any]]:
    """Return the points of a metric as pairs of plain JSON.

    Raises: TypeError: a point is no pair, or a value is not plain JSON. ValueError: a number is not
        finite.
    """
    found = []
    for point in points:
        if isinstance(point, str | Mapping) or not hasattr(point, "__len__") or len(point) != 2:
            raise TypeError(f"metric {name}: points are pairs (x, y), not {str(point)[:60]!r}")
        found.append((point[0], point[1]))
    try:
        json.dumps([found, dict(meta or {})], allow_nan=False)
    except TypeError as exc:
        hint = "; .item() and .tolist() make plain numbers of numpy's"
        raise TypeError(f"metric {name} is not plain JSON: {exc}{hint}") from exc
    except ValueError as exc:
        raise ValueError(f"metric {name}: {exc}") from exc
    return found
