"""`/board/models/<model>/history`: the commits of a model with their graph, branches and tags."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from flask import Response, request, url_for

from fedflow.app.models.model_history import CommitPage, HistoryRequest
from fedflow.board.language import t
from fedflow.board.model_urls import model_id_of_path, site_of_query, version_url
from fedflow.board.models import kind_word
from fedflow.board.page import board_blueprint, page
from fedflow.board.presenters.commit_graph import HEIGHT, graph_of
from fedflow.domain.models.history import VersionId
from fedflow.web.context import services
from fedflow.wire.model_history_fields import LogCursor, cursor_text, read_cursor

board_model_commits = board_blueprint("board_model_commits", "/models")

PAGE: Final = 40  #: commits


@board_model_commits.get("/<model>/history")
def commits(model: str) -> Response:
    """Show the commits of a model, newest first; `?of=` only those that lead to a version.

    Raises: ModelNotFound, BranchNotFound, TagNotFound, BadRequest.
    """
    model_id, of = model_id_of_path(model), request.args.get("of", "")
    after = request.args.get("after", "")
    cursor = read_cursor(after) if after else LogCursor()
    history = services().models.history
    found = history.log(
        HistoryRequest(
            model_id=model_id,
            start=of,
            site=site_of_query(request.args.get("site", "")),
            before=cursor.before,
            rest=[VersionId(*one) for one in cursor.rest],
            limit=PAGE,
        )
    )
    branches = [one for one in history.branches(model_id, found.site) if one.is_there]
    return page(
        "model_commits.html",
        title=t("History of a model"),
        nav="models",
        model_id=model_id,
        site=found.site,
        of=of,
        is_first=not after,
        graph=graph_of(found.commits, history.metrics(found.commits)),
        height=HEIGHT,
        branches=branches,
        version_url=version_url,
        kind_word=kind_word,
        next_url=_next_url(model, of, found, cursor),
        here=url_for("board_model_commits.commits", model=model, site=found.site.key),
    )


def _next_url(model: str, of: str, found: CommitPage, cursor: LogCursor) -> str:
    """Return the address of the next page, empty if this is the last one."""
    rest = [(one.model_id, one.model_version) for one in found.rest]
    shown = cursor.shown + len(found.commits)
    after = cursor_text(LogCursor(before=found.before, rest=rest, shown=shown))
    if not after:
        return ""
    path = url_for("board_model_commits.commits", model=model, site=found.site.key, after=after)
    return f"{path}&{urlencode({'of': of})}" if of else path
