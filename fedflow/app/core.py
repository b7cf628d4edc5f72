"""Puts the use cases of one server together over given ports; the same for servers and
simulations.
"""

from __future__ import annotations

from dataclasses import field, replace
from random import Random

from fedflow.app.administration.leadership import OnlyServer
from fedflow.app.administration.permissions import PermissionRules, Permissions
from fedflow.app.inheritance import Inheritance
from fedflow.app.initiator.control import JobControl
from fedflow.app.initiator.delivery import Delivery
from fedflow.app.initiator.heartbeats import Heartbeats
from fedflow.app.initiator.initiator import Initiator
from fedflow.app.initiator.parameter_updates import ParameterUpdates
from fedflow.app.initiator.preflight import Preflight, PreflightHere
from fedflow.app.initiator.reruns import Reruns
from fedflow.app.initiator.reuse import Reuse
from fedflow.app.initiator.scheduler import Scheduler
from fedflow.app.initiator.submissions import Submissions
from fedflow.app.initiator.validation import Examination
from fedflow.app.models.deployment import DeployHere, Deployment
from fedflow.app.models.migration import MigrateHere, Migrations
from fedflow.app.models.model_changes import ModelChanges, PreparedModels
from fedflow.app.models.models import ModelRepository
from fedflow.app.models.predict import Predictions
from fedflow.app.participant.admission import Acceptance
from fedflow.app.participant.detector import Detector
from fedflow.app.participant.launcher import Launcher, WorkerSettings
from fedflow.app.participant.party_jobs import PartyJobs
from fedflow.app.participant.party_reruns import PartyReruns
from fedflow.app.participant.party_reuse import PartyReuse
from fedflow.app.participant.party_tasks import PartyTasks
from fedflow.app.participant.processes import Processes
from fedflow.app.participant.task_reports import Workers
from fedflow.app.ports.components import Catalog, ProviderChoice
from fedflow.app.ports.executors import Applications, Executor, Sessions
from fedflow.app.ports.models import ModelBlobs
from fedflow.app.ports.parties import PartyClient, PartyServers
from fedflow.app.ports.scheduling import Wakeup
from fedflow.app.ports.store import Store
from fedflow.app.protocol.circuit_breakers import CheckedParties, Circuits
from fedflow.app.protocol.commands import Commands
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.job_notifier import Changes
from fedflow.app.protocol.parsed_jobs import Specs
from fedflow.app.protocol.party_commands import Outgoing
from fedflow.app.protocol.party_leases import Hearing
from fedflow.app.protocol.queue import Queue
from fedflow.app.protocol.status_pull import Collecting
from fedflow.app.protocol.timing import Timing
from fedflow.app.queries.documents import Documents
from fedflow.app.queries.explain import Explanations
from fedflow.app.queries.jobs import Jobs
from fedflow.app.queries.site_jobs import SiteJobs
from fedflow.base.clock import Clock
from fedflow.base.ids import JobIds, new_request_id, new_token
from fedflow.base.values import dataclass
from fedflow.domain.job.engines import OwnEngines
from fedflow.wire.versions import OURS, Speaks


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
    speaks: Speaks = OURS  #: what this server accepts of others
    servers: PartyServers = field(default_factory=OnlyServer)  #: of this party
    providers: ProviderChoice | None = None  #: None: all components come with fedflow
    applications: Applications | None = None  #: None: this party has no Spark cluster


@dataclass(frozen=True, kw_only=True, slots=True)
class Core:
    """The inside of one server: what its threads and doors call."""

    circuits: Circuits
    parties: PartyClient  #: that of `Ports`, asking the circuits first
    preflight: Preflight
    scheduler: Scheduler
    delivery: Delivery
    detector: Detector
    heartbeats: Heartbeats
    queue: Queue
    commands: Commands
    jobs: Jobs
    site_jobs: SiteJobs
    submissions: Submissions
    workers: Workers
    models: ModelRepository
    permissions: Permissions
    deployment: Deployment
    documents: Documents
    explanations: Explanations
    migrations: Migrations
    control: JobControl
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
    engines: OwnEngines
    specs: Specs
    outgoing: Outgoing
    queue: Queue
    preflight: Preflight
    hearing: Hearing
    models: ModelRepository
    predictions: Predictions
    inheritance: Inheritance
    collecting: Collecting


@dataclass(frozen=True, kw_only=True, slots=True)
class _PartyHalf:
    """What a site does for jobs, whoever submitted them."""

    permissions: Permissions
    launcher: Launcher
    tasks: PartyTasks
    jobs: PartyJobs
    reruns: PartyReruns
    reuse: PartyReuse
    workers: Workers


