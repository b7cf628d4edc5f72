"""Values as bytes: a header and raw, aligned buffers. No pickle, no class names from the wire.

Layout: `FFV1`, header length (uint32 little endian), header (JSON), zeros up to a multiple of 64,
then the buffers, each padded with zeros to a multiple of 64. Buffer 0 is the plain JSON skeleton of
the value; every array, table and bytes object in it is a *leaf*: null in the skeleton, a path in
the header, and a buffer of its own. So a dict with a few arrays in it is one value, and decoding
copies no array.
"""

from __future__ import annotations

import json
import math
import re
import struct
from typing import Any, Literal

import msgspec
import numpy as np

from fedflow.base.errors.data_plane import CodecError, NotSendable
from fedflow.base.values import dataclass

MAGIC = b"FFV1"
NOTHING = b"FFV0"  #: all of a message that there is no value; earlier releases cannot read it
ALIGN = 64
MAX_HEADER_BYTES = 1024 * 1024
MAX_LEAVES = 4096
MAX_DEPTH = 64  #: nesting of lists and dicts
MAX_DIMENSIONS = 8
MAX_CONTAINERS = 4_000_000  #: lists and dicts of the skeleton; three bytes become 64 in memory
CELLS_PER_BYTE = 16  #: of an Arrow table: truth values have 8, nulls no byte at all
FREE_CELLS = 65_536  #: of an Arrow table, however short it is
_SCHEMA, _RECORD_BATCH = 1, 3  #: kinds of Arrow messages

_PREFIX = struct.Struct("<4sI")
_DTYPE = re.compile(r"[<>][iu][248]|\|[iu]1|\|b1|[<>]f[248]|\|[SV][1-9][0-9]{0,8}")


class Leaf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One array, table, batch or bytes object: where it stands in the skeleton, and its layout."""

    kind: Literal["array", "table", "batch", "bytes"]
    path: list[str | int]
    dtype: str = ""  #: of an array, numpy's array-protocol string with byte order
    shape: list[int] = []


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`buffers[0]` is the length of the skeleton, `buffers[i + 1]` that of leaf i, all in bytes."""

    buffers: list[int]
    leaves: list[Leaf]


_header_decoder = msgspec.json.Decoder(Header)


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """An encoded value: its pieces in order (arrays are views, no copies), their total length."""

    parts: list[bytes | memoryview]
    size: int


def encode(value: Any) -> Encoded:
    """Return `value` (sdk `Value`, leaves may stand inside lists and dicts) as bytes in pieces.

    Tuples become lists, keys of dicts text, numpy scalars plain numbers; NaN and infinities and
    integers of any size are kept.
    Raises: NotSendable: the value holds something that may not travel.
    """
    leaves: list[Leaf] = []
    buffers: list[bytes | memoryview] = []
    skeleton = _strip(value, [], leaves, buffers)
    try:
        text = json.dumps(skeleton, separators=(",", ":"), ensure_ascii=False).encode()
    except (ValueError, UnicodeError) as exc:
        raise NotSendable(reason=f"not a plain JSON value: {exc}") from exc
    if _has_many_containers(text):
        raise NotSendable(reason=f"more than {MAX_CONTAINERS} lists and dicts in one value")
    buffers.insert(0, text)
    header = msgspec.json.encode(Header(buffers=[_length(b) for b in buffers], leaves=leaves))
    if len(header) > MAX_HEADER_BYTES:
        raise NotSendable(reason="too many arrays in one value")
    parts: list[bytes | memoryview] = [_PREFIX.pack(MAGIC, len(header)) + header]
    _pad(parts)
    for buffer in buffers:
        parts.append(buffer)
        _pad(parts)
    return Encoded(parts=parts, size=sum(_length(p) for p in parts))


def is_nothing(data: bytes | memoryview) -> bool:
    """Tell whether `data` says that there is no value."""
    return len(data) == len(NOTHING) and data == NOTHING


