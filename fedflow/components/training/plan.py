"""When a training measures itself, stops early and stores checkpoints: the same at all parties.

The guest announces its plan, the others compare it with their own parameters.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fedflow.components.training.params import (
    CHECKPOINT,
    EARLY_STOPPING,
    PERFORMANCE,
    CallbackParam,
)
from fedflow.components.waiting import wait_for, wait_for_all
from fedflow.sdk import BadParameter, Context, Model, Role
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
callbacks | settings | guest -> hosts, arbiter | `Plan`: when to validate, to save, to stop early
checkpoint_steps, checkpoint_step | settings | -> guest -> | repeated attempt: stored, chosen steps
""")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """When to do what; message `callbacks`, so that all parties do it together."""

    every: int | None  #: validate after every so many iterations
    at: list[int]  #: or after these, counted from 0
    patience: int | None  #: validations without a better value, then training stops
    save_every: int | None  #: store a checkpoint after every so many iterations
    parts: list[str]  #: what is measured: train, validate
    start: int  #: iterations that the model has had before

    @staticmethod
    def of(ctx: Context, *, start: int) -> Plan:
        """Return the plan of this party's parameters and ports."""
        asked: CallbackParam = ctx.params.callbacks
        names = set(asked.callbacks)
        freqs = asked.validation_freqs if names & {PERFORMANCE, EARLY_STOPPING} else None
        validated = bool({"validate_data", "eval_data"} & set(ctx.inputs.data))
        return Plan(
            every=freqs if isinstance(freqs, int) else None,
            at=sorted(freqs) if isinstance(freqs, list) else [],
            patience=asked.early_stopping_rounds if EARLY_STOPPING in names else None,
            save_every=asked.save_freq if CHECKPOINT in names else None,
            parts=["train", "validate"] if validated else ["train"],
            start=start,
        )

    def validates_after(self, iteration: int) -> bool:
        """Tell whether to measure after `iteration` (from 0)."""
        return iteration in self.at or (
            self.every is not None and (iteration + 1) % self.every == 0
        )

    def saves_after(self, iteration: int) -> bool:
        """Tell whether to store a checkpoint after `iteration` (from 0)."""
        return self.save_every is not None and (iteration + 1) % self.save_every == 0

    @property
    def validates(self) -> bool:
        """Tell whether anything is ever measured."""
        return self.every is not None or bool(self.at)


def agree_on_plan(ctx: Context, plan: Plan) -> None:
    """Do nothing if all parties have the same plan; all of them call this.

    Raises: BadParameter: this party's differs from the guest's. CodecError.
    """
    if ctx.site.role is Role.GUEST:
        others = (*ctx.sites_of(Role.HOST), *ctx.sites_of(Role.ARBITER))
        ctx.federation.send("callbacks", msgspec.to_builtins(plan), to=others)
        return
    guest = ctx.only(Role.GUEST)
    try:
        told = read_as(wait_for(ctx, "callbacks", guest), Plan)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"callbacks of {guest}: {exc}") from exc
    if told.start != plan.start:
        raise BadParameter(
            path="input.model",
            reason=f"the model at {guest} has had {told.start} iterations, {plan.start} here",
        )
    if told != plan:
        raise BadParameter(
            path="callback_param", reason=f"{guest} validates, stops or saves at other iterations"
        )


def save_step(ctx: Context, iteration: int, model: Model) -> None:
    """Store a checkpoint after `iteration` (from 0), whose name tells the attempt.

    Raises: TypeError, ValueError: the model is not plain JSON.
    """
    attempt = f".{ctx.task_version}" if ctx.task_version else ""
    ctx.checkpoints.save(iteration, f"round_{iteration}{attempt}", model)


def common_step(ctx: Context, plan: Plan) -> int | None:
    """Return the latest checkpoint that one earlier attempt left at all sites; all call this.

    Two attempts that were killed may each have left the same step at another site. Their models
    need not fit together, so steps are compared by name.

    Raises: CodecError.
    """
    if plan.save_every is None or not ctx.task_version:
        return None
    own = {name: index for index, name in ctx.checkpoints.steps()}
    guest = ctx.only(Role.GUEST)
    if ctx.site.role is not Role.GUEST:
        ctx.federation.send("checkpoint_steps", list(own), to=guest)
        told = wait_for(ctx, "checkpoint_step", guest)
        if told is None:
            return None
        if not isinstance(told, str) or told not in own:
            raise CodecError(reason="checkpoint_step: the guest names one that is not here")
        return own[told]
    others = (*ctx.sites_of(Role.HOST), *ctx.sites_of(Role.ARBITER))
    common = set(own)
    for site, steps in zip(others, wait_for_all(ctx, "checkpoint_steps", others)):
        if not isinstance(steps, list):
            raise CodecError(reason=f"{site} sent no list of checkpoint_steps")
        common &= {name for name in steps if isinstance(name, str)}
    chosen = max(common, key=own.__getitem__, default=None)
    ctx.federation.send("checkpoint_step", chosen, to=others)
    return None if chosen is None else own[chosen]
