"""Flower's messages as bytes, and the checks of those that other parties sent.

Flower's own protobuf format is used, and arrays in numpy's (no pickle). Whom a message is from,
what it replies to and of which kind it is, the receiver writes itself: a site cannot speak for
another one.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Any, Final

import numpy as np
from flwr.app import Message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.error_pb2 import Error as ErrorProto
from flwr.proto.message_pb2 import Message as MessageProto
from flwr.proto.message_pb2 import Metadata as MetadataProto
from flwr.supercore.task_identity import TaskIdentity
from google.protobuf.message import DecodeError

SERVER_NODE: Final = 1  #: the node id of a ServerApp, as in Flower
APP_RAISED: Final = 2  #: Flower's code of an error: the ClientApp raised
NODE_UNAVAILABLE: Final = 5  #: the node has gone
NUMPY_MAGIC: Final = b"\x93NUMPY"  #: how an array in numpy's format begins
_NUMPY: Final = "numpy.ndarray"
_HEADER: Final = re.compile(
    rb"\{'descr': '(?P<type>[<>|=][a-zA-Z]\d{0,6})', 'fortran_order': (True|False), "
    rb"'shape': \((?P<shape>(\d{1,15}, ?)*(\d{1,15})?)\), \} *\n"
)
_LENGTHS: Final = {False: struct.Struct("<H"), True: struct.Struct("<I")}
_REASON: Final = 300  #: characters of another party's reason that are kept


def identify(run_id: int, node_id: int) -> None:
    """Tell Flower who this process is; apps make no message without it."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run_id, node_id


def instruction(message: Message, *, number: int, run_id: int) -> MessageProto:
    """Return a message of the ServerApp for all nodes that get the same; `number` is its id."""
    proto = message_to_proto(message)
    metadata = proto.metadata
    metadata.run_id, metadata.message_id = run_id, str(number)
    metadata.src_node_id, metadata.dst_node_id = SERVER_NODE, 0
    metadata.reply_to_message_id = ""
    return proto


def read_instruction(data: object, *, node_id: int) -> Message:
    """Return the message that a ClientApp gets.

    Raises: ValueError: it is none, or an array of it is damaged.
    """
    proto = _parsed(data)
    proto.metadata.dst_node_id = node_id
    return _message(proto, finite=False)


def write_reply(reply: Message) -> bytes:
    """Return a ClientApp's reply as bytes. Raises: whatever a content of wrong types raises."""
    data: bytes = message_to_proto(reply).SerializeToString()
    return data


def read_reply(data: object, *, to: MetadataProto, node_id: int) -> Message:
    """Return a node's reply to the instruction `to`, marked as that.

    Raises: ValueError: it is no message, or an array of it is damaged or holds NaN or an infinity.
    """
    proto = _parsed(data)
    if proto.HasField("error"):
        proto.error.reason = proto.error.reason[:_REASON]
    proto.metadata.CopyFrom(_reply_metadata(to, node_id))
    return _message(proto, finite=True)


def error_reply(reason: str, *, code: int, to: MetadataProto, node_id: int) -> Message:
    """Return the reply in place of a node that did not give one."""
    metadata, error = _reply_metadata(to, node_id), ErrorProto(code=code, reason=reason)
    return message_from_proto(MessageProto(metadata=metadata, error=error))


def _reply_metadata(to: MetadataProto, node_id: int) -> MetadataProto:
    metadata = MetadataProto()
    metadata.CopyFrom(to)
    metadata.message_id = f"{to.message_id}.{node_id}.reply"
    metadata.reply_to_message_id = f"{to.message_id}.{node_id}"
    metadata.src_node_id, metadata.dst_node_id = node_id, SERVER_NODE
    return metadata


def _parsed(data: object) -> MessageProto:
    if not isinstance(data, bytes):
        raise ValueError(f"not a message of Flower, but a {type(data).__name__}")  # noqa: TRY004
    try:
        proto = MessageProto.FromString(data)
    except DecodeError as exc:
        raise ValueError("not a message of Flower") from exc
    if proto.HasField("content") == proto.HasField("error"):
        raise ValueError("a message has either content or an error")
    return proto


def _message(proto: MessageProto, *, finite: bool) -> Message:
    """Return a message with checked arrays. Raises: ValueError."""
    try:
        message = message_from_proto(proto)
    except (
        TypeError,
        AttributeError,
        KeyError,
    ) as exc:  # members that Flower itself never leaves out
        raise ValueError(f"not a message of Flower ({exc})") from exc
    if message.has_content():
        for record in message.content.array_records.values():
            for name, array in record.items():
                try:
                    _check_array(array, finite=finite)
                except ValueError as exc:
                    raise ValueError(f"the array {str(name)[:100]!r}: {exc}") from exc
    return message


def _check_array(array: Any, *, finite: bool) -> None:
    """Do nothing if an array is what it says. Raises: ValueError."""
    if array.stype != _NUMPY:
        return  # bytes that only the app understands
    dtype, shape, start = _read_header(array.data)
    if start + math.prod(shape) * dtype.itemsize != len(array.data):
        raise ValueError(f"its size is not that of {dtype} {shape}")
    if array.dtype and (str(dtype), shape) != (array.dtype, tuple(array.shape)):
        raise ValueError(f"it is {dtype} {shape} and says {array.dtype[:20]} {tuple(array.shape)}")
    if finite and dtype.kind == "f":
        numbers = np.frombuffer(array.data, dtype, offset=start)
        if not np.isfinite(numbers).all():
            raise ValueError("it holds NaN or an infinity")


def _read_header(data: bytes) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return (type, shape, where the numbers begin) of an array in numpy's format.

    Numpy evaluates a header as Python literals, and what it raises for a damaged one is not
    limited; so the app's numpy only gets headers as numpy writes them for arrays of plain values.
    Raises: ValueError: it is another one. Source: numpy.lib.format.
    """
    wide = data[6:7] != b"\x01"  # version 2 and 3 have a length of four bytes
    length, begin = _LENGTHS[wide], 12 if wide else 10
    if data[:6] != NUMPY_MAGIC or len(data) < begin:
        raise ValueError("it is not in numpy's format")
    (size,) = length.unpack_from(data, 8)
    found = _HEADER.fullmatch(data, begin, begin + size)
    if found is None or begin + size > len(data):
        raise ValueError("its header is not that of an array of numbers")
    try:
        dtype = np.dtype(found["type"].decode())
    except TypeError as exc:
        raise ValueError("its header is not that of an array of numbers") from exc
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return dtype, tuple(int(one) for one in found["shape"].split(b",") if one.strip()), begin + size
