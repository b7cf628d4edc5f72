"""What the command's exit status means; scripts rely on it."""

from __future__ import annotations

from enum import IntEnum


class CliExitCode(IntEnum):
    """An exit status of `fedflow`."""

    OK = 0
    ERROR = 1  #: it failed; stderr says why, and what to do
    USAGE = 2  #: the command line or a file named on it is not right
    JOB_FAILED = 3  #: the job that was waited for did not succeed
    NOT_REACHABLE = 4  #: no server answers
    INTERRUPTED = 130  #: Ctrl-C
