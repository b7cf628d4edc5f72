"""How a worker process ended, for the server and for people."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of a worker. Anything else is the component's or the system's."""

    SUCCESS = 0  #: the end was reported: success or pass
    FAILED = 10  #: the end was reported: failed
    STOPPED = 11  #: SIGTERM; nothing was reported
    REFUSED = 12  #: another launch runs this attempt, or it has ended; nothing was done
    BAD_SPEC = 13  #: the spec file cannot be read; stdout.log says why
    SERVER_GONE = 14  #: the end could not be reported
    DEFECT = 15  #: the worker itself failed; stdout.log says why


_MEANINGS = {
    ExitCode.SUCCESS: "it ended well",
    ExitCode.FAILED: "the component failed",
    ExitCode.STOPPED: "it was told to stop",
    ExitCode.REFUSED: "another process runs this attempt, or the attempt has ended",
    ExitCode.BAD_SPEC: "its spec file could not be read",
    ExitCode.SERVER_GONE: "its server could not be reached",
    ExitCode.DEFECT: "the worker itself failed",
}


def explain(code: int) -> str:
    """Return what an exit status means, as a part of a sentence."""
    try:
        return _MEANINGS[ExitCode(code)]
    except ValueError:
        return f"the process ended by itself with exit status {code}"
