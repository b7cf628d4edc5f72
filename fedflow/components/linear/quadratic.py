"""The encrypted sums of HeteroLR and HeteroLinR, whose residuals are linear in the score.

Each party has a share of a row's residual: slope * z_h at a host, slope * z_g - target * y at the
guest. With one host, no sample weights and no decoys the *asynchronous* variant runs: guest and
host encrypt at the same time, and each multiplies the other's encrypted part with its features; the
own part is added in clear. Else the *central* variant: the guest adds up the hosts' encrypted parts
and sends the encrypted residuals, blinded anew. What blinds them, and the parties' own shares, are
encrypted zeros made ahead (`zeros.py`). A decoy's residual is such a zero by itself, which without
the private key looks like any other.

The loss is `loss_scale` / rows * sum(d**2 + loss_constant + norms / loss_scale), where d**2 is the
guest's part squared, twice the product, and the host's part squared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.linear.arithmetic import (
    WEIGHT_BITS,
    Floats,
    Ints,
    encode_loss_column,
    encode_share,
    pack_sums,
)
from fedflow.components.linear.batches import MiniBatch
from fedflow.components.linear.guest import GuestTrainer
from fedflow.components.linear.host import HostTrainer
from fedflow.components.linear.keys import PartyKeys
from fedflow.components.linear.party_weights import PartyWeights
from fedflow.components.linear.rows import Rows as DataRows
from fedflow.components.waiting import wait_for, wait_for_all
from fedflow.sdk import Context
from fedflow.sdk.crypto.encrypted_rows import (
    IntegerRows,
    column_sums,
    encrypted,
)
from fedflow.sdk.crypto.fixed_point import check_range
from fedflow.sdk.crypto.paillier import PublicKey
from fedflow.sdk.workers import Rows


class QuadraticGuest(GuestTrainer):
    """Adds up residuals; see the module."""

    def __init__(
        self, ctx: Context, rows: DataRows, *, share: PartyWeights, keys: PartyKeys
    ) -> None:
        super().__init__(ctx, rows, share=share, keys=keys)
        weights = rows.data.weights
        self._weights: Ints | None = None
        if weights is not None:
            self._weights = self.scales.fixed.encode(
                weights, limit_bits=WEIGHT_BITS, what="sample weights"
            )

    def sums(self, batch: MiniBatch, rows: int, *, tag: str) -> bytes:
        """See `GuestTrainer.sums`."""
        features = self.rows.data.features[batch.rows]
        own_share = self.family.slope * self.share.scores(features)
        own_share = own_share - self.family.target * self.rows.known_targets[batch.rows]
        if batch.real is not None:
            own_share = np.where(batch.real, own_share, 0.0)
        encoded = encode_share(own_share, fixed=self.scales.fixed)
        if self.info.use_async:
            sums = self._async_sums(encoded, own_share, batch, tag=tag)
            own = self.share.sums(features, own_share, rows=rows)
        else:
            sums = self._central_sums(encoded, own_share, batch, tag=tag)
            own = self.share.sums(features, None, rows=rows)
        if self.info.with_loss:
            own = np.append(own, self._own_loss(own_share, rows))
        return pack_sums(self.key, sums, self.encode_own(own), slot_bits=self.scales.slot_bits)

    def curvature(self, direction: object, rows: slice | NDArray[np.int64], *, tag: str) -> bytes:
        """See `GuestTrainer.curvature`."""
        along = self.share.along(direction)
        features = self.rows.data.features[rows]
        own_share = self.family.slope * along.scores(features)
        encoded = encode_share(own_share, fixed=self.scales.fixed)
        zeros = self.zeros.take(len(encoded))
        forwards = wait_for_all(self.ctx, "host_sqn_forwards", self.hosts, tag=tag)
        batch = MiniBatch(rows=rows, real=None)
        changes = self._residuals(forwards, encoded, batch, zeros=zeros)
        self.fed.send("forward_hess", changes, to=self.hosts, tag=tag)
        sums = self.sums_by_features(changes, rows)
        own = along.sums(features, None, rows=len(features))
        return pack_sums(self.key, sums, self.encode_own(own), slot_bits=self.scales.slot_bits)

    def _async_sums(self, encoded: Ints, own: Floats, batch: MiniBatch, *, tag: str) -> list[mpz]:
        payload = self.zeros.encrypt(encoded)
        self.fed.send("fore_gradient", payload, to=self.hosts, tag=tag)
        (host,) = self.hosts
        forward = wait_for(self.ctx, "host_forward_dict", host, tag=tag)
        column = encode_loss_column(own, fixed=self.scales.fixed)
        *sums, cross = self.sums_by_features(forward, batch.rows, more=column)
        return [*sums, self.key.add(cross, self._host_loss(batch, tag=tag))]

    def _central_sums(self, encoded: Ints, own: Floats, batch: MiniBatch, *, tag: str) -> list[mpz]:
        zeros = self.zeros.take(len(encoded))
        forwards = wait_for_all(self.ctx, "host_forward_dict", self.hosts, tag=tag)
        residuals = self._residuals(forwards, encoded, batch, zeros=zeros)
        self.fed.send("fore_gradient", residuals, to=self.hosts, tag=tag)
        sums = self.sums_by_features(residuals, batch.rows, kept=batch.real)
        if self.info.with_loss:
            column = encode_loss_column(own, fixed=self.scales.fixed)
            cross = self.sums_by(forwards[0], column, kept=batch.real)
            loss = self.key.add(cross, self._host_loss(batch, tag=tag))
            sums.append(self.scaled_up(loss) if self.info.weighted else loss)
        return sums

    def _residuals(
        self, forwards: Sequence[object], encoded: Ints, batch: MiniBatch, *, zeros: object
    ) -> bytes:
        """Return the message of every row's encrypted, blinded residual; zero for a decoy.

        `zeros` are of `Zeros.take`.
        """
        key, products = self.key, 2.0 + 2.0 * len(forwards)
        parts = [*forwards] if zeros is None else [zeros, *forwards]
        inputs: list[Rows] = [key.rows_of(part, count=len(encoded)) for part in parts]
        inputs.append(encoded)
        if self._weights is not None:
            products += 1.5 * (self.info.precision + WEIGHT_BITS)
            inputs.append(self._weights[batch.rows])
        if batch.real is not None:
            inputs.append(batch.real)
        work = partial(
            _residuals_of_block,
            key,
            hosts=len(forwards),
            has_zeros=zeros is not None,
            weighted=self._weights is not None,
        )
        return encrypted(self.ctx.workers, key, work, inputs, products=products)

    def _host_loss(self, batch: MiniBatch, *, tag: str) -> mpz:
        """Return the encrypted part of the loss that only the host knows."""
        (host,) = self.hosts
        payload = wait_for(self.ctx, "loss_intermediate", host, tag=tag)
        if batch.real is None:
            return self.key.from_bytes(payload, count=1)[0]
        kept = np.append(batch.real, True)
        nothing = IntegerRows.of(np.empty((len(kept), 0), dtype=np.int64))
        (total,) = column_sums(
            self.ctx.workers, self.key, payload, nothing, kept=kept, with_total=True
        )
        return total

    def _own_loss(self, own_share: Floats, rows: int) -> float:
        """Return the batch's summed loss as far as the guest knows it alone; 0 shares of decoys."""
        constant = self.family.loss_constant + self.share.norm() / self.family.loss_scale
        with np.errstate(over="ignore", invalid="ignore"):
            return float(own_share @ own_share + rows * constant)


