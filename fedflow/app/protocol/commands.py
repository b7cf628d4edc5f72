"""What other sites may ask of this server: one handler per command of `wire/paths.py`.

HTTP and gRPC are two doors to `Commands.handle`, `party_router` is the one for own commands. A
request id that the same party sent before is answered from the store; otherwise the handler's
writes and its reply are stored together, then its effects happen.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.heavy_commands import HeavyCommands
from fedflow.app.protocol.newest import Newest
from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest, RouteNotFound
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.ids import is_job_id
from fedflow.base.values import dataclass
from fedflow.domain.outside import outside, outside_error
from fedflow.domain.records import JobKey, Reply, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.wire.commands import read_command
from fedflow.wire.paths import BODIES, Match, site_of, task_of

logger = logging.getLogger(__name__)

B_co = TypeVar("B_co", covariant=True)

ASKED: Final = "the party that was asked"  #: whose the details are, where no site is named
_LONGEST_NAME = 128  #: characters that the store takes
_BEGIN = frozenset({"job_create", "job_rerun", "task_create", "task_start"})
"""Commands by which something begins to run. An id of digits alone is part of names of folders and
sessions, and no two tasks get the same; others are models' versions, or of jobs of old.
"""
REPLIES: Final = 5_200
"""Replies that are kept of one party, five or six per small job: those of 30 s under full load. A
call is repeated within 15 s (`call_timeout_s` and `retry_cap_ms`) of one that may have arrived, and
an older one that is carried out again finds that its work is done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Incoming:
    """A command as it arrived. `source_party` is who sent it, proven where TLS is on."""

    name: str  #: entry of `wire.paths.PARTY_COMMANDS`
    job_id: str
    site: Site | None
    body: Any
    component: str | None = None
    version: int | None = None
    status: str | None = None
    source_party: str | None = None
    request_id: str | None = None

    @property
    def job(self) -> JobKey:
        """Return the party job that the path names."""
        assert self.site is not None  # noqa: S101  # the path table guarantees it
        return JobKey(job_id=self.job_id, site=self.site)

    @property
    def task(self) -> TaskKey:
        """Return the party task that the path names."""
        assert self.site is not None  # noqa: S101
        assert self.component is not None  # noqa: S101
        assert self.version is not None  # noqa: S101
        return TaskKey(
            job_id=self.job_id, component=self.component, version=self.version, site=self.site
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TypedCommand(Incoming, Generic[B_co]):
    """A command whose body was read as the class that `wire.paths` names."""

    body: B_co


Handler = Callable[[Tx, TypedCommand[Any], AfterCommit], Reply]
Prepare = Callable[[TypedCommand[Any]], None]
Look = Callable[[TypedCommand[Any]], Reply]


class Commands:
    """The table of handlers."""

    def __init__(self, *, store: Store, clock: Clock, hosts: Callable[[str], bool]) -> None:
        """`hosts` tells whether a party is one of this server's."""
        self.hosts = hosts
        self._store = store
        self._clock = clock
        self._handlers: dict[str, Handler] = {}
        self._prepare: dict[str, Prepare] = {}
        self._looks: dict[str, Look] = {}
        self._check_store: Callable[[], None] = lambda: None
        self._repeatable: set[str] = set()
        self._newest = Newest(REPLIES)
        self._heavy = HeavyCommands()

    def add(
        self, name: str, handler: Handler, *, prepare: Prepare | None = None,
        repeatable: bool = False,
    ) -> None:  # fmt: skip
        """Register a handler; `prepare` runs before the transaction and may take its time.

        What is `repeatable` may be carried out again: no reply is kept, which may be long and many.
        """
        self._handlers[name] = handler
        if repeatable:
            self._repeatable.add(name)
        if prepare is not None:
            self._prepare[name] = prepare

    def check_store(self, check: Callable[[], None]) -> None:
        """Name what is called before each look, which stores nothing and else answers without a
        store.
        """
        self._check_store = check

    def add_look(self, name: str, look: Look) -> None:
        """Register a handler that changes nothing: it gets no transaction and may take its time."""
        self._looks[name] = look

    def handle(self, incoming: Incoming) -> Reply:
        """Carry a command out, at most once per request id unless it is repeatable; return the
        answer.

        Raises: FedflowError: it was refused; nothing was changed.
        """
        name = incoming.name
        if name in self._looks:
            self._check_store()
            return self._looks[name](_received(incoming, incoming.request_id))
        handler = self._handlers.get(name)
        if handler is None:
            raise RouteNotFound(method="POST", path=name)
        effects = AfterCommit()
        received = _received(incoming, None if name in self._repeatable else incoming.request_id)
        with self._heavy.turn(received.source_party or "", received.body):
            reply = self._prepared(received) or self._carried_out(received, handler, effects)
        effects.run()
        return reply

    def _prepared(self, received: TypedCommand[Any]) -> Reply | None:
        """Prepare a command, or return the answer to it if it was carried out before."""
        if received.name not in self._prepare:
            return None
        with self._store.read() as tx:
            known = _known(tx, received)
        if known is None:
            self._prepare[received.name](received)
        return known

    def _carried_out(
        self, received: TypedCommand[Any], handler: Handler, effects: AfterCommit
    ) -> Reply:
        """Carry a command out and keep its reply, or return the one that is kept."""
        party = received.source_party or ""
        with self._store.transaction() as tx:
            known = _known(tx, received)
            if known is not None:
                return known
            reply = handler(tx, received, effects)
            if received.request_id is not None:
                name = _name(received)
                tx.reply_cache.put(name, reply, now_ms=self._clock.now_ms())
                tx.reply_cache.forget(self._newest.add(party, name))
        return reply

    def answer(self, incoming: Incoming) -> Reply:
        """Return the answer, with a refusal as a reply too."""
        try:
            return serve(self, incoming)
        except FedflowError as exc:
            return Reply(retcode=exc.retcode, retmsg=exc.message, data=exc.data, error=exc.name)


def serve(commands: Commands, incoming: Incoming) -> Reply:
    """Return the answer to a party's command; to one that is not hosted here with what may leave
    only, whoever the path names: see `domain/outside.py`.

    Raises: FedflowError: it was refused. The log has the whole sentence.
    """
    named = incoming.site  # of the asker itself, if it asks the job's initiator
    site = named if named is not None and commands.hosts(named.party_id) else ASKED
    own = incoming.source_party is not None and commands.hosts(incoming.source_party)
    try:
        reply = commands.handle(incoming)
    except FedflowError as exc:
        level = logging.ERROR if isinstance(exc, StoreUnavailable) else logging.INFO
        told = exc if own else outside_error(exc, site)
        if told.message != exc.message:
            who, said = incoming.source_party, {"action": "refuse", "code": exc.code}
            text = "%s of party %s is refused: %s"
            logger.log(level, text, incoming.name, who, exc.message, extra=said)
        raise told from exc
    if own or not reply.error:
        return reply
    return replace(reply, retmsg=outside(reply.retmsg, code=reply.error, site=site))


def incoming_of(
    match: Match, body: Any, *, source_party: str | None, request_id: str | None
) -> Incoming:
    """Return a command as its path and its sender name it.

    What runs under a job's id needs one of the form of ours. Raises: BadRequest.
    """
    params = match.params
    version = params.get("version")
    if match.name in _BEGIN and not is_job_id(params["job_id"]):
        raise BadRequest(reason=f"the id {params['job_id']!r} of a job is not 20 to 25 digits")
    if version is not None:
        task_of(params)  # the task id must be that of the job and component
    return Incoming(
        name=match.name,
        job_id=params.get("job_id", ""),
        site=site_of(params),
        body=body,
        component=params.get("component"),
        version=int(version) if version is not None else None,
        status=_status(params.get("status"), of_task=version is not None),
        source_party=source_party,
        request_id=request_id,
    )


def named_site(text: Any) -> Site:
    """Return the site that a member of a body names by its key. Raises: BadRequest."""
    try:
        return Site.from_key(str(text))
    except ValueError as exc:
        raise BadRequest(reason=f"{text!r} is not a site") from exc


def _status(word: str | None, *, of_task: bool) -> str | None:
    """Return the status in a path. Raises: BadRequest: jobs or tasks have no such status."""
    if word is None:
        return None
    known = [s.value for s in (TaskStatus if of_task else JobStatus)]
    if word not in known:
        raise BadRequest(reason=f"{word!r} is not a status; known are {', '.join(known)}")
    return word


def _received(incoming: Incoming, request_id: str | None) -> TypedCommand[Any]:
    """Return a command with its body read. Raises: BadRequest."""
    return TypedCommand(
        name=incoming.name,
        job_id=incoming.job_id,
        site=incoming.site,
        body=read_command(incoming.body, BODIES[incoming.name]),
        component=incoming.component,
        version=incoming.version,
        status=incoming.status,
        source_party=incoming.source_party,
        request_id=request_id,
    )


def _known(tx: Tx, incoming: Incoming) -> Reply | None:
    """Return the answer to a request that was carried out before."""
    return None if incoming.request_id is None else tx.reply_cache.get(_name(incoming))


def _name(incoming: Incoming) -> str:
    """Return under which name a reply is remembered: no party gets, or takes, another's.

    No part has a `/`, so that it is none of the names under which `app` notes its own steps: these
    begin with one and have two. Replies about a job begin with its id, and are deleted with it.
    """
    whose = f"{incoming.source_party or ''}/{incoming.request_id}"
    if not incoming.job_id:
        return whose
    name = f"{incoming.job_id}/{whose}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{incoming.job_id}/{hashlib.blake2b(whose.encode(), digest_size=16).hexdigest()}"
