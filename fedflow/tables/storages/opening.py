"""Opens the rows that a connection names, whatever storage they lie in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from fedflow.base.errors.data import BadData, BoundTableChanged, StorageUnreachable
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.domain.data.storages import (
    Connection,
    HdfsFiles,
    HiveRows,
    LocalFiles,
    MysqlRows,
    PathFile,
    S3Files,
)
from fedflow.sdk.table import TableSchema
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.filesystems import (
    FilesystemAccess,
    OpenPath,
    hdfs_place,
    object_place,
    open_place,
)
from fedflow.tables.input_files import local_file
from fedflow.tables.row_source import RowSource
from fedflow.tables.sources import open_source
from fedflow.tables.storages.data_sets import DataSetSource, changes
from fedflow.tables.storages.mysql import MysqlSource


def open_rows(
    connection: Connection,
    options: CsvOptions,
    *,
    where: str,
    bound: TableSchema | None = None,
) -> RowSource:
    """Return the open rows of a bound table; the connection says which columns are read.

    `where` is what messages call it. `bound` is the schema that was bound (None: it is being
    bound); it must be that of the rows.

    Raises: BoundTableChanged: the columns are not those of `bound`. StorageMissing,
    StorageRefused, StorageUnreachable. BadData: the rows or the query cannot be read, or a column
    that was chosen is not there. NotSupportedYet: the storage.
    """
    chosen = replace(options, id_column=connection.id_column, columns=connection.feature_columns)
    try:
        source = _opened(connection, chosen, where)
    except BadData as exc:
        if bound is not None and exc.fields.get("missing"):
            reason = str(exc.fields["reason"])
            raise BoundTableChanged(where=where, reason=reason) from exc
        raise
    if bound is not None and source.schema != bound:
        source.__exit__(None, None, None)
        reason = f"of its columns {changes(bound.names, source.schema.names)}"
        raise BoundTableChanged(where=where, reason=reason)
    return source


def _opened(connection: Connection, options: CsvOptions, where: str) -> RowSource:
    match connection.address:
        case PathFile(path=path):
            file = replace(local_file(Path(path), roots=connection.roots), where=where)
            return open_source(file, options)
        case LocalFiles() | S3Files() | HdfsFiles() as address:
            try:
                place = place_of(connection)
            except StorageUnreachable as exc:  # it names the host, which other parties would see
                raise StorageUnreachable(where=where, reason=exc.fields["reason"]) from exc
            return DataSetSource(
                place,
                options,
                where=where,
                form=address.format,
                roots=connection.roots,
            )
        case MysqlRows():
            return MysqlSource(connection, options, where=where)
        case HiveRows():
            raise NotSupportedYet(what="Reading Hive by a task that does not run on Spark")


def place_of(connection: Connection) -> OpenPath:
    """Return where a data set lies; the path may be a glob.

    Raises: NotSupportedYet: HDFS without its library. StorageUnreachable. BadData: no place.
    """
    secrets = connection.secrets
    match connection.address:
        case LocalFiles(path=path):
            return open_place(path)
        case S3Files() as address:
            access = FilesystemAccess(
                endpoint=address.endpoint,
                region=address.region,
                access_key=secrets.access_key,
                secret_key=secrets.secret_key,
                session_token=secrets.session_token,
                anonymous=secrets.access_key is None,
            )
            return object_place(address.bucket, address.path, access)
        case HdfsFiles(name_node=node, path=path):
            parts = urlsplit(node)
            user = FilesystemAccess(user=secrets.user)
            return hdfs_place(parts.hostname or "default", parts.port, path, user)
    raise NotSupportedYet(what=f"files of {connection.address.engine}")
