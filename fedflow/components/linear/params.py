"""Parameters of HeteroLR, HeteroLinR and HeteroPoisson, with FATE's names and defaults."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, field

from fedflow.components.linear.families import LINEAR, LOGISTIC, POISSON, Family
from fedflow.components.training.params import (
    EARLY_STOPPING,
    CallbackParam,
    CvParam,
    EncryptedModeCalculatorParam,
    EncryptParam,
    InitParam,
    NonNegative,
    NonNegativeInt,
    Positive,
    PredictParam,
    one_of,
)
from fedflow.components.training.planned import check_ports, check_roles
from fedflow.sdk import Doubt, Params, PlannedRun, Role
from fedflow.sdk.spellings import Flag

MIN_BATCH_ROWS = 10  #: the sums of fewer rows tell too much about each
MAX_PRECISION = 30  #: fraction bits that are used at most; float64 results gain nothing from more

_PENALTIES = ("l1", "l2", "none")
_OPTIMIZERS = ("sgd", "rmsprop", "adam", "adagrad", "nesterov_momentum_sgd", "sqn")
_EARLY_STOPS = ("diff", "weight_diff", "abs")


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchOrder:
    """How rows come into batches."""

    shuffle: bool = False  #: in random order, anew in each iteration
    free_draws: bool = False  #: every batch is drawn from all rows
    masked_rate: float = 0.0  #: decoys per real row
    random_seed: int | None = None  #: None: unpredictable


class SqnParam(Params, frozen=True, kw_only=True):
    """The stochastic quasi-Newton optimizer; without effect unless `optimizer` is `sqn`."""

    #: batches between two updates of the curvature
    update_interval_L: Positive = 3  # noqa: N815  FATE's spelling
    memory_M: Positive = 5  # noqa: N815  #: correction pairs that are kept
    sample_size: Positive = 5000  #: rows for one curvature estimate; all if there are fewer
    random_seed: int | None = None  #: of the draw of these rows, from 0; null: random

    def check(self) -> None:
        if self.sample_size < MIN_BATCH_ROWS:
            raise ValueError(f"sqn_param.sample_size: must be at least {MIN_BATCH_ROWS}")
        if self.random_seed is not None and self.random_seed < 0:
            raise ValueError("sqn_param.random_seed: must not be negative")


class StepwiseParam(Params, frozen=True, kw_only=True):
    """Stepwise selection of the columns of guest and host; every candidate is trained in full."""

    score_name: str = "AIC"  #: `AIC` or `BIC`, in any case
    mode: str = "hetero"  #: without effect
    role: str = "guest"  #: without effect
    #: `backward` starts with all columns and removes, `forward` starts with none and adds,
    #: `both` starts with all and does either
    direction: str = "both"
    max_step: Positive = 10  #: steps at most
    nvmin: Positive = 2  #: columns at which `backward` and `both` remove no more
    nvmax: Positive | None = None  #: columns at which `forward` and `both` add no more
    need_stepwise: bool = False  #: true: the model is that of the best columns

    def check(self) -> None:
        one_of("stepwise_param.score_name", self.score_name, ("aic", "bic"))
        one_of("stepwise_param.direction", self.direction, ("both", "forward", "backward"))
        if self.nvmax is not None and self.nvmax < self.nvmin:
            raise ValueError("stepwise_param.nvmax: must not be less than nvmin")


class LinearParams(Params, frozen=True, kw_only=True):
    """What the vertical linear models have in common."""

    penalty: str | None = "L2"  #: `L1`, `L2` or none (`None`, null), in any case
    tol: float = 1e-4  #: limit of the stop rule; below 0 it is never met
    alpha: float = 1.0  #: strength of the penalty; below 0 it rewards large weights
    #: `sgd`, `rmsprop`, `adam`, `adagrad`, `nesterov_momentum_sgd` or (not in HeteroPoisson) `sqn`
    optimizer: str = "rmsprop"
    batch_size: int = -1  #: rows, at least 10; -1: all
    learning_rate: float = 0.01  #: of the first iteration; 0 learns nothing, below 0 the reverse
    max_iter: Positive = 20  #: iterations at most
    #: training ends when this is below `tol`: `diff` (change of the loss), `abs` (the loss) or
    #: `weight_diff` (length of the iteration's update)
    early_stop: str = "diff"
    decay: NonNegative = 1.0  #: iteration i (from 0) has learning_rate / sqrt(1 + decay * i)
    decay_sqrt: bool = True  #: false: without the root
    #: fraction bits of features and residuals; null and more than 30: 30
    floating_point_precision: Annotated[int, Meta(ge=0, le=64)] | None = 23
    init_param: InitParam = field(default_factory=InitParam)  #: table below
    encrypt_param: EncryptParam = field(default_factory=EncryptParam)  #: table below
    predict_param: PredictParam = field(default_factory=PredictParam)  #: table below
    cv_param: CvParam = field(default_factory=CvParam)  #: table below
    stepwise_param: StepwiseParam = field(default_factory=StepwiseParam)  #: table below
    callback_param: CallbackParam = field(default_factory=CallbackParam)  #: table below
    #: table below
    encrypted_mode_calculator_param: EncryptedModeCalculatorParam = field(
        default_factory=EncryptedModeCalculatorParam
    )
    #: older place of that in `callback_param`, as the next three
    metrics: list[str] | None = None
    validation_freqs: Positive | list[NonNegativeInt] | None = None  #: means PerformanceEvaluate
    early_stopping_rounds: Positive | None = None  #: means EarlyStopping
    use_first_metric_only: Flag = False  #: as in `callback_param`

    def check(self) -> None:
        for part in msgspec.structs.asdict(self).values():
            if isinstance(part, Params):
                part.check()
        for name in ("validation_freqs", "early_stopping_rounds"):
            if None not in (getattr(self, name), getattr(self.callback_param, name)):
                raise ValueError(f"{name}: given here and in callback_param; keep the latter")
        self.callbacks.check()
        self.callbacks.check_measures(self.family.kind)
        for name in ("tol", "alpha", "learning_rate"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name}: must be a finite number")
        one_of("penalty", self.penalty or "none", _PENALTIES)
        one_of("optimizer", self.optimizer, self.optimizers)
        one_of("early_stop", self.early_stop, _EARLY_STOPS)
        if self.batch_size != -1 and self.batch_size < MIN_BATCH_ROWS:
            raise ValueError(f"batch_size: must be -1 (all rows) or at least {MIN_BATCH_ROWS}")
        if self.cv_param.need_cv and self.stepwise_param.need_stepwise:
            raise ValueError("stepwise_param.need_stepwise: not together with cv_param.need_cv")

    def doubts(self) -> Iterable[Doubt]:
        for part in msgspec.structs.asdict(self).values():
            if isinstance(part, Params) and not isinstance(part, CallbackParam):
                yield from part.doubts()
        yield from self.callbacks.doubts()
        if self.tol < 0:
            yield Doubt("tol", "is below 0: training never ends before max_iter", "Unusual")
        if self.alpha < 0:
            yield Doubt("alpha", "is below 0: large weights are rewarded", "Unusual")
        if self.learning_rate <= 0:
            does = "nothing is learnt" if self.learning_rate == 0 else "the loss grows"
            yield Doubt("learning_rate", f"is not above 0: {does}", "Unusual")

    def check_run(self, run: PlannedRun) -> None:
        training = "train_data" in run.data_ports
        with_arbiter = self.family.arbiter and training
        check_roles(
            run,
            self.family.module,
            single=(Role.GUEST, Role.ARBITER) if with_arbiter else (Role.GUEST,),
            hosts=None if self.family.several_hosts else 1,
        )
        alone = {
            "cv_param.need_cv": self.cv_param.need_cv,
            "stepwise_param.need_stepwise": self.stepwise_param.need_stepwise,
        }
        check_ports(run, alone=next((name for name, is_on in alone.items() if is_on), None))
        if not training:
            return
        hosts = len(run.sites_of(Role.HOST))
        if hosts > 1 and self.stepwise_param.need_stepwise:
            raise ValueError(f"stepwise_param.need_stepwise: works with one host, not with {hosts}")
        if hosts > 1 and self.stop_kind != "weight_diff":
            raise ValueError(
                f"early_stop: {self.early_stop!r} needs the loss, which is not computed with"
                f" {hosts} hosts; use weight_diff"
            )
        validated = {"validate_data", "eval_data"} & set(run.data_ports)
        cross_validated = self.cv_param.need_cv
        if EARLY_STOPPING in self.callbacks.callbacks and not validated and not cross_validated:
            raise ValueError("callback_param.callbacks: EarlyStopping needs validate_data")

    @property
    def family(self) -> Family:
        """Return which model these are the parameters of."""
        raise NotImplementedError

    @property
    def optimizers(self) -> tuple[str, ...]:
        """Return the optimizers that the model can be trained with."""
        return _OPTIMIZERS if self.family.quadratic else _OPTIMIZERS[:-1]

    @property
    def batch_order(self) -> BatchOrder:
        """Return how rows come into batches."""
        return BatchOrder()

    @property
    def exposure(self) -> str | None:
        """Return the name of the guest's exposure column, if the model has one."""
        return None

    @property
    def sqn(self) -> SqnParam | None:
        """Return the settings of the quasi-Newton optimizer, None if it is not used."""
        return None

    @property
    def callbacks(self) -> CallbackParam:
        """Return what happens between iterations, wherever it was written."""
        return self.callback_param.with_older(
            metrics=self.metrics,
            validation_freqs=self.validation_freqs,
            early_stopping_rounds=self.early_stopping_rounds,
            use_first_metric_only=self.use_first_metric_only,
        )

    @property
    def penalty_kind(self) -> str:
        """Return `l1`, `l2` or `none`."""
        return (self.penalty or "none").lower()

    @property
    def optimizer_kind(self) -> str:
        """Return the optimizer's name in lower case."""
        return self.optimizer.lower()

    @property
    def stop_kind(self) -> str:
        """Return `diff`, `weight_diff` or `abs`."""
        return self.early_stop.lower()

    @property
    def precision_bits(self) -> int:
        """Return how many fraction bits features and residuals are encoded with."""
        given = self.floating_point_precision
        return MAX_PRECISION if given is None else min(given, MAX_PRECISION)


