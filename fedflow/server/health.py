"""What a server knows of its own parts: its files in `run/`, its threads, its descriptors.

The detector looks every second: it makes anew what was removed, and logs what is scarce.
`/readyz` asks for the faults.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from fedflow.app.administration.info import MIB, Disks, Probes
from fedflow.app.administration.servers import Servers
from fedflow.app.core import Core
from fedflow.app.protocol.folders import Folders
from fedflow.base.descriptors import open_descriptors
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.start import HomeInUse
from fedflow.base.settings import Settings
from fedflow.base.values import dataclass
from fedflow.executor.zygote import ZygoteExecutor
from fedflow.federation.plane import DataPlane
from fedflow.http.server import HttpServer
from fedflow.wire.api.parties import DialInState

if TYPE_CHECKING:
    from fedflow.rpc.server.dial_in import DialIn

logger = logging.getLogger(__name__)

_ANSWER_S: Final = 1.0  #: the event loop does something else for so long at most


class RunFile(Protocol):
    """Something in `run/` that others find this server by."""

    def is_lost(self) -> bool:
        """Tell whether nobody finds it any more."""

    def restore(self) -> None:
        """Make it anew. Raises: FedflowError."""


@dataclass(frozen=True, slots=True)
class _Socket:
    """A unix socket of this server."""

    is_lost: Callable[[], bool]
    restore: Callable[[], None]


def sockets_of(
    workers: HttpServer, plane: DataPlane, on_loop: Callable[[Coroutine[Any, Any, None]], None]
) -> dict[str, RunFile]:
    """Return the sockets of a server by the names of their files; `on_loop` waits for the loop,
    which the data plane's belongs to.
    """
    return {
        "server.sock": _Socket(workers.is_lost, workers.listen_again),
        "federation.sock": _Socket(plane.is_lost, lambda: on_loop(plane.listen_again())),
    }


class OwnParts:
    """The files of `run/`, threads and descriptors of one server."""

    def __init__(self) -> None:
        self._parts: dict[str, RunFile] = {}
        self._refusals: dict[str, FedflowError] = {}  #: why a part cannot be made anew
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: Callable[[], list[str]] = list
        self.lines: list[DialIn] = []  #: to exchanges
        self.notes: list[str] = []  #: what was seen at the start and should be looked at

    def keep(self, parts: Mapping[str, RunFile]) -> None:
        """Look after files of `run/`, in the order in which they are named: the lock is first."""
        self._parts = {**self._parts, **parts}

    def connect(self, *, loop: asyncio.AbstractEventLoop, threads: Callable[[], list[str]]) -> None:
        """`threads` returns what is wrong with the threads. Before that all is well."""
        self._loop, self._threads = loop, threads

    def probes(
        self, settings: Settings, folders: Folders, *, core: Core, executor: ZygoteExecutor,
        servers: Servers,
    ) -> Probes:  # fmt: skip
        """Return how all parts of the server are asked."""
        return Probes(
            executor_fault=executor.fault,
            unreachable=core.circuit_breakers.opened,
            disks=Disks(folders.written(), least_bytes=settings.health.min_free_mib * MIB),
            is_draining=servers.is_draining,
            faults=self.faults,
            warnings=self.warnings,
            dial_in=self.dial_in,
        )

    def look(self) -> None:
        """Make anew what was removed from `run/`; say that descriptors run out."""
        open_now = open_descriptors()
        if open_now.are_few:
            text = "Few descriptors are left; raise LimitNOFILE (ulimit -n)"
            logger.error(text, extra={"action": "descriptors"})
        for name, part in self._parts.items():
            if part.is_lost():
                self._restore(name, part)
                if isinstance(self._refusals.get(name), HomeInUse):
                    return  # the files that follow the lock are another server's

    def _restore(self, name: str, part: RunFile) -> None:
        """Make a part anew, or note what is against it."""
        try:
            part.restore()
        except FedflowError as exc:
            self._refusals[name] = exc
            text = "run/%s was removed, and cannot be made anew: %s"
            logger.error(text, name, exc.message, extra={"action": "run_file_lost"})
            return
        self._refusals.pop(name, None)
        logger.error(
            "run/%s was removed, and was made anew: no program may clean up the home folder",
            name,
            extra={"action": "run_file_lost"},
        )

    def faults(self) -> list[str]:
        """Return a sentence for each part that does not work."""
        return [
            *self._of_lost(),
            *(f"threads: {fault}; see the server's log, or restart it" for fault in self._stuck()),
            *(f"descriptors: {fault}" for fault in (open_descriptors().fault,) if fault),
        ]

    def _of_lost(self) -> Iterator[str]:
        for name in [name for name, part in self._parts.items() if part.is_lost()]:
            refusal = self._refusals.get(name)
            if refusal is None:
                yield f"files: run/{name} was removed; it is made anew within seconds"
                continue
            yield f"files: run/{name} was removed, and cannot be made anew: {refusal.message}"
            if isinstance(refusal, HomeInUse):
                return  # the files that follow the lock are another server's

    def warnings(self) -> list[str]:
        """Return what will soon be a fault."""
        found = open_descriptors()
        few = found.are_few and not found.fault
        return [
            *self.notes,
            *([f"descriptors: {found}"] if few else []),
            *(
                f"dial-in: no calls come over the exchange {one.exchange}: {one.last_error}"
                for one in self.dial_in()
                if one.last_error
            ),
        ]

    def dial_in(self) -> list[DialInState]:
        """Return how the lines to each exchange stand."""
        return [lines.state for lines in self.lines]

    def _stuck(self) -> list[str]:
        found = self._threads()
        if self._loop is None:
            return found
        asked = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            asked.result(timeout=_ANSWER_S)
        except TimeoutError:
            found.append(f"the event loop has not answered for {_ANSWER_S:g} s")
        return found
