"""HeteroLR between iterations: measures, early stopping, checkpoints, and training that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import PeerFailed
from fedflow.components.linear.params import HeteroLRParams
from fedflow.domain.site import Site
from fedflow.sdk import Model, check_params
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import RunResult, outputs_of
from tests.unit.components.hetero_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    Data,
    assert_equals_oracle,
    assert_weights_equal_oracle,
    auc,
    breast_data,
    first_error,
    losses,
    run,
    small,
    weights_of,
)

SITES = (GUEST, HOST, ARBITER)
STOPPING: dict[str, Any] = {
    "callbacks": ["EarlyStopping"],
    "validation_freqs": 1,
    "early_stopping_rounds": 2,
}


def models_of(results: Mapping[Site, RunResult]) -> dict[Site, Model]:
    return {site: out.model for site, out in outputs_of(results).items() if out.model is not None}


def rows(data: Data, chosen: slice) -> Data:
    tables = {
        site: table.take(list(range(*chosen.indices(len(table)))))
        for site, table in data.tables.items()
    }
    return Data(tables, data.features[chosen], data.labels[chosen])


# --- measures -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def breast() -> Data:
    return breast_data()


def test_the_summary_lists_the_published_auc_of_every_second_iteration(
    breast: Data, tmp_path: Path
) -> None:
    federation = LocalFederation(SITES)
    results = run(breast, tmp_path, max_iter=5, validation_freqs=2, federation=federation)
    assert federation.unread() == []
    outputs = outputs_of(results)
    measured = outputs[GUEST].summary["validation_metrics"]
    assert measured["train"]["auc"] == pytest.approx([0.978318, 0.977340], abs=1e-6)
    assert set(measured) == {"train"}
    assert len(measured["train"]["ks"]) == 2
    for site in (HOST, ARBITER):
        assert "validation_metrics" not in outputs[site].summary
    metric = results[GUEST].metrics["train", "iteration_3"]
    assert metric.metric_type == "EVALUATION_SUMMARY"
    assert metric.points[0] == ("auc", pytest.approx(0.977340, abs=1e-6))
    assert ("train", "iteration_3_ks_fpr") in results[GUEST].metrics
    assert ("train", "iteration_0") not in results[GUEST].metrics


def test_validating_changes_nothing_in_the_training(tmp_path: Path) -> None:
    data = small()
    callbacks = {"callbacks": ["PerformanceEvaluate"], "validation_freqs": [0, 2]}
    results = run(
        data, tmp_path, ports={"train_data": data, "validate_data": data}, callback_param=callbacks
    )
    expected = train_in_clear(data.features, data.labels, OracleSettings(iterations=3))
    assert_equals_oracle(results, expected)
    measured = outputs_of(results)[GUEST].summary["validation_metrics"]
    scores = [expected.scores_per_iteration[i] for i in (0, 2)]
    found = [auc(data.labels, s) for s in scores]
    assert measured["train"]["auc"] == pytest.approx(found, abs=1e-6)
    assert measured["validate"] == measured["train"]
    assert outputs_of(results)[GUEST].summary["best_iteration"] == -1


def test_the_measures_are_those_asked_for(tmp_path: Path) -> None:
    callbacks = {
        "callbacks": ["PerformanceEvaluate"],
        "validation_freqs": 3,
        "metrics": ["ks", "accuracy", "psi", "f1_score"],
    }
    results = run(small(), tmp_path, callback_param=callbacks)
    measured = outputs_of(results)[GUEST].summary["validation_metrics"]
    assert set(measured["train"]) == {"ks"}
    names = {name for space, name in results[GUEST].metrics if name.startswith("iteration_2")}
    assert "iteration_2_accuracy" in names
    assert not {n for n in names if "psi" in n or "f1" in n or "auc" in n}


def test_frequencies_without_a_callback_that_measures_have_no_effect(tmp_path: Path) -> None:
    results = run(small(), tmp_path, callback_param={"validation_freqs": 1})
    assert "validation_metrics" not in outputs_of(results)[GUEST].summary


# --- early stopping -------------------------------------------------------------------------------


def test_early_stopping_keeps_the_weights_of_the_best_iteration_at_all_parties(
    tmp_path: Path,
) -> None:
    data = small(rows=80)
    train, held_out = rows(data, slice(0, 40)), rows(data, slice(40, 80))
    federation = LocalFederation(SITES)
    results = run(
        train,
        tmp_path,
        ports={"train_data": train, "validate_data": held_out},
        max_iter=30,
        callback_param={**STOPPING, "use_first_metric_only": True},
        federation=federation,
    )
    assert federation.unread() == []
    summary = outputs_of(results)[GUEST].summary
    values = summary["validation_metrics"]["validate"]["auc"]
    best = int(np.argmax(values))
    assert len(values) == best + 3 < 30
    for output in outputs_of(results).values():
        assert output.summary["best_iteration"] == best
        assert output.model is not None
        assert output.model.param["best_iteration"] == best
    expected = train_in_clear(train.features, train.labels, OracleSettings(iterations=best + 1))
    assert_weights_equal_oracle(results, expected)
    assert len(losses(results)) == best + 3
    assert models_of(results)[ARBITER].param["optimizer_state"] == {}


def test_the_best_iteration_of_the_first_measure_counts_if_training_runs_out(
    tmp_path: Path,
) -> None:
    data = small()
    results = run(
        data,
        tmp_path,
        ports={"train_data": data, "validate_data": data},
        callback_param={**STOPPING, "early_stopping_rounds": 10, "metrics": ["ks", "auc"]},
    )
    summary = outputs_of(results)[GUEST].summary
    values = summary["validation_metrics"]["validate"]["ks"]
    assert summary["best_iteration"] == int(np.argmax(values))


def test_early_stopping_without_validation_data_is_refused(tmp_path: Path) -> None:
    results = run(small(), tmp_path, callback_param=STOPPING)
    assert "validate_data" in str(first_error(results))


def test_early_stopping_needs_a_measure_of_one_value(tmp_path: Path) -> None:
    data = small()
    ports = {"train_data": data, "validate_data": data}
    results = run(data, tmp_path, ports=ports, callback_param={**STOPPING, "metrics": ["accuracy"]})
    assert "metrics" in str(first_error(results))


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"callback_param": {"callbacks": ["EarlyStopping"]}}, "early_stopping_rounds"),
        (
            {"callback_param": {"callbacks": ["EarlyStopping"], "early_stopping_rounds": 1}},
            "validation_freqs",
        ),
        ({"early_stopping_rounds": 1}, "validation_freqs"),
        ({"callback_param": {"callbacks": ["Tensorboard"]}}, "Tensorboard"),
        ({"validation_freqs": 0}, "validation_freqs"),
        ({"callback_param": {"validation_freqs": [-1]}}, "validation_freqs"),
        (
            {"validation_freqs": 1, "callback_param": {"validation_freqs": 1}},
            "given here and in callback_param",
        ),
        ({"validation_freqs": 1, "metrics": ["rmse"]}, "none of them fits"),
    ],
)
def test_callbacks_that_do_not_fit_are_refused_with_their_path(
    params: dict[str, Any], what: str
) -> None:
    with pytest.raises(BadParameter, match=what):
        check_params(HeteroLRParams, params, path="$")


def test_a_party_with_another_plan_refuses_to_train(tmp_path: Path) -> None:
    results = run(small(), tmp_path, per_site={HOST: {"validation_freqs": 2}})
    assert "other iterations" in str(results[HOST].error)
    assert isinstance(results[GUEST].error, PeerFailed)


# --- going on -------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["rmsprop", "sgd", "adam", "nesterov_momentum_sgd"])
@pytest.mark.parametrize("penalty", ["L2", "L1"])
def test_a_warm_start_gives_what_one_uninterrupted_training_gives(
    optimizer: str, penalty: str, tmp_path: Path
) -> None:
    data = small()
    params = {"optimizer": optimizer, "penalty": penalty}
    first = run(data, tmp_path / "1", max_iter=2, **params)
    again = run(data, tmp_path / "2", max_iter=4, models=models_of(first), **params)
    settings = OracleSettings(iterations=4, optimizer=optimizer, penalty=penalty)
    expected = train_in_clear(data.features, data.labels, settings)
    assert_weights_equal_oracle(again, expected)
    np.testing.assert_allclose(losses(again), expected.losses[2:], rtol=1e-6)
    arbiter = models_of(again)[ARBITER].param
    assert arbiter["iters"] == 4
    assert arbiter["loss_history"] == pytest.approx(expected.losses, rel=1e-6)
    for site in SITES:
        metric = again[site].metrics["train", "init_iter"]
        assert metric.metric_type == "init_iter"
        assert metric.points == [("init_iter", 2)]


def test_a_warm_start_takes_the_columns_in_the_models_order(tmp_path: Path) -> None:
    data = small()
    first = run(data, tmp_path / "1", max_iter=1)
    guest = data.tables[GUEST]
    turned = replace(
        data, tables={**data.tables, GUEST: guest.select(["id", "y", "x2", "x0", "x1"])}
    )
    again = run(turned, tmp_path / "2", max_iter=2, models=models_of(first))
    expected = train_in_clear(data.features, data.labels, OracleSettings(iterations=2))
    assert_weights_equal_oracle(again, expected)


def test_a_model_that_has_had_all_its_iterations_stays_as_it_is(tmp_path: Path) -> None:
    data = small()
    first = run(data, tmp_path / "1")
    again = run(data, tmp_path / "2", models=models_of(first))
    assert weights_of(again, GUEST, HOST).tolist() == weights_of(first, GUEST, HOST).tolist()
    assert models_of(again)[ARBITER].param == models_of(first)[ARBITER].param


def changed(model: Model, **values: Any) -> Model:
    return replace(model, param={**model.param, **values})


@pytest.mark.parametrize(
    ("site", "values", "what"),
    [
        (HOST, {"iters": 2}, "has had 1 iterations, 2 here"),
        (HOST, {"header": ["x0"]}, "3 columns that the model to start from does not know"),
        (HOST, {"header": ["z"], "weight": {"z": 1.0}}, "lacks the model's columns z"),
        (GUEST, {"classes": [0, 2]}, "other classes"),
        (GUEST, {"iters": -1}, "negative"),
        (GUEST, {"need_one_vs_rest": True}, "0 classes"),
    ],
)
def test_a_model_that_does_not_fit_is_not_trained_on(
    site: Site, values: dict[str, Any], what: str, tmp_path: Path
) -> None:
    data = small()
    models = models_of(run(data, tmp_path / "1", max_iter=1))
    models[site] = changed(models[site], **values)
    results = run(data, tmp_path / "2", models=models)
    assert what in str(results[site].error)


def test_an_optimizer_state_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    data = small()
    params = {"optimizer": "adagrad"}
    models = models_of(run(data, tmp_path / "1", max_iter=1, **params))
    bad = {"optimizer": "adagrad", "square": [1.0]}
    models[ARBITER] = changed(models[ARBITER], optimizer_state=bad)
    results = run(data, tmp_path / "2", models=models, **params)
    assert len(losses(results)) == 2


# --- checkpoints ----------------------------------------------------------------------------------


def test_checkpoints_hold_the_model_after_their_iteration(tmp_path: Path) -> None:
    data = small()
    stored = {site: MemoryCheckpoints() for site in SITES}
    callbacks = {"callbacks": ["ModelCheckpoint"], "save_freq": 2}
    results = run(data, tmp_path, max_iter=4, callback_param=callbacks, checkpoints=stored)
    for site in SITES:
        assert list(stored[site].steps()) == [(1, "round_1"), (3, "round_3")]
        assert stored[site].load(3).model.param["iters"] == 4
    expected = train_in_clear(data.features, data.labels, OracleSettings(iterations=2))
    early = [stored[site].load(1).model.param for site in (GUEST, HOST)]
    found = [p["weight"][name] for p in early for name in p["header"]]
    np.testing.assert_allclose(found, expected.coef, rtol=1e-6, atol=2e-6)
    last = stored[GUEST].load(3).model.param
    assert last["weight"] == models_of(results)[GUEST].param["weight"]


def test_a_repeated_attempt_goes_on_from_the_step_that_all_sites_have(tmp_path: Path) -> None:
    data = small()
    stored = {site: MemoryCheckpoints() for site in SITES}
    callbacks = {"callbacks": ["ModelCheckpoint"]}
    run(data, tmp_path / "1", max_iter=2, callback_param=callbacks, checkpoints=stored)
    for store in stored.values():
        store.begin()
    lost = MemoryCheckpoints()  # the host has only the first step
    lost.save(0, "round_0", stored[HOST].load(0).model)
    results = run(
        data,
        tmp_path / "2",
        max_iter=4,
        callback_param=callbacks,
        checkpoints={**stored, HOST: lost},
        task_version=1,
    )
    expected = train_in_clear(data.features, data.labels, OracleSettings(iterations=4))
    assert_weights_equal_oracle(results, expected)
    assert [i for i, _ in results[ARBITER].metrics["train", "loss"].points] == [1, 2, 3]


def resumed_after(
    step: int, data: Data, ports: Mapping[str, Data], tmp_path: Path, **params: Any
) -> tuple[dict[Site, RunResult], dict[Site, RunResult]]:
    """Return an uninterrupted run, and one that goes on from its checkpoint `step`."""
    params = {"max_iter": 30, "ports": ports, **params}
    stored = {site: MemoryCheckpoints() for site in SITES}
    whole = run(data, tmp_path / "whole", checkpoints=stored, **params)
    left = {site: MemoryCheckpoints() for site in SITES}
    for site, store in left.items():
        for index, name in stored[site].steps()[: step + 1]:
            store.save(index, name, stored[site].load(index).model)
        store.begin()
    return whole, run(data, tmp_path / "again", checkpoints=left, task_version=1, **params)


@pytest.mark.parametrize("back", [0, 1, 3])
def test_early_stopping_goes_on_where_it_was(back: int, tmp_path: Path) -> None:
    data = small(rows=80)
    train, held_out = rows(data, slice(0, 40)), rows(data, slice(40, 80))
    ports = {"train_data": train, "validate_data": held_out}
    callbacks = {**STOPPING, "callbacks": ["EarlyStopping", "ModelCheckpoint"]}
    found = run(train, tmp_path / "0", ports=ports, max_iter=30, callback_param=callbacks)
    last = len(losses(found)) - 1
    whole, again = resumed_after(last - back, train, ports, tmp_path, callback_param=callbacks)
    assert len(losses(whole)) == last + 1
    assert len([1 for _ in again[ARBITER].metrics if _ == ("train", "loss")]) == min(back, 1)
    assert models_of(again) == models_of(whole)
    assert "resume_state" not in models_of(again)[GUEST].param
    summaries = [outputs_of(results)[GUEST].summary for results in (whole, again)]
    assert summaries[0] == summaries[1]
    assert summaries[0]["best_iteration"] != -1


def test_a_training_that_had_converged_is_not_continued(tmp_path: Path) -> None:
    data = small()
    ports = {"train_data": data}
    callbacks = {"callbacks": ["ModelCheckpoint"]}
    params = {"optimizer": "sgd", "learning_rate": 0.5, "tol": 0.025, "callback_param": callbacks}
    whole = run(data, tmp_path / "0", max_iter=30, **params)
    last = len(losses(whole)) - 1
    assert 1 < last < 28
    whole, again = resumed_after(last, data, ports, tmp_path, **params)
    assert ("train", "loss") not in again[ARBITER].metrics
    assert models_of(again) == models_of(whole)
    assert models_of(again)[HOST].param["is_converged"] is True


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    data = small()
    stored = {site: MemoryCheckpoints() for site in SITES}
    params: dict[str, Any] = {"callback_param": {"callbacks": ["ModelCheckpoint"]}}
    run(data, tmp_path / "1", max_iter=1, checkpoints=stored, **params)
    bad = changed(stored[HOST].load(0).model, resume_state={"kept": {"0": [1.0]}, "best": 0})
    stored[HOST].save(0, "round_0", bad)
    results = run(data, tmp_path / "2", checkpoints=stored, task_version=1, **params)
    assert "4 weights per iteration" in str(results[HOST].error)


def test_a_first_attempt_looks_at_no_checkpoint(tmp_path: Path) -> None:
    data = small()
    stored = {site: MemoryCheckpoints() for site in SITES}
    callbacks = {"callbacks": ["ModelCheckpoint"]}
    run(data, tmp_path / "1", max_iter=1, callback_param=callbacks, checkpoints=stored)
    results = run(data, tmp_path / "2", max_iter=1, callback_param=callbacks, checkpoints=stored)
    assert len(losses(results)) == 1


def test_validation_rows_without_labels_cannot_be_measured(tmp_path: Path) -> None:
    data = small()
    unlabelled = replace(data, tables={**data.tables, GUEST: data.tables[GUEST].drop(["y"])})
    ports = {"train_data": data, "validate_data": unlabelled}
    results = run(data, tmp_path, ports=ports, validation_freqs=1)
    assert isinstance(first_error(results), BadData)


@pytest.mark.parametrize(
    "params",
    [
        {"batch_size": 15, "shuffle": True, "masked_rate": 1.0, "random_seed": 8},
        {"batch_size": 15, "batch_strategy": "random", "random_seed": 8},
        {"optimizer": "adagrad"},
    ],
)
def test_a_resumed_training_gives_the_same_bits(params: dict[str, Any], tmp_path: Path) -> None:
    data = small()
    params = {**params, "callback_param": {"callbacks": ["ModelCheckpoint"]}}
    whole = run(data, tmp_path / "0", max_iter=4, **params)
    stored = {site: MemoryCheckpoints() for site in SITES}
    run(data, tmp_path / "1", max_iter=2, checkpoints=stored, **params)
    for store in stored.values():
        store.begin()
    resumed = run(data, tmp_path / "2", max_iter=4, checkpoints=stored, task_version=1, **params)
    assert weights_of(resumed, GUEST, HOST).tolist() == weights_of(whole, GUEST, HOST).tolist()
    assert models_of(resumed)[ARBITER].param == models_of(whole)[ARBITER].param
