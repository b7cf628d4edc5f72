"""This party's data sets, as the table routes ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.caches import drop_caches
from fedflow.app.data.table_use import (
    drop_kept,
    every_output_of,
    has_kept,
    make_way,
    remove_rows,
)
from fedflow.app.ports.data import Archives
from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.folders import Folders
from fedflow.base.clock import Clock
from fedflow.base.errors.data import FileNotAllowed, NoData, TableNotFound
from fedflow.base.errors.jobs import JobNotFound
from fedflow.domain.data.caches import CacheFilter
from fedflow.domain.records import JobFilter, JobRecord, TableRecord, TaskFilter
from fedflow.domain.site import Site

_MOST = 100_000  #: tables that one request disables
_MADE = ("output", "reader")  #: origins of tables that a job made for itself


class Tables:
    """Finds, packs, disables and drops tables."""

    def __init__(
        self,
        *,
        store: Store,
        folders: Folders,
        archives: Archives,
        sources: AllowedFolders,
        clock: Clock,
        own_party: str,
    ) -> None:
        """`sources` are the folders in which bound files must lie."""
        self._store = store
        self._folders = folders
        self._archives = archives
        self._sources = sources
        self._clock = clock
        self._own_party = own_party

    def get(self, namespace: str, name: str) -> TableRecord | None:
        """Return a table's description, None if there is no such table."""
        with self._store.read() as tx:
            return tx.tables.get(namespace, name)

    def of_job(self, job_id: str, site: Site) -> dict[str, dict[str, dict[str, object]]]:
        """Return component -> what it must read, and the tables it created.

        Raises: JobNotFound.
        """
        which = JobFilter(job_id=job_id, roles=(site.role,), party_id=site.party_id, limit=1)
        of_site = TaskFilter(job_id=job_id, roles=(site.role,), party_id=site.party_id)
        with self._store.read() as tx:
            found = tx.jobs.find(which)
            if not found:
                raise JobNotFound(job_id=job_id)
            outputs = tx.tracking.outputs(job_id, None, site)
            parameters = {t.key.component: t.parameters for t in tx.tasks.find(of_site)}
        answer = {
            name: {"input": _inputs(found[0], name, parameters), "output": {}}
            for name in found[0].dsl["components"]
        }
        for output in outputs:
            shown = {"name": output.name, "namespace": output.namespace}
            answer[output.key.component]["output"][output.data_name] = shown
        return answer

    def write_archive(self, namespace: str, name: str, target: IO[bytes], *, head: bool) -> None:
        """Write a table as tar.gz with `table.csv` and `table.meta`.

        Raises: NoData: there is no such table, or it has no rows. BadData: its file is damaged.
            FileNotAllowed: settings or links changed since it was bound.
        """
        found = self.get(namespace, name)
        if found is None:
            raise NoData(reason=f"there is no table {namespace}.{name}")
        if found.source is not None and str(self._sources.place(found.source)) != found.source:
            raise FileNotAllowed(path=found.source)  # a link was put into its way
        self._archives.write(
            target, {"table": found}, limit=-1, head=head, modified_ms=found.created_ms
        )

    # --- dropping -------------------------------------------------------------------------------

    def drop(self, namespace: str, name: str) -> TableRecord:
        """Forget a table and delete its rows; a bound file stays where it is.

        Jobs that have not ended and use it keep the rows until then. Raises: TableNotFound.
        """
        with self._store.transaction() as tx:
            table = tx.tables.get(namespace, name)
            if table is None:
                raise self._not_found(namespace, name)
            free = make_way(tx, table, now_ms=self._clock.now_ms())
        self._remove([table] if free else [])
        return table

    def drop_outputs(
        self, job_id: str, *, site: Site | None = None, component: str | None = None
    ) -> list[TableRecord]:
        """Forget the tables that a job made here in any attempt, those of its caches included, and
        return them.

        Tables that it only read stay, and so do outputs that another job took over. A job that has
        not ended keeps the rows until then. Raises: JobNotFound.
        """
        dropped: list[TableRecord] = []
        free: list[TableRecord] = []
        with self._store.transaction() as tx:
            sites = self._sites(tx, job_id, site)
            for output in every_output_of(tx, job_id, sites=sites, component=component):
                table = tx.tables.get(output.namespace, output.name)
                if table is None or not output.is_of(table) or table.origin not in _MADE:
                    continue
                if _is_shared(tx, table, job_id):
                    continue
                dropped.append(table)
                if make_way(tx, table, now_ms=self._clock.now_ms()):
                    free.append(table)
            for where in sites:
                which = CacheFilter(site=where, job_id=job_id, component=component)
                kept = drop_caches(tx, which)
                dropped += kept
                free += kept
        self._remove(free)
        return dropped

    def drop_kept(self) -> None:
        """Delete what was kept for jobs that have ended since."""
        with self._store.read() as tx:
            if not has_kept(tx):
                return
        with self._store.transaction() as tx:
            free = drop_kept(tx)
        self._remove(free)

    # --- disabling ------------------------------------------------------------------------------

    def set_disabled(
        self, namespace: str | None, name: str | None, *, disabled: bool
    ) -> list[TableRecord]:
        """Forbid or allow jobs to read a table, and return it; without one of the names, all tables
        that have the other.

        Raises: TableNotFound.
        """
        with self._store.transaction() as tx:
            if namespace is not None and name is not None:
                one = tx.tables.get(namespace, name)
                found = [] if one is None else [one]
            else:
                tables = tx.tables.find(namespace, limit=_MOST)
                found = [t for t in tables if name in (None, t.name)]
            for table in found:
                tx.tables.set_disabled(table.namespace, table.name, disabled=disabled)
        if not found:
            raise self._not_found(namespace or "*", name or "*")
        return found

    def drop_disabled(self) -> list[TableRecord]:
        """Drop the disabled tables, and return them."""
        with self._store.read() as tx:
            disabled = tx.tables.disabled()
        dropped: list[TableRecord] = []
        for table in disabled:
            with suppress(TableNotFound):  # somebody else was faster
                dropped.append(self.drop(table.namespace, table.name))
        return dropped

    def _sites(self, tx: Tx, job_id: str, site: Site | None) -> list[Site]:
        """Return the sites of a job here, or the one that is asked for. Raises: JobNotFound."""
        own = [job.key.site for job in tx.jobs.find(JobFilter(job_id=job_id))]
        wanted = [where for where in own if site in (None, where)]
        if not wanted:
            raise JobNotFound(job_id=job_id)
        return wanted

    def _not_found(self, namespace: str, name: str) -> TableNotFound:
        return TableNotFound(namespace=namespace, name=name, party_id=self._own_party)

    def _remove(self, tables: list[TableRecord]) -> None:
        for table in tables:
            remove_rows(self._folders, table)


def _is_shared(tx: Tx, table: TableRecord, job_id: str) -> bool:
    """Tell whether a table is also an output of another job, which took it over or read it."""
    uses = tx.tracking.uses_of_table(table.namespace, table.name)
    return any(use.key.job_id != job_id and use.is_of(table) for use in uses)


def _inputs(job: JobRecord, component: str, parameters: Mapping[str, Any]) -> dict[str, object]:
    """Return a reader's table parameter, for others the references of the DSL."""
    declared = job.dsl["components"][component]
    if str(declared.get("module")).lower() == "reader":
        given = parameters.get(component) or {}
        return {"table": given["table"]} if given.get("table") else {}
    data = (declared.get("input") or {}).get("data") or {}
    return {port: list(refs) for port, refs in data.items()}
