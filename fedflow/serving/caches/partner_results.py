"""Hosts' parts of scores by the ids that they are of: in the process, then shared.

A part is *fresh* within the life of a cache. An older one is *stale*: it is used only if somebody
asks for it, as the host does not answer. What a host says of its features (`PartnerResponse`) goes
before: never is a part used after the time that it gave, or one of another version of its features.
Parts are bytes of one row each; errors are left out, but for "no features", if that is set.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

import msgspec

from fedflow.base.clock import Clock
from fedflow.base.values import dataclass
from fedflow.serving.caches.entries import Aged, NewEntry, SharedCache
from fedflow.serving.caches.keys import CacheKey, CacheKeys, CacheScope, CacheSelection
from fedflow.serving.caches.memory import MemoryCache
from fedflow.serving.caches.settings import PartnerCacheSettings
from fedflow.serving.codes import ServingCode
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.partners.messages import IdValue, PartnerResponse
from fedflow.serving.scoring.host_answer import is_failed_row, join_rows, rows_of

_PART_BYTES: Final = 200  #: of a part without its payload

Error = tuple[int, str]


class CachedPart(msgspec.Struct, frozen=True, array_like=True):
    """A host's part of one row."""

    payload: bytes
    feature_version: str
    fresh_s: float  #: it is fresh until it is older
    error: Error | None = None


class FeatureStatement(msgspec.Struct, frozen=True, array_like=True):
    """What a host last said of its features."""

    feature_version: str | None  #: None: nothing of it may be stored


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stated:
    asked_s: float  #: moment of the request that was answered so
    statement: FeatureStatement


@dataclass(frozen=True, slots=True)
class _Held:
    part: CachedPart
    since_s: float  #: it is in this process


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundParts:
    """What a look-up gave for the rows of a request to one host."""

    party: str
    keys: list[CacheKey]
    parts: list[CachedPart | None]  #: per row; None: the host must be asked
    oldest_s: float  #: age of the oldest part, seconds
    asked_s: float  #: monotonic moment of the look-up
    purges: int

    @property
    def missing(self) -> list[int]:
        """Return the rows that the host must be asked for."""
        return [row for row, part in enumerate(self.parts) if part is None]


_parts: Final = msgspec.msgpack.Decoder(CachedPart)
_statements: Final = msgspec.msgpack.Decoder(FeatureStatement)
_encode: Final = msgspec.msgpack.Encoder().encode


