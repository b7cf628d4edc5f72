"""The callers' gRPC port: FATE-Serving's InferenceService, and the Open Inference Protocol.

Both answer as over HTTP, by the same code. An error of the Open Inference Protocol is a status of
gRPC with a sentence; FATE's service has the return code in its body. A missing or wrong key is
UNAUTHENTICATED in both.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError, Message

from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.start import BadCertificate
from fedflow.base.ids import new_request_id
from fedflow.serving.answering import Answering, CallerRequest
from fedflow.serving.codes import ServingCode
from fedflow.serving.doors.fate_inference import FateInference
from fedflow.serving.doors.open_inference import NotAnswered, OpenInference
from fedflow.serving.doors.open_inference_messages import (
    infer_message,
    metadata_message,
    read_infer_message,
)
from fedflow.serving.doors.wsgi import json_answer
from fedflow.serving.grpc_port import GrpcPort
from fedflow.serving.inference import case_id_of
from fedflow.serving.pb import fate_serving_pb2 as fate_pb
from fedflow.serving.pb import open_inference_pb2 as pb
from fedflow.serving.settings import CallersPort, CallersTls

logger = logging.getLogger(__name__)

FATE_SERVICE: Final = "com.webank.ai.fate.api.serving.InferenceService"
OPEN_SERVICE: Final = "inference.GRPCInferenceService"

_OPEN_TO_ALL: Final = frozenset({"ServerLive", "ServerReady"})
_NOT_FOUND: Final = frozenset({ServingCode.NO_MODEL, ServingCode.NO_SERVICE})
_STATUS: Final[Mapping[int, grpc.StatusCode]] = {
    ServingCode.PARAMETERS: grpc.StatusCode.INVALID_ARGUMENT,
    ServingCode.NO_MODEL: grpc.StatusCode.NOT_FOUND,
    ServingCode.NO_SERVICE: grpc.StatusCode.NOT_FOUND,
    ServingCode.AUTHORISATION: grpc.StatusCode.PERMISSION_DENIED,
    ServingCode.OVERLOAD: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ServingCode.TOKEN: grpc.StatusCode.UNAUTHENTICATED,
    ServingCode.SHUTTING_DOWN: grpc.StatusCode.UNAVAILABLE,
}
_LOST: Final = grpc.StatusCode.CANCELLED, "the caller waits no more"
_UNREADABLE: Final = (
    grpc.StatusCode.INVALID_ARGUMENT,
    "the message cannot be read; compressed ones are not",
)
_DEFECT: Final = grpc.StatusCode.INTERNAL, "internal error"

_Function = Callable[[Any, CallerRequest], Message]


class CallersGrpcServer:
    """The gRPC server of the callers' port."""

    def __init__(
        self,
        port: CallersPort,
        answering: Answering,
        fate: FateInference,
        open_inference: OpenInference,
        *,
        clock: Clock,
    ) -> None:
        self._settings = port
        self._answering = answering
        self._fate = fate
        self._protocol = open_inference
        self._clock = clock
        self._grpc = GrpcPort(
            name="callers-grpc",
            threads=port.threads,
            waiting=port.threads * 4,
            message_mib=port.body_mib,
        )
        self.port = 0

    def listen(self) -> None:
        """Bind the port and serve. Raises: PortInUse, BadCertificate."""
        given = self._settings
        services = {OPEN_SERVICE: self._open_methods(), FATE_SERVICE: self._fate_methods()}
        host, port = given.grpc_host or given.host, given.grpc_port or 0
        self.port = self._grpc.listen(host, port, services, _credentials(given.tls))

    def stop(self, grace_s: float) -> None:
        """Refuse new calls, let running ones end within `grace_s`."""
        self._grpc.stop(grace_s)

    def _open_methods(self) -> dict[str, grpc.RpcMethodHandler]:
        protocol = self._protocol
        methods: dict[str, tuple[type[Message], _Function]] = {
            "ServerLive": (
                pb.ServerLiveRequest,
                lambda *_: pb.ServerLiveResponse(live=True),
            ),
            "ServerReady": (
                pb.ServerReadyRequest,
                lambda *_: pb.ServerReadyResponse(ready=protocol.is_ready),
            ),
            "ServerMetadata": (
                pb.ServerMetadataRequest,
                lambda *_: pb.ServerMetadataResponse(**protocol.server() | {"extensions": []}),
            ),
            "ModelReady": (pb.ModelReadyRequest, self._model_ready),
            "ModelMetadata": (pb.ModelMetadataRequest, self._model_metadata),
            "ModelInfer": (pb.ModelInferRequest, self._model_infer),
        }
        return {
            name: self._handler("infer", kind, function, open_to_all=name in _OPEN_TO_ALL)
            for name, (kind, function) in methods.items()
        }

    def _fate_methods(self) -> dict[str, grpc.RpcMethodHandler]:
        kind = fate_pb.InferenceMessage

        def single(message: Any, asked: CallerRequest) -> Message:
            return kind(body=json_answer(self._fate.flat_single(asked, message.body)).body)

        def batch(message: Any, asked: CallerRequest) -> Message:
            return kind(body=json_answer(self._fate.flat_batch(asked, message.body)).body)

        return {
            "inference": self._handler("single", kind, single),
            "batchInference": self._handler("batch", kind, batch),
        }

    def _handler(
        self, kind: str, message: type[Message], function: _Function, *, open_to_all: bool = False
    ) -> grpc.RpcMethodHandler:
        def answered(raw: bytes, context: grpc.ServicerContext) -> bytes:
            asked = self._asked(kind, context)
            if not open_to_all:
                asked = self._answering.identified(asked, asked.header("authorization"))
            return function(message.FromString(raw), asked).SerializeToString()

        def serve(raw: bytes, context: grpc.ServicerContext) -> bytes:
            if not context.is_active():  # it waited for a thread for too long
                fault = _LOST
            else:
                try:
                    return answered(raw, context)
                except DecodeError:
                    fault = _UNREADABLE
                except FedflowError as exc:
                    fault = _STATUS.get(exc.retcode, _DEFECT[0]), str(exc.message)
                except NotAnswered as exc:
                    fault = _STATUS.get(exc.fault.retcode, _DEFECT[0]), exc.fault.message
                except Exception:
                    logger.exception("A request failed", extra={"action": "request_failed"})
                    fault = _DEFECT
            context.abort(*fault)
            raise AssertionError  # `abort` has raised

        return grpc.unary_unary_rpc_method_handler(serve)

    def _asked(self, kind: str, context: grpc.ServicerContext) -> CallerRequest:
        """Return a request without its service; it has the time that the caller waits."""
        metadata = dict(context.invocation_metadata())

        def header(name: str) -> str:
            value = metadata.get(name.lower(), "")
            return value if isinstance(value, str) else ""

        left_s, now_s = context.time_remaining(), self._clock.monotonic_s()
        return CallerRequest(
            kind=kind,
            case_id=case_id_of(header("caseId"), "") or new_request_id(),
            header=header,
            started_s=now_s,
            deadline_s=inf if left_s is None else now_s + left_s,
        )

    def _model_ready(self, message: Any, asked: CallerRequest) -> Message:
        try:
            self._protocol.check_model(_of_model(asked, message.name, message.version))
        except NotAnswered as exc:
            if exc.fault.retcode not in _NOT_FOUND:
                raise
            return pb.ModelReadyResponse(ready=False)
        return pb.ModelReadyResponse(ready=True)

    def _model_metadata(self, message: Any, asked: CallerRequest) -> Message:
        of_model = _of_model(asked, message.name, message.version)
        return metadata_message(self._protocol.metadata(of_model))

    def _model_infer(self, message: Any, asked: CallerRequest) -> Message:
        of_model = _of_model(asked, message.model_name, message.model_version)
        found = self._protocol.infer(of_model, lambda: read_infer_message(message))
        return infer_message(found, raw=bool(message.raw_input_contents))


def _of_model(asked: CallerRequest, name: str, version: str) -> CallerRequest:
    return replace(asked, service_id=name, model_version=version)


def _credentials(files: CallersTls) -> grpc.ServerCredentials | None:
    """Return what the server shows to callers; None: no TLS. Raises: BadCertificate."""
    if files.certificate is None or files.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        setting = "callers.tls.certificate"
        context.load_cert_chain(files.certificate, files.key, password="")
        certificate, key = (Path(one).read_bytes() for one in (files.certificate, files.key))
        setting, authorities = "callers.tls.ca", None
        if files.ca is not None:
            context.load_verify_locations(files.ca)
            authorities = Path(files.ca).read_bytes()
    except (OSError, ValueError) as exc:  # an SSLError is an OSError
        raise BadCertificate(path=setting, reason=f"the files cannot be used: {exc}") from exc
    return grpc.ssl_server_credentials(
        [(key, certificate)],
        root_certificates=authorities,
        require_client_auth=authorities is not None,
    )
