"""Changes of a model at several sites, at all of them or at none: prepare, then commit.

The coordinator is the server of the site that trained the model (its initiator). It lets every site
*prepare* its new share, which nobody can use yet (`ModelVersion.ready`), by calls that may be
repeated. When all have, it decides: one transaction stores that, and a *commit* per site in the
outbox, so a crash cannot forget half of them. If a site refuses, or its commit cannot be delivered,
every site gets the command *undo*. A prepared part without a commit is dropped after a day.
A change is a new version, or one of the history (`app/models/history_changes.py`).

What is remembered between the steps lies among the answered requests (`Tx.reply_cache`), under
names that no request id of another party can have, and is forgotten with them after a day.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from fedflow.app.models.models import trained_key
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import TypedCommand
from fedflow.app.protocol.kernel import UseCase
from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.models import ModelChangeRefused, WrongModelSource
from fedflow.base.errors.parties import BadPacket, NoRoute, PartyUnreachable
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId, new_request_id
from fedflow.base.values import dataclass
from fedflow.domain.models.model import (
    ModelComponent,
    ModelKey,
    ModelVersion,
    common_digest,
)
from fedflow.domain.records import Command, CommandKind, JobFilter, JobKey, Reply
from fedflow.domain.site import Role, Site
from fedflow.wire import paths
from fedflow.wire.commands import ModelCommand, PreparedModel, plain, read_command

logger = logging.getLogger(__name__)

COMMIT_ALLOW_MS: Final = 3_600_000  #: a commit that cannot be delivered for so long is undone
STALE_MS: Final = (
    86_400_000  #: a share that was prepared so long ago will not be committed any more
)
RUNNING: Final = 106  #: return code "not yet, ask again"
UNANSWERED: Final = (PartyUnreachable, NoRoute, BadPacket)
MODEL_COMMANDS: Final = frozenset({CommandKind.COMMIT_MODEL, CommandKind.UNDO_MODEL})


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChange:
    """One new version, or one change of the history, at several sites."""

    id: str  #: a request id, which tells this change from others that make the same version
    command: str  #: entry of `wire.paths.PARTY_COMMANDS` that prepares it
    version: str  #: the new one, or the one that the history is about
    source: Site  #: who coordinates
    bodies: Mapping[Site, ModelCommand]  #: what is sent to each site
    digest: str  #: what each site must answer: of a new share its `common_digest`

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(self.bodies)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of a change: every site's answer, and whether the change took place."""

    done: bool
    replies: Mapping[Site, Reply]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedModel:
    """The version that was asked for, and what each site said."""

    model_id: str
    model_version: str
    outcome: Outcome


