"""When each party last renewed its lease, which is a row of the store.

A party that answered is known to live until its lease ends. A server that was itself down gives
every party a full lease from its own start, because the silence was its own. One that stood still,
or whose clock was put forward, needs no such rule: its time did not go on
(`base/clock.SteadyClock`).
"""

from __future__ import annotations

from fedflow.app.ports.parties import PartyClient
from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import Clock
from fedflow.domain.records import Lease

_RENEW_MS = 2_000  #: a lease is written again only if it would move by more than this


class PartyLeases:
    """Leases of parties (kept by initiators) and of initiators (kept by participants)."""

    def __init__(self, *, store: Store, parties: PartyClient, clock: Clock, timing: Timing) -> None:
        self._store = store
        self._parties = parties
        self._clock = clock
        self._timing = timing
        self._started_ms = clock.now_ms()

    def heard(self, tx: Tx, party_id: str) -> None:
        """Note that a party's server just answered."""
        self._renew(tx, f"party/{party_id}")

    def begin(self, tx: Tx, job_id: str) -> None:
        """Give the initiator of a job that begins, or begins anew, its lease."""
        self._renew(tx, f"initiator/{job_id}", lock=True)

    def hold(self, tx: Tx, job_id: str) -> None:
        """Keep the job's other sites here from an end or a beginning until this transaction ends.

        The last site that ends drops the lease; of two that end at once, the later one knows it.
        """
        tx.leases.get(f"initiator/{job_id}", lock=True)

    def heard_initiator(self, tx: Tx, job_id: str) -> None:
        """Note that the initiator of a job just asked for something.

        The job may have ended since it was read, and its lease with it: that stays away.
        """
        name = f"initiator/{job_id}"
        held = tx.leases.get(name)
        if held is not None and self._moves(held):
            tx.leases.extend(name, _OWNER, expires_ms=self._end_ms())

    def heard_initiators(self, tx: Tx, party_id: str) -> None:
        """Note that a party sent a heartbeat for the jobs that it initiated."""
        self._renew(tx, f"initiators/{party_id}")

    def party_ms(self, tx: Tx, party_id: str) -> int:
        """Return when a party last answered; a party hosted here answers always."""
        if self._parties.is_local(party_id):
            return self._clock.now_ms()
        return self._last_ms(tx, f"party/{party_id}")

    def initiator_ms(self, tx: Tx, job_id: str) -> int:
        """Return when the initiator of a job last renewed."""
        return self._last_ms(tx, f"initiator/{job_id}")

    def initiators_ms(self, tx: Tx, party_id: str) -> int:
        """Return when a party last sent a heartbeat for jobs that it initiated; one hosted here
        needs none.
        """
        if self._parties.is_local(party_id):
            return self._clock.now_ms()
        return self._last_ms(tx, f"initiators/{party_id}")

    def forget(self, tx: Tx, job_id: str) -> None:
        """Drop the lease of an ended job."""
        tx.leases.release(f"initiator/{job_id}", _OWNER)

    def _renew(self, tx: Tx, name: str, *, lock: bool = False) -> None:
        held = tx.leases.get(name, lock=lock)
        if held is None or self._moves(held):
            now_ms = self._clock.now_ms()
            tx.leases.renew(name, _OWNER, expires_ms=self._end_ms(), now_ms=now_ms)

    def _moves(self, held: Lease) -> bool:
        """Tell whether a renewal would move the end by so much that it is worth a write."""
        return abs(self._end_ms() - held.expires_ms) > _RENEW_MS

    def _end_ms(self) -> int:
        return self._clock.now_ms() + self._timing.lease_ms

    def _last_ms(self, tx: Tx, name: str) -> int:
        held = tx.leases.get(name)
        last_ms = held.expires_ms - self._timing.lease_ms if held else 0
        now_ms = self._clock.now_ms()
        if last_ms > now_ms + self._timing.lease_ms:  # written before the clock was put back
            return self._started_ms
        # another server of this party may have written it, by a clock that is a little ahead
        return max(min(last_ms, now_ms), self._started_ms)


def prove_store(tx: Tx, now_ms: int) -> None:
    """Write what nobody needs. Raises: StoreUnavailable: the store takes no change."""
    tx.leases.renew("store", _OWNER, expires_ms=now_ms, now_ms=now_ms)


_OWNER = "this party"
