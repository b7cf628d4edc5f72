"""LabelTransform: other values for labels, in instances and in prediction tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.samples.decoding import need_rows
from fedflow.components.samples.labels import label_key, read_labels
from fedflow.components.samples.progress import part_of
from fedflow.components.samples.stored import own_model
from fedflow.sdk import (
    BadData,
    Context,
    Model,
    Outputs,
    Params,
    Table,
    TableKind,
    component,
)

Label = int | float | str
RESULT, DETAIL = "predict_result", "predict_detail"
_MARK = "\x00"  #: keeps keys of predict_detail that were replaced from being replaced again


class LabelTransformParams(Params, frozen=True, kw_only=True):
    """Which labels become what."""

    #: old label (as text) -> new, others stay; null: the labels in ascending order become 0, 1 ...
    label_encoder: dict[str, Label] | None = None
    #: the old labels with their types, as many as `label_encoder` has; `"1"` and 1 are the same;
    #: null: the types are those of the labels in the table
    label_list: list[Label] | None = None
    need_run: bool = True  #: false: the output is the input

    def check(self) -> None:
        """The list must hold the encoder's labels."""
        encoder, listed = self.label_encoder, self.label_list
        if encoder is None or listed is None:
            return
        if {label_key(v) for v in listed} != {label_key(k) for k in encoder}:
            raise ValueError("label_list: it must hold the labels that label_encoder names")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Encoder:
    """Pairs of old and new labels."""

    pairs: tuple[tuple[Label, Label], ...]

    def reversed(self) -> _Encoder:
        """Return the way back. Raises: BadData: two labels became the same."""
        back = tuple((new, old) for old, new in self.pairs)
        if len({label_key(new) for new, _ in back}) < len(back):
            reason = "it gives two labels the same value, so that there is no way back"
            raise BadData(where="the model input", reason=reason)
        return _Encoder(pairs=back)

    @property
    def texts(self) -> dict[str, Label]:
        return {str(old): new for old, new in self.pairs}

    @property
    def new(self) -> pa.Array:
        """Return the new labels, in one type."""
        values = [new for _, new in self.pairs]
        kinds = {type(v) for v in values}
        if str in kinds:
            return pa.array([str(v) for v in values], pa.string())
        return pa.array(values, pa.float64() if float in kinds else pa.int64())


@component(
    "LabelTransform",
    roles=("guest", "host"),
    params=LabelTransformParams,
    outputs=("data", "model"),
    absence="apart",
)
class LabelTransform:
    """Replaces labels by others: given ones, or 0, 1, 2 ... in ascending order.

    Labels that a given encoder does not name stay as they are. Works where there are labels, on
    instances and on prediction tables (`label`, `predict_result` and the names in
    `predict_detail`); predictions of numbers are passed on. With a model instances get its new
    labels (those without any are passed on), and prediction tables the old ones back. A party
    without data has no output.

    Model: `LabelTransformMeta`, `LabelTransformParam` (`label_encoder` with the types of its keys
    and values). Summary: `label_encoder`. Metric `train` / `label_transform`.
    """

    def run(self, ctx: Context) -> Outputs:
        """Write the rows with their new labels.

        Raises: BadData: no rows, no labels, missing ones, or some that the model does not name.
        """
        params: LabelTransformParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            return Outputs()
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        predicted = table.schema.kind is TableKind.PREDICTIONS
        stored = own_model(ctx, "LabelTransformParam")
        if stored is not None and table.schema.label is None:
            ctx.log.info("there are no labels to replace: the rows are passed on")
            return Outputs(data=(table,), model=stored, passed=True)
        if predicted and _of_numbers(table):
            ctx.log.info("predictions of numbers have no classes: passed on")
            return Outputs(data=(table,), model=stored, passed=True)
        encoder = _encoder(ctx, table) if stored is None else _load(stored)
        used = encoder.reversed() if predicted and stored is not None else encoder
        changed = _changed(ctx, table, used)
        ctx.tracker.metric(
            "train",
            "label_transform",
            metric_type="LABEL_TRANSFORM",
            points=[("label_transform", 0)],
            meta={"label_encoder": encoder.texts},
        )
        return Outputs(
            data=(changed,),
            model=stored or _model(params, encoder),
            summary={"label_encoder": encoder.texts},
        )


def _encoder(ctx: Context, table: Table) -> _Encoder:
    """Return the given encoder, or that of the table's labels.

    Raises: BadData: no rows, no labels, or missing ones.
    """
    params: LabelTransformParams = ctx.params
    need_rows(table)
    found = set(read_labels(table, needed_by="LabelTransform").unique().to_pylist())
    if table.schema.kind is TableKind.PREDICTIONS:
        found |= set(pc.unique(table.read((RESULT,)).column(0)).to_pylist())
    if params.label_encoder is None:
        return _Encoder(pairs=tuple((old, new) for new, old in enumerate(sorted(found))))
    typed = {label_key(v): v for v in (*found, *(params.label_list or ()))}
    given = {label_key(k): (k, new) for k, new in params.label_encoder.items()}
    pairs = [(typed.get(key, old), new) for key, (old, new) in given.items()]
    unnamed = sorted(label for label in found if label_key(label) not in given)
    if unnamed:
        ctx.log.warning("label_encoder does not name %s of the labels: they stay", len(unnamed))
    return _Encoder(pairs=(*pairs, *((label, label) for label in unnamed)))


