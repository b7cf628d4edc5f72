"""Starts the process of a party task: gathers its inputs, writes its spec file, asks the
executor.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fedflow.app.data.caches import cache_input, cache_request, one_cache
from fedflow.app.models.model_loading import LoadRequest, load_request
from fedflow.app.models.models import ModelRepository
from fedflow.app.models.predict import deployed_models
from fedflow.app.ports.components import ProviderChoice
from fedflow.app.ports.executors import Execution
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.disk import fault_of
from fedflow.base.errors.data import DiskFull, FolderNotWritable
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import SparkMissing
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.values import dataclass
from fedflow.domain.data.caches import CacheFilter
from fedflow.domain.job.dsl import Component, Ref
from fedflow.domain.job.engines import SPARK
from fedflow.domain.job.providers import ProviderManifest
from fedflow.domain.job.resources import demand_at
from fedflow.domain.job.spark_options import WITHOUT_SPARK, SparkSite, plan_application
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.models.model import ModelContent
from fedflow.domain.records import (
    JobRecord,
    StoredModel,
    TableRecord,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Site
from fedflow.domain.states import TASK_FINAL
from fedflow.wire.task_spec import (
    CacheInput,
    ModelInput,
    ProviderSpec,
    SparkSpec,
    TaskInputs,
    TaskSpec,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskLaunch:
    """One process to start; the `Launch` of `ports.Executor`."""

    launch_id: str
    task: TaskKey
    module: str
    spec_path: Path
    log_dir: Path
    work_dir: Path
    provider: ProviderManifest | None = None  #: None: the component comes with fedflow


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """What every worker process gets: where its server listens, and its bounds."""

    server_socket: Path
    federation_socket: Path
    tables_root: Path
    memory_bytes: int | None
    receive_timeout_s: float
    log_level: str
    nn_folder: str | None = None  #: of the site's own models of HomoNN
    spark: SparkSite | None = None  #: None: this party has no cluster
    has_certificate: bool = False  #: of TLS, with which tasks sign


class Launcher(UseCase):
    """Launches party tasks that a transaction has marked as requested."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        execution: Execution,
        models: ModelRepository,
        settings: WorkerSettings,
        providers: ProviderChoice | None,
    ) -> None:
        super().__init__(kernel)
        self._executor = execution.executor
        self._processes = execution.processes
        self._sessions = execution.sessions
        self._models = models
        self._settings = settings
        self._providers = providers
        self._applications = execution.applications

    def launch(self, key: TaskKey) -> None:
        """Start the process of a requested attempt; one that has ended meanwhile is left alone.

        A full disk or a store that is away is no end: the detector tries again. Anything else that
        keeps it from starting, such as a model that is gone, fails the attempt.
        """
        try:
            self._launch(key)
        except OSError as exc:
            fault = fault_of(exc, exc.filename or self._folders.work(key))
            if isinstance(fault, FolderNotWritable):
                self._refuse(key, fault)
                return
            logger.exception("%s could not be launched", key, extra={"job_id": key.job_id})
        except (DiskFull, StoreUnavailable):
            raise
        except FedflowError as exc:  # another try would meet it again
            self._refuse(key, exc)

    def _refuse(self, key: TaskKey, error: FedflowError) -> None:
        with self._store.read() as tx:
            task = tx.tasks.get(key)
        if task is not None and task.launch_id is not None:
            self._processes.expect(task.launch_id, key)
            self._processes.refused(task.launch_id, error)

    def _launch(self, key: TaskKey) -> None:
        with self._store.read() as tx:
            task = tx.tasks.get(key)
            job = tx.jobs.get(key.job)
            if task is None or job is None or task.party_status in TASK_FINAL:
                return
            if task.launch_id is None or task.token is None:
                return
            spec = self._specs.get(key.job_id, job.dsl, job.conf)
            component = spec.component(key.component)
            data, models = self._data(tx, component, task), self._models_of(tx, component, task)
        inputs = TaskInputs(
            data=data,
            model={**models, **self._stored_models(task, spec, component)},
            cache=self._caches(task, component),
        )
        sites = spec.sites_of(key.component)
        work_dir, log_dir = self._folders.work(key), self._folders.logs(key)
        work_dir.mkdir(parents=True, exist_ok=True)
        log_dir.mkdir(parents=True, exist_ok=True)
        self.open_session(task, sites)
        provider = self._provider(task, spec)
        content = TaskSpec(
            launch_id=task.launch_id,
            token=task.token,
            job_id=key.job_id,
            component=key.component,
            module=task.module,
            task_version=key.version,
            task_id=key.task_id,
            session=key.session,
            site=key.site.key,
            sites=[s.key for s in sites],
            parameters=dict(task.parameters),
            inputs=inputs,
            output_data=list(component.data_outputs),
            output_model=list(component.model_outputs),
            output_cache=list(component.cache_outputs),
            # on Spark one of this machine: the work is done on the cluster
            cores=1 if job.engine == SPARK else _cores(spec, key),
            server_socket=str(self._settings.server_socket),
            federation_socket=str(self._settings.federation_socket),
            federation_run=self._sessions.run,
            tables_root=str(self._settings.tables_root),
            work_dir=str(work_dir),
            log_dir=str(log_dir),
            party_log_dir=str(self._folders.party_logs(key.job)),
            memory_bytes=self._settings.memory_bytes,
            receive_timeout_s=self._settings.receive_timeout_s,
            log_level=self._settings.log_level,
            launch=task.launch,
            nn_folder=self._settings.nn_folder,
            elastic=spec.elastic_settings,
            has_certificate=self._settings.has_certificate,
            strict=spec.job_parameters_at(key.site).strict,
            provider=None if provider is None else _provider_spec(provider),
            spark=self._spark(task, job, spec) if provider is None else None,
        )
        spec_path = work_dir / f"spec-{task.launch_id}.json"
        _write_private(spec_path, msgspec.json.encode(content))
        self._processes.expect(task.launch_id, key)
        self._executor.start(
            TaskLaunch(
                launch_id=task.launch_id,
                task=key,
                module=task.module,
                spec_path=spec_path,
                log_dir=log_dir,
                work_dir=work_dir,
                provider=provider,
            )
        )

    def _spark(self, task: TaskRecord, job: JobRecord, spec: JobSpec) -> SparkSpec | None:
        """Return the Spark application that a task uses, started if need be; None: it uses none.

        Raises: SparkMissing: the conf names no cluster any more. OSError.
        """
        if job.engine != SPARK or task.module.lower() in WITHOUT_SPARK:
            return None
        site = self._settings.spark
        if site is None or self._applications is None:
            raise SparkMissing(reason="the conf of this party's server names no cluster any more")
        plan = plan_application(spec.job_parameters_at(job.key.site), site, cores=job.cores)
        return SparkSpec(
            application=str(self._applications.ensure(job.key, plan)),
            tables_uri=site.tables_uri,
            cores=plan.cores,
            partitions=plan.partitions,
            small_rows=site.small_rows,
            small_work_s=site.small_work_s,
            wait_s=site.wait_s,
        )

    def _provider(self, task: TaskRecord, spec: JobSpec) -> ProviderManifest | None:
        """Return the registered provider that runs a task. Raises: ProviderRefused: it is gone."""
        if self._providers is None:
            return None
        asked = spec.provider_of(task.key.component, task.key.site)
        return self._providers.provider_of(task.module, asked)

    def open_session(self, task: TaskRecord, sites: tuple[Site, ...]) -> None:
        """Open the attempt's data-plane session, if it has anyone to talk to."""
        if len(sites) > 1 and task.token is not None:
            self._sessions.open_session(
                task.key.session,
                task.key.site,
                token=task.token,
                sites=sites,
                incarnation=task.launch,
            )

    def _data(
        self, tx: Tx, component: Component, task: TaskRecord
    ) -> dict[str, list[tuple[str, TableRecord | None]]]:
        """Return tables of the upstream components by port; those without outputs, and ports that
        only they feed, are left out.
        """
        given = {port: present(refs, task) for port, refs in component.data.items()}
        return {
            port: [(ref.component, self._table(tx, ref, task.key)) for ref in refs]
            for port, refs in given.items()
            if refs
        }

    def _models_of(self, tx: Tx, component: Component, task: TaskRecord) -> dict[str, ModelInput]:
        """Return the models of the upstream components that have one."""
        key, models = task.key, {}
        for ref in present((*component.model, *component.isometric_model), task):
            stored = tx.tracking.model(key.job_id, ref.component, key.site)
            if stored is not None and stored.key.version == _version(tx, ref, key):
                models[ref.component] = _model_input(stored)
        return models

    def _stored_models(
        self, task: TaskRecord, spec: JobSpec, component: Component
    ) -> dict[str, ModelInput]:
        """Return the models of stored versions that a task starts with.

        Raises: BadParameter, CheckpointNotFound, ModelComponentNotFound, ModelDamaged,
        ModelNotFound.
        """
        requests = _load_requests(task)
        if not requests and not component.stored_models:
            return {}
        with self._store.read() as tx:
            requests += deployed_models(tx, spec, component, task.key.site)
            found = [(r.component, *r.locate(self._models, tx)) for r in requests]
        loaded = {name: self._models.content(row, module=module) for name, row, module in found}
        return {name: _model_input(model) for name, model in loaded.items()}

    def _caches(self, task: TaskRecord, component: Component) -> dict[str, CacheInput]:
        """Return the caches of upstream components, or the one that a CacheLoader names.

        An upstream component that kept none is left out. Raises: CacheNotFound, BadParameter.
        """
        loaded, key = cache_request(task), task.key
        if loaded is None and not component.cache:
            return {}
        with self._store.read() as tx:
            if loaded is not None:
                found = one_cache(tx, loaded)
                return {found.key.component: cache_input(tx, found, key.site)}
            caches = {}
            for ref in present(component.cache, task):
                which = CacheFilter(
                    site=key.site, job_id=key.job_id, component=ref.component, name=ref.output
                )
                version = _version(tx, ref, key)
                for cache in tx.caches.find(which):
                    if cache.key.version == version:
                        caches[ref.component] = cache_input(tx, cache, key.site)
            return caches

    def _table(self, tx: Tx, ref: Ref, key: TaskKey) -> TableRecord | None:
        version = _version(tx, ref, key)
        for output in tx.tracking.outputs(key.job_id, ref.component, key.site):
            if output.data_name == ref.output and output.key.version == version:
                return tx.tables.get(output.namespace, output.name)
        return None


