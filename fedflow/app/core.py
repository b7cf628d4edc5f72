"""Puts the use cases of one server together over given ports; the same for servers and
simulations.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from fedflow.app.acceptance import Acceptance
from fedflow.app.commands import Commands
from fedflow.app.delivery import Delivery
from fedflow.app.deployment import DeployHere, Deployment
from fedflow.app.detector import Detector
from fedflow.app.documents import Documents
from fedflow.app.folders import Folders
from fedflow.app.hearing import Hearing
from fedflow.app.inheritance import Inheritance
from fedflow.app.initiator import Initiator
from fedflow.app.jobs import Jobs
from fedflow.app.launcher import Launcher, WorkerSettings
from fedflow.app.migration import MigrateHere, Migrations
from fedflow.app.model_changes import ModelChanges, PreparedModels
from fedflow.app.models import ModelRepository
from fedflow.app.outgoing import Outgoing
from fedflow.app.parameter_updates import ParameterUpdates
from fedflow.app.party_jobs import PartyJobs
from fedflow.app.party_reruns import PartyReruns
from fedflow.app.party_tasks import PartyTasks
from fedflow.app.permissions import PermissionRules, Permissions
from fedflow.app.ports import (
    Catalog,
    Executor,
    ModelBlobs,
    PartyClient,
    Sessions,
    Store,
    Wakeup,
)
from fedflow.app.predict import Predictions
from fedflow.app.processes import Processes
from fedflow.app.reruns import Reruns
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
    blobs: ModelBlobs
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
    models: ModelRepository
    permissions: Permissions
    deployment: Deployment
    documents: Documents
    migrations: Migrations
    reruns: Reruns
    parameter_updates: ParameterUpdates


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shared:
    """What many use cases are given."""

    ports: Ports
    folders: Folders
    timing: Timing
    changes: Changes
    job_ids: JobIds
    specs: Specs
    outgoing: Outgoing
    hearing: Hearing
    models: ModelRepository
    predictions: Predictions
    inheritance: Inheritance


@dataclass(frozen=True, kw_only=True, slots=True)
class _PartyHalf:
    """What a site does for jobs, whoever submitted them."""

    permissions: Permissions
    launcher: Launcher
    tasks: PartyTasks
    jobs: PartyJobs
    reruns: PartyReruns
    workers: Workers


@dataclass(frozen=True, kw_only=True, slots=True)
class _InitiatorHalf:
    """What the site that submitted a job does for all its sites."""

    initiator: Initiator
    scheduler: Scheduler
    submissions: Submissions
    reruns: Reruns


@dataclass(frozen=True, kw_only=True, slots=True)
class _ModelHalf:
    """What changes models at all their sites, and the share of it that is done here."""

    changes: ModelChanges
    deployment: Deployment
    migrations: Migrations
    prepared: PreparedModels
    deploy_here: DeployHere
    migrate_here: MigrateHere


def build_core(
    ports: Ports,
    *,
    folders: Folders,
    timing: Timing,
    worker_settings: WorkerSettings,
    host: str,
    changes: Changes,
    rules: PermissionRules | None = None,
) -> Core:
    """Return the use cases, wired to each other and to the ports."""
    store, clock, wakeup = ports.store, ports.clock, ports.wakeup
    models = ModelRepository(store=store, blobs=ports.blobs, clock=clock)
    specs = Specs(ports.catalog)
    shared = _Shared(
        ports=ports,
        folders=folders,
        timing=timing,
        changes=changes,
        job_ids=JobIds(salt=ports.salt),
        specs=specs,
        outgoing=Outgoing(clock=clock, timing=timing, new_request_id=new_request_id),
        hearing=Hearing(store=store, parties=ports.parties, clock=clock, timing=timing),
        models=models,
        predictions=Predictions(store=store, repository=models),
        inheritance=Inheritance(store=store, specs=specs),
    )
    party = _party_half(
        shared, worker_settings=worker_settings, host=host, rules=rules or PermissionRules()
    )
    ports.processes.connect(workers=party.workers, executor=ports.executor)
    own = _initiator_half(shared)
    of_models = _model_half(shared)
    return Core(
        scheduler=own.scheduler,
        delivery=Delivery(
            store=store,
            initiator=own.initiator,
            model_changes=of_models.changes,
            parties=ports.parties,
            clock=clock,
            timing=timing,
            rng=ports.rng,
        ),
        detector=_detector(shared, party, own),
        commands=_commands(shared, party, own, of_models),
        jobs=Jobs(
            store=store,
            specs=specs,
            outgoing=shared.outgoing,
            tasks=party.tasks,
            wakeup=wakeup,
            changes=changes,
            clock=clock,
            timing=timing,
            folders=folders,
        ),
        submissions=own.submissions,
        workers=party.workers,
        models=models,
        permissions=party.permissions,
        reruns=own.reruns,
        parameter_updates=ParameterUpdates(
            store=store,
            specs=specs,
            parties=ports.parties,
            clock=clock,
            timing=timing,
            folders=folders,
            new_request_id=new_request_id,
        ),
        deployment=of_models.deployment,
        documents=Documents(store=store, specs=specs, catalog=ports.catalog),
        migrations=of_models.migrations,
    )


def _party_half(
    shared: _Shared, *, worker_settings: WorkerSettings, host: str, rules: PermissionRules
) -> _PartyHalf:
    ports = shared.ports
    store, clock, wakeup = ports.store, ports.clock, ports.wakeup
    launcher = Launcher(
        store=store,
        specs=shared.specs,
        folders=shared.folders,
        executor=ports.executor,
        processes=ports.processes,
        sessions=ports.sessions,
        models=shared.models,
        settings=worker_settings,
    )
    tasks = PartyTasks(
        launcher=launcher,
        executor=ports.executor,
        sessions=ports.sessions,
        outgoing=shared.outgoing,
        hearing=shared.hearing,
        wakeup=wakeup,
        clock=clock,
        timing=shared.timing,
        new_token=new_token,
    )
    permissions = Permissions(store=store, catalog=ports.catalog, clock=clock, rules=rules)
    acceptance = Acceptance(
        catalog=ports.catalog, permissions=permissions, models=shared.models, engine=ENGINE
    )
    jobs = PartyJobs(
        store=store,
        specs=shared.specs,
        hearing=shared.hearing,
        tasks=tasks,
        parties=ports.parties,
        wakeup=wakeup,
        clock=clock,
        engine=ENGINE,
        acceptance=acceptance,
        predictions=shared.predictions,
        models=shared.models,
        inheritance=shared.inheritance,
    )
    reruns = PartyReruns(
        store=store,
        specs=shared.specs,
        acceptance=acceptance,
        hearing=shared.hearing,
        jobs=jobs,
        wakeup=wakeup,
        clock=clock,
    )
    workers = Workers(
        store=store,
        tasks=tasks,
        jobs=jobs,
        wakeup=wakeup,
        clock=clock,
        folders=shared.folders,
        models=shared.models,
        host=host,
    )
    return _PartyHalf(
        permissions=permissions,
        launcher=launcher,
        tasks=tasks,
        jobs=jobs,
        reruns=reruns,
        workers=workers,
    )


def _initiator_half(shared: _Shared) -> _InitiatorHalf:
    ports, timing = shared.ports, shared.timing
    store, clock, wakeup = ports.store, ports.clock, ports.wakeup
    return _InitiatorHalf(
        initiator=Initiator(hearing=shared.hearing, wakeup=wakeup, clock=clock, timing=timing),
        scheduler=Scheduler(
            store=store,
            specs=shared.specs,
            outgoing=shared.outgoing,
            hearing=shared.hearing,
            parties=ports.parties,
            wakeup=wakeup,
            clock=clock,
            timing=timing,
            engine=ENGINE,
        ),
        submissions=Submissions(
            store=store,
            specs=shared.specs,
            catalog=ports.catalog,
            outgoing=shared.outgoing,
            parties=ports.parties,
            wakeup=wakeup,
            changes=shared.changes,
            clock=clock,
            timing=timing,
            folders=shared.folders,
            predictions=shared.predictions,
            inheritance=shared.inheritance,
            new_job_id=shared.job_ids.next,
        ),
        reruns=Reruns(
            store=store,
            specs=shared.specs,
            outgoing=shared.outgoing,
            parties=ports.parties,
            wakeup=wakeup,
            changes=shared.changes,
            clock=clock,
            timing=timing,
            new_request_id=new_request_id,
        ),
    )


def _model_half(shared: _Shared) -> _ModelHalf:
    ports, models, new_job_id = shared.ports, shared.models, shared.job_ids.next
    store, clock, catalog = ports.store, ports.clock, ports.catalog
    changes = ModelChanges(
        store=store,
        outgoing=shared.outgoing,
        parties=ports.parties,
        wakeup=ports.wakeup,
        changes=shared.changes,
        clock=clock,
        timing=shared.timing,
        new_request_id=new_request_id,
    )
    prepared = PreparedModels(clock=clock)
    return _ModelHalf(
        changes=changes,
        deployment=Deployment(
            store=store, catalog=catalog, changes=changes, clock=clock, new_job_id=new_job_id
        ),
        migrations=Migrations(store=store, changes=changes, clock=clock, new_job_id=new_job_id),
        prepared=prepared,
        deploy_here=DeployHere(
            store=store, catalog=catalog, repository=models, prepared=prepared, clock=clock
        ),
        migrate_here=MigrateHere(store=store, repository=models, prepared=prepared, clock=clock),
    )


def _detector(shared: _Shared, party: _PartyHalf, own: _InitiatorHalf) -> Detector:
    ports = shared.ports
    return Detector(
        store=ports.store,
        specs=shared.specs,
        hearing=shared.hearing,
        initiator=own.initiator,
        jobs=party.jobs,
        tasks=party.tasks,
        workers=party.workers,
        launcher=party.launcher,
        executor=ports.executor,
        processes=ports.processes,
        parties=ports.parties,
        wakeup=ports.wakeup,
        clock=ports.clock,
        timing=shared.timing,
        new_request_id=new_request_id,
    )


def _commands(
    shared: _Shared, party: _PartyHalf, own: _InitiatorHalf, of_models: _ModelHalf
) -> Commands:
    """Return the table of `wire/paths.py` with its handlers."""
    jobs, tasks, reruns, prepared = party.jobs, party.tasks, party.reruns, of_models.prepared
    deploy, migrate = of_models.deploy_here, of_models.migrate_here
    commands = Commands(store=shared.ports.store, clock=shared.ports.clock)
    commands.add("heartbeat", jobs.heartbeat)
    commands.add("job_create", jobs.create, prepare=jobs.prepare_create)
    commands.add("job_apply", jobs.apply_cores)
    commands.add("job_return", jobs.return_cores)
    commands.add("job_start", jobs.start)
    commands.add("job_stop", jobs.end)
    commands.add("job_status", jobs.end)
    commands.add("job_rerun", reruns.rerun, prepare=reruns.prepare)
    commands.add("job_parameters", reruns.change_parameters, prepare=reruns.prepare)
    commands.add("task_create", tasks.create)
    commands.add("task_start", tasks.start)
    commands.add("task_collect", tasks.collect)
    commands.add("task_status", tasks.settle)
    commands.add("task_stop", tasks.settle)
    commands.add("output_table", tasks.output_tables)
    commands.add("initiator_stop", own.initiator.stop)
    commands.add("initiator_report", own.initiator.report)
    commands.add("initiator_rerun", own.reruns.asked)
    commands.add("model_deploy", deploy.prepare, prepare=deploy.check)
    commands.add("model_migrate", migrate.prepare, prepare=migrate.check)
    commands.add("model_commit", prepared.commit)
    commands.add("model_undo", prepared.undo)
    return commands
