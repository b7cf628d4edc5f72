"""The store in memory answers as the ones over SQL do, whatever is asked in whatever order."""

from __future__ import annotations

import random
from dataclasses import is_dataclass, replace

import pytest

from fedflow.base.errors.error import FedflowError
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.engines import SPARK, STANDALONE
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import StopRequest
from fedflow.domain.records import (
    Handle,
    JobFilter,
    Metric,
    Order,
    Reply,
    ScheduledSite,
    Sort,
    TaskFilter,
)
from fedflow.domain.scheduling.history import EventFilter
from fedflow.domain.scheduling.submits import SubmitKey
from fedflow.domain.site import Role
from fedflow.domain.states import JOB_FINAL, JobEvent, JobStatus, TaskEvent, TaskStatus
from fedflow.store.memory.store import MemoryStore

JOBS = ("j1", "j2", "j3")
PARTIES = ("9999", "10000")
COMPONENTS = ("b", "a")
ORDERS = tuple((by, down) for by in Sort for down in (True, False))


class Undo(Exception):
    pass


class Script:
    """Random calls on a transaction, the same for the same seed."""

    def __init__(self, seed, make):
        self.rng = random.Random(seed)
        self.make = make
        self.now_ms = 1000

    def call(self):
        """Return the name of a part and a method, and arguments."""
        rng, make = self.rng, self.make
        self.now_ms += rng.randrange(3)
        now = {"now_ms": self.now_ms}
        job_id, component, version = rng.choice(JOBS), rng.choice(COMPONENTS), rng.randrange(2)
        site = rng.choice((make.guest, make.host))
        key = make.task_key(component, version, job_id=job_id, site=site)
        job = make.job_key(job_id, site)
        reason = rng.choice((None, make.reason(str(rng.random()))))
        status, task_status = rng.choice(list(JobStatus)), rng.choice(list(TaskStatus))
        launch = rng.choice(("l1", "l2"))
        choices = [
            ("engines", "put", (rng.choice((STANDALONE, SPARK)), rng.randrange(8)),
             {"memory": rng.choice((0, 90)), **now}),
            ("jobs", "add", (make.job(job_id, site, cores=rng.randrange(4),
             memory=rng.choice((0, 40)), engine=rng.choice((STANDALONE, SPARK)),
             created_ms=self.now_ms, queued_ms=self.now_ms),), {}),
            ("queue", "enter", (job_id, ComputeResources(cores=rng.randrange(4),
             memory=rng.randrange(2), spark=rng.randrange(3))),
             {"queued_ms": self.now_ms, "deadline_ms": self.now_ms + rng.randrange(9),
              "look_ms": self.now_ms + rng.randrange(9)}),
            ("queue", "postpone_check", (job_id, self.now_ms + rng.randrange(9)), {}),
            ("queue", "postpone_request", (job_id, self.now_ms + rng.randrange(9)), {}),
            ("queue", "deny", (job,), now),
            ("jobs", "move", (job, rng.choice(list(JobEvent))),
             {"seen": status, "reason": reason, **now}),
            ("jobs", "set_progress", (job, rng.randrange(100)), now),
            ("jobs", "set_description", (job, "text"), now),
            ("jobs", "drop", (job_id,), {}),
            ("tasks", "drop", (job_id,), {}),
            ("schedules", "drop", (job_id,), {}),
            ("tracking", "drop", (job_id,), {}),
            ("tracking", "every_output", (job_id,), {}),
            ("tracking", "count_metrics", (job_id,), {}),
            ("job_tags", "add", (job_id, rng.choice("tu")), now),
            ("job_tags", "remove", (job_id, rng.choice("tu")), {}),
            ("job_tags", "drop", (job_id,), {}),
            ("job_tags", "of", (JOBS,), {}),
            ("job_tags", "all", (), {"limit": rng.randrange(1, 3)}),
            ("job_lists", "page", (JobFilter(tag=rng.choice((None, "t")),
             any_part=rng.choice((None, "j1", "u", "text", "999")),
             order=Order(by=rng.choice(list(Sort)))),), {}),
            ("job_lists", "progress", (JOBS,), {}),
            ("job_lists", "counts", (self.now_ms - rng.randrange(9),), {}),
            ("jobs", "set_tag", (job, rng.choice(("", "submit_failed"))), now),
            ("jobs", "set_conf", (job, {"n": rng.randrange(9)}, {"timeout": 1}), now),
            ("jobs", "reopen", (job,), {"seen": status, "epoch": rng.randrange(3), "conf": {},
             "parameters": {}, "cores": rng.randrange(4), "memory": rng.choice((0, 40)),
             "engine": rng.choice((None, SPARK)), **now}),
            ("jobs", "take_cores", (job,), now),
            ("jobs", "return_cores", (job,), now),
            ("tasks", "add", ([make.task(key, created_ms=self.now_ms)],), {}),
            ("tasks", "move_party", (key, rng.choice(list(TaskEvent))),
             {"seen": task_status, "reason": reason, **now}),
            ("tasks", "set_status", (key, task_status), now),
            ("tasks", "set_launch", (key, launch, "t"),
             {"seen": rng.choice((None, launch)), **now}),
            ("tasks", "set_handle", (key, launch, Handle(pid=5, start_time=6, host="h")), {}),
            ("tasks", "clear_handle", (key, launch), {}),
            ("tasks", "set_progress", (key, rng.random()), now),
            ("schedules", "add", (make.schedule(job_id, created_ms=self.now_ms,
             priority=rng.randrange(3)),), {}),
            ("schedules", "move", (job_id, rng.choice(list(JobEvent))),
             {"seen": status, "reason": reason, **now}),
            ("schedules", "set_reason", (job_id, reason), now),
            ("schedules", "rerun", (job_id,),
             {"seen": status, "epoch": rng.randrange(3), **now}),
            ("schedules", "set_conf", (job_id, {"n": rng.randrange(9)}), now),
            ("schedules", "add_attempt", (job_id, make.scheduled_task(component, version + 1)),
             now),
            ("schedules", "set_site", (job_id, ScheduledSite(site=site, phase=rng.choice(
                list(SitePhase)), reason=reason)), {"seen": rng.choice(list(SitePhase)), **now}),
            ("schedules", "request_stop", (job_id, StopRequest(status=JobStatus.FAILED,
             reason=make.reason())), now),
            ("schedules", "start_task", (job_id, component, version), now),
            ("schedules", "end_task", (job_id, component, version, task_status),
             {"reason": reason, **now}),
            ("schedules", "report", (job_id, component, version, site, task_status),
             {"reason": reason, "progress": rng.choice((None, rng.random())), **now}),
            ("outbox", "put", ([make.command(job_id, site, body=rng.random(), request_id="r",
             due_ms=self.now_ms + rng.randrange(5)) for _ in range(rng.randrange(3))],), {}),
            ("reply_cache", "put", (rng.choice("rstuv"), Reply(retcode=rng.randrange(3))), now),
            ("reply_cache", "prune", (self.now_ms - 10,), {}),
            ("submits", "put", (SubmitKey(key=rng.choice("kl"), digest="d", job_id=job_id,
             warnings=(), created_ms=self.now_ms),),
             {"instead_of": rng.choice((None, *JOBS))}),
            ("submits", "get", (rng.choice("kl"),), {}),
            ("submits", "prune", (self.now_ms - 10,), {}),
            ("schedules", "reusable", (("a", "b"),), {"limit": rng.randrange(1, 4)}),
            ("leases", "renew", (rng.choice("xy"), rng.choice("ab")),
             {"expires_ms": self.now_ms + rng.randrange(9), **now}),
            ("leases", "release", (rng.choice("xy"), rng.choice("ab")), {}),
            ("tracking", "add_metric", (key, Metric(namespace="n", name=rng.choice("pq"),
             points=((rng.random(), 1),), meta={rng.choice("ab"): 1})), now),
            ("tracking", "drop_metrics", (job_id, rng.choice((None, component)), site), {}),
            ("tracking", "metrics", (job_id, component, site), {"version": version}),
            ("tracking", "put_output", (make.output(key, rng.choice("vw"), rng.randrange(2)),),
             now),
            ("tracking", "put_summary", (key, rng.random()), now),
            ("tracking", "put_model", (make.model(key, param=rng.random()),), now),
            ("events", "drop", (job_id,), {}),
            ("tables", "put", (make.table("ns", rng.choice("tu"), created_ms=self.now_ms),), {}),
            ("tables", "drop", ("ns", rng.choice("tu")), {}),
        ]  # fmt: skip
        return rng.choice(choices)


