"""Parameters of HeteroFeatureSelection.

Source: docs/reference/components.md#selection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from msgspec import Meta, field

from fedflow.components.statistics.describing import is_statistic
from fedflow.components.training.params import one_of
from fedflow.sdk import Params, PlannedRun, Role
from fedflow.sdk.spellings import ONE_AS_LIST, Flag

Share = Annotated[float, Meta(ge=0, le=1)]
Names = list[str] | None
Indexes = int | list[int] | None

THRESHOLD: Final = "threshold"
TOP_K: Final = "top_k"
TOP_PERCENTILE: Final = "top_percentile"
FILTER_TYPES: Final = (THRESHOLD, TOP_K, TOP_PERCENTILE)
MERGES: Final = ("average", "min", "max")
LATER: Final = (
    "iv_filter",
    "statistic_filter",
    "psi_filter",
    "vif_filter",
    "hetero_sbt_filter",
    "hetero_fast_sbt_filter",
    "homo_sbt_filter",
    "correlation_filter",
)
OLDER: Final = (
    "unique_value",
    "iv_value_thres",
    "iv_percentile",
    "iv_top_k",
    "coefficient_of_variation_value_thres",
    "outlier_cols",
)  #: deprecated names of special cases of `LATER`
GUEST_DECIDES: Final = frozenset(
    {
        "iv_filter",
        "iv_value_thres",
        "iv_percentile",
        "iv_top_k",
        "hetero_sbt_filter",
        "hetero_fast_sbt_filter",
        "correlation_filter",
    }
)  #: filters by values that only the guest has
FILTERS: Final = ("manually", "percentage_value", *LATER, *OLDER)


class UniqueParam(Params, frozen=True, kw_only=True):
    """`unique_value`: columns with hardly more than one value go."""

    eps: Annotated[float, Meta(ge=0)] = 1e-5  #: kept where max - min is at least this


class IvValueParam(Params, frozen=True, kw_only=True):
    """`iv_value_thres`, an older form of `iv_filter` with `threshold`."""

    value_threshold: float = 0.0  #: kept where the IV is at least this
    host_thresholds: list[float] | None = None  #: for each host, in the conf's order
    local_only: bool = False  #: the hosts' columns all stay


class IvPercentileParam(Params, frozen=True, kw_only=True):
    """`iv_percentile`, an older form of `iv_filter` with `top_percentile`."""

    percentile_threshold: Share = 1.0  #: share of the columns to keep, those with the highest IV
    local_only: bool = False  #: the hosts' columns all stay


class IvTopKParam(Params, frozen=True, kw_only=True):
    """`iv_top_k`, an older form of `iv_filter` with `top_k`."""

    k: Annotated[int, Meta(ge=1)] = 10  #: columns to keep, those with the highest IV
    local_only: bool = False  #: the hosts' columns all stay


class VarianceCoeParam(Params, frozen=True, kw_only=True):
    """`coefficient_of_variation_value_thres`, an older form of `statistic_filter`."""

    value_threshold: float = 1.0  #: kept where the coefficient of variance is at least this


class OutlierParam(Params, frozen=True, kw_only=True):
    """`outlier_cols`, an older form of `statistic_filter`."""

    percentile: Share = 1.0  #: which quantile is compared
    upper_threshold: float = 1.0  #: kept where it is at most this


class PercentageValueParam(Params, frozen=True, kw_only=True):
    """`percentage_value`: columns in which one value is very frequent go."""

    #: kept where the share of the most frequent value is at most this
    upper_pct: Annotated[float, Meta(ge=0.1, le=1)] = 1.0


class ManuallyParam(Params, frozen=True, kw_only=True):
    """`manually`: columns by name or position. What goes and what stays exclude each other."""

    filter_out_indexes: Indexes = None  #: positions of columns that go, from 0
    filter_out_names: Names = None  #: names of columns that go
    left_col_indexes: Indexes = None  #: positions of columns that stay, all others go
    left_col_names: Names = None  #: names of columns that stay, all others go

    @property
    def names_left(self) -> bool:
        """Tell whether it says what stays."""
        return self.left_col_indexes not in (None, []) or bool(self.left_col_names)

    def check(self) -> None:
        goes = self.filter_out_indexes not in (None, []) or bool(self.filter_out_names)
        if goes and self.names_left:
            raise ValueError("manually_param: say what to filter out or what is left, not both")


class CommonFilterParam(Params, frozen=True, kw_only=True):
    """What is compared and how. Lists make several runs, one per entry; single values serve all."""

    metrics: str | list[str] = "mean"  #: what is compared
    filter_type: str | list[str] = THRESHOLD  #: `threshold`, `top_k` or `top_percentile`
    take_high: bool | list[bool] = True  #: high values are kept, else low ones
    #: the threshold (kept where the value reaches it), k, or the share to keep
    threshold: float | list[float] = 1.0
    #: thresholds of the hosts, in the conf's order; with several runs a list or null per run
    host_thresholds: Annotated[list[float | list[float] | None] | None, ONE_AS_LIST] = None
    #: guest and hosts are filtered together, by the guest, where it knows the hosts' values
    select_federated: bool | list[bool] = True

    @property
    def runs(self) -> int:
        """Return how often the filter runs."""
        return max(len(v) if isinstance(v, list) else 1 for v in self._lists().values())

    def at(self, name: str, run: int) -> str | float | bool:
        """Return what one field says for a run."""
        value = self._lists()[name]
        if not isinstance(value, list):
            return value
        return value[0] if len(value) == 1 else value[run]

    def host_thresholds_at(self, run: int) -> tuple[float, ...] | None:
        """Return the hosts' thresholds of a run, None if there are no special ones."""
        given = self.host_thresholds
        if not given:
            return None
        if all(isinstance(value, float) for value in given):
            return tuple(value for value in given if isinstance(value, float))
        found = given[0] if len(given) == 1 else given[run]
        return None if found is None else tuple(found) if isinstance(found, list) else (found,)

    def check_as(self, name: str, *, allowed: tuple[str, ...] | None = None) -> None:
        """Check the block `name`; `allowed` are the metrics, None: any statistic."""
        lists = self._lists()
        for field_name, value in lists.items():
            if isinstance(value, list) and len(value) not in (1, self.runs):
                raise ValueError(
                    f"{name}.{field_name}: has {len(value)} entries where others have {self.runs}"
                )
        given = self.host_thresholds or []
        if any(not isinstance(v, float) for v in given) and len(given) not in (1, self.runs):
            raise ValueError(f"{name}.host_thresholds: must have a list or null per run")
        for run in range(self.runs):
            self._check_run(name, run, allowed)

    def _check_run(self, name: str, run: int, allowed: tuple[str, ...] | None) -> None:
        metric, kind = str(self.at("metrics", run)), str(self.at("filter_type", run))
        threshold = float(self.at("threshold", run))
        if allowed is None and not is_statistic(metric):
            raise ValueError(f"{name}.metrics: there is no statistic {metric!r}")
        if allowed is not None:
            one_of(f"{name}.metrics", metric, allowed)
        one_of(f"{name}.filter_type", kind, FILTER_TYPES)
        if kind == TOP_K and (threshold < 1 or threshold != int(threshold)):
            raise ValueError(f"{name}.threshold: top_k needs a whole number of at least 1")
        if kind == TOP_PERCENTILE and not 0 <= threshold <= 1:
            raise ValueError(f"{name}.threshold: top_percentile needs a share, 0 to 1")

    def _lists(self) -> dict[str, str | float | bool | list[str] | list[float] | list[bool]]:
        return {
            "metrics": self.metrics,
            "filter_type": self.filter_type,
            "take_high": self.take_high,
            "threshold": self.threshold,
            "select_federated": self.select_federated,
        }


