"""The protocol's gRPC messages, from and to what REST and the rest of the process know.

A request has its values in `contents`, or all of them in `raw_input_contents`; its answer has the
same form. NaN is a missing value in both. Source: KServe, "Open Inference Protocol", gRPC.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any, Final

from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.serving.doors.binary_tensors import raw_tensor
from fedflow.serving.doors.open_inference import InferAnswer
from fedflow.serving.doors.tensor_bytes import pack_values, text_of, without_nan
from fedflow.serving.doors.tensors import (
    InferRequest,
    InputTensor,
    Parameters,
    Tensor,
    WantedOutput,
    bad_tensor,
)
from fedflow.serving.inference import MOST_VALUES
from fedflow.serving.pb import open_inference_pb2 as pb

_FIELDS: Final = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def read_infer_message(message: pb.ModelInferRequest) -> InferRequest:
    """Return a request as the rest of the process knows it. Raises: BadServingRequest."""
    if len(message.inputs) > MOST_VALUES or len(message.outputs) > MOST_VALUES:
        raise BadServingRequest(reason=f"it has more than {MOST_VALUES} inputs, or outputs")
    inputs = [
        InputTensor(
            name=one.name,
            shape=list(one.shape),
            datatype=one.datatype,
            parameters=_parameters(one.parameters),
        )
        for one in message.inputs
    ]
    contents = [one.contents for one in message.inputs]
    if not message.raw_input_contents:
        inputs = [_typed(tensor, own) for tensor, own in zip(inputs, contents, strict=True)]
    elif len(message.raw_input_contents) != len(inputs):
        given = f"{len(message.raw_input_contents)} raw_input_contents, {len(inputs)} inputs"
        raise BadServingRequest(reason=f"it has {given}")
    else:
        for tensor, own in zip(inputs, contents, strict=True):
            if own.ByteSize():
                raise bad_tensor(tensor, "has contents beside raw_input_contents")
        raws = message.raw_input_contents
        inputs = [raw_tensor(tensor, raw) for tensor, raw in zip(inputs, raws, strict=True)]
    return InferRequest(
        id=message.id,
        parameters=_parameters(message.parameters),
        inputs=inputs,
        outputs=[
            WantedOutput(name=one.name, parameters=_parameters(one.parameters))
            for one in message.outputs
        ],
    )


def infer_message(found: InferAnswer, *, raw: bool) -> pb.ModelInferResponse:
    """Return an answer, its values as bytes or in `contents`."""
    response = pb.ModelInferResponse(
        model_name=found.model_name, model_version=found.model_version, id=found.id
    )
    for name, value in found.parameters.items():
        response.parameters[name].string_param = str(value)
    for output in found.outputs:
        shown = response.outputs.add(
            name=output["name"], datatype=output["datatype"], shape=output["shape"]
        )
        if raw:
            values = pack_values(output["datatype"], output["data"])
            response.raw_output_contents.append(values)
        else:
            getattr(shown.contents, _FIELDS[output["datatype"]]).extend(_values(output))
    return response


def metadata_message(facts: Mapping[str, Any]) -> pb.ModelMetadataResponse:
    """Return what metadata say of a model; the message has no place for parameters."""
    response = pb.ModelMetadataResponse(
        name=facts["name"], versions=facts["versions"], platform=facts["platform"]
    )
    for part in ("inputs", "outputs"):
        for one in facts[part]:
            getattr(response, part).add(
                name=one["name"], datatype=one["datatype"], shape=one["shape"]
            )
    return response


def _typed(tensor: InputTensor, contents: pb.InferTensorContents) -> InputTensor:
    """Return a tensor with the values that stand in `contents`. Raises: BadServingRequest."""
    if tensor.datatype == "FP16":
        raise bad_tensor(tensor, "is FP16, whose values come in raw_input_contents alone")
    field = _FIELDS.get(tensor.datatype)
    given = getattr(contents, field) if field is not None else ()
    if len(given) > MOST_VALUES:
        raise bad_tensor(tensor, f"has more than {MOST_VALUES} values")
    values = list(given)
    if tensor.datatype == "BYTES":
        try:
            values = [text_of(value) for value in values]
        except ValueError as exc:
            raise bad_tensor(tensor, str(exc)) from exc
    elif tensor.datatype in ("FP32", "FP64"):
        values = without_nan(values)
    return InputTensor(
        name=tensor.name,
        shape=tensor.shape,
        datatype=tensor.datatype,
        parameters=tensor.parameters,
        data=values,
    )


def _values(output: Tensor) -> list[Any]:
    data = output["data"]
    if output["datatype"] == "BYTES":
        return [str(value).encode() for value in data]
    return [nan if value is None else value for value in data]


def _parameters(given: Mapping[str, Any]) -> Parameters:
    found: Parameters = {}
    for name, parameter in given.items():
        kind = parameter.WhichOneof("parameter_choice")
        found[name] = getattr(parameter, kind) if kind else None
    return found
