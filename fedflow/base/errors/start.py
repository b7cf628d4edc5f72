"""Errors 1800: settings and start-up."""

from __future__ import annotations

import errno
import socket
from typing import Any

from fedflow.base.errors.error import FedflowError


class BadSetting(FedflowError):
    """Setting {path}: {reason}."""

    code, retcode, http = 1801, 101, 400
    hint = "service_conf.yaml, which comes with fedflow in share/fedflow/conf, explains every key."


class PortInUse(FedflowError):
    """Cannot listen on {address}: {reason}."""

    code, retcode, http = 1802, 105, 500
    hint = "Choose another port, or stop the server that uses it (`fedflow server status`)."


class AddressNotHere(PortInUse):
    """Cannot listen on {address}: {reason}."""

    code, retcode, http = 1812, 105, 500
    hint = "Name an address of this machine: 127.0.0.1 for itself only, 0.0.0.0 for all it has."


def cannot_listen(address: str, error: OSError) -> PortInUse:
    """Return the error for an address that the system does not bind."""
    elsewhere = error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror)
    kind = AddressNotHere if elsewhere else PortInUse
    return kind(address=address, reason=error.strerror or str(error))


class HomeNotUsable(FedflowError):
    """The home folder {path} cannot be used: {reason}."""

    code, retcode, http = 1803, 100, 500
    hint = "Start the server as the folder's user, or name a folder of this user with `--home`."


class HomeInUse(HomeNotUsable):
    """Another fedflow server uses the home folder {path}."""

    code, retcode, http = 1811, 100, 500
    hint = "Stop that server (`fedflow server stop`), or choose another home with `--home`."


class ListenerNotSafe(FedflowError):
    """{listener} would listen on {address} without {missing}."""

    code, retcode, http = 1804, 109, 500
    hint = "Configure it, bind to 127.0.0.1, or use `--insecure` if the network is trusted."


class ServerNotReachable(FedflowError):
    """No fedflow server answers at {address}: {reason}."""

    code, retcode, http = 1805, 105, 503
    hint = "Start it with `fedflow server start`, or name it with `--server` or FEDFLOW_SERVER."


class ServerNotStarted(FedflowError):
    """The server did not start: {reason}"""

    code, retcode, http = 1806, 100, 500
    hint = "`fedflow server run` with the same options shows the cause."

    def __init__(self, *, hint: str = "", **fields: Any) -> None:
        """`hint`: what the server itself said about the cause."""
        super().__init__(**fields)
        self.hint = hint or type(self).hint


class NotLeading(FedflowError):
    """This server does not lead the servers of its party: {reason}."""

    code, retcode, http = 1807, 105, 503
    hint = "Another server of the party takes over within seconds; `fedflow server list` shows it."


class SharedHomeDiffers(FedflowError):
    """Shared folders differ: {folder} is not the one that server {server} of this party uses."""

    code, retcode, http = 1808, 100, 500
    hint = (
        "Set `shared_home` to one common folder, for example on NFS, in the conf of every server."
    )


class NoOtherServer(FedflowError):
    """This server cannot hand over: no other server of its party is up."""

    code, retcode, http = 1809, 103, 409
    hint = (
        "Start another one with the same database and `shared_home`. Or restart this one: "
        "it adopts its tasks, but those that exchange values with others are tried again."
    )


class BadCertificate(BadSetting):
    """Setting {path}: {reason}."""

    code, retcode, http = 1810, 101, 400
    hint = (
        "`fedflow tls create` makes an authority, and for each party a certificate and key that "
        "fit. Compare `tls.ca`, `tls.certificate`, `tls.key` and the party id."
    )


class BadExchangeSetting(BadSetting):
    """Setting {path}: {reason}."""

    code, retcode, http = 1814, 101, 400
    hint = "exchange_conf.yaml, which comes with fedflow in share/fedflow/conf, explains every key."


class NotOverExchange(BadSetting):
    """Setting {path}: {address} leads over an exchange, and what it names is called directly."""

    code, retcode, http = 1813, 101, 400
    hint = (
        "Name host and port of the partner itself. An exchange carries packets and streams of "
        "Flow servers, nothing of serving processes and rendezvous."
    )