class HeteroLinRParams(LinearParams, frozen=True, kw_only=True):
    """All parameters of HeteroLinR."""

    optimizer: str = "sgd"  #: `sgd`, `rmsprop`, `adam`, `adagrad`, `nesterov_momentum_sgd`, `sqn`
    sqn_param: SqnParam = field(default_factory=SqnParam)  #: table below

    @property
    def family(self) -> Family:
        return LINEAR

    @property
    def sqn(self) -> SqnParam | None:
        return self.sqn_param if self.optimizer_kind == "sqn" else None


class HeteroPoissonParams(LinearParams, frozen=True, kw_only=True):
    """All parameters of HeteroPoisson."""

    #: the guest's column with the time or size that each row's count belongs to; it is no feature.
    #: null, or a column that the table does not have: all rows have the same exposure
    exposure_colname: str | None = None

    @property
    def family(self) -> Family:
        return POISSON

    @property
    def exposure(self) -> str | None:
        return self.exposure_colname


class HeteroLRParams(LinearParams, frozen=True, kw_only=True):
    """All parameters of HeteroLR."""

    max_iter: Positive = 100  #: iterations at most
    shuffle: Flag = True  #: batches are drawn at random; without effect if one batch holds all rows
    batch_strategy: str = "full"  #: `full`: every row once per iteration; `random`: free draws
    masked_rate: NonNegative = 5.0  #: decoys per real row that the hosts see in a mini-batch
    multi_class: str = "ovr"  #: several classes: one training for each against the rest
    sqn_param: SqnParam = field(default_factory=SqnParam)  #: table below
    #: older place of that in `callback_param`
    metrics: list[str] | None = field(default_factory=lambda: ["auc", "ks"])
    random_seed: int | None = None  #: fedflow's own, from 0: makes shuffled mini-batches repeatable

    def check(self) -> None:
        super().check()
        one_of("batch_strategy", self.batch_strategy, ("full", "random"))
        one_of("multi_class", self.multi_class, ("ovr",))
        if self.random_seed is not None and self.random_seed < 0:
            raise ValueError("random_seed: must not be negative")

    @property
    def family(self) -> Family:
        return LOGISTIC

    @property
    def batch_order(self) -> BatchOrder:
        return BatchOrder(
            shuffle=self.shuffle,
            free_draws=self.batch_strategy.lower() == "random",
            masked_rate=self.masked_rate,
            random_seed=self.random_seed,
        )

    @property
    def sqn(self) -> SqnParam | None:
        return self.sqn_param if self.optimizer_kind == "sqn" else None
