"""Stepwise selection: what each step chose, as the training recorded it with its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedflow.board.language import t
from fedflow.board.presenters.models.decoding import (
    at,
    chosen,
    items,
    mapping,
    number,
    texts,
)
from fedflow.board.presenters.models.sections import (
    Cell,
    ChoiceSection,
    Column,
    Facts,
    Section,
    Table,
)
from fedflow.domain.records import Metric
from fedflow.domain.site import Role

Json = Mapping[str, Any]
_KIND = "STEPWISE"


def stepwise(role: Role, metrics: Sequence[Metric], choices: Mapping[str, str]) -> list[Section]:
    """Return all steps, and the columns and weights of the chosen one; nothing at the arbiter."""
    steps = {m.name: m.meta for m in metrics if m.meta.get("metric_type") == _KIND}
    if not steps or role is Role.ARBITER:
        return []
    names = list(steps)
    step = chosen(choices, "step", list(reversed(names)))
    score = str(steps[names[0]].get("score_name", "")).upper() or t("Criterion")
    rows = [
        (
            name,
            number(one.get("number_in")),
            number(one.get("current_ic_val")),
            number(one.get("loss")),
        )
        for name, one in steps.items()
    ]
    titles = (t("Columns in"), score, t("Loss"))
    table = Table(
        id="steps",
        title=t("Stepwise selection"),
        columns=(Column(title=t("Step")), *(Column(title=one, numeric=True) for one in titles)),
        rows=rows,
    )
    options = [(name, name) for name in names]
    choice = ChoiceSection(name="step", label=t("Step"), options=options, chosen=step)
    return [table, choice, *_of_step(step, steps[step])]


def _of_step(name: str, step: Json) -> list[Section]:
    score = str(step.get("score_name", "")).upper() or t("Criterion")
    pairs: list[tuple[str, Cell]] = [
        (t("Direction"), str(step.get("direction", "-"))),
        (t("Rows"), number(step.get("n_count"))),
        (t("Loss"), number(step.get("loss"))),
        (score, number(step.get("current_ic_val"))),
    ]  # fmt: skip
    rows: list[Sequence[Cell]] = []
    for key, mask in (
        ("guest_features_anonym", "guest_mask"), ("host_features_anonym", "host_mask")
    ):  # fmt: skip
        chosen_ones = items(step, mask)
        rows += [(one, at(chosen_ones, i) is True) for i, one in enumerate(texts(step, key))]
    weights = mapping(step, "weight")
    coefficients: list[Sequence[Cell]] = [
        (str(one), number(value)) for one, value in weights.items()
    ]
    if weights:
        coefficients.append((t("(intercept)"), number(step.get("intercept"))))
    found: list[Section] = [
        Facts(title=t("Fit of {step}", step=name), pairs=pairs),
        Table(
            id="step-columns",
            title=t("Columns of both sides after {step}", step=name),
            columns=(Column(title=t("Feature")), Column(title=t("In the model"))),
            rows=rows,
        ),
    ]
    if coefficients:
        columns = (Column(title=t("Feature")), Column(title=t("Weight"), numeric=True))
        title = t("Own weights after {step}", step=name)
        found.append(Table(id="step-weights", title=title, columns=columns, rows=coefficients))
    return found
