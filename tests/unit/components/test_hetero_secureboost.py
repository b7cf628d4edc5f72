"""HeteroSecureBoost: the trees of the joined table, grown by several parties."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.components.boosting import rounds as boosting_rounds
from fedflow.components.boosting.bins import BinnedColumns
from fedflow.components.boosting.losses import BinaryCrossEntropy, CrossEntropy, regression_loss
from fedflow.domain.site import Role, Site
from fedflow.testing.federation import LocalFederation
from tests.unit.components.boosting_parties import (
    GUEST,
    HOST,
    HOST_2,
    Twin,
    data_of,
    models_of,
    of_features,
    predictions,
    run,
    trees_of,
    with_weights,
)
from tests.unit.components.hetero_lr_parties import Data, with_labels, with_numbers

pytestmark = pytest.mark.timeout(120)

HOST_3 = Site(Role.HOST, "10003")  # type: ignore[arg-type]
TWO = {GUEST: 2, HOST: 3}
THREE = {GUEST: 2, HOST: 2, HOST_2: 2}
BINARY = BinaryCrossEntropy()


def drawn_rows(first: Any, number: int, top_rate: float, other_rate: float) -> Any:
    """Return the rows that GOSS takes, and how often each row's derivatives count."""
    sizes = np.abs(first).sum(axis=1)
    order = sorted(range(len(sizes)), key=lambda row: -sizes[row])
    top, other = int(len(order) * top_rate), int(len(order) * other_rate)
    draws = boosting_rounds._draws(_at(GUEST), number, boosting_rounds._GOSS)
    few = draws.choice(np.array(order[top:]), other, replace=False).tolist()
    factors = np.ones(len(order))
    factors[few] = (1 - top_rate) / other_rate
    return sorted(order[:top] + few), factors


def _at(site: Site, rate: float = 1.0) -> Any:
    return SimpleNamespace(
        site=site, params=SimpleNamespace(random_seed=100, subsample_feature_rate=rate)
    )


def drawn_columns(widths: Mapping[Site, int], number: int, klass: int, rate: float) -> Any:
    """Return per party the columns that a tree may split."""
    return [
        boosting_rounds.drawn_columns(
            _at(site, rate), SimpleNamespace(points=[0] * width), number=number, klass=klass
        )
        for site, width in widths.items()
    ]


def grown(
    data: Data,
    loss: Any,
    twin: Twin,
    *,
    rounds: int = 2,
    goss: tuple[float, float] | None = None,
    rate: float = 1.0,
    secure: int = 0,
    vector: bool = False,
) -> Any:
    """Return the twin's trees and scores after so many rounds."""
    twin.cut(data.features)
    scores = np.tile(loss.start(data.labels), (len(data.labels), 1))
    trees = []
    sites = dict(zip(data.tables, twin.widths, strict=True))
    for number in range(rounds):
        g, h = loss.gradients(data.labels, scores)
        if data.weights is not None:
            share = data.weights / data.weights.mean()
            g, h = g * share[:, None], h * share[:, None]
        rows: Sequence[int] = range(len(g))
        if goss:
            rows, factors = drawn_rows(g, number, *goss)
            g, h = g * factors[:, None], h * factors[:, None]
        found = []
        for k in range(1 if vector else loss.width):
            levels = dict.fromkeys(range(20), (0,)) if number < secure else twin.levels
            columns = drawn_columns(sites, number, k, rate) if rate < 1 else ()
            now = replace(twin, columns=columns, levels=levels)
            own = slice(None) if vector else slice(k, k + 1)
            found.append((own, now.tree(data.features, g[:, own], h[:, own], rows)))
        for own, tree in found:
            weights = twin.scores(tree, data.features).reshape(len(g), -1)
            scores[:, own] += twin.learning_rate * weights
        trees += [tree for _, tree in found]
    return trees, scores


