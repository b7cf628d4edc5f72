"""Tensors of the Open Inference Protocol v2: a request's become rows, answers to rows become some.

Source: KServe, "Open Inference Protocol", version 2, REST.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import Any, Final

import msgspec

from fedflow.base.decoding import read_as
from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.base.values import dataclass
from fedflow.serving.codes import ItemAnswer
from fedflow.serving.doors.tensor_bytes import unpack_values
from fedflow.serving.online import ServableModel
from fedflow.serving.partners.messages import IdValue

SEND_TO_REMOTE: Final = "send_to_remote"  #: parameter of tensors with ids for the partners

_WHOLE: Final[Mapping[str, tuple[int, int]]] = {
    **{f"INT{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
_REAL: Final = {"FP16": 65504.0, "FP32": (2 - 2**-23) * 2.0**127, "FP64": sys.float_info.max}
_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "BOOL": frozenset({bool}),
    "BYTES": frozenset({str}),
    **dict.fromkeys(_WHOLE, frozenset({int})),
    **dict.fromkeys(_REAL, frozenset({int, float})),
}
_ID_TYPES: Final = ("BYTES", "INT64")
_OUTPUTS: Final = ("score", "label", "credit_score", "status", "message")
_ELSEWHERE: Final = {
    "binary_data_size": "is binary, but no header Inference-Header-Content-Length says where",
    "shared_memory_region": "is in shared memory, which is not read",
}
_SHOWN: Final = 100  #: signs of a name that a sentence repeats

Parameters = dict[str, str | int | float | bool | None]
Tensor = dict[str, Any]  #: as the protocol writes it


class InputTensor(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one column; `data` is row-major, flat or nested."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = {}
    data: list[Any] | None = None


class RawTensor(InputTensor, frozen=True, kw_only=True):
    """A column whose values are bytes; JSON has no such tensor."""

    raw: bytes


class WantedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output that a caller wants."""

    name: str
    parameters: Parameters = {}


class InferRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `infer`."""

    id: str = ""
    parameters: Parameters = {}
    inputs: list[InputTensor]
    outputs: list[WantedOutput] = []


_requests: Final = msgspec.json.Decoder(InferRequest)


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorRows:
    """The rows of a request, values by column; both have the same length."""

    features: list[dict[str, Any]]  #: stay with the guest
    ids: list[dict[str, IdValue]]  #: go to every host


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorLimits:
    """What the tensors of a request may have."""

    rows: int
    values: int  #: of all tensors
    ids: tuple[str, ...] | None  #: names of ids that may leave; None: all that are marked
    more: bool = False  #: others than inputs of the model, for hooks and the guest's look-up


def read_infer_request(body: bytes) -> InferRequest:
    """Raises: BadServingRequest: it is no request; what its tensors hold is not checked."""
    try:
        try:
            return _requests.decode(body)
        except msgspec.DecodeError:
            if b"NaN" not in body and b"Infinity" not in body:
                raise
            return read_as(json.loads(body), InferRequest)  # so that the tensor is named
    except (msgspec.MsgspecError, RecursionError, ValueError) as exc:
        raise BadServingRequest(reason=f"the body cannot be read: {exc}"[:500]) from exc


def read_rows(request: InferRequest, model: ServableModel, limits: TensorLimits) -> TensorRows:
    """Return the rows of a request to a model. Raises: BadServingRequest: it names the tensor."""
    tensors = request.inputs
    number, inputs = _rows_of(tensors, limits), frozenset(model.inputs)
    features: dict[str, list[Any]] = {}
    ids: dict[str, list[Any]] = {}
    for tensor in tensors:
        if tensor.name in features or tensor.name in ids:
            raise bad_tensor(tensor, "is there twice")
        leaves = _leaves(tensor, limits.ids)
        values = _values(tensor, number)
        if leaves:
            ids[tensor.name] = _ids(tensor, values)
        elif tensor.name in inputs or limits.more:
            features[tensor.name] = values
        else:
            raise bad_tensor(tensor, "is no input of the model")
    if model.hosts and not ids:
        reason = f"no tensor with ids for the partners has the parameter {SEND_TO_REMOTE}"
        raise BadServingRequest(reason=reason)
    sent = ids if model.hosts or limits.more else {}
    return TensorRows(features=_by_row(features, number), ids=_by_row(sent, number))


def input_facts(model: ServableModel, ids: Sequence[str]) -> list[Tensor]:
    """Return what metadata say of a model's inputs; `ids` are those that leave."""
    own = [
        _fact(name, "BYTES" if name in model.text_inputs else "FP64", [-1]) for name in model.inputs
    ]
    found = [{**fact, "parameters": {SEND_TO_REMOTE: False}} for fact in own]
    for name in ids:
        found.append({**_fact(name, "BYTES", [-1]), "parameters": {SEND_TO_REMOTE: True}})
    return found


