"""The settings below `caches`."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from urllib.parse import parse_qs, urlsplit

from msgspec import Meta

from fedflow.base.errors.start import BadSetting
from fedflow.base.settings import LOOPBACK, SettingsSection

Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
Entries = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Mebibytes = Annotated[int, Meta(ge=1, le=1_048_576)]

_SCHEMES: Final = ("redis", "rediss", "unix")


class ResultCacheSettings(SettingsSection, frozen=True, kw_only=True):
    """Results by the id that a caller gave its request; in the process."""

    enabled: bool = True
    seconds: Seconds = 120.0  #: a repeated request is answered from here for so long
    entries: Entries = 10_000
    mib: Mebibytes = 16


class PartnerCacheSettings(SettingsSection, frozen=True, kw_only=True):
    """Hosts' parts by the ids that they are of; in the process."""

    enabled: bool = False
    seconds: Seconds = 600.0
    entries: Entries = 100_000
    mib: Mebibytes = 64
    #: an id without features at a host is not asked for again for so long; 0: it is
    negative_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 0.0


class SharedCacheSettings(SettingsSection, frozen=True, kw_only=True):
    """Hosts' parts, for all processes of this party that have the same key."""

    kind: Literal["sqlite", "redis"] | None = None  #: None: there is none
    path: str | None = None  #: absolute path (sqlite); None: `caches.sqlite` in the home
    #: redis://, rediss:// (TLS) or unix:// URL, with user and password if it asks for them (redis)
    url: str | None = None
    seconds: Seconds = 86_400.0
    entries: Entries = 1_000_000  #: (sqlite) of Redis, its own `maxmemory` is the limit
    #: longest wait of a request for it, milliseconds; it counts as a miss then
    timeout_ms: Annotated[int, Meta(ge=1, le=10_000)] = 50


class CacheSettings(SettingsSection, frozen=True, kw_only=True):
    """What a guest's process remembers."""

    results: ResultCacheSettings = ResultCacheSettings()
    partners: PartnerCacheSettings = PartnerCacheSettings()
    shared: SharedCacheSettings = SharedCacheSettings()
    #: absolute path of a file with the secret of the keys, 32 bytes or more, the same for all
    #: processes that share a cache; None: `caches.key` in the home, made once for a shared cache
    key_file: str | None = None


def check_caches(given: CacheSettings, *, insecure: bool) -> None:
    """Refuse what does not fit together. Raises: BadSetting."""
    shared = given.shared
    for path, value in (("key_file", given.key_file), ("shared.path", shared.path)):
        if value is not None and not value.startswith("/"):
            raise BadSetting(path=f"caches.{path}", reason="it must be an absolute path")
    if shared.kind is not None and not given.partners.enabled:
        reason = "it holds hosts' parts: set caches.partners.enabled, too"
        raise BadSetting(path="caches.shared.kind", reason=reason)
    if shared.kind == "redis":
        _check_url(shared.url, insecure=insecure)


def _check_url(url: str | None, *, insecure: bool) -> None:
    """Refuse an address that is none, without saying it: it may have a password."""
    path = "caches.shared.url"
    try:
        parts = urlsplit(url or "")
        options = parse_qs(parts.query, strict_parsing=bool(parts.query))
        known = parts.scheme in _SCHEMES and options.keys() <= {"db"} and parts.port != 0
    except ValueError:
        known = False
    if not known or not (parts.path if parts.scheme == "unix" else parts.hostname):
        form = "redis://, rediss:// or unix://, a place, and no option but db"
        raise BadSetting(path=path, reason=f"it must have {form}")
    if parts.scheme == "redis" and parts.hostname not in LOOPBACK and not insecure:
        reason = "redis:// can be read on the way: use rediss://, or set insecure"
        raise BadSetting(path=path, reason=reason)
