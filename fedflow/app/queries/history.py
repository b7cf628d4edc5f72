"""What users read of a job's history at this server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fedflow.app.ports.store import Store
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message
from fedflow.domain.records import JobFilter
from fedflow.domain.scheduling import history
from fedflow.domain.scheduling.history import OWN_HALF, Event, EventFilter
from fedflow.domain.site import Site
from fedflow.wire.api.job_history import HistoryEvent, HistoryPage

MOST: Final = 1_000  #: events of one page


class Histories:
    """The use case of the events route."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    def events(
        self, job_id: str, *, component: str | None = None, since: int = 0, limit: int = MOST,
        seen_by: Site | None = None, about: Site | None = None, newest: bool = False,
    ) -> HistoryPage:  # fmt: skip
        """Return a page of the events after the number `since`, oldest first.

        At the initiator all of the job: its own half and, of other sites, what they reported; at
        another site what that one knows; with `seen_by` what that site of this server knows.
        `about` limits it to what is about a site. `next` is the `since` of the next page, `more`
        tells whether it has any; with `newest` the page is the last one, and `more` tells whether
        there are earlier ones. Raises: JobNotFound. BadRequest: `limit` or `since` is out of
        range, or the job has no such component.
        """
        if not 1 <= limit <= MOST:
            raise BadRequest(reason=f"`limit` must be from 1 to {MOST}")
        if since < 0:
            raise BadRequest(reason="`since` must be the number of an event, or 0")
        is_initiator = True
        with self._store.read() as tx:
            own = tx.jobs.find(JobFilter(job_id=job_id))
            scheduled = None if own else tx.schedules.get(job_id)
            if not own and scheduled is None:
                raise JobNotFound(job_id=job_id)
            if seen_by is not None:
                scheduled = tx.schedules.get(job_id)
                is_initiator = scheduled is not None and scheduled.initiator == seen_by
                if not is_initiator and all(j.key.site != seen_by for j in own):
                    raise JobNotFound(job_id=job_id)
            dsl = own[0].dsl if own else scheduled.dsl if scheduled else {}
            if component is not None:
                check_component(component, dsl)
            # what the sites of this server report to it is known from their own half
            found = tx.events.find(
                EventFilter(
                    job_id=job_id,
                    component=component,
                    subjects=None if seen_by is None or is_initiator else OWN_HALF,
                    unreported=frozenset(j.key.site for j in own if seen_by in (None, j.key.site)),
                    own=seen_by,
                    site=about,
                    since=since,
                    newest=newest,
                    limit=limit + 1,
                )
            )
        page = found[-limit:] if newest else found[:limit]
        return HistoryPage(
            job_id=job_id,
            events=tuple(event_view(e) for e in page),
            next=page[-1].number if page else since,
            more=len(found) > limit,
        )


def check_component(component: str, dsl: Mapping[str, Any]) -> None:
    """Do nothing if a job's DSL has a component. Raises: BadRequest: it has not; names them."""
    if component not in dsl["components"]:
        known = ", ".join(dsl["components"])[:1000]
        raise BadRequest(
            reason=Message(
                "the job has no component {component!r}, but {known}", component[:100], known
            )
        )


def event_view(event: Event) -> HistoryEvent:
    """Return an event as it is shown: every member for programs, `text` for people."""
    reason = event.reason
    text = history.sentence(event)
    move = f"{event.old or 'new'} -> {event.new}: " if event.new else ""
    code = f"{reason.code}: " if reason and reason.code not in text else ""
    who = history.actor(event)
    return HistoryEvent(
        number=event.number,
        at_ms=event.at_ms,
        at=moment(event.at_ms),
        epoch=event.epoch,
        subject=event.subject.value,
        site=event.site.key if event.site else None,
        component=event.component or None,
        version=event.version,
        old=event.old or None,
        new=event.new or None,
        code=reason.code if reason else None,
        message=text,
        cause_site=reason.site.key if reason and reason.site else None,
        by=who,
        text=f"{history.subject_text(event)}: {move}{code}{text} ({who})",
    )


def moment(at_ms: int) -> str:
    """Return milliseconds since the epoch as UTC in ISO 8601, with milliseconds."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"