def output_facts(model: ServableModel) -> list[Tensor]:
    """Return what metadata say of a model's outputs."""
    classes = _classes(model)
    facts = {
        "score": _fact("score", "FP64", [-1, classes] if classes else [-1]),
        "label": _fact("label", "BYTES", [-1]),
        "status": _fact("status", "INT32", [-1]),
        "message": _fact("message", "BYTES", [-1]),
    }
    return [fact for name, fact in facts.items() if name != "label" or model.labels]


def output_tensors(
    items: Sequence[ItemAnswer], model: ServableModel, asked: Sequence[WantedOutput]
) -> list[Tensor]:
    """Return the answers to rows; those without a score have null, an empty label and a status."""
    found = {tensor["name"]: tensor for tensor in _all_outputs(items, model)}
    if not asked:
        return list(found.values())
    return [found[one.name] for one in asked if one.name in found]


def check_asked(asked: Sequence[WantedOutput]) -> None:
    """Raises: BadServingRequest: an output is unknown, there twice, or wanted in a way that is not
    there.
    """
    if len({one.name for one in asked}) < len(asked):
        raise BadServingRequest(reason="an output is there twice")
    for one in asked:
        name = repr(one.name[:_SHOWN])
        if one.name not in _OUTPUTS:
            raise BadServingRequest(reason=f"there is no output {name}: {', '.join(_OUTPUTS)}")
        if "classification" in one.parameters or "shared_memory_region" in one.parameters:
            raise BadServingRequest(reason=f"output {name}: neither classification nor memory")


def undeclared_id(names: Iterable[str], declared: Sequence[str] | None) -> str:
    """Return a name that may not leave the site; an empty text: there is none."""
    if declared is None:
        return ""
    return next((name for name in names if name not in declared), "")


def _rows_of(tensors: Sequence[InputTensor], limits: TensorLimits) -> int:
    """Return how many rows a request has. Raises: BadServingRequest."""
    if not tensors:
        raise BadServingRequest(reason="it has no inputs")
    number = 0
    for tensor in tensors:
        shape = tensor.shape
        if len(shape) not in (1, 2) or shape[1:] not in ([], [1]):
            raise bad_tensor(tensor, f"has the shape {str(shape)[:_SHOWN]}, not [n] or [n, 1]")
        if not 0 < shape[0] <= limits.rows:
            raise bad_tensor(tensor, f"has {shape[0]} rows, not 1 to {limits.rows}")
        number = number or shape[0]
        if shape[0] != number:
            raise bad_tensor(tensor, f"has {shape[0]} rows, others have {number}")
    if number * len(tensors) > limits.values:
        raise BadServingRequest(reason=f"its inputs have more than {limits.values} values")
    return number


def _leaves(tensor: InputTensor, declared: Sequence[str] | None) -> bool:
    """Tell whether a tensor goes to the partners. Raises: BadServingRequest: it may not."""
    given = tensor.parameters.get(SEND_TO_REMOTE)
    if given is None:
        return declared is not None and tensor.name in declared
    if not isinstance(given, bool):
        raise bad_tensor(tensor, f"has a parameter {SEND_TO_REMOTE} that is neither true nor false")
    if given and undeclared_id([tensor.name], declared):
        raise bad_tensor(
            tensor, "may not leave this site: the settings do not name it in partner_ids"
        )
    return given


