"""FATE-Serving's inference: its bodies, answers and return codes, over HTTP and over gRPC.

HTTP has `head` and `body`; gRPC has the members of both in one object. All else is the same.
Beside FATE's members, answers have `caseId`, the request's id, and `selectedBy`, why that version
answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from fedflow.base.clock import Clock
from fedflow.serving.answering import AnsweredRow, Answering, CallerRequest
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.inference import MOST_VALUES
from fedflow.serving.partners.messages import IdValue
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.services.services import SelectedVersion
from fedflow.serving.settings import ServingLimits

_Values = dict[str, str | int | float | bool | None]


class CallerHead(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What answers: a service, or a version if the settings permit it."""

    service_id: str | None = None
    model_id: str | None = None
    model_version: str | None = None


class SingleItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One row: features stay here, the others go to every host; without hosts there are none."""

    feature_data: _Values
    send_to_remote_feature_data: dict[str, IdValue] | None = None


class BatchItem(SingleItem, frozen=True, kw_only=True, rename="camel"):
    """One row of several, with a number that the answer has, too."""

    index: int


class BatchBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rows of a batch."""

    batch_data_list: list[BatchItem]


class SingleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `inference`."""

    head: CallerHead = CallerHead()
    body: SingleItem


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `batchInference`."""

    head: CallerHead = CallerHead()
    body: BatchBody


class FlatSingle(CallerHead, frozen=True, kw_only=True, rename="camel"):
    """Body of `inference` over gRPC."""

    case_id: str = ""
    feature_data: _Values
    send_to_remote_feature_data: dict[str, IdValue] | None = None


class FlatBatch(CallerHead, frozen=True, kw_only=True, rename="camel"):
    """Body of `batchInference` over gRPC."""

    case_id: str = ""
    batch_data_list: list[BatchItem]


_singles: Final = msgspec.json.Decoder(SingleRequest)
_batches: Final = msgspec.json.Decoder(BatchRequest)
_flat_singles: Final = msgspec.json.Decoder(FlatSingle)
_flat_batches: Final = msgspec.json.Decoder(FlatBatch)

_NO_IDS: Final = "sendToRemoteFeatureData is missing: the hosts of this model need ids"

_Answer = dict[str, Any]
T = TypeVar("T")


