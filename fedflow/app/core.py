"""Puts the use cases of one server together over given ports; the same for servers and
simulations.
"""

from __future__ import annotations

from dataclasses import field, replace
from random import Random
from typing import TYPE_CHECKING

from fedflow.app.administration.leadership import OnlyServer
from fedflow.app.administration.permissions import PermissionRules, Permissions
from fedflow.app.inheritance import Inheritance
from fedflow.app.initiator.agreement import EndComparison
from fedflow.app.initiator.control import JobControl
from fedflow.app.initiator.delivery import Delivery
from fedflow.app.initiator.heartbeats import Heartbeats
from fedflow.app.initiator.initiator import Initiator
from fedflow.app.initiator.parameter_updates import ParameterUpdates
from fedflow.app.initiator.preflight import LocalPreflight, Preflight
from fedflow.app.initiator.reruns import Reruns
from fedflow.app.initiator.reuse import Reuse
from fedflow.app.initiator.scheduler import Scheduler
from fedflow.app.initiator.submissions import Submissions
from fedflow.app.initiator.validation import Validation
from fedflow.app.models.deployment import Deployment, LocalDeployment
from fedflow.app.models.migration import LocalMigration, Migrations
from fedflow.app.models.model_changes import ModelChanges, PreparedModels
from fedflow.app.models.models import ModelRepository
from fedflow.app.models.predict import Predictions
from fedflow.app.participant.admission import Admission
from fedflow.app.participant.detector import Detector
from fedflow.app.participant.job_quotas import JobQuotas
from fedflow.app.participant.launcher import Launcher, WorkerSettings
from fedflow.app.participant.party_heartbeats import PartyHeartbeats
from fedflow.app.participant.party_jobs import PartyJobs
from fedflow.app.participant.party_reruns import PartyReruns
from fedflow.app.participant.party_reuse import PartyReuse
from fedflow.app.participant.party_tasks import PartyTasks
from fedflow.app.participant.processes import Processes
from fedflow.app.participant.task_reports import Workers
from fedflow.app.ports.components import Catalog, ProviderChoice
from fedflow.app.ports.executors import Applications, Execution, Executor, Sessions
from fedflow.app.ports.models import ModelBlobs
from fedflow.app.ports.parties import PartyClient, PartyServers
from fedflow.app.ports.scheduling import Wakeup
from fedflow.app.ports.store import Store
from fedflow.app.protocol.circuit_breakers import CheckedParties, CircuitBreakers
from fedflow.app.protocol.commands import Commands
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.job_limits import JobLimits
from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.app.protocol.kernel import Kernel
from fedflow.app.protocol.parsed_jobs import ParsedJobs
from fedflow.app.protocol.party_commands import PartyCommands
from fedflow.app.protocol.party_leases import PartyLeases
from fedflow.app.protocol.queue import JobQueue
from fedflow.app.protocol.status_pull import StatusPull
from fedflow.app.protocol.timing import Timing
from fedflow.app.queries.documents import Documents
from fedflow.app.queries.explain import Explanations
from fedflow.app.queries.jobs import Jobs
from fedflow.app.queries.site_jobs import SiteJobs
from fedflow.base.clock import Clock
from fedflow.base.ids import JobIds, new_request_id
from fedflow.base.lazy import Lazy
from fedflow.base.values import dataclass
from fedflow.domain.job.engines import OwnEngines
from fedflow.domain.job.parameters import JobParameters
from fedflow.wire.versions import OURS, Speaks

if TYPE_CHECKING:
    from fedflow.app.models.local_history import LocalHistory
    from fedflow.app.models.publishing import LocalPublishing, Publishing
    from fedflow.app.models.serving_views import ServingViews
    from fedflow.app.ports.data import TableWindows
    from fedflow.app.ports.serving import ServingServers


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
    servings: ServingServers | None = None  #: None: this party serves no models
    windows: TableWindows | None = None  #: on tables of this server, for the reference of drift