def _comparable(value):
    """Return a value without the numbers that a store may count as it likes."""
    if is_dataclass(value) and hasattr(value, "number"):
        return replace(value, number=0)
    if is_dataclass(value) and hasattr(value, "token") and hasattr(value, "owner"):
        return replace(value, token=0)
    if isinstance(value, list | tuple):
        return [_comparable(v) for v in value]
    return value


def _ask(tx, call):
    part, method, args, kwargs = call
    try:
        return _comparable(getattr(getattr(tx, part), method)(*args, **kwargs))
    except FedflowError as exc:
        return type(exc).__name__


def _change_a_head(tx, choice):
    """Retry or remove a command; which one is told by its place, as the numbers differ."""
    heads = tx.outbox.heads("10000", now_ms=10**9, skip=frozenset({"j3"}), limit=5)
    if heads:
        head = heads[choice % len(heads)]
        if choice % 2:
            tx.outbox.remove(head.number)
        else:
            tx.outbox.retry(head.number, due_ms=head.due_ms + 3, error="e")


def _queue(queue, now_ms):
    return [
        *(queue.get(job_id) for job_id in JOBS),
        queue.moving(),
        queue.due(now_ms, limit=2),
        *(queue.of_lost(party, limit=2) for party in PARTIES),
        queue.oldest(limit=3),
        queue.first(ComputeResources(cores=2, memory=9), now_ms, limit=3),
        queue.first(ComputeResources(cores=9), now_ms, limit=3, offset=1),
        queue.first(ComputeResources(cores=2, memory=9, spark=1), now_ms, limit=3),
        queue.needing(JOBS[:2], ("10000", "x")),
        queue.under_way(),
        queue.denied(),
        queue.page(starving_before_ms=now_ms - 20, limit=3, offset=1),
        queue.unstopped(limit=3),
        queue.count(),
        queue.parties(),
        queue.ended_parties(),
        *(queue.ended_with(party, since_ms=now_ms - 20, limit=3) for party in PARTIES),
        *(queue.moving_with(party, now_ms) for party in PARTIES),
        *(queue.waiting_with(party, after=JOBS[0], limit=2) for party in PARTIES),
        queue.claims(asked_since_ms=now_ms - 9, queued_before_ms=now_ms - 3),
        queue.moving_shares(),
        queue.waiting_shares(after=JOBS[0], limit=2),
        queue.began_ms(),
    ]


