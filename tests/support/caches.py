"""What tests of caches share: a clock that they move, and keys."""

from __future__ import annotations

from fedflow.serving.caches.keys import CacheKeys, CacheScope

SCOPE = CacheScope(service_id="credit", model_version="v1", digest="d1")


class TwoClocks:
    """A wall clock that may step, and a monotonic one."""

    def __init__(self) -> None:
        self.wall_ms = 1_800_000_000_000
        self.now_s = 100.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_s(self) -> float:
        return self.now_s

    def go(self, seconds: float) -> None:
        """Let time pass on both."""
        self.now_s += seconds
        self.wall_ms += int(seconds * 1000)

    def step(self, seconds: float) -> None:
        """Set the wall clock."""
        self.wall_ms += int(seconds * 1000)


def cache_keys(secret: bytes = b"s" * 32) -> CacheKeys:
    return CacheKeys(secret)
