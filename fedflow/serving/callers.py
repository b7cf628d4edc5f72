"""The callers' port: FATE-Serving's two routes, with its bodies, answers and return codes.

    POST /federation/v1/inference, /federation/v1/batchInference

What is below /v2 is answered by `inference_protocol.py`, with what is chosen and counted here.
Answers have HTTP status 200 and the return code in the body, as FATE's callers expect. Beside
FATE's members they have `caseId`, the request's id, and `selectedBy`, why that version answers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import (
    ServiceNotBound,
    VersionNotLoaded,
)
from fedflow.base.ids import new_request_id
from fedflow.serving.admin import look_answer
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.health import ServingHealth
from fedflow.serving.inference import (
    MOST_VALUES,
    Inference,
    OnlineRow,
    SelectedVersion,
    case_id_of,
)
from fedflow.serving.inference_protocol import InferenceProtocol, is_of_protocol
from fedflow.serving.messages import IdValue
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.models import ServedModels
from fedflow.serving.settings import ServingSettings
from fedflow.serving.tensors import undeclared_id
from fedflow.serving.wsgi import HttpAnswer, HttpCall, check_token, json_answer, no_route

logger = logging.getLogger(__name__)

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
        inference: Inference,
        health: ServingHealth,
        metrics: ServingMetrics,
        *,
        settings: ServingSettings,
        clock: Clock,
    ) -> None:
        self._models = models
        self._inference = inference
        self._health = health
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._limits = settings.limits
        self._protocol = InferenceProtocol(
            models,
            inference,
            health,
            settings=settings,
            select=self._of_path,
            count=self._count,
            refuse=self._refused,
        )

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

    def _single(self, call: HttpCall, case_id: str, started_s: float) -> dict[str, Any]:
        try:
            request = _singles.decode(call.body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
            return self._refused("single", case_id, _unreadable(exc))
        chosen = self._ids_fault([request.body]) or self._select(request.head)
        if isinstance(chosen, ItemAnswer):
            return self._refused("single", case_id, chosen)
        row = _row(request.body, case_id)
        deadline_s = started_s + self._limits.single_ms / 1000
        item = self._inference.single(chosen.served, row, deadline_s)
        self._count("single", case_id, chosen, [item], started_s)
        data = {**_item_data(item), **self._version_data(chosen)}
        return {**_outcome(item), "flag": 0, "data": data, "caseId": case_id}

    def _batch(self, call: HttpCall, case_id: str, started_s: float) -> dict[str, Any]:
        try:
            request = _batches.decode(call.body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
            return self._refused("batch", case_id, _unreadable(exc))
        items = request.body.batch_data_list
        fault = _batch_fault(items, self._limits.batch_rows)
        chosen = fault or self._ids_fault(items) or self._select(request.head)
        if isinstance(chosen, ItemAnswer):
            return self._refused("batch", case_id, chosen)
        rows = [_row(item, case_id) for item in items]
        deadline_s = started_s + self._limits.batch_ms / 1000
        found = self._inference.batch(chosen.served, rows, deadline_s)
        self._count("batch", case_id, chosen, found, started_s)
        answers = [
            {"index": item.index, **_outcome(one), "data": _item_data(one)}
            for item, one in zip(items, found, strict=True)
        ]
        return {
            "retcode": 0,
            "retmsg": "",
            "flag": 0,
            "data": self._version_data(chosen),
            "batchDataList": answers,
            "caseId": case_id,
            "singleInferenceResultMap": {str(one["index"]): one for one in answers},
        }

    def _of_path(self, service_id: str, model_version: str) -> SelectedVersion | ItemAnswer:
        """Return what answers for a service, or another version of the model it is bound to."""
        if model_version and not self._settings.explicit_version:
            return failed(ServingCode.AUTHORISATION, "requests may name no version here")
        chosen = self._select(CallerHead(service_id=service_id))
        if isinstance(chosen, ItemAnswer) or not model_version:
            return chosen
        model_id = chosen.served.key.model_id
        return self._select(CallerHead(model_id=model_id, model_version=model_version))

    def _ids_fault(self, items: Sequence[SingleItem]) -> ItemAnswer | None:
        """Return why ids may not leave this site; None: they may."""
        declared = self._settings.partner_ids
        names = (name for item in items for name in item.send_to_remote_feature_data)
        name = undeclared_id(names, declared)
        if not name:
            return None
        return failed(ServingCode.PARAMETERS, f"{name[:100]!r} may not leave this site")

    def _select(self, head: CallerHead) -> SelectedVersion | ItemAnswer:
        """Return what answers: the service, else the named version, else the default service."""
        settings = self._settings
        try:
            if head.service_id:
                served = self._models.of_service(head.service_id)
                return SelectedVersion(served=served, service_id=head.service_id, by="service")
            if head.model_version and settings.explicit_version:
                served = self._models.of_version(head.model_id or "", head.model_version)
                return SelectedVersion(served=served, service_id="", by="version")
            if settings.default_service is not None:
                served = self._models.of_service(settings.default_service)
                return SelectedVersion(
                    served=served, service_id=settings.default_service, by="default"
                )
        except ServiceNotBound as exc:
            return failed(ServingCode.NO_SERVICE, str(exc.message))
        except VersionNotLoaded as exc:
            return failed(ServingCode.NO_MODEL, str(exc.message))
        return failed(ServingCode.PARAMETERS, "the request has no serviceId")

    def _version_data(self, chosen: SelectedVersion) -> dict[str, Any]:
        key = chosen.served.key
        return {
            "modelId": key.party_model_id,
            "modelVersion": key.model_version,
            "timestamp": self._clock.now_ms(),
            "selectedBy": chosen.by,
        }

    def _refused(self, kind: str, case_id: str, fault: ItemAnswer) -> dict[str, Any]:
        self._metrics.requests.add("", "", kind)
        self._metrics.rows.add("", "", str(fault.retcode))
        if self._settings.access_log:
            logger.info("%s %s retcode=%d", case_id, kind, fault.retcode)
        return {**_outcome(fault), "flag": 0, "data": {}, "caseId": case_id}

    def _count(
        self,
        kind: str,
        case_id: str,
        chosen: SelectedVersion,
        items: Sequence[ItemAnswer],
        started_s: float,
    ) -> None:
        took_s = self._clock.monotonic_s() - started_s
        labels = (chosen.service_id, chosen.served.key.model_version)
        self._metrics.requests.add(*labels, kind)
        self._metrics.latency.observe(took_s, *labels)
        for item in items:
            self._metrics.rows.add(*labels, str(item.retcode))
        if self._settings.access_log:
            worst = max(item.retcode for item in items)
            logger.info(
                "%s %s service=%s version=%s rows=%d retcode=%d %.1f ms",
                case_id,
                kind,
                *labels,
                len(items),
                worst,
                took_s * 1000,
            )


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
    return data
