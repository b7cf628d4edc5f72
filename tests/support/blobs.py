"""Contents of models in memory, for tests and simulations, with faults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from fedflow.base.errors.models import BlobDamaged


class MemoryBlobs:
    """See `fedflow.app.ports.models.ModelBlobs`. Everything in it counts as old."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        self.contents[sha256] = content
        return sha256

    def get(self, sha256: str) -> bytes:
        content = self.contents.get(sha256)
        if content is None:
            raise BlobDamaged(sha256=sha256, reason="it is gone")
        if hashlib.sha256(content).hexdigest() != sha256:
            raise BlobDamaged(sha256=sha256, reason="the file was changed")
        return content

    def has(self, sha256: str) -> bool:
        return sha256 in self.contents

    def old(self, older_than_ms: int) -> Iterator[str]:
        yield from sorted(self.contents)

    def remove(self, sha256: str, *, older_than_ms: int) -> bool:
        return self.contents.pop(sha256, None) is not None

    def damage(self, sha256: str) -> None:
        """Change what is stored, as a broken disk would."""
        self.contents[sha256] += b"!"
