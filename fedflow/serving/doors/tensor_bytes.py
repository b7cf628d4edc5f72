"""Values of a tensor as bytes, and back: little-endian, row-major, nothing between them.

Source: KServe, "Binary Tensor Data Extension", and `raw_input_contents` of the protocol's gRPC.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isnan, nan
from typing import Any, Final

_CODES: Final = {
    "BOOL": "B",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
_LENGTH: Final = struct.Struct("<I")


def unpack_values(datatype: str, raw: bytes, number: int) -> list[Any]:
    """Return `number` values, None for NaN; the datatype is one of the protocol.

    Raises: ValueError: the bytes are not those of so many values; the sentence goes on behind the
    tensor's name.
    """
    if datatype == "BYTES":
        return _unpack_texts(raw, number)
    code = _CODES[datatype]
    size = struct.calcsize(code) * number
    if len(raw) != size:
        raise ValueError(f"has {len(raw)} bytes, its shape and datatype say {size}")
    values = list(struct.unpack(f"<{number}{code}", raw))
    if datatype == "BOOL":
        if not set(values) <= {0, 1}:
            raise ValueError("has bytes that are neither 0 nor 1")
        return [value == 1 for value in values]
    return without_nan(values) if datatype.startswith("FP") else values


def pack_values(datatype: str, values: Sequence[Any]) -> bytes:
    """Return the bytes of values that the datatype can hold; None becomes NaN."""
    if datatype == "BYTES":
        texts = [str(value).encode() for value in values]
        return b"".join(part for text in texts for part in (_LENGTH.pack(len(text)), text))
    numbers = [nan if value is None else value for value in values]
    return struct.pack(f"<{len(numbers)}{_CODES[datatype]}", *numbers)


def without_nan(values: list[Any]) -> list[Any]:
    """Return real numbers with None, a missing value, in the place of NaN."""
    if not any(map(isnan, values)):
        return values
    return [None if isnan(value) else value for value in values]


def text_of(raw: bytes) -> str:
    """Return a value of the datatype BYTES as text. Raises: ValueError: as above."""
    try:
        return raw.decode()
    except UnicodeDecodeError as exc:
        raise ValueError("has values that are no UTF-8 texts") from exc


def _unpack_texts(raw: bytes, number: int) -> list[Any]:
    texts: list[Any] = []
    place = 0
    for _ in range(number):
        begin = place + _LENGTH.size
        end = begin + _LENGTH.unpack_from(raw, place)[0] if begin <= len(raw) else begin
        if end > len(raw):
            raise ValueError(f"has bytes of {len(texts)} values only, its shape says {number}")
        texts.append(text_of(raw[begin:end]))
        place = end
    if place != len(raw):
        raise ValueError(f"has {len(raw) - place} bytes behind its last value")
    return texts