class QuadraticHost(HostTrainer):
    """Sends its shares of the residuals; see the module."""

    def sums(self, batch: MiniBatch, rows: int, *, tag: str) -> bytes:
        """See `HostTrainer.sums`."""
        features = self.rows.data.features[batch.rows]
        share = self.family.slope * self.share.scores(features)
        encoded = encode_share(share, fixed=self.scales.fixed)
        forward = self.zeros.encrypt(encoded)
        self.fed.send("host_forward_dict", forward, to=self.guest, tag=tag)
        if self.info.with_loss:
            loss = self._loss(share, encoded, rows=rows)
            self.fed.send("loss_intermediate", loss, to=self.guest, tag=tag)
        residuals = wait_for(self.ctx, "fore_gradient", self.guest, tag=tag)
        own = self.share.sums(features, share if self.info.use_async else None, rows=rows)
        return self.gradient_message(residuals, own, batch.rows)

    def curvature(self, direction: object, rows: slice | NDArray[np.int64], *, tag: str) -> bytes:
        """See `GuestTrainer.curvature`."""
        along = self.share.along(direction)
        features = self.rows.data.features[rows]
        share = self.family.slope * along.scores(features)
        encoded = encode_share(share, fixed=self.scales.fixed)
        forward = self.zeros.encrypt(encoded)
        self.fed.send("host_sqn_forwards", forward, to=self.guest, tag=tag)
        changes = wait_for(self.ctx, "forward_hess", self.guest, tag=tag)
        return self.gradient_message(changes, along.sums(features, None, rows=len(features)), rows)

    def _loss(self, share: Floats, encoded: Ints, *, rows: int) -> bytes:
        """Return the message of the loss' part that only the host knows, at a product's scale.

        One number; if the guest hides the real rows, a number per row and then the penalty's.
        """
        key, workers = self.key, self.ctx.workers
        fixed, limit = self.scales.fixed, self.scales.sum_bits
        with np.errstate(over="ignore", invalid="ignore"):
            squares = float(share @ share)
        norm = rows * self.share.norm() / self.family.loss_scale
        if not self.info.masked:
            loss = fixed.encode_products(
                [squares + norm], factors=2, limit_bits=limit, what="loss sums"
            )
            return key.to_bytes(key.encrypt(loss))
        check_range(np.array([squares + norm]), limit_bits=limit, what="loss sums")
        last = fixed.encode_products([norm], factors=2, limit_bits=limit, what="loss sums")
        per_row = key.rows_of(
            encrypted(workers, key, partial(_squares_of_block, key), (encoded,)), count=len(encoded)
        )
        return key.message_of(np.vstack((per_row, _one_row(key, last))))


