"""Commands of other parties when a party has several servers: only the one that leads carries them
out.

A server that follows hands a command to the leader, and the leader takes it from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fedflow.app.protocol.commands import ASKED
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.start import NotLeading
from fedflow.domain.administration.servers import Instance
from fedflow.domain.outside import outside_error
from fedflow.wire import envelope
from fedflow.wire.packet import Dispatch
from fedflow.wire.servers import Answer, Message, PartyCommand, Wake

logger = logging.getLogger(__name__)


class PartyLeader(Protocol):
    """Who leads this party's servers; see `app/administration/servers.py`."""

    @property
    def leads(self) -> bool:
        """Tell whether this server does."""

    def leader(self) -> Instance:
        """Return the other server that does. Raises: NotLeading: none does at the moment."""


class LeaderCalls(Protocol):
    """Calls to the leader; see `rpc/client/servers.py`."""

    def command(self, server: Instance, command: PartyCommand) -> Answer:
        """Let it carry a party's command out. Raises: PartyUnreachable."""


class LeaderEvents(Protocol):
    """What the leader's threads wait for; see `server/threads.py`."""

    def schedule(self, job_id: str) -> None: ...

    def queue(self) -> None: ...

    def outbox(self, destinations: Sequence[str]) -> None: ...


class LeaderForwarding:
    """Both ends of the way from a server that follows to the one that leads."""

    def __init__(
        self, servers: PartyLeader, calls: LeaderCalls, relay: Dispatch, *,
        events: LeaderEvents, check_executors: Callable[[], None],
    ) -> None:  # fmt: skip
        """`relay` carries a command out in this process, `check_executors` sees which of this
        server's are to stop.
        """
        self._servers = servers
        self._calls = calls
        self._relay = relay
        self._events = events
        self._check_executors = check_executors

    def dispatch(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Carry a party's command out, here or at the leader; return HTTP status and body.

        While nobody leads the answer is an error upon which the sender tries again.
        """
        if self._servers.leads:
            return self._relay(path, headers, body)
        command = PartyCommand(path=path, headers=dict(headers), body=body)
        try:
            answer = self._calls.command(self._servers.leader(), command)
        except NotLeading as exc:
            return _not_now(exc)
        except FedflowError as exc:
            reason = f"the leader could not be asked: {exc.message}"
            return _not_now(NotLeading(reason=reason))
        return answer.status, answer.body

    def serve(self, message: Message) -> Answer:
        """Answer another server of this party. It never passes a command on a second time."""
        if isinstance(message, PartyCommand):
            if not self._servers.leads:
                status, body = _not_now(NotLeading(reason="it just ceased to lead"))
            else:
                status, body = self._relay(message.path, message.headers, message.body)
            return Answer(status=status, body=body)
        if isinstance(message, Wake):
            self._wake(message)
        else:
            self._check_executors()
        return Answer()

    def _wake(self, wake: Wake) -> None:
        if not self._servers.leads:
            return
        for job_id in wake.jobs:
            self._events.schedule(job_id)
        if wake.queue:
            self._events.queue()
        self._events.outbox(wake.destinations)


def _not_now(error: NotLeading) -> tuple[int, bytes]:
    """Return the answer to a command that nobody can carry out at the moment.

    Another party does not learn which server it is, and where.
    """
    logger.warning("%s", error.message, extra={"action": "not_leading"})
    told = outside_error(error, ASKED)
    return 200, envelope.encode(envelope.failure(told))
