"""What must never happen, looked at after each step, and what must hold in the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fedflow.app.initiator.idempotency import was_refused
from fedflow.app.ports.store import Tx
from fedflow.domain.job.engines import SPARK, STANDALONE
from fedflow.domain.records import (
    SUBMIT_FAILED,
    Command,
    Engine,
    JobFilter,
    JobKey,
    JobRecord,
    Reply,
    ScheduledJob,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.scheduling.agreement import CODE
from fedflow.domain.site import Role, Site
from fedflow.domain.states import (
    JOB_FINAL,
    JOB_MOVES,
    TASK_FINAL,
    TASK_SUCCEEDED,
    JobEvent,
    JobStatus,
    TaskStatus,
)
from tests.sim.jobs import policy_of, upstream
from tests.sim.processes import PRIVATE

if TYPE_CHECKING:
    from tests.sim.processes import Process
    from tests.sim.server import Server
    from tests.sim.world import World


class Violation(AssertionError):
    """Something happened that must never happen. `job_id` is the job that it concerns, if any."""

    def __init__(self, message: str, *, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


def require(holds: bool, message: str, *, job_id: str | None = None) -> None:
    """Raises: Violation: it does not hold."""
    if not holds:
        raise Violation(message, job_id=job_id)


_OVERRULES = {
    (seen, end)
    for (seen, event), end in JOB_MOVES.items()
    if event
    in (
        JobEvent.OVERRULED_SUCCESS,
        JobEvent.OVERRULED_CANCELED,
        JobEvent.OVERRULED_TIMEOUT,
    )
}
_PASSING = frozenset({105, 106})


class Check:
    """The invariants of one world, with what they remember of earlier steps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._writes: dict[str, int] = {}  #: party -> writes of its store when it was checked
        self._shares: dict[tuple[str, JobKey], JobRecord] = {}
        self._jobs: dict[tuple[str, str], ScheduledJob] = {}
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._done: set[tuple[str, str]] = set()  #: (party, request id) that took effect
        self.were_put_back: set[str] = set()  #: parties
        self._before: tuple[Any, ...] | None = None
        self._known: tuple[Any, ...] | None = None

    def job_ids(self) -> list[str]:
        """Return all jobs that any initiator has stored, in the order in which they were seen."""
        return [job_id for _, job_id in self._jobs]

    def put_back(self, party_id: str) -> None:
        """Forget how a party's database was: it is as before, and may differ from others' now."""
        self.were_put_back.add(party_id)
        self._shares = {k: v for k, v in self._shares.items() if k[0] != party_id}
        self._jobs = {k: v for k, v in self._jobs.items() if k[0] != party_id}
        self._done = {k for k in self._done if k[0] != party_id}
        self._numbers = {k: v for k, v in self._numbers.items() if party_id not in (k[0], k[2])}

    # --- after each step ------------------------------------------------------------------------

    def always(self) -> None:
        """Look at every server whose store was written since the last look."""
        trace = self._world.trace
        require(
            not trace.defects,
            "a server met an error that no fault explains: "
            + (trace.defects[0] if trace.defects else ""),
        )
        for party_id, server in self._world.servers.items():
            if self._writes.get(party_id) != server.store.writes:
                self._writes[party_id] = server.store.writes
                self._look(server)

    def _look(self, server: Server) -> None:
        with server.store.read() as tx:
            engines = _engines(tx)
            shares = list(tx.jobs._jobs.values())  # type: ignore[attr-defined]  # unsorted: quick
            jobs = [tx.schedules.get(s.key.job_id) for s in shares if s.is_initiator]
        if not engines:
            return  # its first boot failed
        for engine in engines:
            held = sum(s.cores for s in shares if s.in_use and s.engine == engine.name)
            memory = sum(s.memory for s in shares if s.in_use and s.engine == engine.name)
            require(
                0 <= engine.remaining_cores <= engine.cores
                and engine.cores - engine.remaining_cores == held
                and (engine.remaining_memory >= 0 or not engine.memory)
                and engine.memory - engine.remaining_memory == memory,
                f"{server.party_id}: jobs hold {held} cores, {memory} MiB; {engine} says else",
            )
        for share in shares:
            self._look_at_share(server, share)
        for job in jobs:
            if job is not None:
                self._look_at_job(server, job)

    def _look_at_share(self, server: Server, share: JobRecord) -> None:
        key = (server.party_id, share.key)
        known = self._shares.get(key)
        if known is share:
            return
        self._shares[key] = share
        if known is None:
            return
        job_id = share.key.job_id
        if known.in_use and not share.in_use:
            running = [p.launch.task for p in self._world.workers.alive.values() if p.accepted]
            left = [t for t in running if t.job == share.key]
            require(not left, f"cores were returned while {left} run", job_id=job_id)
        moved_engine = share.engine != known.engine and (known.in_use or share.in_use)
        require(not moved_engine, f"{share.key} changed its engine", job_id=job_id)
        require(share.epoch >= known.epoch, f"{share.key} went back an epoch", job_id=job_id)
        if known.epoch == share.epoch and known.status is not share.status:
            moved = f"{share.key} moved from {known.status} to {share.status}"
            if known.status in JOB_FINAL:
                lost = known.reason is not None and known.reason.code == "InitiatorLost"
                may = (known.status, share.status) in _OVERRULES
                if share.parameters.get("elastic"):  # its host comes back
                    may = may or share.status is JobStatus.WAITING
                require(lost and may, moved, job_id=job_id)

    def _look_at_job(self, server: Server, job: ScheduledJob) -> None:
        key = (server.party_id, job.job_id)
        known = self._jobs.get(key)
        if known is job:
            return
        self._jobs[key] = job
        if known is None:
            return
        require(job.epoch >= known.epoch, f"{job.job_id} went back an epoch", job_id=job.job_id)
        if known.status in JOB_FINAL and known.epoch == job.epoch:
            require(
                job.status is known.status,
                f"{job.job_id} moved from {known.status} to {job.status} at its initiator",
                job_id=job.job_id,
            )
        tasks = {t.component: t for t in known.tasks}
        for task in job.tasks:
            old = tasks[task.component]
            require(
                task.version >= old.version,
                f"{task.component} went back from attempt {old.version} to {task.version}",
                job_id=job.job_id,
            )
            if old.version == task.version and old.status in TASK_FINAL:
                require(
                    task.status is old.status,
                    f"{task.component} moved from {old.status} to {task.status}",
                    job_id=job.job_id,
                )

    # --- processes ------------------------------------------------------------------------------

    def start(self, process: Process) -> None:
        """A process may run: its inputs are there, its job runs, and nothing else runs the task."""
        key = process.launch.task
        job_id = key.job_id
        twins = [
            p.launch.task
            for p in self._world.workers.alive.values()
            if p.accepted and _same_task(p.launch.task, key)
        ]
        require(twins == [key], f"{key} runs beside {twins}", job_id=job_id)
        share = process.server.stored_job(key.job)
        task = process.server.stored_task(key)
        assert share is not None
        assert task is not None
        require(share.status not in JOB_FINAL, f"{key} begins in an ended job", job_id=job_id)
        require(share.in_use, f"{key} begins without cores", job_id=job_id)
        if task.initiator.party_id in self.were_put_back:
            return  # it may not know of the job, or of the ends of the inputs, any more
        with self._world.servers[task.initiator.party_id].store.read() as tx:
            job = tx.schedules.get(job_id)
        assert job is not None
        current = {t.component: t for t in job.tasks}
        if current[key.component].version != key.version:
            return  # a rerun has replaced this attempt, its stop is on the way
        policy = policy_of(job.conf, key.component)
        allowed = TASK_SUCCEEDED if policy == "all_success" else TASK_FINAL
        for up in upstream(job.dsl, key.component):
            status = current[up].status
            require(status in allowed, f"{key} began while {up} is {status}", job_id=job_id)

    # --- commands -------------------------------------------------------------------------------

    def crossed(self, source: str, peer: str, body: object, reply: Reply | None) -> None:
        """A command or its answer went from one party to another: without the sentences of one."""
        if source != peer:
            require(PRIVATE not in f"{body}{reply}", f"{source} told {peer} what stays at home")

    def before_command(self, peer: Server, command: Command) -> None:
        """Remember how a job stands before a repeated command or one of an older epoch arrives."""
        key = JobKey(job_id=command.job_id, site=command.destination)
        again = (peer.party_id, command.request_id) in self._done
        share = peer.stored_job(key)
        stale = share is not None and _epoch(command, share.epoch) < share.epoch
        stale = stale and not self.were_put_back  # its initiator may have gone back an epoch
        self._before = _stored(peer, key) if again or stale else None

    def after_command(self, source: Server, peer: Server, command: Command, reply: Reply) -> None:
        """A command took effect: in the order of the outbox, and not if its epoch is over."""
        key = JobKey(job_id=command.job_id, site=command.destination)
        if self._before is not None:
            require(
                _stored(peer, key) == self._before,
                f"{command.path}, repeated or of an older epoch, changed {key}",
                job_id=command.job_id,
            )
        if reply.retcode in _PASSING:
            return
        known = (peer.party_id, command.request_id)
        if known in self._done:
            return
        self._done.add(known)
        line = (source.party_id, command.job_id, peer.party_id)
        last = self._numbers.get(line, -1)
        if command.number < last:
            with source.store.read() as tx:
                heads = tx.outbox.heads(
                    peer.party_id, now_ms=2**62, skip=frozenset(), limit=100_000
                )
            given_up = all(c.number != command.number for c in heads)
            require(
                given_up,
                f"command {command.number} took effect after {last}: {command.path}",
                job_id=command.job_id,
            )
        self._numbers[line] = max(last, command.number)

    def before_reply(self, source: Server, command: Command) -> None:
        """Remember how a job stands at its initiator before an answer of an older epoch arrives."""
        with source.store.read() as tx:
            job = tx.schedules.get(command.job_id)
        stale = job is not None and _epoch(command, job.epoch) < job.epoch
        self._known = _of_this_epoch(job) if job is not None and stale else None

    def after_reply(self, source: Server, command: Command) -> None:
        """An answer of an older epoch changes nothing."""
        if self._known is not None:
            with source.store.read() as tx:
                job = tx.schedules.get(command.job_id)
            require(
                job is not None and _of_this_epoch(job) == self._known,
                f"the answer to {command.path} of an older epoch changed the job",
                job_id=command.job_id,
            )

    # --- in the end -----------------------------------------------------------------------------

    def all_ended(self) -> bool:
        """Tell whether every job has ended everywhere and nothing is left to do."""
        if self._world.workers.alive or self._world.users.busy:
            return False
        for server in self._world.servers.values():
            if server.applications.alive:
                return False
            with server.store.read() as tx:
                if tx.schedules.active() or tx.outbox.size() or tx.jobs.open_jobs():
                    return False
        return True

    def end(self) -> None:
        """All parties agree, nothing is held, nothing runs, nothing waits to be sent."""
        for server in self._world.servers.values():
            where = server.party_id
            with server.store.read() as tx:
                engines = _engines(tx)
                left = tx.outbox.size()
                shares = tx.jobs.find(JobFilter())
                leases = [
                    s.key.job_id
                    for s in shares
                    if tx.leases.get(f"initiator/{s.key.job_id}") is not None
                ]
            for engine in engines:
                require(engine.remaining_cores == engine.cores, f"{where}: cores were not returned")
                require(engine.remaining_memory == engine.memory, f"{where}: memory is still held")
            require(not server.applications.alive, f"{where}: an application was left")
            require(left == 0, f"{where}: {left} commands were never settled")
            for job_id in leases:
                require(False, f"{where}: the lease of an ended job is left", job_id=job_id)
            for share in shares:
                self._agrees(share)
        require(not self._world.workers.alive, "a process was left")
        keys = Counter(_idempotency_key(j) for j in self._jobs.values() if not was_refused(j))
        for key, count in keys.items():
            require(count == 1, f"{count} jobs were made of the submits with {key}")

    def _differs_openly(self, share: JobRecord, job: ScheduledJob | None) -> None:
        """Where databases were put back, a site has the same end as the initiator, or both say that
        it differs. A job that its initiator does not know any more only ends.
        """
        key = share.key
        require(share.status in JOB_FINAL, f"{key} did not end", job_id=key.job_id)
        if job is None or key.site.party_id == job.initiator.party_id:
            return
        own = self._world.servers[job.initiator.party_id].stored_job(
            JobKey(job_id=key.job_id, site=job.initiator)
        )
        same = (share.status, share.epoch) == (job.status, job.epoch)
        told = (_says(share, job.initiator), _says(own, key.site))
        require(
            told == (not same, not same),
            f"{key.site} says {share.status} in epoch {share.epoch}, {job.initiator} says"
            f" {job.status} in epoch {job.epoch}, and warnings about it are {told}",
            job_id=key.job_id,
        )

    def _agrees(self, share: JobRecord) -> None:
        job_id = share.key.job_id
        with self._world.servers[share.initiator.party_id].store.read() as tx:
            job = tx.schedules.get(job_id)
        if self.were_put_back:
            self._differs_openly(share, job)
            return
        if job is None:  # its submit was refused before it was stored
            require(share.tag == SUBMIT_FAILED, f"{share.key} has no schedule", job_id=job_id)
            return
        require(
            (share.status, share.epoch) == (job.status, job.epoch),
            f"{share.key.site} says {share.status} in epoch {share.epoch},"
            f" {job.initiator} says {job.status} in epoch {job.epoch}",
            job_id=job_id,
        )
        tasks = _tasks(self._world.servers[share.key.site.party_id], share.key)
        newest = {
            t.key.component: t.key.version for t in sorted(tasks, key=lambda t: t.key.version)
        }
        for one in job.tasks:
            here = newest.get(one.component, one.version)
            require(
                here == one.version,
                f"{share.key.site} has attempt {here} of {one.component},"
                f" {job.initiator} has attempt {one.version}",
                job_id=job_id,
            )
        self._agrees_on_absence(share, job, tasks)
        for task in tasks:
            require(task.party_status in TASK_FINAL, f"{task.key} did not end", job_id=job_id)
            require(task.handle is None, f"{task.key} still has a process", job_id=job_id)

    def _agrees_on_absence(
        self, share: JobRecord, job: ScheduledJob, tasks: list[TaskRecord]
    ) -> None:
        """In an elastic job that succeeded, who was absent passes, and enough were there."""
        elastic = job.conf["job_parameters"]["common"].get("elastic")
        if elastic is None or job.status is not JobStatus.SUCCESS:
            return
        newest = {t.component: t.version for t in job.tasks}
        here = {
            t.key.component: t.party_status
            for t in tasks
            if t.key.version == newest[t.key.component]
        }
        for task in job.tasks:
            done = [
                p.site for p in task.parties
                if p.status is TaskStatus.SUCCESS and p.site.role is not Role.ARBITER
            ]  # fmt: skip
            if job.dsl["components"][task.component]["module"] == "Rounds":
                require(len(done) > 0, f"nobody ran {task.component}", job_id=job.job_id)
            for part in task.parties:
                if part.site != share.key.site:
                    continue
                told, known = part.status, here.get(task.component)
                if told is TaskStatus.PASS:
                    self._world.trace.count("party tasks of absent hosts")
                elif part.launch:
                    self._world.trace.count(f"launched again at {part.site.role.value}")
                require(
                    told in TASK_SUCCEEDED and known in TASK_SUCCEEDED,
                    f"{task.component} at {part.site} is {known}, and {told} at its initiator",
                    job_id=job.job_id,
                )
                require(
                    told is not TaskStatus.SUCCESS or known is told,
                    f"{task.component} is {known} at {part.site}, which had reported success",
                    job_id=job.job_id,
                )
                if part.site.role is not Role.HOST:
                    require(told is TaskStatus.SUCCESS, f"{part.site} passed", job_id=job.job_id)