class PartnerResults:
    """Parts of all hosts. Thread-safe."""

    def __init__(
        self,
        keys: CacheKeys,
        shared: SharedCache | None,
        settings: PartnerCacheSettings,
        *,
        shared_s: float,
        stale_s: float,
        metrics: ServingMetrics,
        clock: Clock,
    ) -> None:
        """`shared_s` is the life in `shared`; parts are kept for `stale_s` at least."""
        self._keys = keys
        self._shared = shared
        self._settings = settings
        self._fresh_s = settings.seconds if shared is None else shared_s
        self._kept_s = max(self._fresh_s, stale_s)
        self._held_s = max(settings.seconds, stale_s)  #: in the process
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._purges = 0
        self._stated: dict[str, _Stated] = {}
        self._memory: MemoryCache[_Held] = MemoryCache(
            entries=settings.entries,
            size_bytes=settings.mib << 20,
            size_of=lambda held: len(held.part.payload) + _PART_BYTES,
            clock=clock,
            evicted=lambda number: metrics.cache_evictions.add("partners", number=number),
        )

    def find(
        self,
        scope: CacheScope,
        party: str,
        ids: Sequence[Mapping[str, IdValue]],
        *,
        stale_s: float = 0.0,
    ) -> FoundParts:
        """Return the parts of rows that a host gave before.

        `stale_s` > 0: also those that are not fresh any more, up to this age.
        """
        now_s, purges = self._clock.monotonic_s(), self._purges
        keys = self._keys.parts(scope, party, ids)
        aged = self._in_process(party, keys, now_s)
        found = [one if one is not None and _is_fresh(one) else None for one in aged]
        if stale_s <= 0:  # else they were looked up before
            self._count("partners", found)
        absent = [row for row, one in enumerate(found) if one is None]
        if self._shared is not None and absent:
            shared = self._in_shared(self._shared, party, [keys[row] for row in absent], now_s)
            fresh = [one if one is not None and _is_fresh(one) else None for one in shared]
            if stale_s <= 0:
                self._count("shared", fresh)
            for row, one, new in zip(absent, shared, fresh, strict=True):
                aged[row] = one or aged[row]
                found[row] = new
        if stale_s > 0:
            for row, one in enumerate(aged):
                if found[row] is None and one is not None and one.age_s <= stale_s:
                    found[row] = one
                    self._metrics.cache_lookups.add("partners", "stale")
        return FoundParts(
            party=party,
            keys=keys,
            parts=[None if one is None else one.value for one in found],
            oldest_s=max((one.age_s for one in found if one is not None), default=0.0),
            asked_s=now_s,
            purges=purges,
        )

    def join(self, found: FoundParts, response: PartnerResponse | None) -> PartnerResponse:
        """Return a host's part of all rows: what was found, and what it says of those missing.

        `response` is of the missing rows alone, in their order; None: none is missing.
        Raises: ValueError: they do not fit together; what was found is forgotten.
        """
        missing = found.missing
        if response is not None and len(missing) == len(found.parts):
            return response
        errors: dict[int, Error] = {}
        rows: list[bytes | None] = [None] * len(found.parts)
        try:
            if response is not None:
                errors = {missing[row]: error for row, error in response.errors.items()}
                for row, payload in zip(missing, _rows_of(response, len(missing)), strict=True):
                    rows[row] = payload
            for row, part in enumerate(found.parts):
                if part is not None and part.error is not None:
                    errors[row] = part.error
                elif part is not None:
                    rows[row] = part.payload
            return PartnerResponse(partial=_joined(rows, errors), errors=errors)
        except ValueError:
            self._remove(found.keys)
            raise

    def store(self, found: FoundParts, response: PartnerResponse) -> None:
        """Store what a host said of the missing rows of a look-up, as far as it allows it.

        Nothing is stored if somebody purged the caches meanwhile.
        """
        if not _is_of_features(response):
            return
        valid_s = inf if response.valid_s is None else response.valid_s
        version = None if valid_s <= 0 else response.feature_version
        self._note(found.party, FeatureStatement(version), found.asked_s)
        new = [] if version is None else self._new_parts(found, response, version, valid_s)
        age_s = self._clock.monotonic_s() - found.asked_s
        with self._lock:
            if found.purges != self._purges:
                return
            now_s = self._clock.monotonic_s()
            self._memory.put_many(
                [
                    NewEntry(key, _Held(part, now_s), min(life_s, self._held_s + age_s), age_s)
                    for key, part, life_s in new
                ]
            )
        if self._shared is not None:
            entries = [
                NewEntry(key, _encode(part), life_s, age_s)
                for key, part, life_s in new
                if part.error is None
            ]
            statement = _encode(FeatureStatement(version))
            key = self._keys.statement(found.party)
            self._shared.put_many([*entries, NewEntry(key, statement, self._kept_s, age_s)])
        if found.purges != self._purges:
            self._remove(found.keys)

    def forget(self, scope: CacheScope, party: str, ids: Sequence[Mapping[str, IdValue]]) -> None:
        """Forget parts of rows that turned out to be of no use."""
        self._remove(self._keys.parts(scope, party, ids))

    def purge(self, selection: CacheSelection) -> int:
        """Forget all selected parts; return how many. Raises: CacheNotPurged."""
        with self._lock:
            self._purges += 1
        number = self._memory.purge(selection)
        return number + (self._shared.purge(selection) if self._shared is not None else 0)

    def close(self) -> None:
        """Close the shared cache."""
        if self._shared is not None:
            self._shared.close()

    def _in_process(
        self, party: str, keys: Sequence[CacheKey], now_s: float
    ) -> list[Aged[CachedPart] | None]:
        """Return parts that may be used; those that are here for too long are not fresh."""
        found: list[Aged[CachedPart] | None] = []
        for one in self._memory.get_many(keys):
            if one is None or not self._may_use(party, one.value.part):
                found.append(None)
                continue
            part = one.value.part
            if now_s - one.value.since_s > self._settings.seconds:
                part = msgspec.structs.replace(part, fresh_s=-1.0)
            found.append(Aged(part, one.age_s))
        return found

    def _in_shared(
        self, shared: SharedCache, party: str, keys: Sequence[CacheKey], now_s: float
    ) -> list[Aged[CachedPart] | None]:
        """Return parts that may be used, and hold them in the process, too."""
        *raws, stated = shared.get_many([*keys, self._keys.statement(party)])
        if stated is not None and (statement := _statement(stated.value)) is not None:
            self._note(party, statement, now_s - stated.age_s)
        found: list[Aged[CachedPart] | None] = []
        new = []
        for key, raw in zip(keys, raws, strict=True):
            part = None if raw is None else _part(raw.value)
            if raw is None or part is None or not self._may_use(party, part):
                found.append(None)
                continue
            found.append(Aged(part, raw.age_s))
            if raw.age_s <= part.fresh_s:
                life_s = min(part.fresh_s, raw.age_s + self._held_s)
                new.append(NewEntry(key, _Held(part, now_s), life_s, raw.age_s))
        self._memory.put_many(new)
        return found

    def _new_parts(
        self, found: FoundParts, response: PartnerResponse, version: str, valid_s: float
    ) -> list[tuple[CacheKey, CachedPart, float]]:
        """Return what may be stored: key, part and life."""
        missing = found.missing
        try:
            rows = _rows_of(response, len(missing))
        except ValueError:
            return []  # who uses the answer says so
        fresh_s, kept_s = min(self._fresh_s, valid_s), min(self._kept_s, valid_s)
        negative_s = min(self._settings.negative_seconds, valid_s)
        new = []
        for place, (row, payload) in enumerate(zip(missing, rows, strict=True)):
            error = response.errors.get(place)
            if payload is not None and not is_failed_row(payload):
                new.append((found.keys[row], CachedPart(payload, version, fresh_s), kept_s))
            elif error is not None and error[0] == ServingCode.NO_FEATURES and negative_s > 0:
                part = CachedPart(b"", version, negative_s, error)
                new.append((found.keys[row], part, negative_s))
        return new

    def _note(self, party: str, statement: FeatureStatement, asked_s: float) -> None:
        """Remember what a host says of its features, unless something newer is known."""
        with self._lock:
            known = self._stated.get(party)
            if known is None or asked_s >= known.asked_s:
                self._stated[party] = _Stated(asked_s=asked_s, statement=statement)

    def _may_use(self, party: str, part: CachedPart) -> bool:
        known = self._stated.get(party)
        return known is None or known.statement.feature_version == part.feature_version

    def _remove(self, keys: Sequence[CacheKey]) -> None:
        self._memory.remove_many(keys)
        if self._shared is not None:
            self._shared.remove_many(keys)

    def _count(self, level: str, found: Sequence[object]) -> None:
        hits = sum(one is not None for one in found)
        self._metrics.cache_lookups.add(level, "hit", number=hits)
        self._metrics.cache_lookups.add(level, "miss", number=len(found) - hits)


