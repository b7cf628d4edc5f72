"""Errors 1400: tables and data."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class TableNotFound(FedflowError):
    """No table {namespace}.{name} at party {party_id}."""

    code, retcode, http = 1401, 101, 404
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
    hint = "Correct the data, or what the parameters say of them; nothing was kept of it."


class FileNotAllowed(FedflowError):
    """The server may not read {path!r}."""

    code, retcode, http = 1405, 101, 403
    hint = (
        "Send the file itself, or add its folder to `upload.allowed_folders` in the conf (of files"
        " that are bound also `storage.allowed_folders`)."
    )


class NoData(FedflowError):
    """There is no data: {reason}."""

    code, retcode, http = 1406, 210, 210
    hint = "The component may have no output at this party, or has not finished."


class DiskFull(FedflowError):
    """There is no space left to write tables below {path}."""

    code, retcode, http = 1407, 100, 507
    hint = "Free space or raise the quota; nothing of the table was kept."


class TableDisabled(FedflowError):
    """Table {namespace}.{name} is disabled at party {party_id}."""

    code, retcode, http = 1408, 101, 409
    hint = "Its party can enable it with `/v1/table/enable`."


class ConnectorNotFound(FedflowError):
    """No connector {name!r} at this server."""

    code, retcode, http = 1409, 101, 404
    hint = "Make it with `/v1/table/connector/create`."


class PlaceNotAllowed(FedflowError):
    """The server may not write {path!r}: {reason}."""

    code, retcode, http = 1410, 101, 403
    hint = (
        "Give a plain file name, which is put into the folder `downloads` of the server's home, or"
        " add the folder to `download.allowed_folders` in the conf."
    )


class TableNotTracked(FedflowError):
    """No job is known here that made or read table {namespace}.{name}."""

    code, retcode, http = 1411, 100, 404
    hint = "Provenance is known of tables that jobs of this server made or read."


class ColumnsFixed(FedflowError):
    """The columns of table {namespace}.{name} cannot be changed: {reason}."""

    code, retcode, http = 1412, 101, 409
    hint = "Upload the rows again under the new names, or change members beside the column names."


class TablesNotShared(FedflowError):
    """The files that Spark's workers wrote below {uri} are not seen by this server."""

    code, retcode, http = 1413, 100, 500
    hint = "fate_on_spark.spark.tables_uri must name a folder that server and workers both reach."


class BadStorage(FedflowError):
    """{path}: {reason}."""

    code, retcode, http = 1416, 100, 400
    hint = "docs/storages.md lists the members of each storage engine's address."


class StorageNotAllowed(FedflowError):
    """This server may not reach {place}: `{setting}` in its conf does not name it."""

    code, retcode, http = 1417, 101, 403
    hint = "The administrator of this server can allow the place in its conf; see docs/storages.md."


class QueryNotAllowed(FedflowError):
    """{path}: the query is not allowed: {reason}."""

    code, retcode, http = 1418, 100, 400
    hint = "A bound table is one SELECT without comments; make a view of what needs more than that."


class ConnectorMismatch(FedflowError):
    """{path}: the address and connector {name!r} do not go together: {reason}."""

    code, retcode, http = 1419, 100, 400
    hint = "A connector says host and credentials, the address what is read there."


class ConnectorInUse(FedflowError):
    """Connector {name!r} is used by {count} tables, {namespace}.{table} is one of them."""

    code, retcode, http = 1420, 100, 409
    hint = "Delete these tables first; to change a connector, create it anew under its name."


class SecretUnreadable(FedflowError):
    """The credentials of connector {name!r} cannot be decrypted."""

    code, retcode, http = 1421, 100, 500
    hint = "The key in `keys/connectors.key` is not the one that encrypted them: restore that file."


class BoundTableRefused(FedflowError):
    """Table {namespace}.{name} cannot be read: {reason}."""

    code, retcode, http = 1422, 101, 409
    hint = "The log of its party's server says more; other parties are not told where it lies."


class StorageUnreachable(FedflowError):
    """{where} cannot be reached: {reason}."""

    code, retcode, http = 1430, 100, 502
    hint = "Check its address and that it runs; nothing was kept of what was read before."


class StorageRefused(FedflowError):
    """{where} refuses the access: {reason}."""

    code, retcode, http = 1431, 101, 403
    hint = "Correct the credentials of its connector, or let its administrator grant the access."


class StorageMissing(FedflowError):
    """{where} is not there: {reason}."""

    code, retcode, http = 1432, 101, 404
    hint = "Correct the address with `fedflow table bind --drop`, or restore what was there."


class BoundTableChanged(FedflowError):
    """{where} is not what was bound: {reason}."""

    code, retcode, http = 1433, 101, 409
    hint = "Bind it again with `fedflow table bind --drop`, so that jobs see its columns."
