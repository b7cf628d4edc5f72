"""The queue of this server's own jobs: whose turn it is, and what each waits for.

`domain/scheduling/queue.py` decides; here is what it looks at: a bounded part of those that wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fedflow.app.ports.parties import PartyClient
from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.parsed_jobs import need_at
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import Clock
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.job.amounts import UNCOUNTED, Capacity, ComputeResources
from fedflow.domain.job.engines import SPARK, STANDALONE, OwnEngines
from fedflow.domain.job.resources import ResourceRequest, check_ceiling, demand_at, shortage
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.reason import Reason
from fedflow.domain.records import Engine, JobRecord, WaitingJob
from fedflow.domain.scheduling.queue import CLAIM_MS, Turn, Waiting, choose, goes_first, in_order
from fedflow.domain.site import Site

_BATCH: Final = 64  #: jobs that one pass considers, of those that starve and of the others
_LOOKED: Final = 512  #: jobs that it looks through for these
_ASKING: Final = 8  #: who was denied at a party and keeps asking; others ask when they are fewer


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedJob:
    """One waiting job in the queue."""

    position: int  #: 1 goes first
    job: WaitingJob
    starves: bool
    reason: Reason


class JobQueue:
    """Who waits for this server's engines."""

    def __init__(
        self,
        *,
        store: Store,
        parties: PartyClient,
        clock: Clock,
        timing: Timing,
        engines: OwnEngines,
    ) -> None:
        self._store = store
        self._parties = parties
        self._clock = clock
        self._timing = timing
        self._engines = engines

    def check_ceiling(self, tx: Tx, spec: JobSpec) -> None:
        """Check that the party jobs at this server fit into its engines together.

        Raises: NotEnoughResources: the job would wait for ever. EngineMissing.
        """
        needs: dict[str, dict[Site, ResourceRequest]] = {}
        for site, engine in self._here(spec):
            parameters = spec.job_parameters_at(site)
            self._engines.check(spec.settings, site, parameters)
            needs.setdefault(engine, {})[site] = demand_at(site, parameters, engine=engine)
        for name, demands in needs.items():
            found = tx.engines.get(name)
            check_ceiling(demands, found.capacity if found else Capacity(cores=0, engine=name))

    def need_here(self, spec: JobSpec) -> ComputeResources:
        """Return what a job takes of this server's own engines."""
        needs = (need_at(spec, site, engine).on(engine) for site, engine in self._here(spec))
        return sum(needs, ComputeResources())

    def _here(self, spec: JobSpec) -> list[tuple[Site, str]]:
        """Return the sites of a job at this server, with their engines."""
        here = [site for site in spec.sites if self._parties.is_local(site.party_id)]
        return [(site, self._engines.at(site, spec.job_parameters_at(site))) for site in here]

    # --- at the initiator -------------------------------------------------------------------------

    def turn(self, tx: Tx) -> Turn:
        """Return which waiting jobs may ask their sites now; at most some dozens."""
        now_ms = self._clock.now_ms()
        starving_after_ms = self._timing.starving_after_ms
        free, whole = self._free(tx), self._whole(tx)
        begun = tx.queue.under_way()  # the oldest first
        kept = Turn()
        for one in map(_waiting, begun):
            starves = one.starves(now_ms, starving_after_ms=starving_after_ms)
            waits_here = one.need.fits(whole) and not one.need.fits(free)
            if starves and waits_here and kept.keeps_from(one.need) is None:
                kept = Turn(reserved=(*kept.reserved, one))
            free = free.minus(one.need)
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
            ordered, free, now_ms, starving_after_ms=starving_after_ms, reserved=kept.reserved
        )
        return Turn(go=(*again, *turn.go), reserved=turn.reserved)

    def _first(self, tx: Tx, free: ComputeResources, now_ms: int) -> list[WaitingJob]:
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

    def page(self, *, limit: int, offset: int = 0) -> tuple[list[RankedJob], int]:
        """Return a part of the queue in its order, and how many jobs wait in all."""
        now_ms = self._clock.now_ms()
        before_ms = now_ms - self._timing.starving_after_ms
        with self._store.read() as tx:
            jobs = tx.queue.page(starving_before_ms=before_ms, limit=limit, offset=offset)
            count = tx.queue.count()
            engines, turn = self._all(tx), self.turn(tx)
        places = [
            RankedJob(
                position=offset + i + 1,
                job=job,
                starves=job.queued_ms < before_ms,
                reason=job.reason or self._reason(job, engines, turn, now_ms),
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
        return self._reason(job, self._all(tx), self.turn(tx), now_ms)

    def _reason(
        self, job: WaitingJob, engines: Iterable[Engine], turn: Turn, now_ms: int
    ) -> Reason:
        missing = _shortage(job.need, engines)
        if missing is not None:
            return _lacks(missing, job.initiator)
        first = turn.keeps_from(job.need)
        if first is not None and first.job_id != job.job_id and job.job_id not in turn.go:
            return _reserved(job.need, first, job.initiator, now_ms)
        message = Message("waits for its turn; `fedflow queue list` shows who goes first")
        return Reason(code="Queued", message=message, site=job.initiator)

    # --- at a site that is asked ------------------------------------------------------------------

    def objection(self, tx: Tx, share: JobRecord) -> Reason | None:
        """Return why a party job does not get cores here though they may be free: another job has
        waited too long for them.

        A job that holds cores here already goes on: who holds must not wait for who waits.
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
            need=sum((s.need for s in shares), ComputeResources()),
            queued_ms=share.queued_ms,
        )
        first = goes_first(
            asking, claims, free, now_ms, starving_after_ms=self._timing.starving_after_ms
        )
        return None if first is None else _reserved(asking.need, first, share.key.site, now_ms)

    def missing(self, tx: Tx, share: JobRecord) -> Reason:
        """Return what a party job lacks here, in numbers."""
        need = sum(
            (s.need for s in tx.jobs.shares(share.key.job_id) if not s.in_use), ComputeResources()
        )
        found = _shortage(need, self._all(tx))
        return _lacks(found or (str(need), Message("an engine is missing")), share.key.site)

    # --- helpers ----------------------------------------------------------------------------------

    def _all(self, tx: Tx) -> list[Engine]:
        """Return the engines that are there, also one that the conf does not name any more."""
        found = (tx.engines.get(name) for name in (STANDALONE, SPARK))
        return [engine for engine in found if engine is not None]

    def _free(self, tx: Tx) -> ComputeResources:
        return sum((engine.free.on(engine.name) for engine in self._all(tx)), ComputeResources())

    def _claims(self, tx: Tx, now_ms: int, *, foreign: bool) -> list[Waiting]:
        found = tx.queue.claims(
            asked_since_ms=now_ms - CLAIM_MS,
            queued_before_ms=now_ms - self._timing.starving_after_ms,
        )
        whole = self._whole(tx) if found else ComputeResources()
        return [
            Waiting(job_id=c.job_id, need=c.need, queued_ms=c.queued_ms, ours=False)
            for c in found
            if c.need.fits(whole) and not (foreign and self._parties.is_local(c.initiator.party_id))
        ]

    def _whole(self, tx: Tx) -> ComputeResources:
        """Return all that the engines have; what needs more can never start, and blocks nobody."""
        wholes = (
            ComputeResources(cores=engine.cores, memory=engine.memory or UNCOUNTED).on(engine.name)
            for engine in self._all(tx)
        )
        return sum(wholes, ComputeResources())


def _lacks(shortage: tuple[str, str], site: Site) -> Reason:
    need, left = shortage
    message = Message("waits for {need} at {site}: {left}", need, site, left)
    return Reason(code="NotEnoughResources", message=message, site=site)


def _shortage(need: ComputeResources, engines: Iterable[Engine]) -> tuple[str, str] | None:
    """Return what is short of the first engine that lacks it, see `shortage`."""
    found = (shortage(need.of(one.name), one.free, one.capacity) for one in engines)
    return next((one for one in found if one is not None), None)


def _waiting(job: WaitingJob) -> Waiting:
    return Waiting(
        job_id=job.job_id,
        need=job.need,
        queued_ms=job.queued_ms,
        priority=job.priority,
        ask_ms=job.ask_ms,
    )


def _reserved(need: ComputeResources, first: Waiting, site: Site, now_ms: int) -> Reason:
    seconds = (now_ms - first.queued_ms) // 1000
    message = Message(
        "waits for {need} at {site}: what is free there is kept for job {job_id}, "
        "which has waited for {seconds} seconds",
        need,
        site,
        first.job_id,
        seconds,
    )
    return Reason(code="Reserved", message=message, site=site)
