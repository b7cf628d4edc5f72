"""A host's part of a training: it has features only and follows the guest's batches.

`HostTrainer` is what the families share; `quadratic.py` and `poisson.py` know what a host sends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.arithmetic import (
    Floats,
    Scales,
    encode_features,
    pack_sums,
)
from fedflow.components.linear.batches import BatchInfo, HostBatches, MiniBatch
from fedflow.components.linear.keys import PartyKeys
from fedflow.components.linear.params import LinearParams
from fedflow.components.linear.party_weights import PartyWeights
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.session import batch_tag, diverging, send_shape, show_batch
from fedflow.components.linear.sqn import announced_sample, due_direction
from fedflow.components.linear.zeros import MOST_ROWS, Zeros
from fedflow.components.samples.alignment import check_same_rows
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role
from fedflow.sdk.crypto.encrypted_rows import IntegerRows, column_sums
from fedflow.sdk.errors import CodecError


class HostTrainer(ABC):
    """What a host keeps between batches.

    Raises (each method): Diverged, PeerFailed, CodecError, BadData.
    """

    def __init__(self, ctx: Context, rows: Rows, *, share: PartyWeights, keys: PartyKeys) -> None:
        self.params: LinearParams = ctx.params
        self.family = self.params.family
        self.ctx = ctx
        self.fed = ctx.federation
        self.guest = ctx.only(Role.GUEST)
        self.rows = rows
        self.share = share
        self._arbiter = ctx.only(Role.ARBITER)
        data = rows.data
        self.info = BatchInfo.from_json(wait_for(ctx, "batch_info", self.guest))
        check_same_rows(ctx, data, tag="train")
        if self.info.rows != data.rows:
            raise CodecError(reason="batch_info: another number of rows than sample_ids")
        hosts = len(ctx.sites_of(Role.HOST))
        self.scales = Scales.of(self.info, family=self.family, hosts=hosts)
        encoded = encode_features(data.features, fixed=self.scales.fixed, columns=data.columns)
        self.matrix = IntegerRows.of(encoded, ctx.workers)
        self._batches = HostBatches(self.info)
        send_shape(ctx, self.share.size)
        self.key = keys.public(ctx)
        self.zeros = Zeros(ctx.workers, self.key, most=MOST_ROWS if self.family.quadratic else 0)

    @abstractmethod
    def sums(self, batch: MiniBatch, rows: int, *, tag: str) -> bytes:
        """Send what the guest needs and return the message of a batch's gradient sums."""

    def curvature(self, direction: object, rows: slice | NDArray[np.int64], *, tag: str) -> bytes:
        """See `GuestTrainer.curvature`."""
        raise NotImplementedError

    def run(self, iteration: int) -> None:
        """Take part in one iteration over all batches."""
        for number, batch in enumerate(self._epoch(iteration)):
            tag = batch_tag(iteration, number)
            with diverging(iteration):
                message = self.sums(batch, self.info.batch_rows(number), tag=tag)
            self.fed.send("host_gradient", message, to=self._arbiter, tag=tag)
            following = self.info.rows_after(iteration, number, iterations=self.params.max_iter)
            self.zeros.make(following)
            update = wait_for(self.ctx, "host_optim_gradient", self._arbiter, tag=tag)
            self.share.apply(update, iteration=iteration)
            self._measure_curvature(iteration, number)
            show_batch(self.ctx, iteration, number, of=self.info.batch_num)

    def _measure_curvature(self, iteration: int, batch: int) -> None:
        tag = batch_tag(iteration, batch)
        direction = due_direction(self.ctx, step=self.info.step(iteration, batch), tag=tag)
        if direction is None:
            return
        sample = announced_sample(self.ctx, rows=self.info.rows, tag=tag)
        with diverging(iteration):
            message = self.curvature(direction, sample, tag=tag)
        self.fed.send("host_hess_vector", message, to=self._arbiter, tag=tag)

    def _epoch(self, iteration: int) -> list[MiniBatch]:
        if not self._batches.announced:
            return self._batches.epoch()
        tags = [batch_tag(iteration, number) for number in range(self.info.batch_num)]
        rows = [wait_for(self.ctx, "batch_data_index", self.guest, tag=tag) for tag in tags]
        return self._batches.epoch(rows)

    def gradient_message(
        self, residuals: object, own: Floats, rows: slice | NDArray[np.int64]
    ) -> bytes:
        """Return the message of the sums of encrypted `residuals` by features, plus own parts."""
        sums = column_sums(self.ctx.workers, self.key, residuals, self.matrix.select(rows))
        parts = self.scales.fixed.encode_products(
            own, factors=self.scales.factors, limit_bits=self.scales.sum_bits, what="sums"
        )
        return pack_sums(self.key, sums, parts, slot_bits=self.scales.slot_bits)
