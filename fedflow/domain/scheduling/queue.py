"""Whose turn it is: which waiting jobs may ask for cores and memory, and for whom some are kept.

A job that has waited longer than `starving_after_ms` *starves*. Starving jobs go first, oldest
first; then the others by priority, and by age where that is equal. *Back-fill*: every job that fits
may go. But the first starving job that does not fit has a *reservation*: nobody behind it may take
what it waits for, so what comes free is kept until it fits. There is at most one per engine: this
machine and the Spark cluster each keep what comes free for the first job that starves for it.

A site that other initiators ask decides the same way (`goes_first`): who was denied there keeps
asking, and its last question is its *claim*, which lapses when it does not ask for `CLAIM_MS`.

Why no two initiators block each other for ever: all ask the sites in the same order (`Site.order`),
and a starving job keeps what it was granted while it waits for the next site (`schedule.decide`).
So who waits at a site holds only earlier ones, and waits only for jobs that run or that wait at
later ones; the job that waits at the last of them waits for running jobs alone, and those end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fedflow.base.clock import is_older
from fedflow.base.values import dataclass
from fedflow.domain.job.amounts import ComputeResources

CLAIM_MS: Final = 10_000
"""A job that did not ask for longer has no reservation any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A job that waits for `need` of a server's engines. Times are milliseconds since the epoch."""

    job_id: str
    need: ComputeResources
    queued_ms: int  #: since when it waits
    priority: int = 0
    ask_ms: int = 0  #: not to ask before this moment, as it was denied
    ours: bool = True  #: False: another initiator's job; it asks by itself

    def starves(self, now_ms: int, *, starving_after_ms: int) -> bool:
        """Tell whether it waits for too long."""
        return is_older(self.queued_ms, starving_after_ms, now_ms)

    @property
    def age(self) -> tuple[int, str]:
        """Return a sort key: the oldest first."""
        return self.queued_ms, self.job_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """Who may ask now, in order, and for whom the engines keep what comes free."""

    go: tuple[str, ...] = ()  #: job ids
    reserved: tuple[Waiting, ...] = ()  #: no two of them need the same engine

    def keeps_from(self, need: ComputeResources) -> Waiting | None:
        """Return the job that has a reservation of an engine that `need` is of, None if none."""
        return next((one for one in self.reserved if one.need.competes_with(need)), None)


def in_order(jobs: Iterable[Waiting], now_ms: int, *, starving_after_ms: int) -> list[Waiting]:
    """Return jobs in the order in which they go."""

    def key(job: Waiting) -> tuple[int, int, str]:
        starves = job.starves(now_ms, starving_after_ms=starving_after_ms)
        return (-2_000 if starves else -job.priority, *job.age)

    return sorted(jobs, key=key)


def choose(
    jobs: Iterable[Waiting], free: ComputeResources, now_ms: int, *, starving_after_ms: int,
    reserved: tuple[Waiting, ...] = (),
) -> Turn:  # fmt: skip
    """Return which of some jobs, given in order, may ask for what is `free`.

    A job that has a reservation asks too, so that its engine knows of it. `reserved` are those that
    have one already, and whose need is taken from `free`.
    """
    go: list[str] = []
    turn = Turn(reserved=reserved)
    for job in jobs:
        may_ask = job.ours and job.ask_ms <= now_ms
        fits = job.need.fits(free)
        starves = job.starves(now_ms, starving_after_ms=starving_after_ms)
        if starves and not (fits and job.ours) and turn.keeps_from(job.need) is None:
            turn = Turn(reserved=(*turn.reserved, job))
            free = free.minus(job.need)
            fits = True
        elif fits and may_ask:
            free = free.minus(job.need)
        if fits and may_ask:
            go.append(job.job_id)
    return Turn(go=tuple(go), reserved=turn.reserved)


def goes_first(
    asking: Waiting,
    claims: Iterable[Waiting],
    free: ComputeResources,
    now_ms: int,
    *,
    starving_after_ms: int,
) -> Waiting | None:
    """Return the starving job that goes before `asking`, if it would take what that one waits for.

    `claims` are the jobs that were denied here and keep asking.
    """
    starving = [
        claim
        for claim in claims
        if claim.job_id != asking.job_id
        and claim.need.competes_with(asking.need)
        and claim.starves(now_ms, starving_after_ms=starving_after_ms)
    ]
    first = min(starving, key=lambda claim: claim.age, default=None)
    if first is None or asking.age < first.age or asking.need.fits(free.minus(first.need)):
        return None
    return first
