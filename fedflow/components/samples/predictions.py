"""Prediction tables: of two classes, of several, of numbers, of clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.samples.decoding import Instances
from fedflow.sdk import BadData, Context, Table, TableKind, TableSchema

Floats = NDArray[np.float64]
Clusters = NDArray[np.int32]
Predicted = TypeVar("Predicted", Floats, Clusters)  #: one entry per row
Answers = Mapping[str, pa.Array]  #: what is predicted for some rows, by column

BLOCK_ROWS: Final = 65_536  #: that are made at a time: a row's detail is a Python text first
COLUMNS = ("predict_result", "predict_score", "predict_detail", "type")
CLUSTER_COLUMNS = ("predicted_cluster_index", "type")


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
    """Return a new table of predictions of two classes.

    Args:
        parts: (type, rows, probability of the second class) per data set: train, validate, predict.
        classes: the two label values in order.
        threshold: the second class is predicted where the probability is above it.
    """
    values = pa.array(list(classes))

    def answer(probabilities: Floats) -> Answers:
        chosen = (probabilities > threshold).astype(np.int64)
        both = np.column_stack((1.0 - probabilities, probabilities))
        return _answers(
            values.take(pa.array(chosen)), probabilities, details=_details(both, classes)
        )

    return _write(ctx, parts, answer=answer, label_type=values.type)


def write_class_predictions(
    ctx: Context,
    parts: Sequence[tuple[str, Instances, Floats]],
    *,
    classes: tuple[Any, ...],
) -> Table:
    """Return a new table of predictions of several classes: the one of the largest score.

    Args:
        parts: (type, rows, scores: rows x classes) per data set: train, validate, predict.
        classes: the label values in order.
    """
    values = pa.array(list(classes))

    def answer(scores: Floats) -> Answers:
        return _answers(
            values.take(pa.array(scores.argmax(axis=1))),
            scores.max(axis=1),
            details=_details(scores, classes),
        )

    return _write(ctx, parts, answer=answer, label_type=values.type)


def write_values(ctx: Context, parts: Sequence[tuple[str, Instances, Floats]]) -> Table:
    """Return a new table of predicted numbers.

    Args:
        parts: (type, rows, prediction per row) per data set: train, validate, predict.
    """

    def answer(values: Floats) -> Answers:
        return _answers(pa.array(values), values, details=_details(values[:, None], ("label",)))

    return _write(ctx, parts, answer=answer, label_type=_label_type(parts))


def write_clusters(ctx: Context, parts: Sequence[tuple[str, Instances, Clusters]]) -> Table:
    """Return a new table of rows with their cluster; labels are null where there are none.

    Args:
        parts: (type, rows, cluster per row) per data set: train, validate, predict.
    """

    def answer(clusters: Clusters) -> Answers:
        return {"predicted_cluster_index": pa.array(clusters)}

    label_type = _label_type(parts)
    return _write(ctx, parts, answer=answer, label_type=label_type, columns=CLUSTER_COLUMNS)


def _write(
    ctx: Context,
    parts: Sequence[tuple[str, Instances, Predicted]],
    *,
    answer: Callable[[Predicted], Answers],
    label_type: pa.DataType,
    columns: tuple[str, ...] = COLUMNS,
) -> Table:
    first = parts[0][1].table.schema
    schema = TableSchema(
        kind=TableKind.PREDICTIONS,
        id=first.id,
        match_id=first.match_id,
        label="label",
        columns=columns,
    )
    if len(set(schema.names)) < len(schema.names):
        raise BadData(
            where=f"table {parts[0][1].table.namespace}.{parts[0][1].table.name}",
            reason="its id column has the name of a column of predictions; rename it",
        )
    with ctx.tables.create(schema) as writer:
        for kind, data, scores in parts:
            known = _known(schema, data, label_type)
            for start in range(0, max(1, data.rows), BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                answers = answer(scores[rows])
                writer.write(_rows(known.slice(start, BLOCK_ROWS), answers, kind=kind))
        return writer.close()


def _known(schema: TableSchema, data: Instances, label_type: pa.DataType) -> pa.Table:
    """Return what is not predicted of a data set: ids and labels. Raises: BadData."""
    columns: dict[str, Any] = {schema.id: data.ids}
    if schema.match_id is not None:
        columns[schema.match_id] = data.table.read((schema.match_id,)).column(0)
    columns["label"] = _labels(data, label_type)
    return pa.table(columns)


def _rows(known: pa.Table, answers: Answers, *, kind: str) -> pa.Table:
    """Return a block of a prediction table."""
    types = pa.array([kind]).take(pa.array(np.zeros(known.num_rows, dtype=np.int64)))
    for name, column in {**answers, "type": types}.items():
        known = known.append_column(name, column)
    return known


def _answers(results: pa.Array, scores: Floats, *, details: list[str]) -> Answers:
    """Return the columns of predictions; details as FATE writes them: {'0': 0.25, '1': 0.75}."""
    return {
        "predict_result": results,
        "predict_score": pa.array(scores),
        "predict_detail": pa.array(details, pa.string()),
    }


def _label_type(parts: Sequence[tuple[str, Instances, Predicted]]) -> pa.DataType:
    """Return the type of the labels of all data sets, of numbers if they differ."""
    kinds = {data.labels.type for _, data, _ in parts if data.labels is not None}
    return kinds.pop() if len(kinds) == 1 else pa.float64()


def _labels(data: Instances, kind: pa.DataType) -> Any:
    """Return the labels as `kind`, null where one is missing. Raises: BadData: they are no such."""
    labels = data.labels
    if labels is None:
        return pa.nulls(data.rows, kind)
    if pa.types.is_floating(labels.type):
        labels = pc.if_else(pc.is_nan(labels), pa.scalar(None, labels.type), labels)
    try:
        return labels.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise BadData(
            where=f"table {data.table.namespace}.{data.table.name}",
            reason=f"its labels are {labels.type}, and not all are {kind} as the model's",
        ) from exc


def _details(scores: Floats, names: Sequence[Any]) -> list[str]:
    """Return each row's score of every name; `scores` is rows x names."""
    row = ", ".join(f"'{_braced(str(name))}': {{!r}}" for name in names)
    return [("{{" + row + "}}").format(*values) for values in scores.tolist()]


def _braced(text: str) -> str:
    """Return `text` for use in a format."""
    return text.replace("{", "{{").replace("}", "}}")
