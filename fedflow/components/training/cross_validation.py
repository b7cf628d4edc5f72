"""Cross validation of any model: rows in n parts, a training without each of them.

MESSAGES

The messages of fold k, from 0, have the tags `fold_<k>.<tag>`. The arbiter sees no row numbers.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.evaluation.recorder import Recorder
from fedflow.components.samples.alignment import check_same_ids, checked_rows
from fedflow.components.training.measures import record_measures
from fedflow.components.training.nested import nested
from fedflow.components.training.params import CallbackParam, CvParam
from fedflow.components.waiting import wait_for
from fedflow.sdk import (
    BadData,
    Context,
    Inputs,
    Outputs,
    Role,
    Table,
    TableWriter,
)
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
sample_ids | rows | guest <-> hosts | {rows, digest}; tag `cross_validation`
test_sid | rows | guest -> hosts | int64 row numbers of the part that is left out; tag = k
""")

Rows = NDArray[np.int64]

MAX_HISTORY_ROWS = 1_000_000  #: with more the output is the input, as in FATE
PARTS = ("train", "validate")


def cross_validate(
    ctx: Context,
    *,
    param: CvParam,
    measures: CallbackParam,
    kind: str,
    fit: Callable[[Context], Outputs],
    apart: bool = False,
) -> Outputs:
    """Return what `n_splits` trainings showed; no model.

    Args:
        measures: what to measure of each training.
        kind: of the predictions: `binary` (`multi` if there are more than two classes) or
            `regression`.
        fit: trains in a context with `train_data` and `validate_data`, and returns the predictions
            of both in one table at the guest.
        apart: the parties' rows are different ones; each draws its own parts and says nothing.

    That `train_data` is the only input is a rule of the plan (`planned.check_ports`). Raises:
    BadData: fewer rows than folds. What `fit` raises.
    """
    table = None if ctx.site.role is Role.ARBITER else ctx.inputs.first("train_data")
    if table is None and ctx.site.role is not Role.ARBITER:
        raise BadData(where=f"{ctx.component} at {ctx.site}", reason="no table on train_data")
    history = _History(ctx, param, table)
    evaluation = _Evaluation(ctx, measures, kind=kind, table=table)
    summary: dict[str, Any] = {"fold_num": param.n_splits}
    with history:
        for number, test in enumerate(_folds(ctx, param, table, apart=apart)):
            parts = {} if table is None else _split(table, test)
            outputs = fit(
                nested(
                    ctx,
                    f"fold_{number}",
                    inputs=_inputs(parts),
                    tracker=_FoldTracker(ctx, number, of=param.n_splits),
                )
            )
            summary[f"fold_{number}"] = dict(outputs.summary)
            predictions = next((t for t in outputs.data if t is not None), None)
            if predictions is not None:
                evaluation.record(predictions, number)
            history.add(number, parts, predictions)
            ctx.tracker.progress((number + 1) / param.n_splits)
    made = history.table
    return Outputs(data=() if made is None else (made,), summary=summary)


def k_folds(rows: int, param: CvParam) -> list[Rows]:
    """Return the ascending row numbers of each part, which are those of scikit-learn's KFold.

    The first rows % n_splits parts have one row more. Raises: ValueError: fewer rows than parts.
    """
    if rows < param.n_splits:
        raise ValueError(f"{rows} rows cannot be cut into {param.n_splits} parts")
    order = np.arange(rows)
    if param.shuffle:
        seed = secrets.randbits(32) if param.random_seed is None else param.random_seed
        np.random.RandomState(seed).shuffle(order)
    return [np.sort(part).astype(np.int64) for part in np.array_split(order, param.n_splits)]


def _folds(ctx: Context, param: CvParam, table: Table | None, *, apart: bool) -> Iterator[Rows]:
    """Yield the rows that each training is measured on; none of them at the arbiter."""
    if table is None:
        yield from [np.empty(0, dtype=np.int64)] * param.n_splits
        return
    if not apart:
        ids = table.read((table.schema.id,)).column(0)
        check_same_ids(ctx, ids, tag="cross_validation")
    if table.count < param.n_splits:
        raise BadData(
            where=f"table {table.namespace}.{table.name}",
            reason=f"{table.count} rows cannot be cut into {param.n_splits} parts",
        )
    if apart:
        yield from k_folds(table.count, param)
        return
    if ctx.site.role is Role.GUEST:
        for number, rows in enumerate(k_folds(table.count, param)):
            ctx.federation.send("test_sid", rows, to=ctx.sites_of(Role.HOST), tag=str(number))
            yield rows
        return
    for number in range(param.n_splits):
        told = wait_for(ctx, "test_sid", ctx.only(Role.GUEST), tag=str(number))
        count = table.count // param.n_splits + (number < table.count % param.n_splits)
        yield checked_rows(told, of=table.count, count=count, message="test_sid")


