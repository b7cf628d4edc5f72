"""Who took part in the rounds of a horizontal training: a curve per site, and two tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.charts import Chart, Grid, Series, View, finite, shown
from fedflow.board.presenters.metric_items import MetricItem, Texts

MOST_ROWS: Final = 500  #: rounds with the same members are one row
MOST_SITES: Final = 100
MOST_GAPS: Final = 10  #: of a site, the latest


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rounds:
    """Rounds one after the other with the same members and the same rows."""

    first: int
    last: int
    counted: Mapping[str, Any]
    left_out: Mapping[str, Any]


def participation(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Return a curve and two tables per metric.

    The curve is of the rows that counted, if they changed. The tables say in how many rounds each
    site counted, was left out or was not there, and which counted in which rounds.

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
        if len(rounds) > 1:
            views.append(
                Chart(
                    key=f"{key}-rows", title=t("Rows that counted"), x_label=t("Round"),
                    y_label=t("Rows"), groups_label=t("Site"),
                    series=tuple(_curve(rounds, site) for site in sites),
                )
            )  # fmt: skip
        views.append(
            Grid(
                key=f"{key}-sites",
                title=t("Rounds of each site"),
                columns=(t("Site"), t("Counted"), t("Left out"), t("Not there"), t("Absent in")),
                rows=tuple(
                    (name, *_numbers(rounds, site), _absences(rounds, site, t))
                    for site, name in zip(sites, names, strict=True)
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


def _absences(rounds: Iterable[_Rounds], site: str, t: Texts) -> str:
    """Say in which rounds a site did not count, and when it was back."""
    gaps: list[_Rounds] = []
    back: int | None = None
    for one in rounds:
        if site in one.counted:
            back = one.first if back is None and gaps else back
        elif gaps and back is None:
            gaps[-1] = replace(gaps[-1], last=one.last)
        else:
            gaps.append(one)
            back = None
    if not gaps:
        return ""
    found = ", ".join(_span(one) for one in gaps[-MOST_GAPS:])
    return found if back is None else t("{rounds}; back in round {n}", rounds=found, n=back)


def _curve(rounds: Iterable[_Rounds], site: str) -> Series:
    """Return the rows of a site that counted, at both ends of each stretch of rounds."""
    points = {
        float(at): finite(one.counted.get(site, 0))
        for one in rounds
        for at in (one.first, one.last)
    }
    name = site.replace("-", " ", 1)
    return Series(name=name, model=name, part="train", x=tuple(points), y=tuple(points.values()))


def _span(one: _Rounds) -> str:
    return str(one.first) if one.first == one.last else f"{one.first} - {one.last}"


def _cell(one: _Rounds, site: str, t: Texts) -> Any:
    if site in one.counted:
        return one.counted[site]
    if site in one.left_out:
        return t("left out: {reason}", reason=shown(one.left_out[site]))
    return ""
