"""HeteroSecureBoost refuses parameters, data and models that cannot be right, and says why."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter, Diverged
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import PeerFailed
from fedflow.components.boosting.criterion import Gradients
from fedflow.components.boosting.losses import (
    BinaryCrossEntropy,
    CrossEntropy,
    Loss,
    regression_loss,
)
from fedflow.components.boosting.params import HeteroSecureBoostParams
from fedflow.domain.site import Site
from fedflow.sdk import Model, check_params
from fedflow.sdk.params import warnings_of
from tests.unit.components.boosting_parties import (
    GUEST,
    HOST,
    HOST_2,
    data_of,
    models_of,
    of_features,
    run,
    with_weights,
)
from tests.unit.components.hetero_lr_parties import Data, with_labels, with_numbers

pytestmark = pytest.mark.timeout(120)

REGRESSION: dict[str, Any] = {"task_type": "regression"}


def number(objective: str, *params: Any) -> dict[str, Any]:
    return {**REGRESSION, "objective_param": {"objective": objective, "params": list(params)}}


def tree(**values: Any) -> dict[str, Any]:
    return {"tree_param": values}


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "path", "sentence"),
    [
        ({"task_type": "ranking"}, "task_type", "not one of classification, regression"),
        (REGRESSION, "objective_param.objective", "'cross_entropy' is not one of a regression"),
        (
            {"objective_param": {"objective": "lse"}},
            "objective_param.objective",
            "'lse' is not one of a classification",
        ),
        (number("mse"), "objective_param.objective", "'mse' is not one of"),
        (number("huber"), "objective_param.params", "huber needs a number"),
        (number("huber", 0.0), "objective_param.params[0]", "must be above 0"),
        (number("fair", -1.0), "objective_param.params[0]", "must be above 0"),
        (number("tweedie", 0.99), "objective_param.params[0]", "must be from 1 to below 2"),
        (number("tweedie", 2.0), "objective_param.params[0]", "must be from 1 to below 2"),
        ({"learning_rate": float("inf")}, "learning_rate", "finite"),
        ({"learning_rate": float("nan")}, "learning_rate", ""),
        ({"num_trees": 0}, "num_trees", ">= 1"),
        ({"num_trees": 1.5}, "num_trees", "int"),
        ({"subsample_feature_rate": -0.1}, "subsample_feature_rate", ">= 0"),
        ({"subsample_feature_rate": 1.1}, "subsample_feature_rate", "<= 1"),
        ({"bin_num": 1}, "bin_num", ">= 2"),
        ({"bin_num": 65_001}, "bin_num", "<= 65000"),
        ({"tol": float("nan")}, "tol", "finite"),
        ({"top_rate": 0.0}, "top_rate", "> 0"),
        ({"other_rate": 0.0}, "other_rate", "> 0"),
        ({"run_goss": True, "top_rate": 0.7, "other_rate": 0.4}, "other_rate", "above 1"),
        ({"complete_secure": -1}, "complete_secure", ">= 0"),
        ({"random_seed": -1}, "random_seed", ">= 0"),
        (tree(max_depth=0), "tree_param.max_depth", ">= 1"),
        (tree(max_depth=21), "tree_param.max_depth", "<= 20"),
        (tree(max_split_nodes=0), "tree_param.max_split_nodes", ">= 1"),
        (tree(max_split_nodes=65_537), "tree_param.max_split_nodes", "<= 65536"),
        (tree(min_child_weight=-0.5), "tree_param.min_child_weight", ">= 0"),
        (tree(min_impurity_split=-1.0), "tree_param.min_impurity_split", "from 0 on"),
        (tree(criterion_params=[-1.0]), "tree_param.criterion_params", "from 0 on"),
        (tree(criterion_params={"l1": -1.0}), "tree_param.criterion_params", "from 0 on"),
        (tree(criterion_params={"l3": 1.0}), "tree_param.criterion_params", "unknown 'l3'"),
        (tree(criterion_params=[]), "tree_param.criterion_params", "[l2, l1]"),
        (tree(criterion_method="gini"), "tree_param.criterion_method", "xgboost"),
        (tree(feature_importance_type="cover"), "tree_param.feature_importance_type", "split"),
        ({"boosting_strategy": "deep"}, "boosting_strategy", "not one of"),
        ({"multi_mode": "several"}, "multi_mode", "not one of single_output, multi_output"),
        (
            {"multi_mode": "multi_output", "boosting_strategy": "mix"},
            "boosting_strategy",
            "multi_output needs std",
        ),
        ({"multi_mode": "multi_output", "work_mode": "layered"}, "work_mode", "needs std"),
        (
            {"multi_mode": "multi_output", "cipher_compress": False},
            "cipher_compress",
            "not possible without it",
        ),
        (
            {"EINI_inference": True, "multi_mode": "multi_output"},
            "EINI_inference",
            "not possible with multi_output",
        ),
        (
            {"boosting_strategy": "layered", "guest_depth": 15, "host_depth": 6},
            "host_depth",
            "at most 20 levels",
        ),
        ({"guest_depth": 0}, "guest_depth", ">= 1"),
        ({"early_stopping_rounds": 2}, "early_stopping_rounds", "needs validation_freqs"),
        ({"early_stopping_rounds": 0, "validation_freqs": 1}, "early_stopping_rounds", ">= 1"),
        ({"encrypt_param": {"key_length": 512}}, "encrypt_param.key_length", "1024"),
        ({"tree": 1}, "", "unknown field `tree`; known are"),
    ],
)
def test_ranges_are_checked_before_the_start(
    params: dict[str, Any], path: str, sentence: str
) -> None:
    with pytest.raises(BadParameter) as caught:
        check_params(HeteroSecureBoostParams, params, path="$")
    where, what = caught.value.mistakes[0]
    assert where == f"$.{path}".rstrip(".")
    assert sentence in what


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"zero_as_missing": True}, "zero_as_missing"),
        ({"cipher_compress": False}, "cipher_compress"),
        ({**number("lse"), "multi_mode": "multi_output"}, "multi_mode"),
        ({"EINI_inference": True, "work_mode": "mix"}, "EINI_inference"),
        ({"EINI_inference": True, "EINI_random_mask": True}, "EINI_random_mask"),
        ({"encrypt_param": {"key_length": 1024}}, "encrypt_param.key_length"),
        ({"encrypted_mode_calculator_param": {"mode": "fast"}}, "encrypted_mode_calculator_param"),
    ],
)
def test_what_has_no_effect_is_warned_of(params: dict[str, Any], field: str) -> None:
    checked = check_params(HeteroSecureBoostParams, params, path="$")
    assert field in [w.path.removeprefix("$.") for w in warnings_of(checked, path="$")]


def first_error(results: Any) -> Exception:
    """Return the error of a run that ended everywhere, not that of those who waited for it."""
    errors = [result.error for result in results.values()]
    assert all(errors)
    mine = [error for error in errors if not isinstance(error, PeerFailed)]
    assert mine
    return mine[0]


def test_layered_trees_need_exactly_one_host(tmp_path: Path) -> None:
    data = data_of(widths={GUEST: 2, HOST: 1, HOST_2: 1})
    error = first_error(run(data, tmp_path, boosting_strategy="layered"))
    assert isinstance(error, BadParameter)
    assert "host" in str(error)


@pytest.mark.parametrize(("top", "other", "path"), [(0.01, 0.5, "top"), (0.5, 0.01, "other")])
def test_goss_that_leaves_no_row_is_refused(
    top: float, other: float, path: str, tmp_path: Path
) -> None:
    error = first_error(run(data_of(), tmp_path, run_goss=True, top_rate=top, other_rate=other))
    assert isinstance(error, BadParameter)
    assert f"{path}_rate" in str(error)
    assert "no row is left" in str(error)


def test_early_stopping_needs_validation_data(tmp_path: Path) -> None:
    stopping = {
        "callbacks": ["EarlyStopping"],
        "validation_freqs": 1,
        "early_stopping_rounds": 1,
    }
    error = first_error(run(data_of(), tmp_path, callback_param=stopping))
    assert "EarlyStopping needs validate_data" in str(error)
    ports = {"train_data": data_of(), "validate_data": data_of()}
    measured = {**stopping, "metrics": ["accuracy"]}
    error = first_error(run(data_of(), tmp_path, ports=ports, callback_param=measured))
    assert "EarlyStopping needs one of" in str(error)


# --- data -----------------------------------------------------------------------------------------


def test_missing_values_are_counted_if_they_are_not_allowed(tmp_path: Path) -> None:
    features = data_of().features
    features[[3, 9, 4], [2, 2, 4]] = np.nan
    data = of_features(features, {GUEST: 2, HOST: 3}, data_of().labels)
    results = run(data, tmp_path)
    error = results[HOST].error
    assert isinstance(error, BadData)
    assert "table test.table_0: 3 values of 2 columns are missing; fill them, or" in str(error)
    assert isinstance(results[GUEST].error, PeerFailed)


@pytest.mark.parametrize(
    ("labels", "params", "sentence"),
    [
        ([1] * 60, {}, "all 60 labels are equal"),
        ([None, *[0, 1] * 29, 1], {}, "1 rows have no label"),
        ([-1.0, -2.0, *[1.0] * 58], number("tweedie", 1.5), "2 labels are negative"),
        (["a", "b"] * 30, number("lse"), "not a number"),
        ([float("inf"), *[1.0] * 59], number("lse"), "infinite"),
    ],
)
def test_labels_that_cannot_be_trained_on_are_refused(
    labels: Any, params: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    error = first_error(run(with_labels(data_of(), labels), tmp_path, **params))
    assert isinstance(error, BadData)
    assert sentence in str(error)


def test_there_may_be_as_many_classes_as_rows(tmp_path: Path) -> None:
    data = with_labels(data_of(rows=12), list(range(12)))
    assert models_of(run(data, tmp_path, num_trees=1))[HOST].param["tree_num"] == 12


def test_a_table_without_labels_or_rows_is_refused(tmp_path: Path) -> None:
    data = data_of()
    bare = replace(data, tables={**data.tables, GUEST: data.tables[GUEST].drop(["y"])})
    assert "no label column" in str(first_error(run(bare, tmp_path / "1")))
    empty = replace(data, tables={site: t.slice(0, 0) for site, t in data.tables.items()})
    assert "has no rows" in str(first_error(run(empty, tmp_path / "2")))


def test_other_rows_or_another_order_are_refused(tmp_path: Path) -> None:
    data = data_of()
    turned = data.tables[HOST].take(pa.array(list(range(59, -1, -1))))
    results = run(replace(data, tables={**data.tables, HOST: turned}), tmp_path)
    assert "another order" in str(first_error(results))


def test_negative_weights_are_refused(tmp_path: Path) -> None:
    data = with_weights(data_of(), np.array([-1.0, -0.5] + [2.0] * 58))
    error = first_error(run(data, tmp_path))
    assert isinstance(error, BadData)
    assert "2 sample weights are negative" in str(error)


def test_validation_labels_that_are_unknown_are_refused_if_they_are_measured(
    tmp_path: Path,
) -> None:
    data = data_of()
    ports = {"train_data": data, "validate_data": with_labels(data, [0, 7, 7] * 20)}
    assert all(r.error is None for r in run(data, tmp_path / "1", ports=ports).values())
    measured = {"callbacks": ["PerformanceEvaluate"], "validation_freqs": 1}
    error = first_error(run(data, tmp_path / "2", ports=ports, callback_param=measured))
    assert "40 labels are of classes not trained for" in str(error)


@pytest.mark.parametrize("objective", ["lse", "lae", "huber", "fair", "log_cosh", "tweedie"])
def test_a_loss_that_grows_beyond_numbers_stops_with_its_round(
    objective: str, tmp_path: Path
) -> None:
    data = with_numbers(data_of(rows=40), counts=objective == "tweedie")
    params = number(objective, *([1.5] if objective in ("huber", "fair", "tweedie") else []))
    results = run(data, tmp_path, learning_rate=1e308, num_trees=3, **params)
    error = results[GUEST].error
    assert isinstance(error, Diverged), error
    assert isinstance(results[HOST].error, PeerFailed)


def test_labels_too_large_for_sums_of_squares_are_refused(tmp_path: Path) -> None:
    data = with_labels(data_of(), [1e150, -1e150] * 30)
    assert isinstance(run(data, tmp_path, **number("lse"))[GUEST].error, Diverged)


def test_derivatives_that_are_nearly_nothing_keep_a_unit() -> None:
    found = Gradients.of(np.array([[5e-324], [0.0]]), np.array([[1e-310], [-1e-310]]))
    assert (found.units > 0).all()
    assert np.abs(found.values).max() <= 2**found.bits


# --- losses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        (BinaryCrossEntropy(), [0.0, 1.0, 1.0]),
        (CrossEntropy(3), [0.0, 2.0, 1.0]),
        (regression_loss("lse", []), [0.3, -2.0, 5.0]),
        (regression_loss("huber", [0.7]), [0.3, -2.0, 5.0]),
        (regression_loss("fair", [0.7]), [0.3, -2.0, 5.0]),
        (regression_loss("log_cosh", []), [0.3, -2.0, 5.0]),
        (regression_loss("tweedie", [1.0]), [0.0, 2.0, 5.0]),
        (regression_loss("tweedie", [1.6]), [0.0, 2.0, 5.0]),
    ],
)
def test_derivatives_are_those_of_the_loss(loss: Loss, labels: list[float]) -> None:
    true = np.array(labels)
    scores = np.random.default_rng(4).normal(size=(3, loss.width))
    first, second = loss.gradients(true, scores)
    step = 1e-5
    for place in np.ndindex(scores.shape):
        up, down = scores.copy(), scores.copy()
        up[place] += step
        down[place] -= step
        slope = 3 * (loss.value(true, up) - loss.value(true, down)) / (2 * step)
        assert first[place] == pytest.approx(slope, rel=1e-5, abs=1e-8)
        curve = (loss.gradients(true, up)[0] - loss.gradients(true, down)[0])[place] / (2 * step)
        assert second[place] == pytest.approx(curve, rel=1e-5, abs=1e-8)


def test_absolute_loss_counts_signs() -> None:
    loss = regression_loss("lae", [])
    first, second = loss.gradients(np.array([1.0, 1.0, 1.0]), np.array([[1 + 5e-9], [3.0], [0.0]]))
    assert first[:, 0].tolist() == [0.0, 1.0, -1.0]
    assert second[:, 0].tolist() == [1.0, 1.0, 1.0]
    assert loss.value(np.array([1.0, 4.0]), np.array([[2.0], [2.0]])) == 1.5
    assert loss.start(np.array([1.0, 9.0, 2.0])).tolist() == [2.0]


# --- models ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Data, dict[Site, Model]]:
    data = data_of(missing=0.1)
    results = run(data, tmp_path_factory.mktemp("trained"), num_trees=2, use_missing=True)
    return data, models_of(results)


def own_split(param: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the first tree that has a split, and the node."""
    found = next(one for one in param["trees_"] if one["split_maskdict"])
    return found, min(found["split_maskdict"], key=int)


