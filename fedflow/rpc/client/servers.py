"""Calls to the other servers of this party, over their gRPC ports."""

from __future__ import annotations

import threading
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from fedflow.base.errors.parties import PartyUnreachable
from fedflow.domain.administration.servers import Instance
from fedflow.rpc.client.channels import ChannelSettings, channel_options
from fedflow.rpc.client.commands import why
from fedflow.rpc.client.routes import Route
from fedflow.wire.servers import (
    METHOD,
    SECRET,
    Answer,
    Message,
    PartyCommand,
    ScanNow,
    Wake,
    pack,
    read_answer,
)

_TELL_S: Final = 2.0  #: deadline of a call that only tells something


class ServerLinks:
    """Channels to the other servers, kept open; used by many threads."""

    def __init__(
        self, own_party: str, *, credentials: grpc.ChannelCredentials | None, command_s: float
    ) -> None:
        """`command_s`: deadline of a party's command that is passed on, seconds."""
        self._own_party = own_party
        self._credentials = credentials
        self._command_s = command_s
        self._lock = threading.Lock()
        self._open: dict[str, grpc.Channel] = {}

    def scan_now(self, to: Instance) -> None:
        """Let a server beat, and look at its executors. Raises: PartyUnreachable."""
        self._call(to, ScanNow(), deadline_s=_TELL_S)

    def wake(self, to: Instance, what: Wake) -> None:
        """Tell the leader what changed. Raises: PartyUnreachable."""
        self._call(to, what, deadline_s=_TELL_S)

    def command(self, to: Instance, command: PartyCommand) -> Answer:
        """Let the leader carry a party's command out. Raises: PartyUnreachable."""
        return self._call(to, command, deadline_s=self._command_s)

    def _call(self, to: Instance, message: Message, *, deadline_s: float) -> Answer:
        try:
            raw = self._channel(to.grpc).unary_unary(METHOD)(
                pack(message), timeout=deadline_s, metadata=((SECRET, to.secret),)
            )
            return read_answer(raw)
        except (grpc.RpcError, ValueError, msgspec.MsgspecError) as exc:
            tls = self._credentials is not None
            told = isinstance(exc, msgspec.MsgspecError)
            reason = str(exc) if told else why(exc, deadline_s, tls=tls)
            raise PartyUnreachable(
                party_id=self._own_party, address=to.grpc, reason=reason
            ) from exc

    def open_aio_channel(self, to: Instance) -> grpc.aio.Channel:
        """Return a new channel for the data plane, which the caller closes; on the event loop."""
        if self._credentials is None:
            return grpc.aio.insecure_channel(to.grpc, options=self._options())
        return grpc.aio.secure_channel(to.grpc, self._credentials, options=self._options())

    def close(self) -> None:
        """Close all channels; calls under way fail."""
        with self._lock:
            known, self._open = self._open, {}
        for channel in known.values():
            channel.close()

    def _channel(self, address: str) -> grpc.Channel:
        with self._lock:
            if address not in self._open:
                self._open[address] = (
                    grpc.insecure_channel(address, options=self._options())
                    if self._credentials is None
                    else grpc.secure_channel(address, self._credentials, options=self._options())
                )
            return self._open[address]

    def _options(self) -> list[Any]:
        route = Route(host="", port=0, tls=self._credentials is not None)
        return [*channel_options(ChannelSettings(), self._own_party, route)]
