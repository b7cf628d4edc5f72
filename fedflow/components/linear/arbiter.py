"""The arbiter's part of a training: keys, optimizer, loss and the decision to stop.

It has no data. It sees the sums of gradients and the loss, and hands each party its own update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.arithmetic import Scales, open_sums
from fedflow.components.linear.batches import BatchInfo
from fedflow.components.linear.callbacks import ArbiterCallbacks
from fedflow.components.linear.keys import PartyKeys
from fedflow.components.linear.optimizer import Convergence, Optimizer
from fedflow.components.linear.params import LinearParams
from fedflow.components.linear.party_weights import TrainingProgress
from fedflow.components.linear.session import (
    batch_tag,
    receive_shapes,
    show_batch,
    show_iteration,
)
from fedflow.components.linear.sqn import is_due
from fedflow.components.training.measures import record_loss
from fedflow.components.training.plan import Plan
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadParameter, Context, Diverged, Model, Role
from fedflow.sdk.clock import monotonic_s

Floats = NDArray[np.float64]


def train_arbiter(
    ctx: Context,
    plan: Plan,
    *,
    start: TrainingProgress,
    model: Callable[[TrainingProgress], Model],
    keys: PartyKeys,
) -> TrainingProgress:
    """Lead a training to its end and return how it went; `model` makes what a checkpoint stores.

    Raises: Diverged, PeerFailed, CodecError.
    """
    params: LinearParams = ctx.params
    arbiter = _Arbiter(ctx, start=start, keys=keys)
    losses = list(start.losses)
    iteration, converged = start.iterations, start.converged

    def progress(iterations: int) -> TrainingProgress:
        return TrainingProgress(
            iterations=iterations,
            converged=converged,
            losses=tuple(losses),
            optimizer=arbiter.optimizer.state(),
        )

    callbacks = ArbiterCallbacks(ctx, plan, model=lambda done: model(progress(done)))
    convergence = Convergence(
        kind=params.stop_kind, tol=params.tol, previous=losses[-1] if losses else None
    )
    state = callbacks.restore(start.resume)
    while iteration < params.max_iter and not state.ended:
        start_s = monotonic_s()
        loss, updates = arbiter.run(iteration)
        if loss is not None:
            losses.append(loss)
            record_loss(ctx, iteration, loss)
        converged = convergence.reached(loss=loss, updates=updates)
        stop = converged or iteration + 1 == params.max_iter
        ctx.federation.send(
            "converge_flag",
            {"converged": converged, "stop": stop},
            to=arbiter.data_sites,
            tag=str(iteration),
        )
        show_iteration(ctx, iteration, start_s=start_s, loss=loss)
        stop = callbacks.after(iteration, converged=converged) or stop
        iteration += 1
        if stop:
            break
    ctx.log.info("training ended after %s iterations, converged: %s", iteration, converged)
    best = callbacks.finish()
    ended = replace(progress(iteration), best_iteration=best)
    # What the optimizer remembers belongs to the last iteration's weights.
    return ended if best in (-1, iteration - 1) else replace(ended, optimizer={})


class _Arbiter:
    """What the arbiter keeps between batches."""

    def __init__(self, ctx: Context, *, start: TrainingProgress, keys: PartyKeys) -> None:
        params: LinearParams = ctx.params
        self._params = params
        self._ctx = ctx
        self._fed = ctx.federation
        self._guest = ctx.only(Role.GUEST)
        self._hosts = ctx.sites_of(Role.HOST)
        self.data_sites = (*self._hosts, self._guest)
        self._key = keys.private(ctx)
        self._info = BatchInfo.from_json(wait_for(ctx, "batch_info", self._guest))
        if params.stop_kind != "weight_diff" and not self._info.with_loss:
            raise BadParameter(path="early_stop", reason="the guest computes no loss")
        self._scales = Scales.of(self._info, family=params.family, hosts=len(self._hosts))
        self._shapes = receive_shapes(ctx)
        self.optimizer = Optimizer(params)
        size = sum(self._shapes)
        if start.optimizer and not self.optimizer.restore(start.optimizer, size=size):
            ctx.log.warning("the model's optimizer state does not fit: it starts afresh")

    def run(self, iteration: int) -> tuple[float | None, Floats]:
        """Return the mean loss of the batches of one iteration, and the sum of its updates."""
        losses: list[float] = []
        total = np.zeros(sum(self._shapes))
        for batch in range(self._info.batch_num):
            tag = batch_tag(iteration, batch)
            gradient, loss = self._receive(self._info.batch_rows(batch), tag=tag)
            losses.extend(() if loss is None else (loss,))
            with np.errstate(over="ignore", invalid="ignore"):
                update = self.optimizer.step(gradient, iteration=iteration)
            if not np.isfinite(update).all() or not np.isfinite(losses).all():
                raise Diverged(iteration=iteration, reason="an update or the loss is not finite")
            hosts, guest = "host_optim_gradient", "guest_optim_gradient"
            self._hand_out(update, tag=tag, hosts=hosts, guest=guest)
            total += update
            if is_due(self._params.sqn, self._info.step(iteration, batch)):
                self._learn_curvature(iteration, tag=tag)
            show_batch(self._ctx, iteration, batch, of=self._info.batch_num)
        return (sum(losses) / len(losses) if losses else None), total

    def _receive(self, rows: int, *, tag: str) -> tuple[Floats, float | None]:
        """Return the mean gradient of all parties' weights, and the mean loss of a batch."""
        sums = self._opened("host_gradient", "guest_gradient", more=self._info.with_loss, tag=tag)
        means = sums / rows
        if self._info.with_loss:
            return means[:-1], self._params.family.loss_scale * float(means[-1])
        return means, None

    def _opened(self, hosts: str, guest: str, *, more: bool, tag: str) -> Floats:
        """Return all parties' sums, the guest's last and with one more if `more`."""
        names = [hosts] * len(self._hosts) + [guest]
        counts = [*self._shapes[:-1], self._shapes[-1] + more]
        parts = [
            open_sums(
                self._key,
                wait_for(self._ctx, name, site, tag=tag),
                scales=self._scales,
                count=count,
            )
            for name, site, count in zip(names, self.data_sites, counts, strict=True)
        ]
        return np.concatenate(parts)

    def _learn_curvature(self, iteration: int, *, tag: str) -> None:
        """Let the parties measure the change of the gradient along the way of the weights."""
        rule = self.optimizer.quasi_newton
        direction = None if rule is None else rule.direction()
        if rule is None or direction is None:
            self._fed.send("sqn_direction", None, to=self.data_sites, tag=tag)
            return
        self._hand_out(direction, tag=tag, hosts="sqn_direction", guest="sqn_direction")
        change = self._opened("host_hess_vector", "guest_hess_vector", more=False, tag=tag)
        if not np.isfinite(change).all():
            raise Diverged(iteration=iteration, reason="a curvature is not finite")
        rule.learn(direction, change / self._sample_rows())

    def _sample_rows(self) -> int:
        settings = self._params.sqn
        return self._info.rows if settings is None else min(settings.sample_size, self._info.rows)

    def _hand_out(self, update: Floats, *, tag: str, hosts: str, guest: str) -> None:
        *parts, last = np.split(update, np.cumsum(self._shapes)[:-1])
        for site, part in zip(self._hosts, parts, strict=True):
            self._fed.send(hosts, part, to=site, tag=tag)
        self._fed.send(guest, last, to=self._guest, tag=tag)