def check(
    data: Data,
    tmp_path: Path,
    *,
    loss: Any = BINARY,
    twin: Mapping[str, Any] | None = None,
    how: Mapping[str, Any] | None = None,
    **params: Any,
) -> list[Any]:
    """Train, compare with the twin node by node and score by score, and return the trees."""
    widths = [len([c for c in t.column_names if c[0] == "x"]) for t in data.tables.values()]
    federation = LocalFederation(tuple(data.tables))
    results = run(data, tmp_path, federation=federation, **params)
    assert_grown(data, results, loss, Twin(widths, **(twin or {})), how or {})
    assert federation.unread() == []
    return trees_of(models_of(results))


def assert_grown(data: Data, results: Any, loss: Any, twin: Twin, how: Mapping[str, Any]) -> None:
    trees = trees_of(models_of(results))
    expected, scores = grown(data, loss, twin, **how)
    assert trees == expected
    rows = predictions(results)
    made = rows["predict_score"].to_numpy()
    wanted = loss.mean(scores)
    if loss.width > 1:
        made = np.array([list(one.values()) for one in detail(rows)])
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-12)


def detail(rows: Any) -> list[dict[str, float]]:
    return [ast.literal_eval(text) for text in rows["predict_detail"].to_pylist()]


def depth_of(tree: Any) -> int:
    return 0 if tree.left is None else 1 + max(depth_of(tree.left), depth_of(tree.right))


def parties_of(tree: Any) -> set[int]:
    return (
        set()
        if tree.left is None
        else ({tree.party} | parties_of(tree.left) | parties_of(tree.right))
    )


def all_parties(trees: Any) -> set[int]:
    return set().union(*map(parties_of, trees))


# --- parties and columns --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "widths",
    [
        TWO,
        THREE,
        {GUEST: 1, HOST: 2, HOST_2: 2, HOST_3: 2},
        {GUEST: 0, HOST: 3},
        {GUEST: 2, HOST: 0},
        {GUEST: 1, HOST: 0, HOST_2: 2},
    ],
)
@pytest.mark.parametrize("values", [0, 3])
def test_trees_are_those_of_the_joined_table(widths: Any, values: int, tmp_path: Path) -> None:
    trees = check(data_of(widths=widths, values=values), tmp_path)
    assert set() < all_parties(trees) <= {n for n, w in enumerate(widths.values()) if w}


def test_ties_go_to_the_guest_then_the_first_host_the_lowest_column_and_bin(
    tmp_path: Path,
) -> None:
    plain = data_of(widths={GUEST: 1, HOST: 1}, rows=48, values=4)
    useful, other = plain.features[:, 0], plain.features[:, 1]
    equal = np.column_stack([other, useful, other, useful, useful, 4 - useful, useful])
    data = of_features(equal, {GUEST: 1, HOST: 2, HOST_2: 4}, plain.labels)
    assert all_parties(check(data, tmp_path / "1", num_trees=2)) <= {0, 1}
    everywhere = of_features(equal, {GUEST: 2, HOST: 2, HOST_2: 3}, plain.labels)
    assert all_parties(check(everywhere, tmp_path / "2")) == {0}


def test_constant_and_empty_columns_are_never_split(tmp_path: Path) -> None:
    features = data_of(rows=48, widths={GUEST: 3, HOST: 4}).features
    features[:, [0, 3]] = 7.0
    features[:, [1, 4]] = np.nan
    features[:40, 5] = np.nan
    data = of_features(features, {GUEST: 3, HOST: 4}, (features[:, 6] > 0).astype(int))
    trees = check(data, tmp_path, use_missing=True, learning_rate=0.1, twin={"learning_rate": 0.1})
    assert all_parties(trees) == {1}


def test_a_host_of_constant_columns_offers_nothing(tmp_path: Path) -> None:
    features = data_of(rows=40, widths=TWO).features
    features[:, 2:] = 1.0
    assert all_parties(check(of_features(features, TWO, np.arange(40) % 2), tmp_path)) == {0}


