"""Which storages of others a server may reach: its administrator's list, and what is on it.

The list stands in the settings `storage.*`. Folders of the server's own machine are checked where
links can be followed (`app/data/allowed_folders.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.base.errors.data import StorageNotAllowed
from fedflow.base.values import dataclass
from fedflow.domain.data.storages import Address, HdfsFiles, HiveRows, MysqlRows, S3Files

_AWS = "s3:/"
_PORTS: Final = {"MYSQL": 3306, "HIVE": 10000}  #: by engine


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """What may be reached. Empty: nothing."""

    #: `host:port`, `*` stands for any characters (in `10.0.*:3306` for those of addresses)
    mysql_hosts: tuple[str, ...] = ()
    hive_hosts: tuple[str, ...] = ()  #: the same
    s3_buckets: tuple[str, ...] = ()  #: `s3://bucket/folder`, `http[s]://host[:port]/bucket/folder`
    hdfs_folders: tuple[str, ...] = ()  #: `hdfs://host[:port]/folder`


def check_place(address: Address, places: Places) -> None:
    """Check that a place may be reached; files of this machine are not looked at here.

    Raises: StorageNotAllowed: it is on no list; the message names the setting.
    """
    match address:
        case MysqlRows():
            _check_host(address.host, address.port, places.mysql_hosts, "storage.mysql_hosts")
        case HiveRows():
            _check_host(address.host, address.port, places.hive_hosts, "storage.hive_hosts")
        case S3Files():
            place = f"{_endpoint(address)}/{address.bucket}/{address.path}"
            _check_folder(place, places.s3_buckets, "storage.s3_buckets")
        case HdfsFiles():
            place = address.name_node.rstrip("/") + address.path
            _check_folder(place, places.hdfs_folders, "storage.hdfs_folders")
        case _:
            pass


def check_connector_place(engine: str, info: Mapping[str, Any], places: Places) -> None:
    """Check that the host of a connector may be reached, if it names one; an address may still
    name the port. Raises: StorageNotAllowed.
    """
    if engine not in _PORTS or "host" not in info:
        return
    is_mysql = engine == "MYSQL"
    allowed = places.mysql_hosts if is_mysql else places.hive_hosts
    setting = "storage.mysql_hosts" if is_mysql else "storage.hive_hosts"
    if "port" not in info:
        allowed = tuple(f"{pattern.rpartition(':')[0]}:*" for pattern in allowed)
    _check_host(str(info["host"]), info.get("port", _PORTS[engine]), allowed, setting)


def _endpoint(address: S3Files) -> str:
    return _AWS if address.endpoint is None else address.endpoint.rstrip("/")


def _check_host(host: str, port: object, allowed: Sequence[str], setting: str) -> None:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not any(_fits(place, pattern) for pattern in allowed):
        raise StorageNotAllowed(place=place, setting=setting)


def _fits(place: str, pattern: str) -> bool:
    host, _, _ = pattern.rpartition(":")
    # `10.0.*` means addresses, not a host that somebody calls `10.0.example.com`
    any_text = "[0-9.:]*" if re.fullmatch(r"[0-9.*]*[0-9][0-9.*]*", host) else ".*"
    parts = (re.escape(part) for part in pattern.lower().split("*"))
    return re.fullmatch(any_text.join(parts), place.lower()) is not None


def _check_folder(place: str, allowed: Sequence[str], setting: str) -> None:
    """Compare part by part, so that `data` allows neither `database` nor a glob `da*`."""
    parts = _parts(place)
    for folder in allowed:
        wanted = _parts(folder)
        if parts[: len(wanted)] == wanted:
            return
    raise StorageNotAllowed(place=place[:300].rstrip("/"), setting=setting)


def _parts(place: str) -> list[str]:
    """Return scheme and host, in small letters, and the parts of the path after them."""
    scheme, _, rest = place.partition("://")
    host, *path = rest.split("/")
    if scheme == "s3":  # the first part is a bucket, not a host
        path, host = [host, *path], ""
    return [scheme.lower(), host.lower(), *(part for part in path if part)]
