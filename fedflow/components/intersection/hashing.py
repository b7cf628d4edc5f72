"""Ids to bytes that look random: hashes of any length, each for one use only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash


def domain_of(*parts: str) -> bytes:
    """Return the prefix that separates hashes of one use from all others.

    The number of parts and the length of each are written too, so no two lists of parts give the
    same prefix, nor one that is the beginning of another.
    """
    encoded = [part.encode() for part in parts]
    head = len(encoded).to_bytes(4, "big")
    return head + b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


def is_available(method: str) -> bool:
    """Tell whether this machine's OpenSSL has the hash (`sm3` is not in all of them)."""
    try:
        hash_of(method)
    except ValueError:
        return False
    return True


def hash_of(method: str, data: bytes = b"") -> _Hash:
    """Return a hash object that has read `data`. Raises: ValueError: the hash is not available.

    No use in this package relies on collision resistance of a weak one (`md5`, `sha1`): it names
    signatures that are checked, or bits of a filter that is not exact anyway.
    """
    return hashlib.new(method, data, usedforsecurity=False)


def spread(ids: Iterable[str], domain: bytes, *, method: str, size: int) -> Iterator[bytes]:
    """Yield `size` bytes for each id: the blocks H(domain, counter, length of the id, id).

    With H as a random oracle the bytes are independent and uniform. `counter` and length have 32
    bits, the id is UTF-8. Source: RFC 8017, appendix B.2.1 (MGF1), with the input after the
    counter.
    """
    blocks = -(-size // hash_of(method).digest_size)
    prefixes = [hash_of(method, domain + block.to_bytes(4, "big")) for block in range(blocks)]
    for text in ids:
        data = text.encode()
        framed = len(data).to_bytes(4, "big") + data
        digests = []
        for prefix in prefixes:
            digest = prefix.copy()
            digest.update(framed)
            digests.append(digest.digest())
        yield b"".join(digests)[:size]
