"""Opens stores."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from fedflow.base.errors.store import StoreUnavailable
from fedflow.store.sql.store import SqlStore
from fedflow.store.sqlite import SqliteFile


def open_sqlite(path: Path, *, synchronous: str = "NORMAL") -> SqlStore:
    """Return the store in a file, made if it does not exist (its folder must).

    With `synchronous` NORMAL a power failure may lose the last commits, the end of a process never;
    FULL loses none. Raises: StoreUnavailable, SchemaTooNew.
    """
    return SqlStore(SqliteFile(path, synchronous=synchronous))


def open_mysql(
    *, host: str, port: int, user: str, password: str, database: str,
    max_connections: int = 32, stale_timeout_s: int = 30,
) -> SqlStore:  # fmt: skip
    """Return the store in a MySQL or MariaDB database, made if it does not exist and the user may.

    A connection is given up when it is older than `stale_timeout_s`; every one is tried before use.
    Raises: StoreUnavailable, SchemaTooNew.
    """
    from fedflow.store.mysql import MySqlServer  # its driver takes memory

    return SqlStore(
        MySqlServer(
            host=host,
            port=port,
            user=user,
            password=password,
            database=database,
            max_connections=max_connections,
            stale_timeout_s=stale_timeout_s,
        )
    )


def open_store(url: str) -> SqlStore:
    """Return the store that `sqlite:///path` or `mysql://user:password@host:port/database` names.

    Raises: StoreUnavailable: it cannot be used, or the URL is of no such form.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        return open_sqlite(Path(unquote(parts.path)))
    if parts.scheme == "mysql" and parts.hostname and len(parts.path) > 1:
        return open_mysql(
            host=parts.hostname,
            port=parts.port or 3306,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            database=unquote(parts.path[1:]),
        )
    raise StoreUnavailable(
        reason="the URL must be sqlite:///PATH or mysql://USER:PASSWORD@HOST:PORT/DATABASE"
    )
