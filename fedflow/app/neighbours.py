"""What servers of different parties tell each other about themselves: a test of the way there."""

from __future__ import annotations

from typing import Any, Final

from fedflow.app.commands import Incoming
from fedflow.app.effects import Effects
from fedflow.app.info import Info
from fedflow.app.ports import PartyClient, Tx
from fedflow.base.errors import BadRequest, NoRoute, PartyRefused
from fedflow.base.ids import new_request_id
from fedflow.domain.records import Reply
from fedflow.wire.paths import PARTY_COMMANDS, fits

_COMMAND: Final = "info_common"


def reach(parties: PartyClient, party_id: str, *, timeout_s: float) -> Reply:
    """Return what a party's server answers to a call that changes nothing there.

    Raises: NoRoute, PartyUnreachable, BadPacket.
    """
    return parties.call(
        None,
        party_id,
        PARTY_COMMANDS[_COMMAND],
        {},
        request_id=new_request_id(),
        job_id="info",
        deadline_s=timeout_s,
    )


class Neighbours:
    """The use case of `/v1/info/party`, and the handler at the other side."""

    def __init__(self, *, info: Info, parties: PartyClient, call_timeout_s: float) -> None:
        self._info = info
        self._parties = parties
        self._call_timeout_s = call_timeout_s

    def ask(self, party_id: str) -> Any:
        """Return what the server of a party says about itself, through a real call.

        Raises: BadRequest, NoRoute, PartyUnreachable, BadPacket, PartyRefused.
        """
        if not fits("party_id", party_id):
            raise BadRequest(reason=f"{party_id[:100]!r} is not a party id")
        if not self._parties.knows(party_id):
            raise NoRoute(party_id=party_id)
        reply = reach(self._parties, party_id, timeout_s=self._call_timeout_s)
        if reply.retcode != 0:
            raise PartyRefused(party_id=party_id, command=_COMMAND, reason=reply.retmsg)
        return reply.data

    def answer(self, _tx: Tx, _incoming: Incoming, _effects: Effects) -> Reply:
        """Answer the call of another party."""
        return Reply(retcode=0, data=self._info.common())
