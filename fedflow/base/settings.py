"""Every setting of a server: one frozen tree with defaults, units and ranges.

Key names are FATE's where FATE has the key. `parse_settings` is the only way in: an unknown key, a
wrong type or a bad range stops the start with the path of the key. Nothing here reads a file or
the environment; `server/configuration.py` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fedflow.base.errors import BadSetting

Port = Annotated[int, Meta(ge=0, le=65535)]
Positive = Annotated[float, Meta(gt=0, le=31_536_000)]  #: a time, at most a year in seconds
Count = Annotated[int, Meta(ge=1)]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of keys."""


class Fateflow(_Section, frozen=True, kw_only=True):
    """Where this server listens."""

    host: str = "127.0.0.1"  #: address of the REST API, and of calls of other parties
    grpc_host: str | None = None  #: address for calls of other parties, if it is another one
    http_port: Port = 9380  #: REST API and board; 0 = any free port
    grpc_port: Port = 9360  #: calls and data of other parties; 0 = any free port
    http_behind_tls_proxy: bool = False  #: a proxy on this machine terminates TLS for the REST API

    @property
    def parties_host(self) -> str:
        """Return the address that other parties call."""
        return self.grpc_host or self.host


class Database(_Section, frozen=True, kw_only=True):
    """Where the server keeps its state."""

    engine: Literal["sqlite", "mysql"] = "sqlite"  #: sqlite: a file in the home folder
    name: str = "fedflow"  #: database name (mysql)
    user: str = "root"
    passwd: str = ""
    host: str = "127.0.0.1"
    port: Port = 3306
    max_connections: Count = 32  #: connections kept open (mysql)
    stale_timeout: Count = 30  #: seconds after which an idle connection is renewed (mysql)
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"  #: sqlite: FULL also survives power loss


class Tls(_Section, frozen=True, kw_only=True):
    """Certificates of the gRPC listener and of calls to other parties; all three, or none."""

    ca: str | None = None  #: PEM file: the authority that signed every party's certificate
    certificate: str | None = None  #: PEM file; its common name is this party's id
    key: str | None = None  #: PEM file of the private key

    @property
    def on(self) -> bool:
        return self.ca is not None


class ClientAuthentication(_Section, frozen=True, kw_only=True):
    """Signed client requests (HMAC), as FATE does them."""

    switch: bool = False
    http_app_key: str = ""
    http_secret_key: str = ""


class Authentication(_Section, frozen=True, kw_only=True):
    client: ClientAuthentication = ClientAuthentication()


class Engine(_Section, frozen=True, kw_only=True):
    """The computing engine of this server."""

    cores_per_node: Count = 20  #: cores that jobs may hold together
    nodes: Count = 1


class Engines(_Section, frozen=True, kw_only=True):
    standalone: Engine = Engine()


class Scheduling(_Section, frozen=True, kw_only=True):
    """How often the threads look, and how long things may take."""

    tick_interval_s: Positive = 2.0  #: pause between two repair passes of the scheduler
    detect_interval_s: Positive = 5.0  #: pause between two passes of the detector
    create_timeout_s: Positive = 10.0  #: all sites must have accepted a job within this time
    lease_s: Positive = 60.0  #: a party that is silent for longer is lost
    heartbeat_s: Positive = 5.0  #: pause between two heartbeats to a party
    call_timeout_s: Positive = 10.0  #: deadline of one call to another party
    retry_cap_s: Positive = 5.0  #: longest pause before a command is sent again
    launch_grace_s: Positive = 5.0  #: a launch without a process is repeated after this time
    stop_grace_s: Positive = 3.0  #: pause between SIGTERM and SIGKILL of an executor


class Executors(_Section, frozen=True, kw_only=True):
    """Worker processes."""

    start_method: Literal["zygote", "plain"] = "zygote"  #: plain: a new interpreter per task
    memory_mib: Count | None = None  #: address space limit of one executor, MiB; null = none


