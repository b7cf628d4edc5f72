"""Boosted trees as the board shows them: trained by the real component at both parties."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import pytest

from fedflow.board.presenters.metric_groups import metric_groups
from fedflow.board.presenters.models.boosted import LEVELS, OPTIONS
from fedflow.board.presenters.models.registry import sections_of
from fedflow.board.presenters.models.sections import (
    Bars,
    ChoiceLink,
    ChoiceSection,
    Facts,
    NoticeSection,
    Section,
    SplitNode,
    SplitTree,
    Table,
    plain,
)
from fedflow.board.presenters.models.selected import shown
from fedflow.board.presenters.models.tree_drawing import LETTERS, tree_of
from fedflow.board.presenters.models.visible import own_param
from fedflow.domain.site import Role, Site
from fedflow.sdk import Model
from fedflow.wire import model_json
from tests.board import real_models
from tests.board.real_models import GUEST, GUEST_MARK, HOST, HOST_MARK

pytestmark = pytest.mark.timeout(600)

GUEST_PARAM = "HeteroSecureBoostingTreeGuestParam"
HOST_PARAM = "HeteroSecureBoostingTreeHostParam"


def sections(model: Model, site: Site = GUEST, **choices: str) -> list[Section]:
    found = sections_of(site.role, model.param_name, model.param, model.meta, choices)
    shown(found, choices)
    return found


def at(site: Site, *, classes: int = 2, holes: bool = False, **choices: str) -> list[Section]:
    return sections(real_models.boosted(classes, holes=holes).models[site], site, **choices)


def table(found: list[Section], name: str) -> Table:
    return next(s for s in found if isinstance(s, Table) and s.id == name)


def column(of: Table, title: str) -> list[Any]:
    place = [c.title for c in of.columns].index(title)
    return [plain(row[place]) for row in of.rows]


def drawn(found: list[Section]) -> SplitTree:
    return next(s for s in found if isinstance(s, SplitTree))


def choice(found: list[Section], name: str) -> ChoiceSection:
    return next(s for s in found if isinstance(s, ChoiceSection) and s.name == name)


def leaves(node: SplitNode) -> list[SplitNode]:
    return [leaf for child in node.children for leaf in leaves(child)] or [node]


def text_of(found: list[Section]) -> str:
    return json.dumps([asdict(s) for s in found if is_dataclass(s)], default=str)


# --- trees of a training --------------------------------------------------------------------------


def test_a_guest_sees_its_own_splits_and_whose_the_others_are() -> None:
    model = real_models.boosted(2).models[GUEST]
    stored = model.param["trees_"][1]
    found = at(GUEST, tree="1")
    nodes = table(found, "nodes")
    assert column(nodes, "Node") == [str(node["id"]) for node in stored["tree_"]]
    for row, node in zip(nodes.rows, stored["tree_"], strict=True):
        own, key = dict(zip((c.title for c in nodes.columns), row, strict=True)), str(node["id"])
        if node["is_leaf"]:
            assert (own["Weight"], own["Rows"]) == (node["weight"], stored["leaf_count"][key])
            assert own["Party"] is own["Feature"] is own["Node if ≤"] is None
        elif key in stored["split_maskdict"]:
            assert own["Feature"].startswith(GUEST_MARK)
            assert own["Threshold"] == stored["split_maskdict"][key]
        else:
            assert (own["Party"], own["Feature"], own["Threshold"]) == ("host 10000", None, None)
    root = drawn(found).root
    assert len(leaves(root)) == len(stored["leaf_count"])
    assert root.more == "80 rows"
    assert {leaf.look for leaf in leaves(root)} == {"leaf"}
    assert {"own", "other"} <= looks(root)


def looks(node: SplitNode) -> set[str]:
    return {node.look}.union(*(looks(child) for child in node.children))


def test_where_missing_values_go_is_said_only_if_they_are_used() -> None:
    stored = real_models.boosted(2, holes=True).models[GUEST].param["trees_"][0]
    nodes = table(at(GUEST, holes=True), "nodes")
    signs = {-1: "≤", 1: ">"}
    for number, sign in zip(column(nodes, "Node"), column(nodes, "Missing values"), strict=True):
        assert sign == signs.get(stored["missing_dir_maskdict"].get(number))
    assert set(column(table(at(HOST, holes=True), "own-splits"), "Missing values")) <= {"≤", ">"}
    assert set(column(table(at(GUEST), "nodes"), "Missing values")) == {None}
    assert set(column(table(at(HOST), "own-splits"), "Missing values")) == {None}


@pytest.mark.parametrize("tree", range(2))
def test_a_host_sees_its_own_splits_of_each_tree_and_nothing_of_leaves(tree: int) -> None:
    stored = real_models.boosted(2).models[HOST].param["trees_"][tree]
    found = at(HOST, tree=str(tree))
    splits = table(found, "own-splits")
    assert column(splits, "Node") == list(stored["split_maskdict"])
    assert column(splits, "Threshold") == list(stored["split_maskdict"].values())
    assert all(name.startswith(HOST_MARK) for name in column(splits, "Feature"))
    assert not [s for s in found if isinstance(s, SplitTree)]
    counts = column(table(found, "trees"), "Own splits")
    assert counts[tree] == len(splits.rows)
    assert sum(column(table(found, "importances"), "Number of splits")) == sum(counts)
    assert column(table(found, "names"), "Anonymous name")[0] == "host_10000_x0"


def test_with_several_classes_a_round_has_a_tree_for_each() -> None:
    model = real_models.boosted(3).models[GUEST]
    for index in range(6):
        found = at(GUEST, classes=3, tree=str(index // 3), label=str(index % 3))
        assert [text for _, text in choice(found, "label").options] == ["0", "1", "2"]
        assert choice(found, "label").chosen == str(index % 3)
        assert [value for value, _ in choice(found, "tree").options] == ["0", "1"]
        stored = model.param["trees_"][index]
        weights = [w for w in column(table(found, "nodes"), "Weight") if w is not None]
        assert weights == [node["weight"] for node in stored["tree_"] if node["is_leaf"]]
    trees = table(at(GUEST, classes=3), "trees")
    assert column(trees, "Round") == ["0"] * 3 + ["1"] * 3
    assert column(trees, "Class") == ["0", "1", "2"] * 2
    link = trees.rows[4][0]
    assert isinstance(link, ChoiceLink)
    assert link.choices == {"tree": "1", "label": "1"}
    assert table(at(HOST, classes=3, tree="1", label="2"), "own-splits")


def test_leaves_of_several_classes_show_all_weights() -> None:
    model = real_models.boosted(3, multi_mode="multi_output").models[GUEST]
    found = sections(model, GUEST, tree="1")
    assert not [s for s in found if isinstance(s, ChoiceSection) and s.name == "label"]
    stored = [node["mo_weight"] for node in model.param["trees_"][1]["tree_"] if node["is_leaf"]]
    weights = [text for text in column(table(found, "nodes"), "Weight") if text is not None]
    assert [len(text.split(", ")) for text in weights] == [3] * len(stored)
    np.testing.assert_allclose(
        [[float(part) for part in text.split(", ")] for text in weights], stored, rtol=1e-4
    )
    assert {len(leaf.text.split(", ")) for leaf in leaves(drawn(found).root)} == {3}


def test_parameters_of_the_training_are_facts() -> None:
    pairs = dict(next(s for s in at(GUEST) if isinstance(s, Facts)).pairs)
    assert (pairs["Rounds"], pairs["Objective"], pairs["Learning rate"]) == (
        2,
        "cross_entropy",
        0.3,
    )
    assert pairs["Last loss"] == real_models.boosted(2).models[GUEST].param["losses"][-1]
    assert "Last loss" not in dict(next(s for s in at(HOST) if isinstance(s, Facts)).pairs)


# --- importances ----------------------------------------------------------------------------------


def test_importances_are_chosen_by_kind_and_by_party() -> None:
    stored = real_models.boosted(2).models[GUEST].param["feature_importances"]
    found = at(GUEST)
    importances = table(found, "importances")
    assert column(importances, "Feature") == [one["fullname"] for one in stored]
    hosts = [one for one in stored if one["sitename"] == "host:10000"]
    theirs = at(GUEST, party="host 10000")
    assert column(table(theirs, "importances"), "Feature") == [one["fullname"] for one in hosts]
    assert set(column(table(theirs, "importances"), "Gain")) == {None}
    for measure, title in (("splits", "Number of splits"), ("gain", "Gain")):
        (bars,) = [s for s in at(GUEST, measure=measure) if isinstance(s, Bars)]
        values = [value for value in column(importances, title) if value]
        assert [value for _, value in bars.bars] == sorted(values, reverse=True)


# --- metrics --------------------------------------------------------------------------------------


def test_losses_and_measures_after_each_round_are_curves() -> None:
    groups = metric_groups(real_models.boosted(2).metrics[GUEST], plain_text)
    views = {view.key: view for group in groups for view in group.views}
    losses = real_models.boosted(2).models[GUEST].param["losses"]
    (curve,) = views["loss"].series  # type: ignore[union-attr]
    assert (curve.x, list(curve.y)) == ((0.0, 1.0), losses)
    titles = {view.title for key, view in views.items() if key.startswith("iterations")}
    assert titles == {"auc over iterations", "ks over iterations"}


@pytest.mark.parametrize("site", [GUEST, HOST])
def test_seconds_of_each_round_are_a_curve_at_each_party(site: Site) -> None:
    groups = metric_groups(real_models.boosted(2).metrics[site], plain_text)
    (view,) = next(group for group in groups if group.key == "round-seconds").views
    whole, *parts = view.series  # type: ignore[union-attr]
    names = {"encryption", "opening"} if site is GUEST else {"sums", "packing"}
    assert {part.name for part in parts} == {"exchange", *names}
    assert all(part.x == whole.x == (0.0, 1.0) for part in parts)
    assert all(seconds is not None and seconds >= 0 for part in parts for seconds in part.y)
    spent = np.sum([part.y for part in parts], axis=0)
    assert (spent > 0).all()
    assert (spent <= np.array(whole.y) + 0.01).all()


@pytest.mark.parametrize("site", [GUEST, HOST])
def test_seconds_of_each_tree_and_level_are_curves_at_each_party(site: Site) -> None:
    groups = metric_groups(real_models.boosted(3).metrics[site], plain_text)
    (view,) = next(group for group in groups if group.key == "tree-seconds").views
    curves = {one.name: one for one in view.series}  # type: ignore[union-attr]
    assert set(curves) == {"tree", "level_0", "level_1", "level_2"}
    assert curves["tree"].x == curves["level_0"].x == tuple(map(float, range(6)))
    spent = sum(sum(filter(None, one.y)) for name, one in curves.items() if name != "tree")
    assert 0 < spent <= sum(filter(None, curves["tree"].y)) + 0.01


def plain_text(text: str, /, **values: Any) -> str:
    return text.format(**values) if values else text


# --- models of any content ------------------------------------------------------------------------


def changed(**changes: Any) -> Model:
    """Return the guest's model with other values in the first node of its first tree."""
    model = real_models.boosted(2).models[GUEST]
    param = copy.deepcopy(dict(model.param))
    param["trees_"][0]["tree_"][0].update(changes)
    return Model(
        meta_name=model.meta_name, param_name=model.param_name, meta=model.meta, param=param
    )


