"""The numbers of a network as arrays by name, and as bytes of a stored model. Never pickles.

Bytes: the length of a header (4 bytes), the header (JSON: name, shape and type of each array), then
the arrays one after the other; all little-endian.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.sdk import BadData
from fedflow.sdk.decoding import read_as

MOST_NUMBERS: Final = 1 << 30  #: of a network
_TYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "f4": np.dtype("<f4"),
    "f8": np.dtype("<f8"),
    "i8": np.dtype("<i8"),
}

States = Mapping[str, NDArray[Any]]  #: float32, float64 or int64


class _Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    shape: list[int]
    type: str


def to_bytes(states: States) -> bytes:
    """Return arrays as bytes. Raises: KeyError: an array has another type."""
    arrays = {n: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for n, a in states.items()}
    places = [
        {"name": name, "shape": list(array.shape), "type": _type_of(array)}
        for name, array in arrays.items()
    ]
    header = json.dumps(places).encode()
    parts = [array.tobytes() for array in arrays.values()]
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])


def from_bytes(content: bytes) -> dict[str, NDArray[Any]]:
    """Return what `to_bytes` was given. Raises: BadData: it is none of that."""
    try:
        size = int.from_bytes(content[:4], "little")
        places = read_as(json.loads(content[4 : 4 + size]), list[_Place])
        start, arrays = 4 + size, {}
        for place in places:
            kind, count = _TYPES[place.type], _count(place.shape)
            if place.name in arrays or start + count * kind.itemsize > len(content):
                raise ValueError("an array is there twice, or not whole")
            flat = np.frombuffer(content, kind, count=count, offset=start)
            arrays[place.name] = flat.reshape(place.shape)
            start += count * kind.itemsize
        if start != len(content) or not all(np.isfinite(a).all() for a in arrays.values()):
            raise ValueError("it has other bytes, or a number that is not finite")
    except (KeyError, ValueError, msgspec.ValidationError) as exc:
        raise BadData(where="the model input", reason=f"no arrays of a network ({exc})") from exc
    return arrays


def averaged(states: States) -> dict[str, NDArray[np.float64]]:
    """Return what travels: every array as float64."""
    return {name: np.asarray(array, dtype=np.float64) for name, array in states.items()}


def as_before(means: Mapping[str, NDArray[np.float64]], like: States) -> dict[str, NDArray[Any]]:
    """Return means with the types of the network's own; counters are rounded.

    Raises: ValueError: other names or shapes.
    """
    if set(means) != set(like):
        raise ValueError("the arrays are not those of this network")
    found: dict[str, NDArray[Any]] = {}
    for name, own in like.items():
        if means[name].shape != own.shape:
            raise ValueError(f"array {name!r} has another shape")
        values = np.rint(means[name]) if own.dtype.kind == "i" else means[name]
        found[name] = values.astype(own.dtype)
    return found


def _type_of(array: NDArray[Any]) -> str:
    return next(name for name, kind in _TYPES.items() if kind == array.dtype)


def _count(shape: list[int]) -> int:
    """Return how many numbers a shape has. Raises: ValueError: it is none, or they are too many."""
    if any(side < 0 for side in shape) or len(shape) > 16:
        raise ValueError("a shape is none")
    count = math.prod(shape)
    if count > MOST_NUMBERS:
        raise ValueError(f"more than {MOST_NUMBERS} numbers")
    return count
