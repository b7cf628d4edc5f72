"""What executors keep and read of models while they run, with the token of their attempt."""

from __future__ import annotations

import base64
from typing import Any

from fedflow.app.models.models import ModelRepository, checkpoint_key, trained_key, version_in
from fedflow.app.participant.task_reports import Workers
from fedflow.app.ports.store import Store, Tx
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.model import ModelKey, StepChoice
from fedflow.domain.records import JobRecord, TaskKey, TaskRecord
from fedflow.wire.task_report import ReportedModel
from fedflow.wire.worker_commands import SavedModel, SavedStep


class WorkerModels:
    """The executors' counterpart for models and checkpoints."""

    def __init__(self, *, store: Store, workers: Workers, models: ModelRepository) -> None:
        self._store = store
        self._workers = workers
        self._models = models

    # --- checkpoints ----------------------------------------------------------------------------

    def save_checkpoint(
        self, key: TaskKey, token: str, *, step_index: int, step_name: str, model: ReportedModel
    ) -> None:
        """Store the state of a task's model.

        Raises: NotAuthenticated, LaunchRefused: the worker must exit. CheckpointRefused,
        BadRequest.
        """
        with self._store.read() as tx:
            task, job = self._running(tx, key, token)
            checkpoint_key(job, task)
        written = self._models.write(model)
        with self._store.transaction() as tx:
            task, job = self._running(tx, key, token)
            self._models.keep_checkpoint(
                tx, job, task, written, step_index=step_index, step_name=step_name
            )

    def checkpoints(self, key: TaskKey, token: str) -> list[tuple[int, str]]:
        """Return (index, name) of the steps of a task's component, those of earlier attempts too.

        None where the job trains no model. Raises: NotAuthenticated, LaunchRefused.
        """
        with self._store.read() as tx:
            task, job = self._running(tx, key, token)
            model = trained_key(job)
            steps = [] if model is None else tx.models.checkpoints(model, task.key.component)
        return [(step.step_index, step.step_name) for step in steps]

    def checkpoint(self, key: TaskKey, token: str, step_index: int) -> SavedStep:
        """Return one step with its model. Raises: CheckpointNotFound, ModelDamaged, ..."""
        with self._store.read() as tx:
            task, job = self._running(tx, key, token)
            model = checkpoint_key(job, task)
        choice = StepChoice(step_index=step_index)
        step = self._models.checkpoint(model, task.key.component, choice)
        content = self._models.content(step, module=task.module)
        model_content = SavedModel(
            meta_name=content.meta_name,
            param_name=content.param_name,
            meta=content.meta,
            param=content.param,
        )
        return SavedStep(step_index=step.step_index, step_name=step.step_name, model=model_content)

    # --- models ---------------------------------------------------------------------------------

    def save(
        self, key: TaskKey, token: str, *, model_id: str, model_version: str, model: ReportedModel
    ) -> None:
        """Store a task's model before its end. Raises: BadRequest: it is another job's version."""
        with self._store.read() as tx:
            self._own(tx, key, token, model_id=model_id, model_version=model_version)
        written = self._models.write(model)
        with self._store.transaction() as tx:
            task, job = self._own(tx, key, token, model_id=model_id, model_version=model_version)
            self._models.keep_component(tx, job, task, written)

    def get(
        self, key: TaskKey, token: str, *, model_id: str, model_version: str, alias: str | None
    ) -> dict[str, list[str]]:
        """Return {name: [name, base64 of the canonical JSON]} of the model that the task's
        component has in a version of its site.
        """
        with self._store.read() as tx:
            self._running(tx, key, token)
            share = ModelKey(site=key.site, model_id=model_id, model_version=model_version)
            found, _ = self._models.locate(tx, share, key.component, alias=alias)
        return {
            part.name: [part.name, base64.b64encode(self._models.raw(found, part)).decode()]
            for part in (found.meta, found.param)
        }

    def run_parameters(
        self, key: TaskKey, token: str, *, model_id: str, model_version: str
    ) -> dict[str, Any]:
        """Return the parameters that each component of a version of the task's site ran with."""
        with self._store.read() as tx:
            self._running(tx, key, token)
            share = ModelKey(site=key.site, model_id=model_id, model_version=model_version)
            version_in(tx, share)
            return {c.component: c.run_parameters for c in tx.models.components(share)}

    def _own(
        self, tx: Tx, key: TaskKey, token: str, *, model_id: str, model_version: str
    ) -> tuple[TaskRecord, JobRecord]:
        task, job = self._running(tx, key, token)
        own = trained_key(job)
        if own is None or (own.model_id, own.model_version) != (model_id, model_version):
            raise BadRequest(reason=f"job {key.job_id} does not train this model version")
        return task, job

    def _running(self, tx: Tx, key: TaskKey, token: str) -> tuple[TaskRecord, JobRecord]:
        task = self._workers.authentic(tx, key, token)
        job = tx.jobs.get(key.job)
        if job is None:
            raise JobNotFound(job_id=key.job_id)
        return task, job