@pytest.mark.parametrize(
    "changes",
    [{"left_nodeid": 0}, {"right_nodeid": 900}, {"left_nodeid": None}, {"id": 3}, {"id": "x"},
     {"left_nodeid": 1.5}],
    ids=str,
)  # fmt: skip
def test_a_damaged_tree_is_a_sentence(changes: Mapping[str, Any]) -> None:
    found = sections(changed(**changes))
    (notice,) = [s for s in found if isinstance(s, NoticeSection)]
    assert notice.text.startswith("This tree is damaged")
    assert not [s for s in found if isinstance(s, SplitTree)]
    assert len(table(found, "trees").rows) == 2
    assert drawn(sections(changed(**changes), tree="1"))


def test_an_own_split_of_no_column_is_damaged_at_both_parties() -> None:
    for site in (GUEST, HOST):
        model = real_models.boosted(2).models[site]
        param = {**model.param, "feature_name_fid_mapping": {}}
        found = sections_of(site.role, model.param_name, param, model.meta, {})
        assert [s for s in found if isinstance(s, NoticeSection)]


def test_a_model_without_trees_is_a_sentence() -> None:
    for name, role in ((GUEST_PARAM, Role.GUEST), (HOST_PARAM, Role.HOST)):
        found = sections_of(role, name, {"trees_": 7}, {}, {})
        assert [s.text for s in found if isinstance(s, NoticeSection)] == [
            "This site's model has no trees."
        ]


