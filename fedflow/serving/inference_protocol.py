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
from typing import Any, Final

from fedflow import __version__
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.health import ServingHealth
from fedflow.serving.inference import (
    MOST_VALUES,
    Inference,
    OnlineRow,
    SelectedVersion,
    case_id_of,
)
from fedflow.serving.models import ServedModels
from fedflow.serving.settings import ServingSettings
from fedflow.serving.tensors import (
    InferRequest,
    TensorLimits,
    TensorRows,
    check_asked,
    input_facts,
    output_facts,
    output_tensors,
    read_infer_request,
    read_rows,
)
from fedflow.serving.wsgi import HttpAnswer, HttpCall, check_token, json_answer, no_route

logger = logging.getLogger(__name__)

Select = Callable[[str, str], SelectedVersion | ItemAnswer]
"""Says what answers for a service and a version, which may be empty; or why nothing does."""
Count = Callable[[str, str, SelectedVersion, Sequence[ItemAnswer], float], None]
"""Counts and logs what was answered: kind, case id, what answers, answers, start."""
Refuse = Callable[[str, str, ItemAnswer], object]
"""Counts and logs a request that is not answered: kind, case id, why."""

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
        inference: Inference,
        health: ServingHealth,
        *,
        settings: ServingSettings,
        select: Select,
        count: Count,
        refuse: Refuse,
    ) -> None:
        self._models = models
        self._inference = inference
        self._health = health
        self._settings = settings
        self._select = select
        self._count = count
        self._refuse = refuse

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
                return self._with(name, version, lambda one: self._metadata(name, one))
            case ("GET", "models", name, "ready"):
                return self._with(name, version, lambda _: {"name": name, "ready": True})
            case ("POST", "models", name, "infer"):
                return self._inferred(name, version, call, case_id, started_s)
        raise no_route(call)

    def _alive(self, *, ready: bool) -> HttpAnswer:
        if not ready:
            return json_answer({"live": True})
        good = not self._health.draining
        return json_answer({"live": True, "ready": good}, status=200 if good else 503)

    def _with(self, name: str, version: str, found: Callable[[SelectedVersion], Any]) -> HttpAnswer:
        chosen = self._select(name, version)
        if isinstance(chosen, ItemAnswer):
            return _fault(chosen)
        return json_answer(found(chosen))

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

    def _inferred(
        self, name: str, version: str, call: HttpCall, case_id: str, started_s: float
    ) -> HttpAnswer:
        try:
            request = _request(call)
            case_id = case_id_of(request.id, case_id)
            chosen = self._select(name, version)
            if isinstance(chosen, ItemAnswer):
                self._refuse("infer", case_id, chosen)
                return _fault(chosen)
            rows = read_rows(request, chosen.served.model, self._limits())
        except FedflowError as exc:
            self._refuse("infer", case_id, failed(exc.retcode, str(exc.message)))
            raise
        items = self._scored(chosen, rows, case_id, started_s)
        self._count("infer", case_id, chosen, items, started_s)
        return json_answer(
            {
                "model_name": name,
                "model_version": chosen.served.key.model_version,
                "id": request.id or case_id,
                "parameters": {"selected_by": chosen.by},
                "outputs": output_tensors(items, chosen.served.model, request.outputs),
            }
        )

    def _scored(
        self, chosen: SelectedVersion, rows: TensorRows, case_id: str, started_s: float
    ) -> Sequence[ItemAnswer]:
        """Return the answers to rows; a single one may be scored together with other requests."""
        limits = self._settings.limits
        online = [
            OnlineRow(request_id=case_id, features=features, ids=ids)
            for features, ids in zip(rows.features, rows.ids, strict=True)
        ]
        if len(online) == 1:
            deadline_s = started_s + limits.single_ms / 1000
            return [self._inference.single(chosen.served, online[0], deadline_s)]
        return self._inference.batch(chosen.served, online, started_s + limits.batch_ms / 1000)

    def _limits(self) -> TensorLimits:
        rows, ids = self._settings.limits.batch_rows, self._settings.partner_ids
        return TensorLimits(rows=rows, values=MOST_VALUES, ids=ids)


def _request(call: HttpCall) -> InferRequest:
    """Return the body. Raises: BadServingRequest."""
    if call.header("Inference-Header-Content-Length"):
        raise BadServingRequest(reason=_BINARY)
    if call.header("Content-Encoding").strip().lower() not in ("", "identity"):
        raise BadServingRequest(reason="compressed bodies are not read")
    request = read_infer_request(call.body)
    check_asked(request.outputs)
    return request


def _fault(fault: ItemAnswer) -> HttpAnswer:
    return _error(fault.message, _HTTP.get(fault.retcode, 400))


def _error(sentence: str, status: int) -> HttpAnswer:
    return json_answer({"error": sentence}, status=status)