class ModelChanges(UseCase):
    """The coordinator's half."""

    def carry_out(self, change: ModelChange) -> Outcome:
        """Make the new version at all sites, or at none; returns when that is settled.

        A site that does not answer in time makes it none.
        """
        replies = {site: self._prepare(change, site) for site in change.sites}
        if any(reply.retcode for reply in replies.values()):
            self._abandon(change)
            return Outcome(done=False, replies=replies)
        with self._store.transaction() as tx:
            self._plan(tx, change)
            tx.outbox.put(
                [
                    self._party_commands.change_model(
                        CommandKind.COMMIT_MODEL,
                        change.version,
                        change.source,
                        site,
                        change_id=change.id,
                        allow_ms=COMMIT_ALLOW_MS,
                    )
                    for site in change.sites
                ]
            )
        self._wakeup.outbox(_parties(change.sites))
        self._notifier.wait_until(
            lambda: self._is_settled(change),
            job_id=change.version,
            timeout_s=self._timing.create_timeout_ms / 1000,
        )
        return self._end(change)

    def _prepare(self, change: ModelChange, site: Site) -> Reply:
        """Return the site's answer; it is no success if the site prepared something else.

        A site at which the job that trained the model has not ended yet is asked again.
        """
        reply = self._ask(change, site)
        if reply.retcode == RUNNING:

            def is_ready() -> bool:
                nonlocal reply
                reply = self._ask(change, site)
                return reply.retcode != RUNNING

            self._notifier.wait_until(
                is_ready, job_id=change.version, timeout_s=self._timing.create_timeout_ms / 1000
            )
        digest = read_command(reply.data, PreparedModel).digest
        if reply.retcode == 0 and digest != change.digest:
            return _refused(
                f"{site} prepared something else than {change.source}: their shares of the"
                " model do not belong together"
            )
        return reply

    def _ask(self, change: ModelChange, site: Site) -> Reply:
        request_id = new_request_id()
        try:
            return answer_of(lambda: self._call(change, site, request_id))
        except UNANSWERED as exc:
            return refusal(exc)

    def _call(self, change: ModelChange, site: Site, request_id: str) -> Reply:
        return self._parties.call(
            change.source,
            site.party_id,
            paths.job_path(change.command, JobKey(job_id=change.version, site=site)),
            plain(structs.replace(change.bodies[site], change=change.id)),
            request_id=request_id,
            job_id=change.version,
            deadline_s=self._timing.call_timeout_s,
        )

    def _plan(self, tx: Tx, change: ModelChange) -> None:
        plan = {"source": change.source.key, "sites": [site.key for site in change.sites]}
        tx.reply_cache.put(
            _name(change.id), Reply(retcode=0, data=plan), now_ms=self._clock.now_ms()
        )

    def _abandon(self, change: ModelChange) -> None:
        """Tell all sites to forget what they prepared."""
        with self._store.transaction() as tx:
            self._plan(tx, change)
            self._undo(tx, change.id, change.version)
        self._wakeup.outbox(_parties(change.sites))

    def _is_settled(self, change: ModelChange) -> bool:
        with self._store.read() as tx:
            answers = [tx.reply_cache.get(_name(change.id, site.key)) for site in change.sites]
        return all(answers) or any(a is not None and a.retcode for a in answers)

    def _end(self, change: ModelChange) -> Outcome:
        """Return how it ended; what has not ended by now is undone."""
        with self._store.transaction() as tx:
            answers = {s: tx.reply_cache.get(_name(change.id, s.key)) for s in change.sites}
            done = all(a is not None and not a.retcode for a in answers.values())
            if not done:
                self._undo(tx, change.id, change.version)
        if not done:
            self._wakeup.outbox(_parties(change.sites))
        late = _refused("no answer in time", retcode=104)
        return Outcome(done=done, replies={s: a or late for s, a in answers.items()})

    # --- what comes back through the outbox -----------------------------------------------------

    def settled(self, tx: Tx, command: Command, reply: Reply, effects: AfterCommit) -> None:
        """Store a site's answer to a commit, or that it could not be asked; undo if it is no."""
        version = command.job_id
        if command.kind is CommandKind.UNDO_MODEL:
            if reply.retcode:
                logger.warning(
                    "Version %s stays at %s: %s",
                    version,
                    command.destination,
                    reply.retmsg,
                    extra={"action": "undo_refused", "job_id": version},
                )
            return
        change_id = read_command(command.body, ModelCommand).change
        name = _name(change_id, command.destination.key)
        if tx.reply_cache.get(name) is None:
            tx.reply_cache.put(name, reply, now_ms=self._clock.now_ms())
        if reply.retcode:
            effects.add(self._undo(tx, change_id, version))
        effects.add(lambda: self._wakeup.job_changed(version))

    def _undo(self, tx: Tx, change_id: str, version: str) -> Callable[[], None]:
        """Order the undoing at all sites, once; returns what to do after the commit."""
        plan = tx.reply_cache.get(_name(change_id))
        if plan is None or tx.reply_cache.get(_name(change_id, "undone")) is not None:
            return lambda: None
        tx.reply_cache.put(
            _name(change_id, "undone"), Reply(retcode=0), now_ms=self._clock.now_ms()
        )
        source = Site.from_key(plan.data["source"])
        sites = [Site.from_key(key) for key in plan.data["sites"]]
        tx.outbox.put(
            [
                self._party_commands.change_model(
                    CommandKind.UNDO_MODEL,
                    version,
                    source,
                    site,
                    change_id=change_id,
                    allow_ms=STALE_MS,
                )
                for site in sites
            ]
        )
        return lambda: self._wakeup.outbox(_parties(sites))


