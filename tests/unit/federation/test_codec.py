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
from fedflow.federation import codec
from fedflow.federation.codec import (
    CELLS_PER_BYTE,
    FREE_CELLS,
    MAGIC,
    _read_arrow,
    decode,
    encode,
)


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


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_tables_are_refused_before_they_are_unpacked(compression: str) -> None:
    zeros = pa.table({"x": pa.array(np.zeros(1_000_000, dtype=np.uint8))})
    _refused_as_table(zeros, compression)


def _refused_as_table(table: pa.Table, compression: str) -> None:
    assert through(table).equals(table)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pytest.raises(CodecError, match="compressed"):
        _read_arrow("table", written(table, options))


def written(table: Any, options: pa.ipc.IpcWriteOptions | None = None) -> memoryview:
    """Return a table as Arrow itself would write it, dictionaries and all."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write(table)
    return memoryview(sink.getvalue()).cast("B")


def test_categories_are_written_out_by_the_sender_and_refused_from_others() -> None:
    words = pa.table(
        {"x": pa.array(["a", None, "a"]).dictionary_encode(), "n": pa.array([1, 2, 3])},
        metadata={"of": "a test"},
    )
    found = through(words)
    assert found.column("x").type == pa.string()
    assert found.column("x").to_pylist() == ["a", None, "a"]
    assert found.schema.metadata == {b"of": b"a test"}
    assert through(words.to_batches()[0]).column("x").to_pylist() == ["a", None, "a"]
    with pytest.raises(CodecError, match="more than a schema and record batches"):
        _read_arrow("table", written(words))
    with pytest.raises(CodecError, match="dictionary"):
        _read_arrow("table", written(words.slice(0, 0)))


FEW_BYTES_FOR_MANY_CELLS = [
    pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["x" * 1000])),
    pa.array(["x" * 100, "y"], pa.string_view()),
    pa.ListViewArray.from_arrays([0] * 9, [8] * 9, pa.array(range(8))),
    pa.DictionaryArray.from_arrays(pa.array([0] * 9, pa.int8()), pa.array(["x" * 100])),
    pa.array([[{"x": "a"}]], pa.list_(pa.struct([("x", pa.dictionary(pa.int8(), pa.string()))]))),
    pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
    pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16))),
]


@pytest.mark.parametrize("array", FEW_BYTES_FOR_MANY_CELLS, ids=lambda a: str(a.type)[:20])
def test_types_whose_cells_have_no_bytes_of_their_own_do_not_travel(array: pa.Array) -> None:
    table = pa.table({"x": array})
    with pytest.raises(CodecError):
        _read_arrow("table", written(table))
    if not pa.types.is_dictionary(array.type):
        with pytest.raises(NotSendable, match="cannot travel"):
            encode(table)


NO_BYTES = [
    pa.nulls(10_000_000),
    pa.FixedSizeBinaryArray.from_buffers(pa.binary(0), 10_000_000, [None, pa.py_buffer(b"")]),
    pa.FixedSizeListArray.from_buffers(
        pa.list_(pa.int8(), 0), 10_000_000, [None], children=[pa.array([], pa.int8())]
    ),
    pa.StructArray.from_buffers(pa.struct([]), 10_000_000, [None]),
    pa.StructArray.from_arrays([pa.nulls(10_000_000)], ["x"]),
]


@pytest.mark.parametrize("array", NO_BYTES, ids=lambda a: str(a.type)[:20])
def test_cells_without_bytes_are_bounded_by_the_bytes_of_the_table(array: pa.Array) -> None:
    with pytest.raises(CodecError, match="more cells than bytes"):
        _read_arrow("table", written(pa.table({"x": array})))
    few = pa.table({"x": array.slice(0, 1000)})
    assert _read_arrow("table", written(few)).num_rows == 1000


def test_a_table_of_rows_without_columns_is_bounded_too() -> None:
    rows = pa.table({"x": pa.nulls(10_000_000)}).select([])
    with pytest.raises(CodecError, match="more cells than bytes"):
        _read_arrow("table", written(rows))


def test_columns_that_share_their_bytes_are_refused() -> None:
    data = written(pa.table({"x": pa.array(range(100)), "y": pa.array(range(100))}))
    one = struct.pack("<4q", 800, 0, 800, 800)  # where y's two buffers are in the body
    assert bytes(data).count(one) == 1
    with pytest.raises(CodecError, match="do not fit"):
        _read_arrow(
            "table", memoryview(bytes(data).replace(one, struct.pack("<4q", 800, 0, 0, 800)))
        )


TYPES = st.recursive(
    st.sampled_from(
        [pa.int8(), pa.float64(), pa.bool_(), pa.string(), pa.large_binary(), pa.binary(3),
         pa.null(), pa.date32(), pa.timestamp("ms", "UTC"), pa.decimal128(9, 2), pa.duration("s")]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_), inner.map(pa.large_list), inner.map(lambda t: pa.list_(t, 2)),
        inner.map(lambda t: pa.struct([("a", t), ("b", pa.int8())])),
        inner.map(lambda t: pa.map_(pa.string(), t)),
    ),
    max_leaves=3,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(TYPES, st.integers(0, 300), st.integers(0, 300))
def test_tables_of_all_types_that_may_travel_come_back(
    kind: pa.DataType, rows: int, start: int
) -> None:
    column = pa.chunked_array([pa.nulls(rows, kind), pa.nulls(7, kind)])
    table = pa.table({"x": column, "n": range(rows + 7)}).slice(start)
    assert through(table).equals(table)


def test_a_table_of_truth_values_of_all_kinds_travels() -> None:
    flags = pa.array([True, False] * 500_000)
    nested = pa.StructArray.from_arrays([flags], ["x"])
    for array in (flags, nested, pa.ListArray.from_arrays([0, 1_000_000], flags)):
        assert through(pa.table({"x": array})).num_rows == len(array)


SAMPLE = pa.table({"id": ["a", "bc", None], "x": [1.5, None, 2.5], "l": [[1], [], [2, 3]]})


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_a_table_with_changed_bytes_never_needs_more_than_its_bytes(data: st.DataObject) -> None:
    raw = bytearray(written(SAMPLE))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 9))
        size = data.draw(st.sampled_from([1, 4, 8]))
        raw[place : place + size] = data.draw(st.binary(min_size=size, max_size=size))
    with contextlib.suppress(CodecError):
        table = _read_arrow("table", memoryview(bytes(raw)))
        assert table.nbytes <= len(raw)
        assert table.num_rows <= FREE_CELLS + CELLS_PER_BYTE * len(raw)


def test_a_skeleton_of_too_many_lists_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = joined([[[]] * 50, {"a": {}}])
    assert decode(data)
    monkeypatch.setattr(codec, "MAX_CONTAINERS", 50)
    with pytest.raises(CodecError, match="more than 50 lists and dicts"):
        decode(data)
    with pytest.raises(NotSendable, match="more than 50 lists and dicts"):
        encode([[[]] * 50])


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
