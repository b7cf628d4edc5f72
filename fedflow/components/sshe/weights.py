"""The weights of both parties during a training: hidden in shares, or known to their owners.

Both kinds give a share of each row's score, the penalty's part of the loss, and take a step along
shares of the gradient. `scores` comes first in a batch, `step` last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.optimizer import Optimizer
from fedflow.components.linear.party_weights import PartyWeights
from fedflow.components.sshe.matmul import (
    BatchMatrix,
    encrypt,
    open_products,
    own_row_products,
    row_products,
)
from fedflow.components.sshe.params import SSHEParams
from fedflow.components.sshe.session import Session
from fedflow.components.sshe.shares import (
    GRADIENT_BITS,
    SCORE_BITS,
    WEIGHT_BITS,
    Ring,
    center,
    centered,
    combine,
    decode,
    encode,
    from_bytes,
    inner,
    ring,
    rounded,
    split,
    to_bytes,
)
from fedflow.sdk.crypto.fixed_point import scaled
from fedflow.sdk.errors import CodecError

START_LIMIT_BITS: Final = 20  #: start weights stay below 2**20
SCORE_LIMIT_BITS: Final = 30  #: a party's part of a score, with known weights
PENALTY_LIMIT_BITS: Final = 70  #: rows times penalty, with known weights
SUM_LIMIT_BITS: Final = 80  #: sums of residual * feature, with known weights
FINAL_LIMIT_BITS: Final = 40  #: final weights; what overflowed the ring is larger
LOSS_BITS: Final = 2 * SCORE_BITS  #: scale of the shared sum of squared residuals

Floats = NDArray[np.float64]


class Weights(Protocol):
    """One party's view of all weights."""

    def scores(self, features: Floats, matrix: BatchMatrix, *, tag: str) -> Ring:
        """Return the own share of the rows' scores, at SCORE_BITS.

        Args:
            features: own columns, rows x columns.
            matrix: the same as integers, with a column for the intercept if there is one.
        """

    def penalty(self, rows: int) -> int:
        """Return the own part of rows * penalty / (scale of the loss), at LOSS_BITS."""

    def penalty_products(self, rows: int) -> list[tuple[object, Ring]]:
        """Return what else of it the two parties must multiply: [[peer's share]], own factors."""

    def step(
        self, own: Ring, peer: Ring, *, scales: tuple[int, int], rows: int, iteration: int, tag: str
    ) -> None:
        """Change the weights along the own shares of the sums of residual * feature.

        `own` is of the own weights, `peer` of the peer's, `scales` are theirs.
        Raises: NotEncodable: they have become too large.
        """

    def reset_change(self) -> None:
        """Let `change` count from here."""

    def change(self) -> Ring | float:
        """Return shares of what all weights changed since `reset_change`, or its squared length."""

    def state(self) -> dict[str, Any]:
        """Return what a later attempt needs to go on, beside known weights: plain JSON."""


class KnownWeights:
    """Each party knows its own weights, and only them."""

    def __init__(self, session: Session, share: PartyWeights, *, state: Mapping[str, Any]) -> None:
        self._session = session
        self._params: SSHEParams = session.ctx.params
        self._share = share
        self._optimizer = Optimizer(self._params)
        if state and not self._optimizer.restore(state, size=share.size):
            session.ctx.log.warning("the model's optimizer state does not fit: it starts afresh")
        self._marked = share.weights

    def scores(self, features: Floats, matrix: BatchMatrix, *, tag: str) -> Ring:
        """See `Weights`. Raises: NotEncodable: a score is too large."""
        scores = self._share.scores(features)
        return encode(scores, scale=SCORE_BITS, limit_bits=SCORE_LIMIT_BITS, what="scores")

    def penalty(self, rows: int) -> int:
        """See `Weights`. Raises: NotEncodable: it is too large."""
        value = np.array([self._share.norm() * rows / square_scale(self._params)])
        (penalty,) = encode(value, scale=LOSS_BITS, limit_bits=PENALTY_LIMIT_BITS, what="penalties")
        return int(penalty)

    def penalty_products(self, rows: int) -> list[tuple[object, Ring]]:
        """See `Weights`: none."""
        return []

    def step(
        self, own: Ring, peer: Ring, *, scales: tuple[int, int], rows: int, iteration: int, tag: str
    ) -> None:
        """See `Weights`. Raises: NotEncodable, Diverged, CodecError."""
        session, params = self._session, self._params
        session.send("gradient", to_bytes(peer), tag=tag)
        opened = from_bytes(session.recv("gradient", tag=tag), count=len(own))
        total = center(own + opened)
        sums = decode(total, scale=scales[0], limit_bits=SUM_LIMIT_BITS, what="gradients")
        gradient = sums * (params.family.slope / rows)
        if params.penalty_kind == "l2":
            gradient[: len(self._share.coef)] += params.alpha * self._share.coef
        with np.errstate(over="ignore", invalid="ignore"):
            update = self._optimizer.step(gradient, iteration=iteration)
        self._share.apply(update, iteration=iteration)

    def reset_change(self) -> None:
        """See `Weights`."""
        self._marked = self._share.weights

    def change(self) -> float:
        """See `Weights`: the squared length of the own part."""
        difference = self._share.weights - self._marked
        return float(difference @ difference)

    def state(self) -> dict[str, Any]:
        """See `Weights`: what the optimizer remembers."""
        return self._optimizer.state()