class Core:
    """The inside of one server: what its threads and doors call."""

    def __init__(
        self, kernel: Kernel, ports: Ports, *, settings: WorkerSettings, host: str,
        rules: PermissionRules,
    ) -> None:  # fmt: skip
        """`ports.parties` are asked without the circuits: who delivers commands has its own."""
        self.kernel = kernel
        store, clock = kernel.store, kernel.clock
        # its store takes no change of a server that does not lead any more
        leading = replace(kernel, store=kernel.servers.guarded(store))
        self.parties, self.circuit_breakers, self.queue = (
            kernel.parties,
            kernel.circuit_breakers,
            kernel.queue,
        )
        self.models = ModelRepository(store=store, blobs=ports.blobs, clock=clock)
        self.permissions = Permissions(
            store=store, catalog=kernel.catalog, clock=clock, rules=rules
        )
        self.sessions = ports.sessions
        self.documents = Documents(kernel)
        self.explanations = Explanations(kernel)

        shared = _Shared(kernel, models=self.models)
        self.preflight = shared.preflight
        party = _PartyHalf(
            kernel, ports, shared, permissions=self.permissions, settings=settings, host=host
        )
        self.workers, self.detector = party.workers, party.detector
        self.jobs = Jobs(kernel, tasks=party.tasks, explanations=self.explanations)
        self.site_jobs = SiteJobs(kernel, jobs=self.jobs, explanations=self.explanations)

        own = _InitiatorHalf(kernel, shared)
        self.submissions, self.control, self.reruns = own.submissions, own.control, own.reruns
        self.parameter_updates, self.heartbeats = own.parameter_updates, own.heartbeats
        self.scheduler = Scheduler(leading)

        of_models = _ModelHalf(kernel, ports, repository=self.models)
        self.deployment, self.migrations = of_models.deployment, of_models.migrations
        self.publishing, self.serving = of_models.publishing, of_models.serving
        self.model_changes = of_models.changes
        self.delivery = Delivery(
            replace(leading, parties=ports.parties),
            initiator=own.initiator,
            model_changes=of_models.changes,
            rng=ports.rng,
            on_lost=party.jobs.give_up,
        )
        self.commands = Commands(store=leading.store, clock=clock, hosts=kernel.parties.is_local)
        _add_commands(self.commands, party, own, of_models)


class _Shared:
    """What the initiator's half and a participant's both use."""

    def __init__(self, kernel: Kernel, *, models: ModelRepository) -> None:
        self.models = models
        self.predictions = Predictions(store=kernel.store, repository=models)
        self.inheritance = Inheritance(kernel)
        self.preflight = Preflight(
            parties=kernel.parties,
            circuit_breakers=kernel.circuit_breakers,
            clock=kernel.clock,
            timing=kernel.timing,
        )


class _PartyHalf:
    """What a site does for jobs, whoever submitted them."""

    def __init__(
        self, kernel: Kernel, ports: Ports, shared: _Shared, *, permissions: Permissions,
        settings: WorkerSettings, host: str,
    ) -> None:  # fmt: skip
        models = shared.models
        execution = Execution(
            executor=ports.executor,
            processes=ports.processes,
            sessions=ports.sessions,
            applications=ports.applications,
            host=host,
        )
        quotas = JobQuotas(kernel)
        acceptance = Admission(
            kernel,
            permissions=permissions,
            models=models,
            quotas=quotas,
            spark=settings.spark,
        )
        launcher = Launcher(
            kernel,
            execution=execution,
            models=models,
            settings=settings,
            providers=ports.providers,
        )
        self.tasks = PartyTasks(kernel, execution=execution, launcher=launcher, quotas=quotas)
        self.jobs = PartyJobs(
            kernel,
            execution=execution,
            tasks=self.tasks,
            acceptance=acceptance,
            predictions=shared.predictions,
            models=models,
            inheritance=shared.inheritance,
        )
        self.heartbeats = PartyHeartbeats(kernel, tasks=self.tasks)
        self.reruns = PartyReruns(kernel, acceptance=acceptance, jobs=self.jobs)
        self.reuse = PartyReuse(acceptance=acceptance)
        self.workers = Workers(
            kernel, execution=execution, tasks=self.tasks, jobs=self.jobs, models=models
        )
        self.detector = Detector(
            kernel,
            execution=execution,
            jobs=self.jobs,
            tasks=self.tasks,
            workers=self.workers,
            launcher=launcher,
        )
        self.preflight = LocalPreflight(kernel, permissions=permissions)
        ports.processes.connect(workers=self.workers, executor=ports.executor)


class _InitiatorHalf:
    """What the site that submitted a job does for all its sites."""

    def __init__(self, kernel: Kernel, shared: _Shared) -> None:
        preflight, predictions = shared.preflight, shared.predictions
        self.initiator = Initiator(kernel)
        self.heartbeats = Heartbeats(
            kernel, initiator=self.initiator, agreement=EndComparison(kernel)
        )
        self.control = JobControl(kernel)
        self.parameter_updates = ParameterUpdates(kernel)
        self.reruns = Reruns(kernel, preflight=preflight, parameters=self.parameter_updates)
        self.submissions = Submissions(
            kernel,
            preflight=preflight,
            validation=Validation(
                kernel,
                preflight=preflight,
                predictions=predictions,
                inheritance=shared.inheritance,
            ),
            predictions=predictions,
            inheritance=shared.inheritance,
            reuse=Reuse(kernel),
        )


