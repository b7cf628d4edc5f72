"""The model of HeteroFeatureBinning: FeatureBinningMeta and FeatureBinningParam.

Source: docs/reference/models.md#binning-model. Of a host's columns the guest's model has statistics
under anonymous names and no split points; the host's model has split points and no statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.binning.params import NOTHING, WOE, HeteroFeatureBinningParams
from fedflow.components.binning.statistics import BinStatistics
from fedflow.sdk import BadData, Model, Site

META: Final = "FeatureBinningMeta"
PARAM: Final = "FeatureBinningParam"
MODEL_NAME: Final = "binning_model"  #: by which selection and others recognise it

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnResult:
    """What is known of one column's bins at one party."""

    bins: int  #: with that of missing values, if it has one
    points: Floats = field(default_factory=lambda: np.empty(0))  #: none of another party's column
    statistics: tuple[BinStatistics, ...] = ()  #: per class against the rest; () = none
    metric: Floats = field(default_factory=lambda: np.empty(0))  #: of optimal binning, per bin

    def with_statistics(self, statistics: tuple[BinStatistics, ...]) -> ColumnResult:
        """Return the same bins with other statistics and no measure of optimal binning."""
        return ColumnResult(bins=self.bins, points=self.points, statistics=statistics)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyResult:
    """The columns of one party; those of a host at the guest have anonymous names."""

    site: Site
    columns: Mapping[str, ColumnResult]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredBins:
    """What a run with a model takes from it."""

    header: tuple[str, ...]
    transform_type: str  #: as in the parameters
    transformed: tuple[str, ...]
    points: Mapping[str, Floats]  #: per binned column
    woe: Mapping[str, Floats]  #: per binned column that has it
    labels: tuple[str, ...]  #: the classes as text, descending; () at a host
    local_only: bool
    skip_static: bool
    adjustment_factor: float

    def output_kind(self, params: HeteroFeatureBinningParams) -> str:
        """Return the model's kind of output, or woe if the parameters ask for it.

        A host's model gets its woe after the training, and says another kind.
        """
        return WOE if params.transform_param.kind == WOE else self.transform_type


def meta_of(
    params: HeteroFeatureBinningParams,
    *,
    header: Sequence[str],
    columns: Sequence[str],
    transformed: Sequence[str],
) -> dict[str, Any]:
    """Return FeatureBinningMeta's fields."""
    return {
        "need_run": params.need_run,
        "method": params.kind,
        "compress_thres": params.compress_thres,
        "head_size": params.head_size,
        "error": params.error,
        "bin_num": params.bin_num,
        "cols": list(columns),
        "adjustment_factor": params.adjustment_factor,
        "local_only": params.local_only,
        "transform_param": {
            "transform_cols": [header.index(name) for name in transformed],
            "transform_type": params.transform_param.kind,
        },
        "skip_static": params.skip_static,
        "optimal_metric_method": params.optimal_binning_param.metric,
    }


def param_of(
    own: PartyResult,
    *,
    header: Sequence[str],
    anonymous: Sequence[str],
    labels: Sequence[str] = (),
    hosts: Sequence[PartyResult] = (),
) -> dict[str, Any]:
    """Return FeatureBinningParam's fields, but those of a run with a model."""
    return {
        **results_of(own, labels=labels, hosts=hosts),
        "header": list(header),
        "header_anonymous": list(anonymous),
        "model_name": MODEL_NAME,
        "transform_binning_result": {"binning_result": {}, "role": "", "party_id": ""},
        "transform_host_results": [],
        "transform_multi_class_result": _multi_class((), (), ()),
    }


def results_of(
    own: PartyResult,
    *,
    labels: Sequence[str] = (),
    hosts: Sequence[PartyResult] = (),
    prefix: str = "",
) -> dict[str, Any]:
    """Return the results of a run as the model has them, their fields named with `prefix`.

    With two classes there is one result per party, with more one per class, `labels` descending.
    """
    classes = range(1 if len(labels) <= 2 else len(labels))
    mine = [_party(own, number) for number in classes]
    theirs = [[_party(host, number) for number in classes] for host in hosts]
    return {
        f"{prefix}binning_result": mine[0],
        f"{prefix}host_results": [results[0] for results in theirs],
        f"{prefix}multi_class_result": _multi_class(mine, labels, theirs),
    }


