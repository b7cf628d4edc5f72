"""The encrypted sums of HeteroLR and HeteroLinR, whose residuals are linear in the score.

Each party has a share of a row's residual: slope * z_h at a host, slope * z_g - target * y at the
guest. With one host, no sample weights and no decoys the *asynchronous* variant runs: guest and
host encrypt at the same time, and each multiplies the other's encrypted part with its features; the
own part is added in clear. Else the *central* variant: the guest adds up the hosts' encrypted parts
and sends the encrypted residuals, blinded anew.

The loss is `loss_scale` / rows * sum(d**2 + loss_constant + norms / loss_scale), where d**2 is the
guest's part squared, twice the product, and the host's part squared.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.crypto.fixed_point import check_range
from fedflow.components.linear.arithmetic import (
    WEIGHT_BITS,
    Floats,
    Ints,
    blocks,
    dot,
    encode_loss_column,
    encode_share,
    pack_sums,
)
from fedflow.components.linear.batches import Batch
from fedflow.components.linear.guest import GuestTrainer
from fedflow.components.linear.host import HostTrainer
from fedflow.components.linear.keys import Keys
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.share import WeightShare
from fedflow.sdk import Context


class QuadraticGuest(GuestTrainer):
    """Adds up residuals; see the module."""

    def __init__(self, ctx: Context, rows: Rows, *, share: WeightShare, keys: Keys) -> None:
        super().__init__(ctx, rows, share=share, keys=keys)
        weights = rows.data.weights
        self._weights: Ints | None = None
        if weights is not None:
            self._weights = self.scales.fixed.encode(
                weights, limit_bits=WEIGHT_BITS, what="sample weights"
            )

    def sums(self, batch: Batch, rows: int, *, tag: str) -> bytes:
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
        forwards = self.fed.recv_all("host_sqn_forwards", from_=self.hosts, tag=tag)
        batch = Batch(rows=rows, real=None)
        changes = self.key.to_bytes(self._residuals(forwards, encoded, batch))
        self.fed.send("forward_hess", changes, to=self.hosts, tag=tag)
        sums = self.dot_with_intercept(changes, self.encoded[rows])
        own = along.sums(features, None, rows=len(features))
        return pack_sums(self.key, sums, self.encode_own(own), slot_bits=self.scales.slot_bits)

    def _async_sums(self, encoded: Ints, own: Floats, batch: Batch, *, tag: str) -> list[mpz]:
        payload = self.key.to_bytes(self.key.encrypt(encoded.tolist()))
        self.fed.send("fore_gradient", payload, to=self.hosts, tag=tag)
        (host,) = self.hosts
        forward = self.fed.recv("host_forward_dict", from_=host, tag=tag)
        column = encode_loss_column(own, fixed=self.scales.fixed)
        matrix = np.column_stack((self.encoded[batch.rows], column))
        *sums, cross = self.dot_with_intercept(forward, matrix)
        return [*sums, self.key.add(cross, self._host_loss(batch, tag=tag))]

    def _central_sums(self, encoded: Ints, own: Floats, batch: Batch, *, tag: str) -> list[mpz]:
        forwards = self.fed.recv_all("host_forward_dict", from_=self.hosts, tag=tag)
        residuals = self.key.to_bytes(self._residuals(forwards, encoded, batch))
        self.fed.send("fore_gradient", residuals, to=self.hosts, tag=tag)
        matrix = self.encoded[batch.rows]
        if batch.real is not None:
            matrix = np.where(batch.real[:, None], matrix, 0)
        sums = self.dot_with_intercept(residuals, matrix)
        if self.info.with_loss:
            column = encode_loss_column(own, fixed=self.scales.fixed)
            (cross,) = dot(self.key, forwards[0], column[:, None])
            loss = self.key.add(cross, self._host_loss(batch, tag=tag))
            sums.append(self.scaled_up(loss) if self.info.weighted else loss)
        return sums

    def _residuals(self, forwards: list[object], encoded: Ints, batch: Batch) -> Iterator[mpz]:
        """Yield the encrypted, blinded residual of every row; zero for a decoy."""
        key = self.key
        streams = [blocks(key, forward, count=len(encoded)) for forward in forwards]
        for parts in zip(*streams, strict=True):
            rows = parts[0][0]
            shares = encoded[rows].tolist()
            sums = [key.total(row) for row in zip(*(part[1] for part in parts), strict=True)]
            sums = [key.add_plain(total, own) for total, own in zip(sums, shares, strict=True)]
            if self._weights is not None:
                weights = self._weights[batch.rows][rows].tolist()
                sums = [key.multiply_plain(s, w) for s, w in zip(sums, weights, strict=True)]
            if batch.real is not None:
                real = batch.real[rows].tolist()
                sums = [total if r else mpz(1) for total, r in zip(sums, real, strict=True)]
            yield from key.blind(sums)

    def _host_loss(self, batch: Batch, *, tag: str) -> mpz:
        """Return the encrypted part of the loss that only the host knows."""
        (host,) = self.hosts
        payload = self.fed.recv("loss_intermediate", from_=host, tag=tag)
        if batch.real is None:
            return self.key.from_bytes(payload, count=1)[0]
        counted = [*batch.real.tolist(), True]
        total = mpz(1)
        for rows, ciphertexts in blocks(self.key, payload, count=len(counted)):
            kept = [c for c, real in zip(ciphertexts, counted[rows], strict=True) if real]
            total = self.key.add(total, self.key.total(kept))
        return total

    def _own_loss(self, own_share: Floats, rows: int) -> float:
        """Return the batch's summed loss as far as the guest knows it alone; 0 shares of decoys."""
        constant = self.family.loss_constant + self.share.norm() / self.family.loss_scale
        with np.errstate(over="ignore", invalid="ignore"):
            return float(own_share @ own_share + rows * constant)


