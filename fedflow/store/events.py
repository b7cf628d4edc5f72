"""The history of jobs (`t_job_event`): written at the end of a transaction, with what it did."""
# only constants of this module are put into statements; values are parameters

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from fedflow.domain.history import KEEP, OWN_HALF, Event, EventFilter, Subject
from fedflow.domain.site import Site
from fedflow.store.codec import reason_from_text, reason_to_text, site_of
from fedflow.store.recording import Recent
from fedflow.store.session import Found, Session, Value, one_of
from fedflow.store.tables import JOB_EVENT

_SUBJECTS: Final = {s.value: s for s in Subject}
_SELECT: Final = (
    "SELECT f_number, f_time, f_subject, f_role, f_party_id, f_component_name, f_task_version, "
    "f_from, f_to, f_reason FROM t_job_event"
)


class SqlEvents:
    """See `app.ports.Events`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, *events: Event) -> None:
        self._session.tell(*events)

    def find(self, which: EventFilter) -> list[Event]:
        conditions, values = _conditions(which)
        found = self._session.rows(
            f"{_SELECT} WHERE {conditions} "
            f"ORDER BY f_number {'DESC' if which.newest else 'ASC'} LIMIT ?",
            [*values, which.limit],
        )
        epochs = self._session.rows(
            "SELECT f_number, f_epoch FROM t_job_event WHERE f_job_id = ? "
            "AND f_epoch IS NOT NULL ORDER BY f_number",
            (which.job_id,),
        )
        return _events(which.job_id, sorted(found, key=lambda row: int(row[0])), epochs)

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
    session.insert_many(JOB_EVENT, [_row(e) for e in events])
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


def _row(event: Event) -> dict[str, Value]:
    site = event.site
    return {
        "f_job_id": event.job_id,
        "f_time": event.at_ms,
        "f_epoch": event.epoch,
        "f_subject": event.subject.value,
        "f_role": site.role.value if site else "",
        "f_party_id": site.party_id if site else "",
        "f_component_name": event.component,
        "f_task_version": event.version,
        "f_from": event.old,
        "f_to": event.new,
        "f_reason": reason_to_text(event.reason),
    }


def _events(job_id: str, found: Sequence[Found], epochs: Sequence[Found]) -> list[Event]:
    """Return events with the epoch that each fell into."""
    begins = [int(number) for number, _ in epochs]
    sites: dict[tuple[str, str], Site] = {}
    events = []
    for number, at_ms, subject, role, party_id, component, version, old, new, reason in found:
        if role and (role, party_id) not in sites:
            sites[role, party_id] = site_of(role, party_id)
        place = bisect_right(begins, int(number))
        events.append(
            Event(
                number=number,
                job_id=job_id,
                at_ms=at_ms,
                epoch=max((int(e[1]) for e in epochs[:place]), default=None),
                subject=_SUBJECTS[subject],
                site=sites.get((role, party_id)),
                component=component,
                version=version,
                old=old,
                new=new,
                reason=reason_from_text(reason),
            )
        )
    return events
