"""The callers' port: FATE-Serving's two routes, with its bodies, answers and return codes.

    POST /federation/v1/inference, /federation/v1/batchInference

What is below /v2 is answered by `inference_protocol.py`, through the same `Answering`.
Answers have HTTP status 200 and the return code in the body, as FATE's callers expect. Beside
FATE's members they have `caseId`, the request's id, and `selectedBy`, why that version answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fedflow.base.clock import Clock
from fedflow.base.ids import new_request_id
from fedflow.serving.admin import look_answer
from fedflow.serving.answering import AnsweredRow, Answering, CallerRequest
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.health import ServingHealth
from fedflow.serving.inference import MOST_VALUES, case_id_of
from fedflow.serving.inference_protocol import InferenceProtocol, is_of_protocol
from fedflow.serving.messages import IdValue
from fedflow.serving.models import ServedModels
from fedflow.serving.partner_parts import OnlineRow
from fedflow.serving.services import SelectedVersion
from fedflow.serving.settings import ServingSettings
from fedflow.serving.wsgi import HttpAnswer, HttpCall, check_token, json_answer, no_route

_Values = dict[str, str | int | float | bool | None]


class CallerHead(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What answers: a service, or a version if the settings permit it."""

    service_id: str | None = None
    model_id: str | None = None
    model_version: str | None = None


class SingleItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One row: features stay here, the others go to every host."""

    feature_data: _Values
    send_to_remote_feature_data: dict[str, IdValue]


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


_singles: Final = msgspec.json.Decoder(SingleRequest)
_batches: Final = msgspec.json.Decoder(BatchRequest)


class CallersPortRoutes:
    """Answers the requests of the callers' port."""

    def __init__(
        self,
        models: ServedModels,
        answering: Answering,
        health: ServingHealth,
        *,
        settings: ServingSettings,
        clock: Clock,
    ) -> None:
        self._answering = answering
        self._health = health
        self._settings = settings
        self._clock = clock
        self._protocol = InferenceProtocol(models, answering, health, settings=settings)

    def answer(self, call: HttpCall) -> HttpAnswer:
        """Raises: FedflowError: the request is none of a caller."""
        if is_of_protocol(call.path):
            return self._protocol.answer(call, _case_id(call), self._clock.monotonic_s())
        if call.method == "POST":
            route = {
                "/federation/v1/inference": self._single,
                "/federation/v1/batchInference": self._batch,
            }.get(call.path)
            if route is not None:
                check_token(call, self._settings.callers.token)
                started_s = self._clock.monotonic_s()
                return json_answer(route(call, _case_id(call), started_s))
        looked = look_answer(call, self._health)
        if looked is not None:
            return looked
        raise no_route(call)

    def tried(self, call: HttpCall) -> dict[str, Any]:
        """Return the answer to a single request that came to the admin port, counted as others."""
        return self._single(call, new_request_id(), self._clock.monotonic_s())

    def _single(self, call: HttpCall, case_id: str, started_s: float) -> dict[str, Any]:
        try:
            request = _singles.decode(call.body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
            return self._refused("single", call, case_id, _unreadable(exc))
        asked = _asked("single", request.head, call, case_id, started_s)
        found = self._answering.answer(asked, [_row(request.body, case_id)])
        if isinstance(found, ItemAnswer):
            return _fault(found, case_id)
        (one,) = found
        data = {**_item_data(one.item), **self._version_data(one.chosen)}
        return {**_outcome(one.item), "flag": 0, "data": data, "caseId": case_id}

    def _batch(self, call: HttpCall, case_id: str, started_s: float) -> dict[str, Any]:
        try:
            request = _batches.decode(call.body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
            return self._refused("batch", call, case_id, _unreadable(exc))
        items = request.body.batch_data_list
        fault = _batch_fault(items, self._settings.limits.batch_rows)
        if fault is not None:
            return self._refused("batch", call, case_id, fault)
        asked = _asked("batch", request.head, call, case_id, started_s)
        found = self._answering.answer(asked, [_row(item, case_id) for item in items])
        if isinstance(found, ItemAnswer):
            return _fault(found, case_id)
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
            "caseId": case_id,
            "singleInferenceResultMap": {str(one["index"]): one for one in answers},
        }

    def _version_data(self, chosen: SelectedVersion) -> dict[str, Any]:
        key = chosen.served.key
        return {
            "modelId": key.party_model_id,
            "modelVersion": key.model_version,
            "timestamp": self._clock.now_ms(),
            "selectedBy": chosen.by,
        }

    def _refused(
        self, kind: str, call: HttpCall, case_id: str, fault: ItemAnswer
    ) -> dict[str, Any]:
        asked = _asked(kind, CallerHead(), call, case_id, self._clock.monotonic_s())
        return _fault(self._answering.refused(asked, fault), case_id)


def _asked(
    kind: str, head: CallerHead, call: HttpCall, case_id: str, started_s: float
) -> CallerRequest:
    return CallerRequest(
        kind=kind,
        case_id=case_id,
        service_id=head.service_id or "",
        model_id=head.model_id or "",
        model_version=head.model_version or "",
        header=call.header,
        started_s=started_s,
    )


def _fault(fault: ItemAnswer, case_id: str) -> dict[str, Any]:
    """Return the answer to a request that no version answers."""
    return {**_outcome(fault), "flag": 0, "data": {}, "caseId": case_id}


def _batch_data(one: AnsweredRow) -> dict[str, Any]:
    """Return an item's data; users of one batch may have several versions."""
    version = one.chosen.served.key.model_version
    return {**_item_data(one.item), "modelVersion": version, "selectedBy": one.chosen.by}


def _case_id(call: HttpCall) -> str:
    """Return the id that the caller gave, if it may stand in a log, else a new one."""
    return case_id_of(call.header("caseId"), "") or new_request_id()


def _row(item: SingleItem, case_id: str) -> OnlineRow:
    return OnlineRow(
        request_id=case_id, features=item.feature_data, ids=item.send_to_remote_feature_data
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


def _unreadable(error: Exception) -> ItemAnswer:
    return failed(ServingCode.PARAMETERS, f"the body cannot be read: {error}"[:500])


def _outcome(item: ItemAnswer) -> dict[str, Any]:
    return {"retcode": item.retcode, "retmsg": item.message}


def _item_data(item: ItemAnswer) -> dict[str, Any]:
    if item.retcode:
        return {}
    data: dict[str, Any] = {"score": item.score}
    if item.label is not None:
        data["label"] = item.label
    if item.credit_score is not None:
        data["creditScore"] = item.credit_score
    if item.degraded:
        data["degraded"] = item.degraded.how
        data["degradedReason"] = item.degraded.why
    data.update(item.more or {})
    return data
