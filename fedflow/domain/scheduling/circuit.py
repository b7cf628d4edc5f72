"""Whether a party can be reached, from how the calls to it went: its circuit.

```
            FAILURES failures in a row                    next_try_ms is reached
   closed ───────────────────────────────> open ───────────────────────────────> half_open
     ^                                      ^  the call failed: a longer pause        │
     │                                      └────────────────────────────────────────┤
     └───────────────────────────────────────── any call that was answered ───────────┘
```

While it is open nothing is sent but one call at a time, the probe. An answer is an answer: a
refusal closes the circuit too. Only one that says that the party's store cannot be used counts as a
failure: no command has any effect there. All times are ms of a monotonic clock, so no step of the
wall clock changes what follows.
Source: Nygard 2007, "Release It!" (circuit breaker); Brooker 2015, "Exponential Backoff And Jitter"
(full jitter).
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.site import Site

FAILURES: Final = 3  #: failures in a row that open a circuit
_WEIGHT: Final = 0.125  #: of the newest round trip in the mean, as TCP smooths it (RFC 6298)


class Lack(StrEnum):
    """Why a party that answers does nothing."""

    STORE = "store"  #: it cannot use its store
    LEADER = "leader"  #: none of its servers leads


class CircuitState(StrEnum):
    """What a circuit lets through."""

    CLOSED = "closed"  #: every call
    OPEN = "open"  #: none until the next probe is due
    HALF_OPEN = "half_open"  #: none, for the probe is under way


@dataclass(frozen=True, kw_only=True, slots=True)
class Pauses:
    """How long an open circuit waits before it probes."""

    base_ms: int  #: longest pause before the first probe; doubles with each
    cap_ms: int  #: longest pause of all
    probe_ms: int  #: a probe that has not ended after this time is lost: another may go


@dataclass(frozen=True, kw_only=True, slots=True)
class Circuit:
    """What is known of the calls to one party. Times in monotonic ms, None: never."""

    state: CircuitState = CircuitState.CLOSED
    since_ms: int = 0  #: when the state became what it is, half open counted as open
    failures: int = 0  #: since the last answer
    probes: int = 0  #: that failed since the circuit opened
    next_try_ms: int = 0  #: when a call may go, if it is not closed
    answered_ms: int | None = None
    failed_ms: int | None = None
    error: Message = Message("")  #: why the last call failed
    lack: Lack | None = None  #: what the last answer said, None: nothing, or there was none
    round_trip_ms: float | None = None  #: smoothed


def without(lack: Lack, site: Site, seconds: int) -> Message:
    """Return why a job cannot go on with a site that answers all the time."""
    if lack is Lack.LEADER:
        return Message(
            "{site} answers, but none of its servers has led for {seconds} seconds", site, seconds
        )
    return Message(
        "{site} answers, but has not been able to use its store for {seconds} seconds",
        site, seconds,
    )  # fmt: skip


def may_try(circuit: Circuit, now_ms: int) -> bool:
    """Tell whether a call may go now."""
    return circuit.state is CircuitState.CLOSED or now_ms >= circuit.next_try_ms


def trying(circuit: Circuit, now_ms: int, pauses: Pauses) -> Circuit:
    """Return the circuit while a call that `may_try` is under way: no other follows it."""
    if circuit.state is CircuitState.CLOSED:
        return circuit
    return replace(
        circuit, state=CircuitState.HALF_OPEN, next_try_ms=now_ms + pauses.probe_ms
    )  # fmt: skip


def answered(
    circuit: Circuit, now_ms: int, round_trip_ms: float | None = None, *, lack: Lack | None = None
) -> Circuit:
    """Return the circuit after a call that was answered, whatever the answer was."""
    smoothed = circuit.round_trip_ms
    if round_trip_ms is not None:
        before = round_trip_ms if smoothed is None else smoothed
        smoothed = before + _WEIGHT * (round_trip_ms - before)
    was_closed = circuit.state is CircuitState.CLOSED
    return replace(
        circuit,
        state=CircuitState.CLOSED,
        since_ms=circuit.since_ms if was_closed else now_ms,
        failures=0,
        probes=0,
        answered_ms=now_ms,
        lack=lack,
        round_trip_ms=smoothed,
    )


def failed(
    circuit: Circuit, now_ms: int, error: Message, *, pauses: Pauses, chance: float,
    lack: Lack | None = None,
) -> Circuit:  # fmt: skip
    """Return the circuit after a call that nobody answered; `chance` is 0 to 1, for the jitter."""
    failures = circuit.failures + 1
    noted = replace(circuit, failures=failures, failed_ms=now_ms, error=error, lack=lack)
    match circuit.state:
        case CircuitState.CLOSED if noted.failures < FAILURES:
            return noted
        case CircuitState.CLOSED:
            pause_ms = _pause_ms(0, pauses, chance)
            return replace(
                noted, state=CircuitState.OPEN, since_ms=now_ms, probes=0,
                next_try_ms=now_ms + pause_ms,
            )  # fmt: skip
        case CircuitState.HALF_OPEN:
            pause_ms = _pause_ms(noted.probes + 1, pauses, chance)
            return replace(
                noted, state=CircuitState.OPEN, probes=noted.probes + 1,
                next_try_ms=now_ms + pause_ms,
            )  # fmt: skip
        case _:  # a call that began before the circuit opened says nothing new
            return noted


def _pause_ms(probes: int, pauses: Pauses, chance: float) -> int:
    return int(chance * min(pauses.cap_ms, pauses.base_ms * 2 ** min(probes, 20)))
