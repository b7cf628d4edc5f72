"""Plain JSON read into types, safely from several threads."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec

T = TypeVar("T")

_known: Final[set[Any]] = set()
_learning: Final = Lock()


def read_as(value: Any, kind: type[T], *, dec_hook: Callable[[type, Any], Any] | None = None) -> T:
    """Return plain JSON values as a `kind`; `dec_hook` reads types that msgspec does not know.

    The one way to read into a type that is not read by a decoder of its module. Raises:
    msgspec.ValidationError: the value does not fit, with the path of what is wrong.
    """
    _learn(kind)
    return msgspec.convert(value, kind, dec_hook=dec_hook)


def decode_as(raw: bytes | str, kind: type[T]) -> T:
    """Return JSON text as a `kind`. Raises: msgspec.MsgspecError: no JSON, or it does not fit."""
    _learn(kind)
    return msgspec.json.decode(raw, type=kind)


def mistake_of(exc: msgspec.ValidationError) -> tuple[str, str]:
    """Return where a value does not fit, such as `$.job.cores`, and why."""
    sentence, _, place = str(exc).partition(" - at `")
    return place.removesuffix("`") or "$", sentence.lower()


def _learn(kind: Any) -> None:
    """Let msgspec look at a type once, one thread at a time.

    msgspec (0.22) builds what it knows of a class when it is read into for the first time, and
    without a lock: two threads that do so at once end the process with a segmentation fault.
    """
    if kind in _known:
        return
    with _learning:
        msgspec.json.Decoder(kind)
        _known.add(kind)


def words_of(kind: object) -> list[str]:
    """Return the words that a kind allows, none if it is not an enumeration (or null)."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    return [word for part in get_args(kind) for word in words_of(part)]
