"""What Writers leave in other storages when they are killed, and how the next one removes it.

A Writer holds a lock on what it has begun: of a database one that goes with its connection, of this
machine's folders one that goes with its process. So what is not locked has no Writer any more. Some
locks reach one machine only (a database cluster, a shared file system): what is younger than a day
stays. Nothing is removed from buckets and from HDFS, which have no locks.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pymysql

from fedflow.base.clock import Clock, SystemClock

YOUNG_S: Final = 86_400  #: what was begun later is left alone, seconds
NEW_TABLE: Final = "_fedflow_new_"  #: before the id in the name of a table that is being written
NEW_FOLDER: Final = "._new-"  #: the same of a folder

_TABLE = re.compile(f"{NEW_TABLE}[0-9a-f]{{32}}")
_FOLDER = re.compile(rf"{re.escape(NEW_FOLDER)}[0-9a-f]{{32}}")

logger = logging.getLogger(__name__)


def hold_table(cursor: Any, name: str) -> None:
    """Lock a name that a table is to be made under, until the connection ends."""
    cursor.execute("SELECT GET_LOCK(%s, 0)", (name,))
    cursor.fetchall()


def sweep_tables(cursor: Any, db: str, *, young_s: int = YOUNG_S) -> list[str]:
    """Drop the tables that dead Writers left in a database; return their names.

    It is done before the connection holds a lock of its own: old servers give one at a time.
    """
    dropped: list[str] = []
    with suppress(pymysql.err.MySQLError):  # a right is missing: the Writer's own work counts
        cursor.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
            " AND LEFT(table_name, %s) = %s AND create_time < NOW() - INTERVAL %s SECOND",
            (db, len(NEW_TABLE), NEW_TABLE, young_s),
        )
        for name in [str(row[0]) for row in cursor.fetchall()]:
            if not _TABLE.fullmatch(name):
                continue
            cursor.execute("SELECT GET_LOCK(%s, 0)", (name,))
            if str(cursor.fetchall()[0][0]) == "1":
                cursor.execute(f"DROP TABLE IF EXISTS `{db.replace('`', '``')}`.`{name}`")
                dropped.append(name)
                cursor.execute("SELECT RELEASE_LOCK(%s)", (name,))
                cursor.fetchall()
    if dropped:
        logger.info("removed %d tables that killed writers had left", len(dropped))
    return dropped


@contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Lock a folder of this machine, where its file system has locks."""
    lock = _locked(folder)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def sweep_folders(parent: Path, *, young_s: int = YOUNG_S, clock: Clock | None = None) -> list[str]:
    """Delete the folders that dead Writers left in a folder; return their names."""
    oldest_ms = (clock or SystemClock()).now_ms() - 1000 * young_s
    deleted: list[str] = []
    with suppress(OSError):
        for name in os.listdir(parent):
            folder = parent / name
            if not _FOLDER.fullmatch(name) or 1000 * folder.stat().st_mtime > oldest_ms:
                continue
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                deleted.append(name)
                os.close(lock)
    if deleted:
        logger.info("removed %d folders that killed writers had left", len(deleted))
    return deleted


def _locked(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of a folder; None: another has it, or none can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
