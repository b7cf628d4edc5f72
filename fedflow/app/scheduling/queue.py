"""The queue of this server's own jobs: whose turn it is, and what each waits for.

`domain/queue.py` decides; here is what it looks at: a bounded part of those that wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fedflow.app.ports import PartyClient, Store, Tx
from fedflow.app.timing import Timing
from fedflow.base.clock import Clock
from fedflow.domain.job_spec import JobSpec
from fedflow.domain.queue import CLAIM_MS, Turn, Waiting, choose, goes_first, in_order
from fedflow.domain.records import Engine, JobRecord, WaitingJob
from fedflow.domain.resources import (
    UNCOUNTED,
    Amount,
    Capacity,
    check_ceiling,
    demand_at,
    shortage,
)
from fedflow.domain.schedule import Reason
from fedflow.domain.site import Site

_BATCH: Final = 64  #: jobs that one pass considers, of those that starve and of the others
_LOOKED: Final = 512  #: jobs that it looks through for these
_ASKING: Final = 8  #: who was denied at a party and keeps asking; others ask when they are fewer


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One waiting job in the queue."""

    position: int  #: 1 goes first
    job: WaitingJob
    starves: bool
    reason: Reason


class Queue:
    """Who waits for this server's engine."""

    def __init__(
        self, *, store: Store, parties: PartyClient, clock: Clock, timing: Timing, engine: str
    ) -> None:
        self._store = store
        self._parties = parties
        self._clock = clock
        self._timing = timing
        self._engine = engine

    def check_ceiling(self, tx: Tx, spec: JobSpec) -> None:
        """Check that a job's shares at this server fit into its engine together.

        Raises: NotEnoughResources: the job would wait for ever.
        """
        engine = tx.engines.get(self._engine)
        here = [site for site in spec.sites if self._parties.is_local(site.party_id)]
        check_ceiling(
            {site: demand_at(site, spec.job_parameters_at(site)) for site in here},
            engine.capacity if engine else Capacity(cores=0),
        )

    # --- at the initiator -------------------------------------------------------------------------

    def turn(self, tx: Tx) -> Turn:
        """Return which waiting jobs may ask their sites now; at most some dozens."""
        now_ms = self._clock.now_ms()
        starving_after_ms = self._timing.starving_after_ms
        free, whole = self._free(tx), self._whole(tx)
        begun = tx.queue.under_way()  # the oldest first
        reserved_for: Waiting | None = None
        for one in map(_waiting, begun):
            starves = one.starves(now_ms, starving_after_ms=starving_after_ms)
            waits_here = one.need.fits(whole) and not one.need.fits(free)
            if reserved_for is None and starves and waits_here:
                reserved_for = one
            free = free.less(one.need)
        again = [j.job_id for j in begun if 0 < j.ask_ms <= now_ms]
        waiting = [
            *(self._claims(tx, now_ms, foreign=True)),
            *(
                one
                for one in map(_waiting, tx.queue.oldest(limit=_BATCH))
                if one.starves(now_ms, starving_after_ms=starving_after_ms)
                and one.need.fits(whole)  # else the engine has become smaller: keep nothing for it
            ),
            *map(_waiting, self._first(tx, free, now_ms)),
        ]
        skip = {j.job_id for j in begun}
        unique = {one.job_id: one for one in waiting if one.job_id not in skip}
        ordered = in_order(unique.values(), now_ms, starving_after_ms=starving_after_ms)
        turn = choose(
            ordered, free, now_ms, starving_after_ms=starving_after_ms, reserved_for=reserved_for
        )
        return Turn(go=(*again, *turn.go), reserved_for=turn.reserved_for)

    def _first(self, tx: Tx, free: Amount, now_ms: int) -> list[WaitingJob]:
        """Return jobs that fit here and need no party that denies many already; not all that wait
        are looked through.
        """
        full = [party for party, number in tx.queue.denied().items() if number >= _ASKING]
        found: list[WaitingJob] = []
        for offset in range(0, _LOOKED if full else _BATCH, _BATCH):
            jobs = tx.queue.first(free, now_ms, limit=_BATCH, offset=offset)
            new = [j.job_id for j in jobs if not j.ask_ms]  # who was denied goes on asking
            needing = tx.queue.needing(new, full) if full and new else set()
            found += [j for j in jobs if j.job_id not in needing]
            if len(jobs) < _BATCH or len(found) >= _BATCH:
                break
        return found[:_BATCH]

    def page(self, *, limit: int, offset: int = 0) -> tuple[list[Place], int]:
        """Return a part of the queue in its order, and how many jobs wait in all."""
        now_ms = self._clock.now_ms()
        before_ms = now_ms - self._timing.starving_after_ms
        with self._store.read() as tx:
            jobs = tx.queue.page(starving_before_ms=before_ms, limit=limit, offset=offset)
            count = tx.queue.count()
            engine, turn = tx.engines.get(self._engine), self.turn(tx)
        places = [
            Place(
                position=offset + i + 1,
                job=job,
                starves=job.queued_ms < before_ms,
                reason=job.reason or self._reason(job, engine, turn, now_ms),
            )
            for i, job in enumerate(jobs)
        ]
        return places, count

    def reason(self, tx: Tx, job_id: str) -> Reason | None:
        """Return what a waiting job of this server waits for now, None if it does not wait."""
        job = tx.queue.get(job_id)
        if job is None:
            return None
        if job.reason is not None:
            return job.reason
        now_ms = self._clock.now_ms()
        return self._reason(job, tx.engines.get(self._engine), self.turn(tx), now_ms)

    def _reason(self, job: WaitingJob, engine: Engine | None, turn: Turn, now_ms: int) -> Reason:
        missing = shortage(job.need, engine.free, engine.capacity) if engine else None
        if missing is not None:
            message = f"waits for {missing[0]} at {job.initiator}: {missing[1]}"
            return Reason(code="NotEnoughResources", message=message, site=job.initiator)
        first = turn.reserved_for
        if first is not None and first.job_id != job.job_id and job.job_id not in turn.go:
            return _reserved(job.need, first, job.initiator, now_ms)
        message = "waits for its turn; `fedflow queue list` shows who goes first"
        return Reason(code="Queued", message=message, site=job.initiator)

    # --- at a site that is asked ------------------------------------------------------------------

    def objection(self, tx: Tx, share: JobRecord) -> Reason | None:
        """Return why a share does not get its cores here though they may be free: another job has
        waited too long for them.

        A job that holds a share here already goes on: who holds must not wait for who waits.
        """
        now_ms = self._clock.now_ms()
        claims = self._claims(tx, now_ms, foreign=False)
        if not claims:
            return None
        free = self._free(tx)
        shares = tx.jobs.shares(share.key.job_id)
        if any(s.in_use for s in shares):
            return None
        asking = Waiting(
            job_id=share.key.job_id,
            need=sum((s.need for s in shares), Amount()),
            queued_ms=share.queued_ms,
        )
        first = goes_first(
            asking, claims, free, now_ms, starving_after_ms=self._timing.starving_after_ms
        )
        return None if first is None else _reserved(asking.need, first, share.key.site, now_ms)

    def missing(self, tx: Tx, share: JobRecord) -> Reason:
        """Return what a share lacks here, in numbers."""
        engine = tx.engines.get(self._engine)
        need = sum((s.need for s in tx.jobs.shares(share.key.job_id) if not s.in_use), Amount())
        found = shortage(need, engine.free, engine.capacity) if engine else None
        what, left = found or (str(need), "an engine is missing")
        site = share.key.site
        message = f"waits for {what} at {site}: {left}"
        return Reason(code="NotEnoughResources", message=message, site=site)

    # --- helpers ----------------------------------------------------------------------------------

    def _free(self, tx: Tx) -> Amount:
        engine = tx.engines.get(self._engine)
        return engine.free if engine else Amount()

    def _claims(self, tx: Tx, now_ms: int, *, foreign: bool) -> list[Waiting]:
        found = tx.queue.claims(
            asked_since_ms=now_ms - CLAIM_MS,
            queued_before_ms=now_ms - self._timing.starving_after_ms,
        )
        whole = self._whole(tx) if found else Amount()
        return [
            Waiting(job_id=c.job_id, need=c.need, queued_ms=c.queued_ms, ours=False)
            for c in found
            if c.need.fits(whole) and not (foreign and self._parties.is_local(c.initiator.party_id))
        ]

    def _whole(self, tx: Tx) -> Amount:
        """Return all that the engine has; what needs more waits in vain, and nobody for it."""
        engine = tx.engines.get(self._engine)
        if engine is None:
            return Amount()
        return Amount(cores=engine.cores, memory=engine.memory or UNCOUNTED)


def need_here(needs: Iterable[tuple[Site, Amount]], parties: PartyClient) -> Amount:
    """Return what a job takes of this server's own engine, of what it takes at its sites."""
    return sum((need for site, need in needs if parties.is_local(site.party_id)), Amount())


def _waiting(job: WaitingJob) -> Waiting:
    return Waiting(
        job_id=job.job_id,
        need=job.need,
        queued_ms=job.queued_ms,
        priority=job.priority,
        ask_ms=job.ask_ms,
    )


def _reserved(need: Amount, first: Waiting, site: Site, now_ms: int) -> Reason:
    seconds = (now_ms - first.queued_ms) // 1000
    message = (
        f"waits for {need} at {site}: what is free there is kept for job {first.job_id}, "
        f"which has waited for {seconds} seconds"
    )
    return Reason(code="Reserved", message=message, site=site)
