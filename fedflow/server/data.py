"""Puts the use cases of data and tables together: which folders of this machine they may touch."""

from __future__ import annotations

from pathlib import Path

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.bindings import Bindings
from fedflow.app.data.provenance import Provenance
from fedflow.app.data.table_details import TableDetails
from fedflow.app.data.table_schemas import TableSchemas
from fedflow.app.data.tables import Tables
from fedflow.app.data.transfers import Transfers
from fedflow.app.data.uploads import Uploads
from fedflow.app.folders import Folders
from fedflow.app.ports import Store
from fedflow.app.scheduling.submissions import Submissions
from fedflow.app.services import DataServices
from fedflow.base.clock import Clock
from fedflow.base.ids import new_request_id
from fedflow.base.settings import Settings
from fedflow.tables.archives import LocalArchives
from fedflow.tables.binding import LocalFiles
from fedflow.tables.statistics_file import LocalColumnFacts


def build_data(
    settings: Settings, *, store: Store, submissions: Submissions, folders: Folders, clock: Clock
) -> DataServices:
    """Return the use cases, wired to the server's store and folders."""
    own_party = settings.party_id or "0"
    readable = tuple(Path(f) for f in settings.upload.allowed_folders)
    writable = (folders.downloads, *(Path(f) for f in settings.download.allowed_folders))
    provenance = Provenance(store=store)
    return DataServices(
        bindings=Bindings(
            store=store,
            folders=folders,
            sources=AllowedFolders(readable),
            files=LocalFiles(),
            clock=clock,
            new_address=new_request_id,
            own_party=own_party,
        ),
        provenance=provenance,
        table_details=TableDetails(
            store=store, provenance=provenance, facts=LocalColumnFacts(folders.tables)
        ),
        table_schemas=TableSchemas(store=store, own_party=own_party),
        tables=Tables(
            store=store,
            folders=folders,
            archives=LocalArchives(folders.tables),
            clock=clock,
            own_party=own_party,
        ),
        transfers=Transfers(
            store=store,
            submissions=submissions,
            targets=AllowedFolders(writable),
            own_party=own_party,
        ),
        uploads=Uploads(
            store=store, submissions=submissions, folders=folders, allowed_folders=readable
        ),
    )
