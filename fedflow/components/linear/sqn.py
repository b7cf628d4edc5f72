"""The stochastic quasi-Newton optimizer: curvature pairs from products of the Hessian.

After every `update_interval_L` batches the arbiter knows how far the average weights have moved
(the *direction* s). All parties compute the change y = H s of the mean gradient over a sample of
rows. For a quadratic loss that is the protocol of a batch with s for the weights and no labels. The
arbiter keeps the last `memory_M` pairs and multiplies gradients with the inverse Hessian that they
approximate. Until there is a pair it steps along the gradient.

MESSAGES

Source: Byrd, Hansen, Nocedal, Singer 2016, "A Stochastic Quasi-Newton Method for Large-Scale
Optimization", algorithms 1 and 2; federated after Yang et al. 2019 (arXiv:1912.00513).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.params import SqnParam
from fedflow.components.samples.alignment import checked_rows
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
sqn_direction | model | arbiter -> guest, hosts | float64 s of the own weights, or null: none yet
sqn_sample_index | rows | guest -> hosts | int64 row numbers, or null: all rows
host_sqn_forwards | ciphertext | host -> guest | [[slope * x_h s_h]] per row of the sample
forward_hess | ciphertext | guest -> hosts | [[slope * x s]] per row, times its weight
guest_hess_vector, host_hess_vector | sealed | -> arbiter | packed sums, as for a gradient
""")

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

FLAT = 1e-12  #: a pair with y @ s below this times |y| |s| says nothing and is left out


@dataclass
class QuasiNewton:
    """The arbiter's rule; positions are relative to the start weights, which it does not know."""

    settings: InitVar[SqnParam]
    position: Floats | float = 0.0
    total: Floats | float = 0.0  #: of the positions since the last average
    count: int = 0  #: how many these are
    average: Floats | float = 0.0  #: the last one
    averages: int = 0  #: how many there have been
    directions: Floats | float = 0.0  #: pairs x weights, oldest first; 0.0 = none
    changes: Floats | float = 0.0  #: pairs x weights
    _memory: int = field(init=False)

    def __post_init__(self, settings: SqnParam) -> None:
        self._memory = settings.memory_M

    def step(self, gradient: Floats, rate: float) -> Floats:
        """Return the update that the weights are to be reduced by."""
        self.total = self.total + self.position
        self.count += 1
        update = rate * self._newton(gradient)
        self.position = self.position - update
        return update

    def direction(self) -> Floats | None:
        """Average the positions since the last time; return how far that is from the last average.

        None the first time.
        """
        average = np.asarray(self.total, dtype=np.float64) / max(self.count, 1)
        moved = average - self.average
        self.total, self.count, self.average = 0.0, 0, average
        self.averages += 1
        return moved if self.averages > 1 else None

    def learn(self, direction: Floats, change: Floats) -> None:
        """Keep a pair, unless it shows no curvature."""
        scale = float(np.linalg.norm(direction) * np.linalg.norm(change))
        if float(direction @ change) <= FLAT * scale:
            return
        self.directions = self._kept(self.directions, direction)
        self.changes = self._kept(self.changes, change)

    def _kept(self, pairs: Floats | float, new: Floats) -> Floats:
        old = pairs if isinstance(pairs, np.ndarray) else np.empty((0, len(new)))
        return np.vstack((old, new))[-self._memory :]

    def _newton(self, gradient: Floats) -> Floats:
        """Return the gradient times the approximate inverse Hessian (two-loop recursion)."""
        if not isinstance(self.directions, np.ndarray) or not isinstance(self.changes, np.ndarray):
            return gradient
        pairs: Sequence[tuple[Floats, Floats]] = list(
            zip(self.directions, self.changes, strict=True)
        )
        result = gradient
        parts = []
        for s, y in reversed(pairs):
            part = float(s @ result) / float(y @ s)
            result = result - part * y
            parts.append(part)
        s, y = pairs[-1]
        result = result * (float(s @ y) / float(y @ y))
        for (s, y), part in zip(pairs, reversed(parts), strict=True):
            result = result + s * (part - float(y @ result) / float(y @ s))
        return result


def is_due(settings: SqnParam | None, step: int) -> bool:
    """Tell whether curvature is looked at after so many batches."""
    return settings is not None and step % settings.update_interval_L == 0


def due_direction(ctx: Context, *, step: int, tag: str) -> object:
    """Return the arbiter's direction for the own weights at guest and hosts, None for none now."""
    if not is_due(ctx.params.sqn, step):
        return None
    return wait_for(ctx, "sqn_direction", ctx.only(Role.ARBITER), tag=tag)


def announce_sample(ctx: Context, *, rows: int, step: int, tag: str) -> slice | Rows:
    """Draw the rows of a curvature estimate at the guest, and tell the hosts."""
    settings: SqnParam = ctx.params.sqn
    hosts = ctx.sites_of(Role.HOST)
    if settings.sample_size >= rows:
        ctx.federation.send("sqn_sample_index", None, to=hosts, tag=tag)
        return slice(None)
    seed = settings.random_seed
    generator = np.random.default_rng(None if seed is None else [seed, step])
    chosen = generator.choice(rows, size=settings.sample_size, replace=False).astype(np.int64)
    ctx.federation.send("sqn_sample_index", chosen, to=hosts, tag=tag)
    return chosen


def announced_sample(ctx: Context, *, rows: int, tag: str) -> slice | Rows:
    """Return the guest's rows at a host. Raises: CodecError: not as many as `sqn_param` says."""
    settings: SqnParam = ctx.params.sqn
    told = wait_for(ctx, "sqn_sample_index", ctx.only(Role.GUEST), tag=tag)
    if told is None and settings.sample_size >= rows:
        return slice(None)
    return checked_rows(told, of=rows, count=settings.sample_size, message="sqn_sample_index")
