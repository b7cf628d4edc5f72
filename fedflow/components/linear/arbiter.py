"""The arbiter's part of a HeteroLR training: keys, optimizer, loss and the decision to stop.

It has no data. It sees the sums of gradients and the loss, and hands each party its own update.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedflow.components.crypto.paillier import PrivateKey
from fedflow.components.linear.arithmetic import Scales, open_sums
from fedflow.components.linear.batches import BatchInfo
from fedflow.components.linear.callbacks import ArbiterCallbacks, Plan
from fedflow.components.linear.optimizer import Convergence, Optimizer
from fedflow.components.linear.params import HeteroLRParams
from fedflow.components.linear.session import batch_tag, receive_shapes, show_progress
from fedflow.components.linear.share import Progress, store_model
from fedflow.components.training.params import SAFE_KEY_BITS
from fedflow.sdk import BadParameter, Context, Diverged, Role

Floats = NDArray[np.float64]


def train_arbiter(ctx: Context, plan: Plan, *, start: Progress) -> Progress:
    """Lead a training to its end and return how it went.

    Raises: Diverged, PeerFailed, CodecError.
    """
    params: HeteroLRParams = ctx.params
    arbiter = _Arbiter(ctx, start=start)
    losses = list(start.losses)
    iteration, converged = start.iterations, start.converged

    def progress(iterations: int) -> Progress:
        return Progress(
            iterations=iterations,
            converged=converged,
            losses=tuple(losses),
            optimizer=arbiter.optimizer.state(),
        )

    callbacks = ArbiterCallbacks(
        ctx, plan, model=lambda done: store_model(params, progress(done), share=None)
    )
    convergence = Convergence(
        kind=params.stop_kind, tol=params.tol, previous=losses[-1] if losses else None
    )
    while iteration < params.max_iter:
        loss, updates = arbiter.run(iteration)
        if loss is not None:
            losses.append(loss)
            _record_loss(ctx, iteration, loss)
        converged = convergence.reached(loss=loss, updates=updates)
        stop = converged or iteration + 1 == params.max_iter
        ctx.federation.send(
            "converge_flag",
            {"converged": converged, "stop": stop},
            to=arbiter.data_sites,
            tag=str(iteration),
        )
        show_progress(ctx, iteration)
        stop = callbacks.after(iteration) or stop
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

    def __init__(self, ctx: Context, *, start: Progress) -> None:
        params: HeteroLRParams = ctx.params
        bits = params.encrypt_param.key_length
        if bits < SAFE_KEY_BITS:
            ctx.log.warning(
                "%s-bit keys are for tests and comparisons: use encrypt_param.key_length %s",
                bits,
                SAFE_KEY_BITS,
            )
        self._fed = ctx.federation
        self._guest = ctx.only(Role.GUEST)
        self._hosts = ctx.sites_of(Role.HOST)
        self.data_sites = (*self._hosts, self._guest)
        self._key = PrivateKey.generate(bits)
        self._fed.send("paillier_pubkey", {"n": hex(self._key.public.n)}, to=self.data_sites)
        self._info = BatchInfo.from_json(self._fed.recv("batch_info", from_=self._guest))
        if params.stop_kind != "weight_diff" and not self._info.with_loss:
            raise BadParameter(path="early_stop", reason="the guest computes no loss")
        self._scales = Scales.of(self._info, hosts=len(self._hosts))
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
            self._hand_out(update, tag=tag)
            total += update
        return (sum(losses) / len(losses) if losses else None), total

    def _receive(self, rows: int, *, tag: str) -> tuple[Floats, float | None]:
        """Return the mean gradient of all parties' weights, and the mean loss of a batch."""
        names = ["host_gradient"] * len(self._hosts) + ["guest_gradient"]
        counts = [*self._shapes[:-1], self._shapes[-1] + self._info.with_loss]
        parts = [
            open_sums(
                self._key,
                self._fed.recv(name, from_=site, tag=tag),
                scales=self._scales,
                count=count,
            )
            for name, site, count in zip(names, self.data_sites, counts, strict=True)
        ]
        means = np.concatenate(parts) / rows
        if self._info.with_loss:
            return means[:-1], 2.0 * float(means[-1])
        return means, None

    def _hand_out(self, update: Floats, *, tag: str) -> None:
        *hosts, guest = np.split(update, np.cumsum(self._shapes)[:-1])
        for site, part in zip(self._hosts, hosts, strict=True):
            self._fed.send("host_optim_gradient", part, to=site, tag=tag)
        self._fed.send("guest_optim_gradient", guest, to=self._guest, tag=tag)


def _record_loss(ctx: Context, iteration: int, loss: float) -> None:
    ctx.tracker.metric(
        "train",
        "loss",
        metric_type="LOSS",
        points=[(iteration, loss)],
        meta={
            "name": "train",
            "metric_type": "LOSS",
            "unit_name": "iters",
            "curve_name": "loss",
        },
    )
