"""The time line of a job: what ran where and when, as bars on lanes, in pixels.

Each epoch of the job has a piece of the axis of its own, so that the days between two reruns take
no room. In an epoch, a lane is one component at one site, or one party's executor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fedflow.base.values import dataclass
from fedflow.board.language import t
from fedflow.board.presenters.attempts import Attempt, Epoch
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TaskStatus

WIDTH: Final = 900  #: of the axis at zoom 1, pixels
ZOOMS: Final = (1, 2, 4, 8, 16)
LANE: Final = 18  #: height of a lane, pixels
HEAD: Final = 20  #: height of a group's title, pixels
PAGE: Final = 100  #: components on one page

_BAR: Final = 12  #: height of a bar, pixels
_LEAST: Final = 3  #: width of the shortest bar, pixels
_SHORT: Final = 2.0  #: pixels of a wait that are worth a bar
_BREAK: Final = 28  #: between two epochs, pixels
_TICKS: Final = 10  #: at most so many on one zoom width
_ENDS: Final = frozenset(status.value for status in JOB_FINAL)
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_STEPS: Final = (
    *(n * 10**e for e in range(3) for n in (1, 2, 5)),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 365)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineBar:
    """One thing that went on for a while."""

    x: float
    width: float
    y: int
    height: int
    what: str  #: `wait`, `start` or a status
    start_ms: int
    end_ms: int | None  #: None: it goes on
    attempt: Attempt | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    """One row of bars."""

    y: int
    site: Site | None
    place: int  #: of the executor, from 1, where a party ran several at once; else 0
    version: int | None = None  #: of the attempt, where a site has a lane for each
    bars: tuple[TimelineBar, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineGroup:
    """Lanes with a common title: a component, a site, or the job (empty)."""

    title: str
    y: int
    height: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineTick:
    """A mark of the axis: `offset_ms` after its epoch began."""

    x: float
    offset_ms: int
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One epoch's part of the axis."""

    number: int
    x: float
    width: float
    start_ms: int
    end_ms: int
    ticks: tuple[TimelineTick, ...]

    def at(self, ms: int) -> float:
        """Return where a time stands; what lies outside is put on the edge."""
        span = max(1, self.end_ms - self.start_ms)
        share = min(1.0, max(0.0, (ms - self.start_ms) / span))
        return self.x + share * self.width


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """A whole drawing."""

    width: int
    height: int
    pieces: tuple[Piece, ...]
    groups: tuple[TimelineGroup, ...]
    attempts: tuple[Attempt, ...]  #: in the order in which they are drawn

    @property
    def is_empty(self) -> bool:
        return not any(lane.bars for group in self.groups for lane in group.lanes)


def pieces(epochs: Sequence[Epoch], width: int) -> tuple[Piece, ...]:
    """Return the parts of the axis, as wide as they lasted, none under a tenth of an even share."""
    spans = [max(1, e.end_ms - e.start_ms) for e in epochs]
    least = sum(spans) / len(spans) / 10 if spans else 0
    weights = [max(span, least) for span in spans]
    room = max(50.0 * len(spans), width - _BREAK * (len(spans) - 1))
    found, x = [], 0.0
    for epoch, span, weight in zip(epochs, spans, weights, strict=True):
        wide = room * weight / sum(weights)
        found.append(
            Piece(
                number=epoch.number,
                x=round(x, 1),
                width=round(wide, 1),
                start_ms=epoch.start_ms,
                end_ms=epoch.start_ms + span,
                ticks=_ticks(x, wide, span),
            )
        )
        x += wide + _BREAK
    return tuple(found)


def _ticks(x: float, width: float, span_ms: int) -> tuple[TimelineTick, ...]:
    most = max(1, int(width * _TICKS / WIDTH))
    step = next((s for s in _STEPS if span_ms / s <= most), _STEPS[-1])
    while span_ms / step > most:
        step *= 2
    return tuple(
        TimelineTick(x=round(x + width * at / span_ms, 1), offset_ms=at, label=_label(at, step))
        for at in range(0, span_ms + 1, step)
    )


