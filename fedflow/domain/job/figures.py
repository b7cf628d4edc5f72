"""Figures: the few numbers of a component by which people judge its result.

A site takes them from the summary that its component reported, and keeps them with its party job.
So lists of jobs show results without reading metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from fedflow.base.values import dataclass

MOST: Final = 12  #: figures of one component
MOST_OF_JOB: Final = 60
LONGEST: Final = 100  #: characters of a word in a figure

EVALUATION: Final = "evaluation"
CONVERGED: Final = "converged"
ITERATIONS: Final = "iterations"
LOSS: Final = "loss"
ROWS: Final = "rows"  #: that all parties have in common
COLUMNS: Final = "columns"  #: that a selection kept

MEASURES: Final = (
    "auc", "ks", "accuracy", "root_mean_squared_error", "r2_score", "adjusted_rand_score",
    "fowlkes_mallows_score", "jaccard_similarity_score", "davies_bouldin_index",
)  # fmt: skip
"""Measures that become figures, those first by which models are compared first."""
MORE_IS_BETTER: Final = frozenset(
    {"auc", "ks", "accuracy", "precision", "recall", "f1_score", "r2_score", "explained_variance",
     "jaccard_similarity_score", "fowlkes_mallows_score", "adjusted_rand_score"}
)  # fmt: skip
LESS_IS_BETTER: Final = frozenset(
    {"loss", "mean_absolute_error", "mean_squared_error", "median_absolute_error",
     "root_mean_squared_error", "mean_squared_log_error", "davies_bouldin_index"}
)  # fmt: skip
_MEASURES_OF_ONE: Final = 2  #: of one model and part
_PARTS: Final = ("validate", "test", "train")  #: whose scores count first
_COUNTS: Final = (("iters", ITERATIONS), ("iterations", ITERATIONS), ("intersect_num", ROWS))


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number. Of a score, `model` is the component whose predictions were measured, and `part`
    says of which rows: train, validate or test.
    """

    component: str
    name: str  #: a measure of the evaluation, or one of the words of this module
    value: float  #: 1 and 0 for yes and no
    model: str = ""
    part: str = ""

    @property
    def is_score(self) -> bool:
        return bool(self.model)


def figures_of(component: str, module: str, summary: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the figures in a component's summary, whatever that is; at most `MOST`."""
    if module.lower() == EVALUATION:
        found = _scores(component, summary)
    else:
        found = _progress(component, summary)
    return tuple(islice(found, MOST))


def with_figures(
    known: Sequence[Figure], component: str, figures: Sequence[Figure]
) -> tuple[Figure, ...]:
    """Return what is known of a job with new figures of one component in place of its old ones."""
    others = [figure for figure in known if figure.component != component]
    return tuple([*others, *figures][-MOST_OF_JOB:])


def scores(figures: Iterable[Figure], *, model: str = "") -> tuple[Figure, ...]:
    """Return the scores of one model, by default of the last that was evaluated: those of the rows
    that count most, the first measure first.
    """
    found = [figure for figure in figures if figure.is_score]
    wanted = model or (found[-1].model if found else "")
    of_model = [figure for figure in found if figure.model == wanted]
    parts = sorted({figure.part for figure in of_model}, key=_part_order)
    return tuple(figure for figure in of_model if parts and figure.part == parts[0])


def progress(figures: Iterable[Figure], name: str) -> Figure | None:
    """Return the last figure with one of the words of this module, None if there is none."""
    found = [figure for figure in figures if figure.name == name and not figure.is_score]
    return found[-1] if found else None


def _scores(component: str, summary: Mapping[str, Any]) -> Iterator[Figure]:
    """Return the scores of an evaluation, `{model: {part: {measure: value}}}`."""
    for model, parts in _members(summary):
        for part, measures in sorted(_members(parts), key=lambda one: _part_order(one[0])):
            given = dict(_items(measures))
            found = (
                Figure(component=component, name=name, value=value, model=model, part=part)
                for name in MEASURES
                if (value := number(given.get(name))) is not None
            )
            yield from islice(found, _MEASURES_OF_ONE)


def _progress(component: str, summary: Mapping[str, Any]) -> Iterator[Figure]:
    """Return how far a training came, and how many rows or columns are left."""
    if isinstance(summary.get("is_converged"), bool):
        value = float(summary["is_converged"])
        yield Figure(component=component, name=CONVERGED, value=value)
    losses = summary.get("loss_history")
    counted = False
    for key, name in _COUNTS:
        value_of = number(summary.get(key))
        if value_of is not None:
            counted = counted or name == ITERATIONS
            yield Figure(component=component, name=name, value=value_of)
    if isinstance(losses, list) and losses:
        if not counted:
            yield Figure(component=component, name=ITERATIONS, value=float(len(losses)))
        last = number(losses[-1])
        if last is not None:
            yield Figure(component=component, name=LOSS, value=last)
    chosen = summary.get("all")
    kept = number(chosen.get("last_col_nums")) if isinstance(chosen, dict) else None
    if kept is not None:
        yield Figure(component=component, name=COLUMNS, value=kept)


def _part_order(part: str) -> tuple[int, str]:
    return (_PARTS.index(part) if part in _PARTS else len(_PARTS), part)


def _items(value: Any) -> list[tuple[str, Any]]:
    found = value.items() if isinstance(value, Mapping) else ()
    return [(str(name)[:LONGEST], member) for name, member in found]


def _members(value: Any) -> list[tuple[str, Any]]:
    return [(name, member) for name, member in _items(value) if isinstance(member, Mapping)]


def number(value: Any) -> float | None:
    """Return a finite number, None if it is something else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
