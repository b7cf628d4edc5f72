"""The list of jobs: what its address asks for, and what its rows show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.board.presenters.paging import number_of, whole
from fedflow.board.presenters.results import headline
from fedflow.domain.job_lines import JobLine, StatusCount, Strip
from fedflow.domain.records import Between, JobFilter, JobKey, Order, Sort
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, JobStatus

SIZES: Final = (20, 50, 100, 200)
SORTS: Final = (Sort.ACTIVITY, Sort.CREATED, Sort.STARTED, Sort.ENDED, Sort.ELAPSED, Sort.JOB_ID)
REFUSED: Final = "refused"  #: shown of a job that some site did not accept
STATUSES: Final = ("running", "waiting", "success", "failed", "timeout", "canceled", REFUSED)
MOST_CELLS: Final = 40  #: of a strip; of more components there is a cell per kind of status
PERIODS_MS: Final = {
    "hour": 3_600_000, "day": 86_400_000, "week": 7 * 86_400_000, "month": 30 * 86_400_000,
}  # fmt: skip
LONGEST: Final = 500  #: characters of a filter that count
_LATEST_MS: Final = 2**52
_DURATIONS_MS: Final = 10_000  #: durations of running jobs are shown anew so often
_NO_FILTERS: Final = ("sort", "order", "size")
_ALWAYS_SEEN: Final = (*_NO_FILTERS, "text", "status")
_TEXTS: Final = ("text", "job", "party", "partner", "notes", "tag")
_RERUN: Final = frozenset(
    {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.TIMEOUT, JobStatus.SUCCESS}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ListQuery:
    """What the address of a list asks for, as it was given; `problems` names fields that count
    for nothing.
    """

    text: str = ""  #: contained in the id, the notes, a party or a tag
    job: str = ""
    party: str = ""
    partner: str = ""
    notes: str = ""
    tag: str = ""
    roles: tuple[Role, ...] = ()
    statuses: tuple[str, ...] = ()
    period: str = ""  #: a key of `PERIODS_MS`
    since: str = ""  #: UTC, as an `<input type="datetime-local">` has it
    until: str = ""
    sort: Sort = Sort.ACTIVITY
    descending: bool = True
    size: int = SIZES[0]
    number: int = 1
    problems: tuple[str, ...] = ()

    @property
    def is_filtered(self) -> bool:
        """Tell whether any job may be left out."""
        return any(name not in _NO_FILTERS for name, _ in self.pairs())

    @property
    def has_details(self) -> bool:
        """Tell whether any of the filters is given that are not always seen."""
        return any(name not in _ALWAYS_SEEN for name, _ in self.pairs())

    def pairs(self, *, page: int = 1, **other: str) -> list[tuple[str, str]]:
        """Return names and values of the address, defaults left out; `other` replaces some."""
        given: list[tuple[str, str]] = [(name, getattr(self, name)) for name in _TEXTS]
        given += [("role", role.value) for role in self.roles]
        given += [("status", status) for status in self.statuses]
        given += [("period", self.period), ("since", self.since), ("until", self.until)]
        given.append(("sort", "" if self.sort is Sort.ACTIVITY else self.sort.value))
        given.append(("order", "" if self.descending else "asc"))
        given.append(("size", "" if self.size == SIZES[0] else str(self.size)))
        kept = [(name, value) for name, value in given if value and name not in other]
        kept += [(name, value) for name, value in other.items() if value]
        return kept + ([("page", str(page))] if page > 1 else [])

    def query(self, *, page: int = 1, **other: str) -> str:
        """Return the query string of the address, with `?` if it is not empty."""
        pairs = self.pairs(page=page, **other)
        return f"?{urlencode(pairs)}" if pairs else ""

    def sorted_by(self, sort: str) -> str:
        """Return the query string of the list sorted by a column; the other way if it is so now."""
        by = Sort(sort)
        descending = not self.descending if by is self.sort else by is not Sort.JOB_ID
        return self.query(
            sort="" if by is Sort.ACTIVITY else by.value, order="" if descending else "asc"
        )

    def toggled(self, status: str) -> str:
        """Return the query string of the list with or without a status, the other way than now."""
        chosen = [s for s in STATUSES if (s in self.statuses) != (s == status)]
        pairs = [pair for pair in self.pairs() if pair[0] != "status"]
        pairs += [("status", one) for one in chosen]
        return f"?{urlencode(pairs)}" if pairs else ""

    def filter(self, now_ms: int) -> JobFilter:
        """Return the same for the store."""
        statuses = tuple(JobStatus(status) for status in self.statuses if status != REFUSED)
        if JobStatus.WAITING in statuses:
            statuses = (*statuses, JobStatus.READY)  # people see it as waiting
        low, high = _moment(self.since), _moment(self.until)
        if self.period:
            low = max(low or 0, now_ms - PERIODS_MS[self.period])
        between: tuple[Between, ...] = ()
        if low is not None or high is not None:
            latest = _LATEST_MS if high is None else high
            between = (Between(by=Sort.CREATED, low=low or 0, high=latest),)
        return JobFilter(
            roles=self.roles or None,
            statuses=statuses if self.statuses else None,
            refused=not self.statuses,
            or_refused=REFUSED in self.statuses,
            job_id_part=self.job or None,
            party_id_part=self.party or None,
            description_part=self.notes or None,
            partner_part=self.partner or None,
            tag=self.tag or None,
            any_part=self.text or None,
            between=between,
            order=Order(by=self.sort, descending=self.descending),
            limit=self.size,
            offset=(self.number - 1) * self.size,
        )


def read_query(one: Mapping[str, str], several: Mapping[str, Sequence[str]]) -> ListQuery:
    """Return what an address asks for; what cannot be read counts for nothing.

    `one` has the first value of each name, `several` all values of `role` and `status`.
    """
    problems = [
        name
        for name in ("since", "until")
        if one.get(name, "").strip() and _moment(one[name]) is None
    ]
    period = one.get("period", "")
    sort = one.get("sort", "")
    size = whole(one.get("size"), SIZES[0])
    texts = {name: _text(one.get(name, "")) for name in _TEXTS}
    return ListQuery(
        **texts,
        roles=tuple(role for role in Role if role.value in several.get("role", ())),
        statuses=tuple(status for status in STATUSES if status in several.get("status", ())),
        period=period if period in PERIODS_MS else "",
        since="" if "since" in problems else one.get("since", "").strip(),
        until="" if "until" in problems else one.get("until", "").strip(),
        sort=Sort(sort) if sort in {s.value for s in SORTS} else Sort.ACTIVITY,
        descending=one.get("order", "") != "asc",
        size=size if size in SIZES else SIZES[0],
        number=number_of(one.get("page")),
        problems=tuple(problems),
    )


def _text(given: str) -> str:
    return "".join(c for c in given.strip() if c != "\x00")[:LONGEST]


def _moment(text: str) -> int | None:
    """Return milliseconds since the epoch for a date, or date and time, in UTC."""
    try:
        at = datetime.fromisoformat(text.strip())
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """A status to filter by, with how many party jobs have it."""

    status: str
    count: int
    is_on: bool


def chips(query: ListQuery, counts: Sequence[StatusCount]) -> list[Chip]:
    """Return the statuses that any job has, or that are chosen."""
    found = Counter[str]()
    for one in counts:
        found[shown_status(one.status, refused=one.refused)] += one.count
    return [
        Chip(status=status, count=found[status], is_on=status in query.statuses)
        for status in STATUSES
        if found[status] or status in query.statuses
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobListRow:
    """A party job, as the list shows it."""

    line: JobLine
    key: str  #: names the row within the page
    status: str
    is_final: bool
    others: tuple[Site, ...]  #: that take part beside this one, at most `MOST_OTHERS`
    more: int  #: others that are not named
    cells: tuple[tuple[str, str], ...]  #: component and status, if they are at most `MOST_CELLS`
    sums: tuple[tuple[str, int], ...]  #: else statuses and how many have them
    duration_ms: int | None
    may_stop: bool
    may_rerun: bool
    is_first: bool  #: the row before is of another job
    result: str  #: the figure that counts most


MOST_OTHERS: Final = 4
MOST_NOTES: Final = 2_000  #: characters of notes that a list can edit; longer ones have a page


def rows(lines: Sequence[JobLine], strips: Mapping[JobKey, Strip], now_ms: int) -> list[JobListRow]:
    """Return the rows of a page."""
    found: list[JobListRow] = []
    for line in lines:
        others = _others(line)
        ended = line.status in JOB_FINAL
        started, end = line.started_ms, line.ended_ms
        known = found[-1].line.key.job_id if found else None
        strip = [(name, status.value) for name, status in strips.get(line.key, {}).items()]
        is_long = len(strip) > MOST_CELLS
        sums = Counter(status for _, status in strip) if is_long else Counter()
        found.append(
            JobListRow(
                line=line,
                key=f"{line.key.job_id}-{line.key.site.role.value}-{line.key.site.party_id}",
                status=shown_status(line.status, on_hold=line.on_hold, refused=line.refused),
                is_final=ended,
                others=tuple(others[:MOST_OTHERS]),
                more=max(0, len(others) - MOST_OTHERS),
                cells=() if is_long else tuple(strip),
                sums=tuple(sums.most_common()),
                duration_ms=None if started is None else max(0, (end or now_ms) - started),
                may_stop=not ended,
                may_rerun=line.status in _RERUN and not line.refused,
                is_first=line.key.job_id != known,
                result=headline(line.figures),
            )
        )
    return found


def shown_status(status: JobStatus, *, on_hold: bool = False, refused: bool = False) -> str:
    """Return the one word by which all pages call the state of a job."""
    if refused:
        return REFUSED
    if on_hold and status not in JOB_FINAL:
        return "pause"
    return "waiting" if status is JobStatus.READY else status.value


def _others(line: JobLine) -> list[Site]:
    """Return the other sites of a job in their order."""
    known = {role.value: role for role in Role}
    every = [
        Site(known[role], PartyId(party))
        for role, parties in line.roles.items()
        if role in known
        for party in parties
    ]
    return sorted((s for s in every if s != line.key.site), key=lambda s: s.order)


def tag_of(lines: Sequence[JobLine], strips: Mapping[JobKey, Strip], now_ms: int) -> str:
    """Return what changes when the rows of a page change; how long jobs run, now and then."""
    return repr(
        (
            now_ms // _DURATIONS_MS if any(x.status is JobStatus.RUNNING for x in lines) else 0,
            [
                (
                    x.key.job_id,
                    x.key.site.key,
                    x.status,
                    x.progress,
                    x.updated_ms,
                    x.tags,
                    x.epoch,
                    x.on_hold,
                    strips.get(x.key),
                    x.silent,
                )
                for x in lines
            ],
        )
    )
