"""The caches of a process, as its settings want them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.base.values import dataclass
from fedflow.serving.caches.entries import SharedCache
from fedflow.serving.caches.keys import CacheKeys, new_secret, own_secret, read_secret
from fedflow.serving.caches.partner_results import PartnerResults
from fedflow.serving.caches.results import CachedResults
from fedflow.serving.caches.settings import CacheSettings
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.partners.messages import IdValue


@dataclass(frozen=True, kw_only=True, slots=True)
class Caches:
    """What a guest's process remembers; None: nothing of the kind."""

    keys: CacheKeys
    results: CachedResults | None
    partners: PartnerResults | None

    def purge(
        self,
        *,
        service_id: str | None = None,
        model_version: str | None = None,
        ids: Mapping[str, IdValue] | None = None,
    ) -> int:
        """Forget values of a service, a version and all ids of a row; without them, all values.

        Return how many. Raises: CacheNotPurged: some of the shared cache may remain.
        """
        chosen = self.keys.selection(service_id=service_id, model_version=model_version, ids=ids)
        number = self.results.purge(chosen) if self.results is not None else 0
        return number + (self.partners.purge(chosen) if self.partners is not None else 0)

    def close(self) -> None:
        """Close what is shared."""
        if self.partners is not None:
            self.partners.close()


def open_caches(
    settings: CacheSettings,
    home: Path,
    *,
    stale_s: float,
    metrics: ServingMetrics,
    clock: Clock,
) -> Caches:
    """Return the caches of a process; `stale_s` is the age that somebody may ask parts of.

    Raises: BadServingSetting, ServingStateNotUsable.
    """
    keys = CacheKeys(_secret(settings, home))
    results = partners = None
    if settings.results.enabled:
        results = CachedResults(keys, settings.results, metrics=metrics, clock=clock)
    if settings.partners.enabled:
        partners = PartnerResults(
            keys,
            _shared(settings, home, keys, metrics=metrics, clock=clock),
            settings.partners,
            shared_s=settings.shared.seconds,
            stale_s=stale_s,
            metrics=metrics,
            clock=clock,
        )
    return Caches(keys=keys, results=results, partners=partners)


def _secret(settings: CacheSettings, home: Path) -> bytes:
    """Return the secret of the keys; what is in the process alone has one of its own."""
    if settings.key_file is not None:
        return read_secret(Path(settings.key_file))
    if settings.shared.kind is None:
        return new_secret()
    return own_secret(home / "caches.key")


def _shared(
    settings: CacheSettings,
    home: Path,
    keys: CacheKeys,
    *,
    metrics: ServingMetrics,
    clock: Clock,
) -> SharedCache | None:
    given = settings.shared
    timeout_s = given.timeout_ms / 1000
    if given.kind == "sqlite":
        from fedflow.serving.caches.sqlite import SqliteCache

        path = home / "caches.sqlite" if given.path is None else Path(given.path)
        return SqliteCache(
            path, keys, entries=given.entries, timeout_s=timeout_s, clock=clock, metrics=metrics
        )
    if given.kind == "redis":
        try:
            from fedflow.serving.caches.redis import RedisCache
        except ImportError as exc:
            reason = "the package redis is missing: pip install 'fedflow[redis]'"
            raise BadServingSetting(path="caches.shared.kind", reason=reason) from exc
        return RedisCache(given.url or "", keys, timeout_s=timeout_s, clock=clock, metrics=metrics)
    return None
