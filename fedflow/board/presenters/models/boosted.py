"""HeteroSecureBoost: one of its trees, how important features are, all trees by number.

The guest has all nodes, but of another party's splits only whose they are; a host has its own
splits alone. `visible` has taken away the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.language import t
from fedflow.board.presenters.models.decoding import (
    at,
    chosen,
    items,
    mapping,
    number,
    numbers,
    objects,
    texts,
)
from fedflow.board.presenters.models.sections import (
    Bars,
    Cell,
    ChoiceLink,
    ChoiceSection,
    Column,
    Facts,
    NoticeSection,
    Section,
    SplitNode,
    SplitTree,
    Table,
)
from fedflow.domain.site import Role

LEVELS: Final = 5  #: of splits that one drawing has
BARS: Final = 30  #: at most, of one chart
OPTIONS: Final = 200  #: rounds to choose from, around the chosen one
_NAME: Final = 200  #: characters of a name in a drawing

Json = Mapping[str, Any]
Choices = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Which tree is shown."""

    index: int  #: among all trees
    round: int
    klass: int

    def link(self, text: str, node: int) -> ChoiceLink:
        return ChoiceLink(text=text, choices=self.below(node))

    def below(self, node: int) -> dict[str, str]:
        """Return the choices that draw this tree from a node on."""
        own = {"tree": str(self.round), "label": str(self.klass)}
        return {**own, "node": f"{self.index}-{node}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Node:
    """A node of a tree; children have higher numbers."""

    number: int
    party: str
    column: str | None  #: of an own split
    point: float | None
    missing: str | None  #: the sign of the way that missing values take, of an own split
    children: tuple[int, ...]  #: none of a leaf
    weights: tuple[float, ...]  #: of a leaf; several with vector leaves
    rows: int | None
    gain: float | None


def boosted(role: Role, param: Json, meta: Json, choices: Choices) -> list[Section]:
    """Return the training, the chosen tree, the importances, all trees and names of columns."""
    trees = [mapping(one) for one in items(param, "trees_")]
    width = int(number(param.get("tree_dim")) or 1)
    width = max(1, min(width, len(trees)))
    rounds = -(-len(trees) // width)
    found: list[Section] = [_about(param, meta, rounds, width)]
    if not trees:
        return [*found, NoticeSection(text=t("This site's model has no trees.")), *_names(param)]
    labels = _labels(param, width)
    place = _place(choices, len(trees), width)
    found.append(_rounds(place, rounds))
    if width > 1:
        options = [(str(i), label) for i, label in enumerate(labels)]
        found.append(
            ChoiceSection(
                name="label", label=t("Class"), options=options, chosen=str(place.klass)
            )
        )  # fmt: skip
    if role is Role.HOST:
        found += _own_splits(param, meta, trees, place)
    else:
        found += _tree(param, meta, trees, place, choices)
    found += _host_importances(param, trees) if role is Role.HOST else _importances(param, choices)
    found.append(_all_trees(role, trees, labels))
    return [*found, *_names(param)]


# --- the training ---------------------------------------------------------------------------------


def _about(param: Json, meta: Json, rounds: int, width: int) -> Facts:
    best = number(param.get("best_iteration"))
    losses = items(param, "losses")
    tree, objective = mapping(meta, "tree_meta"), mapping(meta, "objective_meta")
    pairs: list[tuple[str, Cell]] = [
        (t("Rounds"), rounds),
        (t("Trees per round"), width),
        (t("Best iteration"), None if best is None or best < 0 else best),
    ]
    if losses:
        pairs.append((t("Last loss"), number(losses[-1])))
    told = (
        (t("Objective"), objective, "objective"), (t("Strategy"), meta, "boosting_strategy"),
        (t("Learning rate"), meta, "learning_rate"), (t("Rounds at most"), meta, "num_trees"),
        (t("Levels of splits at most"), tree, "max_depth"),
        (t("Number of bins"), mapping(meta, "quantile_meta"), "bin_num"),
        (t("Rows to split at least"), tree, "min_sample_split"),
        (t("Rows of a leaf at least"), tree, "min_leaf_node"),
        (t("Gain at least"), tree, "min_impurity_split"),
        (t("Missing values are used"), meta, "use_missing"),
        (t("Zero counts as missing"), meta, "zero_as_missing"),
        (t("Tolerance"), meta, "tol"),
    )  # fmt: skip
    pairs += [
        (title, part[name])
        for title, part, name in told
        if isinstance(part.get(name), str | int | float | bool)
    ]
    penalties = numbers(tree, "criterion_meta", "criterion_param")
    if penalties:
        pairs.append((t("Penalties of the criterion"), ", ".join(map(_short, penalties))))
    return Facts(title=t("Boosted trees"), pairs=pairs)


def _labels(param: Json, width: int) -> list[str]:
    """Return the classes of a round's trees; a host knows their numbers only."""
    named = texts(param, "classes_")
    return named if len(named) == width else [str(i) for i in range(width)]


def _place(choices: Choices, trees: int, width: int) -> _Place:
    """Return which tree an address asks for, else the first."""
    asked = choices.get("tree", "")
    round_ = int(asked) if asked.isdecimal() and asked.isascii() and len(asked) < 10 else 0
    klass = int(chosen(choices, "label", [str(i) for i in range(width)]))
    index = round_ * width + klass
    if index >= trees:
        index = round_ = klass = 0
    return _Place(index=index, round=round_, klass=klass)


def _rounds(place: _Place, rounds: int) -> ChoiceSection:
    first = max(0, min(place.round - OPTIONS // 2, rounds - OPTIONS))
    shown = range(first, min(rounds, first + OPTIONS))
    return ChoiceSection(
        name="tree",
        label=t("Tree of round"),
        options=[(str(i), str(i)) for i in shown],
        chosen=str(place.round),
    )


# --- one tree -------------------------------------------------------------------------------------


def _tree(
    param: Json, meta: Json, trees: Sequence[Json], place: _Place, choices: Choices
) -> list[Section]:
    """Return a tree as a drawing and a table of its nodes."""
    nodes = _nodes(trees[place.index], _columns(param), meta)
    if not nodes:
        return [NoticeSection(text=t("This tree is damaged, or this site does not have it."))]
    start = choices.get("node", "").removeprefix(f"{place.index}-")
    first = next((n for n in nodes if str(n) == start), min(nodes))
    note = t("The upper way is taken up to the threshold, the lower one above it.")
    if first != min(nodes):
        note = f"{t('From node {n} on.', n=first)} {note}"
    title = t("Tree of round {n}", n=place.round)
    return [
        SplitTree(title=title, root=_drawn(nodes, first, place, LEVELS), note=note),
        _node_table(nodes, place),
    ]


def _nodes(tree: Json, columns: Mapping[str, str], meta: Json) -> dict[int, _Node]:
    """Return the nodes of a whole tree by number; none if it is damaged."""
    points, sides = mapping(tree, "split_maskdict"), mapping(tree, "missing_dir_maskdict")
    counts = mapping(tree, "leaf_count")
    has_missing = meta.get("use_missing") is not False
    found: dict[int, _Node] = {}
    for one in objects(tree, "tree_"):
        own = one.get("id")
        if type(own) is not int or own in found:
            return {}
        key, is_leaf = str(own), one.get("is_leaf") is True
        following = ("left_nodeid", "right_nodeid") if not is_leaf else ()
        children: tuple[Any, ...] = tuple(one.get(name) for name in following)
        if any(type(child) is not int or child <= own for child in children):
            return {}
        is_own = key in points and not is_leaf
        column, point = columns.get(str(one.get("fid"))), number(points.get(key))
        if is_own and (column is None or point is None):
            return {}
        vector = [weight for weight in numbers(one, "mo_weight") if weight is not None]
        weight = number(one.get("weight"))
        found[own] = _Node(
            number=own,
            party=_party(one),
            column=column if is_own else None,
            point=point if is_own else None,
            missing=_way(sides.get(key)) if is_own and has_missing else None,
            children=children,
            weights=tuple(vector or [weight or 0.0]) if is_leaf else (),
            rows=_whole(counts.get(key)) if is_leaf else None,
            gain=number(one.get("gain")) or None,
        )
    if any(child not in found for node in found.values() for child in node.children):
        return {}
    return _counted(found)


def _counted(nodes: Mapping[int, _Node]) -> dict[int, _Node]:
    """Return nodes with the rows of all leaves below each, where they are known."""
    rows: dict[int, int | None] = {}
    found = {}
    for own in sorted(nodes, reverse=True):
        node = nodes[own]
        below = [rows[child] for child in node.children]
        known = [count for count in below if count is not None]
        if below:
            node = replace(node, rows=sum(known) if len(known) == len(below) else None)
        rows[own], found[own] = node.rows, node
    return {own: found[own] for own in sorted(found)}


def _drawn(nodes: Mapping[int, _Node], own: int, place: _Place, levels: int) -> SplitNode:
    """Return a node and what follows it, at most so many levels."""
    node = nodes[own]
    rows = "" if node.rows is None else t("{n} rows", n=f"{node.rows:,}")
    if not node.children:
        text = t("weight {weight}", weight=", ".join(map(_short, node.weights[:3])))
        return SplitNode(look="leaf", text=text, more=rows)
    missing = "" if node.missing is None else t("missing {sign}", sign=node.missing)
    is_own = node.column is not None
    return SplitNode(
        look="own" if is_own else "other",
        text=(node.column or node.party)[:_NAME],
        end=f" ≤ {_short(node.point)}" if is_own else "",
        more=" · ".join(filter(None, (rows, missing))),
        children=[_drawn(nodes, n, place, levels - 1) for n in node.children if levels],
        beyond=None if levels else place.below(own),
    )


def _node_table(nodes: Mapping[int, _Node], place: _Place) -> Table:
    has_gain = any(node.gain is not None for node in nodes.values())
    rows: list[Sequence[Cell]] = []
    for node in nodes.values():
        weight: Cell = at(node.weights, 0)
        if len(node.weights) > 1:
            weight = ", ".join(map(_short, node.weights))
        gain: Sequence[Cell] = [node.gain] if has_gain else ()
        left, right = node.children or (None, None)
        link = place.link(str(node.number), node.number) if node.children else str(node.number)
        party = node.party if node.children else None
        rows.append(
            (link, party, node.column, node.point, node.missing, left, right, weight, node.rows,
             *gain)
        )  # fmt: skip
    columns = [
        Column(title=t("Node")), Column(title=t("Party")), Column(title=t("Feature")),
        Column(title=t("Threshold"), numeric=True), Column(title=t("Missing values")),
        Column(title=t("Node if ≤"), numeric=True), Column(title=t("Node if >"), numeric=True),
        Column(title=t("Weight"), numeric=True), Column(title=t("Rows"), numeric=True),
    ]  # fmt: skip
    if has_gain:
        columns.append(Column(title=t("Gain"), numeric=True))
    return Table(
        id="nodes",
        title=t("Nodes of the tree"),
        columns=columns,
        rows=rows,
        note=t("Features and thresholds of other parties' splits are known to them alone."),
    )


def _own_splits(param: Json, meta: Json, trees: Sequence[Json], place: _Place) -> list[Section]:
    """Return a host's own splits of one tree."""
    tree, columns = trees[place.index], _columns(param)
    points, sides = mapping(tree, "split_maskdict"), mapping(tree, "missing_dir_maskdict")
    has_missing = meta.get("use_missing") is not False
    rows: list[Sequence[Cell]] = []
    for node in objects(tree, "tree_"):
        key = str(node.get("id"))
        column, point = columns.get(str(node.get("fid"))), number(points.get(key))
        if column is None or point is None:
            return [NoticeSection(text=t("This tree is damaged, or this site does not have it."))]
        rows.append((key, column, point, _way(sides.get(key)) if has_missing else None))
    return [
        Table(
            id="own-splits",
            title=t("Own splits in the tree of round {n}", n=place.round),
            columns=(
                Column(title=t("Node")), Column(title=t("Feature")),
                Column(title=t("Threshold"), numeric=True), Column(title=t("Missing values")),
            ),
            rows=rows,
            note=t("Only the guest has the whole tree with its leaves."),
        )
    ]  # fmt: skip


# --- importances ----------------------------------------------------------------------------------


def _importances(param: Json, choices: Choices) -> list[Section]:
    """Return how important the columns of all parties are, by splits or by gain."""
    found: list[tuple[str, str, float | None, float | None]] = []
    for one in objects(param, "feature_importances"):
        first, second = number(one.get("importance")), number(one.get("importance2"))
        splits, gain = (second, first) if one.get("main") == "gain" else (first, second)
        found.append((str(one.get("fullname", "")), _party(one), splits, gain or None))
    if not found:
        return []
    parties = list(dict.fromkeys(party for _, party, *_ in found))
    party = chosen(choices, "party", ["", *parties])
    shown = [one for one in found if party in ("", one[1])]
    measures = ["splits", "gain"] if any(one[3] is not None for one in found) else ["splits"]
    measure = chosen(choices, "measure", measures)
    values = [(name, gain if measure == "gain" else splits) for name, _, splits, gain in shown]
    sections: list[Section] = []
    if len(measures) > 1:
        options = [("splits", t("Number of splits")), ("gain", t("Gain"))]
        sections.append(
            ChoiceSection(
                name="measure", label=t("Importance by"), options=options, chosen=measure,
                anchor="t-importances",
            )
        )  # fmt: skip
    if len(parties) > 1:
        options = [("", t("all")), *((one, one) for one in parties)]
        sections.append(
            ChoiceSection(
                name="party", label=t("Columns of"), options=options, chosen=party,
                anchor="t-importances",
            )
        )  # fmt: skip
    columns = (
        Column(title=t("Feature")), Column(title=t("Party")),
        Column(title=t("Number of splits"), numeric=True), Column(title=t("Gain"), numeric=True),
    )  # fmt: skip
    sections.append(
        Table(
            id="importances",
            title=t("Importance of the features"),
            columns=columns,
            rows=shown,
            note=t("Hosts tell the guest numbers of splits only, under anonymous names."),
        )
    )
    return [*sections, *_greatest(values)]


def _host_importances(param: Json, trees: Sequence[Json]) -> list[Section]:
    """Return how often a host's own columns were split."""
    names, counts = _columns(param), dict[str, int]()
    for tree in trees:
        for node in objects(tree, "tree_"):
            name = names.get(str(node.get("fid")))
            if name is not None:
                counts[name] = counts.get(name, 0) + 1
    rows = sorted(counts.items(), key=lambda one: -one[1])
    columns = (Column(title=t("Feature")), Column(title=t("Number of splits"), numeric=True))
    title = t("Importance of the features")
    table = Table(id="importances", title=title, columns=columns, rows=rows)
    return [table, *_greatest([(name, float(count)) for name, count in rows])]


def _greatest(values: Sequence[tuple[str, float | None]]) -> list[Section]:
    known = sorted(((n, v) for n, v in values if v), key=lambda one: -one[1])
    if not known:
        return []
    note = t("The {n} greatest of {m}.", n=BARS, m=len(known)) if len(known) > BARS else ""
    return [Bars(title=t("Importance by feature"), bars=known[:BARS], note=note)]


# --- all trees, all columns -----------------------------------------------------------------------


def _all_trees(role: Role, trees: Sequence[Json], labels: Sequence[str]) -> Table:
    """Return a row per tree, which leads to it."""
    width, is_host = len(labels), role is Role.HOST
    rows: list[Sequence[Cell]] = []
    for index, tree in enumerate(trees):
        place = _Place(index=index, round=index // width, klass=index % width)
        link = ChoiceLink(
            text=str(place.round), choices={"tree": str(place.round), "label": str(place.klass)}
        )
        nodes, own = len(items(tree, "tree_")), len(mapping(tree, "split_maskdict"))
        leaves = len(mapping(tree, "leaf_count"))
        klass = [labels[place.klass]] if width > 1 else []
        rest = (own,) if is_host else (leaves, own, max(0, nodes - leaves - own))
        rows.append((link, *klass, *rest))
    own_splits = Column(title=t("Own splits"), numeric=True)
    others = (
        Column(title=t("Leaves"), numeric=True), own_splits,
        Column(title=t("Splits of other parties"), numeric=True),
    )  # fmt: skip
    heads = [Column(title=t("Round")), *([Column(title=t("Class"))] if width > 1 else [])]
    return Table(
        id="trees",
        title=t("All trees"),
        columns=[*heads, *((own_splits,) if is_host else others)],
        rows=rows,
    )


def _names(param: Json) -> list[Section]:
    """Return under which names other parties know the own columns."""
    rows = [
        (str(name), hidden) for hidden, name in mapping(param, "anonymous_name_mapping").items()
    ]
    if not rows:
        return []
    columns = (Column(title=t("Feature")), Column(title=t("Anonymous name")))
    return [Table(id="names", title=t("Names of the columns"), columns=columns, rows=rows)]


# --- values ---------------------------------------------------------------------------------------


def _columns(param: Json) -> dict[str, str]:
    return {key: str(name) for key, name in mapping(param, "feature_name_fid_mapping").items()}


def _party(one: Json) -> str:
    return str(one.get("sitename", "")).replace(":", " ", 1)[:_NAME]


def _way(side: Any) -> str | None:
    """Return the sign of a way, by FATE's number of it."""
    return {-1: "≤", 1: ">"}.get(side) if type(side) is int else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.5g}"