def test_a_table_without_any_split_gives_trees_of_one_leaf(tmp_path: Path) -> None:
    data = of_features(np.ones((40, 2)), {GUEST: 1, HOST: 1}, np.arange(40) % 4 == 0)
    assert [tree.rows for tree in check(data, tmp_path)] == [40, 40]


def test_more_bins_than_values_and_fewer(tmp_path: Path) -> None:
    data = data_of(rows=50)
    many = check(data, tmp_path / "1", bin_num=500, twin={"bins": 500})
    few = check(data, tmp_path / "2", bin_num=2, twin={"bins": 2})
    assert many != few


def test_values_nearer_than_the_tolerance_are_one(tmp_path: Path) -> None:
    features = data_of(rows=40, values=3).features
    features += np.random.default_rng(1).choice([0.0, 3e-9, 9e-9, 2e-8], features.shape)
    check(of_features(features, TWO, data_of(rows=40, values=3).labels), tmp_path)


# --- missing values -------------------------------------------------------------------------------


@pytest.mark.parametrize("older", [True, False])
def test_missing_values_go_the_better_way(older: bool, tmp_path: Path) -> None:
    params: dict[str, Any] = {"use_missing": True}
    data = data_of(missing=0.3, values=6)
    trees = check(data, tmp_path, **(params if older else {"tree_param": params}))
    sides = {node.missing_left for node in nodes_of(trees)}
    assert sides == {True, False}


def nodes_of(trees: Any) -> list[Any]:
    found = [tree for tree in trees if tree.left is not None]
    return found + [n for tree in found for n in nodes_of([tree.left, tree.right])]


def test_zeros_are_missing_values_if_asked_for(tmp_path: Path) -> None:
    data = data_of(missing=0.1, values=4, widths=THREE)
    seen = replace(data, features=np.where(data.features == 0, np.nan, data.features))
    params = {"use_missing": True, "zero_as_missing": True}
    results = run(data, tmp_path, tree_param=params)
    assert_grown(seen, results, BINARY, Twin([2, 2, 2]), {})


def test_zeros_are_values_without_use_missing(tmp_path: Path) -> None:
    check(data_of(values=4), tmp_path, zero_as_missing=True)


# --- losses and weights ---------------------------------------------------------------------------

LOSSES: dict[str, list[float]] = {
    "lse": [],
    "lae": [],
    "huber": [0.8],
    "fair": [0.7],
    "log_cosh": [],
    "tweedie": [1.5],
}


@pytest.mark.parametrize("name", LOSSES)
def test_numbers_are_fitted_with_every_loss(name: str, tmp_path: Path) -> None:
    data = with_numbers(data_of(rows=50), counts=name == "tweedie")
    check(
        data,
        tmp_path,
        loss=regression_loss(name, LOSSES[name]),
        task_type="regression",
        objective_param={"objective": name, "params": LOSSES[name]},
    )


def test_several_classes_have_a_tree_each(tmp_path: Path) -> None:
    data = data_of(values=5)
    third = np.argsort(np.argsort(data.features.sum(axis=1), kind="stable")) // 20
    data = with_labels(data, third.astype(int))
    trees = check(data, tmp_path, loss=CrossEntropy(3))
    assert len(trees) == 6


VECTORS: dict[str, Any] = {"multi_mode": "multi_output", "how": {"vector": True}}


@pytest.mark.parametrize("widths", [TWO, THREE, {GUEST: 0, HOST: 3}])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_vector_leaves_have_a_weight_for_each_class(
    widths: Any, missing: float, tmp_path: Path
) -> None:
    data = with_labels(data_of(widths=widths, missing=missing), [0, 1, 2] * 20)
    trees = check(data, tmp_path, loss=CrossEntropy(3), use_missing=True, **VECTORS)
    assert len(trees) == 2
    leaf = trees[0]
    while leaf.left is not None:
        leaf = leaf.left
    assert len(leaf.weight) == 3


