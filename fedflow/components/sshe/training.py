"""The iterations of a SSHE training, for both parties; `session.py` has messages and argument."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.arithmetic import encode_features
from fedflow.components.linear.callbacks import Callbacks
from fedflow.components.linear.optimizer import Convergence
from fedflow.components.linear.party_weights import TrainingProgress
from fedflow.components.linear.session import (
    diverging,
    receive_flag,
    show_batch,
    show_iteration,
)
from fedflow.components.samples.decoding import Instances
from fedflow.components.sshe.matmul import (
    SLOT_BITS,
    EncodedMatrix,
    column_products,
    element_products,
    encrypt,
    inner_product,
    open_inner,
    open_products,
    own_column_products,
)
from fedflow.components.sshe.params import SSHEParams
from fedflow.components.sshe.session import Session
from fedflow.components.sshe.shares import (
    FEATURE_BITS,
    SAMPLE_BITS,
    SCORE_BITS,
    WEIGHT_BITS,
    Ring,
    center,
    centered,
    decode,
    encode,
    from_bytes,
    inner,
    ring,
    to_bytes,
)
from fedflow.components.sshe.weights import LOSS_BITS, Weights, square_scale
from fedflow.components.training.measures import record_loss
from fedflow.sdk import BadData, Role
from fedflow.sdk.clock import monotonic_s
from fedflow.sdk.crypto.fixed_point import FixedPoint
from fedflow.sdk.errors import CodecError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TARGET_LIMIT_BITS = 30  #: labels of a linear model stay below 2**30
SAMPLE_LIMIT_BITS = 20  #: sample weights, of mean 1, stay below 2**20
LOSS_LIMIT_BITS = 34  #: a loss that reaches 2**34 means that training has diverged


def train(
    session: Session,
    data: Instances,
    weights: Weights,
    *,
    target: Floats | None,
    callbacks: Callbacks,
    start: TrainingProgress,
    losses: list[float],
    resumed: bool,
) -> TrainingProgress:
    """Run the iterations from where `start` ended, and return how it went.

    Args:
        target: per row what scores should be; None at the host.
        losses: those of earlier iterations at the guest; this training's are appended.
        resumed: the last of them counts for the stop rule.

    Raises: Diverged, PeerFailed, CodecError, BadData.
    """
    params: SSHEParams = session.ctx.params
    trainer = _Trainer(session, data, weights, target=target)
    previous = losses[-1] if resumed and losses else None
    convergence = Convergence(kind=params.stop_kind, tol=params.tol, previous=previous)
    state = callbacks.restore(start.resume)
    iteration, converged = start.iterations, start.converged or state.converged
    while iteration < params.max_iter and not state.ended:
        start_s = monotonic_s()
        with diverging(iteration):
            weights.reset_change()
            loss = trainer.run(iteration)
            change = trainer.change(iteration) if params.stop_kind == "weight_diff" else 0.0
        if loss is not None:
            losses.append(loss)
            record_loss(session.ctx, iteration, loss)
            converged = convergence.reached(loss=loss, updates=np.array([change]))
            stop = converged or iteration + 1 == params.max_iter
            flag = {"converged": converged, "stop": stop}
            session.send("is_converged", flag, tag=str(iteration))
        else:
            converged, stop = receive_flag(
                session.ctx, iteration, name="is_converged", leader=Role.GUEST
            )
        loss_at = session.ctx.only(Role.GUEST) if loss is None else None
        show_iteration(session.ctx, iteration, start_s=start_s, loss=loss, loss_at=loss_at)
        stop = callbacks.after(iteration, converged=converged) or stop
        iteration += 1
        if stop:
            break
    session.ctx.log.info("training ended after %s iterations, converged: %s", iteration, converged)
    return TrainingProgress(
        iterations=iteration,
        converged=converged,
        losses=tuple(losses),
        best_iteration=callbacks.finish(),
    )


class _Trainer:
    """What one party keeps between batches."""

    def __init__(
        self, session: Session, data: Instances, weights: Weights, *, target: Floats | None
    ) -> None:
        self._session = session
        self._weights = weights
        self._features = data.features
        fixed = FixedPoint(bits=FEATURE_BITS)
        intercept = session.is_guest and session.agreed.intercept

        def encoded(features: Floats, ones: Floats) -> Ints:
            columns = encode_features(features, fixed=fixed, columns=data.columns)
            if not intercept:
                return columns
            last = fixed.encode(ones, limit_bits=SAMPLE_LIMIT_BITS, what="sample weights")
            return np.column_stack((columns, last))

        def placed(matrix: Ints, *, packed: bool) -> EncodedMatrix:
            slots = session.peer_key.slots(SLOT_BITS)
            return EncodedMatrix(
                matrix, session.batches, slots=slots, packed=packed, workers=session.ctx.workers
            )

        self._matrix = placed(
            encoded(data.features, np.ones(data.rows)), packed=not session.agreed.reveal_every_iter
        )
        self._gradient_matrix = self._matrix  # each row times its sample weight
        self._samples: Ints | None = None
        if session.is_guest and session.agreed.weighted:
            samples = _samples(data)
            self._samples = FixedPoint(bits=SAMPLE_BITS).encode(
                samples, limit_bits=SAMPLE_LIMIT_BITS, what="sample weights"
            )
            weighted = encoded(data.features * samples[:, None], samples)
            self._gradient_matrix = placed(weighted, packed=False)
        self._target: Ring | None = None
        if target is not None:
            _check_target(target)
            self._target = encode(
                target, scale=SCORE_BITS, limit_bits=TARGET_LIMIT_BITS, what="labels"
            )

    def run(self, iteration: int) -> float | None:
        """Take part in one iteration over all batches; return its loss, at the guest."""
        session, batches = self._session, self._session.batches
        total = 0
        for number, rows in enumerate(batches.slices()):
            tag = f"{iteration}.{number}"
            count = rows.stop - rows.start
            total += batches.weight(count) * self._batch(rows, iteration, tag=tag)
            show_batch(session.ctx, iteration, number, of=batches.count)
        share = ring([total])
        if not session.is_guest:
            session.send("loss", to_bytes(share), tag=str(iteration))
            return None
        share = center(share + from_bytes(session.recv("loss", tag=str(iteration)), count=1))
        family, scale = session.ctx.params.family, square_scale(session.ctx.params)
        limit = math.ceil(LOSS_LIMIT_BITS - math.log2(scale) + math.log2(batches.divisor))
        squares = float(decode(share, scale=LOSS_BITS, limit_bits=limit, what="losses")[0])
        constant: float = family.loss_scale * family.loss_constant
        return scale * squares / batches.divisor + constant

    def _batch(self, rows: slice, iteration: int, *, tag: str) -> int:
        """Take one step, and return the own share of the batch's squared residuals and penalty."""
        session, weights = self._session, self._weights
        count = rows.stop - rows.start
        residuals = weights.scores(self._features[rows], self._matrix.batch(rows), tag=tag)
        if self._target is not None:
            residuals = center(residuals - self._target[rows])
        received, weighted = self._exchange(residuals, rows, tag=tag)
        workers = session.ctx.workers
        matrix = self._gradient_matrix.batch(rows).columns
        message, mask = column_products(workers, session.peer_key, received, matrix)
        session.send("gradient_product", message, tag=tag)
        loss = inner(residuals, residuals) + weights.penalty(count)
        loss += self._loss_products(residuals, received, count, tag=tag)
        # With sample weights the guest's own matrix has them, else the shares.
        own = own_column_products(workers, residuals if session.is_guest else weighted, matrix)
        product = session.recv("gradient_product", tag=tag)
        opened = open_products(workers, session.key, product, count=session.peer_size)
        scale = FEATURE_BITS + SCORE_BITS
        heavy = scale + (SAMPLE_BITS if session.agreed.weighted else 0)
        weights.step(
            center(own + mask),
            opened,
            scales=(scale, heavy) if session.is_guest else (heavy, scale),
            rows=count,
            iteration=iteration,
            tag=tag,
        )
        return centered(loss)

    def _exchange(self, residuals: Ring, rows: slice, *, tag: str) -> tuple[object, Ring]:
        """Send the encrypted residuals; return the peer's, and the own ones times sample weights.

        The host's are weighted by the guest, which alone knows the weights.
        """
        session, workers = self._session, self._session.ctx.workers
        if not session.agreed.weighted:
            session.send("residual_share", encrypt(workers, session.key, residuals), tag=tag)
            return session.recv("residual_share", tag=tag), residuals
        if not session.is_guest:
            session.send("residual_share", encrypt(workers, session.key, residuals), tag=tag)
            product = session.recv("weighted_residual", tag=tag)
            weighted = open_products(workers, session.key, product, count=len(residuals))
            return session.recv("residual_share", tag=tag), weighted
        received = session.recv("residual_share", tag=tag)
        if self._samples is None:
            raise CodecError(reason="sample weights were announced, but there are none")
        samples = self._samples[rows]
        message, mask = element_products(workers, session.peer_key, received, samples)
        session.send("weighted_residual", message, tag=tag)
        weighted = center(residuals * samples.astype(object) + mask)
        session.send("residual_share", encrypt(workers, session.key, weighted), tag=tag)
        return received, weighted

    def _loss_products(self, residuals: Ring, received: object, rows: int, *, tag: str) -> int:
        """Return the own share of what the loss has of products of both parties' shares."""
        session, workers = self._session, self._session.ctx.workers
        parts = self._weights.penalty_products(rows)
        if session.is_guest:
            doubled = center(2 * residuals)
            pairs = [(received, doubled), *parts]
            message, share = inner_product(workers, session.peer_key, pairs)
            session.send("loss_product", message, tag=tag)
            if parts:
                share += open_inner(session.key, session.recv("norm_product", tag=tag))
            return share
        share = 0
        if parts:
            message, share = inner_product(workers, session.peer_key, parts)
            session.send("norm_product", message, tag=tag)
        return share + open_inner(session.key, session.recv("loss_product", tag=tag))

    def change(self, iteration: int) -> float:
        """Return the length of this iteration's change of all weights, at the guest; 0 elsewhere.

        Known weights: the host sends the square of its own part. Hidden ones: shares of the square.
        """
        session, tag = self._session, str(iteration)
        workers = session.ctx.workers
        change = self._weights.change()
        limit = 2 * LOSS_LIMIT_BITS
        if isinstance(change, float):
            share = encode(
                np.array([change]), scale=2 * WEIGHT_BITS, limit_bits=limit, what="changes"
            )
        elif session.is_guest:
            received = session.recv("update_share", tag=tag)
            doubled = center(2 * change)
            message, product = inner_product(workers, session.peer_key, [(received, doubled)])
            session.send("update_product", message, tag=tag)
            share = ring([inner(change, change) + product])
        else:
            session.send("update_share", encrypt(workers, session.key, change), tag=tag)
            product = open_inner(session.key, session.recv("update_product", tag=tag))
            share = ring([inner(change, change) + product])
        if not session.is_guest:
            session.send("update_norm", to_bytes(share), tag=tag)
            return 0.0
        theirs = from_bytes(session.recv("update_norm", tag=tag), count=1)
        total = center(share + theirs)
        square = float(decode(total, scale=2 * WEIGHT_BITS, limit_bits=limit, what="changes")[0])
        return math.sqrt(max(0.0, square))


def _samples(data: Instances) -> Floats:
    """Return the rows' sample weights. Raises: BadData: one is too large."""
    samples = np.ones(data.rows) if data.weights is None else data.weights
    if float(np.abs(samples).max()) >= 2.0**SAMPLE_LIMIT_BITS:
        raise BadData(
            where="sample weights",
            reason=f"one is more than 2^{SAMPLE_LIMIT_BITS} times as large as their mean",
        )
    return samples


def _check_target(target: Floats) -> None:
    large = int(np.count_nonzero(np.abs(target) >= 2.0**TARGET_LIMIT_BITS))
    if large:
        raise BadData(
            where="labels", reason=f"{large} of {len(target)} reach 2^{TARGET_LIMIT_BITS}"
        )
