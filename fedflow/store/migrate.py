"""Brings a database to the newest schema, under a lock, and refuses one that is newer still."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fedflow.base.clock import Clock
from fedflow.base.errors import SchemaTooNew
from fedflow.store.migrations.steps import STEPS, Step
from fedflow.store.schema import TIME, Schema, text

logger = logging.getLogger(__name__)

_TABLE = "t_schema_version"


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
        columns = {"f_version": "INTEGER NOT NULL", "f_name": text(100), "f_apply_time": TIME}
        schema.table(_TABLE, columns, key=("f_version",))
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
    if not schema.columns(_TABLE):
        return 0
    return int(schema.run("SELECT COALESCE(MAX(f_version), 0) FROM t_schema_version", ())[0][0])