RUBBISH: list[Any] = [
    {"trees_": [None, 3, {}]}, {"trees_": [{"tree_": 5}], "tree_dim": "x"},
    {"trees_": [{"tree_": [{"id": 0, "is_leaf": True}]}], "tree_dim": 7},
    {"trees_": [{"tree_": [{"id": 0, "is_leaf": True, "mo_weight": [1, "x", 2]}]}]},
    {"trees_": [{"tree_": [{"id": 0}], "split_maskdict": {"0": "x"}}], "tree_dim": 1e9},
    {"trees_": [{"tree_": [{"id": True}], "leaf_count": [1]}], "feature_importances": [{}, 1]},
    {"trees_": [{}], "feature_importances": [{"main": 3, "importance": "x"}], "classes_": {}},
    {"trees_": [{}], "anonymous_name_mapping": {"a": None}, "feature_name_fid_mapping": [1]},
]  # fmt: skip


@pytest.mark.parametrize("rubbish", RUBBISH, ids=range(len(RUBBISH)))
def test_what_is_no_such_model_breaks_nothing(rubbish: Any) -> None:
    for name in (GUEST_PARAM, HOST_PARAM):
        for role in Role:
            for asked in ({}, {"tree": "1", "label": "1", "node": "0-0"}, {"tree": "9" * 30}):
                found = sections_of(role, name, rubbish, {"tree_meta": 3, "tol": []}, asked)
                shown(found, asked)