@pytest.mark.parametrize(
    ("params", "twin"),
    [
        ({"tree_param": {"min_child_weight": 4.0}}, {"min_weight": 4.0}),
        ({"tree_param": {"criterion_params": {"l1": 0.5, "l2": 2}}}, {"l1": 0.5, "l2": 2.0}),
        ({"encrypt_param": {"key_length": 2048, "method": "ou"}}, {}),
    ],
)
def test_rules_for_splits_count_all_classes_of_vector_leaves(
    params: Any, twin: Any, tmp_path: Path
) -> None:
    data = with_labels(data_of(values=6), [0, 1, 2, 3] * 15)
    check(data, tmp_path, loss=CrossEntropy(4), twin=twin, **VECTORS, **params)


def test_many_classes_take_several_ciphertexts_of_a_row(tmp_path: Path) -> None:
    data = with_weights(with_labels(data_of(), list(range(15)) * 4))
    goss = {"run_goss": True, "top_rate": 0.4, "other_rate": 0.3}
    how = {"vector": True, "goss": (0.4, 0.3)}
    check(data, tmp_path, loss=CrossEntropy(15), multi_mode="multi_output", how=how, **goss)


def test_two_classes_have_no_vectors(tmp_path: Path) -> None:
    assert check(data_of(), tmp_path / "1", multi_mode="multi_output") == check(
        data_of(), tmp_path / "2"
    )


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_sample_weights_multiply_the_derivatives(rate: float, tmp_path: Path) -> None:
    data = with_weights(data_of())
    trees = check(data, tmp_path / "1", learning_rate=rate, twin={"learning_rate": rate})
    assert trees != check(
        data_of(), tmp_path / "2", learning_rate=rate, twin={"learning_rate": rate}
    )


# --- size of trees --------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 5])
def test_trees_are_as_deep_as_asked_for(depth: int, tmp_path: Path) -> None:
    data = data_of(rows=80)
    labels = np.random.default_rng(3).permutation(data.labels)
    data = of_features(data.features, TWO, labels)
    trees = check(data, tmp_path, tree_param={"max_depth": depth}, twin={"max_depth": depth})
    assert [depth_of(tree) for tree in trees] == [depth, depth]


@pytest.mark.parametrize(
    ("tree_param", "twin"),
    [
        ({"min_leaf_node": 7}, {"min_leaf": 7}),
        ({"min_sample_split": 25}, {"min_rows": 25}),
        ({"min_child_weight": 2.5}, {"min_weight": 2.5}),
        ({"min_impurity_split": 1.5}, {"min_gain": 1.5}),
        ({"criterion_params": [2.0, 0.7]}, {"l2": 2.0, "l1": 0.7}),
        ({"criterion_params": [0.5]}, {"l2": 0.5}),
        ({"criterion_params": {"l1": 0.4, "l2": 0.0}}, {"l2": 0.0, "l1": 0.4}),
    ],
)
def test_rules_of_splits_and_leaves(tree_param: Any, twin: Any, tmp_path: Path) -> None:
    data = data_of(values=7)
    trees = check(data, tmp_path, tree_param=tree_param, twin=twin)
    assert trees != grown(data, BINARY, Twin([2, 3]))[0]


@pytest.mark.parametrize("missing", [0.0, 0.03, 0.3])
@pytest.mark.parametrize("how", [{}, {"goss": (0.4, 0.3)}])
def test_a_host_offers_only_splits_that_are_some_rows_apart(
    missing: float, how: Any, tmp_path: Path
) -> None:
    data = data_of(missing=missing, widths=THREE)
    least = {HOST: {"min_candidate_rows": 9}, HOST_2: {"min_candidate_rows": 5}}
    goss = {"run_goss": True, "top_rate": 0.4, "other_rate": 0.3} if how else {}
    twin = {"least": (0, 9, 5)}
    trees = check(data, tmp_path, use_missing=True, per_site=least, twin=twin, how=how, **goss)
    assert trees != grown(data, BINARY, Twin([2, 2, 2]), **how)[0]


