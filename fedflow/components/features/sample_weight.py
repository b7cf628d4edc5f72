"""SampleWeight: how much each row counts in a training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.samples.decoding import need_rows, numbers
from fedflow.components.samples.labels import label_key, read_labels
from fedflow.components.samples.progress import part_of
from fedflow.components.samples.stored import own_model, stored_number
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    Doubt,
    Model,
    Outputs,
    Params,
    Table,
    TableSchema,
    component,
)
from fedflow.sdk.spellings import ANY_CASE, EMPTY_AS_NULL

Floats = NDArray[np.float64]

COLUMN = "weight"  #: what the weights are called in every output
CLASS_MODE, NAME_MODE = "class weight", "sample weight name"


class SampleWeightParams(Params, frozen=True, kw_only=True):
    """Where the weights come from; `sample_weight_name` goes before `class_weight`."""

    #: weight per label (labels not named: 1), or `balanced`: n / (classes * rows of the class)
    class_weight: Annotated[
        dict[str, float] | Literal["balanced"] | None, EMPTY_AS_NULL, ANY_CASE
    ] = None
    #: the feature that becomes the weight
    sample_weight_name: Annotated[str | None, EMPTY_AS_NULL] = None
    normalize: bool = False  #: divide the weights of `sample_weight_name` by their mean
    need_run: bool = True  #: false: the output is the input

    def check(self) -> None:
        """Weights must be finite numbers."""
        if isinstance(self.class_weight, dict):
            for label, weight in self.class_weight.items():
                if not math.isfinite(weight):
                    raise ValueError(f"class_weight.{label}: must be a finite number")

    def doubts(self) -> Iterable[Doubt]:
        if self.class_weight and self.sample_weight_name:
            yield Doubt("class_weight", "sample_weight_name is used instead")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """How rows get weights: from a feature, or by their label's text."""

    name: str | None
    classes: Mapping[str, float]
    normalize: bool

    @property
    def mode(self) -> str:
        return CLASS_MODE if self.name is None else NAME_MODE

    def lacks(self, schema: TableSchema) -> bool:
        """Tell whether a table has not what the weights come from, as in predictions."""
        return schema.label is None if self.name is None else self.name not in schema.columns


@component(
    "SampleWeight",
    roles=("guest", "host"),
    params=SampleWeightParams,
    outputs=("data", "model"),
    absence="apart",
)
class SampleWeight:
    """Gives every row a weight for trainings: by its label, or from one of the features.

    The output has a column `weight` after the label; a feature used for it is no feature any more.
    Without `class_weight` and `sample_weight_name` the output is the input. Labels are at the
    guest; a host runs it with `need_run` false, or with a feature of its own. With a model its
    weights per label, or its feature, are used; rows without these (to be predicted) are passed on.

    Model: `SampleWeightModelMeta`, `SampleWeightModelParam`. Metric `train` / `sample_weight`.

    Negative weights are taken, with a warning; trainings need a mean above 0.

    Unlike FATE: weights that are all 0 are refused; `class_weight` may name labels that are no
    whole numbers.
    """

    def run(self, ctx: Context) -> Outputs:
        """Write the rows with weights.

        Raises: BadParameter: there is no such feature. BadData: no labels where they are needed, or
            values that are no weights.
        """
        params: SampleWeightParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            return Outputs()
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        stored = own_model(ctx, "SampleWeightModelParam")
        rule = _rule(ctx, table) if stored is None else _load(stored)
        if rule is None:
            message = "neither class_weight nor sample_weight_name is given: rows pass as they are"
            ctx.warn("NoEffect", message, hint="Give one of them, or need_run false.")
            return Outputs(data=(table,), passed=True)
        if stored is not None and rule.lacks(table.schema):
            ctx.log.info("the rows lack what the model's weights come from: they are passed on")
            return Outputs(data=(table,), model=stored, passed=True)
        weights = _weights(rule, table, path=f"{ctx.component}.sample_weight_name")
        _warn(ctx, weights)
        weighted = _write(ctx, table, weights, without=rule.name)
        classes = dict(rule.classes) if rule.mode == CLASS_MODE else None
        ctx.tracker.metric(
            "train",
            "sample_weight",
            metric_type="SAMPLE_WEIGHT",
            points=[("sample_weight", 0)],
            meta={
                "weight_mode": rule.mode,
                "class_weight": classes,
                "classes": None if classes is None else sorted(classes),
                "sample_weight_name": rule.name,
            },
        )
        return Outputs(data=(weighted,), model=stored or _model(params, rule, weighted))