def decode(data: bytes | memoryview) -> Any:
    """Return the value that `data` encodes; its arrays and tables are read-only views of `data`.

    Nothing is allocated by a number from the header before that number was checked against the real
    length. Raises: CodecError: `data` is not a value, or holds what is not allowed.
    """
    view = memoryview(data).cast("B").toreadonly()
    header, offset = _read_header(view)
    if len(header.buffers) != len(header.leaves) + 1 or len(header.leaves) > MAX_LEAVES:
        raise CodecError(reason="the header's numbers do not agree")
    if any(n < 0 for n in header.buffers):
        raise CodecError(reason="a buffer of negative length")
    if offset + sum(_padded(n) for n in header.buffers) != len(view):
        raise CodecError(reason="the buffers do not fill the value")
    pieces = []
    for length in header.buffers:
        pieces.append(view[offset : offset + length])
        offset += _padded(length)
    text = bytes(pieces[0])
    if _has_many_containers(text):
        raise CodecError(reason=f"more than {MAX_CONTAINERS} lists and dicts")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise CodecError(reason=f"the skeleton is not JSON: {exc}") from exc
    for leaf, piece in zip(header.leaves, pieces[1:], strict=True):
        value = _place(value, leaf.path, _read_leaf(leaf, piece))
    return value


# --- encoding -------------------------------------------------------------------------------------


def _strip(
    value: Any, path: list[str | int], leaves: list[Leaf], buffers: list[bytes | memoryview]
) -> Any:
    """Return the plain JSON part of `value`; append what is not plain to `leaves` and `buffers`."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if len(path) > MAX_DEPTH:
        raise NotSendable(reason=f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        out = {}
        for key, item in value.items():
            name = _key_text(key)
            if name in out:
                raise NotSendable(reason=f"two dict keys that are both {name[:100]!r} in JSON")
            out[name] = _strip(item, [*path, name], leaves, buffers)
        return out
    if isinstance(value, (list, tuple)):
        return [_strip(item, [*path, i], leaves, buffers) for i, item in enumerate(value)]
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if len(leaves) == MAX_LEAVES:
        raise NotSendable(reason=f"more than {MAX_LEAVES} arrays in one value")
    leaf, buffer = _make_leaf(value, path)
    leaves.append(leaf)
    buffers.append(buffer)
    return None


def _key_text(key: Any) -> str:
    """Return a dict key as JSON spells it."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    raise NotSendable(reason=f"a dict key must be text or a number, not {type(key).__name__}")


def _make_leaf(value: Any, path: list[str | int]) -> tuple[Leaf, bytes | memoryview]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = value if isinstance(value, bytes) else bytes(value)
        return Leaf(kind="bytes", path=path), data
    if isinstance(value, np.ndarray):
        return _array_leaf(value, path)
    if type(value).__module__.partition(".")[0] == "pyarrow":
        return _arrow_leaf(value, path)
    raise NotSendable(reason=f"a {type(value).__name__} cannot travel between parties")


def _array_leaf(array: np.ndarray[Any, Any], path: list[str | int]) -> tuple[Leaf, memoryview]:
    name = array.dtype.str
    if array.dtype.names is not None or not _DTYPE.fullmatch(name):
        raise NotSendable(reason=f"an array of {array.dtype} cannot travel between parties")
    if array.ndim > MAX_DIMENSIONS:
        raise NotSendable(reason=f"an array of {array.ndim} dimensions")
    packed = np.asarray(array, order="C")
    leaf = Leaf(kind="array", path=path, dtype=name, shape=list(array.shape))
    if packed.size == 0:
        return leaf, memoryview(b"")
    return leaf, packed.reshape(-1).view(np.uint8).data.toreadonly()


def _arrow_leaf(value: Any, path: list[str | int]) -> tuple[Leaf, memoryview]:
    import pyarrow as pa

    kind: Literal["table", "batch"]
    if isinstance(value, pa.Table):
        kind = "table"
    elif isinstance(value, pa.RecordBatch):
        kind = "batch"
    else:
        raise NotSendable(reason=f"a pyarrow {type(value).__name__} cannot travel between parties")
    value = _without_dictionaries(value)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as writer:
        writer.write(value)
    return Leaf(kind=kind, path=path), memoryview(sink.getvalue()).cast("B").toreadonly()


def _without_dictionaries(value: Any) -> Any:
    """Return a table or batch with its categories written out. Raises: NotSendable."""
    import pyarrow as pa

    for kind in {_decoded(kind) for kind in value.schema.types}:
        if not _may_travel(kind):
            reason = f"an Arrow column of type {kind} cannot travel between parties"
            raise NotSendable(reason=reason)
    if not any(pa.types.is_dictionary(kind) for kind in value.schema.types):
        return value
    wanted = pa.schema([f.with_type(_decoded(f.type)) for f in value.schema], value.schema.metadata)
    try:
        return value.cast(wanted)
    except pa.ArrowException as exc:
        raise NotSendable(
            reason=f"an Arrow column whose categories cannot be written out: {exc}"
        ) from exc


