"""Writes the rows of a table to another storage: all of them, or nothing that a reader would find.

| storage | how it becomes whole at once |
|---|---|
| MySQL, MariaDB | rows go into a table of another name, which gets its own name at the end |
| data set, this machine or HDFS | files go into a folder `._new-<id>` beside, renamed at the end |
| data set in a bucket | one object below `_new-<id>/`, copied by the server at the end |

What is there already is never replaced. A writer that is killed leaves the name with the id, which
readers do not take for data, until `orphans.py` removes it. Numbers keep their types; CSV is as
a download.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pymysql
from pyarrow import fs, ipc

from fedflow.base.errors.data import BadData, TableExists
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.base.ids import new_request_id
from fedflow.domain.data.storages import Connection, HdfsFiles, LocalFiles, MysqlRows, S3Files
from fedflow.sdk.table import Table
from fedflow.tables.export import write_csv
from fedflow.tables.file_errors import told
from fedflow.tables.filesystems import OpenPath
from fedflow.tables.storages.mysql import LOCK_S, connect, disconnect, quoted, said
from fedflow.tables.storages.opening import place_of
from fedflow.tables.storages.orphans import (
    NEW_FOLDER,
    NEW_TABLE,
    held_folder,
    hold_table,
    sweep_folders,
    sweep_tables,
)
from fedflow.tables.writer import on_disk

ID_LENGTH: Final = 255  #: characters of an id in a table of MySQL, which is its primary key
COLUMN_LIMIT: Final = 1000  #: of a table of MySQL (InnoDB has 1,017)
COPY_BYTES: Final = 5 << 30  #: largest object that a bucket copies by itself

Watch = Callable[[float], None]


def write_rows(table: Table, connection: Connection, *, where: str, watch: Watch) -> int:
    """Write a table to a new place and return its number of rows; `watch` gets the part done.

    Raises: TableExists: something is there. StorageMissing: the database or bucket is not.
    StorageRefused, StorageUnreachable, DiskFull. BadData: the rows do not fit there.
    NotSupportedYet: the storage, or a query or glob instead of a name.
    """
    match connection.address:
        case MysqlRows(name=name) if name is not None:
            return _to_mysql(table, connection.address, connection, where=where, watch=watch)
        case LocalFiles(path=path) | S3Files(path=path) | HdfsFiles(path=path):
            if not path.strip("/") or "*" in path or "?" in path:
                raise NotSupportedYet(what="Writing to a glob, or to a whole bucket")
            form = connection.address.format or "parquet"
            return _to_files(table, place_of(connection), form, where=where, watch=watch)
    raise NotSupportedYet(what=f"Writing to a query, or to {connection.address.engine}")


# --- MySQL ----------------------------------------------------------------------------------------


def _to_mysql(
    table: Table, address: MysqlRows, connection: Connection, *, where: str, watch: Watch
) -> int:
    names = table.schema.names
    if len(names) > COLUMN_LIMIT:
        raise BadData(where=where, reason=f"a table there has at most {COLUMN_LIMIT} columns")
    server = connect(address, connection.secrets, connection.limits, where=where)
    made = f"{NEW_TABLE}{new_request_id()}"
    try:
        with said(where, alone=False), server.cursor() as cursor:
            cursor.execute(
                f"SET SESSION sql_mode = 'STRICT_ALL_TABLES', lock_wait_timeout = {LOCK_S}"
            )
            cursor.execute(
                "SELECT 1 FROM information_schema.tables WHERE table_schema = %s"
                " AND table_name = %s",
                (address.db, address.name),
            )
            if cursor.fetchall():
                raise TableExists(namespace=address.db, name=address.name)
            sweep_tables(cursor, address.db)
            hold_table(cursor, made)
            columns = [
                f"{quoted(names[0])} VARCHAR({ID_LENGTH}) PRIMARY KEY",
                *(_column(field) for field in list(table.head(0).schema)[1:]),
            ]
            cursor.execute(
                f"CREATE TABLE {quoted(made)} ({', '.join(columns)})"
                " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
            )
            try:
                count = _insert(server, cursor, table, made, watch)
                cursor.execute(f"RENAME TABLE {quoted(made)} TO {quoted(address.name or '')}")
            except BaseException:
                with suppress(pymysql.err.MySQLError):  # a lost connection cannot
                    server.rollback()
                    cursor.execute(f"DROP TABLE IF EXISTS {quoted(made)}")
                raise
        return count
    finally:
        disconnect(server)


def _insert(server: Any, cursor: Any, table: Table, made: str, watch: Watch) -> int:
    marks = ", ".join(["%s"] * len(table.schema.names))
    statement = f"INSERT INTO {quoted(made)} VALUES ({marks})"  # noqa: S608  quoted
    count = 0
    cursor.execute("START TRANSACTION")
    for batch in table.to_batches():
        columns = [[_value(v) for v in column.to_pylist()] for column in batch.columns]
        cursor.executemany(statement, list(zip(*columns, strict=True)))
        count += batch.num_rows
        watch(count / max(1, table.count))
    server.commit()
    return count


def _column(field: pa.Field) -> str:
    types, kind = pa.types, field.type
    if types.is_floating(kind):
        sql = "DOUBLE"
    elif types.is_boolean(kind) or types.is_integer(kind):
        sql = "BIGINT UNSIGNED" if kind == pa.uint64() else "BIGINT"
    else:
        sql = "LONGTEXT"
    return f"{quoted(field.name)} {sql}"


def _value(value: Any) -> Any:
    """Return a cell as the driver takes it: NaN is NULL, what is no number or text is text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, int | float | str) else str(value)


