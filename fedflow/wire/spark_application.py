"""The files by which a server, a job's Spark application and the tasks that use it talk.

They lie in the application's folder, which only the server's user may enter:

| file | written by | says |
|---|---|---|
| `application.json` | the server | what to start |
| `process.json` | the server | which process it started |
| `gateway.json` | the application, once it is ready | where its gateway and its socket are |
| `failed.json` | the application | why it has ended |

A task's connection to the socket is its *lease*: it sends one line of JSON that names its job
group, and gets lines that say how far the application is (`ClusterStatus`) until it may begin.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated, Final

import msgspec

from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import SparkLost

APPLICATION: Final = "application.json"
PROCESS: Final = "process.json"
GATEWAY: Final = "gateway.json"
FAILED: Final = "failed.json"
SOCKET: Final = "lease.sock"

LINE_BYTES: Final = 64 * 1024  #: longest line of a lease
_LONGEST: Final = 100  #: bytes that the address of a unix socket may have, with some to spare
_MOST_BYTES: Final = 4 * 2**20

_Positive = Annotated[float, msgspec.Meta(gt=0)]


class ApplicationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the server wants of an application."""

    job_id: str
    name: str  #: as the cluster shows it
    master: str
    home: str | None  #: folder of Spark; None: the package pyspark
    python: str  #: of Spark's workers
    log: str  #: absolute path of the file that driver and application print to
    options: dict[str, str] = {}  #: of spark-submit, without the dashes
    properties: dict[str, str] = {}  #: Spark's own; may hold secrets
    executors: Annotated[int, msgspec.Meta(ge=1)] = 1  #: that must be there before work begins
    wait_s: _Positive
    idle_timeout_s: _Positive


class ProcessFile(msgspec.Struct, frozen=True, kw_only=True):
    """Which process an application is, and of which share of a job."""

    job_id: str
    site: str
    pid: int
    start_time: int
    host: str


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """How a task reaches the application."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]
    token: str
    home: str
    python: str
    loopback: bool  #: the cluster is this machine alone


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error of fedflow by its name, so that a task can raise it."""

    error: str
    fields: dict[str, str]


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """What a task says when it connects."""

    group: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]  #: its job group


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How many executors the cluster gave so far."""

    ready: bool = False  #: work may begin
    executors: int = 0
    wanted: int = 1
    failure: Failure | None = None  #: it will never be ready


def failure_of(error: FedflowError) -> Failure:
    """Return an error in the form that is written."""
    return Failure(error=error.name, fields={k: str(v) for k, v in error.fields.items()})


def error_of(failure: Failure, *, job_id: str) -> FedflowError:
    """Return the error that was written; one that cannot be made anew is a `SparkLost`."""
    for kind in all_errors():
        if kind.__name__ == failure.error:
            try:
                return kind(**failure.fields)
            except (KeyError, TypeError, ValueError):
                break
    return SparkLost(job_id=job_id, reason=f"it ended with {failure.error[:100]}")


def write_private(path: Path, content: bytes) -> None:
    """Replace a file at once by one that only this user can read. Raises: OSError."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    part.replace(path)


def read_private(path: Path) -> bytes:
    """Return a file that nobody else can have written or read.

    Raises: FileNotFoundError. PermissionError: it is another user's, or others may read it.
        OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionError(f"{path} is not a file of this user")
        if status.st_mode & 0o077:
            raise PermissionError(f"others may read {path}")
        if status.st_size > _MOST_BYTES:
            raise PermissionError(f"{path} is too long")
        return file.read()


def socket_address(folder: Path, descriptor: int) -> str:
    """Return the address of the application's socket in a folder that is open as `descriptor`.

    A path that is longer than an address can be is replaced by the descriptor's (Linux).
    """
    path = folder / SOCKET
    if len(os.fsencode(path)) <= _LONGEST:
        return str(path)
    return f"/proc/self/fd/{descriptor}/{SOCKET}"