def _model_input(model: StoredModel | ModelContent) -> ModelInput:
    return ModelInput(
        meta_name=model.meta_name,
        param_name=model.param_name,
        meta=dict(model.meta),
        param=dict(model.param),
    )


def _provider_spec(provider: ProviderManifest) -> ProviderSpec:
    return ProviderSpec(
        name=provider.name, version=provider.version, components=provider.components
    )


def _cores(spec: JobSpec, key: TaskKey) -> int:
    """Return how many cores the process of a party task may use."""
    parameters = spec.job_parameters_at(key.site)
    return demand_at(key.site, parameters, component=key.component).usable_cores


def present(refs: Iterable[Ref], task: TaskRecord) -> list[Ref]:
    """Return those of some inputs that a task has; the initiator says which ones, so that it is
    the same at all sites.
    """
    return [ref for ref in refs if ref.component not in task.absent]


def _version(tx: Tx, ref: Ref, key: TaskKey) -> int | None:
    """Return the latest attempt of an input's source: what older ones left is no input."""
    found = tx.tasks.find(
        TaskFilter(
            job_id=key.job_id,
            component=ref.component,
            roles=(key.site.role,),
            party_id=key.site.party_id,
        )
    )
    return found[-1].key.version if found else None


def _load_requests(task: TaskRecord) -> list[LoadRequest]:
    """Return which stored models a task starts with."""
    key = task.key
    loader = load_request(task.module, key.component, task.parameters, key.site)
    return [] if loader is None else [loader]


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that only this user can read: it holds the task's token."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
