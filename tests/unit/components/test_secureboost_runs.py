"""HeteroSecureBoost over several runs: the same model again, models gone on with, predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold

from fedflow.base.errors.data import BadData
from fedflow.components.selection.hetero_feature_selection import HeteroFeatureSelection
from fedflow.cores.workers import LocalWorkers
from fedflow.domain.site import Site
from fedflow.sdk import BadParameter, Inputs
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component
from fedflow.testing.workers import PicklingWorkers
from tests.unit.components.boosting_parties import (
    GUEST,
    HOST,
    HOST_2,
    data_of,
    models_of,
    predictions,
    rows_of,
    run,
    trees_of,
    with_weights,
)
from tests.unit.components.hetero_lr_parties import Data, schema_of, with_labels, with_numbers

pytestmark = pytest.mark.timeout(120)

Results = Mapping[Site, RunResult]

SAVING: dict[str, Any] = {"callback_param": {"callbacks": ["ModelCheckpoint"]}}
STOPPING: dict[str, Any] = {
    "callbacks": ["EarlyStopping", "ModelCheckpoint"],
    "validation_freqs": 1,
    "early_stopping_rounds": 2,
    "metrics": ["auc"],
}
THREE = {GUEST: 2, HOST: 2, HOST_2: 2}


def three_classes(data: Data) -> Data:
    return with_labels(data, [("a", "b", "c")[i % 3] for i in range(len(data.labels))])


#: data and parameters of trainings of every kind
KINDS: dict[str, tuple[Data, dict[str, Any]]] = {
    "binary": (data_of(rows=50, missing=0.1), {"use_missing": True, "learning_rate": 0.7}),
    "drawn": (
        with_weights(data_of(rows=50, widths=THREE)),
        {"run_goss": True, "top_rate": 0.3, "other_rate": 0.3, "subsample_feature_rate": 0.6},
    ),
    "classes": (three_classes(data_of(rows=45)), {"complete_secure": 1}),
    "vectors": (
        three_classes(data_of(rows=45, missing=0.1)),
        {"multi_mode": "multi_output", "use_missing": True, "subsample_feature_rate": 0.7},
    ),
    "counts": (
        with_numbers(data_of(rows=50, values=4), counts=True),
        {
            "task_type": "regression",
            "objective_param": {"objective": "tweedie", "params": [1.3]},
            "use_missing": True,
            "zero_as_missing": True,
        },
    ),
    "layered": (
        data_of(rows=60),
        {"boosting_strategy": "layered", "host_depth": 2, "guest_depth": 3},
    ),
}


def kinds(*names: str) -> Any:
    return pytest.mark.parametrize("kind", names or list(KINDS))


def assert_same(one: Results, two: Results) -> None:
    """Check that two trainings have the same models, summaries and predictions, bit for bit."""
    assert models_of(one) == models_of(two)
    assert predictions(one).equals(predictions(two))
    for site, outputs in outputs_of(one).items():
        assert outputs.summary == outputs_of(two)[site].summary


# --- the same model again -------------------------------------------------------------------------


@kinds()
def test_another_run_gives_the_same_model(kind: str, tmp_path: Path) -> None:
    data, params = KINDS[kind]
    assert_same(run(data, tmp_path / "1", **params), run(data, tmp_path / "2", **params))


@kinds("drawn", "classes")
def test_it_does_not_matter_who_computes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, params = KINDS[kind]
    params = {**params, "complete_secure": 0}
    one = run(data, tmp_path / "1", num_trees=1, **params)
    far = {site: PicklingWorkers(block_rows=7) for site in data.tables}
    assert_same(one, run(data, tmp_path / "2", num_trees=1, workers=far, **params))
    assert all(workers.calls for workers in far.values())
    monkeypatch.setattr("fedflow.cores.forked.FORK_FROM", 0)
    two = {site: LocalWorkers(2) for site in data.tables}
    assert_same(one, run(data, tmp_path / "3", num_trees=1, workers=two, **params))


def test_blocks_of_gradients_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_of(rows=50)
    one = run(data, tmp_path / "1")
    monkeypatch.setattr("fedflow.components.boosting.sums.CELLS_PER_BLOCK", 11)
    monkeypatch.setattr("fedflow.components.boosting.sums.ROWS_READ", 7)
    assert_same(one, run(data, tmp_path / "2"))


def test_another_seed_draws_other_columns(tmp_path: Path) -> None:
    data, params = KINDS["drawn"]
    one = run(data, tmp_path / "1", **params)
    other = run(data, tmp_path / "2", random_seed=7, **params)
    assert trees_of(models_of(one)) != trees_of(models_of(other))


# --- attempts that fail ---------------------------------------------------------------------------


class Dies(Exception):
    """The party is gone."""


class Breaking(LocalFederation):
    """Lets a party die when it sends a message for the n-th time."""

    def __init__(self, sites: Any, at: tuple[Site, str, int] | None = None) -> None:
        super().__init__(sites, receive_timeout_s=30.0)
        self.sent: list[tuple[Site, str]] = []
        self._at = at

    def _put(self, key: Any, value: Any, size: int) -> None:
        self.sent.append((key.source, key.name))
        if self._at and (*self.sent[-1], self.sent.count(self.sent[-1])) == self._at:
            raise Dies
        super()._put(key, value, size)


def test_a_training_killed_at_any_message_goes_on_to_the_same_model(tmp_path: Path) -> None:
    data = data_of(rows=30, missing=0.1)
    ports = {"train_data": data, "validate_data": rows_of(data, slice(0, 20))}
    trees = {"use_missing": True, "max_depth": 2}
    params = {"tree_param": trees, "num_trees": 3, "run_goss": True, "bin_num": 8, **SAVING}
    federation = Breaking(data.tables)
    whole = run(data, tmp_path / "whole", ports=ports, federation=federation, **params)
    kinds_sent = sorted({(s, n) for s, n in federation.sent}, key=str)
    assert len(kinds_sent) > 16
    for number, kind in enumerate(kinds_sent):
        count = 1 + federation.sent.count(kind) // 2
        stored = {site: MemoryCheckpoints() for site in data.tables}
        common: dict[str, Any] = {"ports": ports, "checkpoints": stored, **params}
        broken = Breaking(data.tables, at=(*kind, count))
        failed = run(data, tmp_path / f"{number}.0", federation=broken, **common)
        assert isinstance(failed[kind[0]].error, Dies), kind
        had = min(len(store.steps()) for store in stored.values())
        for store in stored.values():
            store.begin()
        again = run(data, tmp_path / f"{number}.1", task_version=1, **common)
        assert models_of(again) == models_of(whole), kind
        assert predictions(again).equals(predictions(whole)), kind
        points = again[GUEST].metrics["train", "loss"].points if had < 3 else []
        assert [n for n, _ in points] == list(range(had, 3)), kind


def test_steps_of_different_attempts_are_not_put_together(tmp_path: Path) -> None:
    """Both sites have the last step, but their attempts drew other columns."""
    data = data_of(rows=30, widths={GUEST: 4, HOST: 4})
    common: dict[str, Any] = {"num_trees": 2, "subsample_feature_rate": 0.5, **SAVING}
    attempts = [{site: MemoryCheckpoints() for site in data.tables} for _ in range(2)]
    for number, stored in enumerate(attempts):
        work_dir, seed = tmp_path / f"{number}", 11 + number
        run(data, work_dir, random_seed=seed, checkpoints=stored, task_version=number, **common)
    left = {GUEST: attempts[0][GUEST], HOST: attempts[1][HOST]}
    for store in left.values():
        store.begin()
    whole = run(data, tmp_path / "2", random_seed=13, **common)
    again = run(data, tmp_path / "3", random_seed=13, checkpoints=left, task_version=2, **common)
    assert models_of(again) == models_of(whole)


@pytest.mark.parametrize("kept", [1, 2, 3, 9])
def test_early_stopping_goes_on_where_it_was(kept: int, tmp_path: Path) -> None:
    train, held_out = noisy()
    ports = {"train_data": train, "validate_data": held_out}
    params: dict[str, Any] = {"ports": ports, "num_trees": 12, "callback_param": STOPPING}
    stored = {site: MemoryCheckpoints() for site in train.tables}
    whole = run(train, tmp_path / "1", checkpoints=stored, **params)
    left = {site: MemoryCheckpoints() for site in train.tables}
    for site, store in left.items():
        for index, name in stored[site].steps()[:kept]:
            store.save(index, name, stored[site].load(index).model)
        store.begin()
    again = run(train, tmp_path / "2", checkpoints=left, task_version=1, **params)
    assert_same(whole, again)
    assert 0 <= outputs_of(whole)[GUEST].summary["best_iteration"] < 9


def noisy() -> tuple[Data, Data]:
    """Return rows to train on and others, whose labels trees learn by heart."""
    data = data_of(rows=80)
    labels = np.where(np.random.default_rng(2).random(80) < 0.35, 1 - data.labels, data.labels)
    data = with_labels(data, labels.astype(int))
    return rows_of(data, slice(0, 40)), rows_of(data, slice(40, 80))


# --- going on -------------------------------------------------------------------------------------


@kinds()
def test_two_and_two_trees_are_four(kind: str, tmp_path: Path) -> None:
    data, params = KINDS[kind]
    params = {**params, "complete_secure": 0}
    whole = run(data, tmp_path / "1", num_trees=4, **params)
    half = run(data, tmp_path / "2", num_trees=2, **params)
    again = run(data, tmp_path / "3", num_trees=2, models=models_of(half), **params)
    assert trees_of(models_of(again)) == trees_of(models_of(whole))
    assert predictions(again).equals(predictions(whole))
    for site, model in models_of(again).items():
        assert model.param == models_of(whole)[site].param
        assert again[site].metrics["train", "init_iter"].points == [("init_iter", 2)]
    points = again[GUEST].metrics["train", "loss"].points
    assert points == whole[GUEST].metrics["train", "loss"].points[2:]


def test_columns_may_come_in_another_order(tmp_path: Path) -> None:
    data = data_of(rows=50)
    whole = run(data, tmp_path / "1", num_trees=3)
    half = models_of(run(data, tmp_path / "2", num_trees=1))
    turned = data.tables[HOST].select(["id", "x2", "x0", "x1"])
    other = replace(data, tables={**data.tables, HOST: turned})
    again = run(other, tmp_path / "3", models=half)
    assert trees_of(models_of(again)) == trees_of(models_of(whole))


def test_the_models_parameters_count_where_trees_would_mean_something_else(
    tmp_path: Path,
) -> None:
    data, params = KINDS["counts"]
    half = models_of(run(data, tmp_path / "2", num_trees=1, learning_rate=0.8, **params))
    whole = run(data, tmp_path / "1", num_trees=2, learning_rate=0.8, **params)
    again = run(data, tmp_path / "3", models=half, num_trees=1, learning_rate=0.1)
    assert trees_of(models_of(again)) == trees_of(models_of(whole))
    assert predictions(again).equals(predictions(whole))
    names = {w.path.partition(".")[2] for w in again[GUEST].warnings if w.code == "Replaced"}
    expected = {"learning_rate", "task_type", "objective_param", "use_missing", "zero_as_missing"}
    assert names == expected
    same = run(data, tmp_path / "4", models=half, num_trees=1, learning_rate=0.8, **params)
    assert not [w for w in same[HOST].warnings if w.code == "Replaced"]


def test_the_model_says_whether_leaves_are_vectors(tmp_path: Path) -> None:
    data, params = KINDS["vectors"]
    half = models_of(run(data, tmp_path / "1", num_trees=1, **params))
    whole = run(data, tmp_path / "2", num_trees=2, **params)
    own = {**params, "multi_mode": "single_output"}
    again = run(data, tmp_path / "3", models=half, num_trees=1, **own)
    assert trees_of(models_of(again)) == trees_of(models_of(whole))
    for site, result in again.items():
        assert any("multi_mode" in w.path for w in result.warnings), site


def test_vector_leaves_cannot_be_predicted_by_eini(tmp_path: Path) -> None:
    data, params = KINDS["vectors"]
    models = models_of(run(data, tmp_path / "1", num_trees=1, **params))
    ports = {"test_data": data}
    for site, result in run(
        data, tmp_path / "2", ports=ports, models=models, EINI_inference=True
    ).items():
        assert isinstance(result.error, BadParameter), site
        assert "not possible with multi_output" in str(result.error)


def test_parties_must_agree_on_vector_leaves(tmp_path: Path) -> None:
    data, params = KINDS["vectors"]
    own = {HOST: {"multi_mode": "single_output"}}
    error = run(data, tmp_path, per_site=own, **params)[HOST].error
    assert isinstance(error, BadParameter)
    assert "has leaves of 3 classes, 1 here" in str(error)


def test_later_trees_may_be_flatter_than_those_before(tmp_path: Path) -> None:
    data = data_of(rows=60)
    deep = models_of(run(data, tmp_path / "1", num_trees=1, tree_param={"max_depth": 5}))
    flat: dict[str, Any] = {"tree_param": {"max_depth": 1}}
    again = run(data, tmp_path / "2", models=deep, **flat)
    later = run(data, tmp_path / "3", ports={"test_data": data}, models=models_of(again), **flat)
    assert_predicts(later, again)


def test_training_goes_on_from_the_best_round(tmp_path: Path) -> None:
    train, held_out = noisy()
    ports = {"train_data": train, "validate_data": held_out}
    params = {"num_trees": 12, "callback_param": {**STOPPING, "callbacks": ["EarlyStopping"]}}
    first = run(train, tmp_path / "1", ports=ports, **params)
    kept = len(models_of(first)[GUEST].param["trees_"])
    losses = outputs_of(first)[GUEST].summary["loss_history"]
    assert kept + 2 == len(losses)
    again = run(train, tmp_path / "2", models=models_of(first), num_trees=1)
    summary = outputs_of(again)[GUEST].summary
    assert summary["loss_history"] == losses[: kept + 1]
    assert len(models_of(again)[HOST].param["trees_"]) == kept + 1


@pytest.mark.parametrize(
    ("data", "site", "what"),
    [
        (with_labels(data_of(), [0, 2] * 30), GUEST, "it was trained for other classes"),
        (data_of(widths={GUEST: 2, HOST: 2}), HOST, "lacks the model's columns x2"),
        (data_of(widths={GUEST: 3, HOST: 3}), GUEST, "1 columns that the model to start from"),
    ],
)
def test_a_model_that_does_not_fit_is_not_gone_on_with(
    data: Data, site: Site, what: str, tmp_path: Path
) -> None:
    models = models_of(run(data_of(), tmp_path / "1", num_trees=1))
    error = run(data, tmp_path / "2", models=models)[site].error
    assert isinstance(error, BadData)
    assert what in str(error)


def test_parts_of_different_length_are_not_gone_on_with(tmp_path: Path) -> None:
    one = models_of(run(data_of(), tmp_path / "1", num_trees=1))
    two = models_of(run(data_of(), tmp_path / "2", num_trees=2))
    error = run(data_of(), tmp_path / "3", models={GUEST: two[GUEST], HOST: one[HOST]})[HOST].error
    assert "has had 2 iterations, 1 here" in str(error)


# --- predictions ----------------------------------------------------------------------------------


def assert_predicts(later: Results, trained: Results, kind: str = "train") -> None:
    """Check that a run of prediction gives the scores of the training."""
    wanted = predictions(trained)
    wanted = wanted.filter(pa.compute.equal(wanted["type"], kind)).drop(["type"])
    found = predictions(later)
    assert set(found["type"].to_pylist()) == {"predict"}
    assert found.drop(["type"]).equals(wanted)
    assert all(result.outputs is not None for result in later.values())


@kinds()
def test_later_predictions_of_the_training_rows_are_those_of_the_training(
    kind: str, tmp_path: Path
) -> None:
    data, params = KINDS[kind]
    held_out = rows_of(data, slice(5, 25))
    trained = run(
        data, tmp_path / "1", ports={"train_data": data, "validate_data": held_out}, **params
    )
    models = models_of(trained)
    federation = LocalFederation(tuple(data.tables))
    again = run(
        data, tmp_path / "2", ports={"test_data": data}, models=models, federation=federation
    )  # with default parameters: those of the training count
    assert federation.unread() == []
    assert_predicts(again, trained)
    new = run(data, tmp_path / "3", ports={"test_data": held_out}, models=models, **params)
    assert_predicts(new, trained, "validate")
    for site in set(data.tables) - {GUEST}:
        assert outputs_of(again)[site].data == ()


def test_hosts_may_come_in_another_order(tmp_path: Path) -> None:
    data = data_of(widths=THREE)
    trained = run(data, tmp_path / "1")
    turned = replace(data, tables={s: data.tables[s] for s in (GUEST, HOST_2, HOST)})
    later = run(turned, tmp_path / "2", ports={"test_data": turned}, models=models_of(trained))
    assert_predicts(later, trained)


def test_a_host_that_has_splits_must_take_part(tmp_path: Path) -> None:
    data = data_of(widths=THREE)
    models = models_of(run(data, tmp_path / "1"))
    few = replace(data, tables={s: data.tables[s] for s in (GUEST, HOST_2)})
    later = run(few, tmp_path / "2", ports={"test_data": few}, models=models)
    assert "a split of 'host:10000', which takes no part" in str(later[GUEST].error)


def test_a_table_that_lacks_a_column_is_not_predicted(tmp_path: Path) -> None:
    data = data_of()
    models = models_of(run(data, tmp_path / "1", num_trees=1))
    few = replace(data, tables={**data.tables, HOST: data.tables[HOST].drop(["x0", "x2"])})
    later = run(few, tmp_path / "2", ports={"test_data": few}, models=models)
    assert isinstance(later[HOST].error, BadData)
    assert "lacks the model's columns x0, x2" in str(later[HOST].error)


def test_rows_without_labels_are_predicted(tmp_path: Path) -> None:
    data = data_of()
    trained = run(data, tmp_path / "1", num_trees=1)
    bare = replace(data, tables={**data.tables, GUEST: data.tables[GUEST].drop(["y"])})
    later = run(bare, tmp_path / "2", ports={"test_data": bare}, models=models_of(trained))
    assert predictions(later)["predict_score"].equals(predictions(trained)["predict_score"])


# --- when training ends ---------------------------------------------------------------------------


def test_trees_after_the_best_round_are_dropped(tmp_path: Path) -> None:
    train, held_out = noisy()
    ports = {"train_data": train, "validate_data": held_out}
    callbacks = {"num_trees": 12, "callback_param": STOPPING}
    results = run(train, tmp_path / "1", ports=ports, **callbacks)
    summaries = {site: out.summary for site, out in outputs_of(results).items()}
    measured = summaries[GUEST]["validation_metrics"]["validate"]["auc"]
    best = int(np.argmax(measured))
    assert best + 3 == len(measured) < 12
    for site, model in models_of(results).items():
        assert summaries[site]["best_iteration"] == model.param["best_iteration"] == best
        assert len(model.param["trees_"]) == model.param["tree_num"] == best + 1
    alone = run(train, tmp_path / "2", ports=ports, num_trees=best + 1)
    assert predictions(alone).equals(predictions(results))
    assert trees_of(models_of(alone)) == trees_of(models_of(results))
    rows = predictions(results)
    scores = rows.filter(pa.compute.equal(rows["type"], "validate"))["predict_score"]
    assert measured[best] == pytest.approx(roc_auc_score(held_out.labels, scores), abs=1e-6)
    later = run(train, tmp_path / "3", ports={"test_data": train}, models=models_of(results))
    assert_predicts(later, results)


def test_training_ends_when_the_loss_stays(tmp_path: Path) -> None:
    data = data_of()
    losses = outputs_of(run(data, tmp_path / "1", num_trees=6))[GUEST].summary["loss_history"]
    steps = -np.diff(losses)
    tol = float(steps[2] + steps[1]) / 2  # between the second and the third step
    results = run(data, tmp_path / "2", num_trees=6, n_iter_no_change=True, tol=tol)
    for site, model in models_of(results).items():
        assert len(model.param["trees_"]) == 4
        assert outputs_of(results)[site].summary["is_converged"] is True
    assert outputs_of(results)[GUEST].summary["loss_history"] == losses[:4]


@pytest.mark.parametrize("kind", ["binary", "classes", "counts"])
def test_cross_validation_trains_without_each_part(kind: str, tmp_path: Path) -> None:
    data, params = KINDS[kind]
    cv = {"need_cv": True, "n_splits": 2, "random_seed": 7}
    federation = LocalFederation(tuple(data.tables))
    results = run(data, tmp_path / "cv", cv_param=cv, federation=federation, **params)
    assert federation.unread() == []
    assert all(out.model is None for out in outputs_of(results).values())
    found = predictions(results)
    count = len(data.labels)
    folds = KFold(2, shuffle=True, random_state=7).split(np.zeros(count))
    for number, (train, test) in enumerate(folds):
        parts = {"train_data": rows_of(data, train), "validate_data": rows_of(data, test)}
        alone = predictions(run(data, tmp_path / str(number), ports=parts, **params))
        own = found.slice(number * count, count)
        assert own.drop(["id"]).equals(alone.drop(["id"]))
        assert results[GUEST].metrics["validate", f"validate_fold_{number}"].points
        assert f"fold_{number}" in outputs_of(results)[HOST].summary


# --- documents ------------------------------------------------------------------------------------


def shape_of(value: Any) -> Any:
    """Return the names of members, and of lists the shape of their first value."""
    if isinstance(value, Mapping):
        return {k: shape_of(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return type(value).__name__


META = {
    "tree_meta": {
        "criterion_meta": {"criterion_method": "str", "criterion_param": ["float"]},
        "max_depth": "int",
        "min_sample_split": "int",
        "min_impurity_split": "float",
        "min_leaf_node": "int",
        "use_missing": "bool",
        "zero_as_missing": "bool",
    },
    "learning_rate": "float",
    "num_trees": "int",
    "quantile_meta": {"quantile_method": "str", "bin_num": "int"},
    "objective_meta": {"objective": "str", "param": []},
    "task_type": "str",
    "multi_mode": "str",
    "n_iter_no_change": "bool",
    "tol": "float",
    "use_missing": "bool",
    "zero_as_missing": "bool",
    "work_mode": "str",
    "boosting_strategy": "str",
    "module": "str",
}
NODE = {
    "id": "int",
    "sitename": "str",
    "fid": "int",
    "bid": "int",
    "weight": "float",
    "is_leaf": "bool",
    "left_nodeid": "int",
    "right_nodeid": "int",
    "missing_dir": "int",
    "gain": "float",
    "mo_weight": [],
}
BOTH_ROLES = {
    "tree_num": "int",
    "tree_dim": "int",
    "best_iteration": "int",
    "tree_plan": [],
    "model_name": "str",
}
GUEST_ONLY = {
    "init_score": ["float"],
    "losses": ["float"],
    "num_classes": "int",
    "classes_": ["int"],
    "feature_importances": [
        {
            "sitename": "str",
            "fid": "int",
            "fullname": "str",
            "importance": "float",
            "importance2": "float",
            "main": "str",
        }
    ],
}


def test_model_documents_have_the_published_names(tmp_path: Path) -> None:
    models = models_of(run(data_of(), tmp_path))
    for site, names in {
        GUEST: ("HeteroSecureBoostingTreeGuestMeta", "HeteroSecureBoostingTreeGuestParam"),
        HOST: ("HeteroSecureBoostingTreeHostMeta", "HeteroSecureBoostingTreeHostParam"),
    }.items():
        model = models[site]
        assert (model.meta_name, model.param_name) == names
        assert shape_of(model.meta) == META
        assert json.loads(json.dumps(model.param)) == model.param
        shape = shape_of(model.param)
        (tree,) = shape.pop("trees_")
        assert tree.pop("tree_") == [NODE]
        assert set(tree) == {"split_maskdict", "missing_dir_maskdict", "leaf_count", "grown_alone"}
        assert set(shape.pop("progress")) >= {"rounds", "converged", "best"}
        width = len(shape.pop("feature_name_fid_mapping"))
        assert len(shape.pop("anonymous_name_mapping")) == width == {GUEST: 2, HOST: 3}[site]
        assert shape == (BOTH_ROLES | GUEST_ONLY if site is GUEST else BOTH_ROLES)


def test_nodes_say_whose_they_are_and_nothing_of_others(tmp_path: Path) -> None:
    data = data_of(missing=0.2)
    models = models_of(run(data, tmp_path, use_missing=True))
    for whole, own in zip(models[GUEST].param["trees_"], models[HOST].param["trees_"], strict=True):
        of_guest = {n["id"] for n in whole["tree_"] if n["sitename"] == "guest:9999"}
        inner = {n["id"]: n for n in whole["tree_"] if not n["is_leaf"]}
        leaves = {str(n["id"]) for n in whole["tree_"] if n["is_leaf"]}
        assert set(whole["leaf_count"]) == leaves
        assert sum(whole["leaf_count"].values()) == 60
        assert {int(n) for n in whole["split_maskdict"]} == of_guest & set(inner)
        theirs = set(inner) - of_guest
        assert {n["id"] for n in own["tree_"]} == theirs == {int(n) for n in own["split_maskdict"]}
        assert not own["leaf_count"]
        for number in theirs:
            node = inner[number]
            assert (node["fid"], node["bid"], node["missing_dir"]) == (number, number, 1)
        assert all(n["weight"] == 0.0 and n["left_nodeid"] == -1 for n in own["tree_"])


@pytest.mark.parametrize("kind", ["split", "gain"])
def test_importance_counts_splits_or_adds_up_gains(kind: str, tmp_path: Path) -> None:
    data = data_of(widths=THREE)
    results = run(data, tmp_path, tree_param={"feature_importance_type": kind}, num_trees=3)
    models = models_of(results)
    found = models[GUEST].param["feature_importances"]
    counted: dict[tuple[str, int], int] = {}
    for site in data.tables:
        name = f"{site.role.value}:{site.party_id}"
        for tree in models[site].param["trees_"]:
            for node in tree["tree_"]:
                if node["sitename"] == name and not node["is_leaf"]:
                    counted[name, node["fid"]] = counted.get((name, node["fid"]), 0) + 1
    assert {(one["sitename"], one["fid"]) for one in found} == set(counted)
    for one in found:
        is_guest = one["sitename"] == "guest:9999"
        count = counted[one["sitename"], one["fid"]]
        split, gain = "importance", "importance2"
        if kind == "gain" and is_guest:
            split, gain = gain, split
        assert one[split] == count
        assert (one[gain] > count * 1e-3) if is_guest else (one[gain] == 0.0)
        assert one["main"] == (kind if is_guest else "split")
        number = one["fid"]
        party = one["sitename"].replace(":", "_")
        assert one["fullname"] == (f"x{number}" if is_guest else f"{party}_x{number}")
    sizes = [one["importance"] for one in found]
    assert sizes == sorted(sizes, reverse=True)
    summary = outputs_of(results)[GUEST].summary
    assert summary["feature_importance"] == {one["fullname"]: one["importance"] for one in found}


def test_summaries_and_losses(tmp_path: Path) -> None:
    data = data_of()
    callbacks = {"callbacks": ["PerformanceEvaluate"], "validation_freqs": 2}
    results = run(data, tmp_path, num_trees=3, callback_param=callbacks)
    outputs = outputs_of(results)
    assert outputs[HOST].summary == {"best_iteration": -1, "is_converged": False}
    summary = outputs[GUEST].summary
    assert set(summary) == {
        "loss_history",
        "best_iteration",
        "feature_importance",
        "is_converged",
        "validation_metrics",
    }
    assert len(summary["validation_metrics"]["train"]["auc"]) == 1
    metric = results[GUEST].metrics["train", "loss"]
    assert metric.metric_type == "LOSS"
    assert metric.points == list(enumerate(summary["loss_history"]))
    chances = predictions(results)["predict_score"].to_numpy()
    own = np.where(data.labels == 1, chances, 1 - chances)
    assert summary["loss_history"][-1] == pytest.approx(-np.log(own).mean(), rel=1e-9)
    for site in (GUEST, HOST):
        shown = results[site].progress
        assert list(shown) == sorted(shown)
        assert {round(n / 9, 9) for n in range(1, 10)} <= {round(one, 9) for one in shown}


def test_features_that_trees_use_are_selected(tmp_path: Path) -> None:
    data = data_of(widths={GUEST: 3, HOST: 4})
    results = run(data, tmp_path / "1", num_trees=1, tree_param={"max_depth": 2})
    models = models_of(results)
    columns = {
        site: [n for n in t.column_names if n not in ("id", "y")] for site, t in data.tables.items()
    }
    inputs = {}
    for site, rows in data.tables.items():
        names = tuple(f"{site.role.value}_{site.party_id}_{name}" for name in columns[site])
        schema = replace(schema_of(rows), anonymous=names)
        table = MemoryTableStore().add(rows, schema=schema)
        inputs[site] = Inputs(data={"data": [("i_0", table)]}, model={"trees_0": models[site]})
    params = {"filter_methods": ["hetero_sbt_filter"], "sbt_param": {"threshold": 0.5}}
    selected = run_component(
        HeteroFeatureSelection,
        sites=tuple(data.tables),
        work_dir=tmp_path / "2",
        params=dict.fromkeys(data.tables, params),
        inputs=inputs,
    )
    for number, site in enumerate(data.tables):
        used = {n.column for n in inner_nodes(trees_of(models)) if n.party == number}
        (table,) = outputs_of(selected)[site].data
        assert table is not None
        assert table.schema.columns == tuple(columns[site][c] for c in sorted(used))


def inner_nodes(trees: Any) -> list[Any]:
    found = [tree for tree in trees if tree.left is not None]
    return found + [n for tree in found for n in inner_nodes([tree.left, tree.right])]
