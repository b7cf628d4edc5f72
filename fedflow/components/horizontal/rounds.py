"""What a round is, apart from messages: its rules, the state before and after it, who took part.

Round r, from 0, takes every counted member's contribution to state r and makes state r + 1 of their
sum. A state is everything that a round needs, so whoever has one can go on from it: arrays, and
`notes` in plain JSON such as the history of losses. All have the same state, named by its digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.horizontal.packing import Arrays, Floats, Layout, layout_of, pack
from fedflow.sdk import Site
from fedflow.sdk.decoding import read_as

MOST_ROWS: Final = 1 << 40  #: that a member may say it has

HISTORY: Final = "rounds"  #: the entry of a state's notes that says who took part in which

FIRST_JOIN_S: Final = 600.0  #: how long the first members may take to come, seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Elasticity:
    """How absent members are borne. None in its place: every member takes part in every round."""

    min_parties: int  #: members; with fewer training fails
    max_parties: int | None = None  #: members; None: all
    round_deadline_s: float = 60.0  #: of each stage of a round; who is later is left out of it
    last_call_s: float = 5.0  #: once `min_parties` are ready, how long more are waited for
    rejoin: bool = True  #: who was left out may take part again


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundRules:
    """How the rounds of one run go; the same at all parties."""

    elastic: Elasticity | None = None
    secure: bool = True  #: False: the aggregator sees every member's contribution
    signed: bool = False  #: keys of members are signed, more than two thirds take part to the end
    fraction_bits: int = 24  #: numbers are rounded to multiples of 2**-fraction_bits
    most_rounds: int = 1_000_000  #: a state of a later round is no state


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundState:
    """What stands before round `round`; `ended`: there is no such round."""

    round: int  #: how many rounds made it
    arrays: Arrays
    notes: Mapping[str, Any] = field(default_factory=dict)  #: plain JSON
    ended: bool = False
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """Return a name of all of it (SHA-256), computed once."""
        if not self._digest:
            self._digest.append(self._computed())
        return self._digest[0]

    def _computed(self) -> str:
        about = [self.round, layout_of(self.arrays), self.notes, self.ended]
        text = json.dumps(about, sort_keys=True, allow_nan=False)
        found = hashlib.sha256(text.encode())
        found.update(pack(self.arrays, layout_of(self.arrays)).tobytes())
        return found.hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Newcomer:
    """What a member says of itself when it comes."""

    rows: int  #: its weight, which everybody may know
    about: Mapping[str, Any]  #: plain JSON, as the component likes


@dataclass(frozen=True, kw_only=True, slots=True)
class Total:
    """The sum of a round."""

    arrays: Arrays  #: sums over the counted members, whose parts nobody knows
    rows: int  #: of all of them
    counted: Mapping[Site, int]  #: who took part, with how many rows
    singles: Mapping[Site, Arrays] = field(default_factory=dict)  #: only if `needs_singles`


@dataclass(frozen=True, kw_only=True, slots=True)
class Participation:
    """Who took part in a round."""

    round: int
    counted: Mapping[Site, int]  #: with how many rows
    left_out: Mapping[Site, str]  #: and why
    seconds: float  #: from the start of the round to the sum


def history_with(notes: Mapping[str, Any], one: Participation) -> list[dict[str, Any]]:
    """Return `notes["rounds"]` with a further round; rounds with the same members are one entry.

    An entry has `first` and `last` round, `counted` {site: rows} and `left_out` {site: reason}.
    """
    counted = {site.key: rows for site, rows in one.counted.items()}
    left_out = {site.key: reason for site, reason in one.left_out.items()}
    entries = list(notes.get(HISTORY, ()))
    if entries and (entries[-1]["counted"], entries[-1]["left_out"]) == (counted, left_out):
        entries[-1] = {**entries[-1], "last": one.round}
        return entries
    entry = {"first": one.round, "last": one.round, "counted": counted, "left_out": left_out}
    return [*entries, entry]


def check_history(notes: Mapping[str, Any], rounds: int) -> None:
    """Do nothing if `notes["rounds"]`, if there is one, says of each of `rounds` who took part.

    Raises: ValueError: it does not.
    """
    if HISTORY not in notes:
        return
    try:
        entries = read_as(notes[HISTORY], list[_Entry])
    except msgspec.ValidationError as exc:
        raise ValueError(f"{HISTORY}: {exc}") from exc
    following = 0
    for entry in entries:
        if entry.first != following or entry.last < entry.first:
            raise ValueError(f"{HISTORY}: round {following} is missing, or there twice")
        following = entry.last + 1
    if following != rounds:
        raise ValueError(f"{HISTORY}: there are {following} of {rounds}")


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    first: int
    last: int
    counted: dict[str, int]
    left_out: dict[str, str]


class Combiner(Protocol):
    """The aggregator's half of a component: what the sums mean."""

    @property
    def needs_singles(self) -> bool:
        """Tell whether it looks at each member's contribution, so that nothing is masked."""

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        """Return why a member cannot take part in the rounds of `state`, None if it can."""

    def mistake(self, state: RoundState) -> str | None:
        """Return why what a member calls the state cannot be it, None if it can."""

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        """Return state 0. Raises: FedflowError: the members do not fit together."""

    def layout(self, state: RoundState) -> Layout:
        """Return names and shapes of what members contribute to the round of `state`."""

    def combine(self, state: RoundState, total: Total) -> RoundState:
        """Return the next state; its `round` is one more.

        Raises: ValueError: the sum cannot be right; the round is given up, nobody is to blame.
        """


class Worker(Protocol):
    """A member's half of a component."""

    @property
    def newcomer(self) -> Newcomer:
        """Return what this member says of itself."""

    def work(self, state: RoundState, counted: Sequence[Site]) -> Mapping[str, NDArray[Any]]:
        """Return the contribution to the round of `state`: arrays of the layout, to be summed.

        `counted` began the round together. Raises: FedflowError: the run fails here.
        """

    def took(self, state: RoundState) -> None:
        """See every state that comes, each once, the last one with `ended`."""


def weighted(arrays: Mapping[str, NDArray[Any]], rows: int) -> dict[str, Floats]:
    """Return `rows` times the arrays: a member's part of means by rows."""
    return {name: np.asarray(array, dtype=np.float64) * rows for name, array in arrays.items()}


def means(total: Total) -> dict[str, Floats]:
    """Return the means of what `weighted` gave."""
    return {name: array / total.rows for name, array in total.arrays.items()}


def threshold(members: int) -> int:
    """Return how many members open a round's sum: more than a half, and no one alone."""
    return max(2, members // 2 + 1) if members > 1 else 1


def least_members(rules: RoundRules, sites: int) -> int:
    """Return how many of `sites` that may take part a round begins with, at least."""
    return sites if rules.elastic is None else max(2, rules.elastic.min_parties)


def fewest(rules: RoundRules, members: int) -> int:
    """Return how many of `members` a round needs to the end."""
    if rules.elastic is None:
        return members
    return min(members, max(rules.elastic.min_parties, threshold(members)))