@pytest.mark.parametrize("site", [GUEST, HOST])
def test_fate_boards_endpoint_has_its_fields(site: Site) -> None:
    model = real_models.boosted(2).models[site]
    seen = model_json.shown(dict(own_param(site.role, model.param_name, model.param, model.meta)))
    expected = {"trees", "treeDim", "treePlan", "featureNameFidMapping", "anonymousNameMapping"}
    if site == GUEST:
        expected |= {"classes", "featureImportances"}
    assert expected <= seen.keys()
    node = {"id", "sitename", "fid", "bid", "weight", "isLeaf", "leftNodeid", "rightNodeid",
            "missingDir"}  # fmt: skip
    for tree in seen["trees"]:
        assert {"tree", "splitMaskdict", "missingDirMaskdict"} <= tree.keys()
        assert all(node <= one.keys() for one in tree["tree"])
    assert next(iter(seen["anonymousNameMapping"])) == f"{site.role.value}_{site.party_id}_x0"


def test_a_share_with_too_much_in_it_shows_no_more() -> None:
    """Whatever a component stores: a host sees no leaf, a guest no threshold of a host."""
    guest, host = (real_models.boosted(2).models[site] for site in (GUEST, HOST))
    seen = own_param(Role.HOST, HOST_PARAM, guest.param, guest.meta)
    assert not {"losses", "init_score", "feature_importances", "classes_", "progress"} & set(seen)
    for tree in seen["trees_"]:
        assert tree["leaf_count"] == {}
        assert all(node["weight"] == 0.0 and not node["is_leaf"] for node in tree["tree_"])
    theirs = host.param["trees_"][0]
    param = copy.deepcopy(dict(guest.param))
    param["trees_"][0]["split_maskdict"].update(theirs["split_maskdict"])
    told = text_of(sections_of(Role.GUEST, GUEST_PARAM, param, guest.meta, {}))
    assert not [point for point in theirs["split_maskdict"].values() if repr(point) in told]


# --- large models ---------------------------------------------------------------------------------


def deep(levels: int) -> dict[str, Any]:
    """Return a whole tree of host's splits so many levels deep."""
    inner = 2**levels - 1
    nodes = [
        {"id": i, "sitename": "host:10000", "left_nodeid": 2 * i + 1, "right_nodeid": 2 * i + 2}
        for i in range(inner)
    ]
    ends = [{"id": i, "is_leaf": True, "weight": 1.0} for i in range(inner, 2 * inner + 1)]
    return {
        "tree_": [*nodes, *ends],
        "leaf_count": {str(i): 1 for i in range(inner, 2 * inner + 1)},
    }


def test_a_deep_tree_is_drawn_from_any_node_on() -> None:
    param = {"trees_": [deep(10)], "tree_dim": 1}
    root = drawn(sections_of(Role.GUEST, GUEST_PARAM, param, {}, {})).root
    ends = leaves(root)
    assert len(ends) == 2**LEVELS
    assert root.more == "1,024 rows"
    following = ends[-1].beyond
    assert following is not None
    asked = {"tree": "0", "label": "0", "node": f"0-{2 ** (LEVELS + 1) - 2}"}
    assert following == asked
    last = drawn(sections_of(Role.GUEST, GUEST_PARAM, param, {}, following))
    assert last.root.more == f"{2 ** (10 - LEVELS):,} rows"
    assert "From node 62 on." in last.note
    assert {leaf.look for leaf in leaves(last.root)} == {"leaf"}
    again = drawn(sections_of(Role.GUEST, GUEST_PARAM, param, {}, {"node": "1-62"}))
    assert again.root == root


def test_long_names_are_cut_and_thresholds_never_are() -> None:
    for name in ("a" * 300, "收入" * 100):
        node = SplitNode(look="own", text=name, end=" ≤ 0.12345")
        (box,) = tree_of(SplitTree(title="", root=node)).boxes
        assert box.lines[0].endswith("… ≤ 0.12345")
        assert len(box.lines[0]) <= LETTERS
        assert name in box.title


def test_of_many_rounds_those_around_the_chosen_one_are_offered() -> None:
    param = {"trees_": [deep(1)] * 3000, "tree_dim": 1}
    for asked, first in (("0", 0), ("1500", 1400), ("2999", 2800)):
        found = sections_of(Role.GUEST, GUEST_PARAM, param, {}, {"tree": asked})
        options = choice(found, "tree").options
        assert (len(options), options[0][0]) == (OPTIONS, str(first))
        assert choice(found, "tree").chosen == asked
    assert len(table(found, "trees").rows) == 3000
