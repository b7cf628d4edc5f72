"""Parameters of HeteroSecureBoost, with FATE's names.

Source: docs/reference/components.md; where FATE documents a value and does not use it, a warning
says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, field

from fedflow.components.boosting.bins import MOST_BINS
from fedflow.components.boosting.criterion import Criterion
from fedflow.components.boosting.trees import Levels
from fedflow.components.training.params import (
    EARLY_STOPPING,
    CallbackParam,
    CvParam,
    EncryptedModeCalculatorParam,
    NonNegative,
    NonNegativeInt,
    Positive,
    PredictParam,
    TreeEncryptParam,
    one_of,
)
from fedflow.components.training.planned import check_ports, check_roles
from fedflow.sdk import Doubt, Params, PlannedRun, Role
from fedflow.sdk.spellings import Flag

CLASSIFICATION: Final = "classification"
REGRESSION: Final = "regression"
STD, LAYERED, MIX = "std", "layered", "mix"
SINGLE_OUTPUT, MULTI_OUTPUT = "single_output", "multi_output"

Share = Annotated[float, Meta(ge=0, le=1)]

_OBJECTIVES: Final[Mapping[str, tuple[str, ...]]] = {
    CLASSIFICATION: ("cross_entropy",),
    REGRESSION: ("lse", "lae", "huber", "fair", "log_cosh", "tweedie"),
}
_NEEDS_PARAMETER: Final = ("huber", "fair", "tweedie")
_IMPORTANCES: Final = ("split", "gain")
MOST_DEPTH: Final = 20


class ObjectiveParam(Params, frozen=True, kw_only=True):
    """What is minimised."""

    #: `cross_entropy`; of numbers `lse`, `lae`, `huber`, `fair`, `log_cosh` or `tweedie`
    objective: str | None = "cross_entropy"
    #: of `huber` and `fair` the size of a residual from which it counts less; of `tweedie` the
    #: power, 1 to below 2
    params: list[float] | None = None

    def check(self) -> None:
        known = [name for names in _OBJECTIVES.values() for name in names]
        one_of("objective_param.objective", self.objective or "cross_entropy", tuple(known))
        if self.kind not in _NEEDS_PARAMETER:
            return
        if not self.params:
            raise ValueError(f"objective_param.params: {self.kind} needs a number")
        value = self.params[0]
        fits = 1 <= value < 2 if self.kind == "tweedie" else 0 < value < math.inf
        if not fits:
            wanted = "from 1 to below 2" if self.kind == "tweedie" else "above 0"
            raise ValueError(f"objective_param.params[0]: must be {wanted}")

    @property
    def kind(self) -> str:
        """Return the objective in lower case."""
        return (self.objective or "cross_entropy").lower()


class TreeParam(Params, frozen=True, kw_only=True):
    """A single tree."""

    criterion_method: str = "xgboost"  #: `xgboost`
    #: [l2, l1] or {l1, l2}: regularisation of leaf weights
    criterion_params: list[float] | dict[str, float] = field(default_factory=lambda: [0.1, 0.0])
    max_depth: Annotated[int, Meta(ge=1, le=MOST_DEPTH)] = 3  #: levels of splits
    max_split_nodes: Annotated[int, Meta(ge=1, le=65_536)] = 65_536  #: without effect
    min_sample_split: int = 2  #: rows that a node needs to be split
    min_leaf_node: int = 1  #: rows on either side of a split, below 1 as 1
    min_impurity_split: float = 1e-3  #: a split's gain must be above this
    min_child_weight: NonNegative = 0.0  #: sum of second derivatives on either side
    #: `split` (how often a column is used) or `gain`; hosts' columns count splits in any case
    feature_importance_type: str = "split"
    use_missing: Flag = False  #: missing values go the better way; else they are refused
    zero_as_missing: Flag = False  #: with `use_missing`: zeros are missing values too
    deterministic: Any = False  #: without effect: all trees are
    n_iter_no_change: Any = True  #: without effect: that beside `tree_param` counts
    tol: Any = 1e-3  #: without effect: that beside `tree_param` counts

    def check(self) -> None:
        one_of("tree_param.criterion_method", self.criterion_method, ("xgboost",))
        one_of("tree_param.feature_importance_type", self.feature_importance_type, _IMPORTANCES)
        if isinstance(self.criterion_params, dict):
            if unknown := set(self.criterion_params) - {"l1", "l2"}:
                raise ValueError(f"tree_param.criterion_params: unknown {sorted(unknown)[0]!r}")
        elif not 1 <= len(self.criterion_params) <= 2:
            raise ValueError("tree_param.criterion_params: must be [l2, l1]")
        if not all(0 <= value < math.inf for value in self.penalties):
            raise ValueError("tree_param.criterion_params: must be numbers from 0 on")
        if not 0 <= self.min_impurity_split < math.inf:
            raise ValueError("tree_param.min_impurity_split: must be a number from 0 on")

    @property
    def penalties(self) -> tuple[float, float]:
        """Return l2 and l1."""
        given = self.criterion_params
        if isinstance(given, dict):
            return given.get("l2", 0.1), given.get("l1", 0.0)
        return given[0], given[1] if len(given) > 1 else 0.0


class HeteroSecureBoostParams(Params, frozen=True, kw_only=True):
    """All parameters of HeteroSecureBoost."""

    task_type: str = CLASSIFICATION  #: `classification` or `regression`
    objective_param: ObjectiveParam = field(default_factory=ObjectiveParam)  #: table below
    tree_param: TreeParam = field(default_factory=TreeParam)  #: table below
    learning_rate: float = 0.3  #: what a tree's weights are multiplied by
    num_trees: Positive = 5  #: rounds at most; with several classes a round has a tree for each
    subsample_feature_rate: Share = 1.0  #: of the columns of each party, drawn per tree
    n_iter_no_change: Flag = True  #: training ends when the loss changes by less than `tol`
    tol: float = 1e-4  #: of `n_iter_no_change`
    bin_num: Annotated[int, Meta(ge=2, le=MOST_BINS)] = 32  #: bins per column at most
    binning_error: float = 1e-4  #: without effect: quantiles are exact
    encrypt_param: TreeEncryptParam = field(default_factory=TreeEncryptParam)  #: table below
    predict_param: PredictParam = field(default_factory=PredictParam)  #: table below
    cv_param: CvParam = field(default_factory=CvParam)  #: table below
    callback_param: CallbackParam = field(default_factory=CallbackParam)  #: table below
    #: table below
    encrypted_mode_calculator_param: EncryptedModeCalculatorParam = field(
        default_factory=EncryptedModeCalculatorParam
    )
    run_goss: Flag = False  #: train a tree on the rows with large gradients and some of the others
    top_rate: Annotated[float, Meta(gt=0, le=1)] = 0.2  #: share of rows with the largest gradients
    other_rate: Annotated[float, Meta(gt=0, le=1)] = 0.1  #: share drawn from the others
    use_missing: Flag = False  #: older place of that in `tree_param`
    zero_as_missing: Flag = False  #: older place of that in `tree_param`
    sparse_optimization: Any = False  #: without effect
    cipher_compress: Any = True  #: without effect: sums are always packed
    cipher_compress_error: Any = None  #: without effect
    new_ver: Any = True  #: without effect
    complete_secure: NonNegativeInt | bool = 0  #: so many first trees use the guest's columns only
    #: of a host, for itself: rows before, between and behind the splits of a column that it offers
    min_candidate_rows: NonNegativeInt = 0
    #: `std`; `mix`: each tree splits columns of one party only; or `layered`: upper levels split
    #: columns of the host only, lower ones of the guest
    boosting_strategy: str = STD
    work_mode: str | None = None  #: older name of that, which counts if it is given
    tree_num_per_party: Positive = 1  #: rounds of one party before the next one's, of `mix`
    guest_depth: Positive = 2  #: lower levels, of `layered`
    host_depth: Positive = 3  #: upper levels, of `layered`
    #: several classes: `single_output`, a tree for each; `multi_output`, one whose leaves have a
    #: weight for each, with `std` and without EINI
    multi_mode: str = SINGLE_OUTPUT
    #: predict in one round trip; no party learns the way of a row. Not with `mix`
    EINI_inference: Flag = False
    EINI_random_mask: Flag = False  #: of it: scores are larger by a secret factor, 1 to 2
    #: of it: a host refuses if its splits allow fewer than 1e9 ways through the trees
    EINI_complexity_check: Flag = False
    #: of drawn rows and columns; null: unpredictable
    random_seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = 100
    validation_freqs: Positive | list[NonNegativeInt] | None = None  #: as in `callback_param`
    early_stopping_rounds: Positive | None = None  #: as in `callback_param`
    metrics: list[str] | None = None  #: as in `callback_param`
    use_first_metric_only: Flag = False  #: as in `callback_param`

    def check(self) -> None:
        for part in msgspec.structs.asdict(self).values():
            if isinstance(part, Params):
                part.check()
        one_of("task_type", self.task_type, tuple(_OBJECTIVES))
        kind = self.objective_param.kind
        if kind not in _OBJECTIVES[self.task]:
            raise ValueError(f"objective_param.objective: {kind!r} is not one of a {self.task}")
        for name in ("validation_freqs", "early_stopping_rounds"):
            if None not in (getattr(self, name), getattr(self.callback_param, name)):
                raise ValueError(f"{name}: given here and in callback_param; keep the latter")
        if self.early_stopping_rounds and not self.callbacks.validation_freqs:
            raise ValueError("early_stopping_rounds: needs validation_freqs")
        self.callbacks.check()
        for name in ("tol", "learning_rate", "binning_error"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name}: must be a finite number")
        if self.run_goss and self.top_rate + self.other_rate > 1:
            raise ValueError("other_rate: together with top_rate it must not be above 1")
        self._check_strategy()

    def _check_strategy(self) -> None:
        one_of("multi_mode", self.multi_mode, (SINGLE_OUTPUT, MULTI_OUTPUT))
        field_name = "boosting_strategy" if self.work_mode is None else "work_mode"
        one_of(field_name, self.strategy, (STD, LAYERED, MIX))
        if self.has_vector_leaves:
            if self.EINI_inference:
                raise ValueError(f"EINI_inference: is not possible with {MULTI_OUTPUT}")
            if self.strategy != STD:
                raise ValueError(f"{field_name}: {MULTI_OUTPUT} needs {STD}")
            if self.cipher_compress is False:
                raise ValueError(f"cipher_compress: {MULTI_OUTPUT} is not possible without it")
        if self.levels.depth > MOST_DEPTH:
            raise ValueError(f"host_depth: with guest_depth at most {MOST_DEPTH} levels")

    def doubts(self) -> Iterable[Doubt]:
        for part in msgspec.structs.asdict(self).values():
            if isinstance(part, Params) and not isinstance(part, CallbackParam):
                yield from part.doubts()
        yield from self.callbacks.doubts()
        if self.zero_is_missing and not self.uses_missing:
            yield Doubt("zero_as_missing", "without use_missing zeros are ordinary values")
        if self.cipher_compress is False:
            yield Doubt("cipher_compress", "sums are always packed")
        if self.has_vector_leaves and self.task == REGRESSION:
            yield Doubt("multi_mode", "a regression has one score")
        if self.EINI_inference and self.strategy == MIX:
            yield Doubt("EINI_inference", "trees of mix are predicted in the ordinary way")
        if self.predicts_by_eini and self.EINI_random_mask:
            yield Doubt("EINI_random_mask", "scores are not the real ones", "Unusual")
        if self.learning_rate <= 0:
            does = "trees are grown and count nothing" if not self.learning_rate else "loss grows"
            yield Doubt("learning_rate", f"is not above 0: {does}", "Unusual")

    def check_run(self, run: PlannedRun) -> None:
        layered = self.strategy == LAYERED
        check_roles(run, "HeteroSecureBoost", single=(Role.GUEST,), hosts=1 if layered else None)
        check_ports(run, alone="cv_param.need_cv" if self.cv_param.need_cv else None)
        training = "train_data" in run.data_ports
        validated = {"validate_data", "eval_data"} & set(run.data_ports)
        stops = EARLY_STOPPING in self.callbacks.callbacks
        if training and stops and not validated and not self.cv_param.need_cv:
            raise ValueError("callback_param.callbacks: EarlyStopping needs validate_data")

    @property
    def callbacks(self) -> CallbackParam:
        """Return what happens between rounds, wherever it was written."""
        return self.callback_param.with_older(
            metrics=self.metrics,
            validation_freqs=self.validation_freqs,
            early_stopping_rounds=self.early_stopping_rounds,
            use_first_metric_only=self.use_first_metric_only,
        )

    @property
    def task(self) -> str:
        """Return `classification` or `regression`."""
        return self.task_type.lower()

    @property
    def strategy(self) -> str:
        """Return `std`, `layered` or `mix`."""
        given = self.boosting_strategy if self.work_mode is None else self.work_mode
        return given.lower()

    @property
    def has_vector_leaves(self) -> bool:
        """Tell whether a leaf has a weight for each of several classes."""
        return self.multi_mode.lower() == MULTI_OUTPUT

    def classes_of_trees(self, classes: int) -> list[range]:
        """Return the classes of each tree of a round; `classes` is the number of scores of a row.

        Two classes have one score, as numbers have.
        """
        if self.has_vector_leaves:
            return [range(classes)]
        return [range(number, number + 1) for number in range(classes)]

    @property
    def predicts_by_eini(self) -> bool:
        """Tell whether a prediction job encrypts leaves instead of asking level by level."""
        return self.EINI_inference and self.strategy != MIX

    @property
    def uses_missing(self) -> bool:
        """Tell whether values may be missing."""
        return self.use_missing or self.tree_param.use_missing

    @property
    def zero_is_missing(self) -> bool:
        """Tell whether zeros count as missing values, with `uses_missing`."""
        return self.zero_as_missing or self.tree_param.zero_as_missing

    @property
    def levels(self) -> Levels:
        """Return who splits at which depth."""
        if self.strategy == LAYERED:
            depth = self.host_depth + self.guest_depth
            return Levels(
                depth=depth, hosts=range(self.host_depth), guest=range(self.host_depth, depth)
            )
        depth = self.tree_param.max_depth
        return Levels(depth=depth, hosts=range(depth), guest=range(depth))

    def levels_of(self, number: int) -> Levels:
        """Return who splits at which depth in the trees of round `number`, from 0."""
        levels = self.levels
        if number >= int(self.complete_secure):
            return levels
        return Levels(depth=levels.depth, hosts=range(0), guest=range(levels.depth))

    def grower_of(self, number: int, *, hosts: int) -> int:
        """Return who grows the trees of round `number` alone with `mix`: 0 the guest, 1 a host."""
        return number // self.tree_num_per_party % (hosts + 1)

    @property
    def criterion(self) -> Criterion:
        """Return the rules for splits and leaves."""
        tree = self.tree_param
        l2, l1 = tree.penalties
        return Criterion(
            l2=l2,
            l1=l1,
            min_rows_to_split=tree.min_sample_split,
            min_leaf_rows=max(1, tree.min_leaf_node),
            min_gain=tree.min_impurity_split,
            min_child_weight=tree.min_child_weight,
        )
