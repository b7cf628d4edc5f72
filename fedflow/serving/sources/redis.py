"""Features from Redis: a hash or a JSON text per key, and ids are parts of the key.

    features:
      source: redis
      options: {host: 127.0.0.1, key: "risk:{device_id}", value: hash}

Of an id, letters, digits and the signs `_ . - ~` stand in the key as they are; the bytes of all
other characters stand there as `%` and two digits. So no id reaches the key of another one. The
keys of a request are asked for at once. This needs the package `redis`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.codes import ServingCode
from fedflow.serving.sources.source import (
    FeatureFault,
    FoundFeatures,
    Ids,
    Validity,
    as_features,
    failed_source,
    key_of,
    not_found,
    options_as,
)

_LONGEST_KEY: Final = 8_192  #: bytes
_PART: Final = re.compile(r"\{([^{}]*)\}")
_OF_IDS: Final = re.compile(r"[A-Za-z0-9_.~%-]*")  #: what an id can be in a key


class RedisOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source `redis`."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 6379
    db: Annotated[int, msgspec.Meta(ge=0)] = 0
    username: str | None = None
    password: str | None = None
    ca: str | None = None  #: PEM file of the server's authority; None: without TLS
    key: str  #: with ids in braces, such as `risk:{device_id}`
    value: Literal["hash", "json"] = "hash"  #: what a key holds
    connections: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8  #: at once
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=60_000)] = 500  #: of a request, or a connect
    valid_s: Validity = None


class KeyTemplate:
    """Makes keys of ids."""

    def __init__(self, template: str) -> None:
        """Raises: ValueError: it has no id, or two ids could not be told from each other."""
        pieces = _PART.split(template)
        self._literals, self.names = pieces[::2], tuple(pieces[1::2])
        if not self.names or not all(self.names):
            raise ValueError("it needs ids, such as risk:{device_id}")
        if any("{" in literal or "}" in literal for literal in self._literals):
            raise ValueError("a brace has no partner")
        if any(_OF_IDS.fullmatch(between) for between in self._literals[1:-1]):
            raise ValueError("between two ids there must be a sign such as a colon")

    def key(self, ids: Ids) -> str | FeatureFault:
        """Return the key of an item."""
        texts = key_of(ids, self.names)
        if isinstance(texts, FeatureFault):
            return texts
        parts = [quote(text, safe="") for text in texts]
        key = "".join(a + b for a, b in zip(self._literals, [*parts, ""], strict=True))
        if len(key) > _LONGEST_KEY:
            return FeatureFault(retcode=ServingCode.FEATURES, reason="the ids are too long")
        return key


class RedisFeatures:
    """The features that keys hold."""

    def __init__(self, options: RedisOptions, template: KeyTemplate) -> None:
        self._template = template
        self._valid_s = options.valid_s
        self.id_names = frozenset(template.names)
        self._command = "HGETALL" if options.value == "hash" else "GET"
        self._read = _of_hash if options.value == "hash" else _of_json
        self._clock = SystemClock()
        timeout_s = options.timeout_ms / 1000
        self._pool = redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]
            max_connections=options.connections,
            timeout=timeout_s,
            host=options.host,
            port=options.port,
            db=options.db,
            username=options.username,
            password=options.password,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # a server that was started again
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
            protocol=2,
            **_secured(options.ca),
        )
        self._link: Any = redis.Redis(connection_pool=self._pool)

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        """Return what the key of each item holds."""
        keys = [self._template.key(one) for one in ids]
        good = [key for key in keys if isinstance(key, str)]
        if self._clock.monotonic_s() >= deadline_s:
            return [failed_source("no time was left to ask Redis")] * len(ids)
        try:
            held = iter(self._held(good))
        except (redis.RedisError, OSError) as exc:
            return [failed_source(f"Redis failed ({type(exc).__name__})")] * len(ids)
        found = (
            key if isinstance(key, FeatureFault) else self._features(next(held)) for key in keys
        )
        return FoundFeatures(found, valid_s=self._valid_s)

    def close(self) -> None:
        """Close the connections."""
        self._pool.disconnect()

    def _held(self, keys: Sequence[str]) -> Sequence[Any]:
        """Return what keys hold, an error in the place of one. Raises: redis.RedisError."""
        if not keys:
            return []
        with self._link.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.execute_command(self._command, key)
            found: Sequence[Any] = pipeline.execute(raise_on_error=False)
        return found

    def _features(self, held: Any) -> Mapping[str, Any] | FeatureFault:
        if isinstance(held, Exception):
            return failed_source(f"the key holds something else ({type(held).__name__})")
        return self._read(held) if held else not_found()


def _of_hash(held: Mapping[bytes, bytes]) -> Mapping[str, Any] | FeatureFault:
    """Return the fields of a hash; numbers are texts, which models read."""
    try:
        values = {name.decode(): value.decode() for name, value in held.items()}
    except UnicodeDecodeError:
        return failed_source("the hash holds bytes that are no text")
    return {name: value for name, value in values.items() if value}


_objects: Final = msgspec.json.Decoder(dict[str, str | int | float | bool | None])


def _of_json(held: bytes) -> Mapping[str, Any] | FeatureFault:
    try:
        values = _objects.decode(held)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return failed_source("the key holds no JSON object of numbers and texts")
    return as_features(list(values), list(values.values()))


def _secured(ca: str | None) -> dict[str, Any]:
    if ca is None:
        return {}
    return {
        "connection_class": redis.SSLConnection,
        "ssl_ca_certs": ca,
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
    }


def open_source(options: Mapping[str, Any]) -> RedisFeatures:
    """Return the source; Redis is not asked yet. Raises: BadServingSetting."""
    given = options_as(options, RedisOptions)
    if given.ca is not None and not Path(given.ca).is_file():
        raise BadServingSetting(path="features.options.ca", reason=f"{given.ca} is no file")
    try:
        template = KeyTemplate(given.key)
    except ValueError as exc:
        raise BadServingSetting(path="features.options.key", reason=str(exc)) from exc
    return RedisFeatures(given, template)
