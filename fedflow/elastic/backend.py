"""The port that a rendezvous is stored through: one value per run, replaced by compare-and-set."""

from __future__ import annotations

from typing import Protocol

from fedflow.base.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredState:
    """What a run holds."""

    state: bytes  #: of `state.state_to_bytes`, for back ends of no meaning
    token: str  #: of this very write; each write has another one
    now_ms: int  #: the back end's time, on which members compare heartbeats
    since_ms: int = 0  #: from when on it could be written to all the time


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenState:
    """What a run holds after a try to write."""

    stored: StoredState
    was_set: bool  #: False: another member was faster, and this is what it wrote


class Backend(Protocol):
    """Where the state of one run is stored."""

    @property
    def name(self) -> str:
        """Return what the back end is called."""

    def now_ms(self) -> int:
        """Return the back end's time, milliseconds since the epoch."""

    def get_state(self) -> StoredState | None:
        """Return what was written last; None: nothing yet.

        Raises: RendezvousStateCorrupt: what is stored is damaged. RendezvousUnreachable.
        """

    def set_state(self, state: bytes, token: str | None) -> WrittenState | None:
        """Write if `token` is that of what is stored, or None and nothing is stored.

        Returns what is stored then; None: nothing is, and the token was of something else.
        Raises: RendezvousStateCorrupt, RendezvousUnreachable, RendezvousNotAllowed.
        """
