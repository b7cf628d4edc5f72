"""Linear models: HeteroLR, LinR, Poisson, their SSHE kin, LocalBaseline; one or one per class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedflow.board.language import t
from fedflow.board.presenters.models.decoding import chosen, items, mapping, number, objects, texts
from fedflow.board.presenters.models.sections import (
    Bars,
    Cell,
    ChoiceSection,
    Column,
    Facts,
    NoticeSection,
    Section,
    Table,
)
from fedflow.domain.site import Role

BARS: Final = 30  #: at most, of one chart


def weights(
    role: Role, param: Mapping[str, Any], meta: Mapping[str, Any], choices: Mapping[str, str]
) -> list[Section]:
    """Return how far the training came, the weights with the intercept, and the greatest ones."""
    found: list[Section] = []
    part = param
    several = objects(param, "one_vs_rest_result", "completed_models")
    if param.get("need_one_vs_rest") is True and several:
        names = texts(param, "one_vs_rest_result", "one_vs_rest_classes")
        keys = [str(i) for i in range(len(several))]
        label = chosen(choices, "label", keys)
        shown = [(key, names[int(key)] if int(key) < len(names) else key) for key in keys]
        found.append(ChoiceSection(name="label", label=t("Class"), options=shown, chosen=label))
        part = several[int(label)]
    return [*found, _progress(part, meta), *_weights(role, part, meta)]


def _progress(part: Mapping[str, Any], meta: Mapping[str, Any]) -> Facts:
    best = number(part.get("best_iteration"))
    losses = items(part, "loss_history")
    pairs: list[tuple[str, Cell]] = [
        (t("Iterations"), number(part.get("iters"))),
        (t("Converged"), bool(part.get("is_converged"))),
        (t("Best iteration"), None if best is None or best < 0 else best),
    ]
    if losses:
        pairs.append((t("Last loss"), number(losses[-1])))
    told = (
        (t("Penalty"), "penalty"), (t("Alpha"), "alpha"), (t("Optimizer"), "optimizer"),
        (t("Learning rate"), "learning_rate"), (t("Tolerance"), "tol"),
    )  # fmt: skip
    pairs += [
        (title, meta[name]) for title, name in told if isinstance(meta.get(name), str | float)
    ]
    return Facts(title=t("Final model"), pairs=pairs)


def _weights(role: Role, part: Mapping[str, Any], meta: Mapping[str, Any]) -> list[Section]:
    given = mapping(part, "weight")
    hidden = mapping(part, "encrypted_weight")
    known = {str(name): number(value) for name, value in given.items()}
    if not known:
        return [_unknown(len(hidden))]
    has_intercept = role is Role.GUEST or number(part.get("intercept")) not in (None, 0.0)
    intercept = number(part.get("intercept"))
    rows: list[tuple[Cell, ...]] = list(known.items())
    if has_intercept and mapping(meta).get("fit_intercept") is not False:
        rows.append((t("(intercept)"), intercept))
    sizes = [(name, value) for name, value in known.items() if value]
    sizes.sort(key=lambda one: -abs(one[1]))
    found: list[Section] = [
        Table(
            id="weights",
            title=t("Weights"),
            columns=(Column(title=t("Feature")), Column(title=t("Weight"), numeric=True)),
            rows=rows,
        )
    ]
    if sizes:
        note = t("The {n} greatest of {m} weights.", n=BARS, m=len(known))
        found.append(
            Bars(
                title=t("Weights by size"),
                bars=sizes[:BARS],
                note=note if len(sizes) > BARS else "",
            )
        )
    return found


def _unknown(encrypted: int) -> NoticeSection:
    if encrypted:
        return NoticeSection(
            text=t(
                "This site's {n} weights are encrypted under the guest's key: it does not know"
                " them itself.",
                n=encrypted,
            )
        )
    return NoticeSection(text=t("This site's model has no weights."))
