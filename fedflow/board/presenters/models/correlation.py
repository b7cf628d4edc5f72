"""HeteroPearson: correlations as heat maps and as pairs, and variance inflation factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.board.language import t
from fedflow.board.presenters.models.decoding import at, number, numbers, objects, texts
from fedflow.board.presenters.models.sections import (
    Cell,
    Column,
    Facts,
    HeatMap,
    NoticeSection,
    Section,
    Table,
)
from fedflow.domain.site import Role

MAP_COLUMNS: Final = 300  #: of a heat map, on a side
PAIRS: Final = 5000  #: in the table of pairs: those that are correlated most
_BUFFER: Final = 10 * PAIRS

Json = Mapping[str, Any]
Matrix = Sequence[Sequence[float]]


def correlation(role: Role, param: Json, meta: Json, choices: Mapping[str, str]) -> list[Section]:
    """Return the inflation factors, the own correlations, and those with the other party."""
    own = texts(param, "names")
    hidden = {
        str(one.get("name")): str(one.get("anonymous", ""))
        for one in objects(param, "anonymous_map")
    }
    pick = choices.get("columns", "").strip()[:200]
    found: list[Section] = [_about(param, own)]
    factors = numbers(param, "local_vif")
    rows = [(name, hidden.get(name, ""), at(factors, i)) for i, name in enumerate(own)]
    found.append(
        Table(
            id="vif",
            title=t("Variance inflation factors") if factors else t("Columns"),
            columns=(
                Column(title=t("Feature")),
                Column(title=t("Anonymous name")),
                Column(title=t("VIF"), numeric=True),
            ),
            rows=rows,
        )
    )
    local = _matrix(param.get("local_corr"), len(own), len(own))
    if local:
        found += _shown("own", t("Correlations within this site"), own, own, local, pick)
    sides = [texts(one, "names") for one in objects(param, "all_names")]
    if len(sides) == 2:
        across = _matrix(param.get("corr"), len(sides[0]), len(sides[1]))
        if across:
            title = t("Correlations between guest and host")
            found += _shown("across", title, sides[0], sides[1], across, pick)
    return found


def _about(param: Json, own: Sequence[str]) -> Facts:
    pairs: list[tuple[str, Cell]] = [(t("Own columns"), len(own))]
    shapes = numbers(param, "shapes")
    if len(shapes) == 2 and all(shape is not None for shape in shapes):
        pairs.append((t("Columns of guest and host"), " × ".join(f"{s:.0f}" for s in shapes if s)))
    return Facts(title=t("Pearson correlations"), pairs=pairs)


def _matrix(values: Any, rows: int, columns: int) -> Matrix:
    """Return a row-major list as rows, empty if it does not fit; what is no number counts as 0."""
    flat = values if isinstance(values, list) else []
    if not columns or len(flat) != rows * columns:
        return []
    return [
        [v if type(v) is float and -2 < v < 2 else (number(v) or 0.0) for v in part]
        for part in (flat[start : start + columns] for start in range(0, len(flat), columns))
    ]


def _shown(
    id_: str, title: str, rows: Sequence[str], columns: Sequence[str], values: Matrix, pick: str
) -> list[Section]:
    """Return a map of at most `MAP_COLUMNS` on a side, and the most correlated pairs of all."""
    chosen_rows, chosen_columns = _picked(rows, pick), _picked(columns, pick)
    found: list[Section] = []
    if len(rows) > MAP_COLUMNS or len(columns) > MAP_COLUMNS:
        text = t(
            "The map shows at most {n} columns of a side; a part of the name picks others.",
            n=MAP_COLUMNS,
        )
        found.append(NoticeSection(text=text))
    if chosen_rows and chosen_columns:
        found.append(
            HeatMap(
                id=id_,
                title=title,
                rows=[rows[i] for i in chosen_rows],
                columns=[columns[j] for j in chosen_columns],
                values=[[values[i][j] for j in chosen_columns] for i in chosen_rows],
            )
        )
    pairs = _pairs(values, same=id_ == "own")
    count = len(rows) * (len(rows) - 1) // 2 if id_ == "own" else len(rows) * len(columns)
    note = t("The {n} most correlated of {m} pairs.", n=PAIRS, m=count) if count > PAIRS else ""
    found.append(
        Table(
            id=f"{id_}-pairs",
            title=t("{title}: pairs", title=title),
            columns=(
                Column(title=t("Feature")),
                Column(title=t("With")),
                Column(title=t("Correlation"), numeric=True),
                Column(title=t("Size"), numeric=True),
            ),
            rows=[(rows[i], columns[j], values[i][j], abs(values[i][j])) for i, j in pairs],
            note=note,
        )
    )
    return found


def _picked(names: Sequence[str], pick: str) -> list[int]:
    """Return the places of the columns to draw: those named so, or else the first ones."""
    wanted = pick.casefold()
    fit = [i for i, name in enumerate(names) if wanted in name.casefold()] if wanted else []
    return (fit or list(range(len(names))))[:MAP_COLUMNS]


def _pairs(values: Matrix, *, same: bool) -> list[tuple[int, int]]:
    """Return the places of the pairs, the most correlated first."""
    best: list[tuple[float, int, int]] = []
    least = -1.0
    for i, row in enumerate(values):
        begin = i + 1 if same else 0
        best += [(-abs(v), i, j) for j, v in enumerate(row[begin:], begin) if abs(v) > least]
        if len(best) > _BUFFER:
            best = sorted(best)[:PAIRS]
            least = -best[-1][0]
    return [(i, j) for _, i, j in sorted(best)[:PAIRS]]