def test_a_host_whose_splits_are_all_too_close_offers_none(tmp_path: Path) -> None:
    data = data_of()
    least = {HOST: {"min_candidate_rows": 31}}
    trees = check(data, tmp_path, per_site=least, twin={"least": (0, 31)})
    assert all_parties(trees) == {0}


@pytest.mark.parametrize("missing", [[], [3] * 2, [3] * 5])
@pytest.mark.parametrize("least", [2, 5, 11])
def test_no_difference_of_sums_at_the_root_has_few_rows(missing: Any, least: int) -> None:
    values = np.random.default_rng(1).integers(0, 25, 60).astype(float)
    values[: len(missing)] = np.nan
    binned = BinnedColumns.of(values[:, None], bins=32)
    rows = np.arange(60)
    found = binned.frequent_candidates([0], rows=rows, least=least)
    left = [binned.left_rows(found, number, rows) for number in range(len(found))]
    sets = [*left, np.ones(60, dtype=bool), np.zeros(60, dtype=bool)]
    differences = {int((one & ~two).sum()) for one in sets for two in sets}
    assert len(found) > 1
    assert min(differences - {0}) >= least


# --- strategies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_large_gradients_stay_and_some_of_the_others_are_drawn(
    missing: float, tmp_path: Path
) -> None:
    data = data_of(rows=80, missing=missing)
    goss = {"run_goss": True, "top_rate": 0.3, "other_rate": 0.2}
    trees = check(data, tmp_path, use_missing=True, how={"goss": (0.3, 0.2)}, **goss)
    assert [tree.rows for tree in trees] == [40, 40]


def test_goss_of_several_classes_looks_at_all_of_them(tmp_path: Path) -> None:
    data = with_labels(data_of(rows=60), [0, 1, 2] * 20)
    goss = {"run_goss": True, "top_rate": 0.2, "other_rate": 0.5}
    check(data, tmp_path, loss=CrossEntropy(3), how={"goss": (0.2, 0.5)}, **goss)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_columns_are_drawn_for_each_tree(rate: float, tmp_path: Path) -> None:
    data = data_of(widths={GUEST: 4, HOST: 4})
    how = {"rate": rate, "rounds": 3}
    trees = check(data, tmp_path, how=how, num_trees=3, subsample_feature_rate=rate)
    columns = {(node.party, node.column) for node in nodes_of(trees)}
    assert len(columns) > 2


@pytest.mark.parametrize(("given", "secure"), [(1, 1), (True, 1), (2, 2)])
def test_the_first_trees_may_be_the_guests_alone(given: Any, secure: int, tmp_path: Path) -> None:
    data = data_of(widths=THREE)
    how = {"secure": secure, "rounds": 3}
    trees = check(data, tmp_path, how=how, num_trees=3, complete_secure=given)
    assert all_parties(trees[:secure]) == {0}
    assert all_parties(trees[secure:]) == {0, 1, 2}


@pytest.mark.parametrize("name", ["boosting_strategy", "work_mode"])
def test_layered_trees_are_the_hosts_above_and_the_guests_below(name: str, tmp_path: Path) -> None:
    data = data_of(rows=80, missing=0.1)
    levels = {0: (1,), 1: (1,), 2: (0,), 3: (0,)}
    params: dict[str, Any] = {name: "layered", "host_depth": 2, "guest_depth": 2}
    twin = {"max_depth": 4, "levels": levels}
    trees = check(data, tmp_path, use_missing=True, twin=twin, **params)
    assert all_parties(trees) == {0, 1}
    assert trees[0].party == 1
    only_guest = {"how": {"secure": 1}, "complete_secure": 1}
    trees = check(data, tmp_path / "2", use_missing=True, twin=twin, **only_guest, **params)
    assert parties_of(trees[0]) == {0}
    assert depth_of(trees[0]) == 4


