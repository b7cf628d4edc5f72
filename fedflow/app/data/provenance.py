"""Where a table comes from, and which jobs made or read it: from what tasks recorded, no log apart.

A task's output names the table; the job's DSL and the task's parameters name what it was made of.
"""

from __future__ import annotations

from fedflow.app.data.table_use import named_table, output_of, uses
from fedflow.app.ports.store import Store, Tx
from fedflow.base.errors.data import TableNotTracked
from fedflow.base.values import dataclass
from fedflow.domain.records import JobKey, OutputTable, TaskFilter, TaskKey, TaskRecord

Name = tuple[str, str]  #: namespace and name of a table
_MAX_DEPTH = 1000  #: tasks between a table and its sources


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceTable:
    """A table that another one was made of, and a first table at the beginning of that way."""

    parent: Name
    source: Name


@dataclass(frozen=True, kw_only=True, slots=True)
class _Version:
    """A table with certain rows; `address` None: those that it has now, or had last."""

    name: Name
    address: str | None = None


class Provenance:
    """Answers for the tables of this party.

    A name may have had other tables before: what was dropped or replaced says nothing about the
    rows that it has now. Only `jobs` asks for the name.
    """

    def __init__(self, *, store: Store) -> None:
        self._store = store

    def sources(self, namespace: str, name: str) -> list[SourceTable]:
        """Return what a table was made of; empty for one that came from outside and was not read.

        A reader's output is the table that it reads. In FATE it is a copy, whose parent clients ask
        for; so a table that came from outside is its own parent once a reader has read it.

        Raises: TableNotTracked: no job here made or read it.
        """
        with self._store.read() as tx:
            table = _Version(name=(namespace, name))
            found = _uses(tx, table)
            if not found:
                raise TableNotTracked(namespace=namespace, name=name)
            parents = _parents(tx, table)
            if not parents and any(table in _inputs_of(tx, use) for use in found):
                parents = [table]
            return [
                SourceTable(parent=parent.name, source=source)
                for parent in parents
                for source in _first(tx, parent)
            ]

    def maker(self, namespace: str, name: str) -> OutputTable | None:
        """Return the first output that the table of this name was, of the task that made it; None
        if no task of this server did, or nothing is known of it any more.
        """
        with self._store.read() as tx:
            for use in _uses(tx, _Version(name=(namespace, name))):
                inputs = [one.name for one in _inputs_of(tx, use)]
                if _task(tx, use.key) and (namespace, name) not in inputs:
                    return use
        return None

    def jobs(self, namespace: str, name: str) -> list[str]:
        """Return the jobs that made or read any table of a name, in order.

        Raises: TableNotTracked.
        """
        with self._store.read() as tx:
            found = tx.tracking.uses_of_table(namespace, name)
        if not found:
            raise TableNotTracked(namespace=namespace, name=name)
        return list(dict.fromkeys(use.key.job_id for use in found))


def _uses(tx: Tx, table: _Version) -> list[OutputTable]:
    return uses(tx, *table.name, address=table.address)


def _first(tx: Tx, table: _Version) -> list[Name]:
    """Return the tables without parents that a table comes from, itself if it has none."""
    found: dict[Name, None] = {}
    waiting, seen = [table], {table}
    while waiting and len(seen) < _MAX_DEPTH:
        one = waiting.pop()
        parents = [p for p in _parents(tx, one) if p not in seen]
        if not parents:
            found[one.name] = None
        seen.update(parents)
        waiting += parents
    return list(found)


def _parents(tx: Tx, table: _Version) -> list[_Version]:
    """Return the tables that a table was made of, none if it was only read, uploaded or bound."""
    for use in _uses(tx, table):
        found = [parent for parent in _inputs_of(tx, use) if parent.name != table.name]
        if found:
            return list(dict.fromkeys(found))
    return []


def _inputs_of(tx: Tx, made: OutputTable) -> list[_Version]:
    """Return the tables that went into the task which has an output."""
    key = made.key
    job = tx.jobs.get(JobKey(job_id=key.job_id, site=key.site))
    task = _task(tx, key)
    if job is None or task is None:
        return []
    named = named_table(task)
    if named is not None:
        return [_Version(name=named)]
    earlier = task.parameters.get("table")
    if isinstance(earlier, dict) and earlier.get("job_id") is not None:
        named_by_job = (str(earlier.get(n)) for n in ("job_id", "component_name", "data_name"))
        record = output_of(tx, key.site, *named_by_job)
        return [] if record is None else [_Version(name=(record.namespace, record.name))]
    declared = job.dsl["components"].get(key.component) or {}
    found: list[_Version] = []
    for refs in ((declared.get("input") or {}).get("data") or {}).values():
        for ref in refs:
            component, _, data_name = str(ref).partition(".")
            for output in tx.tracking.outputs(key.job_id, component, key.site):
                if output.data_name == data_name:
                    name = (output.namespace, output.name)
                    found.append(_Version(name=name, address=output.address or None))
    return found


def _task(tx: Tx, key: TaskKey) -> TaskRecord | None:
    which = TaskFilter(
        job_id=key.job_id, component=key.component, roles=(key.site.role,),
        party_id=key.site.party_id,
    )  # fmt: skip
    found = tx.tasks.find(which)
    return found[-1] if found else None