def _says(job: JobRecord | None, other: Site) -> bool:
    """Tell whether a party job has a warning about what another site has of it."""
    return job is not None and any((w.code, w.path) == (CODE, other.key) for w in job.warnings)


def _idempotency_key(job: ScheduledJob) -> Any:
    return job.conf["job_parameters"]["common"].get("idempotency_key", job.job_id)


def _of_this_epoch(job: ScheduledJob) -> tuple[Any, ...]:
    """Return what a job's initiator stores of the current epoch."""
    tasks = tuple(t for t in job.tasks if t.epoch == job.epoch)
    return job.epoch, job.status, job.sites, job.stop, tasks


def _epoch(command: Command, current: int) -> int:
    """Return the epoch that a command names, the current one if it names none."""
    epoch = command.body.get("epoch") if isinstance(command.body, dict) else None
    return epoch if isinstance(epoch, int) else current


def _same_task(one: TaskKey, other: TaskKey) -> bool:
    """Tell whether two keys are attempts of one task at one site."""
    return (one.job_id, one.component, one.site) == (other.job_id, other.component, other.site)


def _tasks(server: Server, key: JobKey) -> list[TaskRecord]:
    which = TaskFilter(
        job_id=key.job_id, roles=(key.site.role,), party_id=key.site.party_id, all_versions=True
    )
    with server.store.read() as tx:
        return tx.tasks.find(which)


def _stored(server: Server, key: JobKey) -> tuple[Any, ...]:
    """Return what a site has stored of a job."""
    return server.stored_job(key), *_tasks(server, key)


def _engines(tx: Tx) -> list[Engine]:
    found = (tx.engines.get(name) for name in (STANDALONE, SPARK))
    return [engine for engine in found if engine is not None]