@dataclass(frozen=True, kw_only=True, slots=True)
class _InitiatorHalf:
    """What the site that submitted a job does for all its sites."""

    initiator: Initiator
    scheduler: Scheduler
    submissions: Submissions
    control: JobControl
    reruns: Reruns
    parameter_updates: ParameterUpdates


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
    engines: OwnEngines | None = None,
) -> Core:
    """Return the use cases, wired to each other and to the ports.

    `engines` None: there is the server's machine only.
    """
    engines = engines or OwnEngines()
    outside = ports
    store, clock, wakeup = ports.store, ports.clock, ports.wakeup
    circuits = Circuits(clock=clock, timing=timing, rng=ports.rng, speaks=ports.speaks)
    ports = replace(ports, parties=CheckedParties(outside.parties, circuits, clock=clock))
    models = ModelRepository(store=store, blobs=ports.blobs, clock=clock)
    specs = Specs(ports.catalog)
    preflight = Preflight(parties=ports.parties, circuits=circuits, clock=clock, timing=timing)
    shared = _Shared(
        ports=ports,
        folders=folders,
        timing=timing,
        changes=changes,
        job_ids=JobIds(salt=ports.salt),
        specs=specs,
        outgoing=Outgoing(clock=clock, timing=timing, new_request_id=new_request_id),
        preflight=preflight,
        engines=engines,
        queue=Queue(
            store=store, parties=ports.parties, clock=clock, timing=timing, engines=engines
        ),
        hearing=Hearing(store=store, parties=ports.parties, clock=clock, timing=timing),
        models=models,
        predictions=Predictions(store=store, repository=models),
        inheritance=Inheritance(store=store, specs=specs),
        collecting=Collecting(specs=specs, parties=ports.parties),
    )
    party = _party_half(
        shared, worker_settings=worker_settings, host=host, rules=rules or PermissionRules()
    )
    explanations = Explanations(
        store=store,
        specs=specs,
        hearing=shared.hearing,
        parties=ports.parties,
        clock=clock,
        timing=timing,
        folders=folders,
        queue=shared.queue,
        circuits=circuits,
    )
    jobs = Jobs(
        store=store,
        specs=specs,
        outgoing=shared.outgoing,
        tasks=party.tasks,
        wakeup=wakeup,
        changes=changes,
        clock=clock,
        timing=timing,
        folders=folders,
        collecting=shared.collecting,
        explanations=explanations,
    )
    ports.processes.connect(workers=party.workers, executor=ports.executor)
    own = _initiator_half(shared)
    of_models = _model_half(shared)
    there = PreflightHere(
        parties=ports.parties,
        circuits=circuits,
        catalog=ports.catalog,
        permissions=party.permissions,
        timing=timing,
    )
    return Core(
        circuits=circuits,
        parties=ports.parties,
        preflight=preflight,
        scheduler=own.scheduler,
        delivery=Delivery(
            store=ports.servers.guarded(store),
            initiator=own.initiator,
            model_changes=of_models.changes,
            parties=outside.parties,
            circuits=circuits,
            wakeup=wakeup,
            clock=clock,
            timing=timing,
            rng=ports.rng,
        ),
        detector=_detector(shared, party, host=host),
        heartbeats=_heartbeats(shared, own, circuits=circuits),
        queue=shared.queue,
        commands=_commands(shared, party, own, of_models, preflight=there),
        jobs=jobs,
        site_jobs=SiteJobs(
            store=store, specs=specs, jobs=jobs, explanations=explanations, clock=clock
        ),
        submissions=own.submissions,
        workers=party.workers,
        models=models,
        permissions=party.permissions,
        control=own.control,
        reruns=own.reruns,
        parameter_updates=own.parameter_updates,
        deployment=of_models.deployment,
        explanations=explanations,
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
        providers=ports.providers,
        applications=ports.applications,
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
        servers=ports.servers,
        collecting=shared.collecting,
        new_token=new_token,
    )
    permissions = Permissions(store=store, catalog=ports.catalog, clock=clock, rules=rules)
    acceptance = Acceptance(
        catalog=ports.catalog,
        permissions=permissions,
        models=shared.models,
        queue=shared.queue,
        engines=shared.engines,
        spark=worker_settings.spark,
    )
    jobs = PartyJobs(
        store=store,
        specs=shared.specs,
        hearing=shared.hearing,
        tasks=tasks,
        parties=ports.parties,
        wakeup=wakeup,
        clock=clock,
        engines=shared.engines,
        queue=shared.queue,
        acceptance=acceptance,
        predictions=shared.predictions,
        models=shared.models,
        inheritance=shared.inheritance,
        collecting=shared.collecting,
        applications=ports.applications,
    )
    reruns = PartyReruns(
        store=store,
        specs=shared.specs,
        acceptance=acceptance,
        hearing=shared.hearing,
        jobs=jobs,
        wakeup=wakeup,
        clock=clock,
        engines=shared.engines,
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
        reuse=PartyReuse(acceptance=acceptance),
        workers=workers,
    )


