"""One training of a linear model at one party: plan, start, iterations, end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedflow.components.linear.arbiter import train_arbiter
from fedflow.components.linear.callbacks import Callbacks, GuestCallbacks, HostCallbacks
from fedflow.components.linear.guest import GuestTrainer
from fedflow.components.linear.host import HostTrainer
from fedflow.components.linear.keys import PartyKeys
from fedflow.components.linear.params import LinearParams
from fedflow.components.linear.party_weights import PartyWeights, TrainingProgress
from fedflow.components.linear.poisson import PoissonGuest, PoissonHost
from fedflow.components.linear.quadratic import QuadraticGuest, QuadraticHost
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.session import follow_arbiter
from fedflow.components.linear.stored import LinearModel, Trained
from fedflow.components.training.measures import record_start
from fedflow.components.training.plan import Plan, agree_on_plan, common_step
from fedflow.sdk import BadParameter, Context, Model, Role


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """How a training ended, and what the guest measured: part -> measure -> values."""

    trained: Trained
    measured: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)


class Train(Protocol):
    """One training at one party, see `train`."""

    def __call__(
        self,
        ctx: Context,
        parts: Sequence[Rows],
        *,
        start: Trained | None,
        store: Callable[[Trained], Model],
    ) -> Training: ...


def train(
    ctx: Context,
    parts: Sequence[Rows],
    *,
    start: Trained | None,
    store: Callable[[Trained], Model],
    keys: PartyKeys,
) -> Training:
    """Train on the first of `parts`, measuring on all; the arbiter has none.

    Args:
        start: an earlier training that this one goes on from.
        store: makes what a checkpoint stores.
        keys: of all trainings of this run.

    Raises: BadParameter, BadData, Diverged, PeerFailed, CodecError.
    """
    plan = Plan.of(ctx, start=start.progress.iterations if start else 0)
    _warn_of_unused(ctx, plan)
    agree_on_plan(ctx, plan)
    start = _resumed(ctx, plan, start)
    if start is not None:
        record_start(ctx, start.progress.iterations)
    begin = start.progress if start else TrainingProgress(iterations=0, converged=False)
    if ctx.site.role is Role.ARBITER:
        ended = train_arbiter(
            ctx,
            plan,
            start=begin,
            model=lambda progress: store(Trained(progress=progress)),
            keys=keys,
        )
        return Training(trained=Trained(progress=ended))
    params: LinearParams = ctx.params
    is_guest = ctx.site.role is Role.GUEST
    share = PartyWeights(
        params,
        columns=parts[0].data.columns,
        intercept=is_guest and params.init_param.fit_intercept,
        start=start.share if start else None,
    )

    def model(done: int) -> Model:
        progress = TrainingProgress(iterations=done, converged=False)
        return store(Trained(progress=progress, share=share.fitted()))

    trainer: GuestTrainer | HostTrainer
    callbacks: Callbacks
    if is_guest:
        callbacks = guest = GuestCallbacks(
            ctx, plan, model=model, share=share, parts=parts, family=params.family
        )
        guest_kind = QuadraticGuest if params.family.quadratic else PoissonGuest
        trainer = guest_kind(ctx, parts[0], share=share, keys=keys)
        ended = follow_arbiter(ctx, trainer.run, callbacks=callbacks, start=begin)
        measured = {part: dict(values) for part, values in guest.history.items()}
        return Training(trained=Trained(progress=ended, share=share.fitted()), measured=measured)
    callbacks = HostCallbacks(ctx, plan, model=model, share=share, parts=parts)
    host_kind = QuadraticHost if params.family.quadratic else PoissonHost
    trainer = host_kind(ctx, parts[0], share=share, keys=keys)
    ended = follow_arbiter(ctx, trainer.run, callbacks=callbacks, start=begin)
    return Training(trained=Trained(progress=ended, share=share.fitted()))


def _resumed(ctx: Context, plan: Plan, start: Trained | None) -> Trained | None:
    """Return where the checkpoint that all sites have ends, else `start`."""
    step = common_step(ctx, plan)
    if step is None or step < (start.progress.iterations if start else 0):
        return start
    ctx.log.info("training goes on after iteration %s of an earlier attempt", step)
    stored = LinearModel.from_model(
        ctx.checkpoints.load(step).model,
        family=ctx.params.family,
        where=f"checkpoint {step} of {ctx.component}",
    )
    return stored.parts[0]


def check_start(ctx: Context, start: Trained) -> None:
    """Do nothing if training can go on from `start` with this party's parameters.

    Raises: BadParameter: the model has an intercept, the training is to have none.
    """
    if start.share and start.share.intercept and not ctx.params.init_param.fit_intercept:
        raise BadParameter(
            path="init_param.fit_intercept", reason="the model to start from has an intercept"
        )


def _warn_of_unused(ctx: Context, plan: Plan) -> None:
    if ctx.params.callbacks.validation_freqs is not None and not plan.validates:
        ctx.log.warning(
            "callback_param.validation_freqs has no effect without PerformanceEvaluate or"
            " EarlyStopping in callbacks"
        )
