"""Headline figures of a job as tiles: was it good, did it converge, how many rows were there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedflow.base.values import dataclass
from fedflow.board.language import t
from fedflow.domain.job.figures import (
    COLUMNS,
    CONVERGED,
    ITERATIONS,
    LOSS,
    ROWS,
    Figure,
    progress,
    scores,
)

_SHORT: Final = {
    "auc": "AUC", "ks": "KS", "root_mean_squared_error": "RMSE", "r2_score": "R²",
    "davies_bouldin_index": "DBI", "adjusted_rand_score": "ARI",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """One number with its label; `kind` is that of a status, empty for none."""

    label: str
    value: str
    detail: str = ""
    kind: str = ""
    component: str = ""  #: that told it


def tiles(figures: Sequence[Figure]) -> tuple[Tile, ...]:
    """Return the tiles of a job: scores of its last model, convergence, rows, columns kept."""
    found = [_score(figure, figures) for figure in scores(figures)]
    found += [tile for tile in (_converged(figures), _count(figures, ROWS)) if tile is not None]
    kept = _count(figures, COLUMNS)
    return tuple([*found, kept] if kept is not None else found)


def headline(figures: Sequence[Figure]) -> str:
    """Return the one figure by which a list shows a job, empty if there is none."""
    found = scores(figures)
    if found:
        return f"{measure(found[0].name)} {significant(found[0].value)}"
    converged = _converged(figures)
    if converged is not None:
        return converged.detail or converged.value
    rows, columns = progress(figures, ROWS), progress(figures, COLUMNS)
    if rows is not None:
        return t("{n} rows", n=f"{int(rows.value):,}")
    return "" if columns is None else t("{n} columns", n=f"{int(columns.value):,}")


def by_component(figures: Sequence[Figure]) -> dict[str, str]:
    """Return the one figure by which each component is shown."""
    names = dict.fromkeys(figure.component for figure in figures)
    return {name: headline([f for f in figures if f.component == name]) for name in names}


def measure(name: str) -> str:
    """Return how people write a measure."""
    return _SHORT.get(name, name.replace("_", " ").capitalize())


def significant(value: float) -> str:
    """Return a number with four significant digits."""
    return f"{value:.4g}"


def _score(figure: Figure, figures: Sequence[Figure]) -> Tile:
    others = [
        f"{part_word(other.part)} {significant(other.value)}"
        for other in figures
        if other.is_score and other.name == figure.name and other.model == figure.model
        and other.part != figure.part
    ]  # fmt: skip
    return Tile(
        label=f"{measure(figure.name)} · {part_word(figure.part)}",
        value=significant(figure.value),
        detail=", ".join(others),
        component=figure.component,
    )


def part_word(part: str) -> str:
    """Return which rows a score is of."""
    words = {"train": t("train"), "validate": t("validate"), "test": t("test")}
    return words.get(part, part)


def _converged(figures: Sequence[Figure]) -> Tile | None:
    found, counted = progress(figures, CONVERGED), progress(figures, ITERATIONS)
    loss = progress(figures, LOSS)
    count = "" if counted is None else t("{n} iterations", n=int(counted.value))
    last = "" if loss is None else t("loss {value}", value=significant(loss.value))
    told = [text for text in (count, last) if text]
    if found is not None:
        return Tile(
            label=t("Converged"),
            value=t("yes") if found.value else t("no"),
            detail=", ".join(told),
            kind="" if found.value else "warn",
            component=found.component,
        )
    of = counted or loss
    if of is None:
        return None
    return Tile(
        label=t("Training"), value=told[0], detail=", ".join(told[1:]), component=of.component
    )


def _count(figures: Sequence[Figure], name: str) -> Tile | None:
    found = progress(figures, name)
    if found is None:
        return None
    label = t("Rows in common") if name == ROWS else t("Columns kept")
    return Tile(label=label, value=f"{int(found.value):,}", component=found.component)