def _initiator_half(shared: _Shared) -> _InitiatorHalf:
    ports, timing = shared.ports, shared.timing
    store, clock, wakeup = ports.store, ports.clock, ports.wakeup
    parameter_updates = ParameterUpdates(
        store=store,
        specs=shared.specs,
        parties=ports.parties,
        clock=clock,
        timing=timing,
        folders=shared.folders,
        new_request_id=new_request_id,
    )
    return _InitiatorHalf(
        initiator=Initiator(hearing=shared.hearing, wakeup=wakeup, clock=clock, timing=timing),
        scheduler=Scheduler(
            store=ports.servers.guarded(store),
            specs=shared.specs,
            outgoing=shared.outgoing,
            hearing=shared.hearing,
            parties=ports.parties,
            wakeup=wakeup,
            clock=clock,
            timing=timing,
            queue=shared.queue,
        ),
        submissions=Submissions(
            store=store,
            queue=shared.queue,
            specs=shared.specs,
            outgoing=shared.outgoing,
            parties=ports.parties,
            preflight=shared.preflight,
            examination=Examination(
                store=store,
                queue=shared.queue,
                catalog=ports.catalog,
                parties=ports.parties,
                preflight=shared.preflight,
                predictions=shared.predictions,
                inheritance=shared.inheritance,
            ),
            wakeup=wakeup,
            changes=shared.changes,
            clock=clock,
            timing=timing,
            folders=shared.folders,
            predictions=shared.predictions,
            inheritance=shared.inheritance,
            reuse=Reuse(
                store=store,
                specs=shared.specs,
                parties=ports.parties,
                timing=timing,
                new_request_id=new_request_id,
            ),
            new_job_id=shared.job_ids.next,
        ),
        control=JobControl(
            store=store,
            specs=shared.specs,
            parties=ports.parties,
            wakeup=wakeup,
            clock=clock,
            timing=timing,
            new_request_id=new_request_id,
        ),
        reruns=Reruns(
            store=store,
            specs=shared.specs,
            outgoing=shared.outgoing,
            parties=ports.parties,
            preflight=shared.preflight,
            wakeup=wakeup,
            changes=shared.changes,
            clock=clock,
            timing=timing,
            parameters=parameter_updates,
            new_request_id=new_request_id,
        ),
        parameter_updates=parameter_updates,
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


def _detector(shared: _Shared, party: _PartyHalf, *, host: str) -> Detector:
    ports = shared.ports
    return Detector(
        store=ports.store,
        specs=shared.specs,
        hearing=shared.hearing,
        jobs=party.jobs,
        tasks=party.tasks,
        workers=party.workers,
        launcher=party.launcher,
        executor=ports.executor,
        processes=ports.processes,
        parties=ports.parties,
        clock=ports.clock,
        timing=shared.timing,
        servers=ports.servers,
        host=host,
        applications=ports.applications,
    )


def _heartbeats(shared: _Shared, own: _InitiatorHalf, *, circuits: Circuits) -> Heartbeats:
    ports = shared.ports
    return Heartbeats(
        store=ports.store,
        hearing=shared.hearing,
        initiator=own.initiator,
        parties=ports.parties,
        circuits=circuits,
        servers=ports.servers,
        collecting=shared.collecting,
        wakeup=ports.wakeup,
        clock=ports.clock,
        timing=shared.timing,
        new_request_id=new_request_id,
    )


def _commands(
    shared: _Shared, party: _PartyHalf, own: _InitiatorHalf, of_models: _ModelHalf,
    *, preflight: PreflightHere,
) -> Commands:  # fmt: skip
    """Return the table of `wire/paths.py` with its handlers."""
    jobs, tasks, reruns, prepared = party.jobs, party.tasks, party.reruns, of_models.prepared
    deploy, migrate = of_models.deploy_here, of_models.migrate_here
    ports = shared.ports
    commands = Commands(store=ports.servers.guarded(ports.store), clock=ports.clock)
    commands.add("heartbeat", jobs.heartbeat, repeatable=True)
    commands.add_look("preflight", preflight.answer)
    commands.add("job_create", jobs.create, prepare=jobs.prepare_create)
    commands.add("job_reuse", party.reuse.answer, repeatable=True)
    commands.add("job_apply", jobs.apply_cores)
    commands.add("job_return", jobs.return_cores)
    commands.add("job_start", jobs.start)
    commands.add("job_stop", jobs.end)
    commands.add("job_status", jobs.end)
    commands.add("job_rerun", reruns.rerun, prepare=reruns.prepare)
    commands.add("job_parameters", reruns.change_parameters, prepare=reruns.prepare)
    commands.add("task_create", tasks.create)
    commands.add("task_start", tasks.start)
    commands.add("task_collect", tasks.collect, repeatable=True)
    commands.add("task_status", tasks.settle)
    commands.add("task_stop", tasks.settle)
    commands.add("output_table", tasks.output_tables, repeatable=True)
    commands.add("initiator_stop", own.initiator.stop)
    commands.add("initiator_report", own.initiator.report)
    commands.add("initiator_rerun", own.reruns.asked, prepare=own.reruns.check_asked)
    commands.add(
        "initiator_parameters",
        own.parameter_updates.asked,
        prepare=own.parameter_updates.check_asked,
    )
    commands.add("initiator_control", own.control.asked)
    commands.add("model_deploy", deploy.prepare, prepare=deploy.check)
    commands.add("model_migrate", migrate.prepare, prepare=migrate.check)
    commands.add("model_commit", prepared.commit)
    commands.add("model_undo", prepared.undo)
    return commands
