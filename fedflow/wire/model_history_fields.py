"""Histories of models as the API answers them, and the text that leads to a log's next page."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

from fedflow.base.decoding import decode_as
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.difference import DslDifference, WeightDifference
from fedflow.domain.models.history import MAX_WALK, Commit, Move, VersionId
from fedflow.domain.models.model import ModelKey
from fedflow.wire.api.model_history import (
    BranchMove,
    ComponentChanges,
    DslChanges,
    ModelCommit,
    ModelCommitDetail,
    TrainingTable,
    VersionRef,
)

_MAX_CURSOR: Final = 64 * 1024  #: characters
_MAX_REST: Final = 1000  #: versions that a cursor names
_MAX_MS: Final = 2**53


def commit_row(commit: Commit) -> ModelCommit:
    """Return a commit as a line of a log."""
    return ModelCommit(**_members(commit))


def commit_detail(
    commit: Commit,
    *,
    shares: dict[str, str],
    parameters_sha256: str,
    metrics: dict[str, Any],
    made_with: dict[str, Any],
) -> ModelCommitDetail:
    """Return a commit with what it was made of."""
    return ModelCommitDetail(
        **_members(commit),
        shares=shares,
        parameters_sha256=parameters_sha256,
        metrics=metrics,
        fedflow=made_with.get("fedflow", ""),
        fate=made_with.get("fate", ""),
        provider=made_with.get("provider") or None,
        tables=tuple(TrainingTable(**table) for table in made_with.get("tables", ())),
    )


def _members(commit: Commit) -> dict[str, Any]:
    note = commit.note
    return {
        "model_id": commit.key.model_id,
        "model_version": commit.key.model_version,
        "role": commit.key.site.role.value,
        "party_id": commit.key.site.party_id,
        "kind": commit.kind.value,
        "parents": tuple(map(version_ref, commit.parents)),
        "create_time": commit.created_ms,
        "commit_time": note.created_ms if note else None,
        "message": note.message if note else "",
        "approval": note.approval if note else "",
        "author_party": commit.author.party_id,
        "person": commit.author.person,
        "branches": tuple(commit.branches),
        "tags": tuple(commit.tags),
    }


def version_ref(version: VersionId | ModelKey) -> VersionRef:
    """Return which version is meant."""
    return VersionRef(model_id=version.model_id, model_version=version.model_version)


def move_row(move: Move) -> BranchMove:
    """Return a move of a branch."""
    return BranchMove(
        branch=move.key.name,
        kind=move.kind.value,
        model_version=move.model_version,
        create_time=move.created_ms,
        author_party=move.author.party_id,
        person=move.author.person,
        message=move.message,
    )


def dsl_changes(found: DslDifference) -> DslChanges:
    """Return what differs between two DSLs."""
    return DslChanges(
        added=tuple(found.added), removed=tuple(found.removed), changed=dict(found.changed)
    )


def component_changes(found: WeightDifference) -> ComponentChanges:
    """Return what differs between two models of a component."""
    weights = None if found.weights is None else dict(found.weights)
    return ComponentChanges(digests=found.digests, weights=weights)


# --- cursors --------------------------------------------------------------------------------------


class LogCursor(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Where a log goes on: after a time and version, or with versions, having shown some."""

    before: tuple[int, str] | None = None
    rest: list[tuple[str, str]] = []
    shown: int = 0


def cursor_text(cursor: LogCursor) -> str | None:
    """Return a cursor as text without a meaning for clients; None if the log is at its end."""
    if (cursor.before is None and not cursor.rest) or cursor.shown >= MAX_WALK:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def read_cursor(text: str) -> LogCursor:
    """Return the cursor that a text is. Raises: BadRequest: it is none."""
    try:
        if len(text) > _MAX_CURSOR:
            raise ValueError("it is too long")
        found = decode_as(base64.b64decode(text.encode(), altchars=b"-_", validate=True), LogCursor)
        if len(found.rest) > _MAX_REST or not 0 <= found.shown <= MAX_WALK:
            raise ValueError("it is out of range")
        if found.before is not None and not 0 <= found.before[0] <= _MAX_MS:
            raise ValueError("it is out of range")
    except (ValueError, binascii.Error, msgspec.DecodeError) as exc:
        raise BadRequest(reason="`after` is not what a log gave as `next`") from exc
    return found