class IvFilterParam(CommonFilterParam, frozen=True, kw_only=True):
    """`iv_filter`: by information value, from the model of HeteroFeatureBinning."""

    metrics: str | list[str] = "iv"  #: `iv`
    take_high: bool | list[bool] = True  #: must be true
    #: IV of several classes: their `average`, `min` or `max`; a list for several runs
    mul_class_merge_type: str | list[str] = "average"

    def _lists(self) -> dict[str, str | float | bool | list[str] | list[float] | list[bool]]:
        return {
            **CommonFilterParam._lists(self),
            "mul_class_merge_type": self.mul_class_merge_type,
        }


class PsiFilterParam(CommonFilterParam, frozen=True, kw_only=True):
    """`psi_filter`: by population stability, from the model of PSI."""

    metrics: str | list[str] = "psi"  #: `psi`
    take_high: bool | list[bool] = False  #: high values are kept, else low ones


class VifFilterParam(CommonFilterParam, frozen=True, kw_only=True):
    """`vif_filter`: by variance inflation factor, from the model of HeteroPearson."""

    metrics: str | list[str] = "vif"  #: `vif`
    take_high: bool | list[bool] = False  #: high values are kept, else low ones
    #: the threshold (kept where the value reaches it), k, or the share to keep
    threshold: float | list[float] = 5.0


class SbtFilterParam(CommonFilterParam, frozen=True, kw_only=True):
    """`hetero_sbt_filter`, `hetero_fast_sbt_filter`, `homo_sbt_filter`: by importance in trees."""

    metrics: str | list[str] = "feature_importance"  #: `feature_importance`


class CorrelationParam(Params, frozen=True, kw_only=True):
    """`correlation_filter`: columns that are like a better one go."""

    sort_metric: str = "iv"  #: `iv`: what makes a column better
    threshold: Annotated[float, Meta(ge=0)] = 0.1  #: like: |correlation| above this
    select_federated: Flag = True  #: also across the parties, with one host only


