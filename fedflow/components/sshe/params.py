"""Parameters of HeteroSSHELR and HeteroSSHELinR, with FATE's names and defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from msgspec import Meta

from fedflow.components.linear.families import LINEAR, LOGISTIC, Family
from fedflow.components.linear.params import LinearParams
from fedflow.components.training.params import NonNegative, Positive, one_of
from fedflow.sdk.spellings import Flag

RESPECTIVELY: Final = "respectively"
ENCRYPTED: Final = "encrypted_reveal_in_host"

SSHE_LOGISTIC: Final = replace(LOGISTIC, module="HeteroSSHELR", several_hosts=False, arbiter=False)
SSHE_LINEAR: Final = replace(LINEAR, module="HeteroSSHELinR", several_hosts=False, arbiter=False)


class SSHEParams(LinearParams, frozen=True, kw_only=True):
    """What both models have in common."""

    penalty: str | None = "L2"  #: `L2`, none (`None`, null), or `L1` with `reveal_every_iter`
    #: `sgd` (HeteroSSHELR also `nesterov_momentum_sgd`); with `reveal_every_iter` also `rmsprop`,
    #: `adam`, `adagrad`, `nesterov_momentum_sgd`
    optimizer: str = "sgd"
    #: without effect: features have 24 fraction bits, weights 32
    floating_point_precision: Annotated[int, Meta(ge=0, le=64)] | None = 23
    use_mix_rand: Flag = True  #: without effect: all masks come from the operating system
    #: who gets which weights in the end: `respectively`, each party its own, or
    #: `encrypted_reveal_in_host`, the guest its own, the host its own encrypted for the guest
    reveal_strategy: str = RESPECTIVELY
    #: each party knows its weights in every iteration: faster, and needed to validate, to stop
    #: early, for `L1` and for most optimizers; false: nobody knows weights before the end
    reveal_every_iter: bool = False

    def check(self) -> None:
        super().check()
        one_of("reveal_strategy", self.reveal_strategy, (RESPECTIVELY, ENCRYPTED))
        if self.stepwise_param.need_stepwise:
            raise ValueError("stepwise_param.need_stepwise: not offered without an arbiter")
        if self.reveal_every_iter:
            if self.encrypted_in_host:
                raise ValueError(
                    f"reveal_strategy: {ENCRYPTED} is possible with reveal_every_iter false alone"
                )
            return
        if self.penalty_kind == "l1":
            raise ValueError("penalty: L1 needs reveal_every_iter true")
        if self.optimizer_kind not in self._hidden_optimizers:
            allowed = ", ".join(self._hidden_optimizers)
            raise ValueError(
                f"optimizer: {self.optimizer!r} needs reveal_every_iter true; without it {allowed}"
            )
        if self.callbacks.validation_freqs is not None:
            raise ValueError(
                "callback_param.validation_freqs: measuring needs reveal_every_iter true"
            )

    @property
    def encrypted_in_host(self) -> bool:
        """Tell whether the host gets its weights encrypted only."""
        return self.reveal_strategy.lower() == ENCRYPTED

    @property
    def optimizers(self) -> tuple[str, ...]:
        """Return the optimizers that the model can be trained with."""
        return tuple(name for name in super().optimizers if name != "sqn")

    @property
    def _hidden_optimizers(self) -> tuple[str, ...]:
        """Return those that work on shares: their updates are linear in the gradient."""
        return ("sgd",)


class HeteroSSHELRParams(SSHEParams, frozen=True, kw_only=True):
    """All parameters of HeteroSSHELR."""

    max_iter: Positive = 100  #: iterations at most
    multi_class: str = "ovr"  #: several classes: one training for each against the rest
    shuffle: Flag = True  #: without effect: batches keep the stored order
    batch_strategy: str = "full"  #: without effect, as `shuffle`
    masked_rate: NonNegative = 5.0  #: without effect: both parties know the rows of a batch

    def check(self) -> None:
        super().check()
        one_of("multi_class", self.multi_class, ("ovr",))
        one_of("batch_strategy", self.batch_strategy, ("full", "random"))

    @property
    def family(self) -> Family:
        return SSHE_LOGISTIC

    @property
    def _hidden_optimizers(self) -> tuple[str, ...]:
        return ("sgd", "nesterov_momentum_sgd")


class HeteroSSHELinRParams(SSHEParams, frozen=True, kw_only=True):
    """All parameters of HeteroSSHELinR."""

    max_iter: Positive = 20  #: iterations at most

    @property
    def family(self) -> Family:
        return SSHE_LINEAR
