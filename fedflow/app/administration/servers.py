"""The servers of this party, as one of them sees them: who is alive, who leads, whose executors.

A server beats: it writes its row with the database's time, takes or renews the lease, and reads the
rows of the others. What it read last answers every question here without the database. A
server whose store no other can use is alone: it leads, and beats need no database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from fedflow.app.administration.leadership import LEASE, Leadership
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.start import NoOtherServer, NotLeading, SharedHomeDiffers
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.values import dataclass
from fedflow.domain.administration.servers import (
    BEAT_MS,
    FORGET_AFTER_MS,
    LOST_AFTER_MS,
    Instance,
    InstanceState,
    living_others,
)
from fedflow.domain.records import Lease, TaskRecord
from fedflow.domain.site import Site

logger = logging.getLogger(__name__)

_PLACED_S = 0.1  #: where sessions are is asked of the store once in this time
_SOON_S = 0.02  #: after the end of another server's lease


class PeerServerCalls(Protocol):
    """Calls to other servers of this party."""

    def scan_now(self, to: Instance) -> None:
        """Let a server beat, and look at its executors, now. Raises: PartyUnreachable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """What the last beat saw."""

    now_ms: int  #: the database's time then
    since_ms: int  #: from when on this server has beaten without a gap
    instances: tuple[Instance, ...] = ()
    lease: Lease | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedServer:
    """A server as people see it."""

    instance_id: str
    http: str
    grpc: str
    host: str
    version: str
    state: str  #: up, draining, stopped or lost
    leads: bool
    is_this: bool
    started_ms: int
    beat_age_ms: int
    executors: int  #: processes of tasks that it looks after, those about to start included


