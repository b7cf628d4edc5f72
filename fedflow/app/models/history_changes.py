"""Changing a model's history at all its sites or at none: commits, and moves of branches.

The server of the model's initiator coordinates, by `app/models/model_changes.py`; each site's half
is `app/models/local_history.py`. Two changes of one branch at once both fail, or one of them does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from fedflow.app.models.deployment import named_share
from fedflow.app.models.history_rows import COMMIT
from fedflow.app.models.local_history import change_digest, check_branch_name, check_texts
from fedflow.app.models.model_changes import (
    UNANSWERED,
    ChangedModel,
    ModelChange,
    ModelChanges,
    Outcome,
    refusal,
    sites_of,
)
from fedflow.app.models.model_names import site_here
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.models import (
    BranchExists,
    BranchNotFound,
    ModelIsCommitted,
    NoEarlierTarget,
)
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.domain.models.history import Branch, BranchKey, MoveKind
from fedflow.domain.models.model import ModelVersion
from fedflow.domain.records import JobKey, Reply
from fedflow.domain.site import Site
from fedflow.wire import paths
from fedflow.wire.commands import ChangeHistory, ModelDigest, ModelDigestAnswer, plain, read_command


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitRequest:
    """A version, by id, branch or tag, and what is said of it."""

    model_id: str
    model_version: str
    message: str
    approval: str = ""
    person: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveRequest:
    """A branch, and what happens to it; `to` names a version by id, branch or tag."""

    model_id: str
    branch: str
    kind: MoveKind
    to: str = ""  #: of a create or move
    message: str = ""
    person: str = ""


class HistoryChanges(UseCase):
    """The use cases of the routes that commit and move branches."""

    def __init__(self, kernel: Kernel, *, model_changes: ModelChanges) -> None:
        super().__init__(kernel)
        self._model_changes = model_changes

    def commit(self, asked: CommitRequest) -> ChangedModel:
        """Give a version its message, and store the digests of all its shares at all sites.

        Raises: ModelNotFound, ModelNotReady, NotModelInitiator, BranchNotFound, TagNotFound,
            TagNotUnique, ModelIsCommitted, BadRequest.
        """
        check_texts(message=asked.message, approval=asked.approval, person=asked.person)
        version = named_share(self._store, asked.model_id, asked.model_version)
        key = version.key
        with self._store.read() as tx:
            if tx.model_history.notes(key.site, key.model_id, [key.model_version]):
                raise ModelIsCommitted(model=key)
        replies = {site: self._share_digest(version, site) for site in sites_of(version.roles)}
        if any(reply.retcode for reply in replies.values()):
            return _changed(version, Outcome(done=False, replies=replies))
        shares = {
            site.key: read_command(reply.data, ModelDigestAnswer).digest or ""
            for site, reply in replies.items()
        }
        return self._carry_out(
            version,
            action=COMMIT,
            message=asked.message,
            person=asked.person,
            approval=asked.approval,
            shares=shares,
        )

    def move(self, asked: MoveRequest) -> ChangedModel:
        """Create, move, delete or roll back a branch; the answer has the version that it names,
        or of a deleted one, that it named.

        Raises: as `commit`, without ModelIsCommitted; BranchExists, NoEarlierTarget.
        """
        check_branch_name(asked.branch)
        check_texts(message=asked.message, person=asked.person)
        with self._store.read() as tx:
            site = site_here(tx, asked.model_id)
            where = BranchKey(site=site, model_id=asked.model_id, name=asked.branch)
            last_only = asked.kind is not MoveKind.ROLLBACK
            branch = tx.model_history.branch(where, last_only=last_only)
        version = named_share(self._store, asked.model_id, _target(branch, asked))
        return self._carry_out(
            version,
            action=asked.kind.value,
            branch=asked.branch,
            after=branch.last_id,
            message=asked.message,
            person=asked.person,
        )

    def _share_digest(self, version: ModelVersion, site: Site) -> Reply:
        key = JobKey(job_id=version.key.model_version, site=site)
        try:
            return self._parties.call(
                version.initiator,
                site.party_id,
                paths.job_path("model_share", key),
                plain(ModelDigest(model_id=version.key.model_id)),
                request_id=new_request_id(),
                job_id=key.job_id,
                deadline_s=self._timing.call_timeout_s,
            )
        except UNANSWERED as exc:
            return refusal(exc)

    def _carry_out(self, version: ModelVersion, *, person: str, **members: Any) -> ChangedModel:
        """Send a change to every site of a version; the person's name stays in its party."""
        own = version.initiator.party_id
        body = ChangeHistory(
            model_id=version.key.model_id,
            author_party=own,
            created_ms=self._clock.now_ms(),
            **members,
        )
        with_person = structs.replace(body, person=person)
        bodies: Mapping[Site, ChangeHistory] = {
            site: with_person if site.party_id == own else body for site in sites_of(version.roles)
        }
        outcome = self._model_changes.carry_out(
            ModelChange(
                id=new_request_id(),
                command="model_history",
                version=version.key.model_version,
                source=version.initiator,
                bodies=bodies,
                digest=change_digest(version, body),
            )
        )
        return _changed(version, outcome)


def _target(branch: Branch, asked: MoveRequest) -> str:
    """Return the version that a change of a branch is about, by any name.

    Raises: BranchExists, BranchNotFound, NoEarlierTarget.
    """
    named = {"branch": branch.key.name, "model": f"model {branch.key.model_id}"[:300]}
    if asked.kind is MoveKind.CREATE:
        if branch.target is not None:
            raise BranchExists(**named)
        return asked.to
    if branch.target is None:
        raise BranchNotFound(**named)
    if asked.kind is MoveKind.DELETE:
        return branch.target
    if asked.kind is MoveKind.MOVE:
        return asked.to
    if branch.previous is None:
        raise NoEarlierTarget(**named)
    return branch.previous


def _changed(version: ModelVersion, outcome: Outcome) -> ChangedModel:
    return ChangedModel(
        model_id=version.key.model_id, model_version=version.key.model_version, outcome=outcome
    )
