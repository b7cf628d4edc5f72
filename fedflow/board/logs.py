"""The pages of logs: of a job at a site, of one of its components, and what their script requests.

Addresses name a log with `component`, `attempt` and `file` (`app/logs/addresses.py`), a place in
it with `line`, and a search with `q` and `level`. They are stable: logs are only appended to.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from flask import Response, request

from fedflow.app.logs.addresses import LogAddress, LogKind, log_address
from fedflow.app.logs.first_error import MAX_LINES as ERROR_LINES
from fedflow.app.logs.job_logs import FirstError, JobLogs, LogPage, LogSearch
from fedflow.app.logs.records import LEVELS, readable, visible
from fedflow.app.logs.search import Query, parse_query
from fedflow.base.errors.data import NoData
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.board.component_pages import ComponentAddress, component_page, component_place
from fedflow.board.job_frame import PREFIX, job_frame
from fedflow.board.language import t
from fedflow.board.message_catalog import told
from fedflow.board.page import board_blueprint, json_answer, page, redirect_to, unchanged
from fedflow.board.presenters.log_view import attempts_of, menu, page_json, search_json
from fedflow.board.urls import PartyJobAddress, component_url, job_place, job_url, site_named
from fedflow.domain.records import JobKey, TaskRecord
from fedflow.domain.states import JOB_FINAL
from fedflow.web import downloads
from fedflow.web.context import services
from fedflow.web.responses import download

board_logs = board_blueprint("board_logs", PREFIX)

LINES: Final = 200  #: of a page without scripts
BEFORE: Final = 20  #: lines that stand before the one that an address names
_ERROR_LINE: Final = 500  #: characters of an error's lines that are shown


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRequest:
    """What of a log an address asks for."""

    line: int | None
    query: Query
    cursor: str

    @property
    def is_search(self) -> bool:
        return bool(self.query.text or self.query.levels)


# --- pages ----------------------------------------------------------------------------------------


@board_logs.get("/logs")
def logs(job_id: str, role: str, party_id: str) -> Response:
    """Return the page of a job's logs at a site."""
    job = job_place(job_id, role, party_id)
    frame = job_frame(job_id, role, party_id)
    return page(
        "logs.html",
        title=t("Logs of job {job_id}", job_id=job_id[:60]),
        nav="jobs",
        **frame.values("logs"),
        **_values(job, request.args.get("component", ""), request.args.get("attempt", ""), None),
    )