class HeteroFeatureSelectionParams(Params, frozen=True, kw_only=True):
    """All parameters of HeteroFeatureSelection, with FATE's names and defaults."""

    #: columns that the filters look at, by position from 0; -1: all. Others always stay
    select_col_indexes: Indexes = -1
    select_names: Names = field(default_factory=list)  #: such columns by name, beside the indexes
    #: filters in the order in which they run, each on what the one before has left
    filter_methods: str | list[str] | None = field(default_factory=lambda: ["manually"])
    unique_param: UniqueParam = field(default_factory=UniqueParam)  #: of `unique_value`
    iv_value_param: IvValueParam = field(default_factory=IvValueParam)  #: of `iv_value_thres`
    #: of `iv_percentile`
    iv_percentile_param: IvPercentileParam = field(default_factory=IvPercentileParam)
    iv_top_k_param: IvTopKParam = field(default_factory=IvTopKParam)  #: of `iv_top_k`
    #: of `coefficient_of_variation_value_thres`
    variance_coe_param: VarianceCoeParam = field(default_factory=VarianceCoeParam)
    outlier_param: OutlierParam = field(default_factory=OutlierParam)  #: of `outlier_cols`
    #: of `percentage_value`
    percentage_value_param: PercentageValueParam = field(default_factory=PercentageValueParam)
    manually_param: ManuallyParam = field(default_factory=ManuallyParam)  #: of `manually`
    iv_param: IvFilterParam = field(default_factory=IvFilterParam)  #: of `iv_filter`
    #: of `statistic_filter`; `metrics` are names of DataStatistics
    statistic_param: CommonFilterParam = field(default_factory=CommonFilterParam)
    psi_param: PsiFilterParam = field(default_factory=PsiFilterParam)  #: of `psi_filter`
    vif_param: VifFilterParam = field(default_factory=VifFilterParam)  #: of `vif_filter`
    sbt_param: SbtFilterParam = field(default_factory=SbtFilterParam)  #: of the three sbt filters
    #: of `correlation_filter`
    correlation_param: CorrelationParam = field(default_factory=CorrelationParam)
    #: names of this party's own columns are given as its anonymous names, `<role>_<party>_x<i>`
    use_anonymous: Flag = False
    need_run: Flag = True  #: false: the data pass through

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the filters' names."""
        given = ["manually"] if self.filter_methods is None else self.filter_methods
        return tuple(m.lower() for m in ([given] if isinstance(given, str) else given))

    def check(self) -> None:
        for name in self.methods:
            one_of("filter_methods", name, FILTERS)
        self.manually_param.check()
        self.iv_param.check_as("iv_param", allowed=("iv",))
        self.statistic_param.check_as("statistic_param")
        self.psi_param.check_as("psi_param", allowed=("psi",))
        self.vif_param.check_as("vif_param", allowed=("vif",))
        self.sbt_param.check_as("sbt_param", allowed=("feature_importance",))
        one_of("correlation_param.sort_metric", self.correlation_param.sort_metric, ("iv",))
        high = self.iv_param.take_high
        if high is not True and not (isinstance(high, list) and all(high)):
            raise ValueError("iv_param.take_high: must be true")
        merges = self.iv_param.mul_class_merge_type
        for merge in [merges] if isinstance(merges, str) else merges:
            one_of("iv_param.mul_class_merge_type", merge, MERGES)

    def check_run(self, run: PlannedRun) -> None:
        if not self.need_run:
            return
        knows = run.site.role is Role.GUEST  # what hosts judge by themselves they need models for
        by_models = [
            name
            for name in self.methods
            if (name in GUEST_DECIDES and knows) or name in set(LATER) - GUEST_DECIDES
        ]
        if by_models and not run.has_model:
            raise ValueError(
                f"filter_methods: {by_models[0]} compares what models of other components say;"
                " connect them as isometric_model"
            )
        if set(self.methods) & GUEST_DECIDES and len(run.sites_of(Role.GUEST)) != 1:
            raise ValueError("role: exactly one guest is needed, which decides for all")
        hosts = len(run.sites_of(Role.HOST))
        for name in self.methods:
            self._check_hosts(name, hosts)

    def _check_hosts(self, method: str, hosts: int) -> None:
        """Raise ValueError if what is said of hosts does not fit their number."""
        if method == "correlation_filter" and self.correlation_param.select_federated and hosts > 1:
            raise ValueError(
                f"correlation_param.select_federated: works with one host, there are {hosts}"
            )
        for block, thresholds in self._host_thresholds(method):
            if thresholds and len(thresholds) != hosts:
                raise ValueError(
                    f"{block}.host_thresholds: has {len(thresholds)} thresholds for {hosts} hosts"
                )

    def _host_thresholds(self, method: str) -> Iterator[tuple[str, Sequence[float] | None]]:
        """Yield block and thresholds of the hosts for each run of a filter."""
        blocks: dict[str, tuple[str, CommonFilterParam]] = {
            "iv_filter": ("iv_param", self.iv_param),
            "statistic_filter": ("statistic_param", self.statistic_param),
            "psi_filter": ("psi_param", self.psi_param),
            "vif_filter": ("vif_param", self.vif_param),
        }
        if method.endswith("sbt_filter"):
            blocks[method] = ("sbt_param", self.sbt_param)
        if method == "iv_value_thres":
            yield "iv_value_param", self.iv_value_param.host_thresholds
        elif method in blocks:
            block, param = blocks[method]
            for run in range(param.runs):
                yield block, param.host_thresholds_at(run)
