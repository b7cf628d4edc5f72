"""The memory of one server: jobs, tasks, schedules, outbox, leases, tracking, tables.

Here belongs everything that knows SQL, peewee or a database driver; nothing else in fedflow does.
What goes in and comes out are the frozen values of `domain.records`; the contract is
`app.ports.store.Store`. `connect.py` opens a store, `sql` and `memory` are its two implementations.
No rule about when a job may move stands here: the store asks `domain.states`, and writes by
compare-and-set.

peewee imports each database driver that is installed. PyMySQL brings `cryptography` with it: 10 MiB
and 0.1 s for a server that has a SQLite file. So drivers are hidden while peewee is imported here,
before any module of this package; `mysql.py` names its own.
"""

from __future__ import annotations

import sys
from typing import Final

_DRIVERS: Final = ("pymysql", "MySQLdb", "psycopg2", "psycopg2cffi", "psycopg")


def _import_peewee() -> None:
    hidden = [name for name in _DRIVERS if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
    try:
        import peewee  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


_import_peewee()
