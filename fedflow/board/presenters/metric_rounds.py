"""Who took part in the rounds of a horizontal training: a curve per site, and two tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.board.presenters.charts import Chart, Grid, Series, View, finite, shown
from fedflow.board.presenters.metric_items import MetricItem, Texts
from fedflow.domain.job.participation import Rounds, rounds_of

MOST_ROWS: Final = 500  #: rounds with the same members are one row
MOST_SITES: Final = 100
MOST_GAPS: Final = 10  #: of a site, the latest


def participation(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Return a curve and two tables per metric.

    The curve is of the rows that counted, if they changed. The tables say in how many rounds each
    site counted, was left out or was not there, and which counted in which rounds.
    """
    views: list[View] = []
    for item in items:
        rounds = rounds_of(item.points)
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


def _numbers(rounds: Iterable[Rounds], site: str) -> tuple[int, int, int]:
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


def _absences(rounds: Iterable[Rounds], site: str, t: Texts) -> str:
    """Say in which rounds a site did not count, and when it was back."""
    gaps: list[Rounds] = []
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


def _curve(rounds: Iterable[Rounds], site: str) -> Series:
    """Return the rows of a site that counted, at both ends of each stretch of rounds."""
    points = {
        float(at): finite(one.counted.get(site, 0))
        for one in rounds
        for at in (one.first, one.last)
    }
    name = site.replace("-", " ", 1)
    return Series(name=name, model=name, part="train", x=tuple(points), y=tuple(points.values()))


def _span(one: Rounds) -> str:
    return str(one.first) if one.first == one.last else f"{one.first} - {one.last}"


def _cell(one: Rounds, site: str, t: Texts) -> Any:
    if site in one.counted:
        return one.counted[site]
    if site in one.left_out:
        return t("left out: {reason}", reason=shown(one.left_out[site]))
    return ""
