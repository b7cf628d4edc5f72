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
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedflow.base.errors import CodecError
from fedflow.components.processes import fill_rows, no_progress
from fedflow.components.psi.curve import POINT_BYTES, points_of
from fedflow.components.psi.elements import Elements, parse_elements

_HIGHEST_FIRST = np.array([0xED, *[0xFF] * 30, 0x7F], dtype=np.uint8)  # p, little-endian


class CurveCipher:
    """One secret scalar of curve25519 and how to apply it."""

    width = POINT_BYTES

    def __init__(
        self, *, hash_method: str = "sha256", processes: int = 1, secret: str | None = None
    ) -> None:
        """`secret` is 64 hexadecimal digits, a new one if None. Raises: ValueError: it is not."""
        self.secret = secrets.token_hex(POINT_BYTES) if secret is None else secret
        # Made here and not in a forked child: `cryptography` imports its backend on first use, and
        # a child that was forked amid another thread's import would wait for it without end.
        self._key = X25519PrivateKey.from_private_bytes(bytes.fromhex(self.secret))
        self._hash_method = hash_method
        self._processes = processes

    def blind_ids(
        self, ids: pa.Array, domain: bytes, *, progress: Callable[[float], None] = no_progress
    ) -> Elements:
        """Return the blinded point of every id (Arrow strings), in their order."""

        def work(start: int, stop: int, out: memoryview) -> None:
            texts = ids.slice(start, stop - start).to_pylist()
            out[:] = self._multiply(points_of(texts, domain, method=self._hash_method))

        return self._fill(len(ids), work, progress)

    def blind_elements(
        self, elements: Elements, *, progress: Callable[[float], None] = no_progress
    ) -> Elements:
        """Return every received point multiplied by the secret, in the order received.

        Raises: CodecError: a point has small order, so the product would be zero.
        """

        def work(start: int, stop: int, out: memoryview) -> None:
            data = elements[start:stop].tobytes()
            places = range(0, len(data), POINT_BYTES)
            out[:] = self._multiply(data[i : i + POINT_BYTES] for i in places)

        return self._fill(len(elements), work, progress)

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

    def _fill(
        self,
        count: int,
        work: Callable[[int, int, memoryview], None],
        progress: Callable[[float], None],
    ) -> Elements:
        return fill_rows(
            count, POINT_BYTES, work, processes=self._processes, progress=progress, cost=1
        )

    def _multiply(self, points: Iterable[bytes]) -> bytes:
        exchange = self._key.exchange
        load = X25519PublicKey.from_public_bytes
        try:
            return b"".join(exchange(load(point)) for point in points)
        except ValueError as exc:
            raise CodecError(reason="a received point is not usable") from exc
