"""The messages of a training with an arbiter, and those that do not depend on a batch.

MESSAGES

Tags are `iteration.batch`. [[x]] is x encrypted with the arbiter's key. The optimizer `sqn` adds
those of `sqn.py`, several classes those of `training/one_vs_rest.py`, cross validation those of
`training/cross_validation.py`, stepwise selection those of `stepwise.py`.
Source: FATE's protocol, after Hardy et al. 2017 (arXiv:1711.10677) and Yang et al. 2019
(arXiv:1902.04885).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.party_weights import TrainingProgress
from fedflow.components.training.measures import record_seconds
from fedflow.components.waiting import wait_for, wait_for_all
from fedflow.sdk import Context, Diverged, Role, Site
from fedflow.sdk.clock import monotonic_s
from fedflow.sdk.errors import CodecError, NotEncodable
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
paillier_pubkey | key | arbiter -> guest, hosts | {n: hexadecimal}; before the first training
callbacks | settings | guest -> hosts, arbiter | `Plan`: when to validate, to save, to stop early
checkpoint_steps, checkpoint_step | settings | -> guest -> | repeated attempt: stored, chosen steps
batch_info | settings | guest -> hosts, arbiter | `BatchInfo`
sample_ids | rows | guest <-> hosts | {rows, digest}; tag = type of data
model_shape | settings | guest, hosts -> arbiter | {size}: number of own weights
batch_data_index | rows | guest -> hosts | int64 row numbers, unless batches are in stored order
host_forward_dict | ciphertext | host -> guest | [[z_h / 4]] (HeteroLinR: [[z_h]]) per row
host_forward | ciphertext | host -> guest | HeteroPoisson: [[exp(z_h)]] per row
loss_intermediate | ciphertext | host -> guest | [[sum of their squares, norm]]; masked: per row
loss_intermediate | ciphertext | host -> guest | HeteroPoisson: [[z_h]] per row, and [[rows * norm]]
fore_gradient | ciphertext | guest -> hosts | [[residual]] per row, or the guest's share of it
guest_gradient, host_gradient | sealed | -> arbiter | packed sums; the guest's with the loss
guest_optim_gradient, host_optim_gradient | model | arbiter -> | float64 update
converge_flag | settings | arbiter -> guest, hosts | {converged, stop}, after each iteration
host_prob | values | host -> guest | z_h in clear, for prediction and at each validation
validation_status | settings | guest -> hosts, arbiter | {stop, best}, with early stopping
""")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedflow.components.linear.callbacks import Callbacks

Floats = NDArray[np.float64]

#: of one party, so that a wrong message cannot make the arbiter run out of memory
MAX_WEIGHTS = 1 << 24


def batch_tag(iteration: int, batch: int) -> str:
    """Return the tag of one batch's messages."""
    return f"{iteration}.{batch}"


def send_shape(ctx: Context, size: int) -> None:
    """Tell the arbiter how many weights this party has."""
    ctx.federation.send("model_shape", {"size": size}, to=ctx.only(Role.ARBITER))


def receive_shapes(ctx: Context) -> list[int]:
    """Return the numbers of weights of all hosts, then of the guest. Raises: CodecError."""
    sites = (*ctx.sites_of(Role.HOST), ctx.only(Role.GUEST))
    shapes = []
    for site, value in zip(sites, wait_for_all(ctx, "model_shape", sites)):
        size = value.get("size") if isinstance(value, dict) else None
        if type(size) is not int or not 0 <= size <= MAX_WEIGHTS:
            raise CodecError(reason=f"{site} sent no number of weights")
        shapes.append(size)
    return shapes


def follow_arbiter(
    ctx: Context, iterate: Callable[[int], None], *, callbacks: Callbacks, start: TrainingProgress
) -> TrainingProgress:
    """Run the iterations of a data party until training ends, and return how it went."""
    state = callbacks.restore(start.resume)
    iteration, converged = start.iterations, start.converged or state.converged
    loss_at = ctx.only(Role.ARBITER) if len(ctx.sites_of(Role.HOST)) == 1 else None
    while iteration < ctx.params.max_iter and not state.ended:
        start_s = monotonic_s()
        iterate(iteration)
        converged, stop = receive_flag(ctx, iteration)
        show_iteration(ctx, iteration, start_s=start_s, loss_at=loss_at)
        stop = callbacks.after(iteration, converged=converged) or stop
        iteration += 1
        if stop:
            break
    return TrainingProgress(
        iterations=iteration, converged=converged, best_iteration=callbacks.finish()
    )


def receive_flag(
    ctx: Context, iteration: int, *, name: str = "converge_flag", leader: Role = Role.ARBITER
) -> tuple[bool, bool]:
    """Return whether training has converged, and whether it stops, after `iteration`.

    The message `name` comes from the `leader`. Raises: CodecError: it is no flag, or the leader
    would go on past this party's max_iter.
    """
    value = wait_for(ctx, name, ctx.only(leader), tag=str(iteration))
    flags = value if isinstance(value, dict) else {}
    converged, stop = flags.get("converged"), flags.get("stop")
    if type(converged) is not bool or type(stop) is not bool:
        raise CodecError(reason=f"{name}: not two flags")
    if not stop and iteration + 1 >= ctx.params.max_iter:
        raise CodecError(
            reason=f"{name}: the {leader.value} goes on past max_iter {ctx.params.max_iter}"
        )
    return converged, stop


def show_batch(ctx: Context, iteration: int, batch: int, *, of: int) -> None:
    """Show how far training is: `batch` (from 0) `of` so many of `iteration` (from 0) is done."""
    done = (iteration + (batch + 1) / of) / ctx.params.max_iter
    ctx.tracker.progress(min(1.0, done))


def show_iteration(
    ctx: Context, iteration: int, *, start_s: float, loss: float | None = None,
    loss_at: Site | None = None,
) -> None:  # fmt: skip
    """Log and record that `iteration` (from 0), which began at `start_s`, is done.

    Args:
        loss: of the iteration, at a party that learns it.
        loss_at: the other party that learns it, if one does.
    """
    seconds = monotonic_s() - start_s
    record_seconds(ctx, iteration, seconds, of=ctx.params.max_iter, loss_at=loss_at)
    log_iteration(ctx, iteration, loss=loss)


def log_iteration(ctx: Context, iteration: int, *, loss: float | None = None) -> None:
    """Log that `iteration` (from 0) is done, with its `loss` at a party that learns it."""
    most = ctx.params.max_iter
    if loss is None:
        ctx.log.info("iteration %s of at most %s is done", iteration + 1, most)
    else:
        ctx.log.info("iteration %s of at most %s is done, loss %.6g", iteration + 1, most, loss)


@contextmanager
def diverging(iteration: int) -> Iterator[None]:
    """Turn a number that cannot be encoded into `Diverged` of this iteration."""
    try:
        yield
    except NotEncodable as exc:
        raise Diverged(iteration=iteration, reason=str(exc.fields["reason"])) from exc