def first_tree(param: dict[str, Any]) -> dict[str, Any]:
    return param["trees_"][0]  # type: ignore[no-any-return]


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what sets a member of a model."""

    def change(param: dict[str, Any]) -> None:
        at: Any = param
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = value

    return change


def drop(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(param: dict[str, Any]) -> None:
        at: Any = param
        for name in path[:-1]:
            at = at[name]
        del at[path[-1]]

    return change


def of_split(member: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what changes the first own split."""

    def change(param: dict[str, Any]) -> None:
        found, node = own_split(param)
        if member == "drop":
            del found["split_maskdict"][node]
        elif member == "fid":
            next(n for n in found["tree_"] if n["id"] == int(node))["fid"] = value
        else:
            found[member][node] = value

    return change


ROOT = ("trees_", 0, "tree_", 0)
GUEST_DAMAGE: dict[str, Callable[[dict[str, Any]], None]] = {
    "trees_ gone": drop("trees_"),
    "trees_ a number": put("trees_", value=1),
    "tree_ gone": drop("trees_", 0, "tree_"),
    "tree_ empty": put("trees_", 0, "tree_", value=[]),
    "tree_dim 0": put("tree_dim", value=0),
    "tree_dim 2": put("tree_dim", value=2),
    "tree_dim 3": put("tree_dim", value=3),
    "tree_dim gone": drop("tree_dim"),
    "init_score empty": put("init_score", value=[]),
    "init_score two": put("init_score", value=[0.0, 0.0]),
    "init_score text": put("init_score", value=["a"]),
    "init_score nan": put("init_score", value=[float("nan")]),
    "losses text": put("losses", value=["a"]),
    "classes_ none": put("classes_", value=[]),
    "classes_ one": put("classes_", value=[1]),
    "classes_ three": put("classes_", value=[0, 1, 2]),
    "classes_ twice": put("classes_", value=[1, 1]),
    "classes_ object": put("classes_", value=[{}, 1]),
    "columns gone": drop("feature_name_fid_mapping"),
    "columns none": put("feature_name_fid_mapping", value={}),
    "columns with a gap": put("feature_name_fid_mapping", value={"0": "x0", "2": "x1"}),
    "columns twice": put("feature_name_fid_mapping", value={"0": "x0", "1": "x0"}),
    "progress text": put("progress", value="far"),
    "progress best": put("progress", "best", value="1"),
    "id": put(*ROOT, "id", value=7),
    "id text": put(*ROOT, "id", value="0"),
    "sitename": put(*ROOT, "sitename", value="host:77"),
    "left is itself": put(*ROOT, "left_nodeid", value=0),
    "left is right": put(*ROOT, "left_nodeid", value=2),
    "left is far": put(*ROOT, "left_nodeid", value=999),
    "left is none": put(*ROOT, "left_nodeid", value=-1),
    "a leaf with children below": put(*ROOT, "is_leaf", value=True),
    "weight nan": put(*ROOT, "weight", value=float("nan")),
    "weight text": put(*ROOT, "weight", value="1"),
    "gain inf": put(*ROOT, "gain", value=float("inf")),
    "split gone": of_split("drop", None),
    "split nan": of_split("split_maskdict", float("nan")),
    "split text": of_split("split_maskdict", "a"),
    "side 0": of_split("missing_dir_maskdict", 0),
    "side text": of_split("missing_dir_maskdict", "left"),
    "column unknown": of_split("fid", 2),
    "column negative": of_split("fid", -1),
    "split of no node": put("trees_", 0, "split_maskdict", "99", value=0.5),
    "split of a name": put("trees_", 0, "split_maskdict", "root", value=0.5),
    "leaf_count text": put("trees_", 0, "leaf_count", value={"1": "a"}),
}
HOST_DAMAGE: dict[str, Callable[[dict[str, Any]], None]] = {
    "trees_ gone": drop("trees_"),
    "tree_dim -1": put("tree_dim", value=-1),
    "columns none": put("feature_name_fid_mapping", value={}),
    "split gone": of_split("drop", None),
    "split nan": of_split("split_maskdict", float("nan")),
    "side 5": of_split("missing_dir_maskdict", 5),
    "column unknown": of_split("fid", 3),
    "split of no node": put("trees_", 0, "split_maskdict", "99", value=0.5),
    "nodes gone": put("trees_", 0, "tree_", value=[]),
}
META_DAMAGE: dict[str, Callable[[dict[str, Any]], None]] = {
    "rate gone": drop("learning_rate"),
    "rate inf": put("learning_rate", value=float("inf")),
    "task": put("task_type", value="ranking"),
    "task of numbers": put("task_type", value="regression"),
    "objective": put("objective_meta", "objective", value="mse"),
    "objective gone": drop("objective_meta"),
    "depth 0": put("tree_meta", "max_depth", value=0),
    "depth 50": put("tree_meta", "max_depth", value=50),
    "missing text": put("use_missing", value="yes"),
    "zeros gone": drop("zero_as_missing"),
}


