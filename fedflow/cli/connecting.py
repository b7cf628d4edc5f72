"""Which server a command asks, and the keys that it signs with."""

from __future__ import annotations

import os

from fedflow.cli.stored import read_stored
from fedflow.client.client import DEFAULT_ADDRESS, Client
from fedflow.client.connection import url_of


def connect(server: str | None) -> Client:
    """Return a client of `server`, else of FEDFLOW_SERVER, else of what `flow init` stored.

    It signs with FEDFLOW_APP_KEY and FEDFLOW_SECRET_KEY, or with the stored keys if the server is
    the stored one. Raises: BadSetting, BadClientConf.
    """
    return _connect(server)


def connect_briefly(server: str | None, *, timeout_s: float) -> Client:
    """Return the same client, for one who would rather have no answer than wait for it."""
    return _connect(server, timeout_s=timeout_s, repeats=False)


def _connect(server: str | None, *, timeout_s: float = 30.0, repeats: bool = True) -> Client:
    stored = read_stored()
    address = server or os.environ.get("FEDFLOW_SERVER") or stored.address or DEFAULT_ADDRESS
    app_key, secret = os.environ.get("FEDFLOW_APP_KEY"), os.environ.get("FEDFLOW_SECRET_KEY")
    if not (app_key or secret) and stored.address and url_of(address) == url_of(stored.address):
        app_key, secret = stored.app_key, stored.secret_key
    return Client(address, app_key=app_key, secret=secret, timeout_s=timeout_s, repeats=repeats)