def _decoded(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _may_travel(kind: Any) -> bool:
    """Tell whether a column of an Arrow type may travel: each of its cells has bytes of its own.

    So no dictionaries, views or run ends, with which few bytes stand for any number of cells; no
    unions, intervals, extensions.
    """
    import pyarrow as pa

    of = pa.types
    if of.is_struct(kind):
        return all(_may_travel(field.type) for field in kind)
    if of.is_map(kind):
        return _may_travel(kind.key_type) and _may_travel(kind.item_type)
    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        return _may_travel(kind.value_type)
    plain = (
        of.is_boolean, of.is_integer, of.is_floating, of.is_string, of.is_large_string,
        of.is_binary, of.is_large_binary, of.is_fixed_size_binary, of.is_decimal, of.is_date,
        of.is_time, of.is_timestamp, of.is_duration, of.is_null,
    )  # fmt: skip
    return any(test(kind) for test in plain)


def _has_many_containers(text: bytes) -> bool:
    return text.count(b"[") + text.count(b"{") > MAX_CONTAINERS


def _length(part: bytes | memoryview) -> int:
    return part.nbytes if isinstance(part, memoryview) else len(part)


def _padded(length: int) -> int:
    return -(-length // ALIGN) * ALIGN


def _pad(parts: list[bytes | memoryview]) -> None:
    missing = -_length(parts[-1]) % ALIGN
    if missing:
        parts.append(bytes(missing))


# --- decoding -------------------------------------------------------------------------------------


def _read_header(view: memoryview) -> tuple[Header, int]:
    """Return the header and the offset of the first buffer."""
    if len(view) < _PREFIX.size:
        raise CodecError(reason="too short for a value")
    magic, length = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise CodecError(reason="it does not begin as a value of this version")
    if length > MAX_HEADER_BYTES or _PREFIX.size + length > len(view):
        raise CodecError(reason=f"a header of {length} bytes")
    try:
        header = _header_decoder.decode(view[_PREFIX.size : _PREFIX.size + length])
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as exc:
        raise CodecError(reason=f"the header is not acceptable: {exc}") from exc
    return header, _padded(_PREFIX.size + length)


def _read_leaf(leaf: Leaf, data: memoryview) -> Any:
    match leaf.kind:
        case "bytes":
            return bytes(data)
        case "array":
            return _read_array(leaf, data)
        case _:
            return _read_arrow(leaf.kind, data)


def _read_array(leaf: Leaf, data: memoryview) -> np.ndarray[Any, Any]:
    if not _DTYPE.fullmatch(leaf.dtype):
        raise CodecError(reason=f"an array of dtype {leaf.dtype[:20]!r}")
    if len(leaf.shape) > MAX_DIMENSIONS or any(n < 0 for n in leaf.shape):
        raise CodecError(reason="an array of that shape")
    dtype = np.dtype(leaf.dtype)
    if math.prod(leaf.shape) * dtype.itemsize != len(data):
        raise CodecError(reason="an array whose shape does not fit its length")
    try:
        if not len(data):
            array = np.empty(leaf.shape, dtype)
        else:
            array = np.frombuffer(data, dtype).reshape(leaf.shape)
    except (ValueError, OverflowError, MemoryError) as exc:
        raise CodecError(reason=f"an array that cannot be built: {exc}") from exc
    if dtype.kind == "b" and bool((array.view(np.uint8) > 1).any()):
        raise CodecError(reason="truth values other than 0 and 1")
    array.flags.writeable = False
    return array


def _read_arrow(kind: str, data: memoryview) -> Any:
    import pyarrow as pa

    try:
        _check_arrow_messages(data)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            for found in set(reader.schema.types):
                if not _may_travel(found):
                    raise CodecError(reason=f"an Arrow column of type {str(found)[:100]}")
            table = reader.read_all()
        table.validate(full=True)
        if kind == "table":
            return table
        batches = table.to_batches()
    except MemoryError:  # Arrow's is an ArrowException too
        raise
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise CodecError(reason=f"an Arrow table that is not valid: {exc}") from exc
    if len(batches) > 1:
        raise CodecError(reason="more than one record batch where one was announced")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _check_arrow_messages(data: memoryview) -> None:
    """Refuse an Arrow stream that would need more memory than its own bytes, before it is read.

    Raises: CodecError.
    """
    import pyarrow as pa

    left = FREE_CELLS + CELLS_PER_BYTE * len(data)
    for number, message in enumerate(pa.ipc.MessageReader.open_stream(pa.py_buffer(data))):
        try:
            left -= _cells(bytes(message.metadata), message.body, is_first=number == 0)
        except (struct.error, ValueError, IndexError) as exc:
            raise CodecError(reason="an Arrow message that cannot be read") from exc
        if left < 0:
            raise CodecError(reason="an Arrow table of more cells than bytes")


def _cells(metadata: bytes, body: Any, *, is_first: bool) -> int:
    """Return the cells of a record batch (0: of a schema), those of nested columns included.

    Source: format/Message.fbs and the FlatBuffers binary format: field 1 of a Message is the kind
    of its header, field 2 the header. A RecordBatch has its length, nodes (length, nulls), buffers
    (offset, length) and compression. Raises: CodecError: it is compressed, of another kind, or its
    buffers do not lie one after the other in the body. struct.error, ValueError, IndexError.
    """
    message = _follow(metadata, 0)
    kind, header = _field(metadata, message, 1), _field(metadata, message, 2)
    if metadata[kind] != (_SCHEMA if is_first else _RECORD_BATCH) or not kind or not header:
        raise CodecError(reason="an Arrow stream of more than a schema and record batches")
    if is_first:
        return 0
    batch = _follow(metadata, header)
    if _field(metadata, batch, 3):
        raise CodecError(reason="an Arrow table that is compressed")
    size = 0 if body is None else body.size
    buffers = _pairs(metadata, _field(metadata, batch, 2))
    begins, ends = buffers[:, 0], buffers.sum(axis=1)
    if len(buffers) and (
        buffers.min() < 0 or buffers.max() > size or ends[-1] > size
        or (begins[1:] < ends[:-1]).any() or (begins % 8).any()
    ):  # fmt: skip
        raise CodecError(reason="an Arrow table whose buffers do not fit its bytes")
    at = _field(metadata, batch, 0)
    rows: int = struct.unpack_from("<q", metadata, at)[0] if at else 0
    lengths: list[int] = _pairs(metadata, _field(metadata, batch, 1))[:, 0].tolist()
    if min(rows, *lengths, 0) < 0:
        raise CodecError(reason="an Arrow table of negative length")
    return max(rows, sum(lengths))


def _pairs(metadata: bytes, at: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a vector of structs of two int64, as n x 2."""
    if not at:
        return np.empty((0, 2), np.int64)
    start = _follow(metadata, at)
    (count,) = struct.unpack_from("<I", metadata, start)
    return np.frombuffer(metadata, "<i8", 2 * count, start + 4).reshape(count, 2)


def _follow(data: bytes, at: int) -> int:
    """Return where the table is to which the offset at `at` leads."""
    (offset,) = struct.unpack_from("<I", data, at)
    return at + int(offset)


def _field(data: bytes, table: int, index: int) -> int:
    """Return where a field of a FlatBuffers table is, 0: it is absent."""
    (back,) = struct.unpack_from("<i", data, table)
    if not 0 <= table - back < len(data):
        raise struct.error
    (size,) = struct.unpack_from("<H", data, table - back)
    slot = 4 + 2 * index
    if slot >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, table - back + slot)
    return table + int(offset) if 0 < offset < len(data) - table else 0


def _place(value: Any, path: list[str | int], leaf: Any) -> Any:
    """Return `value` with `leaf` put where `path` leads, which must be null."""
    if not path:
        if value is not None:
            raise CodecError(reason="an array where the skeleton has a value")
        return leaf
    where = value
    for step in path[:-1]:
        where = _enter(where, step)
    if _enter(where, path[-1]) is not None:
        raise CodecError(reason="an array where the skeleton has a value")
    where[path[-1]] = leaf
    return value


def _enter(where: Any, step: str | int) -> Any:
    if isinstance(where, dict) and isinstance(step, str) and step in where:
        return where[step]
    if isinstance(where, list) and isinstance(step, int) and 0 <= step < len(where):
        return where[step]
    raise CodecError(reason="the path of an array leads nowhere")
