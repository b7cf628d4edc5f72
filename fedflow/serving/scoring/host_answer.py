"""What a host tells the guest of some rows, as bytes.

| bytes | what |
|---|---|
| 4 | `FFS1` |
| 4 x 4 | numbers of rows, scores, bits and leaves per row, unsigned, little endian |
| ceil(rows / 8) | which rows cannot be scored, 8 per byte, the first in the highest bit |
| rows x scores x 8 | scores: float64, little endian, row after row |
| rows x ceil(bits / 8) | bits: per row, which nodes send it left, in the order of trees and nodes |
| rows x leaves x 4 | leaves: int32, little endian, per row its leaf in trees grown by this host |

What is said of rows that cannot be scored means nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedflow.serving.scoring.batch import Flags, Floats

Leaves = NDArray[np.int32]
Packed = NDArray[np.uint8]

_MAGIC = b"FFS1"
_COUNTS = struct.Struct("<4sIIII")
_ROW_START = _COUNTS.size + 1  #: of what is said of the row, in an answer of one
_GOOD, _FAILED = b"\x00", b"\x80"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerShape:
    """How much a host says of each row."""

    scores: int = 0
    bits: int = 0
    leaves: int = 0

    def size(self, rows: int) -> int:
        """Return the length of an answer, bytes."""
        per_row = 8 * self.scores + -(-self.bits // 8) + 4 * self.leaves
        return _COUNTS.size + -(-rows // 8) + rows * per_row


@dataclass(frozen=True, kw_only=True, slots=True)
class HostAnswer:
    """What a host says of some rows; each array has a line per row."""

    failed: Flags
    scores: Floats
    packed: Packed  #: bits, 8 per byte
    leaves: Leaves
    bits: int  #: per row

    @property
    def goes_left(self) -> Flags:
        """Return which nodes send which rows left: rows x nodes."""
        return np.unpackbits(self.packed, axis=1, count=self.bits).astype(np.bool_)

    @property
    def shape(self) -> AnswerShape:
        """Return how much is said of each row."""
        return AnswerShape(scores=self.scores.shape[1], bits=self.bits, leaves=self.leaves.shape[1])

    def to_bytes(self) -> bytes:
        """Return the bytes that `read_answer` reads."""
        shape, rows = self.shape, len(self.failed)
        head = _COUNTS.pack(_MAGIC, rows, shape.scores, shape.bits, shape.leaves)
        scores = np.where(self.failed[:, None], 0.0, self.scores)
        return b"".join(
            (
                head,
                np.packbits(self.failed).tobytes(),
                scores.astype("<f8").tobytes(),
                self.packed.tobytes(),
                self.leaves.astype("<i4").tobytes(),
            )
        )


def answer_of(
    failed: Flags,
    *,
    scores: Floats | None = None,
    goes_left: Flags | None = None,
    leaves: Leaves | None = None,
) -> HostAnswer:
    """Return an answer; what is not given is nothing."""
    rows = len(failed)
    bits = np.zeros((rows, 0), np.bool_) if goes_left is None else goes_left
    return HostAnswer(
        failed=failed,
        scores=np.zeros((rows, 0)) if scores is None else scores,
        packed=np.packbits(bits, axis=1),
        leaves=np.zeros((rows, 0), np.int32) if leaves is None else leaves,
        bits=bits.shape[1],
    )


def read_answer(payload: object) -> HostAnswer:
    """Return what a host says, whatever model it is of.

    Raises: ValueError: it is no answer: too short, too long, or scores are no finite numbers.
    """
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise ValueError("it is not bytes")  # noqa: TRY004  the reader of all that is wrong
    raw = bytes(payload)
    if len(raw) < _COUNTS.size:
        raise ValueError(f"it has {len(raw)} bytes")
    magic, rows, scores, bits, leaves = _COUNTS.unpack_from(raw)
    if magic != _MAGIC:
        raise ValueError("it does not begin as an answer")
    shape = AnswerShape(scores=scores, bits=bits, leaves=leaves)
    if len(raw) != shape.size(rows):
        raise ValueError(f"it has {len(raw)} bytes where {shape.size(rows)} are said")
    lengths = (-(-rows // 8), rows * scores * 8, rows * -(-bits // 8))
    ends = np.cumsum((_COUNTS.size, *lengths)).tolist()
    parts = [raw[start:end] for start, end in zip(ends, [*ends[1:], len(raw)], strict=True)]
    failed = np.unpackbits(np.frombuffer(parts[0], np.uint8), count=rows).astype(np.bool_)
    found = HostAnswer(
        failed=failed,
        scores=np.frombuffer(parts[1], "<f8").astype(np.float64).reshape(rows, scores),
        packed=np.frombuffer(parts[2], np.uint8).reshape(rows, -(-bits // 8)),
        leaves=np.frombuffer(parts[3], "<i4").astype(np.int32).reshape(rows, leaves),
        bits=bits,
    )
    if not np.isfinite(found.scores[~failed]).all():
        raise ValueError("it has scores that are no finite numbers")
    return found


def with_decimals(payload: bytes, decimals: int) -> bytes:
    """Return an answer with rounded scores. Raises: ValueError: it is none."""
    found = read_answer(payload)
    return replace(found, scores=np.round(found.scores, decimals)).to_bytes()


def rows_of(payload: bytes) -> list[bytes]:
    """Return an answer cut into one per row. Raises: ValueError: it is no answer."""
    found = read_answer(payload)
    shape, rows = found.shape, len(found.failed)
    head = _COUNTS.pack(_MAGIC, 1, shape.scores, shape.bits, shape.leaves)
    parts = (found.scores.astype("<f8"), found.packed, found.leaves.astype("<i4"))
    columns = [part.view(np.uint8).reshape(rows, -1) for part in parts if part.size]
    body = np.hstack(columns).tobytes() if columns else b""
    size = shape.size(1) - _ROW_START
    flags = (_FAILED if failed else _GOOD for failed in found.failed.tolist())
    return [head + flag + body[row * size : (row + 1) * size] for row, flag in enumerate(flags)]


def is_failed_row(payload: bytes) -> bool:
    """Tell whether an answer of one row says that it cannot be scored."""
    return payload[_COUNTS.size : _ROW_START] != _GOOD


def join_rows(payloads: Sequence[bytes]) -> bytes:
    """Return one answer for several of one row each, as `rows_of` gives them, in order.

    Raises: ValueError: they are none, or not of one model.
    """
    if len({payload[: _COUNTS.size] for payload in payloads}) != 1:
        raise ValueError("they are not of one model")
    first, rows = read_answer(payloads[0]), len(payloads)
    if len(first.failed) != 1 or len({len(payload) for payload in payloads}) != 1:
        raise ValueError("they are not of one row")
    shape = first.shape
    matrix = np.frombuffer(b"".join(payloads), np.uint8).reshape(rows, -1)
    failed = np.packbits(matrix[:, _COUNTS.size] != _GOOD[0])
    lengths = (_ROW_START, 8 * shape.scores, -(-shape.bits // 8), 4 * shape.leaves)
    bounds = pairwise(np.cumsum(lengths).tolist())
    head = _COUNTS.pack(_MAGIC, rows, shape.scores, shape.bits, shape.leaves)
    parts = (matrix[:, start:end].tobytes() for start, end in bounds)
    return b"".join((head, failed.tobytes(), *parts))
