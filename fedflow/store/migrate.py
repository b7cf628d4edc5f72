"""Brings a database to the newest schema, under a lock, and refuses one that is newer still."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fedflow.base.clock import Clock
from fedflow.base.errors.store import SchemaTooNew
from fedflow.store.job_tables import JOB, SCHEDULED_PARTY_TASK, TASK
from fedflow.store.schema import Schema
from fedflow.store.tables import RENDEZVOUS, SCHEMA_VERSION, TABLES

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One change of the schema; the schema's version is the number of the last step done.

    `up` may be run on a database that has the change already: a new one has all of it from the
    first step on.
    """

    number: int
    name: str
    up: Callable[[Schema], None]


def _all_tables(schema: Schema) -> None:
    for table in TABLES:
        schema.table(table)


def _elastic(schema: Schema) -> None:
    schema.table(RENDEZVOUS)
    for table in (TASK, SCHEDULED_PARTY_TASK):
        schema.add_column(table.name, "f_launch", table.columns["f_launch"])


def _names(schema: Schema) -> None:
    for column in ("f_name", "f_figures"):
        schema.add_column(JOB.name, column, JOB.columns[column])
    schema.add_index(JOB.name, "f_name, f_job_id")


def _ledger(schema: Schema) -> None:
    schema.add_column(TASK.name, "f_ledger", TASK.columns["f_ledger"])


#: a released schema changes by a further step only, beside the change of the declaration
STEPS: Final[tuple[Step, ...]] = (
    Step(number=1, name="tables", up=_all_tables),
    Step(number=2, name="elastic", up=_elastic),
    Step(number=3, name="names and figures of jobs", up=_names),
    Step(number=4, name="ledgers of tasks", up=_ledger),
)


def migrate(schema: Schema, clock: Clock, *, steps: Sequence[Step] = STEPS) -> int:
    """Do the steps that the database has not seen; return its version.

    Raises: SchemaTooNew: a newer fedflow made it. StoreUnavailable: another server holds the lock.
    """
    newest = steps[-1].number
    if _version(schema) == newest:
        return newest
    with schema.exclusively():
        found = _version(schema)
        if found > newest:
            raise SchemaTooNew(found=found, known=newest)
        schema.table(SCHEMA_VERSION)
        for step in steps:
            if step.number > found:
                step.up(schema)
                schema.run(
                    "INSERT INTO t_schema_version (f_version, f_name, f_apply_time) "
                    "VALUES (?, ?, ?)",
                    (step.number, step.name, clock.now_ms()),
                )
                logger.info("The store has schema %d (%s) now", step.number, step.name)
    return newest


def _version(schema: Schema) -> int:
    """Return the number of the last step done, 0 for an empty database."""
    if not schema.columns(SCHEMA_VERSION.name):
        return 0
    return int(schema.run("SELECT COALESCE(MAX(f_version), 0) FROM t_schema_version", ())[0][0])