def _of_numbers(table: Table) -> bool:
    """Tell whether the predictions are numbers, not classes: their detail is {'label': value}."""
    if DETAIL not in table.schema.columns:
        return False
    first = table.head(1).column(DETAIL).to_pylist()
    return bool(first) and str(first[0]).startswith("{'label': ")


def _changed(ctx: Context, table: Table, encoder: _Encoder) -> Table:
    label = table.schema.label
    if label is None:
        read_labels(table, needed_by="LabelTransform")
    predicted = table.schema.kind is TableKind.PREDICTIONS
    labels = {label: _Replacer(encoder, gaps=predicted)}
    changes: dict[str | None, Callable[[pa.Array, str], pa.Array]] = {**labels}
    if predicted:
        labels[RESULT] = changes[RESULT] = _Replacer(encoder, gaps=False)
        changes[DETAIL] = _DetailReplacer(encoder)
    names = list(table.schema.names)

    def block(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            changes[name](batch.column(name), name) if name in changes else batch.column(name)
            for name in names
        ]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    try:
        return table.map_blocks(block, schema=table.schema, progress=part_of(ctx))
    except BadData:  # it counts the rows of one block only
        for name in (name for name in names if name in labels):
            labels[name].check(table.read((name,)).column(0), name)
        raise


class _Replacer:
    """Replaces the labels of a column."""

    def __init__(self, encoder: _Encoder, *, gaps: bool) -> None:
        """`gaps` tells that labels may be missing, and stay so."""
        self._gaps = gaps
        self._new = encoder.new
        self._places = {label_key(old): i for i, (old, _) in enumerate(encoder.pairs)}

    def __call__(self, column: pa.Array, name: str) -> pa.Array:
        """Return the new labels. Raises: BadData: labels are missing, or the encoder lacks them."""
        codes = pc.dictionary_encode(column)
        places = [self._places.get(label_key(v), -1) for v in codes.dictionary.to_pylist()]
        indexes = pa.array(places, pa.int64()).take(codes.indices)
        unknown = pc.fill_null(pc.equal(indexes, -1), not self._gaps)
        if pc.any(unknown).as_py():
            self.check(column, name)
        return self._new.take(indexes)

    def check(self, labels: pa.Array | pa.ChunkedArray, name: str) -> None:
        """Do nothing if all labels can be replaced. Raises: BadData: some are missing or unknown,
        with their number.
        """
        counts = {e["values"]: e["counts"] for e in labels.value_counts().to_pylist()}
        missing = 0 if self._gaps else counts.pop(None, 0)
        unknown = sum(n for v, n in counts.items() if v is not None and not self._knows(v))
        if not missing and not unknown:
            return
        reason = f"{unknown} of {len(labels)} rows have a label that the model does not name"
        if missing:
            reason = f"{missing} of {len(labels)} rows have no label"
        raise BadData(where=f"column {name!r}", reason=reason)

    def _knows(self, value: Any) -> bool:
        return label_key(value) in self._places


class _DetailReplacer:
    """Replaces the names in texts such as {'0': 0.25, '1': 0.75}."""

    def __init__(self, encoder: _Encoder) -> None:
        self._names = [(str(old), str(new)) for old, new in _both(encoder)]

    def __call__(self, column: pa.Array, name: str) -> pa.Array:
        for old, new in self._names:
            column = pc.replace_substring(column, f"'{old}': ", f"'{_MARK}{new}': ")
        return pc.replace_substring(column, f"'{_MARK}", "'")


def _both(encoder: _Encoder) -> Sequence[tuple[Any, Any]]:
    """Return the pairs with the new labels as they are written to the table."""
    new = encoder.new.to_pylist()
    return [(old, new[i]) for i, (old, _) in enumerate(encoder.pairs)]


def _model(params: LabelTransformParams, encoder: _Encoder) -> Model:
    return Model(
        meta_name="LabelTransformMeta",
        param_name="LabelTransformParam",
        meta={"need_run": params.need_run},
        param={
            "label_encoder": {str(old): str(new) for old, new in encoder.pairs},
            "encoder_key_type": {str(old): type(old).__name__ for old, _ in encoder.pairs},
            "encoder_value_type": {str(old): type(new).__name__ for old, new in encoder.pairs},
        },
    )


_TYPES: Mapping[str, Callable[[str], Label]] = {
    **dict.fromkeys(("int", "int64", "long"), int),
    **dict.fromkeys(("float", "float64", "double"), float),
    **dict.fromkeys(("str", "_str", "str_"), str),
}


def _load(model: Model) -> _Encoder:
    """Return a model's encoder. Raises: BadData: it is no such model."""
    try:
        keys = model.param["encoder_key_type"]
        values = model.param["encoder_value_type"]
        pairs = tuple(
            (_TYPES[keys[old]](old), _TYPES[values[old]](new))
            for old, new in model.param["label_encoder"].items()
        )
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        reason = f"it is not of LabelTransform ({type(exc).__name__})"
        raise BadData(where="the model input", reason=reason) from exc
    return _Encoder(pairs=pairs)
