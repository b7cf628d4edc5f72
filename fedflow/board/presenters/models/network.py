"""Neural networks: how far the training came, and the layers. The numbers are not shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedflow.board.language import t
from fedflow.board.presenters.models.decoding import items, number, texts
from fedflow.board.presenters.models.sections import Cell, Column, Facts, Section, Table
from fedflow.domain.site import Role

Json = Mapping[str, Any]

MOST_CHARACTERS = 200  #: of a layer's arguments


def network(role: Role, param: Json, meta: Json, choices: Mapping[str, str]) -> list[Section]:
    """Return the epochs and losses of a training, and a row per layer."""
    best = number(param.get("best_epoch"))
    losses = items(param, "loss_history")
    pairs: list[tuple[str, Cell]] = [
        (t("Epochs"), number(param.get("epoch_idx"))),
        (t("Converged"), bool(param.get("converge_status"))),
        (t("Best epoch"), None if best is None or best < 0 else best),
        (t("Columns"), len(texts(param, "header"))),
    ]
    if losses:
        pairs.append((t("Last loss"), number(losses[-1])))
    for title, name, key in (
        (t("Loss function"), "loss_func_define", "loss_fn"),
        (t("Optimizer"), "optimizer_define", "optimizer"),
    ):
        pairs.append((title, str(_define(meta, name).get(key) or "-")))
    layers = [
        (name, str(layer.get("layer") or "-"), _arguments(layer))
        for name, layer in _define(meta, "nn_define").items()
        if isinstance(layer, Mapping)
    ]
    heads = (t("Layer"), t("Kind"), t("Arguments"))
    return [
        Facts(title=t("Final model"), pairs=pairs),
        Table(
            id="layers",
            title=t("Layers"),
            columns=[Column(title=title) for title in heads],
            rows=layers,
        ),
    ]


def _define(meta: Json, name: str) -> Json:
    """Return what a definition in JSON says, nothing if it is none."""
    told = texts(meta, name)
    try:
        found = json.loads(told[0]) if told else {}
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _arguments(layer: Json) -> str:
    given = [
        f"{name}={value}"
        for name, value in layer.items()
        if name not in {"layer", "initializer"} and value is not None
    ]
    return ", ".join(given)[:MOST_CHARACTERS]
