"""This party's data sets, as the table routes ask for them."""

from __future__ import annotations

import shutil
from typing import Any

from fedflow.app.folders import Folders
from fedflow.app.ports import Store
from fedflow.base.errors import TableNotFound
from fedflow.domain.records import TableRecord
from fedflow.domain.site import Site


class Tables:
    """Finds and drops tables."""

    def __init__(self, *, store: Store, folders: Folders, own_party: str) -> None:
        self._store = store
        self._folders = folders
        self._own_party = own_party

    def get(self, namespace: str, name: str) -> TableRecord | None:
        """Return a table's description, None if there is no such table."""
        with self._store.read() as tx:
            return tx.tables.get(namespace, name)

    def drop(self, namespace: str, name: str) -> TableRecord:
        """Forget a table and delete its files. Raises: TableNotFound."""
        with self._store.transaction() as tx:
            dropped = tx.tables.drop(namespace, name)
        if dropped is None:
            raise TableNotFound(namespace=namespace, name=name, party_id=self._own_party)
        shutil.rmtree(self._folders.tables / dropped.address, ignore_errors=True)
        return dropped

    def of_job(self, job_id: str, site: Site) -> dict[str, Any]:
        """Return FATE's shape: component -> output name -> table name and namespace."""
        answer: dict[str, Any] = {}
        with self._store.read() as tx:
            for output in tx.tracking.outputs(job_id, None, site):
                entry = answer.setdefault(output.key.component, {"input": {}, "output": {}})
                entry["output"][output.data_name] = {
                    "name": output.name,
                    "namespace": output.namespace,
                }
        return answer
