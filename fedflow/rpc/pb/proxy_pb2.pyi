from fedflow.rpc.pb import basic_meta_pb2 as _basic_meta_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Model(_message.Message):
    __slots__ = ("name", "dataKey")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATAKEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    dataKey: str
    def __init__(self, name: _Optional[str] = ..., dataKey: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("taskId", "model")
    TASKID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    taskId: str
    model: Model
    def __init__(self, taskId: _Optional[str] = ..., model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("name", "partyId", "role", "callback")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTYID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_FIELD_NUMBER: _ClassVar[int]
    name: str
    partyId: str
    role: str
    callback: _basic_meta_pb2.Endpoint
    def __init__(self, name: _Optional[str] = ..., partyId: _Optional[str] = ..., role: _Optional[str] = ..., callback: _Optional[_Union[_basic_meta_pb2.Endpoint, _Mapping]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Conf(_message.Message):
    __slots__ = ("overallTimeout", "completionWaitTimeout", "packetIntervalTimeout", "maxRetries")
    OVERALLTIMEOUT_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONWAITTIMEOUT_FIELD_NUMBER: _ClassVar[int]
    PACKETINTERVALTIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAXRETRIES_FIELD_NUMBER: _ClassVar[int]
    overallTimeout: int
    completionWaitTimeout: int
    packetIntervalTimeout: int
    maxRetries: int
    def __init__(self, overallTimeout: _Optional[int] = ..., completionWaitTimeout: _Optional[int] = ..., packetIntervalTimeout: _Optional[int] = ..., maxRetries: _Optional[int] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("task", "src", "dst", "command", "operator", "seq", "ack", "conf", "ext", "version")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SRC_FIELD_NUMBER: _ClassVar[int]
    DST_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    CONF_FIELD_NUMBER: _ClassVar[int]
    EXT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    task: Task
    src: Topic
    dst: Topic
    command: Command
    operator: str
    seq: int
    ack: int
    conf: Conf
    ext: bytes
    version: str
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ..., src: _Optional[_Union[Topic, _Mapping]] = ..., dst: _Optional[_Union[Topic, _Mapping]] = ..., command: _Optional[_Union[Command, _Mapping]] = ..., operator: _Optional[str] = ..., seq: _Optional[int] = ..., ack: _Optional[int] = ..., conf: _Optional[_Union[Conf, _Mapping]] = ..., ext: _Optional[bytes] = ..., version: _Optional[str] = ...) -> None: ...

class Data(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Packet(_message.Message):
    __slots__ = ("header", "body")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    header: Metadata
    body: Data
    def __init__(self, header: _Optional[_Union[Metadata, _Mapping]] = ..., body: _Optional[_Union[Data, _Mapping]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("header", "operation")
    class Operation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        START: _ClassVar[HeartbeatResponse.Operation]
        RUN: _ClassVar[HeartbeatResponse.Operation]
        STOP: _ClassVar[HeartbeatResponse.Operation]
        KILL: _ClassVar[HeartbeatResponse.Operation]
        GET_DATA: _ClassVar[HeartbeatResponse.Operation]
        PUT_DATA: _ClassVar[HeartbeatResponse.Operation]
    START: HeartbeatResponse.Operation
    RUN: HeartbeatResponse.Operation
    STOP: HeartbeatResponse.Operation
    KILL: HeartbeatResponse.Operation
    GET_DATA: HeartbeatResponse.Operation
    PUT_DATA: HeartbeatResponse.Operation
    HEADER_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    header: Metadata
    operation: HeartbeatResponse.Operation
    def __init__(self, header: _Optional[_Union[Metadata, _Mapping]] = ..., operation: _Optional[_Union[HeartbeatResponse.Operation, str]] = ...) -> None: ...

class PollingFrame(_message.Message):
    __slots__ = ("method", "seq", "metadata", "packet", "desc")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PACKET_FIELD_NUMBER: _ClassVar[int]
    DESC_FIELD_NUMBER: _ClassVar[int]
    method: str
    seq: int
    metadata: Metadata
    packet: Packet
    desc: str
    def __init__(self, method: _Optional[str] = ..., seq: _Optional[int] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., packet: _Optional[_Union[Packet, _Mapping]] = ..., desc: _Optional[str] = ...) -> None: ...
