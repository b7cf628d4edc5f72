"""Hostile parties: what each one can send to a real server, and what it was answered.

All of it goes to 127.0.0.1, with a certificate of the parties' authority or without one.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec

from fedflow.base.ids import new_request_id
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.pb import proxy_pb2
from fedflow.wire.packet import METHOD, PacketFields, request_packet
from tests.e2e.servers import Party

PACKETS = ProtobufPackets()
CALL_S = 60.0  #: how long an attacker waits for an answer

Json = dict[str, Any]
Raw = Callable[[bytes], bytes]
_as_it_is: Raw = bytes


@dataclass
class Answers:
    """How often each answer came, and which of them held something that nobody may see."""

    canaries: tuple[str, ...]  #: patterns
    counts: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)

    def note(self, word: str, content: bytes | str = b"") -> None:
        """Count an answer and look through what it holds."""
        self.counts[word] += 1
        text = content.decode(errors="replace") if isinstance(content, bytes) else content
        self.leaks += [
            f"an answer ({word}) holds {found[0]}: {text[max(found.start() - 80, 0) :][:160]!r}"
            for pattern in self.canaries
            if (found := re.search(pattern, text))
        ]

    @property
    def tries(self) -> int:
        return self.counts.total()


class Hostile:
    """A party with a certificate of the authority below `tls`, with which it plays no honest part.

    `name` is the party id; the certificate is `<name>.pem`. Belongs to one event loop.
    """

    def __init__(self, name: str, *, tls: Path, answers: Answers) -> None:
        self.name = name
        self.tls = tls
        self.answers = answers

    # --- connections

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            root_certificates=(self.tls / "ca.pem").read_bytes(),
            private_key=(self.tls / f"{self.name}.key").read_bytes(),
            certificate_chain=(self.tls / f"{self.name}.pem").read_bytes(),
        )

    @asynccontextmanager
    async def channel(self, victim: Party) -> AsyncIterator[grpc.aio.Channel]:
        """Give a connection of its own to a victim's gRPC port."""
        place = victim.place
        name = f"party-{place.party_id}"
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.ssl_target_name_override", name),
            ("grpc.default_authority", name),
            ("grpc.enable_http_proxy", 0),
        ]
        address = f"127.0.0.1:{place.grpc_port}"
        async with grpc.aio.secure_channel(address, self.credentials(), options=options) as found:
            yield found

    @asynccontextmanager
    async def http2(
        self, victim: Party
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Give a TLS connection on which HTTP/2 frames can be written by hand."""
        context = ssl.create_default_context(cafile=str(self.tls / "ca.pem"))
        context.load_cert_chain(self.tls / f"{self.name}.pem", self.tls / f"{self.name}.key")
        context.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", victim.place.grpc_port, ssl=context,
            server_hostname=f"party-{victim.place.party_id}",
        )  # fmt: skip
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), 2.0)

    # --- commands

    def packet(
        self, victim: Party, path: str, body: Any, *, source: str | None = None, **changes: Any
    ) -> PacketFields:
        """Return a packet to `victim`; a body that is no bytes becomes JSON."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        made = request_packet(
            f"/v1{path}", raw, source=self.name if source is None else source, source_role="guest",
            destination=str(victim.place.party_id), job_id="j", request_id=new_request_id(),
            timeout_ms=5_000,
        )  # fmt: skip
        return replace(made, **changes)

    async def call(self, channel: grpc.aio.Channel, packet: PacketFields) -> Json:
        """Send a packet and return the envelope of its answer; empty: gRPC refused it."""
        return await self.send(channel, PACKETS.encode(packet))

    async def send(self, channel: grpc.aio.Channel, raw: bytes, **options: Any) -> Json:
        """Send the bytes of a packet, whatever they are. See `call`."""
        method = channel.unary_unary(METHOD, _as_it_is, _as_it_is)
        try:
            answer = await method(raw, timeout=CALL_S, **options)
        except grpc.aio.AioRpcError as exc:
            self.answers.note(exc.code().name, exc.details() or "")
            return {}
        envelope: Json = msgspec.json.decode(proxy_pb2.Packet.FromString(answer).body.value)
        error = (envelope.get("error") or {}).get("name")
        self.answers.note(error or f"retcode {envelope.get('retcode')}", answer)
        return envelope

    async def ask(self, victim: Party, path: str, body: Any, **changes: Any) -> Json:
        """Send one command over a connection of its own. See `call`."""
        async with self.channel(victim) as channel:
            return await self.call(channel, self.packet(victim, path, body, **changes))

    async def ask_all(
        self, victim: Party, calls: Sequence[tuple[str, Any]], *, at_once: int = 8
    ) -> list[Json]:
        """Send commands over one connection, so many at a time, and return all answers in order."""
        turn = asyncio.Semaphore(at_once)

        async def one(channel: grpc.aio.Channel, path: str, body: Any) -> Json:
            async with turn:
                return await self.call(channel, self.packet(victim, path, body))

        async with self.channel(victim) as channel:
            return await asyncio.gather(*(one(channel, path, body) for path, body in calls))

    # --- streams

    @asynccontextmanager
    async def stream(
        self, channel: grpc.aio.Channel, method: str, **options: Any
    ) -> AsyncIterator[Any]:
        """Give an open stream of the data plane; its end is noted if the server ended it."""
        call = channel.stream_stream(method, _as_it_is, _as_it_is)(**options)
        try:
            yield call
        except grpc.aio.AioRpcError as exc:
            self.answers.note(exc.code().name, exc.details() or "")
        except asyncio.InvalidStateError:
            self.answers.note("the stream was closed")
        finally:
            call.cancel()

    async def say(
        self,
        victim: Party,
        method: str,
        messages: Sequence[bytes],
        *,
        within_s: float = 3.0,
        **options: Any,
    ) -> list[bytes]:
        """Send messages on one stream and return what comes back until it ends or time is up."""
        found: list[bytes] = []
        async with self.channel(victim) as channel, self.stream(channel, method, **options) as call:
            with suppress(asyncio.TimeoutError):
                async with asyncio.timeout(within_s):
                    for message in messages:
                        await call.write(message)
                    await call.done_writing()
                    while isinstance(raw := await call.read(), bytes):
                        found.append(raw)
                        self.answers.note(_kind(raw), raw)
        if not found:
            self.answers.note("nothing")
        return found


_STATUS = re.compile(rb'"status":"(\w+)"')


def _kind(raw: bytes) -> str:
    """Return what an answer on a stream says, in a word."""
    found = _STATUS.search(raw)
    return found[1].decode() if found else "a message"


async def http(
    victim: Party, raw: bytes, answers: Answers, *, within_s: float = CALL_S
) -> tuple[int, bytes]:
    """Send the bytes of a request to the REST port; return status and body (0: no answer)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", victim.place.http_port)
    try:
        writer.write(raw)
        found = await asyncio.wait_for(reader.read(), within_s)
    except (TimeoutError, OSError):
        found = b""
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    head, _, body = found.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1]) if head.count(b" ") > 1 else 0
    answers.note(f"HTTP {status}", body)
    return status, body


def request(
    method: str, target: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> bytes:
    """Return the bytes of an HTTP request that closes its connection."""
    fields = {"Host": "127.0.0.1:9380", "Connection": "close", **(headers or {})}
    if body:
        fields["Content-Length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body
