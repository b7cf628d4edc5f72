"""Puts the use cases of one server together over given ports; the same for servers and
simulations.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from fedflow.app.commands import Commands
from fedflow.app.delivery import Delivery
from fedflow.app.detector import Detector
from fedflow.app.folders import Folders
from fedflow.app.hearing import Hearing
from fedflow.app.initiator import Initiator
from fedflow.app.jobs import Jobs
from fedflow.app.launcher import Launcher, WorkerSettings
from fedflow.app.outgoing import Outgoing
from fedflow.app.party_jobs import PartyJobs
from fedflow.app.party_tasks import PartyTasks
from fedflow.app.ports import Catalog, Executor, PartyClient, Sessions, Store, Wakeup
from fedflow.app.processes import Processes
from fedflow.app.scheduler import Scheduler
from fedflow.app.specs import Specs
from fedflow.app.submissions import Submissions
from fedflow.app.timing import Timing
from fedflow.app.waiting import Changes
from fedflow.app.workers import Workers
from fedflow.base.clock import Clock
from fedflow.base.ids import JobIds, new_request_id, new_token

ENGINE = "STANDALONE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """The outside of one server."""

    store: Store
    catalog: Catalog
    parties: PartyClient
    executor: Executor
    processes: Processes  #: the callbacks that `executor` was given
    sessions: Sessions
    wakeup: Wakeup
    clock: Clock
    rng: Random
    salt: int  #: of this server's job ids, 0 to 999


@dataclass(frozen=True, kw_only=True, slots=True)
class Core:
    """The inside of one server: what its threads and doors call."""

    scheduler: Scheduler
    delivery: Delivery
    detector: Detector
    commands: Commands
    jobs: Jobs
    submissions: Submissions
    workers: Workers


def build_core(
    ports: Ports,
    *,
    folders: Folders,
    timing: Timing,
    worker_settings: WorkerSettings,
    host: str,
    changes: Changes,
) -> Core:
    """Return the use cases, wired to each other and to the ports."""
    store, wakeup, clock, parties = ports.store, ports.wakeup, ports.clock, ports.parties
    specs = Specs(ports.catalog)
    outgoing = Outgoing(clock=clock, timing=timing, new_request_id=new_request_id)
    hearing = Hearing(store=store, parties=parties, clock=clock, timing=timing)
    initiator = Initiator(hearing=hearing, wakeup=wakeup, clock=clock, timing=timing)
    launcher = Launcher(
        store=store,
        specs=specs,
        folders=folders,
        executor=ports.executor,
        processes=ports.processes,
        sessions=ports.sessions,
        settings=worker_settings,
    )
    party_tasks = PartyTasks(
        launcher=launcher,
        executor=ports.executor,
        sessions=ports.sessions,
        outgoing=outgoing,
        hearing=hearing,
        wakeup=wakeup,
        clock=clock,
        timing=timing,
        new_token=new_token,
    )
    party_jobs = PartyJobs(
        store=store,
        specs=specs,
        catalog=ports.catalog,
        hearing=hearing,
        tasks=party_tasks,
        parties=parties,
        wakeup=wakeup,
        clock=clock,
        engine=ENGINE,
    )
    workers = Workers(
        store=store,
        tasks=party_tasks,
        jobs=party_jobs,
        wakeup=wakeup,
        clock=clock,
        folders=folders,
        host=host,
    )
    ports.processes.connect(workers=workers, executor=ports.executor)
    scheduler = Scheduler(
        store=store,
        specs=specs,
        outgoing=outgoing,
        hearing=hearing,
        parties=parties,
        wakeup=wakeup,
        clock=clock,
        timing=timing,
        engine=ENGINE,
    )
    delivery = Delivery(
        store=store, initiator=initiator, parties=parties, clock=clock, timing=timing, rng=ports.rng
    )
    detector = Detector(
        store=store,
        specs=specs,
        hearing=hearing,
        initiator=initiator,
        jobs=party_jobs,
        tasks=party_tasks,
        workers=workers,
        launcher=launcher,
        executor=ports.executor,
        processes=ports.processes,
        parties=parties,
        wakeup=wakeup,
        clock=clock,
        timing=timing,
        new_request_id=new_request_id,
    )
    submissions = Submissions(
        store=store,
        specs=specs,
        catalog=ports.catalog,
        outgoing=outgoing,
        parties=parties,
        wakeup=wakeup,
        changes=changes,
        clock=clock,
        timing=timing,
        folders=folders,
        new_job_id=JobIds(salt=ports.salt).next,
    )
    jobs = Jobs(
        store=store,
        specs=specs,
        outgoing=outgoing,
        tasks=party_tasks,
        wakeup=wakeup,
        changes=changes,
        clock=clock,
        timing=timing,
        folders=folders,
    )
    return Core(
        scheduler=scheduler,
        delivery=delivery,
        detector=detector,
        commands=_commands(store, clock, party_jobs, party_tasks, initiator),
        jobs=jobs,
        submissions=submissions,
        workers=workers,
    )


def _commands(
    store: Store, clock: Clock, party_jobs: PartyJobs, party_tasks: PartyTasks, initiator: Initiator
) -> Commands:
    """Return the table of `wire/paths.py` with its handlers."""
    commands = Commands(store=store, clock=clock)
    commands.add("heartbeat", party_jobs.heartbeat)
    commands.add("job_create", party_jobs.create, prepare=party_jobs.prepare_create)
    commands.add("job_apply", party_jobs.apply_cores)
    commands.add("job_return", party_jobs.return_cores)
    commands.add("job_start", party_jobs.start)
    commands.add("job_stop", party_jobs.end)
    commands.add("job_status", party_jobs.end)
    commands.add("task_start", party_tasks.start)
    commands.add("task_collect", party_tasks.collect)
    commands.add("task_status", party_tasks.settle)
    commands.add("task_stop", party_tasks.settle)
    commands.add("output_table", party_tasks.output_tables)
    commands.add("initiator_stop", initiator.stop)
    commands.add("initiator_report", initiator.report)
    return commands