# --- data sets ------------------------------------------------------------------------------------


def _to_files(table: Table, place: OpenPath, form: str, *, where: str, watch: Watch) -> int:
    name = f"part-0.{form}"
    files, path = place.files, place.path.rstrip("/")
    with told(where):
        if files.get_file_info(path).type != fs.FileType.NotFound:
            raise TableExists(namespace=place.engine, name=path.rpartition("/")[2])
    if isinstance(files, fs.S3FileSystem):
        return _to_bucket(table, files, path, name, where=where, watch=watch)
    parent = path.rpartition("/")[0] or "/"
    new = f"{parent.rstrip('/')}/{NEW_FOLDER}{new_request_id()}"
    is_here = isinstance(files, fs.LocalFileSystem)
    with told(where, found="there is no folder to write to"):
        if files.get_file_info(parent).type != fs.FileType.Directory:
            raise FileNotFoundError(parent)
        if is_here:
            sweep_folders(Path(parent))
        files.create_dir(new, recursive=False)
        held = held_folder(Path(new)) if is_here else nullcontext()
        with held, _removed_if_it_fails(files, new), on_disk(Path(parent)):
            count = _write(table, files, f"{new}/{name}", form, watch)
            files.move(new, path)
    return count


def _to_bucket(table: Table, files: Any, path: str, name: str, *, where: str, watch: Watch) -> int:
    new = f"{path}/_new-{new_request_id()}"
    with told(where), _removed_if_it_fails(files, new):
        count = _write(table, files, f"{new}/{name}", form=name.rpartition(".")[2], watch=watch)
        if files.get_file_info(f"{new}/{name}").size > COPY_BYTES:
            raise BadData(where=where, reason="its rows are more than one object of 5 GiB")
        files.copy_file(f"{new}/{name}", f"{path}/{name}")
        files.delete_dir(new)
    return count


def _write(table: Table, files: Any, path: str, form: str, watch: Watch) -> int:
    with files.open_output_stream(path) as sink:
        if form == "csv":
            return write_csv(table, sink)
        count = 0
        with _batch_writer(sink, table.head(0).schema, form) as writer:
            for batch in table.to_batches():
                writer.write_batch(batch)
                count += batch.num_rows
                watch(count / max(1, table.count))
        return count


def _batch_writer(sink: Any, schema: pa.Schema, form: str) -> Any:
    if form == "arrow":
        return ipc.new_file(sink, schema)
    from pyarrow import parquet  # not loaded with the components

    return parquet.ParquetWriter(sink, schema)


@contextmanager
def _removed_if_it_fails(files: Any, folder: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            files.delete_dir(folder)
        raise
