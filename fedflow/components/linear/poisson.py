"""The encrypted sums of HeteroPoisson, whose residual is a product of the parties' exps.

The host sends [[exp(z_h)]] and [[z_h]] per row, both at the scale of two numbers, since an exp may
be small. The guest raises the first to g = exp(z_g + log(exposure)) and takes y away: the encrypted
residual g * exp(z_h) - y, which it blinds before the host gets it. Sample weights multiply g and y.
The loss is the sum of g * exp(z_h) - y * (z + log(exposure)) and the penalty's norms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gmpy2 import mpz

from fedflow.components.crypto.fixed_point import check_range
from fedflow.components.linear.arithmetic import (
    COLUMN_BITS,
    SHARE_BITS,
    Floats,
    Ints,
    blocks,
    dot,
    pack_sums,
)
from fedflow.components.linear.batches import Batch
from fedflow.components.linear.families import exp
from fedflow.components.linear.guest import GuestTrainer
from fedflow.components.linear.host import HostTrainer

FORWARD_FACTORS = 2  #: what the host sends has the scale of so many numbers


class PoissonGuest(GuestTrainer):
    """Multiplies the host's exps; see the module."""

    def sums(self, batch: Batch, rows: int, *, tag: str) -> bytes:
        """See `GuestTrainer.sums`."""
        data, fixed = self.rows.data, self.scales.fixed
        features, counts = data.features[batch.rows], self.rows.known_targets[batch.rows]
        scores = self.share.scores(features) + self.rows.offset_of(batch.rows)
        rates = exp(scores)
        weights = np.ones(rows) if data.weights is None else data.weights[batch.rows]
        factors = fixed.encode(weights * rates, limit_bits=SHARE_BITS, what="exps of scores")
        check_range(weights * counts, limit_bits=SHARE_BITS, what="labels")
        (host,) = self.hosts
        forward = self.fed.recv("host_forward", from_=host, tag=tag)
        residuals = self.key.to_bytes(self._residuals(forward, factors, weights * counts))
        self.fed.send("fore_gradient", residuals, to=self.hosts, tag=tag)
        sums = self.dot_with_intercept(residuals, self.encoded[batch.rows])
        sums.append(self._loss(forward, rates, counts, tag=tag))
        own_loss = rows * self.share.norm() - float(counts @ scores)
        own = np.append(self.share.sums(features, None, rows=rows), own_loss)
        return pack_sums(self.key, sums, self.encode_own(own), slot_bits=self.scales.slot_bits)

    def _residuals(self, forward: object, factors: Ints, counts: Floats) -> Iterator[mpz]:
        """Yield the encrypted, blinded residual of every row, at the scale of three numbers."""
        key = self.key
        labels = self.scales.fixed.encode_products(
            counts, factors=FORWARD_FACTORS + 1, limit_bits=SHARE_BITS, what="labels"
        )
        for rows, ciphertexts in blocks(key, forward, count=len(factors)):
            parts = zip(ciphertexts, factors[rows].tolist(), labels[rows], strict=True)
            yield from key.blind(
                key.add_plain(key.multiply_plain(rate, factor), -label)
                for rate, factor, label in parts
            )

    def _loss(self, forward: object, rates: Floats, counts: Floats, *, tag: str) -> mpz:
        """Return the encrypted loss as far as it depends on the host's numbers."""
        key, fixed = self.key, self.scales.fixed
        check_range(np.array([rates.sum(), counts.sum()]), limit_bits=COLUMN_BITS, what="loss sums")
        factors = fixed.encode(rates, limit_bits=SHARE_BITS, what="exps of scores")
        (means,) = dot(key, forward, factors[:, None])
        payload = self.fed.recv("loss_intermediate", from_=self.hosts[0], tag=tag)
        labels = fixed.encode(-counts, limit_bits=SHARE_BITS, what="labels")
        matrix = np.append(labels, 1 << self.info.precision)[:, None]
        (by_scores,) = dot(key, payload, matrix)
        return self.scaled_up(key.add(means, by_scores))


class PoissonHost(HostTrainer):
    """Sends its exps and scores; see the module."""

    def sums(self, batch: Batch, rows: int, *, tag: str) -> bytes:
        """See `HostTrainer.sums`."""
        features = self.rows.data.features[batch.rows]
        scores = self.share.scores(features)
        forward = self._encoded(exp(scores), what="exps of scores")
        self._send("host_forward", forward, tag=tag)
        norm = self.scales.fixed.encode_products(
            [rows * self.share.norm()],
            factors=FORWARD_FACTORS,
            limit_bits=self.scales.sum_bits,
            what="loss sums",
        )
        self._send("loss_intermediate", [*self._encoded(scores, what="scores"), *norm], tag=tag)
        residuals = self.fed.recv("fore_gradient", from_=self.guest, tag=tag)
        own = self.share.sums(features, None, rows=rows)
        return self.gradient_message(residuals, own, batch.rows)

    def _encoded(self, values: Floats, *, what: str) -> list[int]:
        return self.scales.fixed.encode_products(
            values, factors=FORWARD_FACTORS, limit_bits=SHARE_BITS, what=what
        )

    def _send(self, name: str, numbers: list[int], *, tag: str) -> None:
        payload = self.key.to_bytes(self.key.encrypt(numbers))
        self.fed.send(name, payload, to=self.guest, tag=tag)