# --- anything small -------------------------------------------------------------------------------


@st.composite
def small_tables(draw: st.DrawFn) -> tuple[Data, dict[str, Any]]:
    """Return a table with ties and missing values, and parameters of trees."""
    sites = (GUEST, HOST, HOST_2)[: draw(st.integers(2, 3))]
    widths = {site: draw(st.integers(0, 2)) for site in sites}
    rows = draw(st.integers(2, 20))
    cell = st.sampled_from([0.0, 1.0, 2.0, 2.0 + 5e-9, -3.5, 1e12, np.nan])
    count = sum(widths.values())
    cells = draw(st.lists(cell, min_size=rows * count, max_size=rows * count))
    labels = draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows))
    labels[:2] = 0, 1
    data = of_features(np.array(cells).reshape(rows, count), widths, np.array(labels))
    if draw(st.booleans()):
        shares = draw(st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=rows, max_size=rows))
        data = with_weights(data, np.array([1.0, *shares[1:]]))
    twin = {
        "max_depth": draw(st.integers(1, 4)),
        "bins": draw(st.integers(2, 5)),
        "min_leaf": draw(st.integers(1, 3)),
        "min_gain": draw(st.sampled_from([0.0, 1e-3])),
        "l2": draw(st.sampled_from([0.0, 0.1])),
        "l1": draw(st.sampled_from([0.0, 0.2])),
    }
    return data, twin


@settings(max_examples=15, deadline=None)
@given(case=small_tables())
def test_any_small_table_gives_the_trees_of_the_twin(
    case: tuple[Data, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data, twin = case
    tmp_path = tmp_path_factory.mktemp("small")
    tree_param = {
        "max_depth": twin["max_depth"],
        "min_leaf_node": twin["min_leaf"],
        "min_impurity_split": twin["min_gain"],
        "criterion_params": [twin["l2"], twin["l1"]],
        "use_missing": True,
    }
    check(data, tmp_path, twin=twin, tree_param=tree_param, bin_num=twin["bins"])


def test_trees_are_the_same_under_the_scheme_of_okamoto_and_uchiyama(tmp_path: Path) -> None:
    data = data_of(values=3)
    under_paillier = models_of(run(data, tmp_path / "paillier"))
    under_ou = models_of(
        run(data, tmp_path / "ou", encrypt_param={"method": "ou", "key_length": 2048})
    )
    assert trees_of(under_ou) == trees_of(under_paillier)


@pytest.mark.parametrize("widths", [TWO, THREE])
@pytest.mark.parametrize("per_party", [1, 2])
def test_mix_grows_each_tree_from_the_columns_of_one_party(
    widths: Any, per_party: int, tmp_path: Path
) -> None:
    data = data_of(widths=widths, values=4)
    rounds = 2 * len(widths) * per_party
    results = run(
        data,
        tmp_path,
        boosting_strategy="mix",
        tree_num_per_party=per_party,
        num_trees=rounds,
        tree_param={"min_impurity_split": 0.0},
    )
    models = models_of(results)
    trees = trees_of(models)
    assert all_parties(trees) == set(range(len(widths)))
    labels, scores, loss = data.labels, np.zeros((len(data.labels), 1)), BinaryCrossEntropy()
    for number, tree in enumerate(trees):
        party = number // per_party % len(widths)
        twin = Twin(list(widths.values()), levels={d: [party] for d in range(3)}, min_gain=0.0)
        twin.cut(data.features)
        g, h = loss.gradients(labels, scores)
        assert tree == twin.tree(data.features, g[:, 0], h[:, 0], range(len(labels)))
        scores[:, 0] += twin.learning_rate * twin.scores(tree, data.features)
    trained = predictions(results)["predict_score"].to_pylist()
    again = run(data, tmp_path / "again", ports={"test_data": data}, models=models)
    assert predictions(again)["predict_score"].to_pylist() == trained
