"""What is read from tables of predictions and of clusters."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.sdk import BadData, Context, Table

PREDICTION_COLUMNS = ("label", "predict_result", "predict_score", "predict_detail", "type")
ASSIGNMENT_COLUMNS = ("label", "predicted_cluster_index", "type")  #: of rows put into clusters
CLUSTER_COLUMNS = (
    "cluster_sample_count",
    "cluster_inner_dist",
    "max_radius",
    "inter_cluster_dist",
    "type",
)  #: of clusters; the last but one are squared distances to the other clusters, as lists
PARTS = ("train", "validate", "predict")  #: values of the `type` column, which name the metrics

Floats = npt.NDArray[np.float64]


def read_producers(ctx: Context, columns: tuple[str, ...]) -> dict[str, pa.Table]:
    """Return these columns of every component whose tables have them, by component, in input order.

    The id column comes first and is named `key`.
    """
    found: dict[str, list[pa.Table]] = {}
    for producer, table in ctx.inputs.data.get("data", ()):
        if table is not None and _has(table, columns):
            rows = table.read((table.schema.id, *columns)).rename_columns(["key", *columns])
            found.setdefault(producer, []).append(rows)
    return {
        name: pa.concat_tables(tables, promote_options="permissive")
        for name, tables in found.items()
    }


def warn_of_others(ctx: Context, *kinds: tuple[str, ...]) -> None:
    """Log every table that has the columns of none of `kinds`."""
    for producer, table in ctx.inputs.data.get("data", ()):
        if table is not None and not any(_has(table, columns) for columns in kinds):
            ctx.log.warning("the table of %s holds no predictions: skipped", producer)


def by_part(rows: pa.Table, *, producer: str) -> dict[str, pa.Table]:
    """Return the rows per part, without empty parts. Raises: BadData: an unknown part."""
    strange = set(pc.unique(rows["type"]).to_pylist()) - set(PARTS)
    if strange:
        reason = f"{len(strange)} values of `type` are none of {', '.join(PARTS)}"
        raise BadData(where=f"predictions of {producer}", reason=reason)
    parts = {part: rows.filter(pc.equal(rows["type"], part)) for part in PARTS}
    return {part: chosen for part, chosen in parts.items() if chosen.num_rows}


def labelled(ctx: Context, rows: pa.Table, *, producer: str) -> dict[str, pa.Table]:
    """Return the rows with a label per part. Raises: BadData: an unknown part."""
    parts = {}
    for part, chosen in by_part(rows, producer=producer).items():
        kept = chosen.filter(pc.invert(pc.is_null(chosen["label"], nan_is_null=True)))
        if kept.num_rows < chosen.num_rows:
            missing = chosen.num_rows - kept.num_rows
            ctx.log.warning("%s %s rows of %s have no label: skipped", missing, part, producer)
        if kept.num_rows:
            parts[part] = kept
    return parts


def same_type(
    one: pa.ChunkedArray, other: pa.ChunkedArray
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return both as numbers if all their values are numbers, else both as text."""
    try:
        return _floats(one), _floats(other)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _texts(one), _texts(other)


def numbers(column: pa.ChunkedArray, *, where: str, name: str) -> Floats:
    """Return finite numbers. Raises: BadData: text, a missing value, NaN or an infinity."""
    try:
        values = _floats(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise BadData(where=f"predictions of {where}", reason=f"{name} is not a number") from exc
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise BadData(where=f"predictions of {where}", reason=f"{bad} rows without a finite {name}")
    return values


def class_scores_of(details: pa.ChunkedArray, *, where: str) -> tuple[list[str], Floats]:
    """Return the classes that `predict_detail` names, and the scores: rows x classes.

    Raises: BadData: text that is no object of finite numbers, or with other classes than the first.
    """
    from pyarrow import json as arrow_json

    place = f"predictions of {where}"
    texts = pc.replace_substring(details.cast(pa.string()), "'", '"')
    if texts.null_count:
        raise BadData(where=place, reason=f"{texts.null_count} rows without a predict_detail")
    try:
        names = list(json.loads(texts[0].as_py()))
        schema = pa.schema([(name, pa.float64()) for name in names])
        options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        lines = io.BytesIO("\n".join(texts.to_pylist()).encode())
        rows = arrow_json.read_json(lines, parse_options=options)
    except (ValueError, TypeError, AttributeError) as exc:  # Arrow's errors are ValueErrors
        reason = "predict_detail is not an object of one number per class"
        raise BadData(where=place, reason=reason) from exc
    scores = np.column_stack([rows[name].to_numpy() for name in names])
    bad = int((~np.isfinite(scores)).any(axis=1).sum())
    if bad or len(scores) != len(texts):
        reason = f"{bad or len(texts) - len(scores)} rows without a score of every class"
        raise BadData(where=place, reason=reason)
    return names, scores


def centroid_distances(column: pa.ChunkedArray, *, where: str) -> Floats:
    """Return squared distances: clusters x (clusters - 1). Lists may be stored as JSON text.

    Raises: BadData: not one finite, non-negative number per other cluster.
    """
    count = len(column)
    try:
        rows = [json.loads(v) if isinstance(v, str) else v for v in column.to_pylist()]
        distances = np.array(rows, dtype=np.float64)
    except (ValueError, TypeError) as exc:
        reason = "inter_cluster_dist is not a list of numbers"
        raise BadData(where=f"clusters of {where}", reason=reason) from exc
    valid = distances.shape == (count, count - 1)
    if not valid or not (np.isfinite(distances) & (distances >= 0)).all():
        reason = f"inter_cluster_dist must list {count - 1} distances for each of {count} clusters"
        raise BadData(where=f"clusters of {where}", reason=reason)
    return distances


def _has(table: Table, columns: tuple[str, ...]) -> bool:
    return set(columns) <= set(table.schema.names)


def _floats(column: pa.ChunkedArray) -> Floats:
    return pc.cast(column, pa.float64()).to_numpy()  # type: ignore[no-any-return]


def _texts(column: pa.ChunkedArray) -> npt.NDArray[np.str_]:
    return pc.cast(column, pa.string()).to_numpy().astype(str)  # type: ignore[no-any-return]
