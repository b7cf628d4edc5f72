"""Puts the use cases of data and tables together: which folders of this machine they may touch."""

from __future__ import annotations

from pathlib import Path

from fedflow.app.core import Core
from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.allowed_storages import AllowedStorages
from fedflow.app.data.bindings import Bindings
from fedflow.app.data.connectors import Connectors, Sealer
from fedflow.app.data.provenance import Provenance
from fedflow.app.data.table_details import TableDetails
from fedflow.app.data.table_pages import TablePages
from fedflow.app.data.table_schemas import TableSchemas
from fedflow.app.data.tables import Tables
from fedflow.app.data.writing_targets import WritingTargets
from fedflow.app.local_jobs.transfers import Transfers
from fedflow.app.local_jobs.uploads import Uploads
from fedflow.app.participant.worker_storages import WorkerStorages
from fedflow.app.protocol.folders import Folders
from fedflow.app.services import DataServices
from fedflow.base.ids import new_request_id
from fedflow.base.lazy import Lazy
from fedflow.base.settings import Settings
from fedflow.domain.data.storage_places import Places
from fedflow.domain.data.storages import Limits
from fedflow.server.adapters import allowed_sources
from fedflow.tables.binding import LocalBoundFiles
from fedflow.tables.preview_file import LocalPreviews
from fedflow.tables.row_ranges import LocalWindows
from fedflow.tables.statistics_file import LocalColumnFacts
from fedflow.tables.storage_probe import StorageProbes


def build_data(settings: Settings, core: Core, *, tables: Tables) -> DataServices:
    """Return the use cases, wired to the server's store and folders."""
    kernel, submissions, workers = core.kernel, core.submissions, core.workers
    store, folders = kernel.store, kernel.folders
    own_party = settings.party_id or "0"
    readable = tuple(Path(f) for f in settings.upload.allowed_folders)
    writable = (folders.downloads, *(Path(f) for f in settings.download.allowed_folders))
    provenance = Provenance(store=store)
    sources = allowed_sources(settings)
    allowed = _allowed_storages(settings, sources)
    connectors = Connectors(
        store=store,
        sealer=Lazy(lambda: _sealer(folders)),
        allowed=allowed,
        clock=kernel.clock,
    )
    writing = WritingTargets(
        connectors=connectors, allowed=allowed, folders=AllowedFolders(writable)
    )
    return DataServices(
        bindings=Bindings(
            kernel,
            sources=sources,
            files=LocalBoundFiles(),
            probes=StorageProbes(),
            connectors=connectors,
            new_address=new_request_id,
            own_party=own_party,
        ),
        connectors=connectors,
        provenance=provenance,
        table_details=TableDetails(
            store=store, provenance=provenance, facts=LocalColumnFacts(folders.tables)
        ),
        table_pages=TablePages(
            store=store,
            previews=LocalPreviews(folders.tables),
            windows=LocalWindows(folders.tables),
        ),
        table_schemas=TableSchemas(store=store, own_party=own_party),
        tables=tables,
        transfers=Transfers(
            store=store,
            submissions=submissions,
            targets=AllowedFolders(writable),
            own_party=own_party,
            writing=writing,
        ),
        uploads=Uploads(
            store=store, submissions=submissions, folders=folders, allowed_folders=readable
        ),
        worker_storages=WorkerStorages(
            store=store, workers=workers, connectors=connectors, targets=writing
        ),
    )


def _allowed_storages(settings: Settings, folders: AllowedFolders) -> AllowedStorages:
    given = settings.storage
    return AllowedStorages(
        folders=folders,
        places=Places(
            mysql_hosts=given.mysql_hosts,
            hive_hosts=given.hive_hosts,
            s3_buckets=given.s3_buckets,
            hdfs_folders=given.hdfs_folders,
        ),
        limits=Limits(
            connect_s=given.connect_timeout_s,
            read_s=given.read_timeout_s,
            statement_s=given.statement_timeout_s,
        ),
        may_write=given.may_write,
    )


def _sealer(folders: Folders) -> Sealer:
    from fedflow.store.connector_key import KeyFile  # with `cryptography`

    return KeyFile(folders.connector_key)
