"""Who uses a table: what may be read, what running jobs hold, and when its files may go.

Jobs name a table by what their tasks read (`Reader`'s parameter) and by what they produced, which
for a reader is the table itself. A table that is dropped or replaced while jobs use it is kept for
them under another name until they have ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from fedflow.app.data import row_folders
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import TableDisabled, TableNotFound
from fedflow.domain.data.storages import hidden_connector, is_bound
from fedflow.domain.data.table_names import REPLACED
from fedflow.domain.data.table_parts import is_own, parts_uri
from fedflow.domain.records import JobFilter, OutputTable, TableRecord, TaskFilter, TaskRecord
from fedflow.domain.site import Site

STANDALONE: Final = "STANDALONE"  #: the engine of tables below the server's own folder
_READER: Final = "reader"
_TRANSFERS: Final = ("writer", "download")  #: modules whose parameters name a table that they read


def readable(tx: Tx, site: Site, table: Mapping[str, Any], *, path: str) -> TableRecord:
    """Return the table that a reader's parameter names at a site.

    Raises: TableNotFound, TableDisabled. BadParameter: it names none.
    """
    if table.get("job_id") is not None:
        found = output_of(
            tx, site, str(table["job_id"]), str(table.get("component_name")),
            str(table.get("data_name")),
        )  # fmt: skip
        names = f"job {table['job_id']}", f"{table.get('component_name')}.{table.get('data_name')}"
    elif table.get("name") is not None and table.get("namespace") is not None:
        names = str(table["namespace"]), str(table["name"])
        found = tx.tables.get(*names)
    else:
        raise BadParameter(path=path, reason="it needs name and namespace, or an earlier output")
    if found is None:
        raise TableNotFound(namespace=names[0], name=names[1], party_id=site.party_id)
    return enabled(found, party_id=site.party_id)


def enabled(table: TableRecord, *, party_id: str) -> TableRecord:
    """Return the table itself. Raises: TableDisabled."""
    if table.disabled:
        raise TableDisabled(namespace=table.namespace, name=table.name, party_id=party_id)
    return table


def output_of(
    tx: Tx, site: Site, job_id: str, component: str, data_name: str
) -> TableRecord | None:
    """Return an output of an earlier job: of the same site, else of another role of its party."""
    own = [j.key.site for j in tx.jobs.find(JobFilter(job_id=job_id, party_id=site.party_id))]
    for where in sorted(own, key=lambda s: s != site):
        for output in tx.tracking.outputs(job_id, component, where):
            if output.data_name == data_name:
                return tx.tables.get(output.namespace, output.name)
    return None


def every_output_of(
    tx: Tx, job_id: str, *, sites: Collection[Site], component: str | None
) -> list[OutputTable]:
    """Return what a job, or one component of it, gave out at some sites, in all attempts."""
    return [
        output
        for output in tx.tracking.every_output(job_id)
        if output.key.site in sites and component in (None, output.key.component)
    ]


def uses(tx: Tx, namespace: str, name: str, *, address: str | None = None) -> list[OutputTable]:
    """Return the outputs that a table was, of the tasks that made or read it, as written: with the
    rows at `address`, else with those that it has now, or had last if it is gone.
    """
    found = tx.tracking.uses_of_table(namespace, name)
    if address is None:
        table = tx.tables.get(namespace, name)
        known = [use.address for use in found]
        address = table.address if table is not None else (known or [""])[-1]
    return [use for use in found if use.address in ("", address)]


def users(tx: Tx, namespace: str, name: str) -> list[str]:
    """Return the jobs that have not ended here and read a table, or produced it."""
    wanted = (namespace, name)
    found: list[str] = []
    for job in tx.jobs.open_jobs():
        job_id, site = job.key.job_id, job.key.site
        made = any((o.namespace, o.name) == wanted for o in tx.tracking.outputs(job_id, None, site))
        if job_id not in found and (made or wanted in read_tables(tx, job_id, site)):
            found.append(job_id)
    return found


def read_tables(tx: Tx, job_id: str, site: Site) -> list[tuple[str, str]]:
    """Return namespace and name of the tables that the tasks of a job name at a site."""
    which = TaskFilter(job_id=job_id, roles=(site.role,), party_id=site.party_id)
    found = (named_table(task) for task in tx.tasks.find(which))
    return [table for table in found if table is not None]


def named_table(task: TaskRecord) -> tuple[str, str] | None:
    """Return namespace and name of the table that a task's parameters tell it to read, if any."""
    module, parameters = task.module.lower(), task.parameters
    if module in _TRANSFERS:
        return str(parameters.get("namespace")), str(parameters.get("table_name"))
    table = parameters.get("table") if module == _READER else None
    if isinstance(table, dict) and "namespace" in table and "name" in table:
        return str(table["namespace"]), str(table["name"])
    return None


def make_way(tx: Tx, table: TableRecord, *, now_ms: int, but: str | None = None) -> bool:
    """Forget a table, or keep it for the jobs that use it; job `but` is the one that replaces it.

    A bound table is never kept: jobs have rows of their own, or find it no more. Tells whether
    nobody needs its files any more.
    """
    tx.tables.drop(table.namespace, table.name)
    using = [j for j in users(tx, table.namespace, table.name) if j != but]
    if not using or is_bound(table.engine, table.storage):
        _forget_secrets(tx, table)
        return is_free(tx, table)
    kept = replace(table, namespace=REPLACED, name=table.address, created_ms=now_ms)
    if tx.tables.get(kept.namespace, kept.name) is None:
        tx.tables.put(kept)
    for job_id in using:
        tx.tracking.move_table(
            job_id, old=(table.namespace, table.name), new=(kept.namespace, kept.name)
        )
    return False


def stored(tx: Tx, table: TableRecord) -> TableRecord:
    """Return a table that a task reports as its output, as it is known; store it if it is new.

    What a reader read may have been dropped or replaced meanwhile: it is kept for the reader's job.
    """
    known = tx.tables.get(table.namespace, table.name)
    if known is not None and known.address == table.address:
        return known
    kept = tx.tables.get(REPLACED, table.address)
    if kept is not None:
        return kept
    if known is None:
        tx.tables.put(table)
    return known or table


def has_kept(tx: Tx) -> bool:
    """Tell whether any table is kept for jobs."""
    return bool(tx.tables.find(REPLACED, limit=1))


def drop_kept(tx: Tx) -> list[TableRecord]:
    """Forget tables that were kept for jobs, once no job is left that had begun before; return
    those whose files may go.
    """
    kept = tx.tables.find(REPLACED)
    if not kept:
        return []
    oldest_ms = tx.queue.began_ms()
    free: list[TableRecord] = []
    for table in kept:
        if oldest_ms is None or oldest_ms > table.created_ms:
            tx.tables.drop(table.namespace, table.name)
            _forget_secrets(tx, table)
            if is_free(tx, table):
                free.append(table)
    return free


def _forget_secrets(tx: Tx, table: TableRecord) -> None:
    """Forget the credentials of a bound table, once it has no second name either."""
    if table.storage is not None and not tx.tables.at_address(table.address):
        tx.connectors.drop(hidden_connector(table.address))


def is_free(tx: Tx, table: TableRecord) -> bool:
    """Tell whether no table is left whose rows lie where those of a forgotten one do."""
    return is_own(table.engine, table.storage) and not tx.tables.at_address(table.address)


def remove_rows(folders: Folders, table: TableRecord) -> None:
    """Delete the rows of a forgotten table; a bound file stays where it is."""
    if is_own(table.engine, table.storage):
        row_folders.remove_rows(folders.tables, table.address, parts_uri(table.storage))
