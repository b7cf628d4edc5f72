"""SSHE models: stored, predicted with, gone on from, encrypted at the host; what is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import PeerFailed
from fedflow.components.linear.party_weights import TrainingProgress
from fedflow.components.linear.stored import LinearModel
from fedflow.components.sshe.component import HeteroSSHELinR, HeteroSSHELR
from fedflow.components.sshe.model import (
    EncryptedWeights,
    Fitted,
    no_weights,
    read_model,
    write_model,
)
from fedflow.components.sshe.params import SSHE_LOGISTIC, HeteroSSHELRParams
from fedflow.domain.models.model import canonical_json
from fedflow.domain.site import Site
from fedflow.sdk import Model
from fedflow.sdk.crypto import paillier
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import RunResult, outputs_of
from tests.unit.components.hetero_lr_parties import GUEST, HOST, Data, auc, first_error, small
from tests.unit.components.sshe_parties import (
    HIDDEN,
    KNOWN,
    SITES,
    assert_equals,
    losses,
    models_of,
    run,
    scores_of,
    weights_of,
)

ENCRYPTED: dict[str, Any] = {"reveal_strategy": "encrypted_reveal_in_host"}
SAVING: dict[str, Any] = {"callbacks": ["ModelCheckpoint"], "save_freq": 1}


def predict(
    data: Data, models: Mapping[Site, Model], tmp_path: Path, **params: Any
) -> dict[Site, RunResult]:
    return run(data, tmp_path / "predict", ports={"test_data": data}, models=models, **params)


# --- prediction -----------------------------------------------------------------------------------


def test_a_stored_model_predicts_the_same_scores(tmp_path: Path) -> None:
    data = small()
    trained = run(data, tmp_path, **HIDDEN)
    shuffled = Data(dict(data.tables), data.features, data.labels)
    shuffled.tables[HOST] = data.tables[HOST].select(["id", "x2", "x0", "x3", "x1"])
    shuffled.tables[GUEST] = data.tables[GUEST].drop(["y"])
    results = predict(shuffled, models_of(trained), tmp_path)
    np.testing.assert_allclose(scores_of(results), scores_of(trained), atol=1e-12)
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    assert set(table.read()["type"].to_pylist()) == {"predict"}
    assert outputs_of(results)[HOST].data == ()


def test_validation_rows_are_predicted_after_training(tmp_path: Path) -> None:
    data, more = small(), small(rows=12)
    results = run(data, tmp_path, ports={"train_data": data, "validate_data": more}, **HIDDEN)
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    assert table.read()["type"].to_pylist() == ["train"] * 40 + ["validate"] * 12


def test_the_host_may_have_its_weights_encrypted_only(tmp_path: Path) -> None:
    data = small()
    federation = LocalFederation(SITES)
    results = run(data, tmp_path, federation=federation, **HIDDEN, **ENCRYPTED)
    assert federation.unread() == []
    expected = train_in_clear(
        data.features, data.labels, OracleSettings(iterations=3, optimizer="sgd")
    )
    models = models_of(results)
    guest, host = models[GUEST].param, models[HOST].param
    np.testing.assert_allclose(
        [guest["weight"][n] for n in guest["header"]], expected.coef[:3], atol=1e-6
    )
    assert host["weight"] == {}
    assert host["cipher"] == {}
    assert guest["encrypted_weight"] == {}
    secret = guest["cipher"]["private_key"]
    key = PrivateKey(int(secret["p"]), int(secret["q"]))
    assert guest["cipher"]["public_key"] == {"n": str(key.public.n)}
    for name, value in zip(host["header"], expected.coef[3:], strict=True):
        stored = host["encrypted_weight"][name]
        assert stored["public_key"] == guest["cipher"]["public_key"]
        (opened,) = key.decrypt(key.public.from_bytes(_wire(key, stored["cipher_text"]), count=1))
        assert opened * 16.0 ** stored["exponent"] == pytest.approx(value, abs=1e-6)
    for site in SITES:
        assert models[site].meta["reveal_strategy"] == "encrypted_reveal_in_host"
        canonical_json(dict(models[site].param))
        assert not {"coef", "intercept"} & set(outputs_of(results)[site].summary)
    wanted = 1.0 / (1.0 + np.exp(-expected.scores_per_iteration[-1]))
    np.testing.assert_allclose(scores_of(results), wanted, atol=1e-6)
    again = predict(data, models, tmp_path)
    np.testing.assert_allclose(scores_of(again), wanted, atol=1e-6)


def _wire(key: PrivateKey, text: str) -> bytes:
    from gmpy2 import mpz

    return key.public.to_bytes([mpz(int(text))])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cipher", "private_key", "p"), "15"),
        (("cipher", "private_key", "p"), "no number"),
        (("cipher", "public_key"), {}),
    ],
)
def test_a_damaged_key_is_refused(path: tuple[str, ...], value: Any, tmp_path: Path) -> None:
    data = small()
    models = models_of(run(data, tmp_path, max_iter=1, **HIDDEN, **ENCRYPTED))
    param: dict[str, Any] = {**models[GUEST].param}
    inner: Any = param
    for name in path[:-1]:
        inner[name] = dict(inner[name])
        inner = inner[name]
    inner[path[-1]] = value
    models[GUEST] = replace(models[GUEST], param=param)
    error = first_error(predict(data, models, tmp_path))
    assert isinstance(error, BadData)


def test_stored_keys_are_blinded_as_the_parameters_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, safe = small(rows=10), {"key_length": 1024, "blinding": "conservative"}
    models = models_of(run(data, tmp_path, max_iter=1, **HIDDEN, **ENCRYPTED))

    def no_table(*_: Any, **__: Any) -> None:
        raise AssertionError("a blinding came from a table")

    monkeypatch.setattr(paillier, "RandomPowers", no_table)
    given = {"encrypt_param": safe, **HIDDEN, **ENCRYPTED}
    outputs_of(predict(data, models, tmp_path, **given))
    outputs_of(run(data, tmp_path, models=models, max_iter=2, **given))


def test_ciphertexts_of_the_longest_keys_are_stored_in_decimal() -> None:
    key = PublicKey(math.prod(int(gmpy2.next_prime(1 << bits)) for bits in range(504, 520)))
    weights = EncryptedWeights(key=key, ciphertexts=(int(key.modulus) - 2,))
    part = Fitted(
        progress=TrainingProgress(iterations=1, converged=False),
        share=no_weights(("x0",)),
        known=False,
        encrypted=weights,
    )
    stored = write_model(LinearModel(parts=(part,)), HeteroSSHELRParams())
    assert len(stored.param["encrypted_weight"]["x0"]["cipher_text"]) > 4300
    (found,) = read_model(stored, family=SSHE_LOGISTIC, where="model").parts
    assert isinstance(found, Fitted)
    assert found.encrypted is not None
    assert found.encrypted.ciphertexts == weights.ciphertexts


# --- warm start -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (HIDDEN, HIDDEN),
        (KNOWN, HIDDEN),
        (HIDDEN, KNOWN),
        ({**HIDDEN, **ENCRYPTED}, HIDDEN),
        ({**HIDDEN, **ENCRYPTED}, {**HIDDEN, **ENCRYPTED}),
    ],
)
def test_a_warm_start_equals_a_direct_run_of_the_total(
    first: dict[str, Any], second: dict[str, Any], tmp_path: Path
) -> None:
    data = small()
    before = run(data, tmp_path / "1", max_iter=2, **first)
    after = run(data, tmp_path / "2", max_iter=4, models=models_of(before), **second)
    expected = train_in_clear(
        data.features, data.labels, OracleSettings(iterations=4, optimizer="sgd")
    )
    assert losses(after) == pytest.approx(expected.losses[2:], rel=1e-6)
    wanted = 1.0 / (1.0 + np.exp(-expected.scores_per_iteration[-1]))
    np.testing.assert_allclose(scores_of(after), wanted, atol=1e-6)
    for site in SITES:
        assert after[site].metrics["train", "init_iter"].points == [("init_iter", 2)]
        assert models_of(after)[site].param["iters"] == 4


def test_weights_that_nobody_may_know_are_not_revealed_in_a_warm_start(tmp_path: Path) -> None:
    data = small()
    before = models_of(run(data, tmp_path, max_iter=1, **HIDDEN, **ENCRYPTED))
    error = first_error(run(data, tmp_path / "2", max_iter=2, models=before, **KNOWN))
    assert isinstance(error, BadParameter)
    assert "reveal_every_iter" in str(error)


def test_a_model_of_other_classes_or_columns_is_no_start(tmp_path: Path) -> None:
    data, other, wide = small(), small(), small()
    before = models_of(run(data, tmp_path, max_iter=1, **KNOWN))
    words = pa.array(["good" if y > 0 else "bad" for y in data.labels])
    other.tables[GUEST] = other.tables[GUEST].set_column(1, "y", words)
    assert "other classes" in str(
        first_error(run(other, tmp_path / "2", max_iter=2, models=before, **KNOWN))
    )
    wide.tables[HOST] = wide.tables[HOST].append_column("x9", pa.array([0.0] * 40))
    assert "does not know" in str(
        first_error(run(wide, tmp_path / "3", max_iter=2, models=before, **KNOWN))
    )


# --- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode",
    [
        {**HIDDEN, "optimizer": "nesterov_momentum_sgd"},
        {**KNOWN, "optimizer": "adam"},
        {**HIDDEN, **ENCRYPTED},
    ],
)
def test_a_repeated_attempt_goes_on_from_the_last_common_checkpoint(
    mode: dict[str, Any], tmp_path: Path
) -> None:
    data = small()
    stores = {site: MemoryCheckpoints() for site in SITES}
    common = {**mode, "callback_param": SAVING, "max_iter": 5, "tol": 1e-9}
    whole = run(data, tmp_path / "1", checkpoints=stores, **common)
    stopped = {}
    for site in SITES:
        stopped[site] = MemoryCheckpoints()
        last = 3 if site is GUEST else 2  # the host was killed first
        for index in range(last):
            stopped[site].save(index, f"round_{index}", stores[site].load(index).model)
        stopped[site].begin()
    again = run(data, tmp_path / "2", checkpoints=stopped, task_version=1, **common)
    assert losses(again) == pytest.approx(losses(whole)[2:], rel=1e-7)
    np.testing.assert_allclose(scores_of(again), scores_of(whole), atol=1e-7)
    history = models_of(again)[GUEST].param["loss_history"]
    assert history == pytest.approx(losses(whole), rel=1e-7)
    assert again[HOST].metrics["train", "init_iter"].points == [("init_iter", 2)]


def test_a_checkpoint_of_hidden_weights_shows_none_of_them(tmp_path: Path) -> None:
    data = small()
    stores = {site: MemoryCheckpoints() for site in SITES}
    run(data, tmp_path, checkpoints=stores, callback_param=SAVING, max_iter=1, **HIDDEN)
    models = {site: stores[site].load(0).model for site in SITES}
    for model in models.values():
        assert model.param["weight"] == {}
        assert model.param["intercept"] == 0.0
    error = first_error(predict(data, models, tmp_path))
    assert "checkpoint of hidden weights" in str(error)
    after = run(data, tmp_path / "2", max_iter=2, models=models, **HIDDEN)
    expected = train_in_clear(
        data.features, data.labels, OracleSettings(iterations=2, optimizer="sgd")
    )
    assert losses(after) == pytest.approx(expected.losses[1:], rel=1e-6)


# --- measures and cross validation ----------------------------------------------------------------


def test_known_weights_can_be_measured_between_iterations(tmp_path: Path) -> None:
    data = small()
    callbacks = {"callbacks": ["PerformanceEvaluate"], "validation_freqs": [0, 2]}
    results = run(data, tmp_path, callback_param=callbacks, **KNOWN)
    expected = train_in_clear(
        data.features, data.labels, OracleSettings(iterations=3, optimizer="sgd")
    )
    assert_equals(results, expected)
    measured = outputs_of(results)[GUEST].summary["validation_metrics"]
    found = [auc(data.labels, expected.scores_per_iteration[i]) for i in (0, 2)]
    assert measured["train"]["auc"] == pytest.approx(found, abs=1e-6)
    assert "validation_metrics" not in outputs_of(results)[HOST].summary


def test_early_stopping_keeps_the_best_iterations_weights(tmp_path: Path) -> None:
    data, more = small(), small(rows=30)
    callbacks = {
        "callbacks": ["EarlyStopping"],
        "validation_freqs": 1,
        "early_stopping_rounds": 2,
        "metrics": ["auc"],
    }
    federation = LocalFederation(SITES)
    results = run(
        data,
        tmp_path,
        ports={"train_data": data, "validate_data": more},
        callback_param=callbacks,
        max_iter=8,
        optimizer="rmsprop",
        federation=federation,
        **KNOWN,
    )
    assert federation.unread() == []
    settings = OracleSettings(iterations=8)
    expected = train_in_clear(data.features, data.labels, settings)
    best = outputs_of(results)[GUEST].summary["best_iteration"]
    stopped = models_of(results)[HOST].param["iters"]
    assert 0 <= best < stopped <= 8
    wanted = 1.0 / (1.0 + np.exp(-expected.scores_per_iteration[best]))
    np.testing.assert_allclose(scores_of(results)[:40], wanted, atol=1e-6)


@pytest.mark.parametrize(("kind", "mode"), [(HeteroSSHELR, HIDDEN), (HeteroSSHELinR, KNOWN)])
def test_cross_validation_measures_every_fold(
    kind: type[Any], mode: dict[str, Any], tmp_path: Path
) -> None:
    data = small()
    cv = {"need_cv": True, "n_splits": 2, "shuffle": False}
    results = run(data, tmp_path, kind=kind, max_iter=1, cv_param=cv, **mode)
    outputs = outputs_of(results)
    assert outputs[GUEST].model is None
    assert outputs[GUEST].summary["fold_num"] == 2
    assert set(outputs[HOST].summary) == {"fold_num", "fold_0", "fold_1"}
    table = outputs[GUEST].data[0]
    assert table is not None
    assert table.count == 80


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["learning_rate", "alpha", "penalty", "batch_size", "reveal_strategy", "optimizer"]
)
def test_parameters_that_both_compute_with_must_be_equal(name: str, tmp_path: Path) -> None:
    other = {
        "learning_rate": 0.1,
        "alpha": 0.5,
        "penalty": None,
        "batch_size": 20,
        "reveal_strategy": "encrypted_reveal_in_host",
        "optimizer": "nesterov_momentum_sgd",
    }
    results = run(small(), tmp_path, per_site={HOST: {name: other[name]}}, **HIDDEN)
    error = first_error(results)
    assert isinstance(error, BadParameter)
    assert name in str(error)
    assert isinstance(results[GUEST].error, PeerFailed)


def test_a_party_refuses_keys_shorter_than_its_own_setting(tmp_path: Path) -> None:
    results = run(small(), tmp_path, per_site={HOST: {"encrypt_param": {"key_length": 2048}}})
    assert "1024 bits" in str(first_error(results))


@pytest.mark.parametrize("mode", [KNOWN, HIDDEN])
def test_a_diverging_training_says_so(mode: dict[str, Any], tmp_path: Path) -> None:
    results = run(small(), tmp_path, learning_rate=1e12, max_iter=20, **mode)
    error = first_error(results)
    assert "diverged" in str(error)


def bad_data() -> dict[str, tuple[Data, str]]:
    fewer, reordered, empty, wide, no_label, one_class, large = (small() for _ in range(7))
    fewer.tables[HOST] = fewer.tables[HOST].slice(0, 39)
    reordered.tables[HOST] = reordered.tables[HOST].take(list(range(39, -1, -1)))
    empty.tables[GUEST] = empty.tables[GUEST].slice(0, 0)
    wide.tables[HOST] = wide.tables[HOST].select(["id"])
    no_label.tables[GUEST] = no_label.tables[GUEST].drop(["y"])
    column = pa.array([1] * 40)
    one_class.tables[GUEST] = one_class.tables[GUEST].set_column(1, "y", column)
    column = pa.array([2.0**21] * 40)
    large.tables[HOST] = large.tables[HOST].set_column(2, "x1", column)
    return {
        "fewer": (fewer, "Intersection"),
        "reordered": (reordered, "another order"),
        "empty": (empty, "no rows"),
        "no host columns": (wide, "no feature columns"),
        "no label": (no_label, "label"),
        "one class": (one_class, "40 labels"),
        "large": (large, "scale it"),
    }


@pytest.mark.parametrize("name", list(bad_data()))
def test_bad_data_end_the_run_at_both_parties(name: str, tmp_path: Path) -> None:
    data, text = bad_data()[name]
    results = run(data, tmp_path, **HIDDEN)
    error = first_error(results)
    assert isinstance(error, BadData)
    assert text in str(error)
    assert all(result.error is not None for result in results.values())


def test_labels_too_large_for_a_regression_are_counted(tmp_path: Path) -> None:
    data = small()
    labels = pa.array([2.0**31] * 2 + [0.5] * 38)
    data.tables[GUEST] = data.tables[GUEST].set_column(1, "y", labels)
    error = first_error(run(data, tmp_path, kind=HeteroSSHELinR, **HIDDEN))
    assert isinstance(error, BadData)
    assert "2 of 40" in str(error)


def test_a_model_of_another_component_is_refused(tmp_path: Path) -> None:
    data = small()
    model = Model(meta_name="OtherMeta", param_name="OtherParam", meta={}, param={"header": 3})
    error = first_error(predict(data, dict.fromkeys(SITES, model), tmp_path))
    assert "not one of HeteroSSHELR" in str(error)


def test_weights_differ_where_parties_draw_their_own(tmp_path: Path) -> None:
    init = {"init_method": "random_uniform", "random_seed": 7}
    data = small()
    one = run(data, tmp_path / "1", max_iter=1, init_param=init, **HIDDEN)
    two = run(data, tmp_path / "2", max_iter=1, init_param=init, **KNOWN)
    np.testing.assert_allclose(weights_of(one), weights_of(two), atol=1e-7)
    drawn = np.random.RandomState(7).rand(4)
    start = np.concatenate((drawn[:3], np.random.RandomState(7).rand(4), drawn[3:]))
    assert not np.allclose(weights_of(one), start, atol=1e-3)
