"""The model repository of one server: models of finished tasks, loading them, checkpoints.

Rows say what there is and with which digests; contents lie in blobs. Contents are always put before
the rows that name them, so a crash leaves at most contents that nothing names, which `sweep`
deletes. Every load compares contents with the digests of its rows.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from fedflow.app.administration.info import FATE_VERSION
from fedflow.app.ports.models import ModelBlobs
from fedflow.app.ports.store import Store, Tx
from fedflow.base.clock import Clock
from fedflow.base.errors.models import (
    BlobDamaged,
    CheckpointNotFound,
    CheckpointRefused,
    ModelComponentNotFound,
    ModelDamaged,
    ModelNotFound,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import mode_of
from fedflow.domain.job.spec import model_id_of
from fedflow.domain.models.model import (
    MAX_MODEL_ID,
    Checkpoint,
    ModelComponent,
    ModelContent,
    ModelFilter,
    ModelKey,
    ModelPart,
    ModelVersion,
    StepChoice,
    canonical_json,
    part_of,
)
from fedflow.domain.records import JobRecord, TaskRecord
from fedflow.domain.site import Role
from fedflow.wire.json_text import MAX_MODEL_VALUES, decode_json
from fedflow.wire.task_report import ReportedModel

logger = logging.getLogger(__name__)

MAX_STEP: Final = 2**31 - 1
_NAME: Final = re.compile(r"[0-9A-Za-z_.-]{1,100}")
_BATCH: Final = 500  #: blobs that are looked up in one transaction
_JSON_DEPTH: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenModel:
    """A model whose contents are stored, and that no row names yet."""

    alias: str
    meta: ModelPart
    param: ModelPart


class ModelRepository:
    """The use cases of stored models."""

    def __init__(self, *, store: Store, blobs: ModelBlobs, clock: Clock) -> None:
        self._store = store
        self._blobs = blobs
        self._clock = clock

    # --- reading --------------------------------------------------------------------------------

    def version(self, key: ModelKey) -> ModelVersion:
        """Return a version that can be used. Raises: ModelNotFound."""
        with self._store.read() as tx:
            return version_in(tx, key)

    def find(self, which: ModelFilter) -> list[ModelVersion]:
        """Return matching versions, newest first."""
        with self._store.read() as tx:
            return tx.models.find(which)

    def components(self, key: ModelKey) -> list[ModelComponent]:
        """Return the component models of a version, by name. Raises: ModelNotFound."""
        with self._store.read() as tx:
            version_in(tx, key)
            return tx.models.components(key)

    def load(
        self,
        key: ModelKey,
        component: str,
        *,
        alias: str | None = None,
        checkpoint: StepChoice | None = None,
    ) -> ModelContent:
        """Return a component's model of a version, or its state after a step; checked.

        Raises: ModelNotFound, ModelComponentNotFound, CheckpointNotFound, ModelDamaged.
        """
        with self._store.read() as tx:
            found, module = self.locate(tx, key, component, alias=alias, checkpoint=checkpoint)
        return self.content(found, module=module)

    def locate(
        self,
        tx: Tx,
        key: ModelKey,
        component: str,
        *,
        alias: str | None = None,
        checkpoint: StepChoice | None = None,
    ) -> tuple[ModelComponent | Checkpoint, str]:
        """Return the row of a component's model and the component's module, without its contents.

        For those who look inside a transaction and read after it (`content`).
        Raises: ModelNotFound, ModelComponentNotFound, CheckpointNotFound.
        """
        version = version_in(tx, key)
        if checkpoint is not None:
            steps = tx.models.checkpoints(key, component)
            step = checkpoint.of(steps)
            if step is None or alias not in (None, step.alias):
                raise CheckpointNotFound(component=component, step=checkpoint, model=key)
            return step, _module_of(version, component)
        for found in tx.models.components(key):
            if found.component == component and alias in (None, found.alias):
                return found, found.module
        named = component if alias is None else f"{component}.{alias}"
        raise ModelComponentNotFound(model=key, component=named)

    def content(self, found: ModelComponent | Checkpoint, *, module: str) -> ModelContent:
        """Return the contents that a row names. Raises: ModelDamaged."""
        meta, param = self._objects(found)
        return ModelContent(
            module=module,
            alias=found.alias,
            meta_name=found.meta.name,
            param_name=found.param.name,
            meta=meta,
            param=param,
        )

    def raw(self, found: ModelComponent | Checkpoint, part: ModelPart) -> bytes:
        """Return the canonical JSON of one object of a model. Raises: ModelDamaged."""
        try:
            return self._blobs.get(part.sha256)
        except BlobDamaged as exc:
            what = f"{part.name} of {found.component}: {exc.fields['reason']}"
            raise ModelDamaged(model=found.key, reason=what) from exc

    def is_whole(self, key: ModelKey) -> bool:
        """Tell whether the contents of all components are there; they are not read."""
        with self._store.read() as tx:
            stored = tx.models.components(key)
        return all(self._blobs.has(p.sha256) for c in stored for p in (c.meta, c.param))

    def _objects(
        self, found: ModelComponent | Checkpoint
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        objects = []
        for part in (found.meta, found.param):
            try:
                value = decode_json(
                    self.raw(found, part), max_depth=_JSON_DEPTH, max_values=MAX_MODEL_VALUES
                )
            except BadRequest as exc:
                reason = f"{part.name} of {found.component} is not JSON"
                raise ModelDamaged(model=found.key, reason=reason) from exc
            if not isinstance(value, dict):
                reason = f"{part.name} of {found.component} is no object"
                raise ModelDamaged(model=found.key, reason=reason)
            objects.append(value)
        return objects[0], objects[1]

    # --- what jobs write ------------------------------------------------------------------------

    def write(self, model: ReportedModel) -> WrittenModel:
        """Store the contents of a model that a worker sent; a row must name them soon.

        Raises: BadRequest, DiskFull.
        """
        if not all(_NAME.fullmatch(n) for n in (model.alias, model.meta_name, model.param_name)):
            raise BadRequest(reason="a model's names may hold letters, digits, `_`, `-` and `.`")
        return WrittenModel(
            alias=model.alias,
            meta=self._write_part(model.meta_name, model.meta),
            param=self._write_part(model.param_name, model.param),
        )

    def _write_part(self, name: str, value: Mapping[str, Any]) -> ModelPart:
        try:
            content = canonical_json(value)
        except (TypeError, ValueError, RecursionError) as exc:
            raise BadRequest(reason=f"{name} is not plain JSON ({exc})") from exc
        self._blobs.put(content)
        return part_of(name, content)

    def keep_component(
        self, tx: Tx, job: JobRecord, task: TaskRecord, model: WrittenModel
    ) -> ModelComponent | None:
        """Note the model of a finished task under the version that its job trains.

        Predict jobs, and sites that no version is kept for, note nothing: None. Nor is anything
        noted in place of what is not the job's own, which is logged.
        """
        key = trained_key(job)
        if key is None or not _is_own(tx, key, job):
            return None
        component = ModelComponent(
            key=key,
            component=task.key.component,
            module=task.module,
            alias=model.alias,
            meta=model.meta,
            param=model.param,
            run_parameters=task.parameters,
            created_ms=self._clock.now_ms(),
        )
        tx.models.put_component(component)
        return component

    def keep_version(self, tx: Tx, job: JobRecord) -> ModelVersion | None:
        """Note the version that a job trained, when the job has ended, however it did.

        A repeat, or the end of a rerun, replaces it. Raises: nothing that would keep a job from
        ending: a model id that is too long, or a version of this name that is not the job's own,
        is logged, and None is returned.
        """
        key = trained_key(job)
        if key is None:
            return None
        now_ms = self._clock.now_ms()
        version = ModelVersion(
            key=key,
            job_id=job.key.job_id,
            roles={role: list(parties) for role, parties in job.roles.items()},
            initiator=job.initiator,
            train_dsl=job.dsl,
            train_conf=job.conf,
            conf_on_party=_conf_on_party(job, key),
            fate_version=FATE_VERSION,
            size_bytes=sum(c.size_bytes for c in tx.models.components(key)),
            created_ms=now_ms,
            updated_ms=now_ms,
        )
        if not tx.models.put_trained(version):
            _log_not_kept(key)
            return None
        return version

    # --- checkpoints ----------------------------------------------------------------------------

    def keep_checkpoint(
        self,
        tx: Tx,
        job: JobRecord,
        task: TaskRecord,
        model: WrittenModel,
        *,
        step_index: int,
        step_name: str,
    ) -> Checkpoint:
        """Note the state of a task's model after a step. Raises: BadRequest, CheckpointRefused."""
        if not 0 <= step_index <= MAX_STEP:
            raise BadRequest(reason=f"`step_index` must be between 0 and {MAX_STEP}")
        if not _NAME.fullmatch(step_name):
            raise BadRequest(reason="`step_name` may hold letters, digits, `_`, `-` and `.`")
        key = checkpoint_key(job, task)
        if not _is_own(tx, key, job):
            reason = f"{key} is here and not of this job"
            raise CheckpointRefused(component=task.key.component, reason=reason)
        checkpoint = Checkpoint(
            key=key,
            component=task.key.component,
            attempt=task.key.version,
            alias=model.alias,
            step_index=step_index,
            step_name=step_name,
            meta=model.meta,
            param=model.param,
            created_ms=self._clock.now_ms(),
        )
        tx.models.put_checkpoint(checkpoint)
        return checkpoint

    def checkpoints(self, key: ModelKey, component: str) -> list[Checkpoint]:
        """Return the steps of a component, also of a job that still runs."""
        with self._store.read() as tx:
            return tx.models.checkpoints(key, component)

    def checkpoint(self, key: ModelKey, component: str, choice: StepChoice) -> Checkpoint:
        """Return one step. Raises: CheckpointNotFound."""
        found = choice.of(self.checkpoints(key, component))
        if found is None:
            raise CheckpointNotFound(component=component, step=choice, model=key)
        return found

    # --- clearing -------------------------------------------------------------------------------

    def sweep(self, older_than_ms: int) -> int:
        """Delete contents that nothing names and that were put before a moment; return how many."""
        gone = 0
        batch: list[str] = []
        for sha256 in self._blobs.old(older_than_ms):
            batch.append(sha256)
            if len(batch) == _BATCH:
                gone += self._sweep(batch, older_than_ms)
                batch = []
        gone += self._sweep(batch, older_than_ms)
        if gone:
            logger.info("%s contents of no model were deleted", gone, extra={"action": "sweep"})
        return gone

    def _sweep(self, batch: list[str], older_than_ms: int) -> int:
        with self._store.read() as tx:
            needed = tx.models.referenced(batch)
        unneeded = [sha256 for sha256 in batch if sha256 not in needed]
        return sum(self._blobs.remove(s, older_than_ms=older_than_ms) for s in unneeded)


