"""The callers' HTTP port: FATE-Serving's two routes, and the Open Inference Protocol below /v2.

    POST /federation/v1/inference, /federation/v1/batchInference

The version in a path of FATE's has no meaning: `fate_test` asks `/federation/1.0/inference`.
Answers of FATE's routes have HTTP status 200 and the return code in the body, as FATE's callers
expect.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fedflow.base.clock import Clock
from fedflow.base.ids import new_request_id
from fedflow.serving.answering import Answering, CallerRequest
from fedflow.serving.doors.admin import look_answer
from fedflow.serving.doors.fate_inference import FateInference
from fedflow.serving.doors.inference_protocol import InferenceProtocol, is_of_protocol
from fedflow.serving.doors.open_inference import OpenInference
from fedflow.serving.doors.wsgi import HttpAnswer, HttpCall, json_answer, no_route
from fedflow.serving.health import ServingHealth

_ANY_VERSION: Final = re.compile(r"\A/federation/v?[0-9]{1,3}(\.[0-9]{1,3})?/")


class CallersPortRoutes:
    """Answers the requests of the callers' port."""

    def __init__(
        self,
        answering: Answering,
        fate: FateInference,
        open_inference: OpenInference,
        health: ServingHealth,
        *,
        clock: Clock,
    ) -> None:
        self._answering = answering
        self._health = health
        self._clock = clock
        self._fate = fate
        self._protocol = InferenceProtocol(answering, open_inference)
        self._fates = {
            "/federation/v1/inference": ("single", fate.single),
            "/federation/v1/batchInference": ("batch", fate.batch),
        }

    def answer(self, call: HttpCall) -> HttpAnswer:
        """Raises: FedflowError: the request is none of a caller."""
        if is_of_protocol(call.path):
            return self._protocol.answer(call, self._asked("infer", call))
        path = _ANY_VERSION.sub("/federation/v1/", call.path)
        if call.method == "POST" and path in self._fates:
            kind, route = self._fates[path]
            authorization = call.header("Authorization")
            asked = self._answering.identified(self._asked(kind, call), authorization)
            return json_answer(route(asked, call.body))
        looked = look_answer(call, self._health)
        if looked is not None:
            return looked
        raise no_route(call)

    def tried(self, call: HttpCall) -> dict[str, Any]:
        """Return the answer to a single request that came to the admin port, counted as others."""
        return self._fate.single(self._asked("single", call), call.body)

    def _asked(self, kind: str, call: HttpCall) -> CallerRequest:
        asked = CallerRequest(
            kind=kind,
            case_id=new_request_id(),
            header=call.header,
            started_s=self._clock.monotonic_s(),
        )
        return asked.named(call.header("caseId"))
