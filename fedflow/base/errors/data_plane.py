"""Errors 1600: data plane."""

from __future__ import annotations

from typing import Any

from fedflow.base.errors.error import FedflowError


class PeerFailed(FedflowError):
    """{site} stopped taking part: {reason}."""

    code, retcode, http = 1601, 104, 502
    public = ("site",)
    hint = "See the first error of that party: `fedflow job query -j JOB` at its server."

    def __init__(self, **fields: Any) -> None:
        """`reason` may be a sentence, whose full stop is left out."""
        if isinstance(fields["reason"], str):
            fields["reason"] = fields["reason"].removesuffix(".")
        super().__init__(**fields)


class ValueTooLate(FedflowError):
    """Waited {seconds} s for {name!r} (tag {tag!r}) from {site}."""

    code, retcode, http = 1602, 104, 504
    public = ("seconds", "site")
    hint = "See the other party's log: it may be blocked. Or raise federation.receive_timeout_s."


class CodecError(FedflowError):
    """A value of another party cannot be read: {reason}."""

    code, retcode, http = 1603, 100, 400
    hint = "The value was refused before it was used; both parties must run compatible versions."


class SessionUnknown(FedflowError):
    """No data-plane session {session} at this server."""

    code, retcode, http = 1604, 10, 410
    public = ("session",)
    hint = "The task attempt has ended or has not started at this party."


class DuplicateValue(FedflowError):
    """The value {name!r} (tag {tag!r}) for {site} was sent or read twice."""

    code, retcode, http = 1605, 100, 409
    public = ("site",)
    hint = "Give each value of a component its own tag, for example the iteration number."


class SpoolFull(FedflowError):
    """The spool for values in transit is full: {used} of {limit} bytes."""

    code, retcode, http = 1606, 100, 507
    hint = "Raise federation.spool_mib in the conf, or wait until other jobs have ended."


class ServerRestarted(FedflowError):
    """The server of {site} was restarted, and values on their way to it are lost."""

    code, retcode, http = 1607, 104, 502
    public = ("site",)
    hint = "Submit the job again; what had finished before the restart is not affected."


class NotSendable(CodecError):
    """A value cannot be sent to another party: {reason}."""

    code, retcode, http = 1608, 100, 400
    hint = "Send numpy arrays, Arrow tables, bytes or plain JSON."


class NothingSent(FedflowError):
    """{site} sends no value {name!r} (tag {tag!r})."""

    code, retcode, http = 1609, 100, 409
    public = ("site",)
    hint = "What makes the value was left out there; see that party's log for the reason."


class ReplyFreed(FedflowError):
    """The answer to request {number} is kept no more, and it is not executed twice."""

    code, retcode, http = 1610, 100, 409
    hint = "The executor had lost its connection for too long; submit the job again."


class GroupDiffers(FedflowError):
    """{site} differs from {first} in {path}: {value} instead of {other}."""

    code, retcode, http = 1611, 100, 409
    public = ("site", "first", "path")
    hint = (
        "All members of a group need the same parameters, see the conf of the job, and in"
        " horizontal training the same columns in the same order, see `fedflow table info`."
    )


class UndeclaredMessage(FedflowError):
    """The component declares no message {name!r}, so it was not sent."""

    code, retcode, http = 1612, 100, 400
    hint = "Declare it with its content among the `messages` of `@component`."
