"""Who takes part in one round of a secure sum, and by which rules. All parties have equal plans.

A secret of a member is shared among its *holders*: itself and its neighbours. `threshold` shares
open a secret, so a coalition of fewer members opens nothing, with the aggregator or without it.

Neighbours are all others, or `neighbours` of them in a circulant graph: members stand in a circle,
ordered by a hash of session and name, and the nearest on both sides are neighbours.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Final, Literal

import numpy as np

MOST_MEMBERS: Final = 1000
MOST_NUMBERS: Final = 1 << 32  #: of a vector
ALL_PAIRS_BYTES: Final = 1 << 30
"""Mask bytes of one member up to which all pairs are taken: a third of a second of one core."""


class SumStage(Enum):
    """What the aggregator collects, in this order."""

    KEYS = "keys"  #: public keys of each member
    SHARES = "shares"  #: secret shares, sealed for their holders
    INPUTS = "inputs"  #: masked vectors
    CONFIRMATIONS = "confirmations"  #: signatures of the set of inputs; only if `signed`
    UNMASKING = "unmasking"  #: shares that remove what masks are left


@dataclass(frozen=True, kw_only=True)
class SumPlan:
    """One round. Raises: ValueError: the numbers do not fit together."""

    session: str  #: of job, component and attempt, such that no other session has this text
    round: int  #: from 0; each number once in a session
    members: tuple[str, ...]  #: names, sorted
    length: int  #: numbers in the vector
    threshold: int  #: shares that open a secret
    min_members: int  #: in every stage; fewer end the round
    neighbours: int | None = None  #: an even number; None: all others
    ring_bits: Literal[32, 64] = 64  #: sums are modulo 2**ring_bits
    fraction_bits: int = 24  #: of the fixed-point numbers, see `fixed_point`
    signed: bool = False  #: the aggregator may lie: keys and the set of inputs are signed
    digest: str = field(init=False, compare=False)  #: SHA-256 of all of these, in hex
    _rank: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if mistake := _mistake(self):
            raise ValueError(mistake)
        values = [getattr(self, one.name) for one in fields(self) if one.init]
        found = hashlib.sha256(json.dumps(values).encode()).hexdigest()
        object.__setattr__(self, "digest", found)
        object.__setattr__(self, "_rank", {name: i for i, name in enumerate(self.members)})

    @property
    def stages(self) -> tuple[SumStage, ...]:
        """Return the stages of a round in order."""
        return tuple(s for s in SumStage if self.signed or s is not SumStage.CONFIRMATIONS)

    @property
    def vector_bytes(self) -> int:
        """Return the size of one masked vector."""
        return self.length * self.ring_bits // 8

    def has(self, name: object) -> bool:
        """Tell whether `name` is a member."""
        return isinstance(name, str) and name in self._rank

    def point(self, member: str) -> int:
        """Return where the shares of a holder are evaluated: its rank, from 1."""
        return self._rank[member] + 1

    def neighbours_of(self, member: str) -> tuple[str, ...]:
        """Return with whom a member has masks in common, sorted."""
        if self.neighbours is None:
            return tuple(name for name in self.members if name != member)
        return _circulant(self.session, self.members, self.neighbours)[member]

    def holders_of(self, member: str) -> tuple[str, ...]:
        """Return who gets a share of a member's secrets: it and its neighbours, sorted."""
        if self.neighbours is None:
            return self.members
        return tuple(sorted((member, *self.neighbours_of(member))))

    def smallest_cut(self, inputs: Collection[str]) -> int | None:
        """Return how many of those whose input arrived could, as a coalition, separate the others.

        The aggregator and they would then know the sums of two groups, not only that of all. None:
        no coalition can, since all others have masks in common.
        """
        if self.neighbours is None:
            return None
        circle = _circle(self.session, self.members)
        return _smallest_cut([name in inputs for name in circle], self.neighbours // 2)


def choose_plan(
    members: Iterable[str],
    length: int,
    *,
    session: str,
    round: int,
    aggregator_may_lie: bool = False,
    min_members: int = 0,
    ring_bits: Literal[32, 64] = 64,
    fraction_bits: int = 24,
) -> SumPlan:
    """Return the plan of a round: thresholds and neighbours by the members and the vector's size.

    All pairs, unless the masks of a member would have more than `ALL_PAIRS_BYTES`: then
    2 log2(members) neighbours. An aggregator that may lie needs all pairs and more than two thirds
    of the members; one that keeps the rules more than half of them.

    Args:
        min_members: more than that if the caller wants more.

    Raises: ValueError: as `SumPlan`.
    """
    names = tuple(sorted(members))
    count = len(names)
    neighbours = None
    if not aggregator_may_lie and (count - 1) * length * ring_bits // 8 > ALL_PAIRS_BYTES:
        wanted = max(8, 2 * (count - 1).bit_length())
        neighbours = wanted if wanted < count - 1 else None
    holders = count if neighbours is None else neighbours + 1
    threshold = 2 * holders // 3 + 1 if aggregator_may_lie else holders // 2 + 1
    least = 2 * count // 3 + 1 if aggregator_may_lie else count // 2 + 1
    return SumPlan(
        session=session,
        round=round,
        members=names,
        length=length,
        threshold=threshold,
        min_members=max(least, min_members),
        neighbours=neighbours,
        ring_bits=ring_bits,
        fraction_bits=fraction_bits,
        signed=aggregator_may_lie,
    )


def _mistake(plan: SumPlan) -> str | None:
    """Return what is wrong with a plan."""
    count = len(plan.members)
    if not 2 <= count <= MOST_MEMBERS:
        return f"{count} members; 2 to {MOST_MEMBERS} are possible"
    if list(plan.members) != sorted(set(plan.members)):
        return "the members are not sorted, or one is there twice"
    if plan.round < 0 or not 1 <= plan.length <= MOST_NUMBERS:
        return f"round {plan.round} or length {plan.length} is out of range"
    if plan.ring_bits not in (32, 64) or not 0 <= plan.fraction_bits <= plan.ring_bits - 2:
        return f"{plan.fraction_bits} fraction bits in a ring of {plan.ring_bits} bits"
    k = plan.neighbours
    if k is not None and (k % 2 or not 2 <= k < count - 1):
        return f"{k} neighbours of {count} members: not even, or not fewer than all others"
    holders = count if k is None else k + 1
    part, name = (2 / 3, "two thirds") if plan.signed else (1 / 2, "half")
    if not holders * part < plan.threshold <= holders:
        return f"threshold {plan.threshold}: not more than {name} of {holders} holders"
    if not count * part < plan.min_members <= count:
        return f"min_members {plan.min_members}: not more than {name} of {count} members"
    if plan.signed and k is not None:
        return "signed rounds have all pairs"
    return None


@functools.lru_cache(maxsize=8)
def _circle(session: str, members: tuple[str, ...]) -> tuple[str, ...]:
    """Return the members in an order that none of them chose."""
    return tuple(
        sorted(members, key=lambda name: hashlib.sha256(f"{session}\0{name}".encode()).digest())
    )


@functools.lru_cache(maxsize=8)
def _circulant(
    session: str, members: tuple[str, ...], neighbours: int
) -> dict[str, tuple[str, ...]]:
    circle, half = _circle(session, members), neighbours // 2
    steps = [step for step in range(-half, half + 1) if step]
    return {
        name: tuple(sorted(circle[(at + step) % len(circle)] for step in steps))
        for at, name in enumerate(circle)
    }


def _smallest_cut(present: list[bool], half: int) -> int | None:
    """Return the fewest that are present in two runs of `half` places which separate others.

    Two parts of a circulant graph are separated exactly if `half` places in a row are missing
    between them, on both sides.
    """
    count = len(present)
    before = np.concatenate([[0], np.cumsum(present + present)])
    first, second = np.triu_indices(count, half + 1)
    runs = before[half:] - before[:-half]  #: present in the run that begins at a place
    between = before[second] - before[first + half]
    around = before[first + count] - before[second + half]
    cuts = (runs[first] + runs[second])[(between > 0) & (around > 0)]
    return int(cuts.min()) if cuts.size else None
