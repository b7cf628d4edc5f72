"""Filters of the query and list routes: what the store answers, and what it cannot.

Source: `docs/reference/rest.md#bodies-and-queries` and `docs/reference/rest.md#jobs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.domain.records import Between, JobFilter, Order, Sort, TaskFilter
from fedflow.domain.site import Role
from fedflow.domain.states import JobStatus, TaskStatus

MAX_ROWS: Final = 10_000  #: rows that a query or list shows
_MAX_ROWS_READ: Final = 1000  #: rows that are looked at by filters that the store does not answer
MAX_OFFSET: Final = 10**12  #: row that a page may end at, within what the stores count

T = TypeVar("T", JobStatus, TaskStatus, Role)


# --- query ----------------------------------------------------------------------------------------


def job_filter(body: Mapping[str, Any]) -> JobFilter:
    """Return the part of a query that the store answers; `matches` does the rest."""
    statuses = _words(body.get("status"), JobStatus)
    if statuses is not None and JobStatus.WAITING in statuses:
        statuses = (*statuses, JobStatus.READY)  # clients see `ready` as `waiting`
    between = list(_ranges(body))
    return JobFilter(
        job_id=_single(body.get("job_id")),
        roles=_words(body.get("role"), Role),
        party_id=_single(body.get("party_id")),
        statuses=statuses,
        between=tuple(between),
        limit=MAX_ROWS
        if between or any(body.get(n) is not None for n in _SELECTIVE)
        else _MAX_ROWS_READ,
    )


def task_filter(body: Mapping[str, Any]) -> TaskFilter:
    """Return the part of a query that the store answers; `matches` does the rest."""
    job_id = _single(body.get("job_id"))
    return TaskFilter(
        job_id=job_id,
        component=_single(body.get("component_name")),
        roles=_words(body.get("role"), Role),
        party_id=_single(body.get("party_id")),
        statuses=_words(body.get("status"), TaskStatus),
        order=Order() if job_id is None else None,
        limit=MAX_ROWS,
    )


_SELECTIVE: Final = ("job_id", "party_id", "role", "status")
_ORDERS: Final = tuple(by for by in Sort if by is not Sort.ACTIVITY)  #: FATE's
_TIMES: Final = (Sort.CREATED, Sort.STARTED, Sort.ENDED, Sort.ELAPSED)


def _ranges(body: Mapping[str, Any]) -> Iterator[Between]:
    """Give the ranges of times; one that is none is left to `matches`."""
    for by in _TIMES:
        wanted = body.get(by)
        if isinstance(wanted, list) and len(wanted) == 2:
            low, high = _number(wanted[0]), _number(wanted[1])
            if low is not None and high is not None:
                yield Between(by=by, low=float(low), high=float(high))


def matches(row: msgspec.Struct, body: Mapping[str, Any]) -> bool:
    """Tell whether a record fits every known member of `body`, which are named without `f_`.

    Unknown members and nulls are skipped; without any known member nothing fits. A list is a choice
    for texts and an inclusive range for numbers and times.
    """
    given = {n: v for n, v in body.items() if v is not None and n in row.__struct_fields__}
    return bool(given) and all(_fits(getattr(row, n), wanted, n) for n, wanted in given.items())


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
    if isinstance(cell, (dict, list, msgspec.Struct)):
        return bool(msgspec.to_builtins(cell) == wanted)
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
    given = value if isinstance(value, list | tuple) else [value]
    return tuple(words[w] for w in given if isinstance(w, str) and w in words)


# --- list -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Page:
    """Which part of a list to show, in which order."""

    limit: int
    offset: int
    order: Order


_SHOWN_STATUSES: Final = ("success", "running", "waiting", "failed", "canceled", "timeout")


def page_of(*, limit: int, page: int, order_by: str, order: str) -> Page:
    """Return the page that a list route asks for. Raises: BadRequest.

    Args:
        limit: Rows of a page, at most `MAX_ROWS`; 0 for the first `MAX_ROWS`, whatever `page` is.
        page: From 1.
        order_by: One of `_ORDERS`.
        order: `asc` or `desc`.
    """
    if limit < 0 or page < 1:
        raise BadRequest(reason="`limit` must not be negative, `page` starts at 1")
    if limit * page > MAX_OFFSET:
        raise BadRequest(reason=f"`page` ends after row {MAX_OFFSET}")
    if order_by not in _ORDERS:
        raise BadRequest(reason=f"`order_by` must be one of {', '.join(_ORDERS)}")
    if order.lower() not in ("asc", "desc"):
        raise BadRequest(reason="`order` must be asc or desc")
    size = min(limit or MAX_ROWS, MAX_ROWS)
    return Page(
        limit=size,
        offset=(page - 1) * size if limit else 0,
        order=Order(by=Sort(order_by), descending=order.lower() == "desc"),
    )


def check_words(*, roles: Sequence[str] | None, statuses: Sequence[str] | None) -> None:
    """Raises: BadRequest: `roles` or `statuses` has a word that is none."""
    _check(roles, "role", tuple(r.value for r in Role))
    _check(statuses, "status", _SHOWN_STATUSES)


def _check(words: Sequence[str] | None, name: str, known: Sequence[str]) -> None:
    if any(word not in known for word in words or ()):
        raise BadRequest(reason=f"`{name}` must be one of {', '.join(known)}")
