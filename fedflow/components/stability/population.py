"""PSI: the population stability index of every feature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.binning.columns import per_column
from fedflow.components.binning.splitting import bin_numbers, quantile_points
from fedflow.components.samples.decoding import need_rows
from fedflow.components.samples.stored import own_model
from fedflow.sdk import BadData, Context, Doubt, Model, Outputs, Params, Table, component
from fedflow.sdk.params import PlannedRun

EMPTY: Final = 1e-6  #: the share of rows that an empty bin counts as
MODEL_NAME: Final = "psi"  #: by which selection recognises the model

_META, _PARAM = "PSIMeta", "PSIParam"

Floats = NDArray[np.float64]


class PSIParams(Params, frozen=True, kw_only=True):
    """All parameters of PSI, with FATE's names and defaults."""

    max_bin_num: Annotated[int, Meta(ge=1)] = 20  #: quantile bins per feature, at most
    need_run: bool = True  #: false: nothing is made
    #: a number that counts as missing; NaN always does, and a text never occurs
    dense_missing_val: float | str | None = None
    #: allowed error of a quantile's rank; quantiles are exact here
    binning_error: Annotated[float, Meta(ge=0, le=1)] = 1e-4

    def doubts(self) -> Iterable[Doubt]:
        if isinstance(self.dense_missing_val, str):
            yield Doubt("dense_missing_val", "features are numbers, so a text never occurs")
        if self.max_bin_num == 1:
            yield Doubt("max_bin_num", "one bin holds all rows: the index is 0", "Unusual")

    def check_run(self, run: PlannedRun) -> None:
        if self.need_run and set(run.data_ports) == {"train_data"}:
            raise ValueError("input.data: train_data needs validate_data beside it")


@component(
    "PSI",
    roles=("guest", "host"),
    params=PSIParams,
    data_ports=("train_data", "validate_data", "test_data", "eval_data", "data"),
    outputs=("model",),
    absence="apart",
)
class PSI:
    """Measures how the distribution of each feature differs between two tables.

    Each party compares its own tables; nothing is exchanged. The expected one is `train_data`, the
    actual one `validate_data`; or the first and the second of two tables on `data`. Both must have
    the same features. Bins are quantiles of the expected table, and one bin holds missing values.
    The index is the sum of (a - e) ln(a / e) over the fractions a, e of rows per bin. An empty bin
    counts as a fraction of 1e-6. Below 0.1 a feature is held to be stable, above 0.25 not.

    Model: `PSIMeta`, `PSIParam` (for HeteroFeatureSelection's psi_filter). Summary: `psi_scores`.
    There is no data output. With a model input, as in a predict job, there is nothing to compare:
    nothing is done. `eval_data` beside `train_data` is `validate_data`. Unlike FATE: quantiles are
    exact whatever `binning_error` says.
    """

    def run(self, ctx: Context) -> Outputs:
        """Compare the tables. Raises: BadData: the features differ, or a table has no rows."""
        params: PSIParams = ctx.params
        if not params.need_run:
            return Outputs(passed=True)
        if (stored := own_model(ctx, _PARAM)) is not None:
            return Outputs(model=stored, passed=True)
        expected, actual = _tables(ctx)
        missing = None if isinstance(params.dense_missing_val, str) else params.dense_missing_val
        names, bins = expected.schema.columns, params.max_bin_num

        def before(name: str, values: Floats) -> tuple[Floats, Floats]:
            return _expected(_with_missing(values, missing), bins=bins)

        known = dict(zip(names, per_column(ctx, expected, before, names, share=0.5), strict=True))
        points = {name: cuts for name, (cuts, _) in known.items()}

        def after(name: str, values: Floats) -> Floats:
            return _shares(_with_missing(values, missing), points[name])

        shares = per_column(ctx, actual, after, names, share=0.5, start=0.5)
        found = {name: _compare(*known[name], own) for name, own in zip(names, shares, strict=True)}
        scores = {name: stability.total for name, stability in found.items()}
        return Outputs(
            model=Model(
                meta_name=_META,
                param_name=_PARAM,
                meta={"max_bin_num": params.max_bin_num},
                param={
                    "total_score": scores,
                    "feature_psi": [stability.to_json(name) for name, stability in found.items()],
                    "model_name": MODEL_NAME,
                },
            ),
            summary={"psi_scores": scores},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stability:
    """One feature: arrays per bin, that of missing values last."""

    points: Floats
    expected: Floats  #: shares of rows
    actual: Floats
    psi: Floats

    @property
    def total(self) -> float:
        return float(self.psi.sum())

    def to_json(self, name: str) -> dict[str, Any]:
        """Return the feature as the model has it."""
        return {
            "feature_name": name,
            "psi": self.psi.tolist(),
            "interval": _intervals(self.points),
            "expect_perc": self.expected.tolist(),
            "actual_perc": self.actual.tolist(),
        }


def _tables(ctx: Context) -> tuple[Table, Table]:
    """Return the expected and the actual table. Raises: BadData."""
    ports = ("train_data", "validate_data", "eval_data", "data")
    tables = [t for port in ports for _, t in ctx.inputs.data.get(port, ()) if t is not None]
    if len(tables) != 2:
        raise BadData(
            where="the data input", reason=f"there are {len(tables)} tables at {ctx.site}, not 2"
        )
    expected, actual = tables
    for table in tables:
        need_rows(table)
    if set(expected.schema.columns) != set(actual.schema.columns):
        others = set(expected.schema.columns) ^ set(actual.schema.columns)
        raise BadData(
            where="the data input",
            reason=f"{len(others)} features are in one of the two tables only",
        )
    return expected, actual


def _with_missing(values: Floats, missing: float | None) -> Floats:
    return values if missing is None else np.where(values == missing, np.nan, values)


def _expected(values: Floats, *, bins: int) -> tuple[Floats, Floats]:
    """Return split points of a column, and the shares of its rows per bin."""
    points = quantile_points(values, bins)
    if points.size == 0:  # all values are missing: any that is there is in another bin
        points = np.array([np.inf])
    return points, _shares(values, points)


def _compare(points: Floats, before: Floats, after: Floats) -> _Stability:
    """Return how shares of rows per bin differ."""
    a, e = (np.where(shares == 0, EMPTY, shares) for shares in (after, before))
    return _Stability(points=points, expected=before, actual=after, psi=(a - e) * np.log(a / e))


def _shares(values: Floats, points: Floats) -> Floats:
    counts = np.bincount(bin_numbers(values, points), minlength=len(points) + 1)
    return counts / len(values)


def _intervals(points: Floats) -> list[str]:
    """Return the bins in words."""
    cuts = [f"{point:.6g}" for point in points[:-1]]
    lower = ["-inf", *cuts]
    upper = [*cuts, "inf"]
    return [*(f"({low}, {high}]" for low, high in zip(lower, upper, strict=True)), "missing"]
