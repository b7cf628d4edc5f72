"""Every setting of a serving process: one frozen tree with defaults, units and ranges.

`parse_serving_settings` is the only way in. Nothing here reads a file or the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.base.errors.start import BadSetting, ListenerNotSafe
from fedflow.base.settings import (
    LOOPBACK,
    PARTY,
    Log,
    Port,
    SettingsSection,
    Tls,
    check_routes,
    check_tls_files,
    explained_by,
    parse_section,
    texts,
)
from fedflow.serving.caches.settings import CacheSettings, check_caches

Milliseconds = Annotated[int, Meta(ge=1, le=600_000)]
Threads = Annotated[int, Meta(ge=1, le=1_000)]
Mebibytes = Annotated[int, Meta(ge=1, le=1_024)]

SERVICE_ID: Final = re.compile(r"[0-9A-Za-z_.#~@+-]{1,128}")
SHARED_CALLER: Final = "token"  #: the name of whoever sends `callers.token`
_CALLER: Final = re.compile(r"[0-9A-Za-z_.@-]{1,64}")


class CallerKey(SettingsSection, frozen=True, kw_only=True):
    """A caller; several keys of one name are one caller, who changes keys."""

    name: str  #: stands in the access log and in metrics
    sha256: str  #: hex digest of the key; `fedflow serving key` makes both
    services: tuple[str, ...] | None = None  #: what it may ask; None: all
    per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None  #: rows; None: any


class CallersTls(SettingsSection, frozen=True, kw_only=True):
    """What the gRPC port shows to callers; certificate and key, or none."""

    certificate: str | None = None  #: PEM file
    key: str | None = None  #: PEM file of the private key
    ca: str | None = None  #: PEM file: who signed callers' certificates; None: callers need none

    @property
    def on(self) -> bool:
        return self.certificate is not None


class CallersPort(SettingsSection, frozen=True, kw_only=True):
    """HTTP and gRPC, for those who ask for scores."""

    host: str = "127.0.0.1"
    port: Port = 8059  #: HTTP; 0 = any free port
    grpc_port: Port | None = None  #: gRPC; 0 = any free port, None: no such port
    grpc_host: str | None = None  #: address of the gRPC port, if it is another one
    tls: CallersTls = CallersTls()  #: of the gRPC port
    token: str | None = None  #: bearer token that callers send; None: everybody may ask
    keys: tuple[CallerKey, ...] = ()  #: a token per caller, instead of `token` or beside it
    behind_tls_proxy: bool = False  #: a proxy on this machine terminates TLS
    threads: Threads = 64  #: requests that are answered at once
    body_mib: Mebibytes = 8  #: largest body


class PartnersPort(SettingsSection, frozen=True, kw_only=True):
    """gRPC, for the serving processes of other parties."""

    host: str = "127.0.0.1"
    port: Port = 8869  #: 0 = any free port
    tls: Tls = Tls()
    threads: Threads = 16  #: calls that are answered at once; one party has 3/4 of them at most
    message_mib: Mebibytes = 16  #: largest message
    allowed: tuple[str, ...] | None = None  #: guests that are answered; None: all with a route
    #: rows of one guest and model on average; None: any
    rows_per_s: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    #: decimals of partial scores that guests get; None: they are exact
    score_decimals: Annotated[int, Meta(ge=0, le=15)] | None = None
    audit: bool = False  #: write down whom guests ask about, as keyed hashes
    audit_days: Annotated[int, Meta(ge=1, le=3_650)] = 90  #: for so long


class AdminPort(SettingsSection, frozen=True, kw_only=True):
    """HTTP, for the party's Flow server, operators and Prometheus."""

    host: str = "127.0.0.1"
    port: Port = 8350  #: 0 = any free port
    token: str | None = None  #: bearer token that is asked for; None: everybody may change models
    behind_tls_proxy: bool = False  #: a proxy on this machine terminates TLS
    body_mib: Mebibytes = 256  #: largest body: a model