class Servers:
    """This server among those of its party. `shared`: others may use the same store."""

    def __init__(
        self,
        own: Instance,
        *,
        store: Store,
        leadership: Leadership,
        clock: Clock,
        shared: bool,
        calls: PeerServerCalls | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock` must be the machine's; `on_change` is called when this server leads or ceases."""
        self._own = own
        self._store = store
        self._clock = clock
        self._shared = shared
        self._calls = calls
        self._on_change = on_change
        self._beating = threading.Lock()
        self._seen = _Seen(now_ms=0, since_ms=0)
        self._placing = threading.Lock()
        self._placed: dict[tuple[str, Site], str] = {}
        self._placed_s = -_PLACED_S
        self._told = False  #: whether this server leads, as `on_change` was last called for
        self.leadership = leadership

    # --- life ---------------------------------------------------------------------------------

    def join(self, *, http: str, grpc: str) -> None:
        """Become one of the party's servers, at these addresses; lead if nobody does.

        Raises: SharedHomeDiffers: a living one has other tables and models. StoreUnavailable.
        """
        self._own = replace(self._own, http=http, grpc=grpc)
        if not self._shared:
            self._own = replace(self._own, started_ms=self._clock.now_ms())
            self.leadership.lead_alone()
            self._on_change()
            return
        with self._store.transaction() as tx:
            now_ms = tx.instances.now_ms()
            tx.instances.prune(now_ms - FORGET_AFTER_MS)
            for other in living_others(tx.instances.all(), self.own_id, now_ms=now_ms):
                if other.shared_mark != self._own.shared_mark:
                    raise SharedHomeDiffers(folder="this `shared_home`", server=other.http)
        self._own = replace(self._own, started_ms=now_ms)
        self.renew()

    def renew(self) -> float:
        """Tell the others that this server lives; take or keep the lease.

        Returns: seconds until the next beat. Raises: StoreUnavailable.
        """
        if not self._shared:
            return BEAT_MS / 1000
        with self._beating:
            return self._beat()

    def _beat(self) -> float:
        began_s = self._clock.monotonic_s()
        with self._store.transaction() as tx:
            now_ms = tx.instances.renew(self._own)
            instances = tuple(tx.instances.all())
            mine = None
            if self._own.state is InstanceState.UP:
                mine = self.leadership.claim(tx, self.own_id, now_ms=now_ms)
            else:
                tx.leases.release(LEASE, self.own_id)
            lease = mine or tx.leases.get(LEASE)
        alone = not living_others(instances, self.own_id, now_ms=now_ms)
        self.leadership.settle(mine, began_s=began_s, alone=alone)
        last = self._seen
        since_ms = now_ms if now_ms - last.now_ms > LOST_AFTER_MS // 2 else last.since_ms
        self._seen = _Seen(now_ms=now_ms, since_ms=since_ms, instances=instances, lease=lease)
        # not what it believed before this beat: the fence may have noticed that already
        if self._told is not (mine is not None):
            self._told = mine is not None
            logger.info(
                "This server leads its party's servers now"
                if mine is not None
                else "This server does not lead its party's servers any more",
                extra={"action": "lead" if mine is not None else "follow"},
            )
            self._on_change()
        if lease is None or mine is not None:
            return BEAT_MS / 1000
        until_s = (lease.expires_ms - now_ms) / 1000 + _SOON_S
        return min(BEAT_MS / 1000, max(_SOON_S, until_s))

    def drain(self) -> None:
        """Start no executors any more and let another server lead.

        Raises: NoOtherServer: there is none that could. StoreUnavailable.
        """
        self.renew()
        if not [i for i in self.others() if i.state is InstanceState.UP]:
            raise NoOtherServer()
        self._own = replace(self._own, state=InstanceState.DRAINING)
        self.renew()
        self._tell_others()

    def is_draining(self) -> bool:
        """Tell whether this server was drained; a restart ends it."""
        return self._own.state is InstanceState.DRAINING

    def leave(self) -> None:
        """Give the lease back, and say that this server has stopped; executors live on."""
        if not self._shared:
            return
        self._own = replace(self._own, state=InstanceState.STOPPED)
        try:
            self.renew()
        except StoreUnavailable as exc:
            logger.warning("The other servers were not told of the stop: %s", exc.message)
            return
        self._tell_others()

    def _tell_others(self) -> None:
        """Let the others beat now, so that one of them leads at once."""
        for other in self.others():
            self._look(other)

    # --- questions ------------------------------------------------------------------------------

    @property
    def own_id(self) -> str:
        return self._own.instance_id

    @property
    def secret(self) -> str:
        """Return what other servers of this party prove themselves with."""
        return self._own.secret

    @property
    def leads(self) -> bool:
        return self.leadership.leads

    def is_local(self, instance_id: str) -> bool:
        """Tell whether this server looks after an attempt; one that names no server is old."""
        return not self._shared or instance_id in ("", self.own_id)

    def guarded(self, store: Store) -> Store:
        """Return the store for what only the leader does; see
        `app/administration/leadership.py`.
        """
        return self.leadership.guarded(store) if self._shared else store

    @property
    def has_others(self) -> bool:
        return bool(self.others())

    def others(self) -> tuple[Instance, ...]:
        """Return the other servers that are alive."""
        seen = self._seen
        return living_others(seen.instances, self.own_id, now_ms=seen.now_ms)

    def find(self, instance_id: str) -> Instance | None:
        """Return another server that is alive."""
        return next((i for i in self.others() if i.instance_id == instance_id), None)

    def runs_at(self, session: str, site: Site) -> Instance | None:
        """Return the other server that runs a site's party task of a session; may ask the store.

        None: none does, or none yet, or it is not there any more. Raises: StoreUnavailable.
        """
        if not self.others():
            return None
        key = (session, site)
        with self._placing:
            now_s = self._clock.monotonic_s()
            known = self._placed.get(key)
            if known is None or self.find(known) is None:
                if now_s - self._placed_s < _PLACED_S:
                    return None
                with self._store.read() as tx:
                    self._placed = tx.tasks.placed()
                self._placed_s = now_s
                known = self._placed.get(key)
        return self.find(known) if known is not None else None

    def leader(self) -> Instance:
        """Return the other server that leads. Raises: NotLeading: none does, or this one."""
        lease = self._seen.lease
        if lease is None:
            raise NotLeading(reason="none does at the moment")
        found = self.find(lease.owner)
        if found is None:
            raise NotLeading(reason="the one that did is not there any more")
        return found

    def lost_for_s(self, instance_id: str) -> int | None:
        """Return for how many seconds a server was silent at this one's last beat, if its executors
        count as lost, else None. A server that is not listed any more is lost for a day.

        A time in which this server did not beat, either, is not counted: the database was away.
        """
        if self.is_local(instance_id):
            return None
        seen = self._seen
        now_ms = seen.now_ms
        if now_ms - seen.since_ms <= LOST_AFTER_MS:
            return None
        found = next((i for i in seen.instances if i.instance_id == instance_id), None)
        if found is None:
            return FORGET_AFTER_MS // 1000
        return (now_ms - found.beat_ms) // 1000 if found.is_lost(now_ms) else None

    def scan_now(self, instance_id: str) -> None:
        """Let another server look at its executors now; one that is not there is left alone."""
        found = self.find(instance_id)
        if found is not None:
            self._look(found)

    def _look(self, other: Instance) -> None:
        if self._calls is None:
            return
        try:
            self._calls.scan_now(other)
        except FedflowError as exc:
            logger.info("Server %s was not told: %s", other.grpc, exc.message)

    def listed(self) -> list[ListedServer]:
        """Return the servers of the last day, this one first."""
        with self._store.read() as tx:
            instances = tx.instances.all() if self._shared else []
            now_ms = tx.instances.now_ms()
            lease = tx.leases.get(LEASE)
            live = tx.tasks.live()
        if not self._shared:
            instances = [replace(self._own, beat_ms=now_ms)]
        leader = self.own_id if not self._shared else lease.owner if lease is not None else None
        rows = [self._row(i, live, leader=leader, now_ms=now_ms) for i in instances]
        return sorted(rows, key=lambda row: not row.is_this)

    def _row(
        self, one: Instance, live: Sequence[TaskRecord], *, leader: str | None, now_ms: int
    ) -> ListedServer:
        gone = one.state is InstanceState.STOPPED
        mine = one.instance_id == self.own_id
        lost = one.is_lost(now_ms) and not gone
        return ListedServer(
            instance_id=one.instance_id,
            http=one.http,
            grpc=one.grpc,
            host=one.host,
            version=one.version,
            state="lost" if lost else one.state.value,
            leads=one.instance_id == leader and not lost,
            is_this=mine,
            started_ms=one.started_ms,
            beat_age_ms=max(0, now_ms - one.beat_ms),
            executors=sum(
                t.instance_id == one.instance_id or (mine and self.is_local(t.instance_id))
                for t in live
            ),
        )