class HiddenWeights:
    """Both parties hold shares of all weights, nobody knows one of them."""

    def __init__(
        self, session: Session, *, own: Ring, peer: Ring, state: Mapping[str, Any]
    ) -> None:
        self._session = session
        self._params: SSHEParams = session.ctx.params
        self._own, self._peer = own, peer  #: shares of the own weights, of the peer's
        self._penalised = np.array([1] * len(own), dtype=object)
        self._peer_penalised = np.array([1] * len(peer), dtype=object)
        if session.agreed.intercept:
            guests = self._penalised if session.is_guest else self._peer_penalised
            guests[-1:] = 0
        self._momentum = self._restored(state)
        self._rates = Optimizer(self._params)
        self._marked = (own, peer)
        self._encrypted: object = None  # the peer's share of the own weights, in this batch

    def _restored(self, state: Mapping[str, Any]) -> tuple[Ring, Ring]:
        sizes = (len(self._own), len(self._peer))
        found = state.get("momentum") if state else None
        if found is None:
            return ring([0] * sizes[0]), ring([0] * sizes[1])
        return read_shares(found, sizes)

    def scores(self, features: Floats, matrix: BatchMatrix, *, tag: str) -> Ring:
        """See `Weights`. Raises: CodecError."""
        session, workers = self._session, self._session.ctx.workers
        if matrix.packed is None:
            raise ValueError("hidden weights need rows in groups")
        session.send("encrypted_share", encrypt(workers, session.key, self._peer), tag=tag)
        self._encrypted = session.recv("encrypted_share", tag=tag)
        message, mask = row_products(workers, session.peer_key, self._encrypted, matrix.packed)
        session.send("score_product", message, tag=tag)
        local = own_row_products(workers, matrix.columns, self._own)
        product = session.recv("score_product", tag=tag)
        opened = open_products(workers, session.key, product, count=matrix.packed.rows)
        return center(local + mask + opened)

    def penalty(self, rows: int) -> int:
        """See `Weights`."""
        own = inner(self._own * self._penalised, self._own)
        peer = inner(self._peer * self._peer_penalised, self._peer)
        return centered(self._factor(rows) * (own + peer))

    def penalty_products(self, rows: int) -> list[tuple[object, Ring]]:
        """See `Weights`."""
        if self._params.penalty_kind == "none":
            return []
        factors = center(2 * self._factor(rows) * self._own * self._penalised)
        return [(self._encrypted, np.asarray(factors, dtype=object))]

    def _factor(self, rows: int) -> int:
        """Return what a squared weight is multiplied by to be at the scale of the loss."""
        if self._params.penalty_kind == "none":
            return 0
        factor = 0.5 * self._params.alpha * rows / square_scale(self._params)
        return scaled(factor, LOSS_BITS - 2 * WEIGHT_BITS)

    def step(
        self, own: Ring, peer: Ring, *, scales: tuple[int, int], rows: int, iteration: int, tag: str
    ) -> None:
        """See `Weights`; nothing is checked, as nobody knows the numbers."""
        rate = self._rates.rate(iteration)
        steps = [
            self._stepped(weights, momentum, penalised, sums, scale, rate=rate, rows=rows)
            for weights, momentum, penalised, sums, scale in (
                (self._own, self._momentum[0], self._penalised, own, scales[0]),
                (self._peer, self._momentum[1], self._peer_penalised, peer, scales[1]),
            )
        ]
        (self._own, first), (self._peer, second) = steps
        self._momentum = (first, second)

    def _stepped(
        self,
        weights: Ring,
        momentum: Ring,
        penalised: Ring,
        sums: Ring,
        scale: int,
        *,
        rate: float,
        rows: int,
    ) -> tuple[Ring, Ring]:
        """Return the own shares of weights and momentum after one step.

        The momentum's new value is 0.9 m - rate * gradient, of which sgd has no m; Nesterov's rule
        adds 1.9 times the new one and takes away 0.9 times the old one (`linear/optimizer.py`).
        """
        if not len(weights):
            return weights, momentum
        params = self._params
        nesterov = params.optimizer_kind == "nesterov_momentum_sgd"
        gradient = rounded(sums, drop=scale - GRADIENT_BITS)
        terms: list[tuple[Ring, float | Floats, int]] = [
            (gradient, -rate * params.family.slope / rows, GRADIENT_BITS)
        ]
        if params.penalty_kind == "l2":
            decay = -rate * params.alpha * penalised.astype(np.float64)
            terms.append((weights, decay, WEIGHT_BITS))
        if not nesterov:
            return combine([(weights, 1.0, WEIGHT_BITS), *terms], scale=WEIGHT_BITS), momentum
        new = combine([(momentum, 0.9, WEIGHT_BITS), *terms], scale=WEIGHT_BITS)
        moved = combine(
            [
                (weights, 1.0, WEIGHT_BITS),
                (momentum, -0.9, WEIGHT_BITS),
                (new, 1.9, WEIGHT_BITS),
            ],
            scale=WEIGHT_BITS,
        )
        return moved, new

    def reset_change(self) -> None:
        """See `Weights`."""
        self._marked = (self._own, self._peer)

    def change(self) -> Ring:
        """See `Weights`: shares, of the guest's weights first."""
        own, peer = self._own - self._marked[0], self._peer - self._marked[1]
        first, second = (own, peer) if self._session.is_guest else (peer, own)
        return center(np.concatenate((first, second)))

    def state(self) -> dict[str, Any]:
        """See `Weights`: the own shares."""
        shares = {"shares": write_shares((self._own, self._peer))}
        if self._params.optimizer_kind == "nesterov_momentum_sgd":
            return {**shares, "momentum": write_shares(self._momentum)}
        return shares

    def reveal(self) -> Floats:
        """Return the own weights; both parties call this. Raises: NotEncodable, CodecError."""
        session = self._session
        session.send("final_share", to_bytes(self._peer))
        return self._opened(from_bytes(session.recv("final_share"), count=len(self._own)))

    def reveal_to_guest(self) -> tuple[Floats | None, list[int]]:
        """Return the guest's weights at the guest, and the encrypted weights at the host.

        These are ciphertexts of weights at WEIGHT_BITS under the guest's key, one per host column.
        Raises: NotEncodable, CodecError.
        """
        session = self._session
        if session.is_guest:
            session.send("final_weight", encrypt(session.ctx.workers, session.key, self._peer))
            shares = from_bytes(session.recv("final_share"), count=len(self._own))
            return self._opened(shares), []
        session.send("final_share", to_bytes(self._peer))
        key = session.peer_key
        theirs = key.from_bytes(session.recv("final_weight"), count=len(self._own))
        sums = [key.add_plain(c, int(own)) for c, own in zip(theirs, self._own, strict=True)]
        return None, [int(c) for c in key.blind(sums, to_owner=True)]

    def _opened(self, shares: Ring) -> Floats:
        total = center(self._own + shares)
        return decode(total, scale=WEIGHT_BITS, limit_bits=FINAL_LIMIT_BITS, what="weights")