class FateInference:
    """Answers FATE's requests. Thread-safe."""

    def __init__(self, answering: Answering, *, limits: ServingLimits, clock: Clock) -> None:
        self._answering = answering
        self._limits = limits
        self._clock = clock

    def single(self, asked: CallerRequest, raw: bytes) -> _Answer:
        """Return the answer to a body with `head` and `body`."""
        request = _read(_singles, raw)
        if isinstance(request, ItemAnswer):
            return self._refused(asked, request)
        return self._single(_with_head(asked, request.head), request.body)

    def batch(self, asked: CallerRequest, raw: bytes) -> _Answer:
        """Return the answer to a batch with `head` and `body`."""
        request = _read(_batches, raw)
        if isinstance(request, ItemAnswer):
            return self._refused(asked, request)
        return self._batch(_with_head(asked, request.head), request.body.batch_data_list)

    def flat_single(self, asked: CallerRequest, raw: bytes) -> _Answer:
        """Return the answer to a body without `head`."""
        request = _read(_flat_singles, raw)
        if isinstance(request, ItemAnswer):
            return self._refused(asked, request)
        return self._single(_with_head(asked.named(request.case_id), request), request)

    def flat_batch(self, asked: CallerRequest, raw: bytes) -> _Answer:
        """Return the answer to a batch without `head`."""
        request = _read(_flat_batches, raw)
        if isinstance(request, ItemAnswer):
            return self._refused(asked, request)
        named = asked.named(request.case_id)
        return self._batch(_with_head(named, request), request.batch_data_list)

    def _single(self, asked: CallerRequest, item: SingleItem | FlatSingle) -> _Answer:
        fault = self._ids_fault(asked, [item])
        if fault is not None:
            return self._refused(asked, fault)
        found = self._answering.answer(asked, [_row(item, asked.case_id)])
        if isinstance(found, ItemAnswer):
            return _fault(found, asked.case_id)
        (one,) = found
        data = {**_item_data(one.item), **self._version_data(one.chosen)}
        return {**_outcome(one.item), "flag": 0, "data": data, "caseId": asked.case_id}

    def _batch(self, asked: CallerRequest, items: Sequence[BatchItem]) -> _Answer:
        fault = _batch_fault(items, self._limits.batch_rows) or self._ids_fault(asked, items)
        if fault is not None:
            return self._refused(asked, fault)
        found = self._answering.answer(asked, [_row(item, asked.case_id) for item in items])
        if isinstance(found, ItemAnswer):
            return _fault(found, asked.case_id)
        answers = [
            {"index": item.index, **_outcome(one.item), "data": _batch_data(one)}
            for item, one in zip(items, found, strict=True)
        ]
        return {
            "retcode": 0,
            "retmsg": "",
            "flag": 0,
            "data": self._version_data(found[0].chosen),
            "batchDataList": answers,
            "caseId": asked.case_id,
            "singleInferenceResultMap": {str(one["index"]): one for one in answers},
        }

    def _ids_fault(
        self, asked: CallerRequest, items: Sequence[SingleItem | FlatSingle]
    ) -> ItemAnswer | None:
        """Return why rows without ids are not answered: hosts need them; None: they are."""
        if all(item.send_to_remote_feature_data is not None for item in items):
            return None
        if self._answering.caller_fault(asked) is not None:
            return None  # which is the answer
        chosen = self._answering.select(asked, {})
        if isinstance(chosen, ItemAnswer) or not chosen.served.model.hosts:
            return None
        return failed(ServingCode.PARAMETERS, _NO_IDS)

    def _version_data(self, chosen: SelectedVersion) -> _Answer:
        key = chosen.served.key
        return {
            "modelId": key.party_model_id,
            "modelVersion": key.model_version,
            "timestamp": self._clock.now_ms(),
            "selectedBy": chosen.by,
        }

    def _refused(self, asked: CallerRequest, fault: ItemAnswer) -> _Answer:
        return _fault(self._answering.refused(asked, fault), asked.case_id)


def _with_head(asked: CallerRequest, head: CallerHead) -> CallerRequest:
    return replace(
        asked,
        service_id=head.service_id or "",
        model_id=head.model_id or "",
        model_version=head.model_version or "",
    )


def _fault(fault: ItemAnswer, case_id: str) -> _Answer:
    """Return the answer to a request that no version answers."""
    return {**_outcome(fault), "flag": 0, "data": {}, "caseId": case_id}


def _batch_data(one: AnsweredRow) -> _Answer:
    """Return an item's data; users of one batch may have several versions."""
    version = one.chosen.served.key.model_version
    return {**_item_data(one.item), "modelVersion": version, "selectedBy": one.chosen.by}


def _row(item: SingleItem | FlatSingle, case_id: str) -> OnlineRow:
    return OnlineRow(
        request_id=case_id, features=item.feature_data, ids=item.send_to_remote_feature_data or {}
    )


def _batch_fault(items: Sequence[BatchItem], most: int) -> ItemAnswer | None:
    """Return why a batch is not answered; None: it is."""
    if not 0 < len(items) <= most:
        return failed(ServingCode.PARAMETERS, f"the batch has {len(items)} rows, not 1 to {most}")
    if len({item.index for item in items}) < len(items):
        return failed(ServingCode.PARAMETERS, "an index is there twice")
    if sum(len(item.feature_data) for item in items) > MOST_VALUES:
        return failed(ServingCode.PARAMETERS, f"the batch has more than {MOST_VALUES} values")
    return None


def _read(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | ItemAnswer:
    """Return what a body says, or why it cannot be read."""
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        return failed(ServingCode.PARAMETERS, f"the body cannot be read: {exc}"[:500])


def _outcome(item: ItemAnswer) -> _Answer:
    return {"retcode": item.retcode, "retmsg": item.message}


def _item_data(item: ItemAnswer) -> _Answer:
    if item.retcode:
        return {}
    data: _Answer = {"score": item.score}
    if item.label is not None:
        data["label"] = item.label
    if item.credit_score is not None:
        data["creditScore"] = item.credit_score
    if item.degraded:
        data["degraded"] = item.degraded.how
        data["degradedReason"] = item.degraded.why
    data.update(item.more or {})
    return data
