"""Where the time of a job went: how long each component ran, what was waited for, and the critical
path. Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.attempts import Attempt, Epoch
from fedflow.domain.states import TaskStatus

ORDERS: Final = ("start", "duration", "name")
FEW: Final = 10  #: components of which none is folded away
SHORT: Final = 0.01  #: share of the time without waiting, below which a component is short
_LEADING: Final = 0.1  #: share of the time from which a component is named
_MOST_LEADING: Final = 3

_Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeSums:
    """How the time of a job is divided."""

    whole_ms: int  #: of all epochs
    waiting_ms: int  #: in which no component ran
    rest_ms: int  #: in which none of the leading components ran, but another one
    leading: tuple[str, ...]  #: components that took most, the longest first
    by_component: Mapping[str, int]  #: at any site
    critical: frozenset[str]  #: components, each of which the next one had to wait for

    def share(self, component: str) -> float:
        """Return a component's share of the time, 0 to 1."""
        return min(1.0, self.by_component.get(component, 0) / max(1, self.whole_ms))


def time_sums(
    found: Sequence[Attempt], epochs: Sequence[Epoch], *,
    upstream: Mapping[str, Sequence[str]], now_ms: int,
) -> TimeSums:  # fmt: skip
    """Return how the time of a job is divided among its components."""
    spans: dict[str, list[_Span]] = {}
    for attempt in found:
        begin = attempt.asked_ms if attempt.asked_ms is not None else attempt.began_ms
        if begin is not None and not attempt.inherited_from:
            end = max(begin, attempt.ended_ms if attempt.ended_ms is not None else now_ms)
            spans.setdefault(attempt.component, []).append((begin, end))
    took = {name: _covered(those) for name, those in spans.items()}
    whole = sum(max(0, epoch.end_ms - epoch.start_ms) for epoch in epochs)
    longest = sorted(took, key=lambda name: -took[name])[:_MOST_LEADING]
    leading = tuple(name for name in longest if took[name] >= _LEADING * max(1, whole))
    ran = _covered(span for those in spans.values() for span in those)
    led = _covered(span for name in leading for span in spans[name])
    return TimeSums(
        whole_ms=whole,
        waiting_ms=max(0, whole - ran),
        rest_ms=max(0, ran - led),
        leading=leading,
        by_component=took,
        critical=_critical(spans, upstream),
    )


def ordered(order: Sequence[str], by: str, found: Sequence[Attempt], sums: TimeSums) -> list[str]:
    """Return components by their start, duration or name; equal ones as they were."""
    if by == "name":
        return sorted(order)
    if by == "duration":
        return sorted(order, key=lambda name: -sums.by_component.get(name, 0))
    starts: dict[str, int] = {}
    for attempt in found:
        if attempt.at_ms is not None:
            known = starts.get(attempt.component, attempt.at_ms)
            starts[attempt.component] = min(known, attempt.at_ms)
    return sorted(order, key=lambda name: (name not in starts, starts.get(name, 0)))


def short_ones(order: Sequence[str], found: Sequence[Attempt], sums: TimeSums) -> frozenset[str]:
    """Return the components that may be folded away: many, short, and nothing is wrong with them.
    None of a job that has few.
    """
    if len(order) <= FEW:
        return frozenset()
    well = {TaskStatus.SUCCESS.value, TaskStatus.PASS.value}
    told = {a.component for a in found if a.status not in well}
    least = SHORT * (sums.whole_ms - sums.waiting_ms)
    names = {n for n in order if sums.by_component.get(n, least) < least}
    return frozenset(names - told)


def _covered(spans: Iterable[_Span]) -> int:
    """Return how long at least one of the spans lasted."""
    total, until = 0, 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


def _critical(
    spans: Mapping[str, Sequence[_Span]], upstream: Mapping[str, Sequence[str]]
) -> frozenset[str]:
    """Return the chain of components that ended last, back to the first one."""
    ends = {name: max(end for _, end in those) for name, those in spans.items()}
    name = max(ends, key=lambda n: ends[n], default=None)
    path: set[str] = set()
    while name is not None and name not in path:
        path.add(name)
        before = [other for other in upstream.get(name, ()) if other in ends]
        name = max(before, key=lambda n: ends[n], default=None)
    return frozenset(path)
