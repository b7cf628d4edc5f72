"""`/v1/model`: the history of a model. Commits, branches, what differs between two versions.

A version is named by its id, `branch:NAME` or `tag:NAME` everywhere. For people:
`docs/model-history.md`.
"""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from fedflow.app.models.history_changes import CommitRequest, MoveRequest
from fedflow.app.models.model_changes import ChangedModel
from fedflow.app.models.model_history import MAX_PAGE, HistoryRequest
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.history import MoveKind, VersionId
from fedflow.domain.site import Site
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.model_requests import changed
from fedflow.web.requests import Body, Text, Whole, site_of
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.model_history import (
    ChangedHistory,
    ModelBranches,
    ModelCommitDetail,
    ModelDiff,
    ModelLog,
)
from fedflow.wire.model_fields import new_version
from fedflow.wire.model_history_fields import (
    LogCursor,
    commit_detail,
    commit_row,
    component_changes,
    cursor_text,
    dsl_changes,
    move_row,
    read_cursor,
    version_ref,
)

model_history = Blueprint("model_history", __name__, url_prefix="/model")
model_history.before_request(require_client)

PAGE: Final = 50


class ModelHistoryBody(Body, frozen=True):
    """A model, and whose share counts: without role and party, the initiator's or one that is
    here.
    """

    model_id: Text
    role: Text | None = None
    party_id: Text | None = None

    @property
    def site(self) -> Site | None:
        """Return the site that is named. Raises: BadRequest: half of it is."""
        if (self.role is None) != (self.party_id is None):
            raise BadRequest(reason="`role` and `party_id` go together")
        return None if self.role is None else site_of(self.role, str(self.party_id))


# --- look -----------------------------------------------------------------------------------------


class ModelLogBody(ModelHistoryBody, frozen=True, kw_only=True):
    """Which commits: those that lead to `model_version` by their parents, without it all."""

    model_version: Text | None = None
    limit: Whole = Whole(PAGE)  #: commits of this page, at most 1000
    after: Text | None = None  #: `next` of the page before


@route(model_history, "/log", body=ModelLogBody, data=ModelLog)
def log(body: ModelLogBody) -> Response:
    """Return commits of a model, newest first."""
    if not 1 <= body.limit <= MAX_PAGE:
        raise BadRequest(reason=f"`limit` must be between 1 and {MAX_PAGE}")
    cursor = LogCursor() if body.after is None else read_cursor(body.after)
    page = services().models.history.log(
        HistoryRequest(
            model_id=body.model_id,
            start=body.model_version or "",
            site=body.site,
            before=cursor.before,
            rest=[VersionId(*one) for one in cursor.rest],
            limit=body.limit,
        )
    )
    rest = [(one.model_id, one.model_version) for one in page.rest]
    shown = cursor.shown + len(page.commits)
    return success(
        ModelLog(
            commits=tuple(map(commit_row, page.commits)),
            next=cursor_text(LogCursor(before=page.before, rest=rest, shown=shown)),
        )
    )


class ShowBody(ModelHistoryBody, frozen=True, kw_only=True):
    """Which commit."""

    model_version: Text


@route(model_history, "/show", body=ShowBody, data=ModelCommitDetail)
def show(body: ShowBody) -> Response:
    """Return one commit, with digests, metrics, code and data as far as the site knows them."""
    found = services().models.history.show(body.model_id, body.model_version, body.site)
    return success(
        commit_detail(
            found.commit,
            shares=found.shares,
            parameters_sha256=found.parameters_sha256,
            metrics=found.metrics,
            made_with=found.made_with,
        )
    )


class DiffBody(ModelHistoryBody, frozen=True, kw_only=True):
    """Which two versions."""

    old: Text
    new: Text