def read_model(model: Model) -> StoredBins:
    """Return what a stored model says. Raises: BadData: it is no binning model."""
    try:
        meta, param = model.meta, model.param
        header = tuple(str(name) for name in param["header"])
        columns = dict(param["binning_result"]["binning_result"])
        points = {name: _numbers(found["split_points"]) for name, found in columns.items()}
        woe = {name: _numbers(found["woe_array"]) for name, found in columns.items()}
        for name, cuts in points.items():
            if name not in header or (np.diff(cuts) <= 0).any() or not np.isfinite(cuts).all():
                raise ValueError(f"the split points of {name!r} are none")
            if woe[name].size not in {0, len(cuts), len(cuts) + 1}:
                raise ValueError(f"the woe_array of {name!r} does not fit its split points")
        transform = meta["transform_param"]
        return StoredBins(
            header=header,
            transform_type=str(transform["transform_type"] or NOTHING).lower(),
            transformed=tuple(header[int(index)] for index in transform["transform_cols"]),
            points=points,
            woe={name: values for name, values in woe.items() if values.size},
            labels=tuple(str(label) for label in param["multi_class_result"]["labels"]),
            local_only=bool(meta["local_only"]),
            skip_static=bool(meta["skip_static"]),
            adjustment_factor=float(meta["adjustment_factor"]),
        )
    except (KeyError, TypeError, ValueError, IndexError) as exc:
        raise BadData(where="the model input", reason=f"it is no {PARAM} ({exc})") from exc


def summary_of(
    own: PartyResult, *, labels: Sequence[str] = (), hosts: Sequence[PartyResult] = ()
) -> dict[str, Any]:
    """Return the summary: a host's split points, or the guest's statistics per class.

    Two classes are named `0`; `iv` is sorted, the greatest first.
    """
    points = {name: found.points.tolist() for name, found in own.columns.items()}
    if own.site.role.value != "guest":
        return points
    names = ["0"] if len(labels) <= 2 else list(labels)
    return {
        name: {**_statistics((own, *hosts), number), "split_points": points}
        for number, name in enumerate(names)
    }


def _statistics(parties: Sequence[PartyResult], number: int) -> dict[str, Any]:
    known = {
        name: found.statistics[number]
        for party in parties
        for name, found in party.columns.items()
        if found.statistics
    }
    return {
        "iv": sorted(([n, s.iv] for n, s in known.items()), key=lambda pair: -pair[1]),
        "woe": {name: found.woe.tolist() for name, found in known.items()},
        "monotonic": {name: found.is_monotonic for name, found in known.items()},
    }


def _multi_class(
    own: Sequence[Any], labels: Sequence[str], hosts: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    return {
        "results": list(own),
        "labels": list(labels),
        "host_results": [result for results in hosts for result in results],
        "host_party_ids": [results[0]["party_id"] for results in hosts],
        "has_host_result": bool(hosts),
    }


def _party(party: PartyResult, number: int) -> dict[str, Any]:
    return {
        "binning_result": {name: _column(c, number) for name, c in party.columns.items()},
        "role": party.site.role.value,
        "party_id": party.site.party_id,
    }


def _column(column: ColumnResult, number: int) -> dict[str, Any]:
    found = column.statistics[number] if column.statistics else None
    return {
        "woe_array": [] if found is None else found.woe.tolist(),
        "iv_array": [] if found is None else found.ivs.tolist(),
        "event_count_array": [] if found is None else found.events.tolist(),
        "non_event_count_array": [] if found is None else found.others.tolist(),
        "event_rate_array": [] if found is None else found.event_rates.tolist(),
        "non_event_rate_array": [] if found is None else found.other_rates.tolist(),
        "split_points": column.points.tolist(),
        "iv": 0.0 if found is None else found.iv,
        "is_woe_monotonic": found is not None and found.is_monotonic,
        "bin_nums": column.bins,
        "bin_anonymous": [f"bin_{i}" for i in range(column.bins)],
        "optimal_metric_array": column.metric.tolist(),
    }


def _numbers(values: Any) -> Floats:
    found = np.asarray(list(values), dtype=np.float64)
    if found.ndim != 1:
        raise ValueError("no list of numbers")
    return found