def _is_fresh(one: Aged[CachedPart]) -> bool:
    return one.age_s <= one.value.fresh_s


def _is_of_features(response: PartnerResponse) -> bool:
    """Tell whether a host found anything out; else its source failed, and it says nothing."""
    stated = bool(response.feature_version) or response.valid_s is not None
    absent = (code == ServingCode.NO_FEATURES for code, _ in response.errors.values())
    return bool(response.partial) or stated or any(absent)


def _part(raw: bytes) -> CachedPart | None:
    try:
        return _parts.decode(raw)
    except msgspec.MsgspecError:  # of another release
        return None


def _statement(raw: bytes) -> FeatureStatement | None:
    try:
        return _statements.decode(raw)
    except msgspec.MsgspecError:
        return None


def _rows_of(response: PartnerResponse, rows: int) -> list[bytes | None]:
    """Return what a host says of each row; None: an error.

    Raises: ValueError: it is no answer to so many rows.
    """
    if not response.partial:
        return [None] * rows
    found = rows_of(response.partial)
    if len(found) != rows:
        raise ValueError(f"it is of {len(found)} rows, not of {rows}")
    return [None if row in response.errors else payload for row, payload in enumerate(found)]


def _joined(rows: Sequence[bytes | None], errors: Mapping[int, Error]) -> bytes:
    """Return one answer for all rows; in the place of one with an error stands another one.

    Raises: ValueError: a row has neither a part nor an error.
    """
    if any(payload is None and row not in errors for row, payload in enumerate(rows)):
        raise ValueError("a part is missing")
    filler = next((payload for payload in rows if payload is not None), None)
    if filler is None:
        return b""
    return join_rows([filler if payload is None else payload for payload in rows])
