"""One training of one party, from its start to its part of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.callbacks import GuestCallbacks, HostCallbacks
from fedflow.components.linear.party_weights import PartyWeights, TrainingProgress
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.session import diverging
from fedflow.components.linear.stored import Trained
from fedflow.components.linear.training import Training
from fedflow.components.samples.alignment import check_same_rows
from fedflow.components.sshe.matmul import mask_vector, open_products
from fedflow.components.sshe.model import EncryptedWeights, Fitted, no_weights, read_model
from fedflow.components.sshe.params import SSHEParams
from fedflow.components.sshe.session import (
    ENCRYPTED_WEIGHTS,
    SHARES,
    WEIGHTS,
    Session,
    open_session,
)
from fedflow.components.sshe.training import train
from fedflow.components.sshe.weights import (
    HiddenWeights,
    KnownWeights,
    Weights,
    read_shares,
    receive_shares,
    send_shares,
)
from fedflow.components.training.measures import record_start
from fedflow.components.training.plan import Plan, agree_on_plan, common_step
from fedflow.sdk import Context, Model, Role
from fedflow.sdk.errors import BadParameter

Floats = NDArray[np.float64]


def train_in_shares(
    ctx: Context,
    parts: Sequence[Rows],
    *,
    start: Trained | None,
    store: Callable[[Trained], Model],
) -> Training:
    """Train on the first of `parts`, measuring on all; see `linear.training.train`.

    Raises: BadParameter, Diverged, PeerFailed, CodecError, BadData.
    """
    params: SSHEParams = ctx.params
    plan = Plan.of(ctx, start=start.progress.iterations if start else 0)
    agree_on_plan(ctx, plan)
    before = _resumed(ctx, plan, start)
    if before is not None:
        record_start(ctx, before.progress.iterations)
    data = parts[0].data
    check_same_rows(ctx, data, tag="train")
    is_guest = ctx.site.role is Role.GUEST
    share = PartyWeights(
        params,
        columns=data.columns,
        intercept=is_guest and params.init_param.fit_intercept,
        start=before.share if before else None,
    )
    session = open_session(
        ctx,
        rows=data.rows,
        weighted=data.weights is not None,
        size=share.size,
        start=_start_of(params, before),
    )
    begin = before.progress if before else TrainingProgress(iterations=0, converged=False)
    with diverging(begin.iterations):
        weights = _weights(session, share, before)
    losses = list(begin.losses)

    def checkpoint(done: int) -> Model:
        known = not isinstance(weights, HiddenWeights)
        return store(
            Fitted(
                progress=TrainingProgress(iterations=done, converged=False, losses=tuple(losses)),
                share=share.fitted() if known else no_weights(share.columns),
                known=known,
                state=weights.state(),
            )
        )

    callbacks: HostCallbacks | GuestCallbacks
    if is_guest:
        callbacks = GuestCallbacks(
            ctx, plan, model=checkpoint, share=share, parts=parts, family=params.family
        )
    else:
        callbacks = HostCallbacks(ctx, plan, model=checkpoint, share=share, parts=parts)
    progress = train(
        session,
        data,
        weights,
        target=_target(params, parts[0]) if is_guest else None,
        callbacks=callbacks,
        start=begin,
        losses=losses,
        resumed=before is not None and bool(before.state),
    )
    with diverging(progress.iterations):
        trained = _fitted(session, weights, share, progress)
    if isinstance(callbacks, HostCallbacks):
        return Training(trained=trained)
    measured = {part: dict(values) for part, values in callbacks.history.items()}
    return Training(trained=trained, measured=measured)


def _target(params: SSHEParams, rows: Rows) -> Floats:
    """Return what the scores should be; the residual is slope times score minus target."""
    family = params.family
    return rows.known_targets * (family.target / family.slope)


def _resumed(ctx: Context, plan: Plan, start: Trained | None) -> Fitted | None:
    """Return where the checkpoint that both parties have ends, else `start`."""
    step = common_step(ctx, plan)
    if step is None or step < (start.progress.iterations if start else 0):
        return start if isinstance(start, Fitted) else None
    ctx.log.info("training goes on after iteration %s of an earlier attempt", step)
    params: SSHEParams = ctx.params
    model = read_model(
        ctx.checkpoints.load(step).model,
        family=params.family,
        where=f"checkpoint {step} of {ctx.component}",
    )
    (part,) = model.parts
    return part if isinstance(part, Fitted) else None


def _start_of(params: SSHEParams, before: Fitted | None) -> str:
    """Return what training starts from. Raises: BadParameter: weights that nobody may know."""
    if before is None or (before.known and before.key is None):
        return WEIGHTS
    if params.reveal_every_iter:
        raise BadParameter(
            path="reveal_every_iter",
            reason="the model to start from has weights that no party may know: it must be false",
        )
    return SHARES if "shares" in before.state else ENCRYPTED_WEIGHTS


def _weights(session: Session, share: PartyWeights, before: Fitted | None) -> Weights:
    state = before.state if before else {}
    if session.agreed.reveal_every_iter:
        return KnownWeights(session, share, state=state)
    if session.agreed.start == SHARES:
        own, peer = read_shares(state["shares"], (session.size, session.peer_size))
    elif session.agreed.start == ENCRYPTED_WEIGHTS and before is not None:
        own, peer = _continued(session, share, before)
    else:
        own = send_shares(session, share.weights)
        peer = receive_shares(session)
    return HiddenWeights(session, own=own, peer=peer, state=state)


def _continued(session: Session, share: PartyWeights, before: Fitted) -> tuple[Any, Any]:
    """Return shares of the weights of a model whose host has its own encrypted only."""
    if before.encrypted is not None:
        key = before.encrypted.key.with_blinding(session.key.public.blinding)
        message, own = mask_vector(key, before.encrypted.ciphertexts)
        session.send("continued_weight", message)
        return own, receive_shares(session)
    if before.key is None:
        raise BadParameter(path="input.model", reason="the model has no key for encrypted weights")
    own = send_shares(session, share.weights)
    message = session.recv("continued_weight")
    return own, open_products(session.ctx.workers, before.key, message, count=session.peer_size)


def _fitted(
    session: Session, weights: Weights, share: PartyWeights, progress: TrainingProgress
) -> Fitted:
    """Return the own part of the result; both parties call this. Raises: NotEncodable."""
    if not isinstance(weights, HiddenWeights):
        return Fitted(progress=progress, share=share.fitted())
    params: SSHEParams = session.ctx.params
    if not params.encrypted_in_host:
        share.weights = weights.reveal()
        return Fitted(progress=progress, share=share.fitted())
    known, encrypted = weights.reveal_to_guest()
    if known is None:
        theirs = EncryptedWeights(key=session.peer_key, ciphertexts=tuple(encrypted))
        unknown = no_weights(share.columns)
        return Fitted(progress=progress, share=unknown, known=False, encrypted=theirs)
    share.weights = known
    return Fitted(progress=progress, share=share.fitted(), key=session.key)
