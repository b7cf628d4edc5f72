"""How much processor time each caller of the gRPC port may use in the long run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from fedflow.wire import envelope
from fedflow.wire.paths import parse_party_path

SHARE: Final = 0.5  #: seconds of processor time that a caller may use per second
BURST_S: Final = 2.0  #: how much a caller that used none may use at once, seconds
PAUSE_S: Final = 3.0  #: longest pause: who is honest is heard within its time-outs
IDLE: Final = 5  #: so many times its time is charged for what brings no job forward
CALL_S: Final = 0.001  #: what a call takes beside its handler, seconds
NOTICE_S: Final = 0.000_25  #: charged for a notice, or a value that is not taken in at once
BYTE_S: Final = 0.000_000_025  #: the same, for each of its bytes
_KNOWN: Final = 1_000  #: callers, before those that owe nothing are forgotten
_OF_JOBS: Final = frozenset(
    {"job_create", "job_apply", "job_return", "job_start", "job_status", "task_create"}
    | {"task_start", "task_collect", "task_status", "task_stop", "initiator_report"}
)
"""Commands of which jobs that run need many."""


@dataclass(slots=True)
class _Account:
    full_s: float  #: when nothing is owed any more
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Pace:
    """Accounts of callers' processor time. Belongs to one event loop.

    What a caller used is charged to its account, which time fills again. Who has overdrawn it
    waits, one call after the other; nobody else does. Source: ITU-T I.371, "generic cell rate
    algorithm".
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def charge(self, caller: str, seconds: float) -> None:
        """Take processor time from a caller's account."""
        account, now_s = self._account(caller), _now_s()
        account.full_s = min(
            max(account.full_s, now_s) + seconds / SHARE, now_s + BURST_S / SHARE + PAUSE_S
        )

    async def turn(self, caller: str, seconds: float = 0.0) -> None:
        """Return once a caller's account is not overdrawn, and charge `seconds` to it."""
        account = self._account(caller)
        async with account.turn:
            while (pause_s := account.full_s - BURST_S / SHARE - _now_s()) > 0:
                await asyncio.sleep(pause_s)
        self.charge(caller, seconds)

    def _account(self, caller: str) -> _Account:
        if caller not in self._accounts:
            now_s = _now_s()
            if len(self._accounts) >= _KNOWN:
                owing = ((name, one) for name, one in self._accounts.items() if one.full_s > now_s)
                self._accounts = dict(owing)
            self._accounts[caller] = _Account(now_s)
        return self._accounts[caller]


def price_s(path: str, answer: bytes, used_s: float) -> float:
    """Return what is charged for a command, beside `CALL_S`: its handler took `used_s`."""
    match = parse_party_path(path)
    if match is not None and match.name in _OF_JOBS and envelope.is_success(answer):
        return used_s
    return IDLE * (used_s + CALL_S)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
