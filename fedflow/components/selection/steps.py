"""What the filters of the parameters do, as a list of steps; older names become newer ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fedflow.components.selection.params import (
    THRESHOLD,
    TOP_K,
    TOP_PERCENTILE,
    CommonFilterParam,
    HeteroFeatureSelectionParams,
)

RANGE: Final = "range"  #: max - min, which `unique_value` compares
MOST_FREQUENT: Final = "percentage_value"  #: the share of the most frequent value


class ValueSource(Enum):
    """Where the values that a step compares come from."""

    NOTHING = "nothing"  #: none are compared: `manually`
    DATA = "data"
    IV = "iv"
    STATISTIC = "statistic"
    PSI = "psi"
    VIF = "vif"
    HETERO_TREES = "hetero_trees"
    HOMO_TREES = "homo_trees"
    CORRELATION = "correlation"


#: the guest has values of the hosts' columns; else each party judges its own columns by itself
FEDERATED: Final = frozenset({ValueSource.IV, ValueSource.HETERO_TREES, ValueSource.CORRELATION})


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterStep:
    """One run of one filter."""

    name: str  #: the filter as the parameters have it
    source: ValueSource
    metric: str = ""
    filter_type: str = THRESHOLD
    take_high: bool = True
    threshold: float = 0.0  #: or k, or the share to keep
    host_thresholds: tuple[float, ...] | None = None  #: per host, in the conf's order
    federated: bool = False  #: the guest decides on the hosts' columns too
    merge: str = "average"  #: of the values of several classes
    optional: bool = False  #: without a model the values are computed from the data

    def to_json(self) -> dict[str, Any]:
        """Return what the parties must agree on."""
        return {"filter": self.name, "metric": self.metric, "type": self.filter_type}


def steps_of(params: HeteroFeatureSelectionParams) -> list[FilterStep]:
    """Return all steps in order."""
    return [step for name in params.methods for step in _steps(name, params)]


def _steps(name: str, params: HeteroFeatureSelectionParams) -> Iterator[FilterStep]:
    match name:
        case "manually":
            yield FilterStep(name=name, source=ValueSource.NOTHING)
        case "percentage_value":
            upper = params.percentage_value_param.upper_pct
            yield FilterStep(
                name=name,
                source=ValueSource.DATA,
                metric=MOST_FREQUENT,
                take_high=False,
                threshold=upper,
            )
        case "iv_filter":
            yield from _common(name, ValueSource.IV, params.iv_param)
        case "statistic_filter":
            yield from _common(name, ValueSource.STATISTIC, params.statistic_param)
        case "psi_filter":
            yield from _common(name, ValueSource.PSI, params.psi_param)
        case "vif_filter":
            yield from _common(name, ValueSource.VIF, params.vif_param)
        case "hetero_sbt_filter" | "hetero_fast_sbt_filter":
            yield from _common(name, ValueSource.HETERO_TREES, params.sbt_param)
        case "homo_sbt_filter":
            yield from _common(name, ValueSource.HOMO_TREES, params.sbt_param)
        case "correlation_filter":
            correlation = params.correlation_param
            yield FilterStep(
                name=name,
                source=ValueSource.CORRELATION,
                metric=correlation.sort_metric,
                threshold=correlation.threshold,
                federated=correlation.select_federated,
            )
        case _:
            yield _older(name, params)


def _common(name: str, source: ValueSource, param: CommonFilterParam) -> Iterator[FilterStep]:
    for run in range(param.runs):
        merge = "average"
        if source is ValueSource.IV:
            merge = str(param.at("mul_class_merge_type", run)).lower()
        yield FilterStep(
            name=name,
            source=source,
            metric=str(param.at("metrics", run)),
            filter_type=str(param.at("filter_type", run)).lower(),
            take_high=bool(param.at("take_high", run)),
            threshold=float(param.at("threshold", run)),
            host_thresholds=param.host_thresholds_at(run),
            federated=bool(param.at("select_federated", run)) and source in FEDERATED,
            merge=merge,
        )


def _older(name: str, params: HeteroFeatureSelectionParams) -> FilterStep:
    """Return the step of a deprecated name."""
    match name:
        case "unique_value":
            eps = params.unique_param.eps
            return _statistic(name, RANGE, threshold=eps)
        case "coefficient_of_variation_value_thres":
            least = params.variance_coe_param.value_threshold
            return _statistic(name, "coefficient_of_variance", threshold=least)
        case "outlier_cols":
            outlier = params.outlier_param
            quantile = f"{round(outlier.percentile * 100, 6):g}%"
            return _statistic(name, quantile, threshold=outlier.upper_threshold, take_high=False)
        case "iv_value_thres":
            value = params.iv_value_param
            hosts = tuple(value.host_thresholds) if value.host_thresholds else None
            return _iv(
                name,
                THRESHOLD,
                value.value_threshold,
                local_only=value.local_only,
                host_thresholds=hosts,
            )
        case "iv_percentile":
            share = params.iv_percentile_param
            return _iv(
                name, TOP_PERCENTILE, share.percentile_threshold, local_only=share.local_only
            )
        case "iv_top_k":
            top = params.iv_top_k_param
            return _iv(name, TOP_K, float(top.k), local_only=top.local_only)
    raise ValueError(f"there is no filter {name!r}")


def _statistic(name: str, metric: str, *, threshold: float, take_high: bool = True) -> FilterStep:
    return FilterStep(
        name=name,
        source=ValueSource.STATISTIC,
        metric=metric,
        take_high=take_high,
        threshold=threshold,
        optional=True,
    )


def _iv(
    name: str,
    filter_type: str,
    threshold: float,
    *,
    local_only: bool,
    host_thresholds: tuple[float, ...] | None = None,
) -> FilterStep:
    return FilterStep(
        name=name,
        source=ValueSource.IV,
        metric="iv",
        filter_type=filter_type,
        threshold=threshold,
        host_thresholds=host_thresholds,
        federated=not local_only,
    )
