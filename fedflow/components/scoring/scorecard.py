"""Scorecard: probabilities as credit scores."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.samples.decoding import numbers, where_of
from fedflow.components.samples.progress import part_of
from fedflow.components.training.params import one_of
from fedflow.sdk import BadData, Context, Doubt, Outputs, Params, Table, TableKind, component

Floats = NDArray[np.float64]

SCORE, DETAIL, RESULT = "predict_score", "predict_detail", "predict_result"
CREDIT = "credit_score"


class ScorecardParams(Params, frozen=True, kw_only=True):
    """The scale of the credit scores."""

    method: str = "credit"  #: `credit`, in any case
    offset: float = 500.0  #: score where both classes are equally probable
    #: points by which the score grows when the odds grow `factor_base` fold; 0: all are `offset`
    factor: float = 20.0
    factor_base: Annotated[float, msgspec.Meta(gt=0)] = 2.0  #: other than 1
    upper_limit_ratio: float = 3.0  #: scores are at most this times `offset`
    lower_limit_value: float = 0.0  #: scores are at least this
    need_run: bool = True  #: false: the output is the input

    def check(self) -> None:
        """Limits must be in order, and the base no 1."""
        one_of("method", self.method, ("credit",))
        if self.factor_base == 1:
            raise ValueError("factor_base: must not be 1, whose logarithm is 0")
        for name in ("offset", "factor", "factor_base", "upper_limit_ratio", "lower_limit_value"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name}: must be finite")
        if self.lower_limit_value > self.upper_limit_ratio * self.offset:
            raise ValueError("lower_limit_value: it is above upper_limit_ratio * offset")

    def doubts(self) -> Iterable[Doubt]:
        if self.factor == 0:
            yield Doubt("factor", "is 0: all scores are equal to offset", "Unusual")


@component("Scorecard", roles=("guest", "host"), params=ScorecardParams, absence="apart")
class Scorecard:
    """Turns the probabilities of a prediction table of two classes into credit scores.

    With p the probability of the second class (the bad one): score = offset + factor / ln
    (factor_base) * ln((1 - p) / p). It is kept between `lower_limit_value` and `upper_limit_ratio`
    * offset, with two decimals. Output columns: `label`, `predict_result`, `predict_score`,
    `credit_score`. A party without predictions has no output.

    Summary: `scorecard_compute_formula`.
    """

    def run(self, ctx: Context) -> Outputs:
        """Write the scores. Raises: BadData: it is no prediction table of two classes."""
        params: ScorecardParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            return Outputs()
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        _check_predictions(table)
        formula = (
            f"Score = {params.offset:g} + {params.factor:g} / ln({params.factor_base:g}) * "
            "ln((1 - p) / p)"
        )
        return Outputs(data=(_scored(ctx, table),), summary={"scorecard_compute_formula": formula})


def credit_scores(probabilities: Floats, params: ScorecardParams) -> Floats:
    """Return the credit scores of probabilities, 0 to 1.

    Source: docs/reference/components.md#scorecard.
    """
    with np.errstate(divide="ignore"):
        odds = np.log1p(-probabilities) - np.log(probabilities)
    scores = params.offset + params.factor / math.log(params.factor_base) * odds
    highest = params.upper_limit_ratio * params.offset
    return np.clip(scores, params.lower_limit_value, highest).round(2)


def _check_predictions(table: Table) -> None:
    """Do nothing if it holds predictions of two classes, by its first row. Raises: BadData."""
    where = f"table {table.namespace}.{table.name}"
    absent = [name for name in (RESULT, SCORE, DETAIL) if name not in table.schema.columns]
    if absent:
        reason = f"is no prediction table: it lacks {', '.join(absent)}"
        raise BadData(where=where, reason=reason)
    for text in table.head(1).column(DETAIL).to_pylist():
        if str(text).count("': ") != 2:
            raise BadData(where=where, reason="its predictions are not of two classes")


def _scored(ctx: Context, table: Table) -> Table:
    schema = replace(
        table.schema, kind=TableKind.PREDICTIONS, columns=(RESULT, SCORE, CREDIT), anonymous=()
    )
    where, params, names = where_of(table), ctx.params, list(schema.names)

    def block(batch: pa.RecordBatch) -> pa.RecordBatch:
        column = pa.chunked_array([batch.column(SCORE)])
        probabilities = numbers(column, name=SCORE, where=where)
        wrong = int(((probabilities < 0) | (probabilities > 1)).sum())
        if wrong:
            reason = f"{wrong} of {len(probabilities)} rows of a block have no probability, 0 to 1"
            raise BadData(where=f"column {SCORE!r}", reason=reason)
        scores = pa.array(credit_scores(probabilities, params))
        arrays = [scores if n == CREDIT else batch.column(n) for n in names]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    return table.map_blocks(block, schema=schema, progress=part_of(ctx))
