"""What a server stores of a rendezvous: one text per run, whose meaning it does not know."""

from __future__ import annotations

from typing import Final

from fedflow.base.values import dataclass

MAX_STATE_BYTES: Final = 160_000  #: of a run; 1,000 members need less
CHECKSUM_LENGTH: Final = 8  #: hexadecimal digits before the state's base64
MAX_STATE_TEXT: Final = CHECKSUM_LENGTH + (MAX_STATE_BYTES + 2) // 3 * 4  #: characters of a text
MAX_RUN_ID: Final = 128  #: characters of a run id
MAX_RUNS_OF_ONE: Final = 32  #: runs that one caller may have begun
MAX_RUNS: Final = 1_024  #: of all callers
KEPT_MS: Final = 86_400_000  #: a run that nobody wrote to for so long may be deleted


@dataclass(frozen=True, kw_only=True, slots=True)
class RunKey:
    """Names a run. Runs of different parties, and of jobs, are apart though their ids agree."""

    scope: str  #: `party:ID` or `job:ID`: who may use it
    run_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run as it is stored."""

    key: RunKey
    caller: str  #: who began it, and whose share it counts for
    token: str  #: of the last write
    text: str  #: the state: a checksum and base64
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunReply:
    """What a run holds after a read, or after a try to write."""

    now_ms: int  #: the server's time
    token: str | None = None  #: None: nothing is stored
    text: str | None = None  #: None: that of the token which the caller knows
    was_set: bool = False  #: of a write: it took place
    since_ms: int = 0  #: from when on the server has been there all the time
