"""What a serving process remembers of services: releases, also those before, and options."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

import msgspec

from fedflow.base.errors.serving_process import BindingRefused, ServiceNotBound, VersionNotLoaded
from fedflow.base.values import dataclass
from fedflow.serving.services.releases import Release, Version, release_of, without_version
from fedflow.serving.services.service_options import ServiceOptions
from fedflow.serving.state_file import ADD_SERVICE, StateFile

_KEPT: Final = 100  #: releases per service that a rollback may go back to
_NOT_CURRENT: Final = "UPDATE release SET current = 0 WHERE service_id = ? AND current = 1"

_options: Final = msgspec.json.Decoder(ServiceOptions)
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundService:
    """A service and what answers for it."""

    service_id: str
    release: Release
    options: ServiceOptions
    salt: str  #: hexadecimal
    bound_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PastRelease:
    """What answered for a service once, or answers now."""

    release: Release
    bound_ms: int
    current: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseChange:
    """What a change did."""

    before: Release | None
    now: Release | None


class ServiceState:
    """Releases and options of services. Thread-safe."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    def services(self) -> list[BoundService]:
        """Return the services for which something answers, in the order of their ids."""
        with self._file.transaction() as link:
            rows = link.execute(
                "SELECT release.service_id, release, options, salt, bound_ms FROM release"
                " JOIN service USING (service_id) WHERE current = 1 ORDER BY release.service_id"
            ).fetchall()
        return [
            BoundService(
                service_id=service_id,
                release=release_of(release),
                options=_options.decode(options),
                salt=salt,
                bound_ms=bound_ms,
            )
            for service_id, release, options, salt, bound_ms in rows
        ]

    def history(self, service_id: str) -> list[PastRelease]:
        """Return what answered for a service, the newest first."""
        with self._file.transaction() as link:
            rows = link.execute(
                "SELECT release, bound_ms, current FROM release WHERE service_id = ?"
                " ORDER BY number DESC",
                (service_id,),
            ).fetchall()
        return [
            PastRelease(release=release_of(raw), bound_ms=bound_ms, current=current == 1)
            for raw, bound_ms, current in rows
        ]

    def change(
        self,
        service_id: str,
        changed: Callable[[Release | None], Release],
        *,
        options: ServiceOptions | None = None,
        salt: str | None = None,
        now_ms: int,
    ) -> ReleaseChange:
        """Let what `changed` makes of the release now answer for a service.

        Options and salt that are not given stay as they are; a new service gets a salt of its own.
        Raises: VersionNotLoaded: one of its versions. What `changed` raises.
        """
        with self._file.transaction() as link:
            current = _current(link, service_id)
            before = None if current is None else current[1]
            new = changed(before)
            for one in new.versions:
                _check_loaded(link, one.version)
            _keep_service(link, service_id, options, salt)
            if new != before:
                _put(link, service_id, new, now_ms)
        return ReleaseChange(before=before, now=new)

    def unbind(self, service_id: str) -> ReleaseChange:
        """Let nothing answer for a service; its options stay. Raises: ServiceNotBound."""
        with self._file.transaction() as link:
            current = _current(link, service_id)
            if current is None:
                raise ServiceNotBound(service_id=service_id)
            link.execute(_NOT_CURRENT, (service_id,))
        return ReleaseChange(before=current[1], now=None)

    def roll_back(self, service_id: str) -> ReleaseChange:
        """Let the release before this one answer again; a second call goes back further.

        What was rolled back is passed over later.

        Raises: ServiceNotBound. BindingRefused: there is none before, or one of its versions is not
            loaded any more.
        """
        with self._file.transaction() as link:
            now = _current(link, service_id)
            if now is None:
                raise ServiceNotBound(service_id=service_id)
            number, release = now
            earlier = link.execute(
                "SELECT number, release FROM release WHERE service_id = ? AND number < ?"
                " AND current = 0 ORDER BY number DESC",
                (service_id, number),
            ).fetchall()
            found = ((place, release_of(raw)) for place, raw in earlier)
            before = next(((p, one) for p, one in found if one != release), None)
            if before is None:
                raise BindingRefused(service_id=service_id, reason="no version was bound before")
            for one in before[1].versions:
                _check_still_loaded(link, service_id, one.version)
            link.execute("UPDATE release SET current = -1 WHERE number = ?", (number,))
            link.execute("UPDATE release SET current = 1 WHERE number = ?", (before[0],))
        return ReleaseChange(before=release, now=before[1])


def drop_version(link: sqlite3.Connection, version: Version, now_ms: int) -> list[str]:
    """Take a version out of all releases; return the services that it belonged to.

    A service for which nothing else answers is unbound.
    """
    rows = link.execute("SELECT service_id, release FROM release WHERE current = 1").fetchall()
    dropped = []
    for service_id, raw in rows:
        before = release_of(raw)
        if not before.has(version):
            continue
        dropped.append(service_id)
        rest = without_version(before, version)
        if rest is None:
            link.execute(_NOT_CURRENT, (service_id,))
        else:
            _put(link, service_id, rest, now_ms)
    return sorted(dropped)


def _current(link: sqlite3.Connection, service_id: str) -> tuple[int, Release] | None:
    row = link.execute(
        "SELECT number, release FROM release WHERE service_id = ? AND current = 1", (service_id,)
    ).fetchone()
    return None if row is None else (row[0], release_of(row[1]))


def _put(link: sqlite3.Connection, service_id: str, release: Release, now_ms: int) -> None:
    link.execute(_NOT_CURRENT, (service_id,))
    link.execute(
        "INSERT INTO release (service_id, release, bound_ms, current) VALUES (?, ?, ?, 1)",
        (service_id, _encoder.encode(release).decode(), now_ms),
    )
    link.execute(
        "DELETE FROM release WHERE service_id = ? AND number NOT IN (SELECT number FROM release"
        " WHERE service_id = ? ORDER BY number DESC LIMIT ?)",
        (service_id, service_id, _KEPT),
    )


def _keep_service(
    link: sqlite3.Connection, service_id: str, options: ServiceOptions | None, salt: str | None
) -> None:
    link.execute(ADD_SERVICE, (service_id,))
    for column, value in (
        ("options", None if options is None else _encoder.encode(options).decode()),
        ("salt", salt),
    ):
        if value is not None:
            link.execute(
                f"UPDATE service SET {column} = ? WHERE service_id = ?",  # noqa: S608  our names
                (value, service_id),
            )


def _check_loaded(link: sqlite3.Connection, version: Version) -> None:
    found = link.execute(
        "SELECT 1 FROM load WHERE state = 'loaded' AND model_id = ? AND model_version = ?", version
    ).fetchone()
    if found is None:
        raise VersionNotLoaded(model_id=version[0], model_version=version[1])


def _check_still_loaded(link: sqlite3.Connection, service_id: str, version: Version) -> None:
    try:
        _check_loaded(link, version)
    except VersionNotLoaded as exc:
        reason = f"version {version[1]}, bound before, is not loaded any more"
        raise BindingRefused(service_id=service_id, reason=reason) from exc
