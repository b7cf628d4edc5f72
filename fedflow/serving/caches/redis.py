"""A shared cache in Redis, for processes on several machines.

    fedflow:<namespace>:<service>:<version>:<ids>:<entry>      all hexadecimal

Calls are made by threads of their own, as neither the search for an address nor a server that
answers byte by byte keeps to the limits of a socket. No request waits longer than the time limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import CacheNotPurged
from fedflow.base.thread_starts import Pool
from fedflow.serving.caches.entries import Aged, NewEntry, Sealing
from fedflow.serving.caches.keys import CacheKey, CacheKeys, CacheSelection
from fedflow.serving.caches.outage import Outage
from fedflow.serving.metrics import ServingMetrics

T = TypeVar("T")

_THREADS: Final = 8  #: calls at once; further ones are misses
_PURGE_S: Final = 5.0  #: that one step of a purge may take
_SCANNED: Final = 1_000  #: keys that Redis looks at in one call of a purge


class RedisCache:
    """A cache in Redis. Thread-safe."""

    def __init__(
        self,
        url: str,
        keys: CacheKeys,
        *,
        timeout_s: float,
        clock: Clock,
        metrics: ServingMetrics,
    ) -> None:
        """Nothing is asked yet: a Redis that is down keeps no process from its start."""
        self._keys = keys
        self._timeout_s = timeout_s
        self._client = _client(url, timeout_s)
        self._for_purges = _client(url, _PURGE_S)
        errors = metrics.cache_errors
        self._reads = Outage("Redis", clock=clock, count=lambda: errors.add("redis", "read"))
        self._writes = Outage(
            "writing to Redis", clock=clock, count=lambda: errors.add("redis", "write")
        )
        self._sealing = Sealing(keys, clock=clock, bad_entry=lambda: errors.add("redis", "entry"))
        self._pool = Pool(_THREADS, thread_name_prefix="fedflow-cache")
        self._free = threading.Semaphore(_THREADS)

    def get_many(self, keys: Sequence[CacheKey]) -> list[Aged[bytes] | None]:
        """Return what is stored under keys, in their order."""
        names = [self._name(key) for key in keys]
        raws = self._in_time(self._reads, lambda: self._values(names)) if keys else None
        if raws is None:
            return [None] * len(keys)
        return [self._sealing.unsealed(key, raw) for key, raw in zip(keys, raws, strict=True)]

    def put_many(self, entries: Sequence[NewEntry[bytes]]) -> None:
        """Store values, as far as that is possible."""

        def put() -> None:
            with self._client.pipeline(transaction=False) as pipeline:
                for one in entries:
                    left_ms = max(int((one.life_s - one.age_s) * 1000), 1)
                    pipeline.set(self._name(one.key), self._sealing.sealed(one), px=left_ms)
                pipeline.execute()

        if entries:
            self._in_time(self._writes, put)

    def remove_many(self, keys: Sequence[CacheKey]) -> None:
        """Forget values, as far as that is possible."""
        names = [self._name(key) for key in keys]
        if names:
            self._in_time(self._writes, lambda: self._client.unlink(*names))

    def purge(self, selection: CacheSelection) -> int:
        """Forget all selected values; return how many. Raises: CacheNotPurged."""
        parts = ["*" if part is None else part.hex() for part in selection]
        pattern = ":".join(("fedflow", self._keys.namespace, *parts, "*"))
        number, cursor = 0, 0
        try:
            while True:
                step = partial(self._purged, cursor, pattern)
                cursor, removed = self._within(_PURGE_S, self._for_purges, step)
                number += removed
                if cursor == 0:
                    return number
        except Exception as exc:  # whatever comes from the network
            raise CacheNotPurged(reason=f"Redis does not answer ({type(exc).__name__})") from exc

    def close(self) -> None:
        """Close the connections; calls under way fail."""
        for client in (self._client, self._for_purges):
            client.connection_pool.disconnect(inuse_connections=True)
        self._pool.shutdown(cancel_futures=True)

    def _values(self, names: Sequence[str]) -> list[bytes | None]:
        """Ask for values. Raises: RedisError, OSError, ValueError: what comes is no answer."""
        raws: Any = self._client.mget(names)
        if not isinstance(raws, list) or len(raws) != len(names):
            raise ValueError("an answer is none")
        if not all(raw is None or isinstance(raw, bytes) for raw in raws):
            raise ValueError("an answer is none")
        return raws

    def _purged(self, cursor: int, pattern: str) -> tuple[int, int]:
        """Remove some keys; return where to go on, and how many there were."""
        found: Any = self._for_purges.scan(cursor, match=pattern, count=_SCANNED)
        following, names = found
        return int(following), int(self._for_purges.unlink(*names)) if names else 0

    def _in_time(self, outage: Outage, call: Callable[[], T]) -> T | None:
        """Return what a call gives; None: it failed, or took too long."""
        if not outage.may_try() or not self._free.acquire(blocking=False):
            return None
        try:
            result = self._within(self._timeout_s, self._client, call, self._ended)
        except Exception as exc:  # noqa: BLE001  whatever comes from the network; it is counted
            outage.failed(exc)
            return None
        outage.worked()
        return result

    def _within(
        self,
        limit_s: float,
        client: Redis,
        call: Callable[[], T],
        ended: Callable[[object], None] = lambda _: None,
    ) -> T:
        """Return what a call gives. Raises: TimeoutError, and what the call raises."""
        try:
            done = self._pool.submit(call)
        except RuntimeError:  # no thread, or the end of the process
            ended(None)
            raise
        done.add_done_callback(ended)
        try:
            return done.result(limit_s)
        finally:
            if not done.done():
                client.connection_pool.disconnect(inuse_connections=True)

    def _ended(self, _: object) -> None:
        self._free.release()

    def _name(self, key: CacheKey) -> str:
        return ":".join(("fedflow", self._keys.namespace, *(part.hex() for part in key)))


def _client(url: str, timeout_s: float) -> Redis:
    checks = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
    return Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        max_connections=_THREADS * 2,
        protocol=2,
        **(checks if url.startswith("rediss:") else {}),
    )