class QuadraticHost(HostTrainer):
    """Sends its shares of the residuals; see the module."""

    def sums(self, batch: Batch, rows: int, *, tag: str) -> bytes:
        """See `HostTrainer.sums`."""
        features = self.rows.data.features[batch.rows]
        share = self.family.slope * self.share.scores(features)
        encoded = encode_share(share, fixed=self.scales.fixed)
        forward = self.key.to_bytes(self.key.encrypt(encoded.tolist()))
        self.fed.send("host_forward_dict", forward, to=self.guest, tag=tag)
        if self.info.with_loss:
            loss = self._loss(share, encoded, rows=rows)
            payload = self.key.to_bytes(self.key.encrypt(loss))
            self.fed.send("loss_intermediate", payload, to=self.guest, tag=tag)
        residuals = self.fed.recv("fore_gradient", from_=self.guest, tag=tag)
        own = self.share.sums(features, share if self.info.use_async else None, rows=rows)
        return self.gradient_message(residuals, own, batch.rows)

    def curvature(self, direction: object, rows: slice | NDArray[np.int64], *, tag: str) -> bytes:
        """See `GuestTrainer.curvature`."""
        along = self.share.along(direction)
        features = self.rows.data.features[rows]
        share = self.family.slope * along.scores(features)
        encoded = encode_share(share, fixed=self.scales.fixed)
        forward = self.key.to_bytes(self.key.encrypt(encoded.tolist()))
        self.fed.send("host_sqn_forwards", forward, to=self.guest, tag=tag)
        changes = self.fed.recv("forward_hess", from_=self.guest, tag=tag)
        return self.gradient_message(changes, along.sums(features, None, rows=len(features)), rows)

    def _loss(self, share: Floats, encoded: Ints, *, rows: int) -> list[int]:
        """Return the loss' part that only the host knows, at the scale of a product.

        One number; if the guest hides the real rows, a number per row and then the penalty's.
        """
        fixed, limit = self.scales.fixed, self.scales.sum_bits
        with np.errstate(over="ignore", invalid="ignore"):
            squares = float(share @ share)
        norm = rows * self.share.norm() / self.family.loss_scale
        if not self.info.masked:
            return fixed.encode_products(
                [squares + norm], factors=2, limit_bits=limit, what="loss sums"
            )
        check_range(np.array([squares + norm]), limit_bits=limit, what="loss sums")
        per_row = [value * value for value in encoded.tolist()]
        return [
            *per_row,
            *fixed.encode_products([norm], factors=2, limit_bits=limit, what="loss sums"),
        ]
