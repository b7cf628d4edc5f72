"""What caches hold: values with an age and a life, and a seal on those outside the process."""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from fedflow.base.clock import Clock
from fedflow.serving.caches.keys import CacheKey, CacheKeys, CacheSelection

V = TypeVar("V")

_TIMES: Final = struct.Struct(">QQ")  #: stored at, life: milliseconds
_SEAL_BYTES: Final = 16


class Aged(NamedTuple, Generic[V]):
    """A value that was found."""

    value: V
    age_s: float


class NewEntry(NamedTuple, Generic[V]):
    """A value to be stored."""

    key: CacheKey
    value: V
    life_s: float  #: it is not found when it is older
    age_s: float = 0.0  #: it has already


class SharedCache(Protocol):
    """A cache that other processes may use, too. Thread-safe."""

    def get_many(self, keys: Sequence[CacheKey]) -> list[Aged[bytes] | None]:
        """Return what is stored under keys, in their order; what cannot be read is a miss.

        It never raises, and takes no longer than its time limit.
        """

    def put_many(self, entries: Sequence[NewEntry[bytes]]) -> None:
        """Store values, as far as that is possible; it never raises."""

    def remove_many(self, keys: Sequence[CacheKey]) -> None:
        """Forget values, as far as that is possible; it never raises."""

    def purge(self, selection: CacheSelection) -> int:
        """Forget all selected values; return how many. Raises: CacheNotPurged: some may remain."""

    def close(self) -> None:
        """Give back what the cache holds."""


class Sealing:
    """Writes and reads what stands for entries outside the process."""

    def __init__(self, keys: CacheKeys, *, clock: Clock, bad_entry: Callable[[], None]) -> None:
        """`bad_entry` is called for each one that this party did not write so."""
        self._keys = keys
        self._clock = clock
        self._bad_entry = bad_entry

    def sealed(self, entry: NewEntry[bytes]) -> bytes:
        """Return the bytes that stand for an entry."""
        stored_ms = max(self._clock.now_ms() - int(entry.age_s * 1000), 0)
        content = _TIMES.pack(stored_ms, int(entry.life_s * 1000)) + entry.value
        return self._keys.seal_of(entry.key, content) + content

    def unsealed(self, key: CacheKey, raw: bytes | None) -> Aged[bytes] | None:
        """Return a value; None: it is too old, from the future, or not as it was written."""
        if raw is None:
            return None
        seal, content = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
        own = self._keys.seal_of(key, content)
        if len(content) < _TIMES.size or not hmac.compare_digest(seal, own):
            self._bad_entry()
            return None
        stored_ms, life_ms = _TIMES.unpack_from(content)
        age_ms = self._clock.now_ms() - stored_ms
        if not 0 <= age_ms <= life_ms:
            return None
        return Aged(content[_TIMES.size :], age_ms / 1000)
