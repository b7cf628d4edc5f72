"""Parameters of HeteroLR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, field

from fedflow.base.errors import BadParameter, NotSupportedYet
from fedflow.components.training.params import (
    EARLY_STOPPING,
    PERFORMANCE,
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
from fedflow.sdk import Params

MIN_BATCH_ROWS = 10  #: the sums of fewer rows tell too much about each
MAX_PRECISION = 30  #: fraction bits that are used at most; float64 results gain nothing from more

_PENALTIES = ("l1", "l2", "none")
_OPTIMIZERS = ("sgd", "rmsprop", "adam", "adagrad", "nesterov_momentum_sgd", "sqn")
_EARLY_STOPS = ("diff", "weight_diff", "abs")


class SqnParam(Params, frozen=True, kw_only=True):
    """The stochastic quasi-Newton optimizer; not supported yet, accepted without effect."""

    #: iterations between two updates of the curvature
    update_interval_L: Positive = 3  # noqa: N815  FATE's spelling
    memory_M: Positive = 5  # noqa: N815  #: correction pairs that are kept
    sample_size: Positive = 5000  #: rows for one curvature estimate
    random_seed: int | None = None  #: of the draw of these rows


class StepwiseParam(Params, frozen=True, kw_only=True):
    """Stepwise feature selection; not supported yet, accepted while it is off."""

    score_name: str = "AIC"  #: `AIC` or `BIC`
    mode: str = "hetero"  #: without effect
    role: str = "guest"  #: without effect
    direction: str = "both"  #: `both`, `forward` or `backward`
    max_step: Positive = 10  #: steps at most
    nvmin: Positive = 2  #: features at least
    nvmax: Positive | None = None  #: features at most
    need_stepwise: bool = False  #: true is not supported yet


class HeteroLRParams(Params, frozen=True, kw_only=True):
    """All parameters of HeteroLR, with FATE's names and defaults."""

    penalty: str | None = "L2"  #: `L1`, `L2` or none (`None`, null), in any case
    tol: NonNegative = 1e-4  #: limit of the stop rule
    alpha: NonNegative = 1.0  #: strength of the penalty
    #: `sgd`, `rmsprop`, `adam`, `adagrad`, `nesterov_momentum_sgd`; `sqn` is not supported yet
    optimizer: str = "rmsprop"
    batch_size: int = -1  #: rows, at least 10; -1: all
    shuffle: bool = True  #: batches are drawn at random; without effect if one batch holds all rows
    batch_strategy: str = "full"  #: `full`: every row once per iteration; `random`: free draws
    masked_rate: NonNegative = 5.0  #: decoys per real row that the hosts see in a mini-batch
    learning_rate: Annotated[float, Meta(gt=0)] = 0.01  #: of the first iteration
    max_iter: Positive = 100  #: iterations at most
    #: training ends when this is below `tol`: `diff` (change of the loss), `abs` (the loss) or
    #: `weight_diff` (length of the iteration's update)
    early_stop: str = "diff"
    decay: NonNegative = 1.0  #: iteration i (from 0) has learning_rate / sqrt(1 + decay * i)
    decay_sqrt: bool = True  #: false: without the root
    multi_class: str = "ovr"  #: without effect: there are two classes
    #: fraction bits of features and residuals; null and more than 30: 30
    floating_point_precision: Annotated[int, Meta(ge=0, le=64)] | None = 23
    init_param: InitParam = field(default_factory=InitParam)  #: table below
    encrypt_param: EncryptParam = field(default_factory=EncryptParam)  #: table below
    predict_param: PredictParam = field(default_factory=PredictParam)  #: table below
    cv_param: CvParam = field(default_factory=CvParam)  #: table below
    sqn_param: SqnParam = field(default_factory=SqnParam)  #: table below
    stepwise_param: StepwiseParam = field(default_factory=StepwiseParam)  #: table below
    callback_param: CallbackParam = field(default_factory=CallbackParam)  #: table below
    #: table below
    encrypted_mode_calculator_param: EncryptedModeCalculatorParam = field(
        default_factory=EncryptedModeCalculatorParam
    )
    #: older place of that in `callback_param`, as the next three
    metrics: list[str] | None = field(default_factory=lambda: ["auc", "ks"])
    validation_freqs: Positive | list[NonNegativeInt] | None = None  #: means PerformanceEvaluate
    early_stopping_rounds: Positive | None = None  #: means EarlyStopping
    use_first_metric_only: bool = False  #: as in `callback_param`
    random_seed: int | None = None  #: fedflow's own, from 0: makes shuffled mini-batches repeatable

    def check(self) -> None:
        for part in msgspec.structs.asdict(self).values():
            if isinstance(part, Params):
                part.check()
        for name in ("validation_freqs", "early_stopping_rounds"):
            if None not in (getattr(self, name), getattr(self.callback_param, name)):
                raise ValueError(f"{name}: given here and in callback_param; keep the latter")
        self.callbacks.check()
        one_of("penalty", self.penalty or "none", _PENALTIES)
        one_of("optimizer", self.optimizer, _OPTIMIZERS)
        one_of("early_stop", self.early_stop, _EARLY_STOPS)
        one_of("batch_strategy", self.batch_strategy, ("full", "random"))
        one_of("multi_class", self.multi_class, ("ovr",))
        if self.batch_size != -1 and self.batch_size < MIN_BATCH_ROWS:
            raise ValueError(f"batch_size: must be -1 (all rows) or at least {MIN_BATCH_ROWS}")
        if self.random_seed is not None and self.random_seed < 0:
            raise ValueError("random_seed: must not be negative")

    @property
    def callbacks(self) -> CallbackParam:
        """Return what happens between iterations, wherever it was written."""
        own = self.callback_param
        older = {PERFORMANCE: self.validation_freqs, EARLY_STOPPING: self.early_stopping_rounds}
        implied = [name for name, value in older.items() if value is not None]
        return CallbackParam(
            callbacks=list(dict.fromkeys((*own.callbacks, *implied))),
            validation_freqs=own.validation_freqs or self.validation_freqs,
            early_stopping_rounds=own.early_stopping_rounds or self.early_stopping_rounds,
            metrics=own.metrics or self.metrics,
            use_first_metric_only=own.use_first_metric_only or self.use_first_metric_only,
            save_freq=own.save_freq,
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


def reject_unsupported(params: HeteroLRParams) -> None:
    """Do nothing if every switched-on feature exists.

    Raises: NotSupportedYet: one does not; names the parameter.
    """
    for name in _switched_on(params):
        raise NotSupportedYet(what=f"HeteroLR with {name}")


def check_hosts(params: HeteroLRParams, hosts: int) -> None:
    """Do nothing if the stop rule works with that many hosts.

    Raises: BadParameter: there is no loss with several hosts, which `diff` and `abs` look at.
    """
    if hosts > 1 and params.stop_kind != "weight_diff":
        raise BadParameter(
            path="early_stop",
            reason=f"{params.early_stop!r} needs the loss, which is not computed with {hosts} "
            "hosts; use weight_diff",
        )


def _switched_on(params: HeteroLRParams) -> Iterator[str]:
    if params.cv_param.need_cv:
        yield "cv_param.need_cv"
    if params.stepwise_param.need_stepwise:
        yield "stepwise_param.need_stepwise"
    if params.optimizer_kind == "sqn":
        yield "optimizer 'sqn'"
