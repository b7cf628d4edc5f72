"""One Paillier key for all runs of components in a test process.

Making a key, and each party's tables for it, takes longer than the small trainings of the tests.
What is drawn for a ciphertext is fresh in each run all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey

_generate, _parse = PrivateKey.generate, PublicKey.parse
_halves: dict[str, PublicKey] = {}


@contextmanager
def shared_keys() -> Iterator[None]:
    """Let keys of one length be one key, and what parties read of it one object."""
    with (
        patch.object(PrivateKey, "generate", staticmethod(_known_key)),
        patch.object(PublicKey, "parse", staticmethod(_known_half)),
    ):
        yield


@cache
def _known_key(bits: int, **how: Any) -> PrivateKey:
    return _generate(bits, **how)


def _known_half(text: object, **how: Any) -> PublicKey:
    name = repr((text, how))
    if name not in _halves:
        _halves[name] = _parse(text, **how)
    return _halves[name]
