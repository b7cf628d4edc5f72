"""Keys of cached values: HMACs (SHA-256) with a secret of this party.

A key has four parts. `entry` is over everything that the value depends on. The others are short and
find entries to remove: those of a service, of a model version, or of somebody's ids.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from fedflow.base.errors.serving_process import BadServingSetting, ServingStateNotUsable
from fedflow.base.values import dataclass
from fedflow.serving.partners.messages import IdValue

TAG_BYTES: Final = 8  #: of the parts that find entries
_LEAST_BYTES: Final = 32  #: of a secret
_name: Final = itemgetter(0)
_NUMBERS_AND_TEXTS: Final = tuple("biufSU")  #: kinds of numpy; times would need their units, too


class CacheKey(NamedTuple):
    """The key of one value."""

    service: bytes
    version: bytes
    ids: bytes
    entry: bytes

    @property
    def whole(self) -> bytes:
        """Return the key as bytes."""
        return b"".join(self)


class CacheSelection(NamedTuple):
    """Entries that have these parts; None: any."""

    service: bytes | None = None
    version: bytes | None = None
    ids: bytes | None = None

    def matches(self, key: CacheKey) -> bool:
        """Tell whether the entry of a key is among them."""
        wanted = zip(self, key, strict=False)
        return all(part is None or part == own for part, own in wanted)


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheScope:
    """What answers a request."""

    service_id: str  #: empty: the request named a version
    model_version: str
    digest: str  #: of the version


class CacheKeys:
    """Makes keys. Thread-safe."""

    def __init__(self, secret: bytes) -> None:
        self._tags = _hmac(secret, b"tags")
        self._entries = _hmac(secret, b"entries")
        self._seals = _hmac(secret, b"seals")
        self.namespace = _hmac(secret, b"namespace")[:TAG_BYTES].hex()
        """Tells entries of this secret from those of others in the same Redis."""

    def results(
        self, scope: CacheScope, rows: Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any]]]
    ) -> list[CacheKey]:
        """Return the keys of results; rows have request id, features and ids."""
        head = _pack(["result", scope.service_id, scope.digest])
        service, version = self._scope_tags(scope)
        found = []
        for request_id, features, ids in rows:
            row = b"".join((head, _pack(request_id), _canonical(features), _canonical(ids)))
            tag = self._tag("ids", _texts(ids))
            found.append(CacheKey(service, version, tag, _hmac(self._entries, row)))
        return found

    def parts(
        self, scope: CacheScope, party: str, rows: Sequence[Mapping[str, IdValue]]
    ) -> list[CacheKey]:
        """Return the keys of a host's parts, by the ids of rows."""
        head = _pack(["part", scope.service_id, scope.digest, party])
        service, version = self._scope_tags(scope)
        return [
            CacheKey(
                service,
                version,
                self._tag("ids", _texts(ids)),
                _hmac(self._entries, head + _canonical(ids)),
            )
            for ids in rows
        ]

    def statement(self, party: str) -> CacheKey:
        """Return the key of what a host last said of its features; it has no service or ids."""
        none = bytes(TAG_BYTES)
        entry = _hmac(self._entries, _pack(["statement", party]))
        return CacheKey(service=none, version=none, ids=none, entry=entry)

    def selection(
        self,
        *,
        service_id: str | None = None,
        model_version: str | None = None,
        ids: Mapping[str, IdValue] | None = None,
    ) -> CacheSelection:
        """Return what finds entries of a service, a version and ids; without them, all."""
        return CacheSelection(
            service=None if service_id is None else self._tag("service", service_id),
            version=None if model_version is None else self._tag("version", model_version),
            ids=None if ids is None else self._tag("ids", _texts(ids)),
        )

    def seal_of(self, key: CacheKey, content: bytes) -> bytes:
        """Return what proves that this party wrote a content under a key, 16 bytes."""
        return _hmac(self._seals, key.whole + content)[:16]

    def _scope_tags(self, scope: CacheScope) -> tuple[bytes, bytes]:
        return self._tag("service", scope.service_id), self._tag("version", scope.model_version)

    def _tag(self, kind: str, value: object) -> bytes:
        return _hmac(self._tags, _pack([kind, value]))[:TAG_BYTES]


def _hmac(secret: bytes, message: bytes) -> bytes:
    return hmac.digest(secret, message, "sha256")


def _canonical(values: Mapping[str, Any]) -> bytes:
    """Return bytes that differ if names, values or their types do; the order does not matter.

    A hook may set what has no such bytes. A row with that gets others each time: it is not found.
    """
    items = sorted(values.items(), key=_name)
    try:
        return _pack(items)
    except OverflowError:  # a whole number of more than 64 bits; no other value is a list of texts
        return _pack([(name, [str(one)] if type(one) is int else one) for name, one in items])
    except (TypeError, ValueError, RecursionError):
        return secrets.token_bytes(32)


def _of_numpy(value: Any) -> list[Any]:
    """Return what stands for a scalar of numpy. Raises: TypeError: it is none."""
    kind = type(value)
    dtype = getattr(value, "dtype", None) if kind.__module__ == "numpy" else None
    if getattr(value, "shape", None) != () or getattr(dtype, "kind", "") not in _NUMBERS_AND_TEXTS:
        raise TypeError(f"{kind.__name__} has no bytes of its own")
    return [kind.__name__, value.tolist()]


_pack: Final = msgspec.msgpack.Encoder(enc_hook=_of_numpy).encode


def _texts(ids: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """Return ids as sources compare them: 8, 8.0 and "8" are one."""
    return sorted((_utf8(name), _utf8(_text(value))) for name, value in ids.items())


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def new_secret() -> bytes:
    """Return a secret that nobody has."""
    return secrets.token_hex(_LEAST_BYTES).encode()


def read_secret(path: Path) -> bytes:
    """Return the secret in a file that several processes have. Raises: BadServingSetting."""
    try:
        return _secret_in(path)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise BadServingSetting(path="caches.key_file", reason=f"{path}: {reason}") from exc


def own_secret(path: Path) -> bytes:
    """Return the secret in a file of this process, which is made the first time.

    Raises: ServingStateNotUsable.
    """
    try:
        if not path.exists():
            _make(path, new_secret())
        return _secret_in(path)
    except (OSError, ValueError) as exc:
        raise ServingStateNotUsable(path=str(path), reason=str(exc)) from exc


def _secret_in(path: Path) -> bytes:
    """Raises: OSError, ValueError: it is too short, or anybody may read it."""
    secret = path.read_bytes().strip()
    if len(secret) < _LEAST_BYTES:
        raise ValueError(f"it has less than {_LEAST_BYTES} bytes")
    if path.stat().st_mode & 0o007:
        raise ValueError("every user of this machine may read it, or write it")
    return secret


def _make(path: Path, secret: bytes) -> None:
    """Write a file that is not there; another process may be first, and its file stays."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()
