"""Who asks at the callers' ports: keys, the services that a caller may ask, and its rate.

The settings have digests of keys, never keys. A key is random and long, so one SHA-256 is enough.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import TokenNotValid
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.rates import Rate
from fedflow.serving.settings import SHARED_CALLER, CallerKey

_SCHEME: Final = "bearer"


class Caller:
    """One who asks for scores. Thread-safe."""

    def __init__(
        self, name: str, *, services: frozenset[str] | None = None, rate: Rate | None = None
    ) -> None:
        """`services` may be asked, None: all; without `rate` as often as it likes."""
        self.name = name
        self._services = services
        self._rate = rate

    def fault(self, service_id: str, rows: int = 0) -> ItemAnswer | None:
        """Return why a request is not answered, None if it is; its rows count then.

        A request that names a version has no service: only those who may ask all services may.
        """
        if self._services is not None and service_id not in self._services:
            what = f"the service {service_id[:100]}" if service_id else "without a service"
            return failed(ServingCode.AUTHORISATION, f"this key may not ask {what}")
        if self._rate is not None and rows and not self._rate.take(rows):
            return failed(ServingCode.OVERLOAD, "more rows per second than this key may ask for")
        return None


ANYBODY: Final = Caller("")


class CallerKeys:
    """Finds the caller of a request by its bearer token. Thread-safe."""

    def __init__(self, keys: Sequence[CallerKey], token: str | None, clock: Clock) -> None:
        """`token` is the one of the settings; with neither, everybody may ask."""
        callers: dict[str, Caller] = {}
        self._callers: dict[bytes, Caller] = {}
        for key in keys:
            if key.name not in callers:
                callers[key.name] = _caller(key, clock)
            self._callers[bytes.fromhex(key.sha256)] = callers[key.name]
        if token is not None:
            self._callers[_digest(token)] = Caller(SHARED_CALLER)

    def caller_of(self, authorization: str) -> Caller:
        """Return who sent a header `Authorization`, or metadata of gRPC with that name.

        Raises: TokenNotValid: a token is asked for, and this is none.
        """
        if not self._callers:
            return ANYBODY
        scheme, _, token = authorization.strip().partition(" ")
        caller = self._callers.get(_digest(token.strip()))
        if scheme.lower() != _SCHEME or caller is None:
            raise TokenNotValid
        return caller


def new_key() -> tuple[str, str]:
    """Return a new key and its digest, as `callers.keys` has it."""
    key = secrets.token_urlsafe(32)
    return key, _digest(key).hex()


def _caller(key: CallerKey, clock: Clock) -> Caller:
    services = None if key.services is None else frozenset(key.services)
    rate = None
    if key.per_second is not None:
        rate = Rate(key.per_second, max(key.per_second, 1.0), clock)
    return Caller(key.name, services=services, rate=rate)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