@board_logs.get("/components/<component>/logs")
def component_logs(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return the tab of a component's logs."""
    place = component_place(job_id, role, party_id, component)
    attempt = str(place.task.key.version)
    values = _values(place.job, component, attempt, place)
    return component_page("component_logs.html", place, tab="logs", **values)


def _values(
    job: PartyJobAddress, component: str, attempt: str, tab: ComponentAddress | None
) -> dict[str, Any]:
    """Return what `board/logs_view.html` shows; `tab` is the component's page that it is on."""
    logs, key = _logs(), job.record.key
    tasks = logs.tasks(key)
    is_open = _may_see_schedule(job)
    named = log_address(key, kind=LogKind.INFO, component=component, attempt=attempt)
    if component and tab is None:
        logged = {**logs.attempts(key), component: logs.attempts_of(key, component)}
        known = attempts_of(component, tasks, logged)
        if not known:
            reason = Message("the job has no component {component!r} at this site", component[:100])
            raise NoData(reason=reason)
        named = log_address(
            key, kind=LogKind.INFO, component=component, attempt=attempt or str(known[-1][0])
        )
    elif tab is not None:
        logged = {component: logs.attempts_of(key, component)}
    else:
        logged = logs.attempts(key)
    sizes = logs.folder(named).sizes
    if tab is not None or not is_open:
        sizes = {kind: size for kind, size in sizes.items() if not kind.is_of_job}
    kind = request.args.get("file") or logs.folder(named).fullest
    place = log_address(
        key, kind=kind, component=named.component or "", attempt=str(named.attempt or "")
    )
    _check(job, place)
    asked = _asked()
    return {
        "log_place": place,
        "menu": menu(place if not place.kind.is_of_job else named, sizes, tasks, logged),
        "kind": place.kind,
        "is_tab": tab is not None,
        "shown": _shown(place, asked),
        "asked": asked,
        "levels": LEVELS,
        "link": _link,
        "source": job_url(job, "logs"),
        "log_query": _query_of(place),
        "error": _error(job, tasks, place),
        "own_query": _own_query(),
    }


def _shown(place: LogAddress, asked: LogRequest) -> LogPage | LogSearch | None:
    """Return the lines of the page as it is without scripts."""
    if asked.is_search:
        return _logs().search(place, asked.query, asked.cursor)
    begin = None
    if "begin" in request.args:
        begin = _number("begin")
    elif asked.line is not None:
        begin = max(1, asked.line - BEFORE)
    return _logs().page(place, begin, LINES)


def _error(
    job: PartyJobAddress, tasks: list[TaskRecord], place: LogAddress
) -> dict[str, Any] | None:
    """Return the first real error for `board/logs_error.html`."""
    if place.kind.is_of_job:
        return None
    found = _logs().first_error(job.record.key, tasks, place)
    if found is None:
        return None
    failure = found.failure
    lines = found.record.lines if found.record is not None else ()
    cause = job.record.reason.site if job.record.reason is not None else None
    return {
        "failure": failure,
        "message": visible(told(failure.reason.message)[:4000]),
        "is_past": failure.is_past and place.attempt is None,
        "cause": cause if failure.is_followed and cause != job.site else None,
        "lines": [readable(line[: 4 * _ERROR_LINE])[:_ERROR_LINE] for line in lines],
        "is_whole": len(lines) < ERROR_LINES,
        "url": job_url(
            job, "logs/first-error", component=failure.component, attempt=failure.attempt
        ),
    }  # fmt: skip


@board_logs.get("/logs/first-error")
def first_error(job_id: str, role: str, party_id: str) -> Response:
    """Lead to the line of the first real error: of a site, a component or an attempt."""
    job = job_place(job_id, role, party_id)
    asked = _place_asked(job.record.key, kind=LogKind.ERROR, any_attempt=True)
    found = _logs().first_error(job.record.key, _logs().tasks(job.record.key), asked)
    if found is None:
        raise NoData(reason="nothing has failed here")
    return redirect_to(_error_url(job, found))


def _error_url(job: PartyJobAddress, found: FirstError) -> str:
    place, line = _logs().locate(found)
    return component_url(
        job.job_id, job.site, str(place.component), "logs",
        attempt=place.attempt, file=place.kind.value, line=line,
    )  # fmt: skip


# --- for the script -------------------------------------------------------------------------------


@board_logs.get("/logs/lines")
def lines(job_id: str, role: str, party_id: str) -> Response:
    """Return up to `count` lines from `begin` on, or the last ones; 304 if nothing was added.

    Pages ask this every two seconds, so it looks at the file before it looks at anything else.
    """
    place = _place_asked(_key(job_id, role, party_id))
    tag = _tag(place)
    known = unchanged(tag) if tag is not None else None
    if known is not None:
        return known
    job = job_place(job_id, role, party_id)
    _check(job, place)
    begin = _number("begin") if "begin" in request.args else None
    found = _logs().page(place, begin, _number("count", LINES))
    if found is None:
        raise _gone()
    is_final = job.record.status in JOB_FINAL
    return json_answer(page_json(found, is_final=is_final), tag=_named(place, found.tag))


@board_logs.get("/logs/levels")
def levels(job_id: str, role: str, party_id: str) -> Response:
    """Return how many records of each level there are, as far as they are counted."""
    job, place = _checked(job_id, role, party_id)
    found = _logs().levels(place)
    if found is None:
        raise _gone()
    return json_answer(page_json(found, is_final=job.record.status in JOB_FINAL))


@board_logs.get("/logs/search")
def search(job_id: str, role: str, party_id: str) -> Response:
    """Return the next lines that fit `q` and `level`, and a cursor for the call after."""
    _, place = _checked(job_id, role, party_id)
    asked = _asked()
    found = _logs().search(place, asked.query, asked.cursor)
    if found is None:
        raise _gone()
    return json_answer(search_json(found))


# --- files ----------------------------------------------------------------------------------------


@board_logs.get("/logs/raw")
def raw(job_id: str, role: str, party_id: str) -> Response:
    """Return a log as it is."""
    _, place = _checked(job_id, role, party_id)
    content = _logs().raw(place)
    if content is None:
        raise _gone()
    return download(content, "_".join(place.parts), mimetype="text/plain")


@board_logs.get("/logs/archive")
def archive(job_id: str, role: str, party_id: str) -> Response:
    """Return all logs of this site as tar.gz."""
    job = job_place(job_id, role, party_id)
    files = _logs().files(job.record.key, of_job=_may_see_schedule(job))
    return downloads.logs(files, f"job_{job_id}_{job.site.key}_logs.tar.gz")


# --- what an address means ------------------------------------------------------------------------


def _logs() -> JobLogs:
    return services().administration.job_logs


def _key(job_id: str, role: str, party_id: str) -> JobKey:
    """Raises: JobNotFound: no site can be called that."""
    return JobKey(job_id=job_id, site=site_named(job_id, role, party_id))


def _place_asked(key: JobKey, *, kind: str = "", any_attempt: bool = False) -> LogAddress:
    """Return the log that the query names. Raises: BadRequest."""
    given = request.args
    component, attempt = given.get("component", ""), given.get("attempt", "")
    place = log_address(
        key, kind=kind or given.get("file") or LogKind.INFO, component=component, attempt=attempt
    )
    if any_attempt and not attempt:
        return LogAddress(job=key, kind=place.kind, component=place.component)
    return place


def _checked(job_id: str, role: str, party_id: str) -> tuple[PartyJobAddress, LogAddress]:
    """Return the party job and the log that an address names.

    Raises: JobNotFound, BadRequest, NoData.
    """
    job = job_place(job_id, role, party_id)
    place = _place_asked(job.record.key)
    _check(job, place)
    return job, place


def _check(job: PartyJobAddress, place: LogAddress) -> None:
    """Raises: NoData: this site may not see that log."""
    if place.kind.is_of_job and not _may_see_schedule(job):
        raise NoData(reason="the server's log of a job is shown at its initiator only")


def _may_see_schedule(job: PartyJobAddress) -> bool:
    """Tell whether the server's log of the job may be shown to this site: it tells of all sites
    of this server, so to the initiator, or if this is the only one.
    """
    return job.record.is_initiator or job.own_sites == [job.site]


def _tag(place: LogAddress) -> str | None:
    found = _logs().tag(place)
    return None if found is None else _named(place, found)


def _named(place: LogAddress, tag: str) -> str:
    begin, count = request.args.get("begin", ""), request.args.get("count", "")
    return "|".join(("log", *place.parts, tag, begin[:20], count[:20]))


def _gone() -> NoData:
    return NoData(reason="this log is not there, or not any more")


def _asked() -> LogRequest:
    """Raises: BadRequest."""
    given = request.args
    return LogRequest(
        line=_number("line") if given.get("line") else None,
        query=parse_query(given.get("q", ""), ",".join(given.getlist("level"))),
        cursor=given.get("cursor", ""),
    )


def _number(name: str, default: int = 1) -> int:
    """Return a whole number of the query. Raises: BadRequest."""
    text = request.args.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadRequest(reason=Message("`{name}` must be a number", name))
    return int(text)


# --- addresses ------------------------------------------------------------------------------------


def _query_of(place: LogAddress) -> str:
    """Return the query that names a log."""
    given = {"component": place.component, "attempt": place.attempt, "file": place.kind.value}
    return urlencode({name: value for name, value in given.items() if value is not None})


_PLACES: Final = ("component", "attempt", "file")


def _own_query() -> str:
    """Return the part of this page's query that names the log."""
    return urlencode({k: v for k, v in request.args.items() if k in _PLACES})


def _link(*, keep: tuple[str, ...] = _PLACES, **changes: object) -> str:
    """Return the address of this page with other members of its query; those in `keep` stay."""
    query = [(k, v) for k, v in request.args.items(multi=True) if k in keep and k not in changes]
    query += [(name, str(value)) for name, value in changes.items() if value is not None]
    return f"{request.path}?{urlencode(query)}"
