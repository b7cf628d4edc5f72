"""What a server does as one of several of its party: beats and takes over.

| thread | calls | woken by |
|---|---|---|
| `server-lease` | `Servers.renew` | its pause, and other servers that hand over |
| `lead` | starts and stops what only the leader runs | a change of the leader |
| `wake-leader` | tells the leader what was stored here | events |

A server whose store no other can use has none of these threads.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from heapq import nlargest
from pathlib import Path
from typing import Final

from fedflow import __version__
from fedflow.app.administration.servers import Servers
from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.folders import Folders
from fedflow.app.queries.deleting import NOTE
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.start import HomeNotUsable
from fedflow.base.ids import new_token
from fedflow.base.settings import Settings
from fedflow.domain.administration.servers import BEAT_MS, Instance
from fedflow.domain.records import JobFilter
from fedflow.executor.processes import this_host
from fedflow.rpc.client.servers import ServerLinks
from fedflow.server.loops import BUSY_S, Loop
from fedflow.wire.paths import fits
from fedflow.wire.servers import Wake

logger = logging.getLogger(__name__)

_WILDCARDS: Final = ("0.0.0.0", "::", "")  # noqa: S104  # addresses that are everybody's
_ID_LENGTH: Final = 12
_NEWEST: Final = 5  #: jobs of the home that the database must know


def own_instance(folders: Folders) -> Instance:
    """Return this server as far as its folders tell. Raises: HomeNotUsable."""
    return Instance(
        instance_id=_kept(folders.instance, new_token()[:_ID_LENGTH]),
        host=this_host(),
        http="",
        grpc="",
        version=__version__,
        shared_mark=_kept(folders.shared_mark, new_token()),
        secret=new_token(),
    )


def warn_of_missing_files(store: Store, folders: Folders) -> None:
    """Log a warning if the database knows tables or jobs, but the folder for their files is new.

    It is asked only if no server has used the folder yet. Raises: StoreUnavailable.
    """
    if folders.shared_mark.exists():
        return
    with store.read() as tx:
        known = bool(tx.tables.find(limit=1) or tx.jobs.find(JobFilter(limit=1)))
    if known:
        logger.warning(
            "The database knows tables or jobs, but %s was never used: rows, models and logs are "
            "missing. Check `--home` and `shared_home`, or restore the folder too.",
            folders.shared, extra={"action": "files"},
        )  # fmt: skip


def compare_files(store: Store, folders: Folders) -> list[str]:
    """Log it if database and home do not belong together; return what people should look at.

    Raises: StoreUnavailable.
    """
    warn_of_missing_files(store, folders)
    return _lost_rows(store, folders)


def _lost_rows(store: Store, folders: Folders) -> list[str]:
    """Log an error if the database does not know the newest jobs, or anything, of a used home.

    A job that has logs too was stored once; one that is being deleted has a note.
    """
    jobs = folders.job_files("-").parent
    newest = nlargest(
        _NEWEST,
        (
            name
            for name in _names(jobs)
            if fits("job_id", name)
            and folders.job_logs(name).exists()
            and not (jobs / name / NOTE).exists()
        ),
    )
    with store.read() as tx:
        unknown = [name for name in newest if not _knows(tx, name)]
        is_empty = not (tx.tables.find(limit=1) or tx.jobs.find(JobFilter(limit=1)))
    if newest[:1] == unknown[:1] != []:
        text = f"The database does not know {len(unknown)} of the {len(newest)} newest jobs"
    elif is_empty and _names(folders.tables):
        text = "The database is empty, and knows none of the tables"
    else:
        return []
    logger.error(
        "%s whose files lie in %s: it is another one, or has lost changes. Stop the server and "
        "restore the newer database, or delete the files. Jobs: %s",
        text, folders.shared, ", ".join(unknown) or "-", extra={"action": "old_database"},
    )  # fmt: skip
    return [f"database: {text} whose files this home has; the server's log says more"]


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []


def _knows(tx: Tx, job_id: str) -> bool:
    found = tx.jobs.find(JobFilter(job_id=job_id, limit=1))
    return bool(found) or tx.schedules.status(job_id) is not None


def address_for_others(settings: Settings, port: int) -> str:
    """Return host:port under which the other servers of this party reach this one."""
    listen = settings.fateflow
    host = listen.address or listen.parties_host
    if host in _WILDCARDS:
        host = socket.gethostname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _kept(path: Path, new: str) -> str:
    """Return what a file says, which is `new` if there is no such file, or an empty one: the
    machine stopped before its content was on the disk. Raises: HomeNotUsable.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{new[:8]}.tmp")
        with temporary.open("w", encoding="ascii") as file:
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # whoever comes first wins
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        text = path.read_text(encoding="ascii").strip() or _filled(path, new)
    except (OSError, UnicodeError) as exc:
        raise HomeNotUsable(path=str(path), reason=str(exc)) from exc
    if not text.isalnum() or len(text) > 64:
        raise HomeNotUsable(path=str(path), reason="it does not hold an id; delete it")
    return text


