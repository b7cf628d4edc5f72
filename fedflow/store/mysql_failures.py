"""What an exception of MySQL's driver means to people: a reason without credentials and SQL."""

from __future__ import annotations

from typing import Final

import peewee
import pymysql
from playhouse.pool import MaxConnectionsExceeded

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.messages import Message
from fedflow.store import failures

DRIVER_ERRORS: Final = (
    pymysql.err.MySQLError,
    peewee.PeeweeException,
    MaxConnectionsExceeded,
    UnicodeEncodeError,
)
"""Everything that using MySQL may raise, apart from our own mistakes."""

_MYSQL: Final = {
    0: "the connection to the database server was lost",
    1021: "the database server's disk is full",
    1114: "the database server's disk or a table is full",
    1040: "the database server has too many connections",
    1203: "the database user has too many connections",
    1044: "the user may not use or make this database",
    1045: "the user or the password is wrong",
    1698: "the user or the password is wrong",
    1049: "there is no such database",
    1053: "the database server shuts down",
    1142: "the user lacks rights on the tables",
    1153: "a value is greater than the server's max_allowed_packet",
    1205: "another transaction kept a row locked for too long; try again",
    1213: "two transactions waited for each other and this one was undone; try again",
    1290: "the database server is read-only",
    1317: "the database server interrupted the statement",
    1836: "the database server is read-only",
    1927: "the database server ended the connection",
    2003: "no database server answers at this host and port",
    2006: "the connection to the database server was lost",
    2013: "the connection to the database server was lost",
    4031: "the database server ended the connection",
}


def as_fedflow_error(exc: Exception, *, where: str) -> FedflowError:
    """Return the error to raise for one of `DRIVER_ERRORS`; `where` names the store."""
    if isinstance(exc, UnicodeEncodeError):
        return failures.as_fedflow_error(exc, where=where)
    cause = _cause(exc)
    if isinstance(cause, pymysql.err.DataError):
        fault = Message("a value does not fit into the store ({error})", _text(cause))
        return BadRequest(reason=fault)
    return StoreUnavailable(reason=f"{where}: {_reason(cause)}")


def mysql_code(exc: Exception) -> int:
    """Return MySQL's error number, 0 if there is none."""
    cause = _cause(exc)
    code = cause.args[0] if isinstance(cause, pymysql.err.MySQLError) and cause.args else 0
    return code if isinstance(code, int) else 0


def _cause(exc: Exception) -> Exception:
    """Return the driver's exception that peewee wrapped, or `exc` itself."""
    if isinstance(exc, peewee.PeeweeException) and isinstance(exc.__context__, Exception):
        return exc.__context__
    return exc


def _reason(exc: Exception) -> str:
    if isinstance(exc, pymysql.err.MySQLError):
        code = mysql_code(exc)
        return f"{_MYSQL.get(code, 'the database server refused a statement')} (MySQL error {code})"
    if isinstance(exc, MaxConnectionsExceeded):
        return "all connections to the database are in use; raise database.max_connections"
    return type(exc).__name__


def _text(exc: pymysql.err.MySQLError) -> str:
    """Return MySQL's sentence about a value, which names the column only."""
    return str(exc.args[1]) if len(exc.args) > 1 else type(exc).__name__