class FederationLimits(_Section, frozen=True, kw_only=True):
    """Values between executors of different parties."""

    receive_timeout_s: Positive = 3600.0  #: longest wait for one value
    spool_mib: Count = 20_480  #: values in transit on disk, all jobs together
    memory_mib: Count = 64  #: values in transit in memory, all jobs together


class Upload(_Section, frozen=True, kw_only=True):
    allowed_folders: tuple[str, ...] = ()  #: server folders that `use_local_data: 0` may read
    max_mib: Count = 102_400  #: largest file that a client may send


class Log(_Section, frozen=True, kw_only=True):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["console", "json"] = "console"


class Settings(_Section, frozen=True, kw_only=True):
    """All settings of one server."""

    party_id: str | None = None  #: the party that this server is; null = standalone, hosts every id
    insecure: bool = False  #: allow listeners without TLS and authentication on other addresses
    fateflow: Fateflow = Fateflow()
    database: Database = Database()
    routes: Mapping[str, str] = {}  #: party id -> host:port of its gRPC listener
    tls: Tls = Tls()
    authentication: Authentication = Authentication()
    fate_on_standalone: Engines = Engines()
    scheduling: Scheduling = Scheduling()
    executor: Executors = Executors()
    federation: FederationLimits = FederationLimits()
    upload: Upload = Upload()
    log: Log = Log()


_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_ROUTE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})")
_PARTY = re.compile(r"[0-9A-Za-z]{1,32}")


def parse_settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings tree. Raises: BadSetting: with the path of the first wrong key."""
    try:
        settings = msgspec.convert(_texts(values), Settings, strict=True)
    except msgspec.ValidationError as exc:
        raise _bad_setting(str(exc)) from exc
    _check_parties(settings)
    _check_tls(settings)
    return settings


def _bad_setting(text: str) -> BadSetting:
    """Return the error that a sentence of the validation library means, with the key's path."""
    found = _AT.match(text)
    what, path = (found["what"], found["path"] or "") if found else (text, "")
    unknown = _UNKNOWN.fullmatch(what)
    if unknown:
        what, path = "there is no such key", f"{path}.{unknown[1]}".removeprefix(".")
    return BadSetting(path=path or "(top level)", reason=what)


def _texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with party ids as text: YAML reads them as numbers."""
    texts = dict(values)
    party_id = texts.get("party_id")
    if isinstance(party_id, int) and not isinstance(party_id, bool):
        texts["party_id"] = str(party_id)
    routes = texts.get("routes")
    if isinstance(routes, Mapping):
        texts["routes"] = {str(party): address for party, address in routes.items()}
    return texts


def _check_parties(settings: Settings) -> None:
    if settings.party_id is not None and not _PARTY.fullmatch(settings.party_id):
        raise BadSetting(path="party_id", reason=f"{settings.party_id!r} is not a party id")
    for party, address in settings.routes.items():
        path = f"routes.{party}"
        if not _PARTY.fullmatch(party):
            raise BadSetting(path=path, reason=f"{party!r} is not a party id")
        found = _ROUTE.fullmatch(address)
        if found is None or not 0 < int(found[2]) < 65536:
            raise BadSetting(path=path, reason=f"{address!r} is not host:port")
        if party == settings.party_id:
            raise BadSetting(path=path, reason="this is the server's own party")


def _check_tls(settings: Settings) -> None:
    files = {
        "ca": settings.tls.ca,
        "certificate": settings.tls.certificate,
        "key": settings.tls.key,
    }
    given = [name for name, value in files.items() if value is not None]
    if given and len(given) < len(files):
        missing = next(name for name in files if name not in given)
        raise BadSetting(path=f"tls.{missing}", reason="TLS needs ca, certificate and key together")
    client = settings.authentication.client
    if client.switch and not (client.http_app_key and client.http_secret_key):
        raise BadSetting(
            path="authentication.client",
            reason="switch is on without http_app_key and http_secret_key",
        )
