"""Which other parties can be reached, what they speak, and whether a call to them may go now.

Everything that calls a party notes here how it went: `Delivery` for commands of the outbox, and
`CheckedParties` for all other calls. A closed circuit lets all through; an open one only the next
probe (`domain/scheduling/circuit.py`). Nothing of it is stored: a new server begins with closed
circuits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any, Final

from fedflow.app.ports.parties import PartyClient
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import (
    IncompatibleVersions,
    NoRoute,
    PartyStoreUnavailable,
    PartyTooOld,
    PartyUnreachable,
)
from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.messages import Message, verbatim
from fedflow.base.values import dataclass
from fedflow.domain.records import Reply
from fedflow.domain.scheduling.circuit import (
    Circuit,
    CircuitState,
    Lack,
    Pauses,
    answered,
    failed,
    may_try,
    trying,
)
from fedflow.domain.site import Site
from fedflow.wire.paths import PREFIX, parse_party_path
from fedflow.wire.versions import OURS, SINCE, Speaks, common, read_speaks

logger = logging.getLogger(__name__)

_HURRY_S = 1.0  #: a submit does not try a party again that failed less than this time ago
_PROBE_BASE_MS = 200  #: longest pause before the first probe; it doubles up to the retry cap
_WATCHED_MS = 10_000  #: how long a party counts as watched
_MOST_WATCHED = 50  #: parties that are called because somebody looks at them
_NO_STORE: Final = Message("it answers, but its store cannot be used")


@dataclass(frozen=True, kw_only=True, slots=True)
class CircuitView:
    """How one party stands. Times in ms since the epoch, None: never."""

    state: CircuitState
    since_ms: int | None  #: when it was closed or opened; None: since the start of this server
    failures: int  #: calls in a row that nobody answered
    answered_ms: int | None
    failed_ms: int | None
    error: Message  #: why the last call failed, empty if none ever did
    next_try_ms: int | None  #: when the next call may go; None: now
    round_trip_ms: float | None
    speaks: Speaks | None  #: None: it never answered

    @property
    def is_silent(self) -> bool:
        """Tell whether its last call was not answered."""
        return self.failures > 0


class CircuitBreakers:
    """The circuits of all other parties; used by many threads."""

    def __init__(
        self, *, clock: Clock, timing: Timing, rng: Random, speaks: Speaks = OURS
    ) -> None:  # fmt: skip
        self._clock = clock
        self._rng = rng
        self.speaks = speaks
        self._pauses = Pauses(
            base_ms=min(_PROBE_BASE_MS, timing.retry_cap_ms),
            cap_ms=timing.retry_cap_ms,
            probe_ms=int(timing.call_timeout_s * 1500),
        )
        self._lock = threading.Lock()
        self._circuit_breakers: dict[str, Circuit] = {}
        self._speaks: dict[str, str] = {}
        self._watched: dict[str, int] = {}  #: when somebody last looked how a party stands
        self._on_closed: Callable[[str], None] = lambda _party_id: None

    def connect(self, on_closed: Callable[[str], None]) -> None:
        """Name what is called with a party that can be reached again."""
        self._on_closed = on_closed

    # --- may a call go

    def may_try(self, party_id: str) -> bool:
        """Tell whether a call to a party may go now; `admit` claims it."""
        with self._lock:
            circuit = self._circuit_breakers.get(party_id)
            return circuit is None or may_try(circuit, self._now_ms())

    def is_closed(self, party_id: str) -> bool:
        """Tell whether calls to a party go without limit."""
        circuit = self._circuit_breakers.get(party_id)
        return circuit is None or circuit.state is CircuitState.CLOSED

    def admit(self, party_id: str) -> bool:
        """Tell whether a call may go now; if the circuit is open, that call is its probe."""
        with self._lock:
            circuit, now_ms = self._circuit_breakers.get(party_id), self._now_ms()
            if circuit is None:
                return True
            if not may_try(circuit, now_ms):
                return False
            self._circuit_breakers[party_id] = trying(circuit, now_ms, self._pauses)
            return True

    def hurry(self, party_id: str, *, after_s: float = _HURRY_S) -> bool:
        """Let the next call go at once though the circuit is open: somebody waits for it.

        False, and nothing changes, if a probe is under way or the last call failed less than
        `after_s` seconds ago.
        """
        with self._lock:
            circuit, now_ms = self._circuit_breakers.get(party_id), self._now_ms()
            if circuit is None or may_try(circuit, now_ms):
                return True
            if circuit.state is CircuitState.HALF_OPEN:
                return False
            if circuit.failed_ms is None or now_ms - circuit.failed_ms < after_s * 1000:
                return False
            self._circuit_breakers[party_id] = replace(circuit, next_try_ms=now_ms)
            return True

    # --- how calls went

    def noted(self, party_id: str, reply: Reply, *, round_trip_s: float | None) -> Reply:
        """Note that a call was answered; return the answer, or a refusal of it.

        One that says that the party cannot use its store is as good as none.
        """
        if reply.error == StoreUnavailable.__name__:
            self.failed(party_id, _NO_STORE, lack=Lack.STORE)
            reply = replace(reply, retmsg=_NO_STORE)
        else:  # a leader is found within seconds: calls go on
            lack = Lack.LEADER if reply.error == NotLeading.__name__ else None
            self._answered(party_id, round_trip_s, lack)
        return self.take(party_id, reply)

    def _answered(self, party_id: str, round_trip_s: float | None, lack: Lack | None) -> None:
        with self._lock:
            before = self._circuit_breakers.get(party_id, Circuit())
            round_trip_ms = None if round_trip_s is None else round_trip_s * 1000
            after = answered(before, self._now_ms(), round_trip_ms, lack=lack)
            self._circuit_breakers[party_id] = after
        if before.state is not CircuitState.CLOSED:
            logger.info(
                "Party %s can be reached again", party_id, extra={"action": "circuit_closed"}
            )
            self._on_closed(party_id)

    def failed(self, party_id: str, error: Message, *, lack: Lack | None = None) -> None:
        """Note that nobody answered a call, and why."""
        with self._lock:
            before = self._circuit_breakers.get(party_id, Circuit())
            after = failed(
                before,
                self._now_ms(),
                verbatim(error, 1000),
                pauses=self._pauses,
                chance=self._rng.random(),
                lack=lack,
            )
            self._circuit_breakers[party_id] = after
        if before.state is CircuitState.CLOSED and after.state is CircuitState.OPEN:
            logger.warning(
                "Party %s cannot be reached: its commands wait, one call at a time tries it: %s",
                party_id,
                error,
                extra={"action": "circuit_opened"},
            )

    def take(self, party_id: str, reply: Reply) -> Reply:
        """Note what the sender of an answer speaks; return the answer, or a refusal of it."""
        if reply.speaks is None:
            return reply
        if self._speaks.get(party_id) != reply.speaks:
            self._speaks[party_id] = reply.speaks
        if reply.speaks == self.speaks.header or reply.error == IncompatibleVersions.__name__:
            return reply
        theirs = read_speaks(reply.speaks)
        if common(self.speaks, theirs) is not None:
            return reply
        refusal = IncompatibleVersions(party_id=party_id, theirs=theirs, ours=self.speaks)
        return Reply(
            retcode=refusal.retcode, retmsg=refusal.advice,
            error=refusal.name, speaks=reply.speaks,
        )  # fmt: skip

    # --- who should be called though no job needs it

    def watch(self, party_ids: Iterable[str]) -> None:
        """Note that somebody looks how these parties stand now."""
        now_ms = self._now_ms()
        with self._lock:
            for party_id in islice(party_ids, _MOST_WATCHED):
                self._watched[party_id] = now_ms

    def unsure(self) -> list[str]:
        """Return the parties of which only a call tells how they stand: those that could not be
        reached, and those that somebody looks at.
        """
        now_ms = self._now_ms()
        with self._lock:
            self._watched = {p: at for p, at in self._watched.items() if now_ms - at < _WATCHED_MS}
            watched = set(self._watched)
        return sorted(watched.union(self.opened()))

    # --- what is known

    def theirs(self, party_id: str) -> Speaks | None:
        """Return what a party speaks, None if it never answered."""
        text = self._speaks.get(party_id)
        return None if text is None else read_speaks(text)

    def require(self, party_id: str, command: str) -> None:
        """Raises: PartyTooOld: a party is known not to have a command of `wire/paths.py`."""
        needed, theirs = SINCE.get(command), self.theirs(party_id)
        if needed is None or theirs is None:
            return
        protocol = common(self.speaks, theirs)
        if protocol is not None and protocol < needed:
            raise PartyTooOld(party_id=party_id, theirs=theirs, command=command, needed=needed)

    def parties(self) -> list[str]:
        """Return the parties that were called."""
        with self._lock:
            return sorted(self._circuit_breakers)

    def opened(self) -> list[str]:
        """Return the parties that cannot be reached."""
        with self._lock:
            known = self._circuit_breakers.items()
            return sorted(p for p, c in known if c.state is not CircuitState.CLOSED)

    def next_try_ms(self, party_id: str) -> int | None:
        """Return when a call to a party may go, in ms since the epoch; None: now."""
        with self._lock:
            circuit = self._circuit_breakers.get(party_id)
        if circuit is None or circuit.state is CircuitState.CLOSED:
            return None
        return self._wall(circuit.next_try_ms)

    def view(self, party_id: str) -> CircuitView:
        """Return how a party stands."""
        with self._lock:
            circuit = self._circuit_breakers.get(party_id, Circuit())
        closed = circuit.state is CircuitState.CLOSED
        return CircuitView(
            state=circuit.state,
            since_ms=self._wall(circuit.since_ms) if circuit.since_ms else None,
            failures=circuit.failures,
            answered_ms=self._wall(circuit.answered_ms),
            failed_ms=self._wall(circuit.failed_ms),
            error=circuit.error,
            next_try_ms=None if closed else self._wall(circuit.next_try_ms),
            round_trip_ms=circuit.round_trip_ms,
            speaks=self.theirs(party_id),
        )

    def lack_of(self, party_id: str) -> Lack | None:
        """Return why a party does nothing, if its last answer said so."""
        with self._lock:
            return self._circuit_breakers.get(party_id, Circuit()).lack

    def unreachable(self, party_id: str) -> PartyUnreachable:
        """Return the error of a call that is not tried, with what the last one met."""
        view, now_ms = self.view(party_id), self._clock.now_ms()
        last = view.error.fields
        ago_s = (now_ms - (view.failed_ms or now_ms)) / 1000
        again_s = max(0.0, ((view.next_try_ms or now_ms) - now_ms) / 1000)
        kind = PartyStoreUnavailable if view.error == _NO_STORE else PartyUnreachable
        return kind(
            party_id=party_id,
            address=last.get("address", ""),
            reason=Message(
                "{reason}; last tried {seconds:.1f} s ago, again in {pause:.1f} s",
                last.get("reason", view.error or "no answer"),
                ago_s,
                again_s,
            ),
        )

    def answered_within(self, party_id: str, seconds: float) -> bool:
        """Tell whether a party's last call was answered, not longer ago than this."""
        with self._lock:
            circuit = self._circuit_breakers.get(party_id)
        if circuit is None or circuit.answered_ms is None or circuit.failures:
            return False
        return self._now_ms() - circuit.answered_ms <= seconds * 1000

    def _now_ms(self) -> int:
        return round(self._clock.monotonic_s() * 1000)

    def _wall(self, monotonic_ms: int | None) -> int | None:
        if monotonic_ms is None:
            return None
        return self._clock.now_ms() + monotonic_ms - self._now_ms()


