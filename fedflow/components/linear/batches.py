"""How the guest cuts the rows into batches, and what it tells the others about that.

Guest and hosts hold the same rows in the same order (`samples.alignment`), so a batch
travels as row numbers. With a masked rate r, hosts see a batch of
min(rows, round((1 + r) * batch_size)) rows in random order, of which the guest alone knows the real
ones; for the others it sends encrypted zeros.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.params import MIN_BATCH_ROWS, BatchOrder, LinearParams
from fedflow.components.samples.alignment import checked_rows
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError

Rows = NDArray[np.int64]


class BatchInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the guest announces before training, message `batch_info`."""

    rows: int
    batch_size: int  #: real rows of a batch; the last one may have fewer
    batch_num: int
    masked_batch_size: int  #: rows of a batch that hosts see
    batch_mutable: bool  #: rows are drawn anew in each iteration
    whole_draws: bool  #: every batch has `batch_size` rows (strategy `random`)
    use_async: bool
    with_loss: bool
    weighted: bool  #: residuals carry the guest's sample weights
    precision: int  #: fraction bits of features and residuals

    def batch_rows(self, batch: int) -> int:
        """Return how many real rows batch number `batch` has."""
        if self.whole_draws:
            return self.batch_size
        return min(self.batch_size, self.rows - batch * self.batch_size)

    def shown_rows(self, batch: int) -> int:
        """Return how many rows of batch number `batch` hosts see."""
        return self.masked_batch_size if self.masked else self.batch_rows(batch)

    def rows_after(self, iteration: int, batch: int, *, iterations: int) -> int:
        """Return how many rows hosts see of the batch after this one; 0: it is the last."""
        if self.step(iteration, batch) == iterations * self.batch_num:
            return 0
        return self.shown_rows((batch + 1) % self.batch_num)

    def step(self, iteration: int, batch: int) -> int:
        """Return how many batches have been used once this one has, from 1."""
        return iteration * self.batch_num + batch + 1

    @property
    def masked(self) -> bool:
        """Tell whether hosts see decoys."""
        return self.masked_batch_size > self.batch_size

    @property
    def stored_order(self) -> bool:
        """Tell whether batches are consecutive rows, which hosts can cut by themselves."""
        return not (self.batch_mutable or self.masked or self.whole_draws)

    def to_json(self) -> dict[str, Any]:
        """Return the message."""
        return dict(msgspec.structs.asdict(self))

    @staticmethod
    def from_json(value: object) -> BatchInfo:
        """Return the announcement in a message. Raises: CodecError: none, or contradictory."""
        try:
            info = read_as(value, BatchInfo)
        except msgspec.ValidationError as exc:
            raise CodecError(reason=f"batch_info: {exc}") from exc
        fits = (
            min(MIN_BATCH_ROWS, info.rows) <= info.batch_size <= info.masked_batch_size
            and 1 <= info.masked_batch_size <= info.rows
            and info.batch_num == -(-info.rows // info.batch_size)
            and 0 <= info.precision <= 30
        )
        if not fits:
            raise CodecError(reason="batch_info: the numbers do not fit together")
        return info


@dataclass(frozen=True, kw_only=True, slots=True)
class MiniBatch:
    """Rows to work on together."""

    rows: slice | Rows  #: what hosts see
    real: NDArray[np.bool_] | None  #: which of them count; None = all


def plan_batches(params: LinearParams, *, rows: int, hosts: int, weighted: bool) -> BatchInfo:
    """Return how `rows` rows are cut, and which variant of the protocol fits."""
    order = params.batch_order
    one_batch = params.batch_size == -1 or params.batch_size >= rows
    size = rows if one_batch else params.batch_size
    whole_draws = not one_batch and order.free_draws
    masked_size = min(rows, max(size, round((1.0 + order.masked_rate) * size)))
    return BatchInfo(
        rows=rows,
        batch_size=size,
        batch_num=-(-rows // size),
        masked_batch_size=masked_size,
        batch_mutable=not one_batch and (order.shuffle or whole_draws),
        whole_draws=whole_draws,
        use_async=(params.family.quadratic and hosts == 1 and not weighted and masked_size == size),
        with_loss=hosts == 1,
        weighted=weighted,
        precision=params.precision_bits,
    )


class GuestBatches:
    """Draws the batches.

    With a seed each iteration's draws follow from the seed and its number, so that a training that
    goes on draws what an uninterrupted one would.
    """

    def __init__(self, info: BatchInfo, order: BatchOrder) -> None:
        self._info = info
        self._order = order
        self._generator: np.random.Generator | None = None
        self._fixed: list[MiniBatch] | None = None

    def epoch(self, iteration: int) -> list[MiniBatch]:
        """Return an iteration's batches; the same ones again unless they are mutable."""
        if self._fixed is not None:
            return self._fixed
        if self._order.random_seed is not None:
            number = iteration if self._info.batch_mutable else 0
            self._generator = np.random.default_rng([self._order.random_seed, number])
        batches = list(self._draw())
        if not self._info.batch_mutable:
            self._fixed = batches
        return batches

    def _draw(self) -> Iterator[MiniBatch]:
        info = self._info
        if info.stored_order:
            yield from _consecutive(info)
            return
        order = self._permutation() if self._order.shuffle else np.arange(info.rows)
        for number in range(info.batch_num):
            if info.whole_draws:
                real = self._permutation()[: info.batch_size]
            else:
                real = order[number * info.batch_size : (number + 1) * info.batch_size]
            yield self._with_decoys(real) if info.masked else MiniBatch(rows=real, real=None)

    def _with_decoys(self, real: Rows) -> MiniBatch:
        shuffled = self._permutation()
        is_real = np.zeros(self._info.rows, dtype=bool)
        is_real[real] = True
        decoys = shuffled[~is_real[shuffled]][: self._info.masked_batch_size - len(real)]
        chosen = np.zeros(self._info.rows, dtype=bool)
        chosen[real] = chosen[decoys] = True
        rows = shuffled[chosen[shuffled]]
        return MiniBatch(rows=rows, real=is_real[rows])

    def _permutation(self) -> Rows:
        """Return all row numbers in random order; unpredictable unless a seed was given."""
        rows = self._info.rows
        if self._generator is not None:
            return self._generator.permutation(rows).astype(np.int64)
        keys = np.frombuffer(secrets.token_bytes(8 * rows), dtype=np.uint64)
        return np.argsort(keys).astype(np.int64)


class HostBatches:
    """Follows the guest's draws."""

    def __init__(self, info: BatchInfo) -> None:
        self._info = info
        self._fixed = list(_consecutive(info)) if info.stored_order else None

    @property
    def announced(self) -> bool:
        """Tell whether the next epoch needs the guest's row numbers."""
        return self._fixed is None

    def epoch(self, announced: Sequence[object] = ()) -> list[MiniBatch]:
        """Return the next iteration's batches.

        Raises: CodecError: row numbers are out of range, repeated, or not as many as agreed.
        """
        if self._fixed is not None:
            return self._fixed
        info = self._info
        batches = [
            MiniBatch(
                rows=checked_rows(
                    rows, of=info.rows, count=info.shown_rows(number), message="batch_data_index"
                ),
                real=None,
            )
            for number, rows in enumerate(announced)
        ]
        if not self._info.batch_mutable:
            self._fixed = batches
        return batches


def _consecutive(info: BatchInfo) -> Iterator[MiniBatch]:
    for start in range(0, info.rows, info.batch_size):
        yield MiniBatch(rows=slice(start, min(start + info.batch_size, info.rows)), real=None)
