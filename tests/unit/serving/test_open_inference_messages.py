"""Messages of the protocol's gRPC: any of them is rows or an error; answers keep their form."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.serving.doors.open_inference import InferAnswer
from fedflow.serving.doors.open_inference_messages import infer_message, read_infer_message
from fedflow.serving.doors.tensor_bytes import unpack_values
from fedflow.serving.doors.tensors import InferRequest, TensorLimits, check_asked, read_rows
from fedflow.serving.inference import MOST_VALUES
from fedflow.serving.pb import open_inference_pb2 as pb
from tests.unit.serving.test_tensors import FactsOfModel

LIMITS = TensorLimits(rows=5, values=20, ids=None)
_TYPES = ("FP64", "FP32", "FP16", "INT8", "INT64", "UINT8", "UINT64", "BOOL", "BYTES", "", "X")

_whole = st.integers(-3, 300)
_contents = st.builds(
    pb.InferTensorContents,
    bool_contents=st.lists(st.booleans(), max_size=3),
    int_contents=st.lists(_whole, max_size=3),
    int64_contents=st.lists(_whole, max_size=3),
    uint_contents=st.lists(st.integers(0, 300), max_size=3),
    fp32_contents=st.lists(st.floats(width=32), max_size=3),
    fp64_contents=st.lists(st.floats(), max_size=3),
    bytes_contents=st.lists(st.binary(max_size=3), max_size=3),
)
_parameters = st.dictionaries(
    st.sampled_from(["send_to_remote", "binary_data_size", "other"]),
    st.builds(pb.InferParameter, bool_param=st.booleans())
    | st.builds(pb.InferParameter, int64_param=_whole)
    | st.builds(pb.InferParameter),
    max_size=2,
)
_tensors = st.builds(
    pb.ModelInferRequest.InferInputTensor,
    name=st.sampled_from(["x0", "city", "i", ""]),
    datatype=st.sampled_from(_TYPES),
    shape=st.lists(st.integers(-1, 3), max_size=3),
    parameters=_parameters,
    contents=st.none() | _contents,
)
_messages = st.builds(
    pb.ModelInferRequest,
    id=st.text(st.characters(codec="utf-8"), max_size=3),
    inputs=st.lists(_tensors, max_size=4),
    outputs=st.lists(
        st.builds(
            pb.ModelInferRequest.InferRequestedOutputTensor,
            name=st.sampled_from(["score", "status", "x"]),
            parameters=_parameters,
        ),
        max_size=2,
    ),
    raw_input_contents=st.lists(st.binary(max_size=24), max_size=4),
)


@given(_messages)
def test_any_message_is_rows_or_an_error(message: pb.ModelInferRequest) -> None:
    with suppress(BadServingRequest):
        request = read_infer_message(message)
        check_asked(request.outputs)
        rows = read_rows(request, FactsOfModel(), LIMITS)
        assert 0 < len(rows.features) == len(rows.ids) <= LIMITS.rows


@pytest.mark.parametrize("part", ["inputs", "outputs", "values"])
def test_too_many_of_anything_are_refused_before_they_are_read(part: str) -> None:
    many = range(MOST_VALUES + 1)
    tensor = pb.ModelInferRequest.InferInputTensor(name="x0", datatype="BOOL", shape=[1])
    message = pb.ModelInferRequest(inputs=[tensor])
    if part == "values":
        message.inputs[0].contents.bool_contents.extend(True for _ in many)
    else:
        for _ in many:
            getattr(message, part).add()
    with pytest.raises(BadServingRequest, match=f"more than {MOST_VALUES}"):
        read_infer_message(message)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_error(raw: bytes) -> None:
    with suppress(BadServingRequest, DecodeError):
        read_infer_message(pb.ModelInferRequest.FromString(raw))


def answer(**outputs: tuple[str, list[Any]]) -> InferAnswer:
    return InferAnswer(
        request=InferRequest(inputs=[]),
        model_name="credit",
        model_version="v1",
        id="i",
        parameters={"selected_by": "weight"},
        outputs=[
            {"name": name, "datatype": datatype, "shape": [len(data)], "data": data}
            for name, (datatype, data) in outputs.items()
        ],
    )


@pytest.mark.parametrize("raw", [True, False])
def test_answers_have_the_form_that_is_wanted(raw: bool) -> None:
    given = answer(
        score=("FP64", [0.5, None]), label=("BYTES", ["1", ""]), status=("INT32", [0, 2113])
    )
    message = infer_message(given, raw=raw)
    assert [one.name for one in message.outputs] == ["score", "label", "status"]
    if raw:
        found = [
            unpack_values(one.datatype, values, 2)
            for one, values in zip(message.outputs, message.raw_output_contents, strict=True)
        ]
        assert found == [[0.5, None], ["1", ""], [0, 2113]]
        return
    score, label, status = (one.contents for one in message.outputs)
    assert score.fp64_contents[0] == 0.5
    assert math.isnan(score.fp64_contents[1])
    assert list(label.bytes_contents) == [b"1", b""]
    assert list(status.int_contents) == [0, 2113]
