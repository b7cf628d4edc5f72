"""The data plane of one server, put together; and the few calls that the rest of the server makes.

Everything runs on one event loop, except the methods that say "any thread". Opening and closing a
session is a write to a dict: the loop learns of a session only when a value, an executor or a
failure does.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from fedflow.base.errors.data_plane import PeerFailed, SessionUnknown
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.shares import Shares
from fedflow.base.thread_starts import Pool
from fedflow.base.values import dataclass
from fedflow.domain.job.ledger import PeerLedger
from fedflow.domain.site import Site
from fedflow.federation.keys import MAX_SESSION, site_from_wire
from fedflow.federation.local_server import LocalServer
from fedflow.federation.mailbox import Mailbox
from fedflow.federation.memory import FreedMemory, keep_freed_chunks
from fedflow.federation.messages import MAX_TEXT, Notice, NoticeKind
from fedflow.federation.sending import SenderPort, ValueSender
from fedflow.federation.session import Ending, Opening, Session, SessionKey, SessionRegistry
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import Spool
from fedflow.federation.trace import Trace

if TYPE_CHECKING:
    from fedflow.wire.api.traces import JobTrace

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 4
MAX_EARLY_BYTES = 8 * 1024 * 1024  #: of notices of all parties for sessions that are not open yet
MAX_EARLY_REASON = 300  #: characters kept of the reason of such a notice
EARLY_OVERHEAD = 1024  #: bytes that are counted for such a notice on top of its texts
MAX_TRACED = 20  #: jobs whose values are recorded
MAX_PAST = 200  #: ended sessions whose traces are kept
ENDED = "it has ended without sending this value"


@dataclass(frozen=True, kw_only=True, slots=True)
class DataPlaneStats:
    """The state of the data plane; approximate, as it is read without a lock."""

    open_sessions: int
    active_sessions: int  #: sessions in which something has happened
    executors: int  #: connections of executors
    waiting: int  #: receives that wait
    unread: int  #: values that have arrived and were not read
    memory_bytes: int  #: unread small values
    outgoing_bytes: int  #: small values that are not delivered yet
    held_bytes: int  #: small values whose session is not open yet
    spool_bytes: int  #: files of values in transit
    delivered: int  #: values delivered to other sites since the start


@dataclass(frozen=True, kw_only=True, slots=True)
class _Early:
    """A notice for a session that is not open yet."""

    since_s: float  #: time of the event loop
    size: int  #: bytes that are counted
    reason: str
    kind: str
    incarnation: int


class DataPlane:
    """Moves values between the executors of this server and those of other parties."""

    def __init__(
        self,
        settings: FederationSettings,
        *,
        spool_dir: Path,
        socket_path: Path,
        port: SenderPort,
    ) -> None:
        self.settings = settings
        self.port = port
        self._spool_dir = spool_dir
        self._socket_path = socket_path
        self._book = SessionRegistry()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool = Pool(THREADS, thread_name_prefix="data-plane")
        self._ticking: asyncio.Task[None] | None = None
        self._spool = Spool(spool_dir)
        self._traced: OrderedDict[str, None] = OrderedDict()  #: ids of jobs
        self._past: OrderedDict[SessionKey, Trace] = OrderedDict()
        self._early: dict[SessionKey, dict[Site, _Early]] = {}
        self._freed = FreedMemory()
        self._early_shares = Shares(MAX_EARLY_BYTES)
        self.mailbox = Mailbox(
            settings,
            book=self._book,
            spool=self._spool,
            in_thread=self.in_thread,
            on_start=self._on_start,
        )
        self._sender = ValueSender(
            settings, mailbox=self.mailbox, port=port, in_thread=self.in_thread
        )
        self._server = LocalServer(
            socket_path,
            settings=settings,
            book=self._book,
            mailbox=self.mailbox,
            sender=self._sender,
            spool=self._spool,
            in_thread=self.in_thread,
        )

    @property
    def run(self) -> str:
        """Return what names this run of the server; a later one has lost what had arrived."""
        return self._server.run

    async def start(self) -> None:
        """Sweep the spool and listen for executors, on the running loop. Raises: HomeNotUsable."""
        self._loop = asyncio.get_running_loop()
        keep_freed_chunks()
        left = await self.in_thread(self._spool.sweep)
        self._server.start()
        self._ticking = asyncio.create_task(self._tick_forever(), name="data-plane-tick")
        if left:
            self._loop.call_later(
                self.settings.part_keep_s, lambda: self.mailbox.forget_parts(left)
            )

    def is_lost(self) -> bool:
        """Tell whether executors do not find the socket any more."""
        return self._server.is_lost()

    async def listen_again(self) -> None:
        """Listen on a new socket in its place. Raises: HomeNotUsable."""
        await self._server.listen_again()

    async def stop(self) -> None:
        """Drop all sessions, executors and channels; parts stay on disk, to be resumed."""
        if self._ticking is not None:
            self._ticking.cancel()
        await self._server.stop()
        deliveries = [task for s in self.mailbox.sessions() for task in s.deliveries]
        for task in deliveries:
            task.cancel()
        if deliveries:
            await asyncio.wait(deliveries)
        await self.port.close()
        self._loop = None
        self._pool.shutdown()

    def in_thread(
        self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[R]:
        """Return a future of `function(*args, **kwargs)`, run beside the event loop.

        Raises: CancelledError: the server stops; streams of other parties end a little later.
        """
        try:
            return asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))
        except RuntimeError as exc:
            raise asyncio.CancelledError from exc

    # --- any thread

    def open_session(
        self,
        session: str,
        site: Site,
        *,
        token: str,
        sites: Sequence[Site],
        incarnation: int = 0,
    ) -> None:
        """Let the executor of `site` with `token` exchange values with `sites`.

        `incarnation` counts the launches within this attempt, from 0: a later one ends what an
        earlier one had here, and the other sites take it back. Takes microseconds.
        """
        key, members = (session, site), tuple(sites)
        if self._book.open(key, token=token, sites=members, incarnation=incarnation):
            self._on_loop(self._opened, key, members, incarnation)

    def knows(self, session: str, site: Site) -> bool:
        """Tell whether a site's session is, or lately was, open here."""
        return self._book.find((session, site)) is not None

    def close_session(self, session: str, site: Site, *, incarnation: int | None = None) -> None:
        """End the session of `site` in order: delete unread values, notify waiting peers.

        Only if it is of that incarnation; None: whichever is open.
        """
        self._end(session, site, None, incarnation)

    def fail_site(
        self, session: str, site: Site, reason: str, *, incarnation: int | None = None
    ) -> None:
        """End the session of `site`, whose executor failed; every peer's receive fails at once.

        For a site of another party, tells the sites of this server that it has failed. Only if it
        is of that incarnation; None: whichever is open.
        """
        if self.port.is_local(site.party_id):
            self._end(session, site, reason[:MAX_TEXT], incarnation)
        else:
            self._on_loop(self._peer_ended, session, site, reason[:MAX_TEXT], incarnation)

    def stats(self) -> DataPlaneStats:
        """Return how much is under way."""
        sessions = self.mailbox.sessions()
        return DataPlaneStats(
            open_sessions=self._book.count(),
            active_sessions=len(sessions),
            executors=len(self._server.connections),
            waiting=sum(len(s.waiters) + len(s.any_waiters) for s in sessions),
            unread=sum(len(s.values) for s in sessions),
            memory_bytes=self.mailbox.ledger.memory,
            outgoing_bytes=self._sender.memory,
            held_bytes=self.mailbox.held,
            spool_bytes=self.mailbox.ledger.spool,
            delivered=self._sender.delivered,
        )

    def trace_job(self, job_id: str, *, is_on: bool) -> None:
        """Record each value of a job's sessions at this server from now on, or no more."""
        self._on_loop(self._trace_job, job_id, is_on)

    def traces(self, job_id: str) -> dict[SessionKey, Trace]:
        """Return the traces of a job's sessions here; of sessions that ended, the latest ones.

        They still change.
        """
        start = f"{job_id}_"
        found = dict(self._past)
        found |= {session.key: session.trace for session in self.mailbox.sessions()}
        return {key: trace for key, trace in found.items() if key[0].startswith(start)}

    def ledger_of(
        self, session: str, site: Site, *, incarnation: int = 0
    ) -> tuple[PeerLedger, ...]:
        """Return what that incarnation of a site exchanged so far; nothing, if it is not known."""
        open_one = self.mailbox.active((session, site))
        trace = open_one.trace if open_one is not None else self._past.get((session, site))
        return trace.ledger() if trace and trace.incarnation == incarnation else ()

    def trace_of(self, job_id: str) -> JobTrace:
        """Return the traces of a job's sessions here as they are shown."""
        from fedflow.federation.trace_view import view_of

        return view_of(self.traces(job_id), is_on=job_id in self._traced)

    def _end(self, session: str, site: Site, reason: str | None, incarnation: int | None) -> None:
        known, tell = self._book.end((session, site), reason, incarnation=incarnation)
        if known is not None and tell:
            self._on_loop(self._ended, (session, site), known, reason)

    def _on_loop(self, function: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: function(*args, **kwargs))

    # --- the loop

    def on_notice(self, notice: Notice) -> None:
        """Act on what another party tells of one of its sites; the caller has checked whose.

        Raises: BadRequest: it names no site, or its session has too long a name.
        """
        if len(notice.session) > MAX_SESSION:
            raise BadRequest(reason="a notice whose session has too long a name")
        source, destination = site_from_wire(notice.source), site_from_wire(notice.destination)
        if notice.kind == "opened":  # it does not know yet whom it will send to
            self._answer(notice, source, destination)
        elif notice.kind == "watch":
            self._answer(notice, source, destination)
            return
        key = (notice.session, destination)
        try:
            found = self.mailbox.session(key)
        except SessionUnknown:
            return
        if found is not None:
            self._apply(found, source, notice)
            return
        self._keep_early(key, source, notice)

    def _answer(self, notice: Notice, source: Site, destination: Site) -> None:
        """Tell a site how one of this server stands, if that is news to it."""
        known = self._book.find((notice.session, destination))
        if known is None or source not in known.sites:
            return
        kind: NoticeKind = "opened"
        if isinstance(known, Ending):
            kind = "ended" if known.reason is None else "failed"
        elif known.incarnation <= notice.destination_incarnation:
            return
        self._tell(
            notice.session, destination, source, kind=kind, incarnation=known.incarnation,
            knows=notice.incarnation,
            reason=known.reason if isinstance(known, Ending) else None,
        )  # fmt: skip

    def _keep_early(self, key: SessionKey, source: Site, notice: Notice) -> None:
        """Keep the first notice of each source's latest incarnation.

        No party can fill the memory or push others out.
        """
        reason = notice.reason[:MAX_EARLY_REASON]
        size = EARLY_OVERHEAD + sys.getsizeof(notice.session) + sys.getsizeof(reason)
        known = self._early.get(key, {}).get(source)
        if known is not None and not _supersedes(notice, known):
            return
        if not self._early_shares.take(source.party_id, size):
            return
        if known is not None:
            self._early_shares.give_back(source.party_id, known.size)
        self._early.setdefault(key, {})[source] = _Early(
            since_s=asyncio.get_running_loop().time(), size=size, reason=reason, kind=notice.kind,
            incarnation=notice.incarnation,
        )  # fmt: skip

    def _forget_early(self) -> None:
        """Forget the notices whose session did not open for `hold_timeout_s`."""
        limit_s = asyncio.get_running_loop().time() - self.settings.hold_timeout_s
        for key, early in list(self._early.items()):
            for source in [s for s, one in early.items() if one.since_s < limit_s]:
                self._early_shares.give_back(source.party_id, early.pop(source).size)
            if not early:
                del self._early[key]

    def _on_start(self, session: Session) -> None:
        session.trace.incarnation = session.incarnation
        session.trace.is_on = session.name.partition("_")[0] in self._traced
        session.on_end.add(partial(self._remember, session))
        for source, early in self._early.pop(session.key, {}).items():
            self._early_shares.give_back(source.party_id, early.size)
            self._apply(session, source, early)

    def _trace_job(self, job_id: str, is_on: bool) -> None:
        self._traced.pop(job_id, None)
        if is_on:
            self._traced[job_id] = None
            if len(self._traced) > MAX_TRACED:
                self._traced.popitem(last=False)
        for (name, _), trace in self.traces(job_id).items():
            trace.is_on = name.partition("_")[0] in self._traced

    def _remember(self, session: Session) -> None:
        """Keep the trace of a session that has ended for a while."""
        self._past[session.key] = session.trace
        self._past.move_to_end(session.key)
        if len(self._past) > MAX_PAST:
            self._past.popitem(last=False)

    def _opened(self, key: SessionKey, sites: tuple[Site, ...], incarnation: int) -> None:
        name, site = key
        self.mailbox.replace(key, incarnation)
        self.mailbox.was_opened(key)
        if incarnation:
            for other in sites:
                if other != site:
                    self._tell(name, site, other, kind="opened", incarnation=incarnation)

    def _ended(self, key: SessionKey, known: Opening, reason: str | None) -> None:
        name, site = key
        error: FedflowError = SessionUnknown(session=name)
        if reason is not None:
            error = PeerFailed(site=str(site), reason=reason)
        self.mailbox.end(key, error, incarnation=known.incarnation)
        kind: NoticeKind = "ended" if reason is None else "failed"
        for other in known.sites:
            if other != site:
                self._tell(
                    name, site, other, kind=kind, incarnation=known.incarnation, reason=reason
                )

    def _tell(
        self,
        session: str,
        site: Site,
        to: Site,
        *,
        kind: NoticeKind,
        incarnation: int,
        knows: int = 0,
        reason: str | None = None,
    ) -> None:
        """Tell the site `to` whether `site` takes part, which `knows` that incarnation of it."""
        notice = Notice(
            seq=0,
            kind=kind,
            session=session,
            source=site.key,
            destination=to.key,
            reason=reason or "",
            incarnation=incarnation,
            destination_incarnation=knows,
        )
        if self.port.is_local(to.party_id):
            self.on_notice(notice)
        else:
            self.port.notify(to.party_id, notice)

    def _apply(self, session: Session, source: Site, notice: Notice | _Early) -> None:
        """Act on what is known of another site of a session; of an earlier incarnation: nothing."""
        if source not in session.sites or notice.incarnation < session.incarnation_of(source):
            return
        self.mailbox.revive(session, source, notice.incarnation)
        if notice.kind != "opened":
            failed = notice.kind == "failed"
            session.peer_ended(source, notice.reason[:MAX_TEXT] if failed else ENDED, failed=failed)

    def _peer_ended(self, session: str, site: Site, reason: str, incarnation: int | None) -> None:
        for found in self.mailbox.named(session):
            if site in found.sites and incarnation in (None, found.incarnation_of(site)):
                found.peer_ended(site, reason, failed=True)

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.watch_interval_s)
            try:
                self.tick()
                await self.in_thread(self._freed.look)
            except Exception:
                logger.exception("A look after waiting sites failed")

    def tick(self) -> None:
        """Ask for every site that is waited for whether it still takes part."""
        self._forget_early()
        for session in self.mailbox.sessions():
            for site in session.awaited_sites():
                notice = Notice(
                    seq=0,
                    kind="watch",
                    session=session.name,
                    source=session.site.key,
                    destination=site.key,
                    reason="",
                    incarnation=session.incarnation,
                    destination_incarnation=session.incarnation_of(site),
                )
                if self.port.is_local(site.party_id):
                    self.on_notice(notice)
                else:
                    self.port.notify(site.party_id, notice)


def _supersedes(notice: Notice, known: _Early) -> bool:
    """Tell whether a notice says more than the one that is kept: only later ends follow."""
    if notice.incarnation != known.incarnation:
        return notice.incarnation > known.incarnation
    return known.kind == "opened" and notice.kind != "opened"
