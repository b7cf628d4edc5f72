"""Errors 2300: rendezvous."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class RendezvousClosed(FedflowError):
    """The rendezvous {run_id!r} is closed."""

    code, retcode, http = 2301, 100, 409
    public = ("run_id",)
    hint = "A closed rendezvous stays closed: start again under a new run id."


class RendezvousTimeout(FedflowError):
    """The rendezvous {run_id!r} was not complete after {seconds} s."""

    code, retcode, http = 2302, 100, 504
    public = ("run_id", "seconds")
    hint = "Fewer members than the minimum came: start them, or raise the join timeout."


class RendezvousEnded(FedflowError):
    """The rendezvous {run_id!r} was closed while this member was not needed."""

    code, retcode, http = 2303, 100, 409
    public = ("run_id",)
    hint = "Nothing failed: the maximum number of members took part without this one."


class RendezvousStateCorrupt(FedflowError):
    """The state of the rendezvous is corrupt: {reason}."""

    code, retcode, http = 2304, 100, 500
    hint = "Start again under a new run id, and look who else writes to this one."


class RendezvousNotAllowed(FedflowError):
    """The rendezvous cannot be stored: {reason}."""

    code, retcode, http = 2305, 100, 409
    public = ("reason",)
    hint = "Runs that nobody writes to are deleted after a day; one more can be stored then."


class RendezvousUnreachable(FedflowError):
    """The server at {address} keeps no rendezvous now: {reason}."""

    code, retcode, http = 2306, 104, 502
    hint = "See that the server runs, and that host and port are those of its HTTP or gRPC port."
