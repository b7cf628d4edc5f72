"""Puts the use cases of models together: repository, archives, the external store, tags."""

from __future__ import annotations

from pathlib import Path

from fedflow.app.core import Core
from fedflow.app.local_jobs.model_store import ModelStoring
from fedflow.app.models.history_changes import HistoryChanges
from fedflow.app.models.model_exchange import ModelExchange
from fedflow.app.models.model_history import ModelHistory
from fedflow.app.models.model_tags import ModelTags
from fedflow.app.models.model_views import ModelViews
from fedflow.app.models.woe_arrays import WoeArrays
from fedflow.app.participant.worker_models import WorkerModels
from fedflow.app.ports.models import ExternalModels, ModelBlobs
from fedflow.app.services import ModelServices
from fedflow.base.clock import Clock
from fedflow.base.settings import Settings
from fedflow.blobs.archive import ZipArchives
from fedflow.blobs.external import FolderModels, MySqlAddress, MySqlModels


def build_models(settings: Settings, core: Core, *, blobs: ModelBlobs) -> ModelServices:
    """Return the use cases, wired to the server's store and folders."""
    store, clock = core.kernel.store, core.kernel.clock
    exchange = ModelExchange(
        store=store,
        repository=core.models,
        blobs=blobs,
        archives=ZipArchives(),
        parties=core.parties,
        clock=clock,
        folder=core.kernel.folders.model_archives,
    )
    return ModelServices(
        repository=core.models,
        deployment=core.deployment,
        migrations=core.migrations,
        publishing=core.publishing,
        serving=core.serving,
        history=ModelHistory(store=store, repository=core.models),
        history_changes=HistoryChanges(core.kernel, model_changes=core.model_changes),
        exchange=exchange,
        storing=ModelStoring(
            store=store,
            submissions=core.submissions,
            workers=core.workers,
            exchange=exchange,
            external=external_models(settings, clock),
            clock=clock,
        ),
        tags=ModelTags(store=store, clock=clock),
        views=ModelViews(store=store, repository=core.models, blobs=blobs),
        woe_arrays=WoeArrays(store=store, repository=core.models, clock=clock),
        workers=WorkerModels(store=store, workers=core.workers, models=core.models),
    )


def external_models(settings: Settings, clock: Clock) -> ExternalModels | None:
    """Return the external model store that the settings name, None if they name none."""
    given = settings.model_store_address
    if given.storage == "folder":
        return FolderModels(Path(given.folder))
    if given.storage == "s3":
        from fedflow.blobs.bucket import BucketModels  # Arrow, which no other store needs
        from fedflow.tables.filesystems import FilesystemAccess

        bucket, _, prefix = given.uri.removeprefix("s3://").partition("/")
        access = FilesystemAccess(
            endpoint=given.endpoint,
            region=given.region,
            access_key=given.access_key,
            secret_key=given.secret_key,
        )
        return BucketModels(bucket, prefix, access, clock)
    if given.storage == "mysql":
        return MySqlModels(
            MySqlAddress(
                host=given.host,
                port=given.port,
                user=given.user,
                password=given.passwd,
                database=given.name,
                timeout_s=given.timeout,
            )
        )
    return None
