"""What a server knows of its own parts: its sockets in `run/`, its threads, its descriptors.

The detector looks every second: it binds sockets anew that were removed, and logs what is scarce.
`/readyz` asks for the faults.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from fedflow.app.administration.info import MIB, Disks, Probes
from fedflow.app.administration.servers import Servers
from fedflow.app.core import Core
from fedflow.app.protocol.folders import Folders
from fedflow.base.descriptors import open_descriptors
from fedflow.base.errors.error import FedflowError
from fedflow.base.settings import Settings
from fedflow.executor.zygote import ZygoteExecutor
from fedflow.federation.plane import DataPlane

logger = logging.getLogger(__name__)

_ANSWER_S: Final = 1.0  #: the event loop does something else for so long at most


class ExecutorSocket(Protocol):
    """A unix socket of this server."""

    def is_lost(self) -> bool:
        """Tell whether nobody finds it any more."""

    def listen_again(self) -> None:
        """Make it anew. Raises: FedflowError."""


class _PlaneSocket:
    """The data plane's socket, which belongs to the event loop."""

    def __init__(
        self, plane: DataPlane, on_loop: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        self._plane = plane
        self._on_loop = on_loop

    def is_lost(self) -> bool:
        return self._plane.is_lost()

    def listen_again(self) -> None:
        self._on_loop(self._plane.listen_again())


def sockets_of(
    workers: ExecutorSocket, plane: DataPlane, on_loop: Callable[[Coroutine[Any, Any, None]], None]
) -> dict[str, ExecutorSocket]:
    """Return the sockets of a server by the names of their files; `on_loop` waits for the loop."""
    return {"server.sock": workers, "federation.sock": _PlaneSocket(plane, on_loop)}


class OwnParts:
    """The sockets, threads and descriptors of one server."""

    def __init__(self) -> None:
        self._sockets: dict[str, ExecutorSocket] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: Callable[[], list[str]] = list
        self.notes: list[str] = []  #: what was seen at the start and should be looked at

    def connect(
        self, sockets: dict[str, ExecutorSocket], *, loop: asyncio.AbstractEventLoop,
        threads: Callable[[], list[str]],
    ) -> None:  # fmt: skip
        """Name the sockets by their files; `threads` returns what is wrong with the threads.

        Before that all is well.
        """
        self._sockets, self._loop, self._threads = sockets, loop, threads

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
        )

    def look(self) -> None:
        """Bind sockets anew that were removed; say that descriptors run out."""
        for name, one in self._sockets.items():
            if not one.is_lost():
                continue
            try:
                one.listen_again()
                logger.error(
                    "The socket run/%s was removed, and was made anew: no program may clean up the "
                    "home folder",
                    name,
                    extra={"action": "socket_lost"},
                )
            except FedflowError as exc:
                text = "The socket run/%s was removed, and cannot be made anew: %s"
                logger.error(text, name, exc.message, extra={"action": "socket_lost"})
        open_now = open_descriptors()
        if open_now.are_few:
            text = "Few descriptors are left; raise LimitNOFILE (ulimit -n)"
            logger.error(text, extra={"action": "descriptors"})

    def faults(self) -> list[str]:
        """Return a sentence for each part that does not work."""
        lost = [name for name, one in self._sockets.items() if one.is_lost()]
        return [
            *(f"sockets: run/{name} was removed; it is made anew within seconds" for name in lost),
            *(f"threads: {fault}; see the server's log, or restart it" for fault in self._stuck()),
            *(f"descriptors: {fault}" for fault in (open_descriptors().fault,) if fault),
        ]

    def warnings(self) -> list[str]:
        """Return what will soon be a fault."""
        found = open_descriptors()
        few = found.are_few and not found.fault
        return [*self.notes, *([f"descriptors: {found}"] if few else [])]

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
