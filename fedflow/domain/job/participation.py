"""Who took part in which rounds of a training, from the points of a `PARTICIPATION` metric.

A point is (round, {"counted": {site: rows}, "left_out": {site: reason}}), and says with `last` that
later rounds were alike. Rounds count from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fedflow.base.values import dataclass

METRIC_TYPE: Final = "PARTICIPATION"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """Rounds one after the other with the same members and the same rows."""

    first: int
    last: int
    counted: Mapping[str, Any]
    left_out: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class MissedRounds:
    """Rounds one after the other that a site missed for one reason, empty if nobody said why."""

    site: str
    first: int
    last: int
    reason: str


def rounds_of(points: Iterable[tuple[Any, Any]]) -> list[Rounds]:
    """Return the rounds that points tell of, in order; neighbours that are alike are one.

    Each round is there once, as the first point says that tells of it. What is no such point is
    left out.
    """
    found: list[Rounds] = []
    for one in _read(points):
        kept = found[-1] if found else None
        alike = kept is not None and (kept.counted, kept.left_out) == (one.counted, one.left_out)
        if kept is not None and alike and one.first == kept.last + 1:
            found[-1] = Rounds(
                first=kept.first, last=one.last, counted=kept.counted, left_out=kept.left_out
            )
        else:
            found.append(one)
    return found


def missed_rounds(rounds: Iterable[Rounds], sites: Iterable[str]) -> Iterator[MissedRounds]:
    """Yield which of `sites` were missing in which rounds, site by site."""
    known = list(rounds)
    for site in sites:
        kept: MissedRounds | None = None
        for one in known:
            if site in one.counted:
                continue
            reason = str(one.left_out.get(site, ""))
            first = one.first
            if kept is not None and (kept.last + 1, kept.reason) == (one.first, reason):
                first = kept.first
            elif kept is not None:
                yield kept
            kept = MissedRounds(site=site, first=first, last=one.last, reason=reason)
        if kept is not None:
            yield kept


def _read(points: Iterable[tuple[Any, Any]]) -> Iterator[Rounds]:
    known = -1
    for first, value in points:
        if type(first) is not int or first <= known or not isinstance(value, dict):
            continue
        last = value.get("last", first)
        counted, left_out = value.get("counted"), value.get("left_out")
        if type(last) is int and last >= first and isinstance(counted, dict):
            known = last
            missing = left_out if isinstance(left_out, dict) else {}
            yield Rounds(first=first, last=last, counted=counted, left_out=missing)
