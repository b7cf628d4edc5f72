"""What a refused call leaves behind: its error is part of a cycle, and lives on for a while."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import grpc
import pytest

from fedflow.rpc.pace import Pace
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.server.unary import UnaryService, UnarySettings


class AbortError(Exception):
    pass


class TooLong:
    """A call whose message is longer than any may be."""

    async def read(self) -> bytes:
        return bytes(5 << 20)

    async def abort(self, code: grpc.StatusCode, _: str) -> None:
        raise AbortError(code)


def test_the_error_of_a_message_that_is_too_long_does_not_hold_it() -> None:
    call: Any = TooLong()

    async def receive() -> None:
        service = UnaryService(
            lambda *_: (200, b""), authenticate=lambda _: None, packets=ProtobufPackets(),
            hosts=lambda _: True, admits=lambda _: True, pace=Pace(), settings=UnarySettings(),
        )  # fmt: skip
        try:
            await service._receive(call, "7777")
        finally:
            service.close()

    with pytest.raises(AbortError) as caught:
        asyncio.run(receive())
    kept = [
        value
        for frame, _ in traceback.walk_tb(caught.tb)
        for value in frame.f_locals.values()
        if isinstance(value, bytes) and len(value) > 1 << 20
    ]
    assert not kept