def _rule(ctx: Context, table: Table) -> _Rule | None:
    """Return what the parameters ask for, None if nothing. Raises: BadData: labels are missing."""
    params: SampleWeightParams = ctx.params
    if params.sample_weight_name:
        return _Rule(name=params.sample_weight_name, classes={}, normalize=params.normalize)
    if params.class_weight == "balanced":
        need_rows(table)
        counts = read_labels(table, needed_by="class_weight").value_counts()
        rows = table.count
        classes = {
            str(label): rows / (len(counts) * count)
            for label, count in sorted((e["values"], e["counts"]) for e in counts.to_pylist())
        }
        return _Rule(name=None, classes=classes, normalize=False)
    if params.class_weight:
        return _Rule(name=None, classes=dict(params.class_weight), normalize=False)
    return None


def _weights(rule: _Rule, table: Table, *, path: str) -> Floats:
    """Return one weight per row. Raises: BadParameter: no such feature. BadData: no weights."""
    where = f"table {table.namespace}.{table.name}"
    if rule.name is None:
        labels = read_labels(table, needed_by="class_weight")
        codes = labels.dictionary_encode().combine_chunks()
        by_key = {label_key(key): weight for key, weight in rule.classes.items()}
        each = [by_key.get(label_key(v), 1.0) for v in codes.dictionary.to_pylist()]
        indexes = codes.indices.to_numpy(zero_copy_only=False)
        weights: Floats = np.array(each, dtype=np.float64)[indexes]
    else:
        if rule.name not in table.schema.columns:
            raise BadParameter(path=path, reason=f"there is no feature {rule.name!r}")
        column = table.read((rule.name,)).column(0)
        weights = numbers(column, name=rule.name, where=where)
        if rule.normalize and weights.any():
            if weights.sum() <= 0:
                reason = "the mean of the weights is not above 0: normalize would turn their signs"
                raise BadData(where=where, reason=reason)
            weights = weights / weights.mean()
    if len(weights) and not weights.any():
        raise BadData(where=where, reason=f"all {len(weights)} weights are 0")
    return weights


def _warn(ctx: Context, weights: Floats) -> None:
    """Say what a training makes of negative weights, which FATE takes too."""
    negative = int((weights < 0).sum())
    if negative:
        ctx.warn(
            "NegativeWeight",
            f"{negative} of {len(weights)} weights are negative:"
            " a training moves away from these rows",
            hint="Correct the weights, unless that is meant.",
        )


def _write(ctx: Context, table: Table, weights: Floats, *, without: str | None) -> Table:
    """Return the rows with weights, less the feature `without` and the weights that they had."""
    old = table.schema
    schema = replace(old.select([c for c in old.columns if c != without]), weight=COLUMN)
    if COLUMN in (schema.id, schema.match_id, schema.label, *schema.columns):
        reason = f"a column is called {COLUMN!r}; rename it, or use it as sample_weight_name"
        raise BadData(where=f"table {table.namespace}.{table.name}", reason=reason)
    made = pa.table({COLUMN: pa.array(weights)})
    return table.take(np.arange(table.count), schema=schema, made=made, progress=part_of(ctx))


def _model(params: SampleWeightParams, rule: _Rule, weighted: Table) -> Model:
    return Model(
        meta_name="SampleWeightModelMeta",
        param_name="SampleWeightModelParam",
        meta={
            "sample_weight_name": params.sample_weight_name or "",
            "normalize": params.normalize,
            "need_run": params.need_run,
        },
        param={
            "header": list(weighted.schema.columns),
            "weight_mode": rule.mode,
            "class_weight": dict(rule.classes),
        },
    )


def _load(model: Model) -> _Rule:
    """Return what a model holds. Raises: BadData: it is no such model."""
    mode, classes = model.param.get("weight_mode"), model.param.get("class_weight")
    name: Any = model.meta.get("sample_weight_name")
    if mode == NAME_MODE and isinstance(name, str):
        return _Rule(name=name, classes={}, normalize=bool(model.meta.get("normalize")))
    if mode == CLASS_MODE and isinstance(classes, Mapping):
        each = {str(k): stored_number(v, what=f"weight of {k!r}") for k, v in classes.items()}
        return _Rule(name=None, classes=each, normalize=False)
    raise BadData(where="the model input", reason="it is not of SampleWeight")
