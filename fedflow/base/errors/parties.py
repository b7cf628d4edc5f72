"""Errors 1300: parties and transport."""

from __future__ import annotations

from typing import Any

from fedflow.base.errors.error import FedflowError


class NoRoute(FedflowError):
    """No route to party {party_id}."""

    code, retcode, http = 1301, 104, 404
    public = ("party_id",)
    hint = "Add the party with `--route PARTY=HOST:PORT` or under `routes` in the server's conf."


class PartyUnreachable(FedflowError):
    """Party {party_id} cannot be reached at {address}: {reason}."""

    code, retcode, http = 1302, 104, 504
    public = ("party_id",)
    hint = "Check that the party's server runs and that its gRPC port is open to this server."


class PartyRefused(FedflowError):
    """Party {party_id} refused {command}: {reason}"""

    code, retcode, http = 1303, 103, 409
    public = ("party_id", "command")
    hint = "The reason comes from the other party; ask its administrator."


class ForbiddenRoute(FedflowError):
    """{path} may not be called by another party."""

    code, retcode, http = 1304, 108, 403
    public = ("path",)
    hint = "Only party, initiator and output-table routes are open to other parties."


class BadPacket(FedflowError):
    """The packet is not valid: {reason}."""

    code, retcode, http = 1305, 101, 400
    public = ("reason",)
    hint = "The sender's version or settings do not match; compare `fedflow server status` of both."


class IncompatibleVersions(FedflowError):
    """Party {party_id} speaks {theirs}, this server {ours}: they have none in common."""

    code, retcode, http = 1306, 107, 409
    public = ("party_id", "theirs", "ours")
    hint = "Upgrade the older server: each release works with the one before it."


class PartyTooOld(FedflowError):
    """Party {party_id} speaks {theirs}, which has no `{command}`; protocol {needed} has it."""

    code, retcode, http = 1307, 107, 409
    public = ("party_id", "theirs", "command", "needed")
    hint = "Upgrade that party's server, or ask its administrator to upgrade it."


class PartiesNotReady(FedflowError):
    """The job was not accepted: {reason}."""

    code, retcode, http = 1308, 103, 409
    public = ("reason",)
    hint = "Nothing was started at any party. `fedflow party ping PARTY` tests one party."

    @property
    def data(self) -> Any:
        """Return every broken hop: from, to, and why."""
        return self.fields.get("hops")


class ModulesMissing(PartiesNotReady):
    """The job was not accepted: {reason}."""

    code, retcode, http = 1309, 103, 409
    hint = (
        "Register the module's provider at that party (`fedflow provider register PATH`), or "
        "upgrade its server. Nothing was started at any party."
    )


class PartyStoreUnavailable(PartyUnreachable):
    """Party {party_id} cannot take part: {reason}."""

    code, retcode, http = 1310, 104, 503
    hint = "Ask the party's administrator: `/readyz` and the log of its server say what is wrong."


class NotPartner(FedflowError):
    """The calling party is no partner of this server."""

    code, retcode, http = 1311, 108, 403
    hint = "Its administrator adds a route to the party, or names it in `partners` of the conf."


class SealBroken(FedflowError):
    """What came over the exchange is not what the other party sealed: {reason}."""

    code, retcode, http = 1312, 109, 400
    public = ("reason",)
    hint = (
        "Something between the parties changed it; the call is made again. See the exchange's log."
    )


class SealReplayed(FedflowError):
    """A call came over the exchange a second time: number {call} of its session."""

    code, retcode, http = 1313, 109, 409
    public = ("call",)
    hint = "Nothing was done twice. If it goes on, something between the parties repeats calls."


class SealExpired(FedflowError):
    """A call over the exchange is {seconds} s off this server's clock; {limit} are allowed."""

    code, retcode, http = 1314, 109, 408
    public = ("seconds", "limit")
    hint = "Compare the clocks of both servers. If they agree, something held the call back."


class SealCutOff(FedflowError):
    """A call over the exchange ended before its sender ended it."""

    code, retcode, http = 1315, 109, 400
    hint = "The exchange or the line broke; the call is made again, a value goes on where it was."


class SealMisdirected(FedflowError):
    """A call over the exchange is from {source} to {destination}, which is not as expected."""

    code, retcode, http = 1316, 109, 400
    public = ("source", "destination")
    hint = "Compare the addresses that the exchange has for its parties."


class NoCertificate(FedflowError):
    """This server has no certificate, so its tasks can sign nothing."""

    code, retcode, http = 1319, 103, 409
    hint = "The conf names it under `tls`; `fedflow tls create` makes certificates for trials."