def _label(at_ms: int, step_ms: int) -> str:
    """Return the text of a tick; all ticks of an axis have the same unit."""
    if step_ms % _DAY == 0:
        return t("{n} d", n=at_ms // _DAY)
    if step_ms % _HOUR == 0:
        return t("{n} h", n=at_ms // _HOUR)
    if step_ms % _MINUTE == 0:
        return t("{n} min", n=at_ms // _MINUTE)
    if step_ms % _SECOND == 0:
        return t("{n} s", n=at_ms // _SECOND)
    if step_ms >= _SECOND // 10:
        return t("{n} s", n=f"{at_ms / _SECOND:.1f}")
    return t("{n} ms", n=at_ms)


def by_component(
    found: Sequence[Attempt], epochs: Sequence[Epoch], *, order: Sequence[str],
    upstream: Mapping[str, Sequence[str]], now_ms: int, zoom: int = 1,
) -> Timeline:  # fmt: skip
    """Return the time line with a group per component, in the order given, and a lane per site."""
    axis = pieces(epochs, WIDTH * zoom)
    ends = _ends(found)
    groups = [_job(axis, epochs)]
    y = groups[0].height
    drawn: list[Attempt] = []
    by_name: dict[str, list[Attempt]] = {name: [] for name in order}
    for attempt in found:
        if attempt.component in by_name:
            by_name[attempt.component].append(attempt)
    for name, those in by_name.items():
        those.sort(key=lambda a: (a.site.order, a.version))
        lanes: list[Lane] = []
        for site in dict.fromkeys(a.site for a in those):
            own = _apart([a for a in those if a.site == site], axis)
            for row in own:
                at = y + HEAD + len(lanes) * LANE
                bars = [
                    bar for a in row
                    for bar in _bars(a, axis, at, now_ms, _ready(a, ends, upstream, axis))
                ]  # fmt: skip
                version = row[0].version if len(own) > 1 and len(row) == 1 else None
                lanes.append(Lane(y=at, site=site, place=0, version=version, bars=tuple(bars)))
        height = HEAD + LANE * max(1, len(lanes))
        groups.append(TimelineGroup(title=name, y=y, height=height, lanes=tuple(lanes)))
        drawn += those
        y += height
    return Timeline(
        width=_width(axis), height=y, pieces=axis, groups=tuple(groups), attempts=tuple(drawn)
    )


def by_site(
    found: Sequence[Attempt], epochs: Sequence[Epoch], *, now_ms: int, zoom: int = 1
) -> Timeline:
    """Return the time line with a group per site, and a lane for each that ran there at once."""
    axis = pieces(epochs, WIDTH * zoom)
    groups = [_job(axis, epochs)]
    y = groups[0].height
    drawn: list[Attempt] = []
    for site in sorted({a.site for a in found}, key=lambda s: s.order):
        lanes = _packed([a for a in found if a.site == site and _has_process(a)], now_ms)
        if not lanes:
            continue
        shown = []
        for place, those in enumerate(lanes):
            at = y + HEAD + place * LANE
            bars = [bar for a in those for bar in _bars(a, axis, at, now_ms, None)]
            shown.append(Lane(y=at, site=site, place=place + 1, bars=tuple(bars)))
            drawn += those
        height = HEAD + LANE * len(shown)
        groups.append(TimelineGroup(title=str(site), y=y, height=height, lanes=tuple(shown)))
        y += height
    return Timeline(
        width=_width(axis), height=y, pieces=axis, groups=tuple(groups), attempts=tuple(drawn)
    )


def _apart(own: Sequence[Attempt], axis: Sequence[Piece]) -> list[list[Attempt]]:
    """Return one site's attempts, oldest first, in rows with at most one of each epoch."""
    rows: list[list[Attempt]] = []
    used: dict[int, int] = {}
    for attempt in own:
        at = attempt.at_ms
        epoch = axis[-1].number if at is None else _piece_of(axis, at).number
        place = used.get(epoch, 0)
        used[epoch] = place + 1
        if place == len(rows):
            rows.append([])
        rows[place].append(attempt)
    return rows


def _packed(found: Sequence[Attempt], now_ms: int) -> list[list[Attempt]]:
    """Return attempts in as few lanes as possible, none over another one."""
    lanes: list[list[Attempt]] = []
    ends: list[int] = []
    for attempt in sorted(found, key=lambda a: (_start_ms(a), a.component)):
        began = _start_ms(attempt)
        place = next((i for i, end in enumerate(ends) if end <= began), len(lanes))
        if place == len(lanes):
            lanes.append([])
            ends.append(0)
        lanes[place].append(attempt)
        ends[place] = max(began + 1, attempt.ended_ms or now_ms)
    return lanes


def _has_process(attempt: Attempt) -> bool:
    """Tell whether a process was started, also if only its end is known."""
    is_over = attempt.asked_ms is not None and attempt.ended_ms is not None
    return attempt.began_ms is not None or is_over


def _start_ms(attempt: Attempt) -> int:
    return attempt.began_ms or attempt.asked_ms or 0


def _job(axis: Sequence[Piece], epochs: Sequence[Epoch]) -> TimelineGroup:
    """Return the lane of the job itself: how long it was asked for, queued, and ran."""
    bars = []
    for piece, epoch in zip(axis, epochs, strict=True):
        for place, phase in enumerate(epoch.phases):
            is_end = phase is epoch.phases[-1] and phase.end_ms is None
            end = epoch.end_ms if phase.end_ms is None else phase.end_ms
            if is_end and end == phase.start_ms and len(epoch.phases) > 1:
                continue  # its final status is no time that it took
            what = _what(epoch, place)
            bars.append(_bar(piece, HEAD, what, phase.start_ms, end, goes_on=is_end))
    lane = Lane(y=HEAD, site=None, place=0, bars=tuple(bars))
    return TimelineGroup(title="", y=0, height=HEAD + LANE, lanes=(lane,))


def _what(epoch: Epoch, place: int) -> str:
    """Return what a phase of a job is drawn as; it ran as its end says."""
    status = epoch.phases[place].status
    if status in ("ready", "waiting"):
        return "wait"
    following = epoch.phases[place + 1 :]
    return following[0].status if following and following[0].status in _ENDS else status


def _bars(
    attempt: Attempt, axis: Sequence[Piece], y: int, now_ms: int, ready_ms: int | None
) -> list[TimelineBar]:
    """Return what is drawn of one attempt: it waited, its process was started, it ran."""
    first = ready_ms if ready_ms is not None else attempt.at_ms
    known = attempt.at_ms if attempt.at_ms is not None else first
    if first is None or known is None or attempt.inherited_from:
        return []
    piece = _piece_of(axis, known)
    bars = []
    asked = attempt.asked_ms if attempt.asked_ms is not None else attempt.began_ms
    until = asked if asked is not None else attempt.ended_ms
    if ready_ms is not None and (until is None or until > ready_ms):
        end = now_ms if until is None else until
        if piece.at(end) - piece.at(ready_ms) >= _SHORT:
            on = until is None
            bars.append(_bar(piece, y, "wait", ready_ms, end, goes_on=on, attempt=attempt))
    if asked is None and attempt.ended_ms is not None:  # it ended before it could begin
        at = attempt.ended_ms
        bars.append(_bar(piece, y, attempt.shown, at, at, goes_on=False, attempt=attempt))
    if asked is None:
        return bars
    began = attempt.began_ms
    if began is None or began > asked:
        end = began if began is not None else attempt.ended_ms or now_ms
        on = began is None and attempt.ended_ms is None
        bars.append(_bar(piece, y, "start", asked, end, goes_on=on, attempt=attempt))
        if began is None and attempt.ended_ms is not None:  # it ended before its process was seen
            bars.append(_bar(piece, y, attempt.shown, end, end, goes_on=False, attempt=attempt))
    if began is not None:
        end = attempt.ended_ms if attempt.ended_ms is not None else now_ms
        on = attempt.ended_ms is None
        bars.append(_bar(piece, y, attempt.shown, began, end, goes_on=on, attempt=attempt))
    return bars


def _bar(
    piece: Piece, y: int, what: str, start_ms: int, end_ms: int, *, goes_on: bool,
    attempt: Attempt | None = None,
) -> TimelineBar:  # fmt: skip
    x, end = piece.at(start_ms), piece.at(end_ms)
    thin = what in ("wait", "start")
    height = _BAR // 2 if thin else _BAR
    return TimelineBar(
        x=round(x, 1),
        width=round(max(_LEAST if not thin else 1.0, end - x), 1),
        y=y + (LANE - height) // 2,
        height=height,
        what=what,
        start_ms=start_ms,
        end_ms=None if goes_on else end_ms,
        attempt=attempt,
    )


def _piece_of(axis: Sequence[Piece], ms: int) -> Piece:
    """Return the last part of the axis that had begun then."""
    return next((p for p in reversed(axis) if p.start_ms <= ms), axis[0])


def _width(axis: Sequence[Piece]) -> int:
    return round(axis[-1].x + axis[-1].width)


def _ends(found: Sequence[Attempt]) -> dict[str, dict[int, int]]:
    """Return when the attempts of each component, by version, ended at their last site."""
    ends: dict[str, dict[int, int]] = {}
    for attempt in found:
        if attempt.ended_ms is not None:
            of = ends.setdefault(attempt.component, {})
            of[attempt.version] = max(of.get(attempt.version, 0), attempt.ended_ms)
    return ends


def _ready(
    attempt: Attempt, ends: Mapping[str, Mapping[int, int]], upstream: Mapping[str, Sequence[str]],
    axis: Sequence[Piece],
) -> int | None:  # fmt: skip
    """Return since when an attempt had all that it takes from others, None if it has not."""
    if attempt.inherited_from:
        return None
    until = attempt.asked_ms or attempt.began_ms or attempt.ended_ms
    if until is None:
        if attempt.status != TaskStatus.WAITING.value:
            return None
        piece = axis[-1]
    else:
        piece = _piece_of(axis, until)
    earlier = [e for v, e in ends.get(attempt.component, {}).items() if v < attempt.version]
    ready = max([piece.start_ms, *earlier])
    for name in upstream.get(attempt.component, ()):
        limit = until if until is not None else piece.end_ms
        before = [end for end in ends.get(name, {}).values() if end <= limit]
        if not before:
            return None
        ready = max(ready, *before)
    return ready
