"""Commands that take a second and not a few milliseconds: those of one party are carried out one
after the other, so that other parties' commands find processor and store free.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fedflow.base.errors.jobs import StillBusy
from fedflow.domain.job.document import size_of
from fedflow.wire.commands import ChangeParameters, CommandBody, CreateJob, Heartbeat, RerunJob

HEAVY: Final = 2_000  #: components x sites of a job, or what takes as long
_BYTES: Final = 32  #: of documents, which take as long as one component at one site
_OF_A_JOB: Final = 10  #: the same for a job in a heartbeat
WAITING: Final = 4  #: heavy commands of a party that may wait: who sends sends so many at once
WAIT_S: Final = 8.0  #: so long one waits; its sender waits for 10 s, and then sends it again


def weight_of(body: CommandBody) -> int:
    """Return about how much work a command is, without looking at its parts."""
    if isinstance(body, CreateJob):
        conf = body.runtime_conf
        runs = _members(body.dsl, "components") * _sites(conf)
        return max(runs, size_of(body.dsl, conf) // _BYTES)
    if isinstance(body, RerunJob | ChangeParameters):
        return size_of(body.runtime_conf) // _BYTES
    if isinstance(body, Heartbeat):
        return len(body.jobs or ()) * _OF_A_JOB
    return 0


class HeavyCommands:
    """Whose heavy commands are carried out or wait."""

    def __init__(self, *, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._turns: dict[
            str, tuple[threading.Lock, int]
        ] = {}  #: party -> its lock, how many use it

    @contextmanager
    def turn(self, party: str, body: CommandBody) -> Iterator[None]:
        """Let a command be carried out when no other heavy one of its party is, or if it is light.

        Raises: StillBusy: that takes too long, or others wait already; it may be sent again.
        """
        if weight_of(body) <= HEAVY:
            yield
            return
        with self._lock:
            own, users = self._turns.get(party) or (threading.Lock(), 0)
            if users > WAITING:
                raise StillBusy(party_id=party)
            self._turns[party] = (own, users + 1)
        try:
            if not own.acquire(timeout=self._wait_s):
                raise StillBusy(party_id=party)
            try:
                yield
            finally:
                own.release()
        finally:
            with self._lock:
                own, users = self._turns[party]
                if users > 1:
                    self._turns[party] = (own, users - 1)
                else:
                    del self._turns[party]


def _members(document: object, name: str) -> int:
    found = document.get(name) if isinstance(document, dict) else None
    return len(found) if isinstance(found, dict) else 0


def _sites(conf: object) -> int:
    roles = conf.get("role") if isinstance(conf, dict) else None
    parties = roles.values() if isinstance(roles, dict) else ()
    return sum(len(one) for one in parties if isinstance(one, list))
