"""A host's part of a HeteroLR training: it has features only and follows the guest's batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors import CodecError
from fedflow.components.crypto.fixed_point import check_range
from fedflow.components.instances.alignment import check_same_rows
from fedflow.components.instances.reading import Instances
from fedflow.components.linear.arithmetic import (
    Scales,
    dot,
    encode_features,
    encode_share,
    pack_sums,
)
from fedflow.components.linear.batches import Batch, BatchInfo, HostBatches
from fedflow.components.linear.callbacks import Callbacks
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


def train_host(
    ctx: Context, data: Instances, *, share: WeightShare, callbacks: Callbacks, start: Progress
) -> Progress:
    """Train the host's weights, `share`. Raises: Diverged, PeerFailed, CodecError, BadData."""
    trainer = _HostTrainer(ctx, data, share=share)
    return follow_arbiter(ctx, trainer.run, callbacks=callbacks, start=start)


class _HostTrainer:
    """What a host keeps between batches."""

    def __init__(self, ctx: Context, data: Instances, *, share: WeightShare) -> None:
        if not data.columns:
            raise BadData(where=f"{ctx.site}'s data", reason="has no feature columns")
        self._ctx = ctx
        self._fed = ctx.federation
        self._guest = ctx.only(Role.GUEST)
        self._arbiter = ctx.only(Role.ARBITER)
        self._data = data
        self._info = BatchInfo.from_json(self._fed.recv("batch_info", from_=self._guest))
        check_same_rows(ctx, data, tag="train")
        if self._info.rows != data.rows:
            raise CodecError(reason="batch_info: another number of rows than sample_ids")
        self._scales = Scales.of(self._info, hosts=len(ctx.sites_of(Role.HOST)))
        self._encoded = encode_features(
            data.features, fixed=self._scales.fixed, columns=data.columns
        )
        self._batches = HostBatches(self._info)
        self.share = share
        send_shape(ctx, self.share.size)
        self._key = receive_key(ctx)

    def run(self, iteration: int) -> None:
        """Take part in one iteration over all batches."""
        for number, batch in enumerate(self._epoch(iteration)):
            tag = batch_tag(iteration, number)
            with diverging(iteration):
                message = self._sums(batch, self._info.batch_rows(number), tag=tag)
            self._fed.send("host_gradient", message, to=self._arbiter, tag=tag)
            update = self._fed.recv("host_optim_gradient", from_=self._arbiter, tag=tag)
            self.share.apply(update, iteration=iteration)

    def _epoch(self, iteration: int) -> list[Batch]:
        if not self._batches.announced:
            return self._batches.epoch()
        tags = [batch_tag(iteration, number) for number in range(self._info.batch_num)]
        rows = [self._fed.recv("batch_data_index", from_=self._guest, tag=tag) for tag in tags]
        return self._batches.epoch(rows)

    def _sums(self, batch: Batch, rows: int, *, tag: str) -> bytes:
        """Send the own forwards and return the message of this batch's gradient sums."""
        features = self._data.features[batch.rows]
        quarter = 0.25 * self.share.scores(features)
        encoded = encode_share(quarter, fixed=self._scales.fixed)
        forward = self._key.to_bytes(self._key.encrypt(encoded.tolist()))
        self._fed.send("host_forward_dict", forward, to=self._guest, tag=tag)
        if self._info.with_loss:
            loss = self._half_loss(quarter, encoded, rows=rows)
            payload = self._key.to_bytes(self._key.encrypt(loss))
            self._fed.send("loss_intermediate", payload, to=self._guest, tag=tag)
        residuals = self._fed.recv("fore_gradient", from_=self._guest, tag=tag)
        sums = dot(self._key, residuals, self._encoded[batch.rows])
        own = self.share.sums(features, quarter if self._info.use_async else None, rows=rows)
        parts = self._scales.fixed.encode_products(
            own, factors=self._scales.factors, limit_bits=self._scales.sum_bits, what="sums"
        )
        return pack_sums(self._key, sums, parts, slot_bits=self._scales.slot_bits)

    def _half_loss(self, quarter: Floats, encoded: Ints, *, rows: int) -> list[int]:
        """Return half of the loss' part that only the host knows, at the scale of a product.

        One number; if the guest hides the real rows, a number per row and then the penalty's.
        """
        fixed, limit = self._scales.fixed, self._scales.sum_bits
        squares = float(quarter @ quarter)
        norm = 0.5 * rows * self.share.norm()
        if not self._info.masked:
            return fixed.encode_products(
                [squares + norm], factors=2, limit_bits=limit, what="loss sums"
            )
        check_range(np.array([squares + norm]), limit_bits=limit, what="loss sums")
        per_row = [value * value for value in encoded.tolist()]
        return [
            *per_row,
            *fixed.encode_products([norm], factors=2, limit_bits=limit, what="loss sums"),
        ]
