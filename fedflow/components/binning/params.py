"""Parameters of HeteroFeatureBinning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta, field

from fedflow.components.training.params import EncryptParam, Positive, one_of
from fedflow.sdk import Doubt, Params, Role
from fedflow.sdk.params import PlannedRun
from fedflow.sdk.spellings import Flag, also

Share = Annotated[float, Meta(ge=0, le=1)]
Bins = Annotated[int, Meta(ge=1)]
MAX_BUCKETS = 10_000  #: merging them costs time with their square
Buckets = Annotated[int, Meta(ge=1, le=MAX_BUCKETS)]

BIN_NUM, WOE, NOTHING = "bin_num", "woe", "none"

_METHODS = ("quantile", "bucket", "optimal")
_METRICS = ("iv", "gini", "ks", "chi_square")
_TRANSFORMS = (BIN_NUM, WOE, NOTHING)


class TransformParam(Params, frozen=True, kw_only=True):
    """What becomes of the values in the output."""

    #: indexes of the columns to transform, from 0; -1: all that are binned
    transform_cols: int | list[int] | None = -1
    transform_names: list[str] | None = None  #: further columns, by name
    #: `bin_num` (the bin's number, from 0), `woe` (the bin's weight of evidence) or null
    transform_type: str | None = BIN_NUM

    @property
    def kind(self) -> str:
        """Return `bin_num`, `woe` or `none`."""
        return (self.transform_type or NOTHING).lower()

    def check(self) -> None:
        one_of("transform_param.transform_type", self.kind, _TRANSFORMS)


class OptimalBinningParam(Params, frozen=True, kw_only=True):
    """How fine buckets are merged to bins, with the method `optimal`."""

    #: what merging keeps high: `iv`, `gini`, `ks` or `chi_square` (also `chi-square`)
    metric_method: Annotated[str, also({"chi-square": "chi_square"})] = "iv"
    min_bin_pct: Share = 0.05  #: smaller bins are merged on, share of the rows
    max_bin_pct: Share = 1.0  #: no bins are merged to a larger one, share of the rows
    init_bin_nums: Buckets = 1000  #: buckets to begin with, at most 10000
    mixture: bool = True  #: bins without rows of both classes are merged on
    init_bucket_method: str = "quantile"  #: how the buckets are made: `quantile` or `bucket`
    max_bin: Any = None  #: without effect: `bin_num` counts
    adjustment_factor: Any = None  #: without effect: that beside `optimal_binning_param` counts

    def doubts(self) -> Iterable[Doubt]:
        for name in ("max_bin", "adjustment_factor"):
            if getattr(self, name) is not None:
                other = "bin_num" if name == "max_bin" else name
                yield Doubt(f"optimal_binning_param.{name}", f"the component's {other} counts")

    @property
    def metric(self) -> str:
        """Return the measure in lower case."""
        return self.metric_method.lower()

    def check(self) -> None:
        one_of("optimal_binning_param.metric_method", self.metric_method, _METRICS)
        one_of(
            "optimal_binning_param.init_bucket_method",
            self.init_bucket_method,
            ("quantile", "bucket"),
        )
        if self.max_bin_pct < self.min_bin_pct or self.max_bin_pct == 0:
            raise ValueError(
                "optimal_binning_param.max_bin_pct: must be above 0 and not below min_bin_pct"
            )


class HeteroFeatureBinningParams(Params, frozen=True, kw_only=True):
    """All parameters of HeteroFeatureBinning, with FATE's names and defaults."""

    method: str = "quantile"  #: `quantile`, `bucket` (equal widths) or `optimal`
    bin_num: Bins = 10  #: bins per column; columns with fewer different values get fewer
    compress_thres: Positive = 10000  #: of FATE's quantile sketch: without effect
    head_size: Positive = 10000  #: of FATE's quantile sketch: without effect
    error: Share = 1e-4  #: allowed error of a quantile's rank; quantiles are exact here
    bin_indexes: int | list[int] | None = -1  #: indexes of the columns to bin, from 0; -1: all
    bin_names: list[str] | None = None  #: further columns, by name
    category_indexes: list[int] | None = None  #: columns of which every value is its own bin
    category_names: list[str] | None = None  #: further ones, by name
    #: rows that count in a bin without rows of one class
    adjustment_factor: Annotated[float, Meta(gt=0)] = 0.5
    transform_param: TransformParam = field(default_factory=TransformParam)  #: the output's values
    #: guest: no statistics of hosts' columns; host: none of the own ones at the guest
    local_only: bool = False
    #: of the method `optimal`; with hosts, each host's own
    optimal_binning_param: OptimalBinningParam = field(default_factory=OptimalBinningParam)
    #: the guest's key; hosts refuse a shorter one than their own `key_length`
    encrypt_param: EncryptParam = field(default_factory=EncryptParam)
    skip_static: Flag = False  #: split points only, no statistics; not with `optimal`, `woe`
    #: own split points per column index, ascending, of which the last is the column's largest value
    split_points_by_index: dict[str, list[float]] | None = None
    split_points_by_col_name: dict[str, list[float]] | None = None  #: the same per column name
    need_run: Flag = True  #: false: the data pass through unchanged

    @property
    def kind(self) -> str:
        """Return the method in lower case."""
        return self.method.lower()

    def check(self) -> None:
        one_of("method", self.method, _METHODS)
        for block in (self.transform_param, self.optimal_binning_param, self.encrypt_param):
            block.check()
        if self.skip_static and self.kind == "optimal":
            raise ValueError("skip_static: optimal binning needs the label's statistics")
        if self.skip_static and self.transform_param.kind == WOE:
            raise ValueError("skip_static: woe needs the label's statistics")
        if not math.isfinite(self.adjustment_factor):
            raise ValueError("adjustment_factor: must be a finite number")
        for index, points in (self.split_points_by_index or {}).items():
            if not index.isdecimal():
                raise ValueError(f"split_points_by_index: {index!r} is not an index")
            _check_points(f"split_points_by_index.{index}", points)
        _check_all_points("split_points_by_col_name", self.split_points_by_col_name or {})

    def doubts(self) -> Iterable[Doubt]:
        yield from self.encrypt_param.doubts()
        yield from self.optimal_binning_param.doubts()
        if self.bin_num == 1:
            yield Doubt("bin_num", "one bin holds all rows: woe and iv are 0", "Unusual")

    def check_run(self, run: PlannedRun) -> None:
        if not run.sites_of(Role.GUEST) and not self.local_only and not self.skip_static:
            raise ValueError("role: a guest with the labels is needed, or local_only")
        if len(run.sites_of(Role.GUEST)) > 1:
            raise ValueError("role: there can be one guest only")
        if run.site.role is not Role.HOST or run.has_model or not self.need_run:
            return
        if self.transform_param.kind == WOE:
            raise ValueError(
                "transform_param.transform_type: a host has no woe when bins are made; extract it"
                " at the guest, merge it into the host's model and use that"
            )
        if self.kind == "optimal" and self.local_only:
            raise ValueError("local_only: optimal binning of a host needs the guest's labels")


def _check_all_points(name: str, by_column: Mapping[str, Sequence[float]]) -> None:
    for column, points in by_column.items():
        _check_points(f"{name}.{column}", points)


def _check_points(path: str, points: Sequence[float]) -> None:
    if not points:
        raise ValueError(f"{path}: no split points")
    if any(not math.isfinite(p) for p in points):
        raise ValueError(f"{path}: split points must be finite numbers")
    if any(b <= a for a, b in pairwise(points)):
        raise ValueError(f"{path}: split points must ascend")