class CheckedParties:
    """The `PartyClient` for calls that do not go through the outbox: it asks the circuits first."""

    def __init__(
        self, parties: PartyClient, circuit_breakers: CircuitBreakers, *, clock: Clock
    ) -> None:
        self._parties = parties
        self._circuit_breakers = circuit_breakers
        self._clock = clock

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        """Send once and return the answer.

        Raises: PartyUnreachable: also at once, while the circuit is open. PartyStoreUnavailable: a
        kind of it; the answer was that nothing can be done there. NoRoute, BadPacket.
        PartyTooOld: the party does not have this command.
        """
        if self._parties.is_local(destination):
            return self._parties.call(
                source, destination, path, body,
                request_id=request_id, job_id=job_id, deadline_s=deadline_s,
            )  # fmt: skip
        if not self._parties.knows(destination):
            raise NoRoute(party_id=destination)
        match = parse_party_path(PREFIX + path)
        name = match.name if match is not None else ""
        self._circuit_breakers.require(destination, name)
        if not self._circuit_breakers.admit(destination):
            raise self._circuit_breakers.unreachable(destination)
        begun_s = self._clock.monotonic_s()
        try:
            reply = self._parties.call(
                source, destination, path, body,
                request_id=request_id, job_id=job_id, deadline_s=deadline_s,
            )  # fmt: skip
        except FedflowError as exc:
            self._circuit_breakers.failed(destination, why(exc))
            raise
        reply = self._circuit_breakers.noted(
            destination, reply, round_trip_s=self._clock.monotonic_s() - begun_s
        )
        if reply.error == StoreUnavailable.__name__:
            raise PartyStoreUnavailable(party_id=destination, reason=reply.retmsg)
        self._circuit_breakers.require(destination, name)
        return reply

    def knows(self, party_id: str) -> bool:
        """Tell whether there is a route to the party."""
        return self._parties.knows(party_id)

    def is_local(self, party_id: str) -> bool:
        """Tell whether this server hosts the party."""
        return self._parties.is_local(party_id)


def why(error: Exception) -> Message:
    """Return what kept a party from answering, as `host:port: reason`."""
    known = error.fields if isinstance(error, PartyUnreachable) else {}
    reason = error.message if isinstance(error, FedflowError) else str(error)
    address = known.get("address", "its route")
    return Message("{address}: {reason}", address, known.get("reason", reason))