def _is_own(tx: Tx, key: ModelKey, job: JobRecord) -> bool:
    """Tell whether a job may write under a key, until the transaction ends; log that it may not."""
    own = tx.models.is_own(key, job_id=job.key.job_id, initiator=job.initiator)
    if not own:
        _log_not_kept(key)
    return own


def _log_not_kept(key: ModelKey) -> None:
    logger.warning(
        "A job's model is not kept: %s is here and not of that job", key,
        extra={"action": "model_not_kept", "job_id": key.model_version},
    )  # fmt: skip


def version_in(tx: Tx, key: ModelKey) -> ModelVersion:
    """Return a version that can be used. Raises: ModelNotFound."""
    found = tx.models.get(key)
    if found is None or not found.ready:
        raise ModelNotFound(model=key)
    return found


def trained_key(job: JobRecord) -> ModelKey | None:
    """Return the version that a job trains at its site; None if it trains none there.

    Source: `docs/reference/models.md#when-a-model-is-stored`.
    """
    if job.key.site.role is Role.LOCAL or mode_of(job.conf) == "predict":
        return None
    model_id = model_id_of(job.roles)
    if len(model_id) > MAX_MODEL_ID:
        logger.warning(
            "Job %s has too many parties for a stored model", job.key.job_id,
            extra={"action": "model_not_kept", "job_id": job.key.job_id},
        )  # fmt: skip
        return None
    return ModelKey(site=job.key.site, model_id=model_id, model_version=job.key.job_id)


def checkpoint_key(job: JobRecord, task: TaskRecord) -> ModelKey:
    """Return where a task's checkpoints are kept. Raises: CheckpointRefused."""
    key = trained_key(job)
    if key is None:
        raise CheckpointRefused(component=task.key.component, reason="the job trains no model")
    return key


def _conf_on_party(job: JobRecord, key: ModelKey) -> dict[str, Any]:
    """Return the conf with its common job parameters laid open, as FATE stores it per party."""
    conf = dict(job.conf) if isinstance(job.conf, dict) else {}
    section = conf.get("job_parameters")
    given = section.get("common", section) if isinstance(section, dict) else {}
    parameters = {
        **(given if isinstance(given, dict) else {}),
        "model_id": key.model_id,
        "model_version": key.model_version,
    }
    return {**conf, "job_parameters": parameters}


def _module_of(version: ModelVersion, component: str) -> str:
    try:
        return str(version.train_dsl["components"][component]["module"])
    except (KeyError, TypeError):
        return ""