class FeatureSettings(SettingsSection, frozen=True, kw_only=True):
    """Where features come from."""

    source: str | None = None  #: entry point of `fedflow.serving.feature_source`; None: no features
    options: Mapping[str, Any] = {}  #: of that source


class ServingLimits(SettingsSection, frozen=True, kw_only=True):
    """What requests may take."""

    single_ms: Milliseconds = 3_000  #: budget of a request with one row, partners included
    batch_ms: Milliseconds = 3_000  #: budget of a batch
    batch_rows: Annotated[int, Meta(ge=1, le=10_000)] = 300  #: largest batch
    joined: Annotated[int, Meta(ge=1, le=300)] = 64  #: single requests in one call to the partners
    #: requests of one model that wait or run; further ones are refused with 124
    waiting: Annotated[int, Meta(ge=1, le=10_000)] = 48
    #: calls to a partner without an answer, one after the other, after which it is not asked
    circuit_failures: Annotated[int, Meta(ge=1, le=1_000)] = 5
    circuit_open_ms: Milliseconds = 1_000  #: for so long at first, then twice as long each time
    drain_ms: Annotated[int, Meta(ge=0, le=600_000)] = 0  #: a stop is said so long before it is


class ServingSettings(SettingsSection, frozen=True, kw_only=True):
    """All settings of one serving process."""

    party_id: str | None = None  #: whose process it is; null: every party's, without TLS only
    insecure: bool = False  #: allow other addresses than loopback without TLS and tokens
    home: str | None = None  #: absolute folder of the state; null: `serving` in fedflow's home
    callers: CallersPort = CallersPort()
    partners: PartnersPort = PartnersPort()
    admin: AdminPort = AdminPort()
    #: party id -> host:port of its partners' port; several processes: commas between
    routes: Mapping[str, str] = {}
    features: FeatureSettings = FeatureSettings()  #: a host's
    #: a guest's, for what callers do not send; without a source they send all
    guest_features: FeatureSettings = FeatureSettings()
    #: absolute folder of this party's own models of HomoNN, as the server's `executor.nn_folder`
    nn_folder: Annotated[str, Meta(pattern=r"^/[^\x00]*\Z")] | None = None
    default_service: str | None = None  #: answers requests that name no service
    explicit_version: bool = False  #: requests may name model and version instead of a service
    #: names of the ids that callers may send to the partners; None: any
    partner_ids: tuple[str, ...] | None = None
    access_log: bool = True  #: a line per request: its id, return code and milliseconds
    limits: ServingLimits = ServingLimits()
    caches: CacheSettings = CacheSettings()
    log: Log = Log()


def serving_home(settings: ServingSettings, home: Path) -> Path:
    """Return the folder of a serving process; `home` is fedflow's."""
    return Path(settings.home) if settings.home is not None else home / "serving"


def is_caller_name(name: str) -> bool:
    """Tell whether a caller may have this name; `token` is whoever sends `callers.token`."""
    return _CALLER.fullmatch(name) is not None and name != SHARED_CALLER


def parse_serving_settings(values: Mapping[str, Any]) -> ServingSettings:
    """Return the settings tree.

    Raises: BadServingSetting: with the paths of all unknown keys, or else of the first wrong value.
    NotOverExchange: a partner has no address of its own.
    ListenerNotSafe: others could reach a port without protection.
    """
    with explained_by(BadServingSetting):
        settings = parse_section(_with_text_ids(values), ServingSettings)
        check_routes(settings.routes, settings.party_id)
        check_tls_files(settings.partners.tls, "partners.tls")
        _check_ids(settings)
        _check_keys(settings.callers.keys)
        check_caches(settings.caches, insecure=settings.insecure)
        _check_callers_tls(settings.callers.tls)
    _check_listeners(settings)
    return settings


