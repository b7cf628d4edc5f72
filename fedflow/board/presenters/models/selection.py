"""HeteroFeatureSelection: the way of every column through the filters."""

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
    objects,
    texts,
)
from fedflow.board.presenters.models.sections import (
    Cell,
    ChoiceSection,
    Column,
    Dropped,
    Facts,
    Section,
    Table,
)
from fedflow.domain.site import Role

Json = Mapping[str, Any]


def selection(role: Role, param: Json, meta: Json, choices: Mapping[str, str]) -> list[Section]:
    """Return a row per column of a party with what each filter made of it."""
    hosts = objects(param, "host_col_names") if role is Role.GUEST else []
    keys = ["own", *(str(i) for i in range(len(hosts)))]
    party = chosen(choices, "party", keys)
    steps = objects(param, "results")
    filters = objects(meta, "filter_metas")
    own = _own_path(param, steps)
    found: list[Section] = [_counts(param, own, steps)]
    if hosts:
        names = [t("this site"), *(f"host {host.get('party_id', '')}" for host in hosts)]
        options = list(zip(keys, names, strict=True))
        found.append(
            ChoiceSection(name="party", label=t("Columns of"), options=options, chosen=party)
        )
    if party == "own":
        hidden = mapping(param, "col_name_to_anonym_dict")
        rows = [(name, str(hidden.get(name, "")), *cells) for name, cells in own.items()]
        heads: Sequence[Column] = (Column(title=t("Feature")), Column(title=t("Anonymous name")))
    else:
        theirs = _host_path(hosts[int(party)], int(party), steps)
        rows = [(name, *cells) for name, cells in theirs.items()]
        heads = (Column(title=t("Feature")),)
    titles = [_title(step, at(filters, i)) for i, step in enumerate(steps)]
    note = t("Struck out: the filter removed the column. Later filters do not see it.")
    found.append(
        Table(
            id="path",
            title=t("The way through the filters"),
            columns=(
                *heads,
                *(Column(title=title, numeric=True) for title in titles),
                Column(title=t("Kept")),
            ),
            rows=rows,
            note=note,
        )
    )
    return found


def _counts(param: Json, own: Mapping[str, Sequence[Cell]], steps: Sequence[Json]) -> Facts:
    kept = sum(1 for cells in own.values() if cells and cells[-1] is True)
    pairs: list[tuple[str, Cell]] = [
        (t("Own columns"), len(own)),
        (t("Kept"), kept),
        (t("Filters"), len(steps)),
    ]
    for number_, host in enumerate(objects(param, "host_col_names")):
        path = _host_path(host, number_, steps)
        left = sum(1 for cells in path.values() if cells[-1] is True)
        name = str(host.get("party_id", ""))
        pairs.append((t("Kept of host {party}", party=name), f"{left} / {len(path)}"))
    return Facts(title=t("Selection"), pairs=pairs)


def _title(step: Json, about: Any) -> str:
    """Return a filter's name with what it compares."""
    name = str(step.get("filter_name", ""))
    metric, threshold = mapping(about).get("metrics"), number(mapping(about).get("threshold"))
    if not metric:
        return name
    return f"{name} ({metric})" if threshold is None else f"{name} ({metric}, {threshold:g})"


def _own_path(param: Json, steps: Sequence[Json]) -> dict[str, tuple[Cell, ...]]:
    names = texts(param, "header") or texts(param, "col_names")
    left = mapping(param, "final_left_cols", "left_cols")
    parts = [(mapping(s, "feature_values"), mapping(s, "left_cols", "left_cols")) for s in steps]
    return {name: (*_cells(name, parts), left.get(name) is True) for name in names}


def _host_path(host: Json, place: int, steps: Sequence[Json]) -> dict[str, tuple[Cell, ...]]:
    parts = [
        (
            mapping(at(items(step, "host_feature_values"), place), "feature_values"),
            mapping(at(items(step, "host_left_cols"), place), "left_cols"),
        )
        for step in steps
    ]
    found = {}
    for name in texts(host, "col_names"):
        cells = _cells(name, parts)
        found[name] = (*cells, not any(isinstance(cell, Dropped) for cell in cells))
    return found


def _cells(name: str, parts: Sequence[tuple[Json, Json]]) -> list[Cell]:
    """Return a column's value at every filter that looked at it, struck out where it went."""
    cells: list[Cell] = []
    for values, left in parts:
        value = number(values.get(name))
        if name not in left:
            cells.append(None)
        elif left[name] is True:
            cells.append(t("kept") if value is None else value)
        else:
            cells.append(Dropped(value=t("removed") if value is None else value))
    return cells