def assert_refused(
    models: dict[Site, Model], site: Site, data: Data, tmp_path: Path, *, port: str = "test_data"
) -> None:
    results = run(data, tmp_path, ports={port: data}, models=models, use_missing=True)
    error = results[site].error
    assert isinstance(error, BadData), error
    assert "model" in str(error)
    assert all(isinstance(r.error, PeerFailed) for s, r in results.items() if s != site)


@pytest.mark.parametrize(
    ("site", "part", "damage"),
    [(GUEST, "param", name) for name in GUEST_DAMAGE]
    + [(HOST, "param", name) for name in HOST_DAMAGE]
    + [(site, "meta", name) for site in (GUEST, HOST) for name in META_DAMAGE],
)
def test_damaged_models_are_refused(
    site: Site, part: str, damage: str, trained: tuple[Data, dict[Site, Model]], tmp_path: Path
) -> None:
    data, models = trained
    content = copy.deepcopy(dict(getattr(models[site], part)))
    changes = META_DAMAGE if part == "meta" else GUEST_DAMAGE if site is GUEST else HOST_DAMAGE
    changes[damage](content)
    assert_refused({**models, site: replace(models[site], **{part: content})}, site, data, tmp_path)


def test_a_model_of_another_role_or_component_is_refused(
    trained: tuple[Data, dict[Site, Model]], tmp_path: Path
) -> None:
    data, models = trained
    assert_refused({GUEST: models[HOST], HOST: models[HOST]}, GUEST, data, tmp_path / "1")
    assert_refused({GUEST: models[GUEST], HOST: models[GUEST]}, HOST, data, tmp_path / "2")
    other = replace(models[GUEST], param_name="HeteroLogisticRegressionParam")
    assert_refused({**models, GUEST: other}, GUEST, data, tmp_path / "3", port="train_data")


def test_a_prediction_needs_a_model_and_a_table(tmp_path: Path) -> None:
    data = data_of()
    error = first_error(run(data, tmp_path, ports={"test_data": data}))
    assert isinstance(error, BadParameter)
    assert "test_data needs a trained model" in str(error)
