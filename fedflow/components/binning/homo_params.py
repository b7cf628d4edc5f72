"""Parameters of HomoFeatureBinning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, field

from fedflow.components.binning.params import (
    WOE,
    Bins,
    HeteroFeatureBinningParams,
    Share,
    TransformParam,
)
from fedflow.components.training.params import Positive, one_of
from fedflow.sdk import Doubt, Params, Role
from fedflow.sdk.params import PlannedRun
from fedflow.sdk.spellings import Flag

VIRTUAL_SUMMARY, RECURSIVE_QUERY = "virtual_summary", "recursive_query"


class HomoFeatureBinningParams(Params, frozen=True, kw_only=True):
    """All parameters of HomoFeatureBinning, with FATE's names and defaults."""

    #: `virtual_summary` (interpolates between `sample_bins` points) or `recursive_query` (looks for
    #: the quantiles)
    method: str = VIRTUAL_SUMMARY
    bin_num: Bins = 10  #: bins per column; columns with fewer different values get fewer
    #: of `virtual_summary`: even steps from least to largest value with known ranks
    sample_bins: Annotated[int, Meta(ge=1, le=10_000)] = 100
    #: of `recursive_query`: how far a quantile's rank may be off, as a share of the rows
    error: Share = 1e-4
    max_iter: Annotated[int, Meta(ge=1, le=100)] = 100  #: rounds at most; 14 find any quantile
    compress_thres: Positive = 10000  #: of FATE's quantile sketch: without effect
    head_size: Positive = 10000  #: of FATE's quantile sketch: without effect
    bin_indexes: int | list[int] | None = -1  #: indexes of the columns to bin, from 0; -1: all
    bin_names: list[str] | None = None  #: further columns, by name
    category_indexes: list[int] | None = None  #: columns of which every value is its own bin
    category_names: list[str] | None = None  #: further ones, by name
    adjustment_factor: Any = 0.5  #: without effect: there are no statistics of labels
    transform_param: TransformParam = field(default_factory=TransformParam)  #: the output's values
    skip_static: Any = False  #: without effect: there are no statistics of labels
    local_only: Any = False  #: without effect
    #: fedflow's own; keys are signed with the certificates of TLS; over 2/3 of a round's parties
    #: must stay to its end
    aggregator_may_lie: Flag = False
    need_run: Flag = True  #: false: the data pass through unchanged

    @property
    def kind(self) -> str:
        """Return the method in lower case."""
        return self.method.lower()

    @property
    def as_own(self) -> HeteroFeatureBinningParams:
        """Return what is the same in HeteroFeatureBinning: columns, categories, output."""
        return HeteroFeatureBinningParams(
            method=self.kind,
            bin_num=self.bin_num,
            error=self.error,
            bin_indexes=self.bin_indexes,
            bin_names=self.bin_names,
            category_indexes=self.category_indexes,
            category_names=self.category_names,
            transform_param=self.transform_param,
            skip_static=True,
        )

    def check(self) -> None:
        one_of("method", self.method, (VIRTUAL_SUMMARY, RECURSIVE_QUERY))
        self.transform_param.check()
        if self.transform_param.kind == WOE:
            raise ValueError(
                "transform_param.transform_type: there is no woe in HomoFeatureBinning"
            )

    def doubts(self) -> Iterable[Doubt]:
        if self.adjustment_factor != 0.5:
            yield Doubt("adjustment_factor", "there are no statistics of labels")
        if self.local_only:
            yield Doubt("local_only", "bins are those of all parties' rows")
        if self.bin_num == 1:
            yield Doubt("bin_num", "one bin holds all rows", "Unusual")

    def check_run(self, run: PlannedRun) -> None:
        if self.need_run and not run.has_model and len(run.sites_of(Role.ARBITER)) != 1:
            raise ValueError("role: one arbiter is needed, which adds up what the parties count")
