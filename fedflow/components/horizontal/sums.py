"""The sum of a round, with masks or without, behind the same methods.

A member's vector holds its contribution as fixed-point integers of a ring, and last its rows. So
the sum is exact, and the same with masks and without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedflow.components.horizontal.packing import Floats, Layout, length_of, pack, unpack
from fedflow.components.secure_aggregation.aggregator import SecureSum
from fedflow.components.secure_aggregation.fixed_point import decode, encode_counted
from fedflow.components.secure_aggregation.member import SecureMember
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage, choose_plan
from fedflow.sdk import DishonestParty, TooFewMembers

Integers = NDArray[np.int64]

__all__ = ["PlainSum", "SecureMember", "SecureSum", "Sum", "decoded", "encoded", "plan_of"]


class Sum(Protocol):
    """The aggregator's half of one sum; see `secure_aggregation.aggregator`."""

    @property
    def stage(self) -> SumStage | None: ...
    @property
    def due(self) -> tuple[str, ...]: ...
    @property
    def is_complete(self) -> bool: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def lost(self) -> dict[str, SumStage]: ...
    def receive(self, member: str, value: object) -> bool: ...
    def close_stage(self) -> dict[str, dict[str, Any]]: ...
    def sum(self) -> Any: ...


def plan_of(
    members: Sequence[str],
    layout: Layout,
    *,
    session: str,
    serial: int,
    least: int,
    fraction_bits: int,
    signed: bool = False,
) -> SumPlan:
    """Return the plan of a sum; the same at all who are given the same.

    Raises: ValueError: no sum is possible.
    """
    return choose_plan(
        members,
        length_of(layout) + 1,
        session=session,
        round=serial,
        min_members=least,
        fraction_bits=fraction_bits,
        aggregator_may_lie=signed,
    )


def encoded(arrays: Any, layout: Layout, *, rows: int, plan: SumPlan) -> Integers:
    """Return a contribution as integers, its rows last.

    Raises: ValueError: the arrays are others. NotEncodable: a number is too large.
    """
    return encode_counted(pack(arrays, layout), plan, count=rows, name="the contribution")


def decoded(total: Integers, layout: Layout, *, plan: SumPlan) -> tuple[dict[str, Floats], int]:
    """Return the sums by name, and the rows of all."""
    return unpack(decode(total[:-1], plan), layout), int(total[-1])


class PlainSum:
    """The aggregator's half without masks: it sees every contribution, and keeps them if told to.

    A contribution that cannot be one is refused by name.
    """

    def __init__(self, plan: SumPlan, *, rows: Mapping[str, int], keeps: bool) -> None:
        """`rows` are those that each member said it has."""
        self._plan = plan
        self._rows = rows
        self._keeps = keeps
        self._arrived: list[str] = []
        self._closed = False
        self._total: Integers = np.zeros(plan.length, dtype=np.int64)
        self.singles: dict[str, Integers] = {}  #: by member, if they are kept

    @property
    def stage(self) -> SumStage | None:
        """Return what is collected; None: the sum is there."""
        return None if self._closed else SumStage.INPUTS

    @property
    def due(self) -> tuple[str, ...]:
        """Return the members whose vector has not arrived."""
        if self._closed:
            return ()
        return tuple(name for name in self._plan.members if name not in self._arrived)

    @property
    def is_complete(self) -> bool:
        """Tell whether to wait no longer."""
        return not self.due

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return whose vectors the sum has, sorted."""
        return tuple(sorted(self._arrived)) if self._closed else ()

    @property
    def lost(self) -> dict[str, SumStage]:
        """Return the members that were left out."""
        if not self._closed:
            return {}
        return {n: SumStage.INPUTS for n in self._plan.members if n not in self._arrived}

    def receive(self, member: str, value: object) -> bool:
        """Take a member's vector; False: it is too late. Raises: DishonestParty."""
        if self._closed:
            return False
        vector = value.get("vector") if isinstance(value, dict) else None
        if not isinstance(vector, np.ndarray) or vector.dtype != np.int64:
            raise self._mistake(member, "it sends no vector")
        if vector.shape != (self._plan.length,):
            raise self._mistake(member, "its vector has another length")
        if member in self._arrived:
            raise self._mistake(member, "it sends its vector twice")
        most = (1 << 62) // len(self._plan.members)
        if vector.size and (int(vector.max()) > most or int(vector.min()) < -most):
            raise self._mistake(member, "its vector has a number out of range")
        if int(vector[-1]) != self._rows[member]:
            reason = f"it contributes {vector[-1]} rows, and said {self._rows[member]}"
            raise self._mistake(member, reason)
        self._arrived.append(member)
        self._total += vector
        if self._keeps:
            self.singles[member] = vector
        return True

    def close_stage(self) -> dict[str, dict[str, Any]]:
        """End the sum with the vectors that arrived. Raises: TooFewMembers."""
        if len(self._arrived) < self._plan.min_members:
            raise TooFewMembers(
                round=self._plan.round,
                stage=SumStage.INPUTS.value,
                reason=f"{len(self._arrived)} of {self._plan.min_members} members",
            )
        self._closed = True
        return {}

    def sum(self) -> Integers:
        """Return the sum."""
        return self._total

    def _mistake(self, member: str, reason: str) -> DishonestParty:
        return DishonestParty(party=member, round=self._plan.round, reason=reason)