@route(model_history, "/diff", body=DiffBody, data=ModelDiff)
def diff(body: DiffBody) -> Response:
    """Return what differs between two versions: DSL, parameters, metrics, models of one site."""
    found = services().models.history.diff(body.model_id, body.old, body.new, body.site)
    return success(
        ModelDiff(
            role=found.old.site.role.value,
            party_id=found.old.site.party_id,
            old=version_ref(found.old),
            new=version_ref(found.new),
            dsl=dsl_changes(found.dsl),
            parameters=dict(found.parameters),
            metrics=dict(found.metrics),
            models={name: component_changes(one) for name, one in found.models.items()},
        )
    )


@route(model_history, "/branch/list", body=ModelHistoryBody, data=ModelBranches)
def branch_list(body: ModelHistoryBody) -> Response:
    """Return the branches of a model with their last moves, by name."""
    found = services().models.history.branches(body.model_id, body.site)
    return success(ModelBranches(branches=tuple(map(move_row, found))))


class BranchMovesBody(ModelHistoryBody, frozen=True, kw_only=True):
    """Which branch."""

    branch: Text


@route(model_history, "/branch/moves", body=BranchMovesBody, data=ModelBranches)
def branch_moves(body: BranchMovesBody) -> Response:
    """Return all moves of a branch, newest first, also of one that was deleted."""
    found = services().models.history.moves(body.model_id, body.branch, body.site)
    return success(ModelBranches(branches=tuple(map(move_row, reversed(found.moves)))))


# --- change ---------------------------------------------------------------------------------------


class CommitBody(Body, frozen=True):
    """Which version, and what is said of it for good."""

    model_id: Text
    model_version: Text
    message: Text
    approval: Text = Text("")  #: what allowed it: a review, a report, a ticket
    person: Text = Text("")  #: who says so; stays at this party


@route(model_history, "/commit", body=CommitBody, data=ChangedHistory)
def commit(body: CommitBody) -> Response:
    """Give a version its message, with the digests of all shares, at all its sites or at none."""
    if not body.message.strip():
        raise BadRequest(reason="`message` must say something")
    done = services().models.history_changes.commit(
        CommitRequest(
            model_id=body.model_id,
            model_version=body.model_version,
            message=body.message,
            approval=body.approval,
            person=body.person,
        )
    )
    return _changed(done)


class BranchBody(Body, frozen=True):
    """Which branch, and why."""

    model_id: Text
    branch: Text
    message: Text = Text("")
    person: Text = Text("")  #: who does it; stays at this party


class BranchToBody(BranchBody, frozen=True, kw_only=True):
    """Which branch, and what it names from now on."""

    model_version: Text


@route(model_history, "/branch/create", body=BranchToBody, data=ChangedHistory)
def branch_create(body: BranchToBody) -> Response:
    """Create a branch that names a version, at all its sites or at none."""
    return _move(body, MoveKind.CREATE, body.model_version)


@route(model_history, "/branch/move", body=BranchToBody, data=ChangedHistory)
def branch_move(body: BranchToBody) -> Response:
    """Let a branch name another version, at all its sites or at none."""
    return _move(body, MoveKind.MOVE, body.model_version)


@route(model_history, "/branch/delete", body=BranchBody, data=ChangedHistory)
def branch_delete(body: BranchBody) -> Response:
    """Delete a branch, at all sites or at none; its moves are kept."""
    return _move(body, MoveKind.DELETE)


@route(model_history, "/rollback", body=BranchBody, data=ChangedHistory)
def rollback(body: BranchBody) -> Response:
    """Let a branch name what it named before, at all sites or at none; again: one further back."""
    return _move(body, MoveKind.ROLLBACK)


def _move(body: BranchBody, kind: MoveKind, to: str = "") -> Response:
    done = services().models.history_changes.move(
        MoveRequest(
            model_id=body.model_id,
            branch=body.branch,
            kind=kind,
            to=to,
            message=body.message,
            person=body.person,
        )
    )
    return _changed(done, body.branch)


def _changed(done: ChangedModel, branch: str | None = None) -> Response:
    detail = new_version(done.outcome.replies, done.model_id, done.model_version).detail
    data = ChangedHistory(
        model_id=done.model_id, model_version=done.model_version, branch=branch, detail=detail
    )
    return changed(done.outcome, data)
