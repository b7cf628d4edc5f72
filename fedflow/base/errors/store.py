"""Errors 1900: store."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class StoreUnavailable(FedflowError):
    """The store cannot be used: {reason}."""

    code, retcode, http = 1901, 105, 503
    hint = "Check the `database` settings and that the database server runs."


class SchemaTooNew(FedflowError):
    """The store has schema {found}, but this fedflow knows schemas only up to {known}."""

    code, retcode, http = 1902, 100, 500
    hint = "A newer fedflow has used this store; upgrade this server."


class DatabaseFileLost(StoreUnavailable):
    """The store cannot be used: {reason}."""

    code, retcode, http = 1903, 105, 503
    hint = "Stop the server, put the right database file in its place, and start the server again."
