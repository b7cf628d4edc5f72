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
from fedflow.base.shares import Shares
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.mailbox import InThread, Mailbox
from fedflow.federation.messages import Notice
from fedflow.federation.session import AGAIN, Session
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
    parties: list[PartyId]  #: to which it is not delivered yet
    on_done: OnDone
    required: bool
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
        least = 2 * (settings.inline_bytes + VALUE_OVERHEAD)
        self._outgoing = Shares(max(settings.memory_bytes, least))
        self.delivered = 0  #: values delivered since the start
        self._room: list[tuple[int, list[PartyId], asyncio.Future[None]]] = []

    @property
    def memory(self) -> int:
        """Return the bytes of small values that are not delivered yet, for each receiver."""
        return self._outgoing.total

    async def wait_for_room(self, size: int, parties: list[PartyId], *, required: bool) -> None:
        """Wait until a small value of `size` bytes may be accepted.

        A value that is not required waits only until a party that takes nothing in is noticed.
        Raises: SpoolFull: it took too long.
        """
        settings = self._settings
        limit_s = settings.send_timeout_s if required else settings.progress_timeout_s
        loop = asyncio.get_running_loop()
        entry = (size, parties, loop.create_future())
        self._room.append(entry)
        self._wake_next()
        try:
            async with asyncio.timeout(limit_s):
                await entry[2]
        except TimeoutError as exc:
            raise SpoolFull(used=self.memory, limit=self._settings.memory_bytes) from exc
        finally:
            self._room.remove(entry)
            loop.call_soon(self._wake_next)  # after this one was accepted

    def has_room(self, size: int, parties: list[PartyId]) -> bool:
        """Tell whether a small value may be accepted now: what a party does not take in is counted
        in its share, and keeps no value for others waiting.
        """
        if any(party in waiting for _, waiting, _ in self._room for party in parties):
            return False
        return self.fits(size, parties)

    def fits(self, size: int, parties: list[PartyId]) -> bool:
        """Tell whether the shares of all these parties have room for a small value."""
        return all(self._outgoing.fits(party, size + VALUE_OVERHEAD) for party in parties)

    def accept(
        self,
        session: Session,
        keys: list[ValueKey],
        *,
        blob: Blob,
        on_done: OnDone,
        required: bool = True,
    ) -> None:
        """Take over a value and deliver it to all destinations; `on_done` gets the outcome.

        `blob` is then the sender's, also if this raises. If the value is not required, a
        destination that fails, or has failed, is none.
        Raises: PeerFailed: a destination has failed. SpoolFull. BadRequest: it is not of the
        session.
        """
        try:
            self._check(session, keys, required=required)
            keys = [key for key in keys if key.destination not in session.failed_peers]
            if not keys:
                self._in_thread(blob.discard)
                on_done(None)
                return
            parties = [key.destination.party_id for key in keys]
            self._reserve(blob, parties)
        except FedflowError:
            self._in_thread(blob.discard)
            raise
        dispatch = _Dispatch(blob=blob, parties=parties, on_done=on_done, required=required)
        for key in keys:
            session.trace.sent(key, blob.size)
            task = asyncio.create_task(self._deliver(session, key, blob))
            session.deliveries[task] = key.destination
            task.add_done_callback(partial(self._settle, session, dispatch))

    def _check(self, session: Session, keys: list[ValueKey], *, required: bool) -> None:
        if session.ended:
            raise SessionUnknown(session=session.name)
        if required and not keys:
            raise BadRequest(reason="a value for nobody")
        for key in keys:
            if key.destination not in session.sites or key.destination == session.site:
                raise BadRequest(reason=f"{key.destination} is not another site of this task")
            if required and key.destination in session.failed_peers:
                raise PeerFailed(
                    site=str(key.destination), reason=session.ended_peers[key.destination]
                )

    def _reserve(self, blob: Blob, parties: list[PartyId]) -> None:
        """Count a value in the shares of its receivers; a file, which is one, in that of one."""
        if blob.data is None:
            blob.party = parties[0]
            self._mailbox.ledger.take_file(blob.party, blob.size)
            return
        for party in parties:
            self._outgoing.add(party, blob.size + VALUE_OVERHEAD)
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
        if dispatch.required or not isinstance(error, PeerFailed):
            dispatch.error = dispatch.error or error
        blob, ledger = dispatch.blob, self._mailbox.ledger
        dispatch.parties.remove(destination.party_id)
        if blob.data is not None:
            self._outgoing.give_back(destination.party_id, blob.size + VALUE_OVERHEAD)
            self._wake_next()
        elif not dispatch.parties:
            ledger.release(blob)
            self._in_thread(blob.discard)
        elif blob.party not in dispatch.parties:
            ledger.pass_on(blob, dispatch.parties[0])
        if not dispatch.parties:
            dispatch.on_done(dispatch.error)

    def _wake_next(self) -> None:
        """Let the first for which there is room go on; when it is accepted, the next."""
        for size, parties, waiter in self._room:
            if waiter.done():  # it goes on in this turn of the loop
                return
            if self.fits(size, parties):
                waiter.set_result(None)
                return


def _why_canceled(session: Session, destination: Site) -> FedflowError | None:
    """Return why a delivery was stopped;

    a destination that ended in order needs the value no more.
    """
    if session.ended:
        return SessionUnknown(session=session.name)
    if destination in session.ended_peers and destination not in session.failed_peers:
        return None
    other = AGAIN if session.incarnation_of(destination) else "the own server stops"
    reason = session.ended_peers.get(destination, other)
    return PeerFailed(site=str(destination), reason=reason)
