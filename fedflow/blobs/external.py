"""External stores of model archives, which servers may share: a folder, or a MySQL table."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Final

import pymysql

from fedflow.base.errors.models import ModelStoreUnavailable
from fedflow.base.values import dataclass

SLICE_BYTES: Final = 4 * 1024 * 1024  #: of an archive in one row; a statement takes 16 MiB
_NEW: Final = "new-"  #: an archive that is being written
_DATABASE: Final = re.compile(r"[0-9A-Za-z_$]{1,64}")
_TABLE: Final = """\
CREATE TABLE IF NOT EXISTS t_fedflow_model_archive (
  f_party_model_id VARCHAR(600) NOT NULL,
  f_model_version VARCHAR(64) NOT NULL,
  f_slice_index INTEGER NOT NULL,
  f_sha256 VARCHAR(64) NOT NULL,
  f_content LONGBLOB NOT NULL,
  PRIMARY KEY (f_party_model_id, f_model_version, f_slice_index)
) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""
_IS: Final = "f_party_model_id = %s AND f_model_version = %s"


class FolderModels:
    """See `app.ports.models.ExternalModels`: a folder, for example on a shared disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(
        self, party_model_id: str, model_version: str, source: IO[bytes], *, sha256: str
    ) -> None:
        with _told_as_unavailable(str(self._folder)):
            path = self._path(party_model_id, model_version)
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=_NEW, dir=path.parent)
            try:
                with os.fdopen(descriptor, "wb") as target:
                    shutil.copyfileobj(source, target, SLICE_BYTES)
                    target.flush()
                    os.fsync(target.fileno())
                os.replace(name, path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def digest(self, party_model_id: str, model_version: str) -> str | None:
        path = self._path(party_model_id, model_version)
        with _told_as_unavailable(str(self._folder)):
            if not path.is_file():
                return None
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()

    def get(self, party_model_id: str, model_version: str, target: IO[bytes]) -> bool:
        path = self._path(party_model_id, model_version)
        with _told_as_unavailable(str(self._folder)):
            if not path.is_file():
                return False
            with path.open("rb") as source:
                shutil.copyfileobj(source, target, SLICE_BYTES)
        return True

    def sweep(self, *, older_than_ms: int) -> int:
        gone = 0
        with _told_as_unavailable(str(self._folder)):
            for path in self._folder.glob(f"[0-9a-f][0-9a-f]/{_NEW}*"):
                if path.stat().st_mtime * 1000 < older_than_ms:
                    path.unlink(missing_ok=True)
                    gone += 1
        return gone

    def _path(self, party_model_id: str, model_version: str) -> Path:
        """Return a place whose name no request can choose."""
        name = hashlib.sha256(f"{party_model_id}\n{model_version}".encode()).hexdigest()
        return self._folder / name[:2] / f"{name}.zip"


@dataclass(frozen=True, kw_only=True)
class MySqlAddress:
    """A MySQL server, and a database on it that is made if the user may."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    timeout_s: int = 30

    @property
    def where(self) -> str:
        return f"MySQL {self.host}:{self.port}/{self.database}"


class MySqlModels:
    """See `app.ports.models.ExternalModels`: archives in slices, in a table of its own.

    FATE's tables hold pickled slices, which are never read here.
    """

    def __init__(self, address: MySqlAddress) -> None:
        """Raises: ModelStoreUnavailable: the database has no proper name."""
        if not _DATABASE.fullmatch(address.database):
            raise ModelStoreUnavailable(reason=f"{address.database[:80]!r} is no database name")
        self._address = address

    def put(
        self, party_model_id: str, model_version: str, source: IO[bytes], *, sha256: str
    ) -> None:
        key = (party_model_id, model_version)
        with self._cursor() as cursor:
            cursor.execute(f"DELETE FROM t_fedflow_model_archive WHERE {_IS}", key)  # noqa: S608
            index = 0
            while content := source.read(SLICE_BYTES):
                cursor.execute(
                    "INSERT INTO t_fedflow_model_archive VALUES (%s, %s, %s, %s, %s)",
                    (*key, index, sha256, content),
                )
                index += 1

    def digest(self, party_model_id: str, model_version: str) -> str | None:
        query = f"SELECT f_sha256 FROM t_fedflow_model_archive WHERE {_IS} LIMIT 1"  # noqa: S608
        with self._cursor() as cursor:
            cursor.execute(query, (party_model_id, model_version))
            found = cursor.fetchone()
        return None if found is None else str(found[0])

    def get(self, party_model_id: str, model_version: str, target: IO[bytes]) -> bool:
        query = (
            f"SELECT f_content FROM t_fedflow_model_archive WHERE {_IS} "  # noqa: S608
            "AND f_slice_index = %s"
        )
        index = 0
        with self._cursor() as cursor:  # one transaction: all slices are of one archive
            while True:
                cursor.execute(query, (party_model_id, model_version, index))
                found = cursor.fetchone()
                if found is None:
                    return index > 0
                target.write(found[0])
                index += 1

    def sweep(self, *, older_than_ms: int) -> int:
        return 0  # a transaction replaces all slices of an archive

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Return a cursor in a transaction. Raises: ModelStoreUnavailable."""
        address = self._address
        try:
            connection = pymysql.connect(
                host=address.host,
                port=address.port,
                user=address.user,
                password=address.password,
                charset="utf8mb4",
                connect_timeout=address.timeout_s,
                read_timeout=address.timeout_s,
                write_timeout=address.timeout_s,
            )
            with connection, connection.cursor() as cursor:
                with _no_notes(cursor):
                    cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{address.database}`")
                    cursor.execute(f"USE `{address.database}`")
                    cursor.execute(_TABLE)
                yield cursor
                connection.commit()
        except pymysql.err.MySQLError as exc:
            # the driver's text may have the password in it
            code = exc.args[0] if exc.args else type(exc).__name__
            reason = f"{address.where} (error {code})"
            raise ModelStoreUnavailable(reason=reason) from exc


@contextmanager
def _no_notes(cursor: Any) -> Iterator[None]:
    """Keep "exists already" from becoming a warning."""
    cursor.execute("SET sql_notes = 0")
    yield
    cursor.execute("SET sql_notes = 1")


@contextmanager
def _told_as_unavailable(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise ModelStoreUnavailable(reason=f"{where}: {exc.strerror}") from exc
