from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Endpoint(_message.Message):
    __slots__ = ("ip", "port", "hostname")
    IP_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    ip: str
    port: int
    hostname: str
    def __init__(self, ip: _Optional[str] = ..., port: _Optional[int] = ..., hostname: _Optional[str] = ...) -> None: ...