def _values(tensor: InputTensor, number: int) -> list[Any]:
    """Return the values of a tensor's rows, None where missing. Raises: BadServingRequest."""
    allowed = _TYPES.get(tensor.datatype)
    if allowed is None:
        types = ", ".join(_TYPES)
        raise bad_tensor(tensor, f"has the datatype {tensor.datatype[:20]!r}, none of {types}")
    values = _flat(tensor, number)
    kinds = set(map(type, values))
    if not kinds - {type(None)} <= allowed:
        raise bad_tensor(tensor, f"has values that are no {tensor.datatype}")
    given = values if type(None) not in kinds else [one for one in values if one is not None]
    if tensor.datatype in _WHOLE:
        least, most = _WHOLE[tensor.datatype]
        if given and not (least <= min(given) and max(given) <= most):
            raise bad_tensor(tensor, f"has values beyond {tensor.datatype}")
    elif tensor.datatype in _REAL:
        _check_real(tensor, given)
        if int in kinds:
            return [None if one is None else float(one) for one in values]
    elif tensor.datatype == "BOOL":
        return [None if one is None else int(one) for one in values]
    return values


def _flat(tensor: InputTensor, number: int) -> list[Any]:
    """Return the data of a tensor in one list. Raises: BadServingRequest: of another length."""
    data = tensor.data
    if isinstance(tensor, RawTensor):
        try:
            return unpack_values(tensor.datatype, tensor.raw, number)
        except ValueError as exc:
            raise bad_tensor(tensor, str(exc)) from exc
    if data is None:
        reason = next((why for name, why in _ELSEWHERE.items() if name in tensor.parameters), "")
        raise bad_tensor(tensor, reason or "has no data")
    if len(tensor.shape) == 2 and set(map(type, data)) == {list}:
        if set(map(len, data)) != {1}:
            raise bad_tensor(tensor, "has rows with another number of values than its shape says")
        data = list(chain.from_iterable(data))
    if len(data) != number:
        raise bad_tensor(tensor, f"has {len(data)} values, its shape says {number}")
    return data


def _check_real(tensor: InputTensor, values: Sequence[float]) -> None:
    most = _REAL[tensor.datatype]
    try:
        good = all(map(isfinite, values))
    except OverflowError:  # a whole number beyond float64
        good = False
    if not good:
        raise bad_tensor(tensor, "has NaN or infinite values; a missing value is null")
    if most < sys.float_info.max and values and not (-most <= min(values) and max(values) <= most):
        raise bad_tensor(tensor, f"has values beyond {tensor.datatype}")


def _ids(tensor: InputTensor, values: list[Any]) -> list[Any]:
    if tensor.datatype not in _ID_TYPES:
        raise bad_tensor(tensor, f"goes to the partners, so it is {' or '.join(_ID_TYPES)}")
    if None in values:
        raise bad_tensor(tensor, "goes to the partners, so no value is missing")
    return values


def _by_row(columns: Mapping[str, Sequence[Any]], number: int) -> list[dict[str, Any]]:
    if not columns:
        return [{} for _ in range(number)]
    names = list(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _all_outputs(items: Sequence[ItemAnswer], model: ServableModel) -> Iterator[Tensor]:
    yield _scores(items, model)
    if model.labels:
        labels = ["" if one.retcode or one.label is None else str(one.label) for one in items]
        yield _tensor("label", "BYTES", labels)
    if any(one.credit_score is not None for one in items):
        yield _tensor("credit_score", "FP64", [one.credit_score for one in items])
    yield _tensor("status", "INT32", [one.retcode for one in items])
    yield _tensor("message", "BYTES", [one.message for one in items])


def _scores(items: Sequence[ItemAnswer], model: ServableModel) -> Tensor:
    lists = [one.score for one in items if isinstance(one.score, list)]
    classes = len(lists[0]) if lists else _classes(model)
    scored = any(one.score is not None for one in items)
    if not classes or (scored and not lists):
        return _tensor("score", "FP64", [one.score for one in items])
    lines = [one.score if isinstance(one.score, list) else [None] * classes for one in items]
    data = list(chain.from_iterable(lines))
    return {**_fact("score", "FP64", [len(items), classes]), "data": data}


def _classes(model: ServableModel) -> int:
    """Return how many scores a row has; 0: it is one number."""
    return len(model.labels) if len(model.labels) > 2 else 0


def _fact(name: str, datatype: str, shape: list[int]) -> Tensor:
    return {"name": name, "datatype": datatype, "shape": shape}


def _tensor(name: str, datatype: str, data: list[Any]) -> Tensor:
    return {**_fact(name, datatype, [len(data)]), "data": data}


def bad_tensor(tensor: InputTensor, what: str) -> BadServingRequest:
    """Return the error of a request with such a tensor."""
    return BadServingRequest(reason=f"the tensor {tensor.name[:_SHOWN]!r} {what}")
