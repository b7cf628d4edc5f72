"""The two sides of a pair of parties, whatever the method.

The *finder* learns which of its ids the *holder* has. The holder offers its blinded ids and answers
the finder's questions. `commutative` and `blind_rsa_sides` implement both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from fedflow.components.intersection.elements import Elements, Positions
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Site


class StepProgress:
    """Turns the progress of equal steps into that of the whole."""

    def __init__(self, ctx: Context, *, steps: int) -> None:
        self._tracker = ctx.tracker
        self._steps = steps
        self._begun = 0

    def step(self) -> Callable[[float], None]:
        """Begin the next step; the result takes the step's own progress, 0 to 1."""
        before = self._begun
        self._begun += 1
        return lambda done: self._tracker.progress(min(1.0, (before + done) / self._steps))


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One party's view of a pair."""

    ctx: Context
    peer: Site
    ids: pa.Array  #: own, distinct, strings
    peer_rows: int  #: how many ids the other side uses
    domain: bytes  #: of hashes; both sides have the same
    progress: StepProgress

    def send(self, name: str, value: object) -> None:
        """Send a value to the other side."""
        self.ctx.federation.send(name, value, to=self.peer)

    def recv(self, name: str) -> object:
        """Wait for a value of the other side."""
        return wait_for(self.ctx, name, self.peer)


@dataclass(frozen=True, kw_only=True, slots=True)
class HolderOffer:
    """What a finder has of a holder: its blinded ids, and the public key if there is one."""

    elements: Elements
    public: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What a holder keeps: its secret as text, and its ids in the order of its blinded ones."""

    secret: str
    order: Positions


class Finder(Protocol):
    """Learns which of its ids the holder has; methods are called in this order, once each."""

    def request(self) -> None:
        """Send the own ids, blinded."""

    def find(self) -> Positions:
        """Return for each own id its place in the holder's offer, -1 if it has it not.

        Raises: CodecError: the holder sent something unusable.
        """


class Holder(Protocol):
    """Lets a finder know; methods are called in this order, once each."""

    def offer(self) -> Held:
        """Send the own ids, blinded, unless the finder has them of an earlier job."""

    def answer(self) -> None:
        """Answer what the finder asks. Raises: CodecError: it asked something unusable."""
