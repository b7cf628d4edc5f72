"""The prediction table of a binary classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.instances.reading import Instances
from fedflow.sdk import Context, Table, TableKind, TableSchema

Floats = NDArray[np.float64]

COLUMNS = ("predict_result", "predict_score", "predict_detail", "type")


def sigmoid(scores: Floats) -> Floats:
    """Return 1 / (1 + exp(-score)) without overflow."""
    small = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, small) / (1.0 + small)


def write_predictions(
    ctx: Context,
    parts: Sequence[tuple[str, Instances, Floats]],
    *,
    classes: tuple[Any, ...],
    threshold: float,
) -> Table:
    """Return a new table of predictions.

    Args:
        parts: (type, rows, probability of the second class) per data set: train, validate, predict.
        classes: the two label values in order.
        threshold: the second class is predicted where the probability is above it.
    """
    first = parts[0][1].table.schema
    schema = TableSchema(
        kind=TableKind.PREDICTIONS,
        id=first.id,
        match_id=first.match_id,
        label="label",
        columns=COLUMNS,
    )
    with ctx.tables.create(schema) as writer:
        for kind, data, probabilities in parts:
            writer.write(
                _rows(schema, data, probabilities, kind=kind, classes=classes, threshold=threshold)
            )
        return writer.close()


def _rows(
    schema: TableSchema,
    data: Instances,
    probabilities: Floats,
    *,
    kind: str,
    classes: tuple[Any, ...],
    threshold: float,
) -> pa.Table:
    values = pa.array(list(classes))
    chosen = values.take(pa.array((probabilities > threshold).astype(np.int64)))
    labels = (
        data.labels.cast(values.type)
        if data.labels is not None
        else pa.nulls(data.rows, values.type)
    )
    columns: dict[str, Any] = {schema.id: data.ids}
    if schema.match_id is not None:
        columns[schema.match_id] = data.table.read((schema.match_id,)).column(0)
    columns["label"] = labels
    columns["predict_result"] = chosen
    columns["predict_score"] = pa.array(probabilities)
    columns["predict_detail"] = pa.array(_details(probabilities, classes))
    columns["type"] = pa.array([kind]).take(pa.array(np.zeros(data.rows, dtype=np.int64)))
    return pa.table(columns)


def _details(probabilities: Floats, classes: tuple[Any, ...]) -> list[str]:
    """Return both classes' probabilities as FATE writes them: {'0': 0.25, '1': 0.75}."""
    first, second = (str(value) for value in classes)
    others = (1.0 - probabilities).tolist()
    return [
        f"{{'{first}': {low!r}, '{second}': {high!r}}}"
        for low, high in zip(others, probabilities.tolist(), strict=True)
    ]
