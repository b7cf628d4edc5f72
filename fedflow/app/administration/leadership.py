"""Which of the servers of one party schedules: a lease with a fencing token.

The leader alone runs the scheduler, the outbox senders, the heartbeat threads and the watch over
other servers. Its writes go through `guarded(store)`: each such transaction makes sure, before
anything else, that the lease still is this server's, and keeps others from taking it until the
transaction has ended. A leader that stood still finds its token gone and writes nothing. As long
as no other server of the party is alive the database is not asked: nobody can have taken the
lease within its time.

The lease is timed by the database's clock, what this server believes by its own monotonic one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from fedflow.app.ports.store import Store, Tx
from fedflow.base.clock import Clock
from fedflow.base.errors.start import NotLeading
from fedflow.base.values import dataclass
from fedflow.domain.administration.servers import LEASE_MS
from fedflow.domain.records import Lease

LEASE: Final = "scheduler"
_MARGIN_S: Final = 1.0  #: this server gives its lease up so much earlier than the database does


@dataclass(frozen=True, slots=True)
class _Claim:
    """The lease as this server holds it; it does not read the database before `trusted_s`."""

    token: int
    trusted_s: float  #: monotonic; 0 if other servers are alive


class Leadership:
    """This server's claim to lead. `clock` must be the machine's: standing still counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._claim: _Claim | None = None

    @property
    def leads(self) -> bool:
        """Tell whether this server leads, as far as it knows."""
        return self._claim is not None

    def claim(self, tx: Tx, owner: str, *, now_ms: int) -> Lease | None:
        """Take the lease or hold it longer; return it, None if another server has it.

        `now_ms` is the database's. What this server believes changes with `settle` only, after the
        commit.
        """
        return tx.leases.renew(LEASE, owner, expires_ms=now_ms + LEASE_MS, now_ms=now_ms)

    def settle(self, lease: Lease | None, *, began_s: float, alone: bool) -> None:
        """Believe the outcome of a claim whose transaction began at `began_s` (monotonic).

        `alone`: no other server of the party is alive.
        """
        if lease is None:
            self._claim = None
            return
        trusted_s = began_s + LEASE_MS / 1000 - _MARGIN_S if alone else 0.0
        self._claim = _Claim(lease.token, trusted_s)

    def lead_alone(self) -> None:
        """Lead for good: no other server can use this store."""
        self._claim = _Claim(0, float("inf"))

    def fence(self, tx: Tx) -> None:
        """Make sure that this server leads until the transaction has ended. Raises: NotLeading."""
        claim = self._claim
        if claim is None:
            raise NotLeading(reason="another one does")
        if self._clock.monotonic_s() < claim.trusted_s:
            return
        if not tx.leases.holds(LEASE, claim.token):
            if self._claim is claim:
                self._claim = None
            raise NotLeading(reason="another one took over while this one stood still")

    def guarded(self, store: Store) -> Store:
        """Return the store for what only the leader does: its transactions raise NotLeading."""
        return _Guarded(store, self)


class OnlyServer:
    """The `PartyServers` of a server that knows of no others."""

    own_id = ""
    leads = True
    has_others = False

    def is_local(self, instance_id: str) -> bool:
        return True

    def lost_for_s(self, instance_id: str) -> int | None:
        return None

    def scan_now(self, instance_id: str) -> None:
        """There is no other server."""

    def guarded(self, store: Store) -> Store:
        return store


class _Guarded:
    """A store whose writing transactions begin with the fence."""

    def __init__(self, store: Store, leadership: Leadership) -> None:
        self._store = store
        self._leadership = leadership

    @contextmanager
    def _fenced(self) -> Iterator[Tx]:
        with self._store.transaction() as tx:
            self._leadership.fence(tx)
            yield tx

    def transaction(self) -> AbstractContextManager[Tx]:
        return self._fenced()

    def read(self) -> AbstractContextManager[Tx]:
        return self._store.read()

    def close(self) -> None:
        self._store.close()
