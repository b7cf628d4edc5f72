"""Filters of the query and list routes: what the store answers, and what it cannot.

Source: `reference/flow-rest-api.md` sections 1.1 and 2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from fedflow.base.errors import BadRequest
from fedflow.domain.records import JobFilter, TaskFilter
from fedflow.domain.site import Role
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.web.requests import as_text, integer, optional_text

MAX_ROWS: Final = 10_000  #: rows that a query or list looks at

Row = dict[str, Any]
T = TypeVar("T", JobStatus, TaskStatus, Role)


# --- query ----------------------------------------------------------------------------------------


def job_filter(body: Mapping[str, Any]) -> JobFilter:
    """Return the part of a query that the store answers; `matches` does the rest."""
    statuses = _words(body.get("status"), JobStatus)
    if statuses is not None and JobStatus.WAITING in statuses:
        statuses = (*statuses, JobStatus.READY)  # clients see `ready` as `waiting`
    return JobFilter(
        job_id=_single(body.get("job_id")),
        roles=_words(body.get("role"), Role),
        party_id=_single(body.get("party_id")),
        statuses=statuses,
        limit=MAX_ROWS if any(body.get(n) is not None for n in _SELECTIVE) else 1000,
    )


def task_filter(body: Mapping[str, Any]) -> TaskFilter:
    """Return the part of a query that the store answers; `matches` does the rest."""
    return TaskFilter(
        job_id=_single(body.get("job_id")),
        component=_single(body.get("component_name")),
        roles=_words(body.get("role"), Role),
        party_id=_single(body.get("party_id")),
        limit=MAX_ROWS,
    )


_SELECTIVE: Final = ("job_id", "party_id", "role", "status")


def matches(row: Row, body: Mapping[str, Any]) -> bool:
    """Tell whether a record (with `f_` names) fits every known member of `body`.

    Unknown members and nulls are skipped; without any known member nothing fits. A list is a choice
    for texts and an inclusive range for numbers and times.
    """
    given = {f"f_{n}": v for n, v in body.items() if v is not None and f"f_{n}" in row}
    return bool(given) and all(_fits(row[name], wanted, name) for name, wanted in given.items())


def _fits(cell: Any, wanted: Any, name: str) -> bool:
    if isinstance(wanted, list):
        numeric = isinstance(cell, (int, float)) and not isinstance(cell, bool)
        if (numeric or name.endswith("_time")) and len(wanted) == 2:
            low, high = _number(wanted[0]), _number(wanted[1])
            return cell is not None and low is not None and high is not None and low <= cell <= high
        return any(_same(cell, one) for one in wanted)
    return _same(cell, wanted)


def _same(cell: Any, wanted: Any) -> bool:
    if isinstance(cell, bool) or isinstance(wanted, bool):
        return bool(cell) == bool(wanted)
    if isinstance(cell, (dict, list)):
        return bool(cell == wanted)
    return cell is not None and str(cell) == str(wanted)


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    try:
        moment = datetime.strptime(str(value), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return moment.timestamp() * 1000


def _single(value: Any) -> str | None:
    """Return a text that the store can look for; lists and other values are left to `matches`."""
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _words(value: Any, kind: type[T]) -> tuple[T, ...] | None:
    """Return the words of an enumeration, None if any; a word that is none fits nothing."""
    if value is None:
        return None
    words = {w.value: w for w in kind}
    given = value if isinstance(value, list) else [value]
    return tuple(words[w] for w in given if isinstance(w, str) and w in words)


# --- list -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Page:
    """Which part of a list to show, in which order. `limit` 0 means all."""

    limit: int
    page: int  #: from 1
    order_by: str
    descending: bool

    def cut(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows of this page, sorted; rows without the value come last."""
        have = [r for r in rows if r.get(self.order_by) is not None]
        lack = [r for r in rows if r.get(self.order_by) is None]
        have.sort(key=lambda r: r[self.order_by], reverse=self.descending)
        ordered = have + lack
        if not self.limit:
            return ordered
        first = (self.page - 1) * self.limit
        return ordered[first : first + self.limit]


_ORDERS: Final = ("job_id", "task_version", "create_time", "start_time", "end_time", "elapsed")
_SHOWN_STATUSES: Final = ("success", "running", "waiting", "failed", "canceled", "timeout")


def page_of(body: Mapping[str, Any], *, order_by: str) -> Page:
    """Return the page that a list route asks for. Raises: BadRequest."""
    limit, page = integer(body, "limit", default=0), integer(body, "page", default=1)
    if limit < 0 or page < 1:
        raise BadRequest(reason="`limit` must not be negative, `page` starts at 1")
    chosen = optional_text(body, "order_by") or order_by
    if chosen not in _ORDERS:
        raise BadRequest(reason=f"`order_by` must be one of {', '.join(_ORDERS)}")
    order = (optional_text(body, "order") or "desc").lower()
    if order not in ("asc", "desc"):
        raise BadRequest(reason="`order` must be asc or desc")
    return Page(limit=limit, page=page, order_by=chosen, descending=order == "desc")


def check_words(body: Mapping[str, Any]) -> None:
    """Raises: BadRequest: `role` or `status` names none."""
    _check(body.get("role"), "role", tuple(r.value for r in Role))
    _check(body.get("status"), "status", _SHOWN_STATUSES)


def _check(value: Any, name: str, known: Sequence[str]) -> None:
    for word in value if isinstance(value, list) else [value]:
        if word is not None and word not in known:
            raise BadRequest(reason=f"`{name}` must be one of {', '.join(known)}")


def contains(name: str, body: Mapping[str, Any]) -> Callable[[Row], bool]:
    """Return a test for rows whose column (or any member of it) contains the text given for it."""
    if body.get(name) is None:
        return lambda _row: True
    part = as_text(body[name], name)
    column = "partners" if name == "partner" else name

    def test(row: Row) -> bool:
        cell = row.get(column)
        cells = cell if isinstance(cell, list) else [cell]
        return any(part in str(one) for one in cells if one is not None)

    return test
