"""A site's half of a change of a model's history: a commit, or a move of a branch.

The initiator's server coordinates (`app/models/history_changes.py`). A site prepares what fits its
own history, and answers the digest of what it would be a change of; so sites with different
histories are noticed before anything counts.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from fedflow.app.models.deployment import check_source, trained_version
from fedflow.app.models.history_rows import COMMIT, change_here
from fedflow.app.models.model_changes import PreparedModels
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import TypedCommand
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.models import ModelChangeRefused, ModelIsCommitted
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.history import (
    MAX_APPROVAL,
    MAX_MESSAGE,
    MAX_PERSON,
    BranchKey,
    MoveKind,
    branch_fault,
    share_digest,
)
from fedflow.domain.models.model import ModelKey, ModelVersion, canonical_json, common_digest
from fedflow.domain.records import Reply
from fedflow.wire import commands as wire
from fedflow.wire.commands import ChangeHistory, ModelDigest

_ACTIONS: Final = frozenset({COMMIT, *MoveKind})
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_MAX_SITES: Final = 1000


class LocalHistory(UseCase):
    """Prepares changes of the history, and says what its share of a version is."""

    def __init__(self, kernel: Kernel, *, prepared: PreparedModels) -> None:
        super().__init__(kernel)
        self._prepared = prepared

    def share(self, incoming: TypedCommand[ModelDigest]) -> Reply:
        """Answer the digest of the site's share. Raises: ModelNotFound, WrongModelSource."""
        key = ModelKey(
            site=incoming.job.site,
            model_id=incoming.body.model_id,
            model_version=incoming.job_id,
        )
        with self._store.read() as tx:
            check_source(trained_version(tx, key), incoming, what=f"commit the {key}")
            digest = share_digest(tx.models.components(key))
        return Reply(retcode=0, data=wire.plain(wire.ModelDigestAnswer(digest=digest)))

    def prepare(self, tx: Tx, incoming: TypedCommand[ChangeHistory], effects: AfterCommit) -> Reply:
        """Keep a change until it is committed.

        Raises: ModelNotFound, WrongModelSource, BadRequest, ModelIsCommitted. ModelChangeRefused:
            the branch has other moves here, or the share has another digest.
        """
        body = incoming.body
        check_texts(message=body.message, approval=body.approval, person=body.person)
        key = ModelKey(
            site=incoming.job.site, model_id=body.model_id, model_version=incoming.job_id
        )
        version = trained_version(tx, key)
        check_source(version, incoming, what=f"change the history of {key}")
        if incoming.source_party is not None and body.author_party != incoming.source_party:
            raise BadRequest(reason="`author_party` must be the party that sends it")
        if body.action not in _ACTIONS:
            raise BadRequest(reason="`action` must be commit, create, move, rollback or delete")
        if body.action == COMMIT:
            self._check_commit(tx, key, body)
        else:
            self._check_move(tx, key, body)
        digest = change_digest(version, body)
        return self._prepared.put_change(tx, incoming, change_here(body, key), digest)

    def _check_commit(self, tx: Tx, key: ModelKey, body: ChangeHistory) -> None:
        if len(body.shares) > _MAX_SITES or not all(map(_DIGEST.fullmatch, body.shares.values())):
            raise BadRequest(reason="`shares` must hold a sha256 for each site")
        if tx.model_history.notes(key.site, key.model_id, [key.model_version]):
            raise ModelIsCommitted(model=key)
        if body.shares.get(key.site.key) != share_digest(tx.models.components(key)):
            raise ModelChangeRefused(reason=f"the share of {key.site} has another digest now")

    def _check_move(self, tx: Tx, key: ModelKey, body: ChangeHistory) -> None:
        check_branch_name(body.branch)
        where = BranchKey(site=key.site, model_id=key.model_id, name=body.branch)
        branch = tx.model_history.branch(where, last_only=True)
        if body.action == MoveKind.DELETE:
            return  # also where the branch is another one: this is how it can be made anew
        if branch.last_id != body.after:
            reason = f"branch {body.branch} was moved otherwise at {key.site}; delete and create it"
            raise ModelChangeRefused(reason=reason)
        if (branch.target is None) != (body.action == MoveKind.CREATE):
            state = "exists" if branch.target else "does not exist"
            raise ModelChangeRefused(reason=f"branch {body.branch} {state} at {key.site}")


def change_digest(version: ModelVersion, body: ChangeHistory) -> str:
    """Return the sha256 of what all sites must agree on before a change counts."""
    common = {
        "version": common_digest(version),
        "action": body.action,
        "branch": body.branch,
        "after": body.after,
        "message": body.message,
        "approval": body.approval,
        "shares": body.shares,
        "created_ms": body.created_ms,
    }
    return hashlib.sha256(canonical_json(common)).hexdigest()


def check_branch_name(name: str) -> None:
    """Raises: BadRequest: it cannot name a branch."""
    fault = branch_fault(name)
    if fault is not None:
        raise BadRequest(reason=f"{name[:100]!r} is no name of a branch: {fault}")


def check_texts(*, message: str, approval: str = "", person: str = "") -> None:
    """Raises: BadRequest: a text is too long, or has characters that cannot be shown."""
    limits = (
        ("message", message, MAX_MESSAGE),
        ("approval", approval, MAX_APPROVAL),
        ("person", person, MAX_PERSON),
    )
    for name, text, limit in limits:
        if len(text) > limit:
            raise BadRequest(reason=f"`{name}` has more than {limit} characters")
        if any((ord(c) < 32 and c not in "\n\t") or 0xD800 <= ord(c) < 0xE000 for c in text):
            raise BadRequest(reason=f"`{name}` must be printable text")
