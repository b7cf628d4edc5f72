"""The guest's part of a training: it has the labels and leads the batches.

`GuestTrainer` is what the families share; `quadratic.py` and `poisson.py` know how the encrypted
gradient sums of a batch come about.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.linear.arithmetic import (
    WEIGHT_BITS,
    Floats,
    Ints,
    Scales,
    encode_features,
)
from fedflow.components.linear.batches import GuestBatches, MiniBatch, plan_batches
from fedflow.components.linear.keys import PartyKeys
from fedflow.components.linear.params import MIN_BATCH_ROWS, LinearParams
from fedflow.components.linear.party_weights import PartyWeights
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.session import batch_tag, diverging, send_shape, show_batch
from fedflow.components.linear.sqn import announce_sample, due_direction
from fedflow.components.linear.zeros import MOST_ROWS, Zeros
from fedflow.components.samples.alignment import check_same_rows
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, Context, Role
from fedflow.sdk.crypto.encrypted_rows import IntegerRows, column_sums


class GuestTrainer(ABC):
    """What the guest keeps between batches.

    Raises (each method): Diverged, PeerFailed, CodecError, BadData.
    """

    def __init__(self, ctx: Context, rows: Rows, *, share: PartyWeights, keys: PartyKeys) -> None:
        self.params: LinearParams = ctx.params
        self.family = self.params.family
        self.share = share
        self.ctx = ctx
        self.fed = ctx.federation
        self.hosts = ctx.sites_of(Role.HOST)
        self.rows = rows
        self._arbiter = ctx.only(Role.ARBITER)
        self._told = False  # whether hosts know batches that do not change
        data = rows.data
        self.info = plan_batches(
            self.params, rows=data.rows, hosts=len(self.hosts), weighted=data.weights is not None
        )
        self.scales = Scales.of(self.info, family=self.family, hosts=len(self.hosts))
        encoded = encode_features(data.features, fixed=self.scales.fixed, columns=data.columns)
        if data.weights is not None and float(np.abs(data.weights).max()) >= 2.0**WEIGHT_BITS:
            raise BadData(
                where="sample weights",
                reason=f"one is more than 2^{WEIGHT_BITS} times as large as their mean",
            )
        self.matrix = IntegerRows.of(encoded, ctx.workers)
        self._batches = GuestBatches(self.info, self.params.batch_order)
        self.fed.send("batch_info", self.info.to_json(), to=(*self.hosts, self._arbiter))
        check_same_rows(ctx, data, tag="train")
        send_shape(ctx, self.share.size)
        self.key = keys.public(ctx)
        self.zeros = Zeros(ctx.workers, self.key, most=MOST_ROWS if self.family.quadratic else 0)
        ctx.log.info(
            "training on %s rows in %s batches, %s variant",
            data.rows,
            self.info.batch_num,
            "asynchronous" if self.info.use_async else "central",
        )
        self._warn_of_small_batch()

    @abstractmethod
    def sums(self, batch: MiniBatch, rows: int, *, tag: str) -> bytes:
        """Return the message of a batch's gradient sums and loss; `rows` of them are real."""

    def curvature(self, direction: object, rows: slice | NDArray[np.int64], *, tag: str) -> bytes:
        """Return the message of the sums of d(gradient) along `direction`, an update of weights.

        Only families that offer `sqn` have it.
        """
        raise NotImplementedError

    def run(self, iteration: int) -> None:
        """Take part in one iteration over all batches."""
        batches = self._batches.epoch(iteration)
        if not self.info.stored_order and (not self._told or self.info.batch_mutable):
            self._told = True
            for number, batch in enumerate(batches):
                tag = batch_tag(iteration, number)
                self.fed.send("batch_data_index", batch.rows, to=self.hosts, tag=tag)
        for number, batch in enumerate(batches):
            tag = batch_tag(iteration, number)
            with diverging(iteration):
                message = self.sums(batch, self.info.batch_rows(number), tag=tag)
            self.fed.send("guest_gradient", message, to=self._arbiter, tag=tag)
            following = self.info.rows_after(iteration, number, iterations=self.params.max_iter)
            self.zeros.make(following)
            update = wait_for(self.ctx, "guest_optim_gradient", self._arbiter, tag=tag)
            self.share.apply(update, iteration=iteration)
            self._measure_curvature(iteration, number)
            show_batch(self.ctx, iteration, number, of=self.info.batch_num)

    def _measure_curvature(self, iteration: int, batch: int) -> None:
        step = self.info.step(iteration, batch)
        tag = batch_tag(iteration, batch)
        direction = due_direction(self.ctx, step=step, tag=tag)
        if direction is None:
            return
        sample = announce_sample(self.ctx, rows=self.info.rows, step=step, tag=tag)
        with diverging(iteration):
            message = self.curvature(direction, sample, tag=tag)
        self.fed.send("guest_hess_vector", message, to=self._arbiter, tag=tag)

    def sums_by_features(
        self,
        payload: object,
        rows: slice | NDArray[np.int64],
        *,
        more: Ints | None = None,
        kept: NDArray[np.bool_] | None = None,
    ) -> list[mpz]:
        """Return the sums of a message by the own features, of the intercept if any, by `more`.

        `more` and `kept` are as in `column_sums`.
        """
        intercept = self.share.has_intercept
        sums = column_sums(
            self.ctx.workers,
            self.key,
            payload,
            self.matrix.select(rows),
            more=more,
            kept=kept,
            with_total=intercept,
        )
        if intercept:
            total = sums.pop()
            sums.insert(len(self.rows.data.columns), self.scaled_up(total))
        return sums

    def sums_by(
        self, payload: object, column: Ints, *, kept: NDArray[np.bool_] | None = None
    ) -> mpz:
        """Return the encrypted inner product of a message with one column; `kept` as above."""
        matrix = IntegerRows.of(column[:, None])
        (total,) = column_sums(self.ctx.workers, self.key, payload, matrix, kept=kept)
        return total

    def scaled_up(self, ciphertext: mpz) -> mpz:
        """Return a ciphertext at the scale of one more factor."""
        return self.key.multiply_plain(ciphertext, 1 << self.info.precision)

    def encode_own(self, sums: Floats) -> list[int]:
        """Return own plaintext parts of sums at the sums' scale."""
        return self.scales.fixed.encode_products(
            sums, factors=self.scales.factors, limit_bits=self.scales.sum_bits, what="sums"
        )

    def _warn_of_small_batch(self) -> None:
        last = self.info.batch_rows(self.info.batch_num - 1)
        if last < MIN_BATCH_ROWS:
            self.ctx.log.warning(
                "the last batch has %s row(s): a host can compute their labels from its updates;"
                " choose another batch_size",
                last,
            )
