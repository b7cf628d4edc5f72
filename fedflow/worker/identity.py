"""Signatures of a task: its server makes and verifies them, by the parties' certificates."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from fedflow.domain.site import Site
from fedflow.wire.worker_commands import SignContent, SignedContent, VerifySignatures
from fedflow.worker.report import ServerLink


class WorkerIdentity:
    """See `fedflow.sdk.Identity`. Raises: ServerNotReachable, ServerRefused."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def sign(self, content: bytes) -> bytes:
        return self._link.call(SignContent(content=_text(content))).encode()

    def verify(self, signed: Sequence[tuple[Site, bytes, bytes]]) -> list[bool]:
        claims = [
            SignedContent(
                site=site.key,
                content=_text(content),
                signature=signature.decode(errors="replace"),
            )
            for site, content, signature in signed
        ]
        answer = self._link.call(VerifySignatures(signed=claims))
        return [*answer, *[False] * (len(claims) - len(answer))][: len(claims)]


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
