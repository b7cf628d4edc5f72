"""HomoLR: the result of the plaintext run of the same rounds, at every party."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.domain.outside import outside_error
from fedflow.sdk import BadData, BadParameter, Elastic, GroupDiffers, Model
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import outputs_of
from tests.unit.components.homo_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    arrays,
    auc,
    federated_averaging,
    fit,
    hosts,
    made,
    scaled_breast,
    weights_of,
)

TWO = {GUEST: {"train_data": made(40, seed=1)}, HOST: {"train_data": made(60, seed=2)}}


def model_at(found: Any, site: Any) -> Model:
    model = found[site].model
    assert isinstance(model, Model)
    return model


@pytest.mark.parametrize("secure", [True, False], ids=["masked", "plain"])
def test_the_weights_are_those_of_federated_averaging_in_the_clear(
    tmp_path: Path, secure: bool
) -> None:
    found = outputs_of(fit(tmp_path, TWO, secure_aggregate=secure))
    parties = [one["train_data"] for one in TWO.values()]
    weights, losses = federated_averaging(parties, rounds=4)
    for site in TWO:
        np.testing.assert_allclose(weights_of(model_at(found, site)), weights, atol=1e-6)
        assert model_at(found, site).param["loss_history"] == pytest.approx(losses, abs=1e-6)
    assert found[ARBITER].model is None
    assert found[ARBITER].summary["loss_history"] == pytest.approx(losses, abs=1e-6)


def test_masked_and_plain_trainings_give_the_same_model_bit_for_bit(tmp_path: Path) -> None:
    masked, plain = (
        weights_of(model_at(outputs_of(fit(tmp_path / str(s), TWO, secure_aggregate=s)), GUEST))
        for s in (True, False)
    )
    assert np.array_equal(masked, plain)


def test_breast_homo_reaches_the_measured_accuracy(tmp_path: Path) -> None:
    data = {s: {"train_data": scaled_breast(s.role.value)} for s in (GUEST, HOST)}
    found = outputs_of(fit(tmp_path, data, max_iter=30))
    features, labels = arrays(data[GUEST]["train_data"])
    weights = weights_of(model_at(found, GUEST))
    assert auc(labels, features @ weights[:-1]) == pytest.approx(0.9957, abs=2e-3)
    losses = found[ARBITER].summary["loss_history"]
    assert (losses[0], losses[-1]) == pytest.approx((0.6566, 0.1996), abs=2e-4)


def test_every_class_has_a_model_against_the_rest(tmp_path: Path) -> None:
    data = {
        GUEST: {"train_data": made(80, classes=3, seed=1)},
        HOST: {"train_data": made(80, classes=3, seed=2)},
    }
    found = outputs_of(fit(tmp_path, data, max_iter=10))
    model = model_at(found, HOST)
    assert model.param["need_one_vs_rest"] is True
    assert model.param["one_vs_rest_result"]["one_vs_rest_classes"] == ["0", "1", "2"]
    (table,) = found[GUEST].data
    rows = table.read()
    assert (rows["predict_result"].to_numpy() == rows["label"].to_numpy()).mean() > 0.7


def test_a_class_that_one_party_lacks_is_trained_all_the_same(tmp_path: Path) -> None:
    rows = made(80, classes=3, seed=1)
    two = rows.filter(rows["y"].to_numpy() != 2)
    data = {GUEST: {"train_data": two}, HOST: {"train_data": made(80, classes=3, seed=2)}}
    results = fit(tmp_path, data)
    assert model_at(outputs_of(results), GUEST).param["classes"] == [0, 1, 2]
    (warning,) = [one for one in results[GUEST].warnings if one.code == "LacksClasses"]
    assert "guest 9999 has no rows with the label 2" in warning.message
    assert not [one for one in results[HOST].warnings if one.code == "LacksClasses"]


def test_parties_whose_labels_have_nothing_in_common_are_named(tmp_path: Path) -> None:
    other = TWO[HOST]["train_data"]
    moved = other.set_column(1, "y", [other["y"].to_numpy() + 7])
    data = {GUEST: TWO[GUEST], HOST: {"train_data": moved}}
    with pytest.raises(GroupDiffers, match=r"host .* differs from guest .* in the labels.* 7, 8"):
        outputs_of(fit(tmp_path, data))


def test_two_parties_with_one_class_each_train_together(tmp_path: Path) -> None:
    data = {}
    for site, label in ((GUEST, 0), (HOST, 1)):
        rows = made(60, seed=label)
        data[site] = {"train_data": rows.filter(rows["y"].to_numpy() == label)}
    found = outputs_of(fit(tmp_path, data))
    assert model_at(found, GUEST).param["classes"] == [0, 1]


def test_training_goes_on_from_a_model_by_max_iter_further_epochs(tmp_path: Path) -> None:
    first = outputs_of(fit(tmp_path / "1", TWO, max_iter=3, decay=0.0))
    models = {site: model_at(first, site) for site in TWO}
    second = outputs_of(fit(tmp_path / "2", TWO, models=models, max_iter=2, decay=0.0))
    whole = outputs_of(fit(tmp_path / "3", TWO, max_iter=5, decay=0.0))
    np.testing.assert_allclose(
        weights_of(model_at(second, HOST)), weights_of(model_at(whole, HOST)), atol=1e-6
    )
    assert model_at(second, HOST).param["iters"] == 5


def test_parties_that_go_on_from_different_models_are_refused(tmp_path: Path) -> None:
    first = outputs_of(fit(tmp_path / "1", TWO))
    other = outputs_of(fit(tmp_path / "2", TWO, max_iter=2))
    models = {GUEST: model_at(first, GUEST), HOST: model_at(other, HOST)}
    with pytest.raises(BadData, match="another model"):
        outputs_of(fit(tmp_path / "3", TWO, models=models))


def test_other_columns_at_one_party_are_refused(tmp_path: Path) -> None:
    data = {**TWO, HOST: {"train_data": made(30, columns=4)}}
    with pytest.raises(GroupDiffers, match=r"host .* differs from guest .* columns: 4 columns"):
        outputs_of(fit(tmp_path, data))


def test_members_of_elastic_rounds_see_no_values_of_what_differs(tmp_path: Path) -> None:
    data = {**TWO, HOST: {"train_data": made(30, columns=4)}}
    elastic = Elastic(
        min_parties=2, max_parties=2, round_deadline_s=20, last_call_s=1, rejoin=False
    )
    told = str(fit(tmp_path, data, elastic=elastic)[GUEST].error)
    assert "the columns: … instead of …" in told
    assert "4 columns" not in told


def test_other_parties_are_told_whose_columns_differ_from_the_guests(tmp_path: Path) -> None:
    data = {**TWO, HOST: {"train_data": made(30, columns=4)}}
    with pytest.raises(GroupDiffers) as caught:
        outputs_of(fit(tmp_path, data))
    told = outside_error(caught.value, "arbiter").message
    assert f"{HOST} differs from {GUEST} in the names or the order of the columns" in told


def test_predictions_need_no_arbiter_and_no_message(tmp_path: Path) -> None:
    trained = outputs_of(fit(tmp_path / "1", TWO))
    models = {site: model_at(trained, site) for site in TWO}
    data = {site: {"test_data": made(25, seed=9)} for site in TWO}
    found = outputs_of(fit(tmp_path / "2", data, models=models))
    scores = [found[site].data[0].read()["predict_score"].to_pylist() for site in TWO]
    assert scores[0] == scores[1]
    assert len(scores[0]) == 25


def test_training_stops_when_the_loss_changes_little(tmp_path: Path) -> None:
    found = outputs_of(
        fit(tmp_path, TWO, max_iter=50, tol=5e-3, init_param={"init_method": "ones"})
    )
    losses = found[ARBITER].summary["loss_history"]
    assert found[ARBITER].summary["is_converged"] is True
    changes = np.abs(np.diff(losses))
    assert 1 < len(losses) < 50
    assert changes[-1] < 5e-3 <= changes[:-1].min()


def test_early_stopping_keeps_the_round_with_the_least_validation_loss(tmp_path: Path) -> None:
    data = {
        site: {**parts, "validate_data": made(30, seed=5 + i)}
        for i, (site, parts) in enumerate(TWO.items())
    }
    found = outputs_of(
        fit(
            tmp_path,
            data,
            max_iter=30,
            learning_rate=30.0,
            decay=0.0,
            callback_param={
                "callbacks": ["EarlyStopping"],
                "validation_freqs": 1,
                "early_stopping_rounds": 2,
            },
        )
    )
    assert len(found[ARBITER].summary["loss_history"]) < 30
    best = found[ARBITER].summary["best_iteration"]
    assert model_at(found, GUEST).param["best_iteration"] == best >= 0
    assert "auc" in found[GUEST].summary["validation_metrics"]["validate"]


def test_cross_validation_measures_every_fold_at_every_party(tmp_path: Path) -> None:
    results = fit(tmp_path, TWO, cv_param={"need_cv": True, "n_splits": 3})
    found = outputs_of(results)
    assert found[GUEST].model is None
    assert set(found[HOST].summary) == {"fold_num", "fold_0", "fold_1", "fold_2"}
    folds = {(part, f"{part}_fold_{n}") for part in ("train", "validate") for n in range(3)}
    assert folds <= set(results[HOST].metrics)


def test_every_party_shows_the_loss_of_all_beside_its_own(tmp_path: Path) -> None:
    results = fit(tmp_path, TWO, max_iter=4, aggregate_iters=2)
    losses = outputs_of(results)[ARBITER].summary["loss_history"]
    for site in (GUEST, HOST):
        shown = results[site].metrics["train", "loss_of_all"]
        assert shown.points == [(0, losses[0]), (2, losses[1])]
        assert shown.meta["curve_name"] == "loss of all"
        assert [epoch for epoch, _ in results[site].metrics["train", "loss"].points] == [0, 1, 2, 3]


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "adagrad", "nesterov_momentum_sgd"])
def test_the_loss_falls_with_every_optimizer(tmp_path: Path, optimizer: str) -> None:
    found = outputs_of(
        fit(tmp_path, TWO, optimizer=optimizer, max_iter=8, batch_size=20, aggregate_iters=2)
    )
    losses = found[ARBITER].summary["loss_history"]
    assert len(losses) == 4
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", ["fedprox", "fedadam", "fedyogi", "trimmed_mean", "krum"])
def test_the_loss_falls_with_every_strategy(tmp_path: Path, name: str) -> None:
    data = {site: {"train_data": made(40, seed=i)} for i, site in enumerate([GUEST, *hosts(3)])}
    open_ = name in {"trimmed_mean", "krum"}
    found = outputs_of(
        fit(tmp_path, data, strategy={"name": name}, secure_aggregate=not open_, max_iter=8)
    )
    losses = found[ARBITER].summary["loss_history"]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stepwise_param": {"need_stepwise": True}}, "not offered for horizontal models"),
        ({"encrypt_param": {"method": "aes"}}, "encrypt_param.method"),
        ({"encrypt_param": {"key_length": 99}}, "encrypt_param.key_length"),
        ({"multi_class": "multinomial"}, "multi_class"),
    ],
    ids=["stepwise", "encryption", "key length", "multinomial"],
)
def test_what_is_not_offered_is_refused_by_name(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadParameter, match=said):
        outputs_of(fit(tmp_path, TWO, **given))


def test_parameters_of_paillier_change_nothing(tmp_path: Path) -> None:
    found = [
        weights_of(model_at(outputs_of(fit(tmp_path / str(n), TWO, encrypt_param=one)), GUEST))
        for n, one in enumerate(({"method": "Paillier", "key_length": 1024}, {"method": None}))
    ]
    assert np.array_equal(*found)


def test_a_robust_strategy_is_refused_with_masks(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="secure_aggregate must be false"):
        outputs_of(fit(tmp_path, TWO, strategy={"name": "krum"}))


def test_krum_and_trimmed_mean_withstand_a_party_that_lies(tmp_path: Path) -> None:
    lies = made(40, seed=9)
    flipped = lies.set_column(1, "y", [1 - lies["y"].to_numpy()])
    data = {s: {"train_data": made(40, seed=i)} for i, s in enumerate([GUEST, *hosts(4)])}
    data[hosts(4)[-1]] = {"train_data": flipped}
    test = made(200, seed=50)
    found: dict[str, float] = {}
    for name in ("fedavg", "krum", "trimmed_mean"):
        outputs = outputs_of(
            fit(
                tmp_path / name,
                data,
                strategy={"name": name},
                secure_aggregate=False,
                learning_rate=1.0,
                max_iter=8,
            )
        )
        weights = weights_of(model_at(outputs, GUEST))
        features, labels = arrays(test)
        scores = features @ weights[:-1] + weights[-1]
        found[name] = float(np.logaddexp(0, np.where(labels > 0, -scores, scores)).mean())
    assert found["krum"] < found["fedavg"]
    assert found["trimmed_mean"] < found["fedavg"]


def test_fedprox_holds_the_weights_nearer_to_where_they_were(tmp_path: Path) -> None:
    lengths = [
        float(np.linalg.norm(weights_of(model_at(outputs_of(found), GUEST))))
        for found in (
            fit(tmp_path / str(mu), TWO, strategy={"name": "fedprox", "mu": mu}, aggregate_iters=4)
            for mu in (0.0, 10.0)
        )
    ]
    assert lengths[1] != lengths[0]


def test_differential_privacy_shows_the_budget_spent(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    dp = {"need_dp": True, "clip": 1.0, "noise_multiplier": 0.001, "delta": 1e-5}
    found = outputs_of(fit(tmp_path / "1", TWO, dp_param=dp))
    clear = outputs_of(fit(tmp_path / "2", {s: {"train_data": made(40, seed=1)} for s in TWO}))
    assert found[ARBITER].summary["epsilon"] > 1000
    assert found[GUEST].summary["epsilon"] == found[ARBITER].summary["epsilon"]
    weights = weights_of(model_at(found, GUEST))
    assert np.linalg.norm(weights) <= 4 * 1.01
    assert not np.array_equal(weights, weights_of(model_at(clear, GUEST)))


def test_no_message_to_the_arbiter_holds_weights_that_are_not_masked(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Tapped(LocalFederation):
        def _put(self, key: Any, value: Any, size: int) -> None:
            if key.destination == ARBITER:
                seen.append(value)
            super()._put(key, value, size)

    sites = [*TWO, ARBITER]
    tapped = Tapped(sites)
    found = outputs_of(fit(tmp_path, TWO, federation=tapped))
    vectors = [v["body"]["vector"] for v in seen if "vector" in (v.get("body") or {})]
    assert len(vectors) == 2 * 4
    known = model_at(found, GUEST).param["loss_history"]
    for vector in vectors:
        high = (vector >> np.uint64(32)).astype(np.int64)
        assert len(set(high.tolist())) == len(high)  # weights alone would leave it 0 or -1
        assert np.abs(high.astype(np.int32)).max() > 1 << 24
    assert known
