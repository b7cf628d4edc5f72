"""Copies of models in an external store: local jobs of one component, as in FATE, so that clients
can wait for them.

The component itself (`ModelStore`, `ModelRestore`) only asks its server, by the token of its
attempt; which model is meant stands in the task's parameters, which were checked at submit.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from fedflow.app.initiator.submissions import Submissions, Submitted
from fedflow.app.local_jobs.submission import submit_local
from fedflow.app.models.model_exchange import ModelExchange, digest_of
from fedflow.app.participant.task_reports import Workers
from fedflow.app.ports.models import ExternalModels
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock, is_older
from fedflow.base.errors.executors import LaunchRefused
from fedflow.base.errors.models import (
    BadModelArchive,
    ModelExists,
    ModelNotFound,
    ModelStoreNotSet,
    ModelStoreUnavailable,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.models.model import ModelKey
from fedflow.domain.records import TaskKey, TaskRecord
from fedflow.domain.site import Role, Site
from fedflow.domain.states import TASK_FINAL
from fedflow.wire.worker_commands import ExternalArchive

logger = logging.getLogger(__name__)

STORE: Final = "ModelStore"
RESTORE: Final = "ModelRestore"
_SWEEP_EVERY_MS: Final = 86_400_000
_IN_MEMORY: Final = 8 * 1024 * 1024  #: an archive that is larger goes to disk


class ModelStoring:
    """The use cases of the store and restore routes, and of their tasks."""

    def __init__(
        self,
        *,
        store: Store,
        submissions: Submissions,
        workers: Workers,
        exchange: ModelExchange,
        external: ExternalModels | None,
        clock: Clock,
    ) -> None:
        """Without `external` this server has no external store, and says so."""
        self._store = store
        self._submissions = submissions
        self._workers = workers
        self._exchange = exchange
        self._external = external
        self._clock = clock
        self._swept_ms = 0

    # --- what clients ask -----------------------------------------------------------------------

    def submit_store(self, key: ModelKey, *, force: bool) -> Submitted:
        """Start the job that copies a model to the external store.

        Raises: ModelStoreNotSet, ModelNotFound.
        """
        self._outside()
        with self._store.read() as tx:
            found = tx.models.get(key)
        if found is None or not found.ready:
            raise ModelNotFound(model=key)
        return submit_local(self._submissions, STORE, {**_parameters(key), "force_update": force})

    def submit_restore(self, key: ModelKey, *, sha256: str | None) -> Submitted:
        """Start the job that brings a model back. Raises: ModelStoreNotSet, ModelNotFound: the
        external store does not have it. ModelStoreUnavailable.
        """
        if self._outside().digest(key.party_model_id, key.model_version) is None:
            raise ModelNotFound(model=f"{key} in the external model store, so none")
        more = {} if sha256 is None else {"sha256": sha256}
        return submit_local(self._submissions, RESTORE, {**_parameters(key), **more})

    # --- what their tasks ask -------------------------------------------------------------------

    def store_for(self, task: TaskKey, token: str) -> ExternalArchive:
        """Copy the model that a task's parameters name; twice has no further effect.

        Raises: NotAuthenticated, ModelNotFound, ModelDamaged, ModelExists: the store has another
        archive of it, and `force_update` is not set. ModelStoreUnavailable.
        """
        parameters = self._parameters_of(task, token, STORE)
        key, outside = _key(parameters), self._outside()
        with self._exchange.export(key) as archive:
            sha256 = digest_of(archive)
            known = outside.digest(key.party_model_id, key.model_version)
            if known is not None and known != sha256 and not parameters.get("force_update"):
                raise ModelExists(model=f"{key} in the external model store")
            if known != sha256:
                outside.put(key.party_model_id, key.model_version, archive, sha256=sha256)
                self._sweep(outside)
            return ExternalArchive(sha256=sha256, size_bytes=archive.seek(0, 2))

    def restore_for(self, task: TaskKey, token: str) -> ExternalArchive:
        """Bring the model back that a task's parameters name; twice has no further effect.

        Raises: as `ModelExchange.import_archive`, and ModelStoreUnavailable, ModelNotFound.
        """
        parameters = self._parameters_of(task, token, RESTORE)
        key, outside = _key(parameters), self._outside()
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as archive:
            if not outside.get(key.party_model_id, key.model_version, archive):
                raise ModelNotFound(model=f"{key} in the external model store, so none")
            sha256 = digest_of(archive)
            wanted = parameters.get("sha256")
            if wanted is not None and str(wanted).lower() != sha256:
                raise BadModelArchive(reason="it does not have the sha256 that was given for it")
            if not self._is_here(key, sha256):
                self._exchange.import_archive(key, archive)
            return ExternalArchive(sha256=sha256, size_bytes=archive.seek(0, 2))

    def _sweep(self, outside: ExternalModels) -> None:
        """Once a day, remove what stores that broke off left; a failure is no one's."""
        now_ms = self._clock.now_ms()
        if not is_older(self._swept_ms, _SWEEP_EVERY_MS, now_ms):
            return
        self._swept_ms = now_ms
        try:
            outside.sweep(older_than_ms=now_ms - _SWEEP_EVERY_MS)
        except ModelStoreUnavailable as exc:
            logger.warning("%s", exc.message, extra={"action": "sweep"})

    def _is_here(self, key: ModelKey, sha256: str) -> bool:
        """Tell whether the very model of an archive is here, whole."""
        with self._store.read() as tx:
            known = tx.models.get(key)
        if known is None:
            return False
        if known.archive_sha256 == sha256:
            return True
        with self._exchange.export(key) as own:
            return digest_of(own) == sha256

    def _parameters_of(self, task: TaskKey, token: str, module: str) -> Mapping[str, Any]:
        with self._store.read() as tx:
            record: TaskRecord = self._workers.authentic(tx, task, token)
        if record.party_status in TASK_FINAL:
            raise LaunchRefused(launch_id=record.launch_id, task=str(task))
        if record.module != module:
            raise BadRequest(reason=f"{task} is no {module}")
        parameters: Mapping[str, Any] = record.parameters
        return parameters

    def _outside(self) -> ExternalModels:
        if self._external is None:
            raise ModelStoreNotSet
        return self._external


def _parameters(key: ModelKey) -> dict[str, Any]:
    return {
        "role": key.site.role.value,
        "party_id": key.site.party_id,
        "model_id": key.model_id,
        "model_version": key.model_version,
    }


def _key(parameters: Mapping[str, Any]) -> ModelKey:
    return ModelKey(
        site=Site(Role(parameters["role"]), PartyId(str(parameters["party_id"]))),
        model_id=str(parameters["model_id"]),
        model_version=str(parameters["model_version"]),
    )
