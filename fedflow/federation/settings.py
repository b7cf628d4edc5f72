"""Limits and time-outs of the data plane."""

from __future__ import annotations

from fedflow.base.errors.start import BadSetting
from fedflow.base.values import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class FederationSettings:
    """The data plane of one server. Raises: BadSetting: a value is out of range."""

    receive_timeout_s: float = 1800.0  #: how long a receive waits that names no time-out, seconds
    send_timeout_s: float = 1800.0  #: how long the server tries to deliver a value, seconds
    hold_timeout_s: float = 300.0  #: how long a value waits for its session to open, seconds
    progress_timeout_s: float = (
        10.0  #: silence of a peer after which its channel is replaced, seconds
    )
    watch_interval_s: float = (
        5.0  #: pause between two questions whether an awaited peer lives, seconds
    )
    notice_timeout_s: float = 60.0  #: how long a notice about an ended site is tried, seconds
    part_keep_s: float = (
        900.0  #: how long a part of an earlier server run waits to be resumed, seconds
    )
    reconnect_min_s: float = 0.1  #: first pause before a broken stream is opened again, seconds
    reconnect_max_s: float = 2.0  #: longest pause before a broken stream is opened again, seconds
    inline_bytes: int = MIB  #: values below this size travel inline, others as spool files, bytes
    chunk_bytes: int = 2 * MIB  #: piece of a big value between two servers, bytes, at most 4 MiB
    window_bytes: int = (
        8 * MIB
    )  #: unacknowledged bytes of one big value, and of all small ones, bytes
    inbound_bytes: int = 32 * MIB  #: unacknowledged bytes of all big values that arrive, bytes
    max_inbound: int = 32  #: big values that arrive at once; more wait for their turn
    memory_bytes: int = (
        32 * MIB
    )  #: small unread values in memory; beyond it they are spooled, bytes
    held_bytes: int = 8 * MIB  #: small values in memory whose session is not open yet, bytes
    spool_bytes: int = 64 * GIB  #: files of values in transit, bytes
    values_per_session: int = 200_000  #: values that one site may get in one task attempt

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) <= 0:
                raise BadSetting(path=f"federation.{name}", reason="must be above 0")
        if self.chunk_bytes > 4 * MIB:
            raise BadSetting(path="federation.chunk_bytes", reason="must be at most 4 MiB")
        if self.inline_bytes > 4 * MIB:
            raise BadSetting(path="federation.inline_bytes", reason="must be at most 4 MiB")
        if self.window_bytes < self.chunk_bytes:
            raise BadSetting(path="federation.window_bytes", reason="must be at least chunk_bytes")
        if self.inbound_bytes < self.window_bytes:
            raise BadSetting(
                path="federation.inbound_bytes", reason="must be at least window_bytes"
            )
