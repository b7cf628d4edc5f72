"""Values and notices on their way out: to sites of this server, to others through a port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fedflow.base.errors.data_plane import PeerFailed, SessionUnknown, SpoolFull
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.mailbox import InThread, Mailbox
from fedflow.federation.messages import Notice
from fedflow.federation.session import Session
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import VALUE_OVERHEAD, Blob

logger = logging.getLogger(__name__)

OnDone = Callable[[FedflowError | None], None]


class SenderPort(Protocol):
    """Carries values to other parties' servers. All methods run on the data plane's event loop."""

    def is_local(self, party_id: PartyId) -> bool:
        """Tell whether this server is the party's."""

    async def deliver_small(self, key: ValueKey, data: bytes, *, digest: str) -> None:
        """Return when the receiver's server has the value; tries until canceled.

        Raises: SessionUnknown: the receiver has ended. PeerFailed: it refuses for good.
        DuplicateValue.
        """

    async def deliver_file(self, key: ValueKey, blob: Blob) -> None:
        """As `deliver_small`, for a value in a file, which stays the caller's."""

    def notify(self, party_id: PartyId, notice: Notice) -> None:
        """Send a notice (its `seq` is replaced); tries for a while, returns at once."""

    async def close(self) -> None:
        """Close all channels; deliveries under way fail."""


@dataclass(kw_only=True, slots=True, eq=False)
class _Dispatch:
    """One value on its way to one or more sites."""

    blob: Blob
    remaining: int
    on_done: OnDone
    error: FedflowError | None = None


class ValueSender:
    """Delivers the values of local executors. Belongs to one event loop."""

    def __init__(
        self,
        settings: FederationSettings,
        *,
        mailbox: Mailbox,
        port: SenderPort,
        in_thread: InThread,
    ) -> None:
        self._settings = settings
        self._mailbox = mailbox
        self._port = port
        self._in_thread = in_thread
        self.memory = 0  #: bytes of small values that are not delivered yet
        self.delivered = 0  #: values delivered since the start
        self._room: list[tuple[int, asyncio.Future[None]]] = []

    async def wait_for_room(self, size: int) -> None:
        """Wait until a small value of `size` bytes may be accepted.

        Raises: SpoolFull: it took too long.
        """
        if not self._room and self.has_room(size):
            return
        entry = (size, asyncio.get_running_loop().create_future())
        self._room.append(entry)
        try:
            async with asyncio.timeout(self._settings.send_timeout_s):
                await entry[1]
        except TimeoutError as exc:
            raise SpoolFull(used=self.memory, limit=self._settings.memory_bytes) from exc
        finally:
            if entry in self._room:
                self._room.remove(entry)

    def has_room(self, size: int) -> bool:
        """Tell whether a small value of `size` bytes may be accepted now."""
        return self.memory == 0 or self.memory + size <= self._settings.memory_bytes

    def accept(
        self, session: Session, keys: list[ValueKey], *, blob: Blob, on_done: OnDone
    ) -> None:
        """Take over a value and deliver it to all destinations; `on_done` gets the outcome.

        `blob` is then the sender's, also if this raises.
        Raises: PeerFailed: a destination has failed. SpoolFull. BadRequest: it is not of the
        session.
        """
        try:
            self._check(session, keys)
            blob.party = session.site.party_id
            self._reserve(blob)
        except FedflowError:
            self._in_thread(blob.discard)
            raise
        dispatch = _Dispatch(blob=blob, remaining=len(keys), on_done=on_done)
        for key in keys:
            task = asyncio.create_task(self._deliver(session, key, blob))
            session.deliveries[task] = key.destination
            task.add_done_callback(partial(self._settle, session, dispatch))

    def _check(self, session: Session, keys: list[ValueKey]) -> None:
        if session.ended:
            raise SessionUnknown(session=session.name)
        if not keys:
            raise BadRequest(reason="a value for nobody")
        for key in keys:
            if key.destination not in session.sites or key.destination == session.site:
                raise BadRequest(reason=f"{key.destination} is not another site of this task")
            if key.destination in session.failed_peers:
                raise PeerFailed(
                    site=str(key.destination), reason=session.ended_peers[key.destination]
                )

    def _reserve(self, blob: Blob) -> None:
        if blob.data is None:
            self._mailbox.ledger.take_file(blob.party, blob.size)
        else:
            self.memory += blob.size + VALUE_OVERHEAD
            self._wake_next()

    async def _deliver(self, session: Session, key: ValueKey, blob: Blob) -> FedflowError | None:
        """Deliver to one site and return the error. Cancellation is judged in `_settle`."""
        if key.destination in session.ended_peers:
            return None
        try:
            async with asyncio.timeout(self._settings.send_timeout_s):
                await self._hand_over(key, blob)
        except SessionUnknown:
            logger.info("%s has ended without reading %r", key.destination, key.name)
            return None
        except TimeoutError:
            limit = self._settings.send_timeout_s
            return PeerFailed(
                site=str(key.destination), reason=f"a value could not be delivered in {limit:g} s"
            )
        except FedflowError as exc:
            return exc
        except Exception:
            logger.exception("A value of session %s was not delivered", session.name)
            return BadRequest(reason="internal error of the own server")
        self.delivered += 1
        return None

    async def _hand_over(self, key: ValueKey, blob: Blob) -> None:
        if self._port.is_local(key.destination.party_id):
            await self._hand_over_here(key, blob)
        elif blob.data is not None:
            await self._port.deliver_small(key, blob.data, digest=blob.digest)
        else:
            await self._port.deliver_file(key, blob)

    async def _hand_over_here(self, key: ValueKey, blob: Blob) -> None:
        pause = self._settings.reconnect_min_s
        while True:
            try:
                if blob.data is None:
                    await self._mailbox.put_file(key, blob)
                elif not self._mailbox.put_now(key, blob.data, digest=blob.digest):
                    await self._mailbox.put(key, blob.data, digest=blob.digest)
            except (SpoolFull, TimeoutError):
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.reconnect_max_s)
            else:
                return

    def _settle(
        self, session: Session, dispatch: _Dispatch, task: asyncio.Task[FedflowError | None]
    ) -> None:
        destination = session.deliveries.pop(task)
        error = _why_canceled(session, destination) if task.cancelled() else task.result()
        dispatch.error = dispatch.error or error
        dispatch.remaining -= 1
        if dispatch.remaining:
            return
        blob = dispatch.blob
        if blob.data is None:
            self._mailbox.ledger.release(blob)
            self._in_thread(blob.discard)
        else:
            self.memory -= blob.size + VALUE_OVERHEAD
            self._wake_next()
        dispatch.on_done(dispatch.error)

    def _wake_next(self) -> None:
        """Let the first that waits for room go on; what it accepts wakes the next."""
        if self._room and self.has_room(self._room[0][0]):
            _, waiter = self._room.pop(0)
            if not waiter.done():
                waiter.set_result(None)


def _why_canceled(session: Session, destination: Site) -> FedflowError | None:
    """Return why a delivery was stopped;

    a destination that ended in order needs the value no more.
    """
    if session.ended:
        return SessionUnknown(session=session.name)
    if destination in session.ended_peers and destination not in session.failed_peers:
        return None
    reason = session.ended_peers.get(destination, "the own server stops")
    return PeerFailed(site=str(destination), reason=reason)
