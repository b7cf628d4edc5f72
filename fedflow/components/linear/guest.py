"""The guest's part of a HeteroLR training: it has the labels and leads the batches.

With one host, no sample weights and no decoys the *asynchronous* variant runs: guest and host
encrypt at the same time, and each multiplies the other's encrypted part with its features; the own
part is added in clear. Else the *central* variant: the guest adds up the hosts' encrypted parts
and sends the encrypted residuals, blinded anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.instances.alignment import check_same_rows
from fedflow.components.instances.reading import Instances
from fedflow.components.linear.arithmetic import (
    WEIGHT_BITS,
    Scales,
    blocks,
    dot,
    encode_features,
    encode_loss_column,
    encode_share,
    pack_sums,
)
from fedflow.components.linear.batches import Batch, GuestBatches, plan_batches
from fedflow.components.linear.callbacks import Callbacks
from fedflow.components.linear.params import MIN_BATCH_ROWS
from fedflow.components.linear.session import (
    batch_tag,
    diverging,
    follow_arbiter,
    receive_key,
    send_shape,
)
from fedflow.components.linear.share import Progress, WeightShare
from fedflow.sdk import BadData, Context, Role

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def train_guest(
    ctx: Context,
    data: Instances,
    *,
    labels: Floats,
    share: WeightShare,
    callbacks: Callbacks,
    start: Progress,
) -> Progress:
    """Train the guest's weights, `share`; `labels` are -1.0 and 1.0, one per row.

    Raises: Diverged, PeerFailed, CodecError, BadData.
    """
    trainer = _GuestTrainer(ctx, data, labels=labels, share=share)
    return follow_arbiter(ctx, trainer.run, callbacks=callbacks, start=start)


class _GuestTrainer:
    """What the guest keeps between batches."""

    def __init__(
        self, ctx: Context, data: Instances, *, labels: Floats, share: WeightShare
    ) -> None:
        params = ctx.params
        self.share = share
        self._ctx = ctx
        self._fed = ctx.federation
        self._hosts = ctx.sites_of(Role.HOST)
        self._arbiter = ctx.only(Role.ARBITER)
        self._data = data
        self._labels = labels
        self._told = False  # whether hosts know batches that do not change
        self._info = plan_batches(
            params, rows=data.rows, hosts=len(self._hosts), weighted=data.weights is not None
        )
        self._scales = Scales.of(self._info, hosts=len(self._hosts))
        self._encoded = encode_features(
            data.features, fixed=self._scales.fixed, columns=data.columns
        )
        self._weights = None if data.weights is None else self._encode_weights(data.weights)
        self._batches = GuestBatches(
            self._info, shuffle=params.shuffle, random_seed=params.random_seed
        )
        self._fed.send("batch_info", self._info.to_json(), to=(*self._hosts, self._arbiter))
        check_same_rows(ctx, data, tag="train")
        send_shape(ctx, self.share.size)
        self._key = receive_key(ctx)
        ctx.log.info(
            "training on %s rows in %s batches, %s variant",
            data.rows,
            self._info.batch_num,
            "asynchronous" if self._info.use_async else "central",
        )
        self._warn_of_small_batch()

    def run(self, iteration: int) -> None:
        """Take part in one iteration over all batches."""
        batches = self._batches.epoch()
        if not self._info.stored_order and (not self._told or self._info.batch_mutable):
            self._told = True
            for number, batch in enumerate(batches):
                tag = batch_tag(iteration, number)
                self._fed.send("batch_data_index", batch.rows, to=self._hosts, tag=tag)
        for number, batch in enumerate(batches):
            tag = batch_tag(iteration, number)
            with diverging(iteration):
                message = self._sums(batch, self._info.batch_rows(number), tag=tag)
            self._fed.send("guest_gradient", message, to=self._arbiter, tag=tag)
            update = self._fed.recv("guest_optim_gradient", from_=self._arbiter, tag=tag)
            self.share.apply(update, iteration=iteration)

    def _warn_of_small_batch(self) -> None:
        last = self._info.batch_rows(self._info.batch_num - 1)
        if last < MIN_BATCH_ROWS:
            self._ctx.log.warning(
                "the last batch has %s row(s): a host can compute their labels from its updates;"
                " choose another batch_size",
                last,
            )

    def _sums(self, batch: Batch, rows: int, *, tag: str) -> bytes:
        """Return the message of this batch's gradient sums and half of its loss."""
        features, labels = self._data.features[batch.rows], self._labels[batch.rows]
        scores = self.share.scores(features)
        half = 0.25 * scores - 0.5 * labels
        if batch.real is not None:
            half = np.where(batch.real, half, 0.0)
        encoded = encode_share(half, fixed=self._scales.fixed)
        if self._info.use_async:
            sums = self._async_sums(encoded, half, batch, tag=tag)
            own = self.share.sums(features, half, rows=rows)
        else:
            sums = self._central_sums(encoded, half, batch, tag=tag)
            own = self.share.sums(features, None, rows=rows)
        if self._info.with_loss:
            real = slice(None) if batch.real is None else batch.real
            own = np.append(own, self._own_half_loss(scores[real], labels[real]))
        parts = self._scales.fixed.encode_products(
            own, factors=self._scales.factors, limit_bits=self._scales.sum_bits, what="sums"
        )
        return pack_sums(self._key, sums, parts, slot_bits=self._scales.slot_bits)

    def _async_sums(self, encoded: Ints, half: Floats, batch: Batch, *, tag: str) -> list[mpz]:
        payload = self._key.to_bytes(self._key.encrypt(encoded.tolist()))
        self._fed.send("fore_gradient", payload, to=self._hosts, tag=tag)
        (host,) = self._hosts
        forward = self._fed.recv("host_forward_dict", from_=host, tag=tag)
        column = encode_loss_column(half, fixed=self._scales.fixed)
        matrix = np.column_stack((self._encoded[batch.rows], column))
        *sums, cross = self._dot_with_intercept(forward, matrix)
        return [*sums, self._key.add(cross, self._host_loss(batch, tag=tag))]

    def _central_sums(self, encoded: Ints, half: Floats, batch: Batch, *, tag: str) -> list[mpz]:
        forwards = self._fed.recv_all("host_forward_dict", from_=self._hosts, tag=tag)
        residuals = self._key.to_bytes(self._residuals(forwards, encoded, batch))
        self._fed.send("fore_gradient", residuals, to=self._hosts, tag=tag)
        matrix = self._encoded[batch.rows]
        if batch.real is not None:
            matrix = np.where(batch.real[:, None], matrix, 0)
        sums = self._dot_with_intercept(residuals, matrix)
        if self._info.with_loss:
            column = encode_loss_column(half, fixed=self._scales.fixed)
            (cross,) = dot(self._key, forwards[0], column[:, None])
            loss = self._key.add(cross, self._host_loss(batch, tag=tag))
            sums.append(self._scaled_up(loss) if self._info.weighted else loss)
        return sums

    def _residuals(self, forwards: list[object], encoded: Ints, batch: Batch) -> Iterator[mpz]:
        """Yield the encrypted, blinded residual of every row; zero for a decoy."""
        key = self._key
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

    def _dot_with_intercept(self, payload: object, matrix: Ints) -> list[mpz]:
        """Return the sums of the own features, of the intercept if any, and of further columns."""
        if not self.share.has_intercept:
            return dot(self._key, payload, matrix)
        *sums, total = dot(self._key, payload, matrix, with_total=True)
        sums.insert(len(self._data.columns), self._scaled_up(total))
        return sums

    def _scaled_up(self, ciphertext: mpz) -> mpz:
        """Return a ciphertext at the scale of one more factor."""
        return self._key.multiply_plain(ciphertext, 1 << self._info.precision)

    def _host_loss(self, batch: Batch, *, tag: str) -> mpz:
        """Return the encrypted half of the loss' part that only the host knows."""
        (host,) = self._hosts
        payload = self._fed.recv("loss_intermediate", from_=host, tag=tag)
        if batch.real is None:
            return self._key.from_bytes(payload, count=1)[0]
        counted = [*batch.real.tolist(), True]
        total = mpz(1)
        for rows, ciphertexts in blocks(self._key, payload, count=len(counted)):
            kept = [c for c, real in zip(ciphertexts, counted[rows], strict=True) if real]
            total = self._key.add(total, self._key.total(kept))
        return total

    def _own_half_loss(self, scores: Floats, labels: Floats) -> float:
        """Return half of the batch's summed loss as far as the guest knows it alone."""
        with np.errstate(over="ignore", invalid="ignore"):
            summed = (
                len(scores) * (math.log(2.0) + self.share.norm())
                - 0.5 * float(labels @ scores)
                + 0.125 * float(scores @ scores)
            )
        return 0.5 * summed

    def _encode_weights(self, weights: Floats) -> Ints:
        if float(weights.max()) >= 2.0**WEIGHT_BITS:
            raise BadData(
                where="sample weights",
                reason=f"one is more than 2^{WEIGHT_BITS} times as large as their mean",
            )
        return self._scales.fixed.encode(weights, limit_bits=WEIGHT_BITS, what="sample weights")
