"""Starts the process of a party task: gathers its inputs, writes its spec file, asks the
executor.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedflow.app.folders import Folders
from fedflow.app.ports import Executor, LaunchBook, Sessions, Store, Tx
from fedflow.app.specs import Specs
from fedflow.domain.dsl import Component, Ref
from fedflow.domain.job_spec import JobSpec
from fedflow.domain.records import TaskKey, TaskRecord
from fedflow.domain.resources import demand_at
from fedflow.domain.site import Site
from fedflow.domain.states import TASK_FINAL

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskLaunch:
    """One process to start; the `Launch` of `ports.Executor`."""

    launch_id: str
    task: TaskKey
    spec_path: Path
    log_dir: Path
    work_dir: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """What every worker process is told: where its server listens, and its bounds."""

    server_socket: Path
    federation_socket: Path
    tables_root: Path
    memory_bytes: int | None
    receive_timeout_s: float
    log_level: str


class Launcher:
    """Launches party tasks that a transaction has marked as requested."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        folders: Folders,
        executor: Executor,
        processes: LaunchBook,
        sessions: Sessions,
        settings: WorkerSettings,
    ) -> None:
        self._store = store
        self._specs = specs
        self._folders = folders
        self._executor = executor
        self._processes = processes
        self._sessions = sessions
        self._settings = settings

    def launch(self, key: TaskKey) -> None:
        """Start the process of a requested attempt; one that has ended meanwhile is left alone.

        Failures before the process exists (a full disk, say) are logged; the detector tries again.
        """
        try:
            self._launch(key)
        except OSError:
            logger.exception("%s could not be launched", key, extra={"job_id": key.job_id})

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
            inputs = self._inputs(tx, component, key)
        sites = spec.sites_of(key.component)
        work_dir, log_dir = self._folders.work(key), self._folders.logs(key)
        work_dir.mkdir(parents=True, exist_ok=True)
        log_dir.mkdir(parents=True, exist_ok=True)
        self.open_session(task, sites)
        content = self._content(task, spec, component, sites, inputs, work_dir, log_dir)
        spec_path = work_dir / f"spec-{task.launch_id}.json"
        _write_private(spec_path, msgspec.json.encode(content))
        self._processes.expect(task.launch_id, key)
        self._executor.start(
            TaskLaunch(
                launch_id=task.launch_id,
                task=key,
                spec_path=spec_path,
                log_dir=log_dir,
                work_dir=work_dir,
            )
        )

    def open_session(self, task: TaskRecord, sites: tuple[Site, ...]) -> None:
        """Open the attempt's data-plane session, if it has anyone to talk to."""
        if len(sites) > 1 and task.token is not None:
            self._sessions.open_session(
                task.key.session, task.key.site, token=task.token, sites=sites
            )

    def _content(
        self,
        task: TaskRecord,
        spec: JobSpec,
        component: Component,
        sites: tuple[Site, ...],
        inputs: Mapping[str, Any],
        work_dir: Path,
        log_dir: Path,
    ) -> dict[str, Any]:
        key = task.key
        return {
            "launch_id": task.launch_id,
            "token": task.token,
            "job_id": key.job_id,
            "component": key.component,
            "module": task.module,
            "task_version": key.version,
            "task_id": key.task_id,
            "session": key.session,
            "site": key.site.key,
            "sites": [s.key for s in sites],
            "parameters": task.parameters,
            "inputs": inputs,
            "output_data": list(component.data_outputs),
            "output_model": list(component.model_outputs),
            "cores": demand_at(key.site, spec.job_parameters_at(key.site)).usable_cores,
            "server_socket": str(self._settings.server_socket),
            "federation_socket": str(self._settings.federation_socket),
            "federation_run": self._sessions.run,
            "tables_root": str(self._settings.tables_root),
            "work_dir": str(work_dir),
            "log_dir": str(log_dir),
            "memory_bytes": self._settings.memory_bytes,
            "receive_timeout_s": self._settings.receive_timeout_s,
            "log_level": self._settings.log_level,
        }

    def _inputs(self, tx: Tx, component: Component, key: TaskKey) -> dict[str, Any]:
        data = {
            port: [[ref.component, self._table(tx, ref, key)] for ref in refs]
            for port, refs in component.data.items()
        }
        model: dict[str, Any] = {}
        for ref in (*component.model, *component.isometric_model):
            stored = tx.tracking.model(key.job_id, ref.component, key.site)
            if stored is not None:
                model[ref.component] = {
                    "meta_name": stored.meta_name,
                    "param_name": stored.param_name,
                    "meta": stored.meta,
                    "param": stored.param,
                }
        return {"data": data, "model": model}

    def _table(self, tx: Tx, ref: Ref, key: TaskKey) -> Any:
        for output in tx.tracking.outputs(key.job_id, ref.component, key.site):
            if output.data_name == ref.output:
                table = tx.tables.get(output.namespace, output.name)
                return msgspec.to_builtins(table) if table is not None else None
        return None


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that only this user can read: it holds the task's token."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
