"""The messages of a round, and how both ends read them: all that comes from a peer is checked here.

| stage | question, aggregator -> member | answer, member -> aggregator |
|---|---|---|
| keys | none | keys: two public keys; signature |
| shares | members, keys, signatures: of all | members, sealed, digests, seed_digest |
| inputs | members, sealed, digests: by dealer | vector: the masked one |
| confirmations | members: whose input arrived | signature: of this set |
| unmasking | members; signers, signatures | members, shares: one per dealer |

All are dicts that the data plane carries, with session, round, stage and the digest of the plan.
Answers have the name of their member, too. `members` is the set that a question is about, and an
answer repeats it. `sealed` has a pair of shares for each holder but the dealer, `digests` has
commitments to both for each, and `seed_digest` is one to the seed. What belongs to several members
stands one after the other, in the order of names. Signatures are only in rounds with `Plan.signed`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from fedflow.components.secure_aggregation.masks import Ring
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage
from fedflow.sdk import DishonestParty

Message: TypeAlias = dict[str, Any]
"""A value that the data plane carries: JSON, bytes, numpy arrays."""

AGGREGATOR: Final = "the aggregator"
MOST_SIGNATURE_BYTES: Final = 16_384  #: with the certificates that it needs


def message(plan: SumPlan, stage: SumStage, **fields: object) -> Message:
    """Return a message of a stage."""
    header = {"session": plan.session, "round": plan.round, "stage": stage.value}
    return {**header, "plan": plan.digest, **fields}


def is_of(value: object, plan: SumPlan, stage: SumStage) -> bool:
    """Tell whether something says that it is a message of this round and stage."""
    header = message(plan, stage)
    return isinstance(value, Mapping) and all(_is(value.get(k), v) for k, v in header.items())


class CheckedMessage:
    """A message of a party, whose fields are read with checks. All raise `DishonestParty`."""

    def __init__(
        self, value: object, plan: SumPlan, stage: SumStage, *, party: str, fields: frozenset[str]
    ) -> None:
        """Check that it is of this session, round and stage, and has these further fields."""
        self._plan, self._party = plan, party
        if not isinstance(value, Mapping):
            raise self.mistake(f"a {type(value).__name__} is no message")
        expected = message(plan, stage)
        for name, due in expected.items():
            if not _is(value.get(name), due):
                raise self.mistake(f"{name} is {_shown(value.get(name))}, where {due!r} was due")
        if value.keys() != expected.keys() | fields:
            raise self.mistake(f"the fields of a message of {stage.value} are others")
        self._value = value

    def mistake(self, reason: str) -> DishonestParty:
        """Return the error that names the sender."""
        return DishonestParty(party=self._party, round=self._plan.round, reason=reason)

    def text(self, name: str, size: int) -> bytes:
        """Return a field of exactly `size` bytes."""
        found = self._value[name]
        if not isinstance(found, bytes) or len(found) != size:
            raise self.mistake(f"{name} is not {size} bytes")
        return found

    def pieces(self, name: str, count: int, size: int) -> list[bytes]:
        """Return `count` texts of `size` bytes that stand one after the other."""
        joined = self.text(name, count * size)
        return [joined[at : at + size] for at in range(0, count * size, size)]

    def signature(self, name: str) -> bytes:
        """Return a signature, which is not verified."""
        return self._signature(self._value[name])

    def signatures(self, name: str, count: int) -> list[bytes]:
        """Return `count` signatures."""
        found = self._value[name]
        if not isinstance(found, list) or len(found) != count:
            raise self.mistake(f"{name} is no list of {count}")
        return [self._signature(one) for one in found]

    def member(self, name: str) -> None:
        """Check that the sender calls itself `name`."""
        found = self._value["member"]
        if not _is(found, name):
            raise self.mistake(f"it calls itself {_shown(found)}")

    def members(self, name: str, *, within: tuple[str, ...]) -> tuple[str, ...]:
        """Return a sorted set of names, all of which are in `within`."""
        found = self._value[name]
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self.mistake(f"{name} is no list of names")
        if any(a >= b for a, b in itertools.pairwise(found)):
            raise self.mistake(f"{name} are not sorted, or one is there twice")
        if outside := set(found) - set(within):
            raise self.mistake(f"{name}: {min(outside)[:100]!r} was not there before")
        return tuple(found)

    def vector(self, name: str) -> Ring:
        """Return a vector of the plan's ring and length."""
        found = self._value[name]
        kind = np.dtype(f"u{self._plan.ring_bits // 8}")
        if (
            not isinstance(found, np.ndarray)
            or found.dtype != kind
            or found.shape != (self._plan.length,)
        ):
            raise self.mistake(f"{name} is no {kind} array of {self._plan.length} numbers")
        return found

    def _signature(self, found: object) -> bytes:
        if not isinstance(found, bytes) or not 1 <= len(found) <= MOST_SIGNATURE_BYTES:
            raise self.mistake("a signature is none")
        return found


def _is(found: object, due: object) -> bool:
    """Compare what may be anything with a text or number."""
    return type(found) is type(due) and found == due


def _shown(found: object) -> str:
    """Return a short text of what may be anything, and of any size."""
    if isinstance(found, str) or (isinstance(found, int) and found.bit_length() <= 64):
        return repr(found)[:100]
    return f"a {type(found).__name__}"
