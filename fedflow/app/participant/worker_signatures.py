"""Signatures of running tasks with the key of this party's certificate, which no task ever has.

What is signed is bound to job, component, attempt and site by the server, so a task can sign for
itself alone, and a signature means nothing in another task.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from fedflow.app.participant.task_reports import Workers
from fedflow.app.ports.store import Store
from fedflow.base.errors.parties import NoCertificate
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Site
from fedflow.wire.worker_commands import SignedContent

MOST_CONTENT: Final = 65_536  #: bytes that are signed at once
MOST_SIGNED: Final = 1_000  #: signatures that are verified at once


class Signer(Protocol):
    """The key of this party's certificate, and the authorities of others'."""

    def sign(self, content: bytes) -> str:
        """Return this party's signature of `content`."""

    def is_signed(self, content: bytes, signature: str, *, party_id: str) -> bool:
        """Tell whether it is the signature of a party whose certificate is valid now."""


class WorkerSignatures:
    """The executors' counterpart for signatures."""

    def __init__(
        self, *, store: Store, workers: Workers, signer: Callable[[], Signer | None]
    ) -> None:
        self._store, self._workers, self._signer = store, workers, signer

    def sign(self, key: TaskKey, token: str, content: str) -> str:
        """Return the signature of base64 `content` by this task's site.

        Raises: TaskNotFound, NotAuthenticated, LaunchRefused: as `Workers.authentic`. BadRequest.
            NoCertificate: this server has no TLS.
        """
        self._check(key, token)
        return self._own().sign(_signed(key, key.site, _bytes(content)))

    def verify(self, key: TaskKey, token: str, signed: Sequence[SignedContent]) -> list[bool]:
        """Tell of each content whether a site signed it in this task. Raises: as `sign`."""
        self._check(key, token)
        if len(signed) > MOST_SIGNED:
            raise BadRequest(reason=f"{len(signed)} signatures; {MOST_SIGNED} are verified at once")
        signer = self._own()
        return [
            signer.is_signed(
                _signed(key, site, _bytes(one.content)), one.signature, party_id=site.party_id
            )
            for one in signed
            for site in (_site(one.site),)
        ]

    def _check(self, key: TaskKey, token: str) -> None:
        with self._store.read() as tx:
            self._workers.authentic(tx, key, token)

    def _own(self) -> Signer:
        signer = self._signer()
        if signer is None:
            raise NoCertificate
        return signer


def _signed(key: TaskKey, site: Site, content: bytes) -> bytes:
    """Return what is signed: nothing else that a certificate's key signs begins like this."""
    parts = ("fedflow task", key.job_id, key.component, str(key.version), site.key)
    coded = [part.encode() for part in parts]
    return b"".join(len(one).to_bytes(4) + one for one in (*coded, content))


def _bytes(content: str) -> bytes:
    try:
        found = base64.b64decode(content, validate=True)
    except binascii.Error as exc:
        raise BadRequest(reason="the content is no base64") from exc
    if len(found) > MOST_CONTENT:
        raise BadRequest(reason=f"the content has more than {MOST_CONTENT} bytes")
    return found


def _site(key: str) -> Site:
    try:
        return Site.from_key(key)
    except ValueError as exc:
        raise BadRequest(reason="a site is not `role-party_id`") from exc
