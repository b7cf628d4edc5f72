"""What the pages of other parties show: how each can be reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fedflow.app.administration.servers import ListedServer
from fedflow.app.initiator.neighbours import Neighbour
from fedflow.base.messages import verbatim
from fedflow.base.values import dataclass
from fedflow.domain.job_lines import JobLine
from fedflow.domain.scheduling.circuit import CircuitState

ERROR = 1000  #: characters of an error


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyRow:
    """One other party. Times in ms since the epoch, None: never."""

    party_id: str
    address: str | None
    state: str  #: closed, silent, open, half_open, or none if it was never called
    since_ms: int | None
    failures: int
    heard_ms: int | None
    silent_ms: int | None  #: for how long it has not answered, None: the last call succeeded
    failed_ms: int | None
    error: str
    waiting: int
    next_try_ms: int | None
    round_trip_ms: int | None
    protocol: int | None
    version: str


def row(one: Neighbour, now_ms: int) -> PartyRow:
    """Return how a party stands."""
    circuit = one.circuit
    called = circuit.answered_ms is not None or circuit.failed_ms is not None
    state = circuit.state.value
    if circuit.state is CircuitState.CLOSED and circuit.is_silent:
        state = "silent"
    elif not called and circuit.state is CircuitState.CLOSED:
        state = "none"
    heard_ms = circuit.answered_ms or circuit.failed_ms or now_ms
    trip = circuit.round_trip_ms
    return PartyRow(
        party_id=one.party_id,
        address=one.address,
        state=state,
        since_ms=circuit.since_ms,
        failures=circuit.failures,
        heard_ms=circuit.answered_ms,
        silent_ms=now_ms - heard_ms if circuit.is_silent else None,
        failed_ms=circuit.failed_ms,
        error=verbatim(circuit.error, ERROR),
        waiting=one.waiting,
        next_try_ms=circuit.next_try_ms,
        round_trip_ms=None if trip is None else max(1, round(trip)),
        protocol=one.protocol,
        version=circuit.speaks.product if circuit.speaks else "",
    )


def servers(found: Iterable[ListedServer]) -> list[ListedServer]:
    """Return the servers of this party without what changes with every beat."""
    return [replace(one, beat_age_ms=0) for one in found]


def jobs_with(
    found: Iterable[JobLine], party_id: str, *, limit: int
) -> list[tuple[JobLine, tuple[str, ...]]]:
    """Return the jobs in which exactly this party takes part, as one of the own sites has each,
    and the roles of the party.
    """
    kept: dict[str, tuple[JobLine, tuple[str, ...]]] = {}
    for job in found:
        roles = tuple(role for role, ids in job.roles.items() if party_id in ids)
        if roles:
            kept.setdefault(job.key.job_id, (job, roles))
    return list(kept.values())[:limit]