def _filled(path: Path, new: str) -> str:
    """Return what an empty file says once somebody has filled it; one of several servers does."""
    with path.open("r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read().strip()
        if not text:
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        return text or new


class ServerLeaseThread(Loop):
    """Beats, and does nothing else."""

    def __init__(self, servers: Servers) -> None:
        super().__init__("server-lease", longest_s=BEAT_MS / 1000 + BUSY_S)
        self._servers = servers
        self._now = threading.Event()

    def beat_now(self) -> None:
        """Do not wait for the end of the pause."""
        self._now.set()

    def stop(self) -> None:
        super().stop()
        self._now.set()

    def _body(self) -> None:
        pause_s = self._servers.renew()
        if not self._stop.is_set():
            self._now.wait(pause_s)
            self._now.clear()


class LeadThread(Loop):
    """Starts what only the leader runs, and stops it, as this server leads or ceases."""

    def __init__(
        self, servers: Servers, *, start: Callable[[], None], cease: Callable[[], None]
    ) -> None:
        super().__init__("lead")
        self._servers = servers
        self._start_leading = start
        self._cease = cease
        self._changed = threading.Event()
        self._leads = False

    def changed(self) -> None:
        """Look whether this server leads."""
        self._changed.set()

    def stop(self) -> None:
        super().stop()
        self._changed.set()

    def _body(self) -> None:
        self._changed.wait()
        self._changed.clear()
        leads = self._servers.leads and not self._stop.is_set()
        if leads is self._leads:
            return
        try:
            if leads:
                self._start_leading()
            else:
                self._cease()
        except Exception:
            self._changed.set()  # it is logged, and tried again
            raise
        self._leads = leads


class WakeLeader(Loop):
    """Tells the leader what was stored here; it looks by itself, too, but later."""

    def __init__(self, servers: Servers, links: ServerLinks) -> None:
        super().__init__("wake-leader")
        self._servers = servers
        self._links = links
        self._condition = threading.Condition()
        self._jobs: set[str] = set()
        self._destinations: set[str] = set()
        self._queue = False

    def tell(
        self, *, jobs: Sequence[str] = (), queue: bool = False, destinations: Sequence[str] = ()
    ) -> None:
        """Send this soon, together with what else comes up."""
        with self._condition:
            self._jobs.update(jobs)
            self._destinations.update(destinations)
            self._queue = self._queue or queue
            self._condition.notify()

    def stop(self) -> None:
        super().stop()
        with self._condition:
            self._condition.notify()

    def _body(self) -> None:
        with self._condition:
            while not (self._jobs or self._destinations or self._queue or self._stop.is_set()):
                self._condition.wait()
            wake = Wake(
                jobs=sorted(self._jobs), queue=self._queue, destinations=sorted(self._destinations)
            )
            self._jobs, self._destinations, self._queue = set(), set(), False
        if self._stop.is_set() or self._servers.leads:
            return
        try:
            self._links.wake(self._servers.leader(), wake)
        except FedflowError as exc:
            logger.debug("The leader was not woken: %s", exc.message)
