"""Packets against bytes that were made independently, and against hostile ones."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import BadPacket
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.pb import proxy_pb2
from fedflow.wire import headers
from fedflow.wire.packet import (
    Endpoint,
    PacketFields,
    call_metadata,
    headers_from_text,
    reply_packet,
    request_packet,
)

GOLDEN = Path(__file__).parent / "golden"
PATH = "/v1/party/202611201000000000000/host/10000/create"
PACKETS = ProtobufPackets()


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def request() -> PacketFields:
    return request_packet(
        PATH,
        '{"dsl":{"components":{}},"name":"größe"}'.encode(),
        source="9999",
        source_role="guest",
        destination="10000",
        job_id="202611201000000000000",
        request_id="0123456789abcdef",
        timeout_ms=10_000,
        callback=Endpoint(ip="192.0.2.7", port=9360),
    )


def test_a_request_has_the_golden_bytes() -> None:
    assert PACKETS.encode(request()) == golden("request")


def test_a_reply_has_the_golden_bytes() -> None:
    reply = reply_packet(request(), b'{"retcode":0,"retmsg":"success"}')
    assert PACKETS.encode(reply) == golden("reply")


def test_a_golden_request_is_read_back() -> None:
    assert PACKETS.decode(golden("request")) == request()


def test_a_packet_of_fate_1_5_is_read() -> None:
    packet = PACKETS.decode(golden("request_1_5"))
    assert packet.headers == {}
    assert (packet.source, packet.destination, packet.path) == ("9999", "10000", PATH)
    assert (packet.timeout_ms, packet.callback) == (120_000, None)


def test_field_numbers_are_those_of_the_reference() -> None:
    numbers = {
        message.name: {field.name: field.number for field in message.fields}
        for message in proxy_pb2.DESCRIPTOR.message_types_by_name.values()
    }
    assert numbers["Metadata"] == {
        "task": 1, "src": 2, "dst": 3, "command": 4, "operator": 5, "seq": 6, "ack": 7,
        "conf": 8, "ext": 9, "version": 100,
    }  # fmt: skip
    assert numbers["PollingFrame"] == {
        "method": 1, "seq": 2, "metadata": 10, "packet": 20, "desc": 30,
    }  # fmt: skip
    assert numbers["Topic"] == {"name": 1, "partyId": 2, "role": 3, "callback": 4}
    assert proxy_pb2.DESCRIPTOR.package == "com.webank.ai.eggroll.api.networking.proxy"
    methods = proxy_pb2.DESCRIPTOR.services_by_name["DataTransferService"].methods_by_name
    assert set(methods) == {"push", "pull", "unaryCall", "polling"}


def test_call_metadata_has_fates_five_pairs() -> None:
    assert call_metadata("9999", "10000") == (
        ("service", "fateflow"),
        ("src-party-id", "9999"),
        ("src-role", "guest"),
        ("dest-party-id", "10000"),
        ("dest-role", "host"),
    )


@pytest.mark.parametrize("spelling", ["src_party_id", "SRC-PARTY-ID", "Src-Party-Id"])
def test_headers_are_found_in_every_spelling(spelling: str) -> None:
    assert headers_from_text("headers", f'{{"{spelling}": "9999"}}')[headers.SOURCE_PARTY] == "9999"


@pytest.mark.parametrize("text", ["[]", "x", '"a"', '{"a": [[[1]]]}', "{" * 5000])
def test_headers_that_are_no_object_of_texts_are_refused(text: str) -> None:
    with pytest.raises(BadPacket):
        headers_from_text("headers", text)


def test_a_packet_without_path_is_refused() -> None:
    with pytest.raises(BadPacket, match="no path"):
        PACKETS.decode(b"")


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(BadPacket):
        PACKETS.encode(PacketFields(job_id="\ud800", source="", destination="", path="/", body=b""))


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_raise_anything_but_our_errors(raw: bytes) -> None:
    with suppress(FedflowError):
        PACKETS.decode(raw)


@given(st.binary(max_size=50), st.text(max_size=20), st.text(max_size=20))
def test_what_is_encoded_is_decoded(body: bytes, source: str, job_id: str) -> None:
    try:
        raw = PACKETS.encode(
            packet := PacketFields(
                job_id=job_id, source=source, destination="1", path="/v1/x", body=body
            )
        )
    except BadPacket:
        return
    assert PACKETS.decode(raw) == packet
