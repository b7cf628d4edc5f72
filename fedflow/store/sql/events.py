"""The history of jobs (`t_job_event`): written at the end of a transaction, with what it did."""
# only constants of this module are put into statements; values are parameters

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from fedflow.domain.scheduling.history import KEEP, OWN_HALF, Event, EventFilter, Subject
from fedflow.store.codec import site_of
from fedflow.store.job_tables import JOB_EVENT
from fedflow.store.mapper import REASON, Columns, Kind, Mapper, site_columns, word
from fedflow.store.recording import Recent
from fedflow.store.session import Found, Session, Value, one_of

_SITE_OR_NONE: Final = Kind(
    lambda role, party_id: site_of(role, party_id) if role else None,
    lambda site: ("", "") if site is None else site_columns(site),
)
_FIELDS: Final[Mapping[str, Columns | str]] = {
    "number": "f_number",
    "job_id": "f_job_id",
    "at_ms": "f_time",
    "subject": word(Subject)("f_subject"),
    "site": _SITE_OR_NONE("f_role", "f_party_id"),
    "component": "f_component_name",
    "version": "f_task_version",
    "old": "f_from",
    "new": "f_to",
    "reason": REASON("f_reason"),
}
_READ: Final = Mapper(JOB_EVENT, Event, _FIELDS, joined=("epoch",))
_WRITTEN: Final = Mapper(JOB_EVENT, Event, {**_FIELDS, "epoch": "f_epoch"})


class SqlEvents:
    """See `app.ports.jobs.EventStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, *events: Event) -> None:
        self._session.tell(*events)

    def find(self, which: EventFilter) -> list[Event]:
        conditions, values = _conditions(which)
        found = self._session.rows(
            f"{_READ.select} WHERE {conditions} "
            f"ORDER BY f_number {'DESC' if which.newest else 'ASC'} LIMIT ?",
            [*values, which.limit],
        )
        epochs = self._session.rows(
            "SELECT f_number, f_epoch FROM t_job_event WHERE f_job_id = ? "
            "AND f_epoch IS NOT NULL ORDER BY f_number",
            (which.job_id,),
        )
        return _events(sorted(found, key=lambda row: int(row[0])), epochs)

    def last_number(self, job_id: str) -> int:
        found = self._session.row(
            "SELECT MAX(f_number) FROM t_job_event WHERE f_job_id = ?", (job_id,)
        )
        return int(found[0] or 0) if found else 0

    def drop(self, job_id: str) -> int:
        return self._session.write("DELETE FROM t_job_event WHERE f_job_id = ?", (job_id,))


def write_events(session: Session, recent: Recent) -> list[Event]:
    """Write what a transaction told, all with one statement, and return it."""
    if not session.events:
        return []
    events = recent.news(session.events)
    session.insert_many(JOB_EVENT, map(_WRITTEN.row, events))
    for job_id in recent.long(events):
        _trim(session, job_id)
    return events


def _trim(session: Session, job_id: str) -> None:
    """Forget the oldest events of a job; the oldest one that stays tells the epoch it is of."""
    found = session.row(
        "SELECT f_number FROM t_job_event WHERE f_job_id = ? ORDER BY f_number DESC "
        "LIMIT 1 OFFSET ?",
        (job_id, KEEP),
    )
    if found is None:
        return
    gone = (job_id, found[0])
    epoch = session.row(
        "SELECT MAX(f_epoch) FROM t_job_event WHERE f_job_id = ? AND f_number <= ?", gone
    )
    session.write("DELETE FROM t_job_event WHERE f_job_id = ? AND f_number <= ?", gone)
    oldest = session.row("SELECT MIN(f_number) FROM t_job_event WHERE f_job_id = ?", (job_id,))
    if epoch is not None and oldest is not None:
        session.write(
            "UPDATE t_job_event SET f_epoch = ? WHERE f_number = ? AND f_epoch IS NULL",
            (epoch[0], oldest[0]),
        )


def _conditions(which: EventFilter) -> tuple[str, list[Value]]:
    conditions = ["f_job_id = ?", "f_number > ?"]
    values: list[Value] = [which.job_id, which.since]
    if which.component is not None:
        conditions.append("f_component_name = ?")
        values.append(which.component)
    if which.subjects is not None:
        conditions.append(one_of("f_subject", len(which.subjects)))
        values += [s.value for s in which.subjects]
    for site in sorted(which.unreported, key=lambda s: s.key):
        conditions.append("NOT (f_subject = ? AND f_role = ? AND f_party_id = ?)")
        values += [Subject.REPORT.value, site.role.value, site.party_id]
    if which.own is not None:
        own_half = one_of("f_subject", len(OWN_HALF))
        conditions.append(f"(NOT {own_half} OR (f_role = ? AND f_party_id = ?))")
        values += [*(s.value for s in OWN_HALF), which.own.role.value, which.own.party_id]
    if which.site is not None:
        conditions.append("f_role = ? AND f_party_id = ?")
        values += [which.site.role.value, which.site.party_id]
    return " AND ".join(conditions), values


def _events(found: Sequence[Found], epochs: Sequence[Found]) -> list[Event]:
    """Return events with the epoch that each fell into."""
    begins = [int(number) for number, _ in epochs]
    greatest = [*accumulate((int(epoch) for _, epoch in epochs), max)]
    events = []
    for row in found:
        place = bisect_right(begins, int(row[0]))
        events.append(_READ.read(row, greatest[place - 1] if place else None))
    return events
