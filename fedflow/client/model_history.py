"""`client.commits`: commits and branches of models.

A version is named by its id, `branch:NAME` or `tag:NAME`. Changes happen at all sites of a model
or at none; only the server of the model's initiator makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedflow.client.connection import Connection
from fedflow.domain.site import Site
from fedflow.wire.api.model_history import (
    BranchMove,
    ChangedHistory,
    ModelBranches,
    ModelCommit,
    ModelCommitDetail,
    ModelDiff,
    ModelLog,
)


class CommitCalls:
    """Histories of models."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(
        self,
        model_id: str,
        start: str | None = None,
        *,
        site: Site | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> ModelLog:
        """Return a page of a log, newest first: of all versions, or of those that lead to `start`.

        `after` is `next` of the page before. Raises: ModelNotFound, BranchNotFound, TagNotFound.
        """
        body = {**_of(model_id, site), "limit": limit}
        if start is not None:
            body["model_version"] = start
        if after is not None:
            body["after"] = after
        found: ModelLog = self._connection.look_up("model/log", body, ModelLog)
        return found

    def log(
        self, model_id: str, start: str | None = None, *, site: Site | None = None
    ) -> Iterator[ModelCommit]:
        """Yield all commits of a log, newest first. Raises: as `page`."""
        after: str | None = None
        while True:
            found = self.page(model_id, start, site=site, limit=1000, after=after)
            yield from found.commits
            after = found.next
            if after is None:
                return

    def show(self, model_id: str, version: str, *, site: Site | None = None) -> ModelCommitDetail:
        """Return one commit with what it was made of. Raises: as `page`."""
        body = {**_of(model_id, site), "model_version": version}
        found: ModelCommitDetail = self._connection.look_up("model/show", body, ModelCommitDetail)
        return found

    def diff(self, model_id: str, old: str, new: str, *, site: Site | None = None) -> ModelDiff:
        """Return what differs between two versions at one site. Raises: as `page`; ModelDamaged."""
        body = {**_of(model_id, site), "old": old, "new": new}
        found: ModelDiff = self._connection.look_up("model/diff", body, ModelDiff)
        return found

    def branches(self, model_id: str, *, site: Site | None = None) -> list[BranchMove]:
        """Return the branches of a model, each with its last move."""
        return self._moves("model/branch/list", _of(model_id, site))

    def moves(self, model_id: str, branch: str, *, site: Site | None = None) -> list[BranchMove]:
        """Return the moves of a branch, newest first. Raises: BranchNotFound."""
        return self._moves("model/branch/moves", {**_of(model_id, site), "branch": branch})

    def commit(
        self, model_id: str, version: str, message: str, *, approval: str = "", person: str = ""
    ) -> ChangedHistory:
        """Give a version its message for good. Raises: ModelIsCommitted, ModelChangeRefused."""
        body = {
            "model_id": model_id,
            "model_version": version,
            "message": message,
            "approval": approval,
            "person": person,
        }
        return self._change("model/commit", body)

    def create_branch(
        self, model_id: str, branch: str, version: str, *, message: str = "", person: str = ""
    ) -> ChangedHistory:
        """Create a branch. Raises: BranchExists, ModelChangeRefused."""
        body = _branch(model_id, branch, message, person)
        return self._change("model/branch/create", {**body, "model_version": version})

    def move_branch(
        self, model_id: str, branch: str, version: str, *, message: str = "", person: str = ""
    ) -> ChangedHistory:
        """Let a branch name another version. Raises: BranchNotFound, ModelChangeRefused."""
        body = _branch(model_id, branch, message, person)
        return self._change("model/branch/move", {**body, "model_version": version})

    def delete_branch(
        self, model_id: str, branch: str, *, message: str = "", person: str = ""
    ) -> ChangedHistory:
        """Delete a branch. Raises: BranchNotFound, ModelChangeRefused."""
        return self._change("model/branch/delete", _branch(model_id, branch, message, person))

    def rollback(
        self, model_id: str, branch: str, *, message: str = "", person: str = ""
    ) -> ChangedHistory:
        """Let a branch name what it named before. Raises: BranchNotFound, NoEarlierTarget,
        ModelChangeRefused.
        """
        return self._change("model/rollback", _branch(model_id, branch, message, person))

    def _moves(self, command: str, body: dict[str, Any]) -> list[BranchMove]:
        found: ModelBranches = self._connection.look_up(command, body, ModelBranches)
        return list(found.branches)

    def _change(self, command: str, body: dict[str, Any]) -> ChangedHistory:
        found: ChangedHistory = self._connection.do(command, body, ChangedHistory)
        return found


def _of(model_id: str, site: Site | None) -> dict[str, Any]:
    named = {} if site is None else {"role": site.role.value, "party_id": site.party_id}
    return {"model_id": model_id, **named}


def _branch(model_id: str, branch: str, message: str, person: str) -> dict[str, Any]:
    return {"model_id": model_id, "branch": branch, "message": message, "person": person}