def _with_text_ids(values: Mapping[str, Any]) -> dict[str, Any]:
    changed = texts(values)
    partners = changed.get("partners")
    if isinstance(partners, Mapping) and isinstance(partners.get("allowed"), list):
        allowed = [str(one) if type(one) is int else one for one in partners["allowed"]]
        changed["partners"] = {**partners, "allowed": allowed}
    return changed


def _check_ids(settings: ServingSettings) -> None:
    own, tls = settings.party_id, settings.partners.tls
    if own is not None and not PARTY.fullmatch(own):
        raise BadSetting(path="party_id", reason=f"{own!r} is not a party id")
    if own is None and tls.on:
        raise BadSetting(path="party_id", reason="a certificate is that of one party: name it")
    for party in settings.partners.allowed or ():
        if not PARTY.fullmatch(party):
            raise BadSetting(path="partners.allowed", reason=f"{party!r} is not a party id")
    service = settings.default_service
    if service is not None and not SERVICE_ID.fullmatch(service):
        raise BadSetting(path="default_service", reason=f"{service!r} is no service id")
    if settings.home is not None and not settings.home.startswith("/"):
        raise BadSetting(path="home", reason="it must be an absolute path")
    for name, token in (("callers", settings.callers.token), ("admin", settings.admin.token)):
        if token is not None and not re.fullmatch(r"[!-~]{16,500}", token):
            raise BadSetting(path=f"{name}.token", reason="16 to 500 letters, digits and signs")


def _check_keys(keys: tuple[CallerKey, ...]) -> None:
    rights: dict[str, CallerKey] = {}
    for number, key in enumerate(keys):
        path = f"callers.keys.{number}"
        if not is_caller_name(key.name):
            raise BadSetting(path=f"{path}.name", reason=f"{key.name[:100]!r} is no caller's name")
        if not re.fullmatch(r"[0-9a-f]{64}", key.sha256):
            raise BadSetting(path=f"{path}.sha256", reason="64 hexadecimal digits, small letters")
        for service in key.services or ():
            if not SERVICE_ID.fullmatch(service):
                raise BadSetting(path=f"{path}.services", reason=f"{service!r} is no service id")
        first = rights.setdefault(key.name, key)
        if (key.services, key.per_second) != (first.services, first.per_second):
            reason = f"keys of {key.name} have the same services and per_second"
            raise BadSetting(path=path, reason=reason)
    if len({key.sha256 for key in keys}) < len(keys):
        raise BadSetting(path="callers.keys", reason="a key is there twice")


def _check_callers_tls(tls: CallersTls) -> None:
    for name, other in (("certificate", tls.key or tls.ca), ("key", tls.certificate)):
        if other is not None and getattr(tls, name) is None:
            path = f"callers.tls.{name}"
            raise BadSetting(path=path, reason="TLS needs certificate and key together")


def _check_listeners(settings: ServingSettings) -> None:
    if settings.insecure:
        return
    if settings.partners.host not in LOOPBACK and not settings.partners.tls.on:
        raise ListenerNotSafe(
            listener="The partners' port", address=settings.partners.host, missing="partners.tls"
        )
    keyed = settings.callers.token is not None or bool(settings.callers.keys)
    for name, port, asks in (
        ("callers", settings.callers, keyed),
        ("admin", settings.admin, settings.admin.token is not None),
    ):
        if port.host in LOOPBACK:
            continue
        if not asks:
            missing = f"{name}.token"
        elif not port.behind_tls_proxy:
            missing = f"TLS (set {name}.behind_tls_proxy if a proxy terminates it)"
        else:
            continue
        raise ListenerNotSafe(listener=f"The {name} port", address=port.host, missing=missing)
    host = settings.callers.grpc_host or settings.callers.host
    if settings.callers.grpc_port is not None and host not in LOOPBACK:
        missing = "callers.tls" if keyed else "callers.token"
        if not keyed or not settings.callers.tls.on:
            raise ListenerNotSafe(listener="The callers' gRPC port", address=host, missing=missing)
