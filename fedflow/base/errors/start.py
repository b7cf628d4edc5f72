"""Errors 1800: settings and start-up."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class BadSetting(FedflowError):
    """Setting {path}: {reason}."""

    code, retcode, http = 1801, 101, 400
    hint = "conf/service_conf.yaml explains every key, docs/migration.md what happens to FATE's."


class PortInUse(FedflowError):
    """Cannot listen on {address}: {reason}."""

    code, retcode, http = 1802, 105, 500
    hint = "Choose another port, or stop the server that uses it (`fedflow server status`)."


class HomeNotUsable(FedflowError):
    """The home folder {path} cannot be used: {reason}."""

    code, retcode, http = 1803, 100, 500
    hint = "Give a folder that this user may write to with `--home`."


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
        "Start another one with the same database and `shared_home`. Or stop this one: "
        "its tasks go on until it is started again."
    )
