"""Blinding of points with a fresh secret: a(bP) = b(aP), and aP says nothing about P.

Security: the parties follow the protocol but look at all they get (semi-honest). Under the
decisional Diffie-Hellman assumption on curve25519 and with the hash as a random oracle, a blinded
point tells nothing about an id that the other side does not have. X25519 secrets are multiples of
8, which removes small-order components, so a wicked point reveals no bit of the secret. What
stays: both sides learn the sizes of both sets, and a party that adds guessed ids to its set learns
which of them the other side has. A secret serves one pair of parties only, and one attempt unless
the parties keep it in a cache.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedflow.components.intersection.curve import POINT_BYTES, points_of
from fedflow.components.intersection.elements import Elements, parse_elements
from fedflow.sdk.errors import CodecError
from fedflow.sdk.workers import Progress, Workers, no_progress

_HIGHEST_FIRST = np.array([0xED, *[0xFF] * 30, 0x7F], dtype=np.uint8)  # p, little-endian


class CurveCipher:
    """One secret scalar of curve25519 and how to apply it; `workers` do the arithmetic."""

    width = POINT_BYTES

    def __init__(
        self, workers: Workers, *, hash_method: str = "sha256", secret: str | None = None
    ) -> None:
        """`secret` is 64 hexadecimal digits, a new one if None. Raises: ValueError: it is not."""
        self.secret = secrets.token_hex(POINT_BYTES) if secret is None else secret
        # Made here and not in a forked child: `cryptography` imports its backend on first use, and
        # a child that was forked amid another thread's import would wait for it without end.
        _key_of(self.secret)
        self._hash_method = hash_method
        self._workers = workers

    def blind_ids(
        self, ids: pa.Array, domain: bytes, *, progress: Progress = no_progress
    ) -> Elements:
        """Return the blinded point of every id (Arrow strings), in their order."""
        work = functools.partial(_blind_ids, self.secret, domain, self._hash_method)
        return self._workers.fill_rows(work, (ids,), width=POINT_BYTES, progress=progress)

    def blind_elements(self, elements: Elements, *, progress: Progress = no_progress) -> Elements:
        """Return every received point multiplied by the secret, in the order received.

        Raises: CodecError: a point has small order, so the product would be zero.
        """
        work = functools.partial(_blind_points, self.secret)
        return self._workers.fill_rows(work, (elements,), width=POINT_BYTES, progress=progress)

    def parse(self, value: object, *, count: int) -> Elements:
        """Return the `count` points that another party sent, a view.

        Raises: CodecError: another type or length, or a coordinate that is not below the field's
            prime.
        """
        points = parse_elements(value, count=count, width=POINT_BYTES)
        largest = (points[:, 1:] == _HIGHEST_FIRST[1:]).all(axis=1) & (points[:, 0] >= 0xED)
        if (points[:, -1] > 0x7F).any() or largest.any():
            raise CodecError(reason="a received point is not in canonical form")
        return points


# --- on the workers -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _key_of(secret: str) -> X25519PrivateKey:
    """Return the key, which cannot be pickled; made once per process."""
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(secret))


def _blind_ids(secret: str, domain: bytes, hash_method: str, ids: pa.Array) -> bytes:
    return _multiply(secret, points_of(ids.to_pylist(), domain, method=hash_method))


def _blind_points(secret: str, points: Elements) -> bytes:
    data = points.tobytes()
    return _multiply(secret, (data[i : i + POINT_BYTES] for i in range(0, len(data), POINT_BYTES)))


def _multiply(secret: str, points: Iterable[bytes]) -> bytes:
    exchange = _key_of(secret).exchange
    load = X25519PublicKey.from_public_bytes
    try:
        return b"".join(exchange(load(point)) for point in points)
    except ValueError as exc:
        raise CodecError(reason="a received point is not usable") from exc
