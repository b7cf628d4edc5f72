"""Parameters of HomoLR, with FATE's names and defaults."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import field

from fedflow.components.horizontal.privacy import DpParam
from fedflow.components.horizontal.strategies import StrategyParam, check_strategy
from fedflow.components.linear.families import LOGISTIC, Family
from fedflow.components.linear.params import LinearParams, SqnParam
from fedflow.components.training.params import EARLY_STOPPING, EncryptParam, Positive, one_of
from fedflow.components.training.planned import check_ports, check_roles
from fedflow.sdk import Doubt, PlannedRun, Role
from fedflow.sdk.spellings import Flag

FAMILY: Final = replace(LOGISTIC, module="HomoLR", model="HomoLogisticRegression")


class HomoEncryptParam(EncryptParam, frozen=True, kw_only=True):
    """Without effect: sums are masked (`secure_aggregate`), and nothing is under Paillier."""

    method: str | None = "Paillier"  #: `Paillier`, `IPCL` or none; without effect
    key_length: int = 2048  #: without effect

    def check(self) -> None:
        if self.method is not None and self.method.lower() != "none":
            EncryptParam.check(self)

    def doubts(self) -> Iterable[Doubt]:
        return ()


class HomoLRParams(LinearParams, frozen=True, kw_only=True):
    """All parameters of HomoLR."""

    #: `L2` (weight decay, also of the intercept), `L1` or none (`None`, null), in any case
    penalty: str | None = "L2"
    max_iter: Positive = 100  #: epochs at most
    aggregate_iters: Positive = 1  #: epochs of a round
    early_stop: str = "diff"  #: `diff` and `abs` as above; with `weight_diff` training never stops
    secure_aggregate: Flag = True  #: fedflow's own; false: the arbiter sees each party's weights
    #: fedflow's own; keys are signed with the certificates of TLS; over 2/3 of a round's parties
    #: must stay to its end
    aggregator_may_lie: Flag = False
    strategy: StrategyParam = field(default_factory=StrategyParam)  #: table below
    dp_param: DpParam = field(default_factory=DpParam)  #: table below
    #: fedflow's own: the model is that of the round with the least loss, of `validate_data` if
    #: there are some
    keep_best: Flag = False
    multi_class: str = "ovr"  #: several classes: one model for each against the rest
    encrypt_param: HomoEncryptParam = field(default_factory=HomoEncryptParam)  #: table below
    shuffle: Flag = True  #: without effect: rows are taken in stored order
    batch_strategy: str = "full"  #: without effect
    masked_rate: float = 5.0  #: without effect
    sqn_param: SqnParam = field(default_factory=SqnParam)  #: without effect
    #: older place of that in `callback_param`
    metrics: list[str] | None = field(default_factory=lambda: ["auc", "ks"])

    def check(self) -> None:
        super().check()
        one_of("multi_class", self.multi_class, ("ovr",))
        if self.stepwise_param.need_stepwise:
            raise ValueError("stepwise_param.need_stepwise: not offered for horizontal models")
        check_strategy(self.strategy, self.dp_param, secure=self.secure_aggregate)

    def doubts(self) -> Iterable[Doubt]:
        yield from super().doubts()
        if not self.secure_aggregate and self.aggregator_may_lie:
            yield Doubt("aggregator_may_lie", "has no effect without secure_aggregate", "Unused")
        if not self.secure_aggregate:
            yield Doubt("secure_aggregate", "is off: the arbiter sees each party's weights", "Open")
        if self.stop_kind == "weight_diff":
            yield Doubt("early_stop", "weight_diff never stops a horizontal training", "Unused")

    def check_run(self, run: PlannedRun) -> None:
        training = "train_data" in run.data_ports
        if run.site.role is Role.ARBITER and not training:
            return  # it has no part of the model, and nothing to predict
        if training:
            check_roles(run, "HomoLR", single=(Role.GUEST, Role.ARBITER), hosts=None)
        check_ports(run, alone="cv_param.need_cv" if self.cv_param.need_cv else None)
        validated = {"validate_data", "eval_data"} & set(run.data_ports)
        stops = EARLY_STOPPING in self.callbacks.callbacks
        if training and stops and not validated and not self.cv_param.need_cv:
            raise ValueError("callback_param.callbacks: EarlyStopping needs validate_data")

    @property
    def family(self) -> Family:
        return FAMILY

    @property
    def optimizers(self) -> tuple[str, ...]:
        return super().optimizers[:-1]

    @property
    def rounds(self) -> int:
        """Return how many rounds there are at most."""
        return -(-self.max_iter // self.aggregate_iters)

    def epochs_of(self, number: int) -> int:
        """Return how many epochs round `number`, from 0, has."""
        return min(self.aggregate_iters, self.max_iter - number * self.aggregate_iters)


def plain(params: HomoLRParams) -> dict[str, object]:
    """Return the parameters as plain JSON."""
    found: dict[str, object] = msgspec.to_builtins(params)
    return found
