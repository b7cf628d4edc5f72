"""Tensors as bytes: what is packed can be unpacked, and sizes that do not fit are refused."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.serving.doors.binary_tensors import binary_names, read_binary_request, split_outputs
from fedflow.serving.doors.tensor_bytes import pack_values, unpack_values
from fedflow.serving.doors.tensors import RawTensor, TensorLimits, read_infer_request, read_rows
from tests.unit.serving.test_tensors import FactsOfModel

LIMITS = TensorLimits(rows=300, values=1000, ids=None)
NUMPY: dict[str, Any] = {
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8,
    "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "FP16": np.float16,
    "FP32": np.float32, "FP64": np.float64, "BOOL": np.bool_,
}  # fmt: skip


def body(*tensors: dict[str, Any], raw: bytes = b"", **more: Any) -> tuple[bytes, str]:
    """Return a body and the length of its JSON."""
    head = json.dumps({"inputs": list(tensors), **more}).encode()
    return head + raw, str(len(head))


def binary(name: str, size: object, datatype: str = "FP64", rows: int = 1) -> dict[str, Any]:
    return {
        "name": name, "shape": [rows], "datatype": datatype,
        "parameters": {"binary_data_size": size},
    }  # fmt: skip


@pytest.mark.parametrize("datatype", NUMPY)
def test_numbers_are_those_of_numpy(datatype: str) -> None:
    values = np.array([0, 1, 1, 0], dtype=NUMPY[datatype])
    assert unpack_values(datatype, values.astype(values.dtype.newbyteorder("<")).tobytes(), 4) == [
        0, 1, 1, 0,
    ]  # fmt: skip
    assert pack_values(datatype, values.tolist()) == values.tobytes()


@given(st.lists(st.floats(allow_nan=False) | st.none(), max_size=20))
def test_real_numbers_come_back_and_nan_is_missing(values: list[float | None]) -> None:
    assert unpack_values("FP64", pack_values("FP64", values), len(values)) == values


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=20))
def test_texts_come_back(values: list[str]) -> None:
    assert unpack_values("BYTES", pack_values("BYTES", values), len(values)) == values


@given(st.sampled_from([*NUMPY, "BYTES"]), st.binary(max_size=60), st.integers(0, 9))
def test_any_bytes_are_values_or_an_error(datatype: str, raw: bytes, number: int) -> None:
    try:
        values = unpack_values(datatype, raw, number)
    except ValueError:
        return
    assert len(values) == number
    if not datatype.startswith("FP"):  # there are many NaN
        assert pack_values(datatype, values) == raw


@pytest.mark.parametrize(
    ("datatype", "raw", "number", "said"),
    [
        ("FP64", b"\0" * 15, 2, "15 bytes, its shape and datatype say 16"),
        ("FP64", b"\0" * 17, 2, "17 bytes"),
        ("BOOL", b"\0\2", 2, "neither 0 nor 1"),
        ("BYTES", b"\1\0\0\0a", 2, "bytes of 1 values only"),
        ("BYTES", b"\2\0\0\0a", 1, "bytes of 0 values only"),
        ("BYTES", b"\xff\xff\xff\xffa", 1, "bytes of 0 values only"),
        ("BYTES", b"\0\0\0", 1, "bytes of 0 values only"),
        ("BYTES", b"\1\0\0\0ab", 1, "1 bytes behind"),
        ("BYTES", b"\1\0\0\0\xff", 1, "no UTF-8"),
    ],
)
def test_bytes_that_do_not_fit_are_said(datatype: str, raw: bytes, number: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unpack_values(datatype, raw, number)


def test_tensors_are_cut_from_the_body_in_their_order() -> None:
    ids = {
        "name": "i", "shape": [2], "datatype": "INT64", "data": [1, 2],
        "parameters": {"send_to_remote": True},
    }  # fmt: skip
    raw = struct.pack("<2d", 1.5, math.nan) + b"\4\0\0\0Rome\0\0\0\0"
    given = body(binary("x0", 16, rows=2), ids, binary("city", 12, "BYTES", rows=2), raw=raw)
    request = read_binary_request(*given)
    assert [isinstance(one, RawTensor) for one in request.inputs] == [True, False, True]
    rows = read_rows(request, FactsOfModel(), LIMITS)
    assert rows.features == [{"x0": 1.5, "city": "Rome"}, {"x0": None, "city": ""}]
    assert rows.ids == [{"i": 1}, {"i": 2}]


def test_without_the_header_a_body_is_json() -> None:
    raw, _ = body({"name": "x0", "shape": [1], "datatype": "FP64", "data": [1.0]})
    assert read_binary_request(raw, "") == read_infer_request(raw)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (body(binary("x0", 8), raw=b"\0" * 7), "'x0' has a binary_data_size"),
        (body(binary("x0", -8), raw=b"\0" * 8), "'x0' has a binary_data_size"),
        (body(binary("x0", True), raw=b"\0"), "'x0' has a binary_data_size"),
        (body(binary("x0", "8"), raw=b"\0" * 8), "'x0' has a binary_data_size"),
        (body(binary("x0", 8), raw=b"\0" * 9), "1 bytes that belong to no tensor"),
        (body(binary("x0", 8) | {"data": [1.0]}, raw=b"\0" * 8), "in the JSON and as bytes"),
        ((b"{}", "3"), "is no number of bytes"),
        ((b"{}", "-1"), "is no number of bytes"),
        ((b"{}", "1e1"), "is no number of bytes"),
        ((b"{}", "²"), "is no number of bytes"),
        ((b'{"inputs": []}', "0"), "cannot be read"),
        ((b'{"inputs": []}', "5"), "cannot be read"),
    ],
)
def test_sizes_that_do_not_fit_the_body_are_refused(given: tuple[bytes, str], said: str) -> None:
    with pytest.raises(BadServingRequest, match=said):
        read_binary_request(*given)


@pytest.mark.parametrize(
    ("tensor", "raw", "said"),
    [
        (binary("x0", 4), b"\0" * 4, "'x0' has 4 bytes"),
        (binary("x0", 8, "FP65"), b"\0" * 8, "the datatype 'FP65'"),
        (binary("x0", 8), struct.pack("<d", math.inf), "NaN or infinite"),
        (binary("x0", 8, rows=301), b"\0" * 8, "301 rows"),
        (binary("x0", 8) | {"shape": [1, 2]}, b"\0" * 8, "the shape"),
    ],
)
def test_bytes_are_checked_as_other_values_are(
    tensor: dict[str, Any], raw: bytes, said: str
) -> None:
    request = read_binary_request(*body(tensor, raw=raw))
    with pytest.raises(BadServingRequest, match=said):
        read_rows(request, FactsOfModel(), LIMITS)


def test_outputs_are_binary_where_they_are_wanted_so() -> None:
    names = ("score", "status", "label")

    def wanted(**given: Any) -> set[str]:
        return set(binary_names(read_binary_request(body(**given)[0], ""), names))

    off, on = ({"name": "score", "parameters": {"binary_data": one}} for one in (False, True))
    assert wanted() == set()
    assert wanted(parameters={"binary_data_output": True}) == set(names)
    assert wanted(parameters={"binary_data_output": True}, outputs=[off]) == {"status", "label"}
    assert wanted(outputs=[on, {"name": "status"}]) == {"score"}
    with pytest.raises(BadServingRequest, match="binary_data_output is neither"):
        wanted(parameters={"binary_data_output": "yes"})
    with pytest.raises(BadServingRequest, match="binary_data is neither"):
        wanted(outputs=[{"name": "score", "parameters": {"binary_data": 1}}])


def test_an_output_without_a_score_is_nan_in_bytes() -> None:
    score = {"name": "score", "datatype": "FP64", "shape": [2], "data": [0.5, None]}
    status = {"name": "status", "datatype": "INT32", "shape": [2], "data": [0, 2113]}
    shown, raws = split_outputs([score, status], frozenset({"score"}))
    assert shown[0] == {
        "name": "score", "datatype": "FP64", "shape": [2], "parameters": {"binary_data_size": 16},
    }  # fmt: skip
    assert shown[1] is status
    assert raws == [struct.pack("<2d", 0.5, math.nan)]
