"""The encrypted sums of HeteroPoisson, whose residual is a product of the parties' exps.

The host sends [[exp(z_h)]] and [[z_h]] per row, both at the scale of two numbers, since an exp may
be small. The guest raises the first to g = exp(z_g + log(exposure)) and takes y away: the encrypted
residual g * exp(z_h) - y, which it blinds before the host gets it. Sample weights multiply g and y.
The loss is the sum of g * exp(z_h) - y * (z + log(exposure)) and the penalty's norms.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.linear.arithmetic import (
    COLUMN_BITS,
    SHARE_BITS,
    Floats,
    Ints,
    pack_sums,
)
from fedflow.components.linear.batches import MiniBatch
from fedflow.components.linear.families import exp
from fedflow.components.linear.guest import GuestTrainer
from fedflow.components.linear.host import HostTrainer
from fedflow.components.waiting import wait_for
from fedflow.sdk.crypto.encrypted_rows import encrypt_numbers, encrypted
from fedflow.sdk.crypto.fixed_point import check_range, scaled
from fedflow.sdk.crypto.paillier import PublicKey

FORWARD_FACTORS = 2  #: what the host sends has the scale of so many numbers


class PoissonGuest(GuestTrainer):
    """Multiplies the host's exps; see the module."""

    def sums(self, batch: MiniBatch, rows: int, *, tag: str) -> bytes:
        """See `GuestTrainer.sums`."""
        data, fixed = self.rows.data, self.scales.fixed
        features, counts = data.features[batch.rows], self.rows.known_targets[batch.rows]
        scores = self.share.scores(features) + self.rows.offset_of(batch.rows)
        rates = exp(scores)
        weights = np.ones(rows) if data.weights is None else data.weights[batch.rows]
        factors = fixed.encode(weights * rates, limit_bits=SHARE_BITS, what="exps of scores")
        check_range(weights * counts, limit_bits=SHARE_BITS, what="labels")
        (host,) = self.hosts
        forward = wait_for(self.ctx, "host_forward", host, tag=tag)
        residuals = self._residuals(forward, factors, weights * counts)
        self.fed.send("fore_gradient", residuals, to=self.hosts, tag=tag)
        sums = self.sums_by_features(residuals, batch.rows)
        sums.append(self._loss(forward, rates, counts, tag=tag))
        own_loss = rows * self.share.norm() - float(counts @ scores)
        own = np.append(self.share.sums(features, None, rows=rows), own_loss)
        return pack_sums(self.key, sums, self.encode_own(own), slot_bits=self.scales.slot_bits)

    def _residuals(self, forward: object, factors: Ints, counts: Floats) -> bytes:
        """Return the message of every row's residual, blinded, at the scale of three numbers."""
        key = self.key
        work = partial(_residuals_of_block, key, (FORWARD_FACTORS + 1) * self.info.precision)
        inputs = (key.rows_of(forward, count=len(factors)), factors, counts)
        products = 1.5 * (self.info.precision + SHARE_BITS)
        return encrypted(self.ctx.workers, key, work, inputs, products=products)

    def _loss(self, forward: object, rates: Floats, counts: Floats, *, tag: str) -> mpz:
        """Return the encrypted loss as far as it depends on the host's numbers."""
        key, fixed = self.key, self.scales.fixed
        check_range(np.array([rates.sum(), counts.sum()]), limit_bits=COLUMN_BITS, what="loss sums")
        factors = fixed.encode(rates, limit_bits=SHARE_BITS, what="exps of scores")
        means = self.sums_by(forward, factors)
        payload = wait_for(self.ctx, "loss_intermediate", self.hosts[0], tag=tag)
        labels = fixed.encode(-counts, limit_bits=SHARE_BITS, what="labels")
        by_scores = self.sums_by(payload, np.append(labels, 1 << self.info.precision))
        return self.scaled_up(key.add(means, by_scores))


class PoissonHost(HostTrainer):
    """Sends its exps and scores; see the module."""

    def sums(self, batch: MiniBatch, rows: int, *, tag: str) -> bytes:
        """See `HostTrainer.sums`."""
        features = self.rows.data.features[batch.rows]
        scores = self.share.scores(features)
        rates = exp(scores)
        check_range(rates, limit_bits=SHARE_BITS, what="exps of scores")
        self.fed.send("host_forward", self._encrypted(rates), to=self.guest, tag=tag)
        norm = np.array([rows * self.share.norm()])
        check_range(norm, limit_bits=self.scales.sum_bits, what="loss sums")
        check_range(scores, limit_bits=SHARE_BITS, what="scores")
        loss = self._encrypted(np.append(scores, norm))
        self.fed.send("loss_intermediate", loss, to=self.guest, tag=tag)
        residuals = wait_for(self.ctx, "fore_gradient", self.guest, tag=tag)
        own = self.share.sums(features, None, rows=rows)
        return self.gradient_message(residuals, own, batch.rows)

    def _encrypted(self, values: Floats) -> bytes:
        """Return the message of encrypted numbers, all known to be in range."""
        scale = FORWARD_FACTORS * self.info.precision
        return encrypt_numbers(self.ctx.workers, self.key, values, scale=scale)


def _residuals_of_block(
    key: PublicKey, scale: int, forward: NDArray[np.uint8], factors: Ints, counts: Floats
) -> bytes:
    """Return the residuals of some rows: host's ciphertexts, own factors, labels."""
    rates = key.read_rows(forward)
    parts = zip(rates, factors.tolist(), counts.tolist(), strict=True)
    return key.body(
        key.blind(
            key.add_plain(key.multiply_plain(rate, factor), -scaled(count, scale))
            for rate, factor, count in parts
        )
    )