class PreparedModels:
    """A site's half: shares that were prepared for a coordinator."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    def put(
        self,
        tx: Tx,
        incoming: TypedCommand[ModelCommand],
        version: ModelVersion,
        components: Sequence[ModelComponent],
    ) -> Reply:
        """Store a share that cannot be used yet; answers its digest. Twice has no second effect.

        Raises: ModelChangeRefused: there is another share of this name, or a job could make one.
        """
        digest = common_digest(version)
        self._drop_stale(tx)
        if tx.reply_cache.get(_made(incoming)) is None:
            if tx.models.get(version.key) is not None:
                raise ModelChangeRefused(reason=f"{version.key} exists already")
            own = incoming.job.site.party_id
            for job in tx.jobs.find(JobFilter(job_id=version.key.model_version)):
                if incoming.source_party not in (None, own, job.initiator.party_id):
                    reason = f"{version.key.model_version} is the id of another party's job here"
                    raise ModelChangeRefused(reason=reason)
                if trained_key(job) == version.key:  # its end would take it for what it trained
                    raise ModelChangeRefused(reason=f"a job here trains {version.key}")
            tx.models.put(version)
            for component in components:
                tx.models.put_component(component)
            made = {
                "party_model_id": version.key.party_model_id,
                "version": version.key.model_version,
                "source": incoming.source_party,
            }
            tx.reply_cache.put(
                _made(incoming), Reply(retcode=0, data=made), now_ms=self._clock.now_ms()
            )
        return Reply(retcode=0, data=plain(PreparedModel(digest=digest)))

    def put_change(
        self, tx: Tx, incoming: TypedCommand[ModelCommand], change: Mapping[str, Any], digest: str
    ) -> Reply:
        """Keep a change of the history until it is committed; answers `digest`."""
        if tx.reply_cache.get(_made(incoming)) is None:
            made = {"history": change, "source": incoming.source_party}
            tx.reply_cache.put(
                _made(incoming), Reply(retcode=0, data=made), now_ms=self._clock.now_ms()
            )
        return Reply(retcode=0, data=plain(PreparedModel(digest=digest)))

    def commit(self, tx: Tx, incoming: TypedCommand[ModelCommand], effects: AfterCommit) -> Reply:
        """Make what was prepared count. Raises: ModelChangeRefused: nothing was, or it is late."""
        made = self._prepared(tx, incoming)
        if "history" in made:
            from fedflow.app.models.history_rows import add  # no job needs it

            if tx.reply_cache.get(_dropped(incoming)) is not None or not add(tx, made["history"]):
                raise ModelChangeRefused(reason=f"the history at {incoming.site} is another one")
            return Reply(retcode=0)
        key = _key(made)
        if key is None or not tx.models.set_ready(key, now_ms=self._clock.now_ms()):
            raise ModelChangeRefused(
                reason=f"nothing was prepared at {incoming.site} as version {incoming.job_id}"
            )
        logger.info("%s was made", key, extra={"action": "make_model", "job_id": incoming.job_id})
        return Reply(retcode=0)

    def undo(self, tx: Tx, incoming: TypedCommand[ModelCommand], effects: AfterCommit) -> Reply:
        """Forget what this coordinator had prepared here, committed or not."""
        made = self._prepared(tx, incoming)
        key = _key(made)
        if key is not None:
            tx.models.drop(key)
        if "history" in made:
            from fedflow.app.models.history_rows import remove  # no job needs it

            remove(tx, made["history"])
            if tx.reply_cache.get(_dropped(incoming)) is None:
                tx.reply_cache.put(
                    _dropped(incoming), Reply(retcode=0), now_ms=self._clock.now_ms()
                )
        return Reply(retcode=0)

    def _prepared(self, tx: Tx, incoming: TypedCommand[ModelCommand]) -> Mapping[str, Any]:
        """Return what was prepared under the path of a command. Raises: WrongModelSource."""
        made = tx.reply_cache.get(_made(incoming))
        if made is None:
            return {}
        source = made.data["source"]
        if None not in (source, incoming.source_party) and source != incoming.source_party:
            raise WrongModelSource(
                party_id=incoming.source_party, what=f"change version {incoming.job_id}"
            )
        found: Mapping[str, Any] = made.data
        return found

    def _drop_stale(self, tx: Tx) -> None:
        """Drop shares that were prepared and never committed."""
        for key in tx.models.unready(self._clock.now_ms() - STALE_MS):
            tx.models.drop(key)


def sites_of(roles: Mapping[str, Sequence[Any]]) -> tuple[Site, ...]:
    """Return the sites of a model's roles that keep shares: all but `local`, in their order.

    Raises: ValueError: a role is unknown.
    """
    return tuple(
        Site(Role(role), PartyId(str(party)))
        for role, parties in roles.items()
        if role != Role.LOCAL.value
        for party in parties
    )


def answer_of(call: Callable[[], Reply]) -> Reply:
    """Return a site's answer to a call that may be repeated: one lost message is no reason.

    Raises: `UNANSWERED`: there is none.
    """
    try:
        return call()
    except PartyUnreachable:
        return call()


def refusal(exc: FedflowError) -> Reply:
    """Return an error as the answer of a site."""
    return Reply(retcode=exc.retcode, retmsg=exc.advice, error=exc.name)


def _refused(reason: str, *, retcode: int | None = None) -> Reply:
    exc = ModelChangeRefused(reason=reason)
    return Reply(retcode=retcode or exc.retcode, retmsg=exc.message, error=exc.name)


def _parties(sites: Sequence[Site]) -> list[str]:
    return sorted({site.party_id for site in sites})


def _name(change_id: str, part: str = "plan") -> str:
    """Return under which name a step is remembered; `/` is not allowed in request ids."""
    return f"model/{change_id}/{part}"


def _key(made: Mapping[str, Any]) -> ModelKey | None:
    """Return which share was prepared, None if none was."""
    if "version" not in made:
        return None
    return ModelKey.from_party_model_id(made["party_model_id"], made["version"])


def _made(incoming: TypedCommand[ModelCommand]) -> str:
    """Return under which name a site remembers what it prepared. Raises: BadRequest."""
    return _name_here(incoming, "made")


def _dropped(incoming: TypedCommand[ModelCommand]) -> str:
    """Return under which name a site remembers that a change will not be. Raises: BadRequest."""
    return _name_here(incoming, "dropped")


def _name_here(incoming: TypedCommand[ModelCommand], part: str) -> str:
    change_id = incoming.body.change
    if not re.fullmatch(r"[0-9A-Za-z]{1,40}", change_id):
        raise BadRequest(reason="`change` must be an id of at most 40 letters and digits")
    return _name(change_id, f"{part}/{incoming.job.site.key}")