def send_shares(session: Session, weights: Floats) -> Ring:
    """Give the peer its share of the own weights, and return the own share.

    Raises: NotEncodable: a weight is too large.
    """
    encoded = encode(weights, scale=WEIGHT_BITS, limit_bits=START_LIMIT_BITS, what="start weights")
    own, given = split(encoded)
    session.send("initial_share", to_bytes(given))
    return own


def receive_shares(session: Session) -> Ring:
    """Return the own share of the peer's weights. Raises: CodecError."""
    return from_bytes(session.recv("initial_share"), count=session.peer_size)


def square_scale(params: SSHEParams) -> float:
    """Return by how much a squared residual counts in the loss."""
    family = params.family
    return family.loss_scale * family.slope**2


def write_shares(shares: tuple[Ring, Ring]) -> list[list[str]]:
    """Return shares as JSON: hexadecimal texts."""
    return [[hex(int(value)) for value in part] for part in shares]


def read_shares(value: object, sizes: tuple[int, int]) -> tuple[Ring, Ring]:
    """Return what `write_shares` wrote. Raises: CodecError: it is not that, or of other sizes."""
    try:
        own, peer = (ring(int(text, 16) for text in part) for part in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as exc:
        raise CodecError(reason="the stored shares are no numbers") from exc
    if (len(own), len(peer)) != sizes:
        raise CodecError(reason="the stored shares are of another number of weights")
    return own, peer
