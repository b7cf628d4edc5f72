"""Errors 1400: tables and data."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class TableNotFound(FedflowError):
    """No table {namespace}.{name} at party {party_id}."""

    code, retcode, http = 1401, 101, 404
    public = ("party_id",)
    hint = "Upload it to this party's own server with `fedflow data upload`."


class TableExists(FedflowError):
    """Table {namespace}.{name} exists already."""

    code, retcode, http = 1402, 100, 409
    hint = "Choose another name, or upload with `--drop` to replace it."


class BadTableName(FedflowError):
    """{what} {value!r} is not allowed."""

    code, retcode, http = 1403, 101, 400
    hint = "Use 1 to 100 characters without control characters."


class BadData(FedflowError):
    """{where}: {reason}."""

    code, retcode, http = 1404, 100, 400
    hint = "Correct the data, or the parameters that describe them. Nothing was stored."


class FileNotAllowed(FedflowError):
    """The server may not read {path!r}."""

    code, retcode, http = 1405, 101, 403
    hint = (
        "Send the file itself, or add its folder to `upload.allowed_folders` in the conf. Bound"
        " files need `storage.allowed_folders`, too."
    )


class NoData(FedflowError):
    """There is no data: {reason}."""

    code, retcode, http = 1406, 210, 210
    hint = "The component may have no output at this party, or has not finished."


class DiskFull(FedflowError):
    """There is no space left to write tables below {path}."""

    code, retcode, http = 1407, 100, 507
    hint = "Free space or raise the quota. Nothing of the table was stored."


class TableDisabled(FedflowError):
    """Table {namespace}.{name} is disabled at party {party_id}."""

    code, retcode, http = 1408, 101, 409
    public = ("party_id",)
    hint = "Its party can enable it with `/v1/table/enable`."


class ConnectorNotFound(FedflowError):
    """No connector {name!r} at this server."""

    code, retcode, http = 1409, 101, 404
    hint = "Create it with `/v1/table/connector/create`."


class PlaceNotAllowed(FedflowError):
    """The server may not write {path!r}: {reason}."""

    code, retcode, http = 1410, 101, 403
    hint = (
        "Give a file name without a folder: it is put into `downloads` of the server's home. Or add"
        " the folder to `download.allowed_folders` in the conf."
    )


class TableNotTracked(FedflowError):
    """No job at this server created or read table {namespace}.{name}."""

    code, retcode, http = 1411, 100, 404
    hint = "Provenance is known for tables that jobs of this server created or read."


class ColumnsFixed(FedflowError):
    """The columns of table {namespace}.{name} cannot be changed: {reason}."""

    code, retcode, http = 1412, 101, 409
    hint = "Upload the rows again under the new names, or change only other members."


class TablesNotShared(FedflowError):
    """This server does not see the files that Spark's workers wrote below {uri}."""

    code, retcode, http = 1413, 100, 500
    hint = "fate_on_spark.spark.tables_uri must name a folder that server and workers both reach."


class BadStorage(FedflowError):
    """{path}: {reason}."""

    code, retcode, http = 1416, 100, 400
    public = ("path",)
    hint = "`fedflow table bind --help` shows the address of each storage engine."


class StorageNotAllowed(FedflowError):
    """This server may not reach {place}: `{setting}` in its conf does not name it."""

    code, retcode, http = 1417, 101, 403
    hint = "The administrator of this server can allow it with that setting."


class QueryNotAllowed(FedflowError):
    """{path}: the query is not allowed: {reason}."""

    code, retcode, http = 1418, 100, 400
    hint = "A bound table is one SELECT without comments. For more than that, create a view."


class ConnectorMismatch(FedflowError):
    """{path}: the address and connector {name!r} do not go together: {reason}."""

    code, retcode, http = 1419, 100, 400
    hint = "A connector has host and credentials; the address says what is read from that host."


class ConnectorInUse(FedflowError):
    """Connector {name!r} is used by {count} tables, for example by {namespace}.{table}."""

    code, retcode, http = 1420, 100, 409
    hint = "Delete these tables first. To change a connector, create it again under its name."


class SecretUnreadable(FedflowError):
    """The credentials of connector {name!r} cannot be decrypted."""

    code, retcode, http = 1421, 100, 500
    hint = "The key in `keys/connectors.key` is not the one that encrypted them: restore that file."


class BoundTableRefused(FedflowError):
    """Table {namespace}.{name} cannot be read: {reason}."""

    code, retcode, http = 1422, 101, 409
    hint = "The log at its party's server says more. Other parties do not learn where it lies."


class StorageUnreachable(FedflowError):
    """{where} cannot be reached: {reason}."""

    code, retcode, http = 1430, 100, 502
    hint = "Check its address and that it runs. Rows that were read before are not stored."


class StorageRefused(FedflowError):
    """{where} refuses the access: {reason}."""

    code, retcode, http = 1431, 101, 403
    hint = "Correct the credentials of its connector, or let its administrator grant the access."


class StorageMissing(FedflowError):
    """{where} does not exist: {reason}."""

    code, retcode, http = 1432, 101, 404
    hint = "Correct the address with `fedflow table bind --drop`, or restore the data."


class BoundTableChanged(FedflowError):
    """{where} has changed since it was bound: {reason}."""

    code, retcode, http = 1433, 101, 409
    hint = "Bind it again with `fedflow table bind --drop`, so that jobs see its columns."


class FolderNotWritable(FedflowError):
    """User {user}, as whom the server runs, may not write below {path}."""

    code, retcode, http = 1434, 100, 500
    hint = "Give the folder to that user, or start the server as the folder's owner."


class ConnectorExists(FedflowError):
    """There is a connector {name!r} already, for {engine}."""

    code, retcode, http = 1435, 100, 409
    hint = "Choose another name, or replace it with `--replace` (in REST `replace`)."
