"""The messages of a HeteroLR training, and those that do not depend on a batch.

| message | from -> to | value |
|---|---|---|
| paillier_pubkey | arbiter -> guest, hosts | {n: hexadecimal} |
| callbacks | guest -> hosts, arbiter | `Plan`: when to validate, to save, to stop early |
| checkpoint_steps, checkpoint_step | -> guest -> | in a repeated attempt: stored, chosen steps |
| batch_info | guest -> hosts, arbiter | `BatchInfo` |
| sample_ids | guest <-> hosts | {rows, digest}; tag = type of data |
| model_shape | guest, hosts -> arbiter | {size}: number of own weights |
| batch_data_index | guest -> hosts | int64 row numbers; only if batches are not in stored order |
| host_forward_dict | host -> guest | [[z_h / 4]] per row of the batch |
| loss_intermediate | host -> guest | [[sum (z_h / 4)**2 + rows * norm / 2]]; masked: per row |
| fore_gradient | guest -> hosts | [[residual]] per row |
| guest_gradient, host_gradient | -> arbiter | packed sums; the guest's with half the loss |
| guest_optim_gradient, host_optim_gradient | arbiter -> | float64 update |
| converge_flag | arbiter -> guest, hosts | {converged, stop}, after each iteration |
| host_prob | host -> guest | z_h in clear, for prediction and at each validation |
| validation_status | guest -> hosts, arbiter | {stop, best}, with early stopping |

Tags are `iteration.batch`. [[x]] is x encrypted with the arbiter's key.
Source: FATE's protocol, after Hardy et al. 2017 (arXiv:1711.10677) and Yang et al. 2019
(arXiv:1902.04885).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors import BadParameter, CodecError, NotEncodable
from fedflow.components.crypto.paillier import PublicKey
from fedflow.components.linear.params import HeteroLRParams
from fedflow.components.linear.share import Progress
from fedflow.sdk import Context, Diverged, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedflow.components.linear.callbacks import Callbacks

Floats = NDArray[np.float64]

MAX_WEIGHTS = (
    1 << 24
)  #: of one party, so that a wrong message cannot make the arbiter run out of memory


def batch_tag(iteration: int, batch: int) -> str:
    """Return the tag of one batch's messages."""
    return f"{iteration}.{batch}"


def receive_key(ctx: Context) -> PublicKey:
    """Return the arbiter's public key.

    Raises: BadParameter: it is shorter than this party's own `encrypt_param.key_length` asks for.
        CodecError: it is none.
    """
    params: HeteroLRParams = ctx.params
    value = ctx.federation.recv("paillier_pubkey", from_=ctx.only(Role.ARBITER))
    text = value.get("n") if isinstance(value, dict) else None
    wanted = params.encrypt_param.key_length
    try:
        return PublicKey.parse(text, bits=wanted, blinding=params.encrypt_param.blinding)
    except CodecError as exc:
        raise BadParameter(
            path="encrypt_param.key_length",
            reason=f"this party asks for {wanted} bits: {exc.message}",
        ) from exc


def send_shape(ctx: Context, size: int) -> None:
    """Tell the arbiter how many weights this party has."""
    ctx.federation.send("model_shape", {"size": size}, to=ctx.only(Role.ARBITER))


def receive_shapes(ctx: Context) -> list[int]:
    """Return the numbers of weights of all hosts, then of the guest. Raises: CodecError."""
    sites = (*ctx.sites_of(Role.HOST), ctx.only(Role.GUEST))
    shapes = []
    for site, value in zip(sites, ctx.federation.recv_all("model_shape", from_=sites)):
        size = value.get("size") if isinstance(value, dict) else None
        if type(size) is not int or not 0 <= size <= MAX_WEIGHTS:
            raise CodecError(reason=f"{site} sent no number of weights")
        shapes.append(size)
    return shapes


def follow_arbiter(
    ctx: Context, iterate: Callable[[int], None], *, callbacks: Callbacks, start: Progress
) -> Progress:
    """Run the iterations of a data party until training ends, and return how it went."""
    iteration, converged = start.iterations, start.converged
    while iteration < ctx.params.max_iter:
        iterate(iteration)
        converged, stop = receive_flag(ctx, iteration)
        show_progress(ctx, iteration)
        stop = callbacks.after(iteration) or stop
        iteration += 1
        if stop:
            break
    return Progress(iterations=iteration, converged=converged, best_iteration=callbacks.finish())


def receive_flag(ctx: Context, iteration: int) -> tuple[bool, bool]:
    """Return whether training has converged, and whether it stops, after `iteration`.

    Raises: CodecError: it is no flag, or the arbiter would go on past this party's max_iter.
    """
    value = ctx.federation.recv("converge_flag", from_=ctx.only(Role.ARBITER), tag=str(iteration))
    if not isinstance(value, dict):
        raise CodecError(reason="converge_flag: not an object")
    stop = value.get("stop") is True
    if not stop and iteration + 1 >= ctx.params.max_iter:
        raise CodecError(reason=f"the arbiter goes on past max_iter {ctx.params.max_iter}")
    return value.get("converged") is True, stop


def show_progress(ctx: Context, iteration: int) -> None:
    """Record that `iteration` (from 0) is done."""
    ctx.tracker.progress(min(1.0, (iteration + 1) / ctx.params.max_iter))


@contextmanager
def diverging(iteration: int) -> Iterator[None]:
    """Turn a number that cannot be encoded into `Diverged` of this iteration."""
    try:
        yield
    except NotEncodable as exc:
        raise Diverged(iteration=iteration, reason=str(exc.fields["reason"])) from exc
