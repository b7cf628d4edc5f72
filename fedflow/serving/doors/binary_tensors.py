"""Binary tensors over REST: bodies that are JSON, then the bytes of tensors one after the other.

A header says how long the JSON is. In it `binary_data_size` stands in the place of a tensor's data;
`binary_data` and `binary_data_output` say which outputs are wanted so.
Source: KServe, "Binary Tensor Data Extension".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.serving.doors.tensor_bytes import pack_values
from fedflow.serving.doors.tensors import (
    InferRequest,
    InputTensor,
    Parameters,
    RawTensor,
    Tensor,
    bad_tensor,
    read_infer_request,
)

EXTENSION: Final = "binary_tensor_data"
LENGTH_HEADER: Final = "Inference-Header-Content-Length"
SIZE: Final = "binary_data_size"


def read_binary_request(body: bytes, length: str) -> InferRequest:
    """Return a request; `length` is the header's value, empty if there is none.

    Raises: BadServingRequest: sizes do not fit the body.
    """
    if not length:
        return read_infer_request(body)
    if not re.fullmatch(r"[0-9]{1,10}", length) or int(length) > len(body):
        reason = f"{LENGTH_HEADER} is no number of bytes of the body"
        raise BadServingRequest(reason=reason)
    place = int(length)
    request = read_infer_request(body[:place])
    inputs: list[InputTensor] = []
    for tensor in request.inputs:
        if SIZE in tensor.parameters:
            size = _size(tensor, len(body) - place)
            tensor = raw_tensor(tensor, body[place : place + size])
            place += size
        inputs.append(tensor)
    if place != len(body):
        reason = f"its body has {len(body) - place} bytes that belong to no tensor"
        raise BadServingRequest(reason=reason)
    return msgspec.structs.replace(request, inputs=inputs)


def raw_tensor(tensor: InputTensor, raw: bytes) -> RawTensor:
    """Return a tensor that has its values as bytes."""
    given = {name: getattr(tensor, name) for name in tensor.__struct_fields__}
    return RawTensor(**given, raw=raw)


def binary_names(request: InferRequest, names: Sequence[str]) -> frozenset[str]:
    """Return which of the outputs are wanted as bytes. Raises: BadServingRequest."""
    every = _flag(request.parameters, "binary_data_output", False)
    wanted = {one.name: _flag(one.parameters, "binary_data", every) for one in request.outputs}
    return frozenset(name for name in names if wanted.get(name, every))


def split_outputs(
    outputs: Sequence[Tensor], binary: frozenset[str]
) -> tuple[list[Tensor], list[bytes]]:
    """Return the outputs as JSON has them, and the bytes of those that are binary."""
    shown, raws = [], []
    for output in outputs:
        if output["name"] in binary:
            raw = pack_values(output["datatype"], output["data"])
            without = {name: value for name, value in output.items() if name != "data"}
            output = {**without, "parameters": {SIZE: len(raw)}}
            raws.append(raw)
        shown.append(output)
    return shown, raws


def _size(tensor: InputTensor, left: int) -> int:
    size: Any = tensor.parameters[SIZE]
    if type(size) is not int or not 0 <= size <= left:
        raise bad_tensor(tensor, f"has a {SIZE} that the body has not got")
    if tensor.data is not None:
        raise bad_tensor(tensor, "has data in the JSON and as bytes")
    return size


def _flag(parameters: Parameters, name: str, other: bool) -> bool:
    value = parameters.get(name)
    if value is None:
        return other
    if not isinstance(value, bool):
        raise BadServingRequest(reason=f"the parameter {name} is neither true nor false")
    return value
