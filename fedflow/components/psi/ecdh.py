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

import secrets
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedflow.base.errors import CodecError
from fedflow.components.psi.curve import POINT_BYTES, points_of
from fedflow.components.psi.workers import Points, fill_points

_HIGHEST_FIRST = np.array([0xED, *[0xFF] * 30, 0x7F], dtype=np.uint8)  # p, little-endian


def no_progress(done: float) -> None:
    """Ignore the progress."""


class Blinder:
    """One secret scalar and how to apply it."""

    def __init__(self, *, processes: int = 1, secret: bytes | None = None) -> None:
        secret = secrets.token_bytes(POINT_BYTES) if secret is None else secret
        # Made here and not in a forked child: `cryptography` imports its backend on first use, and
        # a child that was forked amid another thread's import would wait for it without end.
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self._processes = processes

    def blind_ids(
        self, ids: pa.Array, domain: bytes, *, progress: Callable[[float], None] = no_progress
    ) -> Points:
        """Return the blinded point of every id (Arrow strings), in their order."""

        def work(start: int, stop: int, out: memoryview) -> None:
            texts = ids.slice(start, stop - start).to_pylist()
            out[:] = self._multiply(points_of(texts, domain))

        return fill_points(len(ids), work, processes=self._processes, progress=progress)

    def blind_points(
        self, points: Points, *, progress: Callable[[float], None] = no_progress
    ) -> Points:
        """Return every received point multiplied by the secret, in the order received.

        Raises: CodecError: a point has small order, so the product would be zero.
        """

        def work(start: int, stop: int, out: memoryview) -> None:
            data = points[start:stop].tobytes()
            places = range(0, len(data), POINT_BYTES)
            out[:] = self._multiply(data[i : i + POINT_BYTES] for i in places)

        return fill_points(len(points), work, processes=self._processes, progress=progress)

    def _multiply(self, points: Iterable[bytes]) -> bytes:
        exchange = self._key.exchange
        load = X25519PublicKey.from_public_bytes
        try:
            return b"".join(exchange(load(point)) for point in points)
        except ValueError as exc:
            raise CodecError(reason="a received point is not usable") from exc


def parse_points(value: object, *, count: int) -> Points:
    """Return the `count` points that another party sent, a view.

    Raises: CodecError: another type or length, or a coordinate that is not below the field's prime.
    """
    if not isinstance(value, bytes) or len(value) != count * POINT_BYTES:
        size = len(value) if isinstance(value, bytes) else type(value).__name__
        raise CodecError(reason=f"expected {count} points of {POINT_BYTES} bytes, got {size}")
    points = np.frombuffer(value, np.uint8).reshape(count, POINT_BYTES)
    top = points[:, -1]
    largest = (points[:, 1:] == _HIGHEST_FIRST[1:]).all(axis=1) & (points[:, 0] >= 0xED)
    if (top > 0x7F).any() or largest.any():
        raise CodecError(reason="a received point is not in canonical form")
    return points


def as_column(points: Points) -> pa.Array:
    """Return points as an Arrow column for matching, a view."""
    buffer = pa.py_buffer(np.ascontiguousarray(points))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(POINT_BYTES), len(points), [None, buffer])


def check_distinct(column: pa.Array) -> None:
    """Raise CodecError if a doubly blinded value occurs twice, which distinct ids never give."""
    if pc.count_distinct(column).as_py() != len(column):
        raise CodecError(reason="the received points contain duplicates")


def secret_order(points: Points) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the order in which to send blinded points: sorted by value.

    Blinded values look random, so positions in it say nothing about the order of the rows.
    """
    leading = np.ascontiguousarray(points[:, :8]).view("<u8").ravel()
    return np.argsort(leading, kind="stable")
