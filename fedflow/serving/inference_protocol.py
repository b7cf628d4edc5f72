"""The Open Inference Protocol v2 at the callers' port: a model is a service, a version a version.

    GET  /v2, /v2/health/live, /v2/health/ready
    GET  /v2/models/{name}[/versions/{version}][/ready]
    POST /v2/models/{name}[/versions/{version}]/infer

An error has its HTTP status and `{"error": sentence}`. What comes of a single row is no error of
the request: the output `status` has its return code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow import __version__
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.serving.answering import Answering, CallerRequest
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.health import ServingHealth
from fedflow.serving.inference import MOST_VALUES, case_id_of
from fedflow.serving.messages import IdValue
from fedflow.serving.models import ServedModels
from fedflow.serving.partner_parts import OnlineRow
from fedflow.serving.services import SelectedVersion
from fedflow.serving.settings import ServingSettings
from fedflow.serving.tensors import (
    InferRequest,
    TensorLimits,
    check_asked,
    input_facts,
    output_facts,
    output_tensors,
    read_infer_request,
    read_rows,
)
from fedflow.serving.wsgi import HttpAnswer, HttpCall, check_token, json_answer, no_route

logger = logging.getLogger(__name__)

_HTTP: Final[Mapping[int, int]] = {
    ServingCode.NO_SERVICE: 404,
    ServingCode.NO_MODEL: 404,
    ServingCode.AUTHORISATION: 403,
    ServingCode.OVERLOAD: 503,
}
_BINARY: Final = "binary tensors are not read; send JSON (tritonclient: binary_data=False)"


def is_of_protocol(path: str) -> bool:
    """Tell whether a path is one of the protocol."""
    return path == "/v2" or path.startswith("/v2/")


class InferenceProtocol:
    """Answers the requests of the protocol."""

    def __init__(
        self,
        models: ServedModels,
        answering: Answering,
        health: ServingHealth,
        *,
        settings: ServingSettings,
    ) -> None:
        self._models = models
        self._answering = answering
        self._health = health
        self._settings = settings

    def answer(self, call: HttpCall, case_id: str, started_s: float) -> HttpAnswer:
        """Return the answer, also to what is wrong; `started_s` is of the monotonic clock."""
        try:
            return self._answer(call, case_id, started_s)
        except FedflowError as exc:
            return _error(str(exc.message), exc.http)
        except Exception:
            logger.exception("A request failed", extra={"action": "request_failed"})
            return _error("internal error", 500)

    def _answer(self, call: HttpCall, case_id: str, started_s: float) -> HttpAnswer:
        method = "GET" if call.method == "HEAD" else call.method
        words = [word for word in call.path.split("/")[2:] if word]
        if method == "GET" and words in (["health", "live"], ["health", "ready"]):
            return self._alive(ready=words[1] == "ready")
        check_token(call, self._settings.callers.token)
        version = ""
        if words[:1] == ["models"] and words[2:3] == ["versions"] and len(words) > 3:
            version = words[3]
            del words[2:4]
        match (method, *words):
            case ("GET",):
                return json_answer({"name": "fedflow", "version": __version__, "extensions": []})
            case ("GET", "models", name):
                return self._with(call, name, version, lambda one: self._metadata(name, one))
            case ("GET", "models", name, "ready"):
                return self._with(call, name, version, lambda _: {"name": name, "ready": True})
            case ("POST", "models", name, "infer"):
                asked = _asked(name, version, call, case_id, started_s)
                return self._inferred(asked, call)
        raise no_route(call)

    def _alive(self, *, ready: bool) -> HttpAnswer:
        if not ready:
            return json_answer({"live": True})
        good = not self._health.draining
        return json_answer({"live": True, "ready": good}, status=200 if good else 503)

    def _with(
        self, call: HttpCall, name: str, version: str, found: Callable[[SelectedVersion], Any]
    ) -> HttpAnswer:
        chosen = self._select(_asked(name, version, call, "", 0.0), {})
        if isinstance(chosen, ItemAnswer):
            return _fault(chosen)
        return json_answer(found(chosen))

    def _select(
        self, asked: CallerRequest, ids: Mapping[str, IdValue]
    ) -> SelectedVersion | ItemAnswer:
        """Return what answers for a service, or another version of the model it is bound to."""
        version = asked.model_version
        if version and not self._settings.explicit_version:
            return failed(ServingCode.AUTHORISATION, "requests may name no version here")
        chosen = self._answering.select(asked, ids)
        if isinstance(chosen, ItemAnswer) or not version:
            return chosen
        model_id = chosen.served.key.model_id
        named = replace(asked, service_id="", model_id=model_id, model_version=version)
        return self._answering.select(named, ids)

    def _metadata(self, name: str, chosen: SelectedVersion) -> dict[str, Any]:
        key, model = chosen.served.key, chosen.served.model
        versions = [key.model_version]
        if self._settings.explicit_version:
            others = [one.key for one in self._models.loaded()]
            versions = [
                one.model_version
                for one in others
                if (one.role, one.party_id, one.model_id) == (key.role, key.party_id, key.model_id)
            ]
        ids = self._settings.partner_ids if model.hosts else ()
        return {
            "name": name,
            "versions": versions,
            "platform": "fedflow",
            "inputs": input_facts(model, ids or ()),
            "outputs": output_facts(model),
            "parameters": {"partners": ",".join(model.hosts), "ids_declared": ids is not None},
        }

    def _inferred(self, asked: CallerRequest, call: HttpCall) -> HttpAnswer:
        try:
            request = _request(call)
            asked = replace(asked, case_id=case_id_of(request.id, asked.case_id))
            found = self._rows(asked, request)
        except FedflowError as exc:
            self._answering.refused(asked, failed(exc.retcode, str(exc.message)))
            raise
        if isinstance(found, ItemAnswer):
            return _fault(self._answering.refused(asked, found))
        chosen, rows = found
        items = self._answering.answer_by(asked, chosen, rows)
        return json_answer(
            {
                "model_name": asked.service_id,
                "model_version": chosen.served.key.model_version,
                "id": request.id or asked.case_id,
                "parameters": {"selected_by": chosen.by} | _degraded(items),
                "outputs": output_tensors(items, chosen.served.model, request.outputs),
            }
        )

    def _rows(
        self, asked: CallerRequest, request: InferRequest
    ) -> tuple[SelectedVersion, list[OnlineRow]] | ItemAnswer:
        """Return what answers, that of the first row's user, and the rows as its model reads them.

        Raises: BadServingRequest.
        """
        chosen = self._select(asked, {})
        for _ in range(2):
            if isinstance(chosen, ItemAnswer):
                return chosen
            rows = read_rows(request, chosen.served.model, self._limits())
            again = self._select(asked, rows.ids[0])
            if isinstance(again, SelectedVersion) and again.served is chosen.served:
                break
            chosen = again
        if isinstance(chosen, ItemAnswer):
            return chosen
        online = [
            OnlineRow(request_id=asked.case_id, features=features, ids=ids)
            for features, ids in zip(rows.features, rows.ids, strict=True)
        ]
        return chosen, online

    def _limits(self) -> TensorLimits:
        rows, ids = self._settings.limits.batch_rows, self._settings.partner_ids
        return TensorLimits(rows=rows, values=MOST_VALUES, ids=ids)


def _asked(
    name: str, version: str, call: HttpCall, case_id: str, started_s: float
) -> CallerRequest:
    return CallerRequest(
        kind="infer",
        case_id=case_id,
        service_id=name,
        model_version=version,
        header=call.header,
        started_s=started_s,
    )


def _request(call: HttpCall) -> InferRequest:
    """Return the body. Raises: BadServingRequest."""
    if call.header("Inference-Header-Content-Length"):
        raise BadServingRequest(reason=_BINARY)
    if call.header("Content-Encoding").strip().lower() not in ("", "identity"):
        raise BadServingRequest(reason="compressed bodies are not read")
    request = read_infer_request(call.body)
    check_asked(request.outputs)
    return request


def _degraded(items: Sequence[ItemAnswer]) -> dict[str, str]:
    """Return how scores came about without a host, if any did."""
    how = sorted({item.degraded.how for item in items if item.degraded})
    return {"degraded": ",".join(how)} if how else {}


def _fault(fault: ItemAnswer) -> HttpAnswer:
    return _error(fault.message, _HTTP.get(fault.retcode, 400))


def _error(sentence: str, status: int) -> HttpAnswer:
    return json_answer({"error": sentence}, status=status)