def _split(table: Table, test: Rows) -> dict[str, Table]:
    """Return new tables of the rows to train on and to measure on, in their order."""
    is_test = np.zeros(table.count, dtype=bool)
    is_test[test] = True
    chosen = (np.flatnonzero(~is_test), np.flatnonzero(is_test))
    return {part: table.take(rows) for part, rows in zip(PARTS, chosen, strict=True)}


def _inputs(parts: Mapping[str, Table]) -> Inputs:
    data = {f"{part}_data": [("cross_validation", parts.get(part))] for part in PARTS}
    return Inputs(data=data, model={})


class _Evaluation:
    """Measures the guest's predictions of each training."""

    def __init__(
        self, ctx: Context, measures: CallbackParam, *, kind: str, table: Table | None
    ) -> None:
        self._ctx = ctx
        self._positive: Any = None
        self._kind = kind
        if table is not None and table.schema.label is not None and kind != "regression":
            labels = table.read((table.schema.label,)).column(0).drop_null().unique().to_pylist()
            self._kind = "binary" if len(labels) <= 2 else "multi"
            self._positive = max(labels, default=None)
        try:
            self._chosen = set(measures.measures_of(self._kind))
        except ValueError:  # those named are of another kind, as FATE's default of two classes is
            self._chosen = set(CallbackParam().measures_of(self._kind))

    def record(self, predictions: Table, number: int) -> None:
        """Record the measures of fold `number`."""
        rows = predictions.read(("label", "predict_result", "predict_score", "type"))
        for part in PARTS:
            chosen = rows.filter(pc.equal(rows["type"], part))
            true, predicted = self._columns(chosen)
            recorder = Recorder(self._ctx, f"{part}_fold_{number}", part)
            values = record_measures(
                recorder, self._kind, self._chosen, true=true, predicted=predicted
            )
            if values:
                recorder.scalars(values)

    def _columns(self, rows: pa.Table) -> tuple[NDArray[Any], NDArray[Any]]:
        labels = rows["label"]
        if self._kind == "multi":
            results = rows["predict_result"].cast(labels.type)
            return (
                labels.to_numpy(zero_copy_only=False),
                results.to_numpy(zero_copy_only=False),
            )
        scores = rows["predict_score"].to_numpy()
        if self._kind == "regression":
            return labels.cast(pa.float64()).to_numpy(), scores
        return pc.equal(labels, pa.scalar(self._positive).cast(labels.type)).to_numpy(), scores


class _History:
    """The output: the rows of all trainings, or the input."""

    def __init__(self, ctx: Context, param: CvParam, table: Table | None) -> None:
        self._tables = ctx.tables
        self._writer: TableWriter | None = None
        self._open = ExitStack()
        self._instances = param.history_value_type.lower() == "instance"
        self._wanted = table is not None and param.output_fold_history
        if table is not None and table.count * param.n_splits > MAX_HISTORY_ROWS:
            if self._wanted:
                ctx.log.warning(
                    "no output_fold_history: it would have more than %s rows", MAX_HISTORY_ROWS
                )
            self._wanted = False
        self.table = None if self._wanted else table

    def add(self, number: int, parts: Mapping[str, Table], predictions: Table | None) -> None:
        """Write the rows of fold `number`."""
        if not self._wanted:
            return
        if self._instances:
            for part, table in parts.items():
                self._write(table, table.read(), number, pa.array([part] * table.count))
        elif predictions is not None:
            rows = predictions.read()
            self._write(predictions, rows, number, rows["type"])

    def _write(self, source: Table, rows: pa.Table, number: int, parts: Any) -> None:
        schema = source.schema
        if self._writer is None:
            self._writer = self._open.enter_context(self._tables.create(schema))
        ids = pc.binary_join_element_wise(
            rows[schema.id].cast(pa.string()), f"fold{number}", parts.cast(pa.string()), "#"
        )
        self._writer.write(rows.set_column(0, schema.id, ids))

    def __enter__(self) -> _History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None and self._writer is not None:
            self.table = self._writer.close()
        self._open.__exit__(kind, error, tb)


@dataclass(frozen=True, slots=True)
class _FoldTracker:
    """Names a training's metrics as FATE does. Satisfies `fedflow.sdk.Tracker`."""

    ctx: Context
    number: int
    of: int  #: folds

    def metric(
        self,
        namespace: str,
        name: str,
        *,
        metric_type: str,
        points: Sequence[tuple[Any, Any]] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        fold = f"fold_{self.number}"
        if metric_type == "LOSS":
            name, meta = f"{name}.{self.number}", {**(meta or {}), "curve_name": fold}
        else:
            name = f"{fold}.{name}"
        tracker = self.ctx.tracker
        tracker.metric(namespace, name, metric_type=metric_type, points=points, meta=meta)

    def progress(self, done: float) -> None:
        self.ctx.tracker.progress((self.number + done) / self.of)
