"""Takes tables out: as a file of this machine, under a second name, or to another storage. All
are local jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.table_use import enabled
from fedflow.app.data.writing_targets import WRITABLE, WritingTargets
from fedflow.app.initiator.submissions import Submissions, Submitted
from fedflow.app.local_jobs.submission import refuse_other_storage, submit_local
from fedflow.app.ports.store import Store, Tx
from fedflow.base.errors.data import TableExists, TableNotFound
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.domain.data.table_names import checked_name, new_namespace
from fedflow.domain.records import TableRecord


class Transfers:
    """The use cases of `data/download` and `data/writer`."""

    def __init__(
        self,
        *,
        store: Store,
        submissions: Submissions,
        targets: AllowedFolders,
        own_party: str,
        writing: WritingTargets | None = None,
    ) -> None:
        """`writing` checks places of other storages; None: nothing is written there."""
        self._store = store
        self._submissions = submissions
        self._targets = targets
        self._own_party = own_party
        self._writing = writing

    def download(
        self, namespace: str, name: str, output_path: str, *, delimiter: str | None = None
    ) -> Submitted:
        """Start the job that writes a table as CSV; a relative path is below `downloads`.

        Raises: PlaceNotAllowed, TableNotFound, TableDisabled, BadRequest: the delimiter.
        """
        target = self._targets.new_file(output_path)
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()):
            raise BadRequest(reason="`delimiter` must be one ASCII character")
        with self._store.read() as tx:
            self._source(tx, namespace, name)
        parameters = {
            "namespace": namespace,
            "table_name": name,
            "output_path": str(target),
            "delimiter": delimiter or ",",
        }
        return submit_local(self._submissions, "Download", parameters)

    def write(
        self,
        namespace: str,
        name: str,
        *,
        output_namespace: str | None,
        output_name: str | None,
        storage_engine: str | None = None,
        address: Mapping[str, Any] | None = None,
        drop: bool = False,
    ) -> Submitted:
        """Start the job that makes a table with the rows of another one: here, or without a new
        name at the address of another storage.

        Raises: NotSupportedYet: that storage. MissingArgument. BadTableName. TableNotFound,
            TableDisabled, TableExists. Of another storage what `WritingTargets.checked` does.
        """
        engine = (storage_engine or "").upper()
        if output_name is None and engine in WRITABLE and self._writing is not None:
            return self._write_elsewhere(namespace, name, engine, address)
        refuse_other_storage(storage_engine, what="Writing to")
        if output_namespace is None or output_name is None:
            raise MissingArgument(names="output_namespace,output_name")
        target = new_namespace(output_namespace), checked_name("name", output_name)
        if target == (namespace, name):
            raise BadRequest(reason="the new table needs another name than the old one")
        with self._store.read() as tx:
            self._source(tx, namespace, name)
            if tx.tables.get(*target) is not None and not drop:
                raise TableExists(namespace=target[0], name=target[1])
        parameters = {
            "namespace": namespace,
            "table_name": name,
            "output_namespace": target[0],
            "output_name": target[1],
            "drop": int(drop),
        }
        return submit_local(self._submissions, "Writer", parameters, outputs=("data",))

    def _write_elsewhere(
        self, namespace: str, name: str, engine: str, address: Mapping[str, Any] | None
    ) -> Submitted:
        if address is None:
            raise MissingArgument(names="address")
        assert self._writing is not None  # noqa: S101  the caller looked
        self._writing.checked(engine, address)
        with self._store.read() as tx:
            self._source(tx, namespace, name)
        parameters = {
            "namespace": namespace,
            "table_name": name,
            "storage_engine": engine,
            "address": dict(address),
        }
        return submit_local(self._submissions, "Writer", parameters)

    def _source(self, tx: Tx, namespace: str, name: str) -> TableRecord:
        found = tx.tables.get(namespace, name)
        if found is None:
            raise TableNotFound(namespace=namespace, name=name, party_id=self._own_party)
        return enabled(found, party_id=self._own_party)