class _ModelHalf:
    """What changes models at all their sites, and this server's part of it."""

    def __init__(self, kernel: Kernel, ports: Ports, *, repository: ModelRepository) -> None:
        self.changes = ModelChanges(kernel)
        self.publishing = Lazy(lambda: _publishing(kernel, ports.servings))
        self.serving = Lazy(lambda: _serving_views(kernel, ports.servings))
        self.publish_here = Lazy(lambda: _local_publishing(kernel, repository, ports))
        self.deployment = Deployment(kernel, model_changes=self.changes)
        self.migrations = Migrations(kernel, model_changes=self.changes)
        self.prepared = PreparedModels(clock=kernel.clock)
        self.deploy_here = LocalDeployment(kernel, repository=repository, prepared=self.prepared)
        self.migrate_here = LocalMigration(kernel, repository=repository, prepared=self.prepared)
        self.history_here = Lazy(lambda: _local_history(kernel, self.prepared))


def _local_history(kernel: Kernel, prepared: PreparedModels) -> LocalHistory:
    from fedflow.app.models.local_history import LocalHistory  # no job needs it

    return LocalHistory(kernel, prepared=prepared)


def _publishing(kernel: Kernel, servings: ServingServers | None) -> Publishing:
    from fedflow.app.models.publishing import Publishing  # most servers never need it

    return Publishing(kernel, servings=servings)


def _serving_views(kernel: Kernel, servings: ServingServers | None) -> ServingViews:
    from fedflow.app.models.serving_views import ServingViews  # only who looks needs it

    return ServingViews(servings=servings, clock=kernel.clock)


def _local_publishing(kernel: Kernel, repository: ModelRepository, ports: Ports) -> LocalPublishing:
    from fedflow.app.models.publishing import LocalPublishing  # most servers never need it

    return LocalPublishing(
        kernel, repository=repository, servings=ports.servings, windows=ports.windows
    )


def build_core(
    ports: Ports,
    *,
    folders: Folders,
    timing: Timing,
    worker_settings: WorkerSettings,
    host: str,
    notifier: JobNotifier,
    rules: PermissionRules | None = None,
    engines: OwnEngines | None = None,
    job_defaults: JobParameters | None = None,
    limits: JobLimits | None = None,
) -> Core:
    """Return the use cases, wired to each other and to the ports.

    `engines` None: there is the server's machine only.
    """
    kernel = kernel_over(
        ports,
        folders=folders,
        timing=timing,
        notifier=notifier,
        engines=engines or OwnEngines(),
        job_defaults=job_defaults,
        limits=limits or JobLimits(),
    )
    return Core(
        kernel, ports, settings=worker_settings, host=host, rules=rules or PermissionRules()
    )


def kernel_over(
    ports: Ports, *, folders: Folders, timing: Timing, notifier: JobNotifier, engines: OwnEngines,
    job_defaults: JobParameters | None, limits: JobLimits,
) -> Kernel:  # fmt: skip
    """Return what most use cases need."""
    store, clock = ports.store, ports.clock
    circuit_breakers = CircuitBreakers(
        clock=clock, timing=timing, rng=ports.rng, speaks=ports.speaks
    )
    parties = CheckedParties(ports.parties, circuit_breakers, clock=clock)
    specs = ParsedJobs(ports.catalog, defaults=job_defaults)
    return Kernel(
        store=store,
        folders=folders,
        clock=clock,
        timing=timing,
        limits=limits,
        new_job_id=JobIds(salt=ports.salt).next,
        catalog=ports.catalog,
        specs=specs,
        engines=engines,
        queue=JobQueue(store=store, parties=parties, clock=clock, timing=timing, engines=engines),
        wakeup=ports.wakeup,
        notifier=notifier,
        servers=ports.servers,
        parties=parties,
        circuit_breakers=circuit_breakers,
        party_commands=PartyCommands(clock=clock, timing=timing, new_request_id=new_request_id),
        party_leases=PartyLeases(store=store, parties=parties, clock=clock, timing=timing),
        status_pull=StatusPull(specs=specs, parties=parties),
    )


def _add_commands(
    commands: Commands, party: _PartyHalf, own: _InitiatorHalf, of_models: _ModelHalf
) -> None:
    """Fill the table of `wire/paths.py` with its handlers."""
    jobs, tasks, reruns, prepared = party.jobs, party.tasks, party.reruns, of_models.prepared
    deploy, migrate = of_models.deploy_here, of_models.migrate_here
    commands.add("heartbeat", party.heartbeats.answer, repeatable=True)
    commands.add_look("preflight", party.preflight.answer)
    commands.add("job_create", jobs.create, prepare=jobs.prepare_create)
    commands.add("job_check", jobs.check, prepare=jobs.prepare_create, repeatable=True)
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
    history = of_models.history_here
    commands.add("model_history", lambda *given: history().prepare(*given))
    commands.add_look("model_share", lambda given: history().share(given))
    commands.add("model_commit", prepared.commit)
    commands.add("model_undo", prepared.undo)
    commands.add_look("model_publish", lambda asked: of_models.publish_here().answer(asked))
