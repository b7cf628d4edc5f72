"""Whose turn it is: order, back-fill, reservations, and that nobody waits for ever."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.scheduling.queue import CLAIM_MS, Waiting, choose, goes_first, in_order

NOW_MS = 1_000_000
STARVES_MS = 300_000


def job(job_id: str, cores: int = 1, *, age_ms: int = 0, **more: object) -> Waiting:
    values: dict[str, object] = {
        "job_id": job_id, "need": ComputeResources(cores=cores), "queued_ms": NOW_MS - age_ms,
        **more,
    }  # fmt: skip
    return Waiting(**values)  # type: ignore[arg-type]


def turn(*jobs: Waiting, free: int, memory: int = 0) -> tuple[list[str], str | None]:
    ordered = in_order(jobs, NOW_MS, starving_after_ms=STARVES_MS)
    found = choose(
        ordered, ComputeResources(cores=free, memory=memory), NOW_MS, starving_after_ms=STARVES_MS
    )
    reserved = [one.job_id for one in found.reserved]
    assert len(reserved) <= 1  # there is one engine
    return list(found.go), reserved[0] if reserved else None


def test_greater_priority_goes_first_and_age_decides_among_equals() -> None:
    jobs = [job("late"), job("old", age_ms=9), job("urgent", priority=5), job("low", priority=-1)]
    ordered = in_order(jobs, NOW_MS, starving_after_ms=STARVES_MS)
    assert [j.job_id for j in ordered] == ["urgent", "old", "late", "low"]


def test_who_starves_goes_before_any_priority_the_oldest_first() -> None:
    jobs = [
        job("urgent", priority=1000),
        job("starved", age_ms=STARVES_MS + 1, priority=-1000),
        job("older", age_ms=STARVES_MS + 2, priority=-1000),
    ]
    ordered = in_order(jobs, NOW_MS, starving_after_ms=STARVES_MS)
    assert [j.job_id for j in ordered] == ["older", "starved", "urgent"]


def test_every_job_that_fits_may_go() -> None:
    assert turn(job("big", 9, age_ms=5), job("a", 2, age_ms=4), job("b", 2), free=4) == (
        ["a", "b"],
        None,
    )


def test_what_a_starving_job_waits_for_is_kept_for_it() -> None:
    starving = job("starving", 8, age_ms=STARVES_MS + 1)
    assert turn(starving, job("small", 1), free=4) == (["starving"], "starving")


def test_what_a_starving_job_leaves_may_be_taken() -> None:
    starving = job("starving", 2, age_ms=STARVES_MS + 1, need=ComputeResources(cores=2, memory=100))
    small = job("small", 3)
    assert turn(starving, small, free=5, memory=50) == (["starving", "small"], "starving")
    assert turn(starving, small, free=4, memory=50) == (["starving"], "starving")


def test_a_job_that_needs_nothing_always_goes() -> None:
    starving = job("starving", 8, age_ms=STARVES_MS + 1)
    assert turn(starving, job("free", 0), free=-2) == (["starving", "free"], "starving")


def test_a_denied_job_takes_nobody_s_place_before_it_may_ask_again() -> None:
    denied = job("denied", 4, age_ms=5, ask_ms=NOW_MS + 1)
    assert turn(denied, job("other", 4), free=4) == (["other"], None)


def test_another_initiator_s_starving_job_has_the_reservation_here_too() -> None:
    foreign = job("foreign", 3, age_ms=STARVES_MS + 1, ours=False)
    assert turn(foreign, job("own", 2), free=4) == ([], "foreign")
    assert turn(foreign, job("own", 1), free=4) == (["own"], "foreign")


def test_at_a_site_the_oldest_starving_claim_goes_first() -> None:
    claims = [job("a", 8, age_ms=STARVES_MS + 1), job("b", 8, age_ms=STARVES_MS + 9)]

    def first(asking: Waiting, free: int = 4) -> str | None:
        found = goes_first(
            asking, claims, ComputeResources(cores=free), NOW_MS, starving_after_ms=STARVES_MS
        )
        return found.job_id if found else None

    assert first(job("new", 1)) == "b"
    assert first(job("new", 1), free=9) is None  # it leaves what `b` waits for
    assert first(claims[0]) == "b"
    assert first(claims[1]) is None
    assert first(job("older", 1, age_ms=STARVES_MS + 10)) is None


waiting = st.builds(
    job,
    st.uuids().map(str),
    st.integers(0, 9),
    age_ms=st.integers(0, 2 * STARVES_MS),
    priority=st.integers(-1000, 1000),
    ours=st.booleans(),
    ask_ms=st.sampled_from([0, NOW_MS, NOW_MS + 1]),
)


# --- two engines ----------------------------------------------------------------------------------


def two(*jobs: Waiting, cores: int, spark: int) -> tuple[list[str], list[str]]:
    ordered = in_order(jobs, NOW_MS, starving_after_ms=STARVES_MS)
    free = ComputeResources(cores=cores, spark=spark)
    found = choose(ordered, free, NOW_MS, starving_after_ms=STARVES_MS)
    return list(found.go), [one.job_id for one in found.reserved]


def on_spark(job_id: str, cores: int, **more: int) -> Waiting:
    return job(job_id, need=ComputeResources(spark=cores), **more)  # type: ignore[arg-type]


def test_a_full_cluster_keeps_no_job_from_the_machine() -> None:
    jobs = [on_spark("big", 9, age_ms=9), job("here", 2), on_spark("small", 1)]
    assert two(*jobs, cores=2, spark=4) == (["here", "small"], [])


def test_each_engine_keeps_what_comes_free_for_the_first_that_starves_for_it() -> None:
    starving = STARVES_MS + 9
    jobs = [
        on_spark("spark 1", 8, age_ms=starving),
        on_spark("spark 2", 8, age_ms=starving - 1),
        job("here 1", 8, age_ms=starving - 2),
        job("here 2", 8, age_ms=starving - 3),
        on_spark("late on spark", 1),
        job("late here", 1),
    ]
    going, reserved = two(*jobs, cores=4, spark=4)
    assert reserved == ["spark 1", "here 1"]
    assert going == ["spark 1", "here 1"]


def test_a_starving_job_on_the_cluster_keeps_nothing_of_the_machine() -> None:
    jobs = [on_spark("starving", 8, age_ms=STARVES_MS + 1), job("here", 4)]
    assert two(*jobs, cores=4, spark=4) == (["starving", "here"], ["starving"])


def test_a_job_that_waits_for_both_engines_keeps_both() -> None:
    both = job("both", need=ComputeResources(cores=2, spark=8), age_ms=STARVES_MS + 1)
    jobs = [both, job("here", 3), job("small", 2), on_spark("there", 1)]
    assert two(*jobs, cores=4, spark=4) == (["both", "small"], ["both"])


def test_a_claim_keeps_only_its_own_engine_from_others() -> None:
    claim = on_spark("claim", 8, age_ms=STARVES_MS + 1)
    free = ComputeResources(cores=4, spark=4)
    asks = {"starving_after_ms": STARVES_MS}
    assert goes_first(job("here", 4), [claim], free, NOW_MS, **asks) is None
    assert goes_first(on_spark("there", 1), [claim], free, NOW_MS, **asks) == claim


needs = st.builds(
    ComputeResources, cores=st.integers(0, 6), memory=st.just(0), spark=st.integers(0, 6)
)
mixed = st.builds(
    lambda one, need: replace(one, need=need),
    st.builds(
        job,
        st.uuids().map(str),
        age_ms=st.integers(0, 2 * STARVES_MS),
        priority=st.integers(-1000, 1000),
        ours=st.booleans(),
        ask_ms=st.sampled_from([0, NOW_MS, NOW_MS + 1]),
    ),
    needs,
)


@given(st.lists(mixed, max_size=12), needs)
def test_no_engine_gives_more_than_is_free_nor_has_two_reservations(
    jobs: list[Waiting], free: ComputeResources
) -> None:
    ordered = in_order(jobs, NOW_MS, starving_after_ms=STARVES_MS)
    found = choose(ordered, free, NOW_MS, starving_after_ms=STARVES_MS)
    reserved = {one.job_id for one in found.reserved}
    going = [j for j in jobs if j.job_id in found.go and j.job_id not in reserved]
    assert sum((j.need for j in going), ComputeResources()).fits(free)
    for engine in ("STANDALONE", "SPARK"):
        keeping = [one for one in found.reserved if one.need.of(engine) != ComputeResources()]
        assert len(keeping) <= 1
    alone = {
        engine: choose(
            [replace(j, need=j.need.of(engine).on(engine)) for j in ordered if is_of(j, engine)],
            free, NOW_MS, starving_after_ms=STARVES_MS,
        )
        for engine in ("STANDALONE", "SPARK")
    }  # fmt: skip
    if all(is_of(j, "STANDALONE") != is_of(j, "SPARK") for j in jobs):
        each = {job_id for turn_ in alone.values() for job_id in turn_.go}
        assert set(found.go) == each  # engines that no job needs together do not meet


def is_of(one: Waiting, engine: str) -> bool:
    return one.need.of(engine) != ComputeResources()


@given(st.lists(waiting, max_size=12), st.integers(-2, 20))
def test_the_turn_never_gives_more_than_is_free_and_never_to_who_may_not_ask(
    jobs: list[Waiting], free: int
) -> None:
    ordered = in_order(jobs, NOW_MS, starving_after_ms=STARVES_MS)
    found = choose(ordered, ComputeResources(cores=free), NOW_MS, starving_after_ms=STARVES_MS)
    by_id = {j.job_id: j for j in jobs}
    reserved = found.reserved[0].job_id if found.reserved else None
    going = [by_id[job_id] for job_id in found.go if job_id != reserved]
    assert sum(j.need.cores for j in going) <= max(0, free)
    assert all(j.ours and j.ask_ms <= NOW_MS for j in going)
    if reserved is not None:
        left = max(0, free - by_id[reserved].need.cores)
        behind = going[[*found.go].index(reserved) :] if reserved in found.go else []
        assert sum(j.need.cores for j in behind) <= left
    again = choose(ordered, ComputeResources(cores=free), NOW_MS, starving_after_ms=STARVES_MS)
    assert again == found


# --- two initiators, several sites: a model of asking ---------------------------------------------


@dataclass
class Site:
    """An engine: who holds how much of it, and who asked in vain, when."""

    total: int
    held: dict[str, int] = field(default_factory=dict)
    asked: dict[str, tuple[Waiting, int]] = field(default_factory=dict)

    def ask(self, asking: Waiting, now_ms: int) -> bool:
        free = ComputeResources(cores=self.total - sum(self.held.values()))
        claims = [w for w, at_ms in self.asked.values() if now_ms - at_ms <= CLAIM_MS]
        first = goes_first(asking, claims, free, now_ms, starving_after_ms=STARVES_MS)
        if first is not None or not asking.need.fits(free):
            self.asked[asking.job_id] = (asking, now_ms)
            return False
        self.held[asking.job_id] = asking.need.cores
        self.asked.pop(asking.job_id, None)
        return True


@dataclass
class Job:
    waits: Waiting
    sites: list[int]  #: in the order in which all initiators ask
    runs_ms: int
    until_ms: int | None = None
    retry_ms: int = 0


def step(job: Job, sites: list[Site], now_ms: int, *, holds: bool = True) -> None:
    """Let a job end, or ask one site after the other as `decide` does."""
    name = job.waits.job_id
    if job.until_ms is not None:
        if job.until_ms <= now_ms:
            for i in job.sites:
                sites[i].held.pop(name, None)
        return
    if now_ms < job.retry_ms:
        return
    for i in job.sites:
        if name not in sites[i].held and not sites[i].ask(job.waits, now_ms):
            job.retry_ms = now_ms + 2_000
            if not (holds and job.waits.starves(now_ms, starving_after_ms=STARVES_MS)):
                for held in job.sites:
                    sites[held].held.pop(name, None)
            return
    job.until_ms = now_ms + job.runs_ms


@pytest.mark.parametrize("holds", [True, False])
def test_only_who_keeps_what_it_was_granted_gets_through_a_crowd(holds: bool) -> None:
    """Small jobs take whatever is free at either of two sites the moment it is."""
    sites = [Site(total=4), Site(total=4)]
    big = Job(waits=replace(job("big", 4), queued_ms=NOW_MS), sites=[0, 1], runs_ms=1_000)
    small: list[Job] = []
    for now_ms in range(NOW_MS, NOW_MS + 1_800_000, 500):
        for one in small:
            step(one, sites, now_ms)
        small = [one for one in small if one.until_ms is not None and one.until_ms > now_ms]
        for i in (0, 1):
            while True:
                waits = replace(job(f"{now_ms}-{i}-{len(small)}"), queued_ms=now_ms)
                small.append(Job(waits=waits, sites=[i], runs_ms=20_000 + 1_000 * len(small)))
                step(small[-1], sites, now_ms)
                if small[-1].until_ms is None:
                    small.pop()
                    break
        step(big, sites, now_ms, holds=holds)
    assert (big.until_ms is not None) == holds


@pytest.mark.parametrize("seed", range(25))
def test_every_job_of_two_initiators_gets_its_cores_while_small_jobs_keep_coming(seed: int) -> None:
    rng = Random(seed)
    sites = [Site(total=rng.randint(4, 12)) for _ in range(3)]
    jobs: list[Job] = []

    def submit(now_ms: int, *, big: bool) -> None:
        chosen = sorted(rng.sample(range(3), rng.randint(2, 3) if big else rng.randint(1, 2)))
        most = min(sites[i].total for i in chosen)
        cores = most if big else 1
        waits = replace(job(f"{len(jobs):04d}", cores), queued_ms=now_ms)
        jobs.append(Job(waits=waits, sites=chosen, runs_ms=rng.randint(5_000, 60_000)))

    now_ms = NOW_MS
    for _ in range(6):
        submit(now_ms, big=True)
    big = list(jobs)
    while any(j.until_ms is None or j.until_ms > now_ms for j in big):
        now_ms += 500
        if now_ms % 2_000 == 0:
            submit(now_ms, big=False)
        order = jobs[:]
        rng.shuffle(order)
        for one in order:
            step(one, sites, now_ms)
        jobs = [j for j in jobs if j.until_ms is None or j.until_ms > now_ms or j in big]
        assert all(sum(s.held.values()) <= s.total for s in sites)
        assert now_ms - NOW_MS < 3_600_000, "a job waits for ever"
