"""A run of rendezvous at a server, over the gRPC port that parties call."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import grpc
import msgspec
from msgspec.structs import replace

from fedflow.base.errors.catalog import repeated_error
from fedflow.base.errors.rendezvous import RendezvousUnreachable
from fedflow.base.errors.requests import ClientError
from fedflow.domain.administration.rendezvous import RunReply
from fedflow.rpc.client.channels import ChannelSettings, channel_options
from fedflow.rpc.client.routes import Route
from fedflow.wire.rendezvous import RunCall, read_answer

_METHOD: Final = "/fedflow.v1.Rendezvous/Call"
_UNREACHABLE: Final = frozenset({"StoreUnavailable", "NotLeading"})


class GrpcRun:
    """One run, over gRPC; see `elastic.run_backend.RunAccess`. Close it, or use it as a context."""

    def __init__(
        self, route: Route, *, party_id: str, run_id: str, server_party: str,
        job_id: str | None = None, credentials: grpc.ChannelCredentials | None = None,
        timeout_s: float = 10.0,
    ) -> None:  # fmt: skip
        """`party_id` is the member's party, `server_party` that of the server."""
        self._address = f"{route.host}:{route.port}"
        self._timeout_s = timeout_s
        self._read = RunCall(party_id=party_id, run_id=run_id, job_id=job_id)
        options = channel_options(ChannelSettings(), server_party, route)
        self._channel = (
            grpc.insecure_channel(route.address, options=options)
            if credentials is None
            else grpc.secure_channel(route.address, credentials, options=options)
        )
        self._stub = self._channel.stream_unary(_METHOD)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def read(self, known: str | None) -> RunReply:
        """Return what the run holds. Raises: RendezvousUnreachable, or what the server says."""
        return self._call(replace(self._read, token=known))

    def write(self, text: str, token: str | None) -> RunReply:
        """Write by compare-and-set. Raises: as `read`."""
        return self._call(replace(self._read, token=token, state=text))

    def _call(self, call: RunCall) -> RunReply:
        try:
            raw = self._stub(iter((msgspec.json.encode(call),)), timeout=self._timeout_s)
            answer = read_answer(raw)
        except grpc.RpcError as exc:
            raise RendezvousUnreachable(
                address=self._address, reason=f"{exc.code().name}: {exc.details()}"
            ) from exc
        except msgspec.MsgspecError as exc:
            raise RendezvousUnreachable(address=self._address, reason=str(exc)) from exc
        if answer.retcode == 0 and answer.data is not None:
            found = answer.data
            return RunReply(
                now_ms=found.now_ms,
                token=found.token,
                text=found.state,
                was_set=found.was_set,
                since_ms=found.since_ms,
            )
        name = str(answer.error.get("name", ""))
        if not name or name in _UNREACHABLE:
            raise RendezvousUnreachable(
                address=self._address, reason=answer.retmsg.removesuffix(".")
            )
        raise repeated_error(name, answer.retmsg) or ClientError(
            command="rendezvous", address=self._address, reason=answer.retmsg
        )
