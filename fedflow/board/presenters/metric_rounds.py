"""Who took part in the rounds of a horizontal training: a table of sites, and one of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.charts import Grid, View, shown
from fedflow.board.presenters.metric_items import MetricItem, Texts

MOST_ROWS: Final = 500  #: rounds with the same members are one row
MOST_SITES: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rounds:
    """Rounds one after the other with the same members and the same rows."""

    first: int
    last: int
    counted: Mapping[str, Any]
    left_out: Mapping[str, Any]


def participation(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Return two tables per metric: in how many rounds each site counted, was left out or was not
    there, and which sites counted in which rounds, with how many rows.

    A point is (round, {"counted": {site: rows}, "left_out": {site: reason}}), and says with `last`
    that later rounds were alike.
    """
    views: list[View] = []
    for item in items:
        rounds = list(_together(_read(item.points)))
        sites = sorted({site for one in rounds for site in (*one.counted, *one.left_out)})
        sites = sites[:MOST_SITES]
        rows = tuple(
            (_span(one), *(_cell(one, site, t) for site in sites)) for one in rounds[-MOST_ROWS:]
        )
        names = [site.replace("-", " ", 1) for site in sites]
        key = "participation" if item.model == "participation" else f"rounds-{item.model}"
        views.append(
            Grid(
                key=f"{key}-sites",
                title=t("Rounds of each site"),
                columns=(t("Site"), t("Counted"), t("Left out"), t("Not there")),
                rows=tuple(
                    (name, *_numbers(rounds, site)) for site, name in zip(sites, names, strict=True)
                ),
            )
        )
        views.append(
            Grid(
                key=key,
                title=t("Rows of each site that counted"),
                columns=(t("Rounds"), *names),
                rows=rows,
            )
        )
    return views


def _read(points: Iterable[tuple[Any, Any]]) -> Iterable[_Rounds]:
    """Yield the points that are such, each round once: the first that says it."""
    known = -1
    for first, value in points:
        if type(first) is not int or first <= known or not isinstance(value, dict):
            continue
        last = value.get("last", first)
        counted, left_out = value.get("counted"), value.get("left_out")
        if type(last) is int and last >= first and isinstance(counted, dict):
            known = last
            missing = left_out if isinstance(left_out, dict) else {}
            yield _Rounds(first=first, last=last, counted=counted, left_out=missing)


def _together(rounds: Iterable[_Rounds]) -> Iterable[_Rounds]:
    """Yield rounds, neighbours that are alike as one."""
    kept: _Rounds | None = None
    for one in rounds:
        alike = kept is not None and (kept.counted, kept.left_out) == (one.counted, one.left_out)
        if kept is not None and alike and one.first == kept.last + 1:
            kept = _Rounds(
                first=kept.first, last=one.last, counted=kept.counted, left_out=kept.left_out
            )
            continue
        if kept is not None:
            yield kept
        kept = one
    if kept is not None:
        yield kept


def _numbers(rounds: Iterable[_Rounds], site: str) -> tuple[int, int, int]:
    """Return in how many rounds a site counted, was left out, and is not named at all."""
    counted = left_out = absent = 0
    for one in rounds:
        count = one.last - one.first + 1
        if site in one.counted:
            counted += count
        elif site in one.left_out:
            left_out += count
        else:
            absent += count
    return counted, left_out, absent


def _span(one: _Rounds) -> str:
    return str(one.first) if one.first == one.last else f"{one.first} - {one.last}"


def _cell(one: _Rounds, site: str, t: Texts) -> Any:
    if site in one.counted:
        return one.counted[site]
    if site in one.left_out:
        return t("left out: {reason}", reason=shown(one.left_out[site]))
    return ""
