"""The Open Inference Protocol v2 over REST, at the callers' port.

    GET  /v2, /v2/health/live, /v2/health/ready
    GET  /v2/models/{name}[/versions/{version}][/ready]
    POST /v2/models/{name}[/versions/{version}]/infer

An error has its HTTP status and `{"error": sentence}`. What comes of a single row is no error of
the request: the output `status` has its return code.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.serving.answering import Answering, CallerRequest
from fedflow.serving.codes import ServingCode
from fedflow.serving.doors.binary_tensors import (
    LENGTH_HEADER,
    binary_names,
    read_binary_request,
    split_outputs,
)
from fedflow.serving.doors.open_inference import InferAnswer, NotAnswered, OpenInference
from fedflow.serving.doors.tensors import InferRequest
from fedflow.serving.doors.wsgi import HttpAnswer, HttpCall, json_answer, no_route

logger = logging.getLogger(__name__)

_BYTES: Final = "application/octet-stream"
_HTTP: Final[Mapping[int, int]] = {
    ServingCode.NO_SERVICE: 404,
    ServingCode.NO_MODEL: 404,
    ServingCode.AUTHORISATION: 403,
    ServingCode.OVERLOAD: 429,
}


def is_of_protocol(path: str) -> bool:
    """Tell whether a path is one of the protocol."""
    return path == "/v2" or path.startswith("/v2/")


class InferenceProtocol:
    """Answers the protocol's REST requests."""

    def __init__(self, answering: Answering, protocol: OpenInference) -> None:
        self._answering = answering
        self._protocol = protocol

    def answer(self, call: HttpCall, asked: CallerRequest) -> HttpAnswer:
        """Return the answer, also to what is wrong."""
        try:
            return self._answer(call, asked)
        except FedflowError as exc:
            return _error(str(exc.message), exc.http)
        except NotAnswered as exc:
            return _error(exc.fault.message, _HTTP.get(exc.fault.retcode, 400))
        except Exception:
            logger.exception("A request failed", extra={"action": "request_failed"})
            return _error("internal error", 500)

    def _answer(self, call: HttpCall, asked: CallerRequest) -> HttpAnswer:
        method = "GET" if call.method == "HEAD" else call.method
        words = [word for word in call.path.split("/")[2:] if word]
        if method == "GET" and words in (["health", "live"], ["health", "ready"]):
            return self._alive(ready=words[1] == "ready")
        asked = self._answering.identified(asked, call.header("Authorization"))
        if words[:1] == ["models"] and words[2:3] == ["versions"] and len(words) > 3:
            asked = replace(asked, model_version=words[3])
            del words[2:4]
        match (method, *words):
            case ("GET",):
                return json_answer(self._protocol.server())
            case ("GET", "models", name):
                return json_answer(self._protocol.metadata(replace(asked, service_id=name)))
            case ("GET", "models", name, "ready"):
                self._protocol.check_model(replace(asked, service_id=name))
                return json_answer({"name": name, "ready": True})
            case ("POST", "models", name, "infer"):
                asked = replace(asked, service_id=name)
                return _written(self._protocol.infer(asked, lambda: _request(call)))
        raise no_route(call)

    def _alive(self, *, ready: bool) -> HttpAnswer:
        if not ready:
            return json_answer({"live": True})
        good = self._protocol.is_ready
        return json_answer({"live": True, "ready": good}, status=200 if good else 503)


def _request(call: HttpCall) -> InferRequest:
    """Return the body. Raises: BadServingRequest."""
    if call.header("Content-Encoding").strip().lower() not in ("", "identity"):
        raise BadServingRequest(reason="compressed bodies are not read")
    request = read_binary_request(call.body, call.header(LENGTH_HEADER))
    binary_names(request, ())  # before anything is scored
    return request


def _written(found: InferAnswer) -> HttpAnswer:
    binary = binary_names(found.request, [output["name"] for output in found.outputs])
    outputs, raws = split_outputs(found.outputs, binary)
    answer = json_answer(
        {
            "model_name": found.model_name,
            "model_version": found.model_version,
            "id": found.id,
            "parameters": found.parameters,
            "outputs": outputs,
        }
    )
    if not raws:
        return answer
    length = (LENGTH_HEADER, str(len(answer.body)))
    return HttpAnswer(body=b"".join([answer.body, *raws]), content_type=_BYTES, headers=(length,))


def _error(sentence: str, status: int) -> HttpAnswer:
    return json_answer({"error": sentence}, status=status)
