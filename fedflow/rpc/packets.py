"""Packets as protobuf bytes: the `PacketCodec` of both ends of a call."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError, EncodeError

from fedflow.base.errors.parties import BadPacket
from fedflow.rpc.pb import proxy_pb2
from fedflow.wire.packet import (
    HEADERS_MODEL,
    ROLE,
    Endpoint,
    PacketFields,
    headers_from_text,
    headers_to_text,
)

MORE_BYTES: Final = 64 * 1024  #: of a packet beside its body: path, ids, headers


class ProtobufPackets:
    """Packets in FATE's format, `protos/proxy.proto`."""

    def encode(self, packet: PacketFields) -> bytes:
        """Return the bytes of a packet. Raises: BadPacket: a text of it is not Unicode."""
        try:
            return _message(packet).SerializeToString(deterministic=True)
        except (EncodeError, UnicodeEncodeError, ValueError) as exc:
            raise BadPacket(reason="it cannot be written as protobuf") from exc

    def decode(self, raw: bytes) -> PacketFields:
        """Return the packet in `raw`.

        Raises: BadPacket: it is not one, has no path, or has too much beside its body.
        """
        message = proxy_pb2.Packet()
        try:
            message.ParseFromString(raw)
        except DecodeError as exc:
            raise BadPacket(reason="it is not a protobuf Packet") from exc
        if len(raw) - len(message.body.value) > MORE_BYTES:
            raise BadPacket(reason=f"it has more than {MORE_BYTES} bytes beside its body")
        return _fields(message)


def _message(packet: PacketFields) -> proxy_pb2.Packet:
    header = proxy_pb2.Metadata(
        task=proxy_pb2.Task(taskId=packet.job_id),
        src=proxy_pb2.Topic(name=packet.job_id, partyId=packet.source, role=ROLE),
        dst=proxy_pb2.Topic(name=packet.job_id, partyId=packet.destination, role=ROLE),
        command=proxy_pb2.Command(name=packet.command),
        operator=packet.operator,
        conf=proxy_pb2.Conf(overallTimeout=packet.timeout_ms),
    )
    if packet.headers:
        header.task.model.name = HEADERS_MODEL
        header.task.model.dataKey = headers_to_text(packet.headers)
    if packet.callback is not None:
        callback = packet.callback
        header.src.callback.ip = callback.ip
        header.src.callback.port = callback.port
        header.src.callback.hostname = callback.hostname
    return proxy_pb2.Packet(header=header, body=proxy_pb2.Data(key=packet.path, value=packet.body))


def _fields(message: proxy_pb2.Packet) -> PacketFields:
    header, body = message.header, message.body
    if not body.key:
        raise BadPacket(reason="it has no path")
    callback = None
    if header.src.HasField("callback"):
        found = header.src.callback
        callback = Endpoint(ip=found.ip, port=found.port, hostname=found.hostname)
    model = header.task.model
    return PacketFields(
        job_id=header.task.taskId,
        source=header.src.partyId,
        destination=header.dst.partyId,
        path=body.key,
        body=body.value,
        headers=headers_from_text(model.name, model.dataKey),
        operator=header.operator or "POST",
        command=header.command.name,
        timeout_ms=header.conf.overallTimeout,
        callback=callback,
    )