def _residuals_of_block(
    key: PublicKey, *rows: NDArray[Any], hosts: int, has_zeros: bool, weighted: bool
) -> bytes:
    """Return the blinded residuals of rows.

    The rows are [encrypted zeros], hosts' ciphertexts, own shares, [weights], [real]. A zero is a
    blinding that the row has for itself alone: times what the row sums up to it is the residual, by
    itself a decoy's.
    """
    count = has_zeros + hosts
    parts = [key.read_rows(part) for part in rows[:count]]
    own, *more = [part.tolist() for part in rows[count:]]
    zeros = parts.pop(0) if has_zeros else [*key.encrypt([0] * len(own))]
    weights = more.pop(0) if weighted else repeat(None)
    real = more.pop(0) if more else repeat(True)
    residuals = []
    for zero, row, share, weight, is_real in zip(
        zeros, zip(*parts, strict=True), own, weights, real
    ):
        total = key.add_plain(key.total(row), share)
        if weight is not None:
            total = key.multiply_plain(total, weight)
        residuals.append(key.add(total, zero) if is_real else zero)
    return key.body(residuals)


def _squares_of_block(key: PublicKey, values: Ints) -> bytes:
    return key.body(key.encrypt(value * value for value in values.tolist()))


def _one_row(key: PublicKey, values: list[int]) -> NDArray[np.uint8]:
    return key.rows_of(key.to_bytes(key.encrypt(values)), count=len(values))