def _everything(tx, make, now_ms):
    seen = {
        "engines": [tx.engines.get(name) for name in (STANDALONE, SPARK)],
        "jobs": tx.jobs.find(JobFilter()),
        "open": tx.jobs.find(JobFilter(statuses=tuple(set(JobStatus) - JOB_FINAL), limit=3)),
        "shown": tx.jobs.find(JobFilter(refused=False)),
        "job_orders": [
            tx.jobs.find(JobFilter(order=Order(by=by, descending=down))) for by, down in ORDERS
        ],
        "task_orders": [
            tx.tasks.find(TaskFilter(order=Order(by=by, descending=down), limit=5, offset=2))
            for by, down in ORDERS
        ],
        "task_counts": [tx.tasks.count(TaskFilter(component=c)) for c in (None, *COMPONENTS)],
        "guests": tx.jobs.count(JobFilter(roles=(Role.GUEST,), limit=1)),
        "open_jobs": tx.jobs.open_jobs(),
        "engines of jobs": tx.jobs.engines(JOBS[:2]),
        "tasks": tx.tasks.find(TaskFilter(all_versions=True)),
        "latest": tx.tasks.find(TaskFilter(statuses=(TaskStatus.RUNNING, TaskStatus.FAILED))),
        "live": tx.tasks.live(),
        "shares": [tx.jobs.shares(job_id) for job_id in JOBS],
        "statuses": [tx.schedules.status(job_id) for job_id in JOBS],
        "queue": _queue(tx.queue, now_ms),
        "active": tx.schedules.active(),
        "destinations": tx.outbox.destinations(),
        "size": tx.outbox.size(),
        "received": [tx.reply_cache.get(r) for r in "rstuv"],
        "leases": [tx.leases.get(x) for x in "xy"],
        "tables": tx.tables.find(),
    }
    for party_id in ("9999", "10000"):
        for at_ms in (now_ms, 10**9):
            seen[party_id, at_ms] = tx.outbox.heads(
                party_id, now_ms=at_ms, skip=frozenset({"j2"}), limit=2
            )
        seen[party_id] = tx.outbox.next_due_ms(party_id)
    for job_id in JOBS:
        seen[job_id] = (
            tx.schedules.epoch(job_id),
            [tx.schedules.is_open(job_id, c, 0) for c in COMPONENTS],
            tx.schedules.get(job_id),
            tx.events.find(EventFilter(job_id=job_id)),
            tx.outbox.of_job(job_id, ("9999", "10000")),
        )
        for site in (make.guest, make.host):
            seen[job_id, site] = (
                tx.tracking.outputs(job_id, None, site),
                [tx.tracking.metrics(job_id, c, site) for c in COMPONENTS],
                [tx.tracking.summary(job_id, c, site) for c in COMPONENTS],
                [tx.tracking.model(job_id, c, site) for c in COMPONENTS],
            )
    return {name: _comparable(value) for name, value in seen.items()}


@pytest.mark.parametrize("seed", range(3))
def test_random_transactions_have_the_same_answers_and_effects(store, make, seed):
    twin, script = MemoryStore(), Script(seed, make)
    answered = set()
    for _ in range(40):
        calls = [script.call() for _ in range(script.rng.randrange(1, 25))]
        undone, choice = script.rng.random() < 0.25, script.rng.randrange(10)
        answers = []
        for each in (store, twin):
            try:
                with each.transaction() as tx:
                    answers.append([_ask(tx, call) for call in calls])
                    _change_a_head(tx, choice)
                    if undone:
                        raise Undo
            except Undo:
                pass
        assert answers[0] == answers[1]
        with store.read() as one, twin.read() as two:
            assert _everything(one, make, script.now_ms) == _everything(two, make, script.now_ms)
        answered |= {
            (call[1], str(answer)[:5]) for call, answer in zip(calls, answers[0], strict=True)
        }
    assert len(answered) > 30, "the script reaches too little"
