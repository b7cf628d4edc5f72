"""Values survive the codec exactly; what may not travel or was tampered with is refused."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fedflow.base.errors.data_plane import CodecError, NotSendable, PeerFailed
from fedflow.federation.codec import MAGIC, _read_arrow, decode, encode


def through(value: Any) -> Any:
    return decode(joined(value))


def joined(value: Any) -> bytes:
    encoded = encode(value)
    data = b"".join(encoded.parts)
    assert len(data) == encoded.size
    return data


def tampered(data: bytes, **changes: Any) -> bytes:
    """Return `data` with members of its header replaced."""
    length = struct.unpack_from("<4sI", data)[1]
    header = json.loads(data[8 : 8 + length])
    for path, value in changes.items():
        if path in header:
            header[path] = value
        else:
            header["leaves"][0][path] = value
    text = json.dumps(header).encode()
    body = data[-(-(8 + length) // 64) * 64 :]
    start = struct.pack("<4sI", MAGIC, len(text)) + text
    return start + bytes(-len(start) % 64) + body


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
arrays = npst.arrays(
    dtype=st.one_of(
        npst.boolean_dtypes(),
        npst.integer_dtypes(endianness="?"),
        npst.unsigned_integer_dtypes(endianness="?"),
        npst.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
        npst.byte_string_dtypes(min_len=1, max_len=9),
    ),
    shape=npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)


@given(plain)
def test_plain_json_values_come_back_as_they_were(value: Any) -> None:
    assert through(value) == value


@settings(deadline=None)
@given(arrays)
def test_arrays_come_back_with_dtype_shape_and_bits(value: np.ndarray[Any, Any]) -> None:
    found = through(value)
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert found.tobytes() == value.tobytes()
    assert not found.flags.writeable


@given(st.lists(st.one_of(st.binary(), st.integers(), st.none()), max_size=8), st.text())
def test_bytes_may_stand_anywhere_in_a_plain_value(items: list[Any], name: str) -> None:
    value = {"items": items, name: [b"\x00", {"deep": b""}]}
    assert through(value) == value


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_random_bytes_are_refused_and_nothing_else_happens(data: bytes, length: int) -> None:
    for candidate in (data, struct.pack("<4sI", MAGIC, length) + data):
        with pytest.raises(CodecError):
            decode(candidate)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_flipped_byte_never_does_worse_than_codec_error(data: st.DataObject) -> None:
    original = bytearray(joined({"a": np.arange(6, dtype="<i4"), "b": b"xyz", "c": [1, "t"]}))
    place = data.draw(st.integers(0, len(original) - 1))
    original[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CodecError):
        decode(bytes(original))


def test_numbers_beyond_json_are_kept() -> None:
    big = 2**4096 + 1
    assert through({"n": big, "inf": [math.inf, -math.inf]}) == {
        "n": big,
        "inf": [math.inf, -math.inf],
    }
    assert math.isnan(through(math.nan))


def test_numpy_scalars_and_tuples_become_plain() -> None:
    assert through((np.int64(3), np.float32(0.5), np.bool_(True))) == [3, 0.5, True]


def test_a_table_and_a_batch_come_back_without_a_copy() -> None:
    table = pa.table({"id": ["a", "b", None], "x": pa.array([1.5, 2.5, None])})
    data = joined(table)
    found = decode(data)
    assert found.equals(table)
    start = np.frombuffer(data, np.uint8).ctypes.data
    address = found.column("x").chunk(0).buffers()[1].address
    assert start <= address < start + len(data)
    batch = pa.record_batch({"y": [1, 2]})
    assert through({"b": batch})["b"].equals(batch)
    assert through(batch.slice(0, 0)).num_rows == 0


def test_array_buffers_are_aligned_and_not_copied_on_the_way_out() -> None:
    array = np.arange(1000, dtype=np.float64)
    encoded = encode({"n": 1, "a": array})
    views = [p for p in encoded.parts if isinstance(p, memoryview)]
    assert np.shares_memory(np.frombuffer(views[0], np.float64), array)
    offset = 0
    for part in encoded.parts:
        if part is views[0]:
            assert offset % 64 == 0
        offset += len(part)


def test_non_contiguous_arrays_travel() -> None:
    array = np.arange(24).reshape(4, 6)
    assert (through(array.T) == array.T).all()
    assert (through(array[::2, ::3]) == array[::2, ::3]).all()


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([1j]),
        np.zeros(2, dtype=[("a", "<i4"), ("b", "<f8")]),
        np.zeros((1,) * 9),
        np.longdouble([1.0]),
        {(1, 2): "tuple as key"},
        {1: "two keys", "1": "that are one"},
        {"s": {1, 2}},
        object(),
        pa.array([1, 2]),
    ],
)
def test_what_may_not_travel_is_refused_at_the_sender(value: Any) -> None:
    with pytest.raises(CodecError):
        encode(value)


def test_deep_nesting_is_refused_at_the_sender() -> None:
    value: list[Any] = []
    for _ in range(200):
        value = [value]
    with pytest.raises(CodecError):
        encode(value)


ARRAY = np.arange(6, dtype="<f8")


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [2**62, 2**62]},
        {"shape": [-1, -6]},
        {"shape": [7]},
        {"shape": [6] + [1] * 8},
        {"shape": [6.0]},
        {"dtype": "|O"},
        {"dtype": "<U3"},
        {"dtype": "<f8,<f8"},
        {"dtype": "O8"},
        {"dtype": "<M8[ns]"},
        {"dtype": "|V0"},
        {"dtype": "|S999999999"},
        {"kind": "pickle"},
        {"kind": "table"},
        {"path": ["nowhere"]},
        {"path": [0]},
        {"buffers": [4, 2**40]},
        {"buffers": [4, -64]},
        {"buffers": [4]},
        {"buffers": []},
        {"leaves": []},
    ],
)
def test_a_hostile_header_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(CodecError):
        decode(tampered(joined(ARRAY), **changes))


def test_an_empty_array_with_a_huge_shape_is_refused() -> None:
    with pytest.raises(CodecError):
        decode(tampered(joined(np.empty(0)), shape=[0, 2**40, 2**40]))


def test_two_leaves_at_one_place_are_refused() -> None:
    data = joined([b"a", b"b"])
    leaves = [{"kind": "bytes", "path": [0]}, {"kind": "bytes", "path": [0]}]
    with pytest.raises(CodecError):
        decode(tampered(data, leaves=leaves))


def test_truth_values_beyond_one_are_refused() -> None:
    data = bytearray(joined(np.array([True, False])))
    data[-64] = 7
    with pytest.raises(CodecError):
        decode(bytes(data))


def test_arrow_offsets_out_of_bounds_are_refused() -> None:
    table = pa.table({"id": ["abc", "defg", "hi"]})
    data = joined(table)
    offsets = struct.pack("<4i", 0, 3, 7, 9)
    place = data.index(offsets)
    bad = data[:place] + struct.pack("<4i", 0, 3, 7, 2**30) + data[place + 16 :]
    with pytest.raises(CodecError):
        decode(bad)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_tables_are_refused_before_they_are_unpacked(codec: str) -> None:
    zeros = pa.table({"x": pa.array(np.zeros(1_000_000, dtype=np.uint8))})
    _refused_as_table(zeros, codec)


def test_compressed_dictionaries_are_refused_too() -> None:
    words = pa.table({"x": pa.array(["a" * 10_000, "b" * 10_000]).dictionary_encode()})
    _refused_as_table(words, "zstd")


def test_tables_with_dictionaries_travel() -> None:
    words = pa.table({"x": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert decode(b"".join(encode(words).parts)).equals(words)


def _refused_as_table(table: pa.Table, codec: str) -> None:
    plain = b"".join(encode(table).parts)
    assert decode(plain).equals(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
    ) as writer:
        writer.write(table)
    with pytest.raises(CodecError, match="compressed"):
        _read_arrow("table", memoryview(sink.getvalue()).cast("B"))


def test_a_skeleton_nested_beyond_reason_is_refused() -> None:
    text = b"[" * 100_000
    header = msgspec.json.encode({"buffers": [len(text)], "leaves": []})
    start = struct.pack("<4sI", MAGIC, len(header)) + header
    data = start + bytes(-len(start) % 64) + text + bytes(-len(text) % 64)
    with pytest.raises(CodecError):
        decode(data)


def test_what_the_sender_reads_is_about_its_own_value() -> None:
    with pytest.raises(NotSendable, match="cannot be sent to another party: a set cannot travel"):
        encode({"x": {1}})


def test_a_reason_that_is_a_sentence_ends_with_one_full_stop() -> None:
    error = PeerFailed(site="guest 9999", reason="a failed: ValueError; the log has its text.")
    assert error.message.endswith("has its text.")
