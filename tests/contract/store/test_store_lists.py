"""Lists of jobs and tasks: filters, orders, pages and counts, the same over every store."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from fedflow.domain.lists import fits_job, fits_task, job_page, task_page
from fedflow.domain.records import Between, JobFilter, Order, Sort, TaskFilter
from fedflow.domain.site import Role
from fedflow.domain.states import JobStatus, TaskEvent, TaskStatus

ORDERS = [Order(by=by, descending=down) for by in Sort for down in (True, False)]


def _name(order):
    return f"{order.by}-{'desc' if order.descending else 'asc'}"


def _times(rng):
    started = rng.choice((None, 5, 6, 7))
    ended = rng.choice((None, 8, 9)) if started else rng.choice((None, None, 9))
    return {"started_ms": started, "ended_ms": ended, "created_ms": rng.randrange(1, 4)}


def _jobs(make):
    rng = random.Random(7)
    return [
        make.job(f"j{i % 7}{i}", site, status=rng.choice(list(JobStatus)), **_times(rng))
        for i in range(20)
        for site in (make.guest, make.host)
    ]


def _tasks(make):
    rng = random.Random(8)
    return [
        make.task(
            make.task_key(component, version, job_id=f"j{rng.randrange(3)}{i}", site=site),
            status=rng.choice(list(TaskStatus)), **_times(rng),
        )
        for i, component in enumerate("abcab")
        for version in (1, 0, 2)
        for site in (make.guest, make.host)
    ]  # fmt: skip


def _pages(find, which, size):
    """Return all rows, page by page, until an empty one."""
    rows = []
    for offset in itertools.count(0, size):
        page = find(replace(which, limit=size, offset=offset))
        if not page:
            return rows
        rows += page


@pytest.mark.parametrize("order", ORDERS, ids=_name)
def test_jobs_are_paged_in_every_order_without_gaps_and_those_without_a_value_come_last(
    store, make, order
):
    jobs = _jobs(make)
    with store.transaction() as tx:
        for job in jobs:
            tx.jobs.add(job)
    which = JobFilter(order=order)
    with store.read() as tx:
        every = tx.jobs.find(which)
        assert every == job_page(jobs, which)
        for size in (1, 7, 40):
            assert _pages(tx.jobs.find, which, size) == every
        guests = replace(which, roles=(Role.GUEST,), statuses=(JobStatus.RUNNING, JobStatus.FAILED))
        wanted = [job for job in every if fits_job(guests, job)]
        assert wanted
        assert _pages(tx.jobs.find, guests, 2) == wanted
        assert tx.jobs.count(guests) == len(wanted)
    values = {Sort.STARTED: "started_ms", Sort.ENDED: "ended_ms", Sort.CREATED: "created_ms"}
    if order.by in values:
        shown = [getattr(job, values[order.by]) for job in every]
        known = [value for value in shown if value is not None]
        assert shown == known + [None] * (len(shown) - len(known))
        assert known == sorted(known, reverse=order.descending)


@pytest.mark.parametrize("order", ORDERS, ids=_name)
def test_latest_attempts_are_paged_in_every_order_without_gaps(store, make, order):
    with store.transaction() as tx:
        tx.tasks.add(_tasks(make))
    which = TaskFilter(order=order)
    with store.read() as tx:
        as_added = tx.tasks.find(TaskFilter())
        places = {task.key: place for place, task in enumerate(_tasks(make))}
        assert as_added == sorted(as_added, key=lambda task: places[task.key])
        every = tx.tasks.find(which)
        assert every == task_page(as_added, which)
        for size in (1, 4, 30):
            assert _pages(tx.tasks.find, which, size) == every
        assert tx.tasks.count(which) == len(every) == len(as_added)
        for narrow in (
            replace(which, roles=(Role.HOST,)),
            replace(which, component="a", party_id="9999"),
            replace(which, statuses=(TaskStatus.RUNNING, TaskStatus.WAITING)),
            replace(which, job_id=every[0].key.job_id),
            replace(which, all_versions=True),
        ):
            pool = tx.tasks.find(TaskFilter(all_versions=True)) if narrow.all_versions else as_added
            wanted = task_page([task for task in pool if fits_task(narrow, task)], narrow)
            assert wanted
            assert _pages(tx.tasks.find, narrow, 3) == wanted
            assert tx.tasks.count(narrow) == len(wanted)


PARTS = [
    ("job_id_part", "0_1", ["j10_1"]),
    ("job_id_part", "j1", ["j10_1", "j1%"]),
    ("job_id_part", "J1", []),
    ("job_id_part", "%", ["j1%"]),
    ("party_id_part", "99", ["j10_1", "j1%", "long"]),
    ("party_id_part", "00", ["hosted"]),
    ("description_part", "100%", ["j10_1"]),
    ("description_part", "Ä", ["j1%"]),
    ("description_part", "ä", []),
    ("description_part", "A", []),
    ("description_part", "\\", ["j1%"]),
    ("description_part", "'end", ["long"]),
    ("description_part", " ", ["j10_1", "long"]),
    ("partner_part", "10000", ["j10_1", "long"]),
    ("partner_part", "000", ["j10_1", "long"]),
    ("partner_part", "10099", ["long"]),
    ("partner_part", "10000,10001", []),
    ("partner_part", "9999", ["hosted"]),
    ("partner_part", "est", []),
    ("partner_part", "", ["j10_1", "long", "hosted"]),
]


@pytest.mark.parametrize(("member", "part", "wanted"), PARTS)
def test_a_part_is_looked_for_as_it_is_written(store, make, member, part, wanted):
    many = [str(number) for number in range(10000, 10100)]
    jobs = [
        make.job("j10_1", description="100% done"),
        make.job("j1%", description="Ä\\", roles={"guest": ["9999"], "host": ["9999"]}),
        make.job("long", description="x " * 5000 + "'end", roles={"guest": ["9999"], "host": many}),
        make.job("hosted", make.host),
    ]
    which = JobFilter(**{member: part})
    with store.transaction() as tx:
        for job in jobs:
            tx.jobs.add(job)
        assert {job.key.job_id for job in tx.jobs.find(which)} == set(wanted)
        assert tx.jobs.count(which) == len(wanted)
        assert {job.key.job_id for job in jobs if fits_job(which, job)} == set(wanted)


def test_notes_are_found_by_their_newest_text_short_or_long(store, make):
    key = make.job_key()
    with store.transaction() as tx:
        tx.jobs.add(make.job())
        for text in ("a" * 150, "b" * 151, "", "c"):
            tx.jobs.set_description(key, text, now_ms=2)
            for letter in "abc":
                found = tx.jobs.count(JobFilter(description_part=letter))
                assert found == (letter in text), (letter, text)


@pytest.mark.parametrize(
    ("by", "low", "high", "wanted"),
    [
        (Sort.CREATED, 20, 30, ["b", "c"]),
        (Sort.CREATED, 20.5, 1e300, ["c"]),
        (Sort.STARTED, 0, 100, ["a", "b"]),
        (Sort.ENDED, 0, 100, ["b"]),
        (Sort.ELAPSED, 5, 5, ["b"]),
        (Sort.ELAPSED, 6, 9, []),
    ],
)
def test_a_range_includes_both_ends_and_nothing_without_a_value(store, make, by, low, high, wanted):
    with store.transaction() as tx:
        tx.jobs.add(make.job("a", created_ms=10, started_ms=12))
        tx.jobs.add(make.job("b", created_ms=20, started_ms=22, ended_ms=27))
        tx.jobs.add(make.job("c", created_ms=30))
        which = JobFilter(between=(Between(by=by, low=low, high=high),))
        assert sorted(job.key.job_id for job in tx.jobs.find(which)) == wanted
        assert tx.jobs.count(which) == len(wanted)


def test_only_the_newest_attempt_is_the_latest_however_attempts_are_added(store, make):
    def key(version, site=make.guest):
        return make.task_key("a", version, site=site)

    def latest(tx):
        found = tx.tasks.find(TaskFilter())
        assert tx.tasks.count(TaskFilter()) == len(found)
        return sorted((t.key.site.role.value, t.key.version) for t in found)

    with store.transaction() as tx:
        tx.tasks.add([make.task(key(1))])
        tx.tasks.add([make.task(key(0)), make.task(key(0, make.host))])
        assert latest(tx) == [("guest", 1), ("host", 0)]
        tx.tasks.add([make.task(key(3)), make.task(key(2)), make.task(key(1, make.host))])
        tx.tasks.add([make.task(key(1)), make.task(key(2, make.arbiter))])
        assert latest(tx) == [("arbiter", 2), ("guest", 3), ("host", 1)]
        tx.tasks.add([make.task(make.task_key("b")), make.task(make.task_key("a", job_id="j2"))])
        assert len(latest(tx)) == 5
        assert tx.tasks.count(TaskFilter(job_id="j1", roles=(Role.GUEST,))) == 2
        assert tx.tasks.count(TaskFilter(roles=())) == 0
        assert tx.tasks.count(TaskFilter(all_versions=True)) == 9


def test_what_is_undone_is_not_counted(store, make):
    def add_and_fail(tx):
        tx.tasks.add([make.task()])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        add_and_fail(tx)
    with store.read() as tx:
        assert tx.tasks.count(TaskFilter()) == 0


def test_an_order_follows_later_changes(store, make):
    first, second = make.task_key("a"), make.task_key("b")
    which = TaskFilter(order=Order(by=Sort.STARTED, descending=False))
    with store.transaction() as tx:
        tx.tasks.add([make.task(first), make.task(second)])
        for key, now_ms in ((second, 5), (first, 6)):
            tx.tasks.move_party(key, TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=now_ms)
        assert [t.key.component for t in tx.tasks.find(which)] == ["b", "a"]
