"""HeteroLR: every variant of the protocol must equal the same training in the clear.

All three roles run for real, in threads over an in-process federation, with 1024-bit keys.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from fedflow.base.errors.components import BadParameter, Diverged
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError, PeerFailed
from fedflow.base.errors.error import FedflowError
from fedflow.components.linear import guest, host
from fedflow.components.linear.params import HeteroLRParams
from fedflow.domain.site import Role, Site
from fedflow.sdk import Model, check_params
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import outputs_of
from tests.unit.components.hetero_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
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
    with_negative_weights,
)


@pytest.fixture(scope="module")
def breast() -> Data:
    return breast_data()


# --- the anchors ----------------------------------------------------------------------------------


def test_every_party_logs_each_iteration_and_only_the_arbiter_its_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="fedflow.task")
    results = run(small(rows=40), tmp_path, max_iter=2, batch_size=20)
    for site, result in results.items():
        records = [r for r in caplog.records if r.name.endswith(site.key)]
        lines = [r.getMessage() for r in records if "of at most" in r.getMessage()]
        assert [line.split(" is done")[0] for line in lines] == [
            "iteration 1 of at most 2", "iteration 2 of at most 2",
        ]  # fmt: skip
        assert all(("loss" in line) is (site == ARBITER) for line in lines)
        assert result.progress == (0.25, 0.5, 0.75, 1.0), "each batch counts"
    assert f"loss {losses(results)[1]:.6g}" in caplog.text


def test_the_oracle_gives_the_published_figures(breast: Data) -> None:
    found = train_in_clear(breast.features, breast.labels, OracleSettings(iterations=30))
    published_losses = [0.693147, 78.8756, 5.69506, 1.47856, 0.733014, 0.532544]
    assert found.losses[:6] == pytest.approx(published_losses, rel=4e-6)
    assert found.losses[29] == pytest.approx(0.354564, rel=2e-6)
    scores = found.scores_per_iteration
    published_auc = [0.974314, 0.978318, 0.979520, 0.977340, 0.975186]
    assert [auc(breast.labels, s) for s in scores[:5]] == pytest.approx(published_auc, abs=1e-6)
    assert auc(breast.labels, scores[29]) == pytest.approx(0.987448, abs=1e-6)


def test_ten_full_batch_iterations_equal_the_oracle(breast: Data, tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST, ARBITER))
    results = run(breast, tmp_path, max_iter=10, federation=federation)
    expected = train_in_clear(breast.features, breast.labels, OracleSettings(iterations=10))
    assert_equals_oracle(results, expected)
    np.testing.assert_allclose(losses(results), expected.losses, rtol=4e-8)
    assert federation.unread() == []
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    assert table.schema.names == (
        *("id", "label", "predict_result", "predict_score", "predict_detail", "type"),
    )
    rows = table.read()
    score = rows["predict_score"].to_numpy()
    assert auc(breast.labels, score) == pytest.approx(0.977525, abs=1e-4)
    sigmoid = 1.0 / (1.0 + np.exp(-expected.scores_per_iteration[-1]))
    np.testing.assert_allclose(score, sigmoid, atol=1e-6)
    assert rows["id"].to_pylist() == breast.tables[GUEST]["id"].to_pylist()
    assert rows["label"].to_pylist() == breast.tables[GUEST]["y"].to_pylist()
    assert rows["predict_result"].to_pylist() == (score > 0.5).astype(int).tolist()
    assert set(rows["type"].to_pylist()) == {"train"}
    first = score[0].item()
    assert rows["predict_detail"][0].as_py() == f"{{'0': {1 - first}, '1': {first}}}"
    assert outputs_of(results)[HOST].data == outputs_of(results)[ARBITER].data == ()


def test_five_iterations_pass_fates_own_gate(breast: Data, tmp_path: Path) -> None:
    results = run(breast, tmp_path, max_iter=5)
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    found = auc(breast.labels, table.read()["predict_score"].to_numpy())
    assert found == pytest.approx(0.975186, abs=1e-6)


# --- variants of the protocol ---------------------------------------------------------------------

OPTIMIZERS = ["sgd", "rmsprop", "adam", "adagrad", "nesterov_momentum_sgd"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_mini_batches_in_stored_order_equal_the_oracle(optimizer: str, tmp_path: Path) -> None:
    data = small()
    results = run(data, tmp_path, batch_size=16, optimizer=optimizer)
    settings = OracleSettings(iterations=3, batch_size=16, optimizer=optimizer)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, settings))


@pytest.mark.parametrize(
    ("params", "oracle"),
    [
        ({"penalty": "L1", "alpha": 0.1}, {"penalty": "L1", "alpha": 0.1}),
        ({"penalty": None}, {"penalty": "none"}),
        ({"alpha": -0.1, "learning_rate": -0.05}, {"alpha": -0.1, "learning_rate": -0.05}),
        ({"learning_rate": 0, "tol": -1}, {"learning_rate": 0.0}),
        ({"decay": 2.0, "decay_sqrt": False}, {"decay": 2.0, "decay_sqrt": False}),
        ({"init_param": {"init_method": "zeros", "fit_intercept": False}}, {"intercept": False}),
        ({"floating_point_precision": None}, {}),
        ({"floating_point_precision": 64}, {}),
    ],
)
def test_options_mean_what_the_oracle_means(
    params: dict[str, Any], oracle: dict[str, Any], tmp_path: Path
) -> None:
    data = small()
    results = run(data, tmp_path, **params)
    settings = OracleSettings(iterations=3, **oracle)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, settings))


def test_two_hosts_equal_the_oracle_without_a_loss(tmp_path: Path) -> None:
    sites = (GUEST, HOST, HOST_2)
    data = small(widths={GUEST: 2, HOST: 3, HOST_2: 9})
    federation = LocalFederation((*sites, ARBITER))
    results = run(data, tmp_path, early_stop="weight_diff", batch_size=25, federation=federation)
    settings = OracleSettings(iterations=3, batch_size=25)
    expected = train_in_clear(data.features, data.labels, settings)
    assert_weights_equal_oracle(results, expected, *sites)
    assert ("train", "loss") not in results[ARBITER].metrics
    assert "loss_at" not in results[GUEST].metrics["train", "round_seconds"].meta
    assert federation.unread() == []


@pytest.mark.parametrize(("hosts", "negative"), [(1, False), (1, True), (2, True)])
def test_sample_weights_equal_the_oracle(hosts: int, negative: bool, tmp_path: Path) -> None:
    widths = {GUEST: 3, HOST: 4} if hosts == 1 else {GUEST: 3, HOST: 2, HOST_2: 2}
    data = small(widths=widths, weighted=True)
    data = with_negative_weights(data) if negative else data
    results = run(data, tmp_path, early_stop="weight_diff", batch_size=25)
    settings = OracleSettings(iterations=3, batch_size=25)
    expected = train_in_clear(data.features, data.labels, settings, weights=data.weights)
    assert_weights_equal_oracle(results, expected, *widths)
    if hosts == 1:
        assert_equals_oracle(results, expected)


class Sent(LocalFederation):
    """Keeps the ciphertexts of every row that was sent."""

    def __init__(self) -> None:
        super().__init__((GUEST, HOST, ARBITER))
        self.rows: list[bytes] = []

    def _put(self, key: Any, value: Any, size: int) -> None:
        super()._put(key, value, size)
        if key.name in ("host_forward_dict", "fore_gradient", "loss_intermediate"):
            width = 2 * 1024 // 8
            body = value[len(value) % width :]  # without the header
            self.rows += [body[i : i + width] for i in range(0, len(body), width)]


@pytest.mark.parametrize("ahead", [0, 1000])
def test_hidden_batches_equal_the_oracle(
    ahead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (guest, host):
        monkeypatch.setattr(module, "MOST_ROWS", ahead)
    data, federation = small(), Sent()
    results = run(data, tmp_path, batch_size=12, masked_rate=1.0, federation=federation)
    settings = OracleSettings(iterations=3, batch_size=12)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, settings))
    assert federation.unread() == []
    batches = 3 * math.ceil(40 / 12)
    assert len(federation.rows) == batches * (24 + 24 + 25)
    assert len(set(federation.rows)) == len(federation.rows)  # also those of decoys


def test_fates_defaults_run_with_mini_batches(tmp_path: Path) -> None:
    results = run(small(), tmp_path, batch_size=12, shuffle=True, masked_rate=5)
    assert len(losses(results)) == 3
    assert losses(results)[-1] < 10.0


@pytest.mark.parametrize("extra", [{}, {"masked_rate": 0.5}, {"batch_strategy": "random"}])
def test_shuffled_batches_repeat_with_a_seed(extra: dict[str, Any], tmp_path: Path) -> None:
    data = small()
    shuffled = {"batch_size": 12, "shuffle": True, "max_iter": 2, **extra}
    one = run(data, tmp_path / "1", random_seed=3, **shuffled)
    two = run(data, tmp_path / "2", random_seed=3, **shuffled)
    other = run(data, tmp_path / "3", **shuffled)
    assert losses(one) == losses(two) != losses(other)


def test_a_batch_larger_than_the_data_is_a_full_batch(tmp_path: Path) -> None:
    data = small()
    results = run(data, tmp_path, batch_size=5000, shuffle=True, masked_rate=5)
    settings = OracleSettings(iterations=3)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, settings))


def test_a_guest_with_labels_only_can_train(tmp_path: Path) -> None:
    data = small(widths={GUEST: 0, HOST: 4})
    results = run(data, tmp_path)
    settings = OracleSettings(iterations=3)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, settings))


@pytest.mark.parametrize(("stop", "tol"), [("diff", 0.025), ("weight_diff", 0.06), ("abs", 0.5)])
def test_training_stops_in_the_oracles_iteration(stop: str, tol: float, tmp_path: Path) -> None:
    data = small()
    results = run(
        data, tmp_path, optimizer="sgd", learning_rate=0.5, early_stop=stop, tol=tol, max_iter=12
    )
    expected = train_in_clear(
        data.features,
        data.labels,
        OracleSettings(iterations=12, optimizer="sgd", learning_rate=0.5, stop=stop, tol=tol),
    )
    assert expected.converged
    assert 1 < len(expected.losses) < 12
    assert_equals_oracle(results, expected)
    for site in (GUEST, HOST, ARBITER):
        model = outputs_of(results)[site].model
        assert model is not None
        assert model.param["is_converged"] is True
        assert model.param["iters"] == len(expected.losses)


def test_random_start_weights_repeat_with_fates_generator(tmp_path: Path) -> None:
    results = run(
        small(),
        tmp_path,
        max_iter=1,
        learning_rate=1e-9,
        init_param={"init_method": "random_uniform", "random_seed": 105},
    )
    expected = np.random.RandomState(105).rand(4)
    np.testing.assert_allclose(weights_of(results, GUEST), expected[:3], atol=1e-6)
    np.testing.assert_allclose(weights_of(results, HOST), expected, atol=1e-6)


# --- what a run leaves ----------------------------------------------------------------------------


def test_outputs_have_fates_names(tmp_path: Path) -> None:
    results = run(small(), tmp_path)
    outputs = outputs_of(results)
    guest, arbiter = outputs[GUEST].model, outputs[ARBITER].model
    assert guest is not None
    assert arbiter is not None
    assert guest.meta_name == "HeteroLogisticRegressionMeta"
    assert guest.param_name == "HeteroLogisticRegressionParam"
    assert guest.meta["predict_param"] == {"threshold": 0.5}
    assert guest.param["header"] == ["x0", "x1", "x2"]
    assert guest.param["best_iteration"] == -1
    assert arbiter.param["header"] == []
    assert arbiter.param["weight"] == {}
    assert arbiter.param["loss_history"] == losses(results)
    summary = outputs[GUEST].summary
    assert set(summary) == {"coef", "intercept", "is_converged", "best_iteration", "one_vs_rest"}
    metric = results[ARBITER].metrics["train", "loss"]
    assert metric.metric_type == "LOSS"
    assert [point[0] for point in metric.points] == [0, 1, 2]
    assert metric.meta["unit_name"] == "iters"
    for site in (GUEST, HOST, ARBITER):
        assert results[site].progress == (1 / 3, 2 / 3, 1.0)
        seconds = results[site].metrics["train", "round_seconds"]
        assert [iteration for iteration, _ in seconds.points] == [0, 1, 2]
        assert seconds.meta["of"] == 3
        assert seconds.meta.get("loss_at") == (None if site == ARBITER else ARBITER.key)


def test_short_keys_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(small(), tmp_path, max_iter=1)
    assert any("1024-bit keys" in record.getMessage() for record in caplog.records)


def test_an_arbiter_that_has_data_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = Site(Role.HOST, ARBITER.party_id)
    run(small(widths={GUEST: 2, both: 2}), tmp_path, max_iter=1)
    assert "party 10002 is arbiter and host" in caplog.text
    caplog.clear()
    run(small(), tmp_path, max_iter=1)
    assert "is arbiter and" not in caplog.text


def test_a_tiny_last_batch_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(small(rows=41), tmp_path, max_iter=1, batch_size=20)
    assert "the last batch has 1 row(s)" in caplog.text
    caplog.clear()
    run(small(rows=40), tmp_path, max_iter=1, batch_size=20)
    assert "the last batch" not in caplog.text


def test_conservative_blinding_gives_the_same_weights(tmp_path: Path) -> None:
    fast = run(small(), tmp_path / "fast", max_iter=1)
    encrypt = {"key_length": 1024, "blinding": "conservative"}
    slow = run(small(), tmp_path / "slow", max_iter=1, encrypt_param=encrypt)
    assert np.array_equal(weights_of(fast, GUEST, HOST), weights_of(slow, GUEST, HOST))


def test_validation_rows_are_predicted_after_the_training(tmp_path: Path) -> None:
    data, more = small(), small(rows=7)
    results = run(data, tmp_path, ports={"train_data": data, "validate_data": more})
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    assert table.read()["type"].to_pylist() == ["train"] * 40 + ["validate"] * 7


def test_a_stored_model_predicts_the_same_scores(tmp_path: Path) -> None:
    data = small()
    trained = outputs_of(run(data, tmp_path / "train"))
    models = {site: out.model for site, out in trained.items() if out.model is not None}
    shuffled = Data(dict(data.tables), data.features, data.labels)
    shuffled.tables[HOST] = data.tables[HOST].select(["id", "x2", "x0", "x3", "x1"])
    shuffled.tables[GUEST] = data.tables[GUEST].drop(["y"])
    results = run(data, tmp_path / "predict", ports={"test_data": shuffled}, models=models)
    before, after = trained[GUEST].data[0], outputs_of(results)[GUEST].data[0]
    assert before is not None
    assert after is not None
    rows = after.read()
    assert rows["predict_score"].to_pylist() == pytest.approx(
        before.read()["predict_score"].to_pylist(), abs=1e-12
    )
    assert set(rows["type"].to_pylist()) == {"predict"}
    assert rows["label"].null_count == 40


def test_labels_may_be_text(tmp_path: Path) -> None:
    data = small()
    words = ["good" if y > 0 else "bad" for y in data.labels]
    data.tables[GUEST] = data.tables[GUEST].set_column(1, "y", pa.array(words))
    results = run(data, tmp_path)
    settings = OracleSettings(iterations=3)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, settings))
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    assert set(table.read()["predict_result"].to_pylist()) <= {"good", "bad"}
    assert table.read()["predict_detail"][0].as_py().startswith("{'bad': ")


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"encrypt_param": {"key_length": 512}}, "key_length"),
        ({"encrypt_param": {"method": None}}, "method"),
        ({"batch_size": 5}, "batch_size"),
        ({"penalty": "L3"}, "penalty"),
        ({"optimizer": "adamw"}, "optimizer"),
        ({"init_param": {"init_method": "magic"}}, "init_method"),
        ({"predict_param": {"threshold": "0.5"}}, "predict_param.threshold"),
        ({"max_iter": 0}, "max_iter"),
        ({"learnig_rate": 0.1}, "learnig_rate"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, Any], where: str) -> None:
    with pytest.raises(BadParameter, match=where):
        check_params(HeteroLRParams, params, path="$")


def test_fates_full_parameter_block_is_accepted(tmp_path: Path) -> None:
    results = run(
        small(),
        tmp_path,
        max_iter=1,
        optimizer="RMSprop",
        penalty="l2",
        multi_class="ovr",
        metrics=["auc", "ks"],
        encrypted_mode_calculator_param={"mode": "fast"},
        cv_param={"n_splits": 3, "shuffle": False, "random_seed": 103, "need_cv": False},
        sqn_param={"update_interval_L": 3, "memory_M": 5, "sample_size": 5000},
        stepwise_param={"need_stepwise": False},
        callback_param={"callbacks": [], "validation_freqs": None},
        encrypt_param={"method": "IPCL", "key_length": 1024},
        validation_freqs=None,
        early_stopping_rounds=None,
        use_first_metric_only=False,
    )
    outputs_of(results)


def test_a_loss_stop_with_two_hosts_is_refused_everywhere(tmp_path: Path) -> None:
    data = small(widths={GUEST: 2, HOST: 3, HOST_2: 2})
    for result in run(data, tmp_path).values():
        assert isinstance(result.error, BadParameter)
        assert "weight_diff" in str(result.error)


def test_a_party_refuses_keys_shorter_than_its_own_setting(tmp_path: Path) -> None:
    results = run(small(), tmp_path, per_site={HOST: {"encrypt_param": {"key_length": 2048}}})
    error = first_error(results)
    assert isinstance(error, BadParameter)
    assert "1024 bits" in str(error)
    assert isinstance(results[ARBITER].error, PeerFailed)


def with_column(data: Data, site: Site, name: str, values: Any) -> Data:
    rows = data.tables[site]
    column = pa.array(values)
    data.tables[site] = rows.set_column(rows.column_names.index(name), name, column)
    return data


def bad_data() -> dict[str, tuple[Data, type[FedflowError], str]]:
    nan = [math.nan, None, *[1.0] * 38]
    one_class = with_column(small(), GUEST, "y", [1] * 40)
    no_label = with_column(small(), GUEST, "y", [None, *[1] * 39])
    text = with_column(small(), HOST, "x1", ["a"] * 40)
    large = with_column(small(), HOST, "x1", [2.0**21] * 40)
    fewer, reordered, empty = small(), small(), small()
    fewer.tables[HOST] = fewer.tables[HOST].slice(0, 39)
    reordered.tables[HOST] = reordered.tables[HOST].take(pa.array(list(range(39, -1, -1))))
    empty.tables[GUEST] = empty.tables[GUEST].slice(0, 0)
    return {
        "missing": (with_column(small(), HOST, "x1", nan), BadData, "'x1' has 2 missing"),
        "one class": (one_class, BadData, "all 40 labels"),
        "null label": (no_label, BadData, "1 rows have no label"),
        "text": (text, BadData, "not a number"),
        "large": (large, BadData, "scale it"),
        "fewer": (fewer, BadData, "Intersection"),
        "reordered": (reordered, BadData, "another order"),
        "empty": (empty, BadData, "no rows"),
        "no host columns": (small(widths={GUEST: 3, HOST: 0}), BadData, "no feature columns"),
    }


@pytest.mark.parametrize("name", list(bad_data()))
def test_bad_data_end_the_run_at_every_party(name: str, tmp_path: Path) -> None:
    data, kind, text = bad_data()[name]
    results = run(data, tmp_path)
    error = first_error(results)
    assert isinstance(error, kind)
    assert text in str(error)
    assert all(result.error is not None for result in results.values())


def test_a_diverging_training_says_so(tmp_path: Path) -> None:
    results = run(small(), tmp_path, optimizer="sgd", learning_rate=1e12, max_iter=20)
    error = first_error(results)
    assert isinstance(error, Diverged)
    assert "iteration" in str(error)


def test_a_model_without_the_tables_columns_is_refused(tmp_path: Path) -> None:
    data = small()
    trained = outputs_of(run(data, tmp_path / "train", max_iter=1))
    models = {site: out.model for site, out in trained.items() if out.model is not None}
    narrow = Data(dict(data.tables), data.features, data.labels)
    narrow.tables[HOST] = data.tables[HOST].drop(["x3"])
    results = run(data, tmp_path / "predict", ports={"test_data": narrow}, models=models)
    assert "x3" in str(first_error(results))


def test_a_foreign_model_is_refused(tmp_path: Path) -> None:
    model = Model(meta_name="OtherMeta", param_name="OtherParam", meta={}, param={"header": 3})
    models = dict.fromkeys((GUEST, HOST), model)
    data = small()
    results = run(data, tmp_path, ports={"test_data": data}, models=models)
    assert "not one of HeteroLR" in str(first_error(results))


def test_odd_ports_are_refused(tmp_path: Path) -> None:
    data = small()
    both = run(data, tmp_path / "2", ports={"train_data": data, "test_data": data})
    assert isinstance(first_error(both), BadParameter)
    untrained = run(data, tmp_path / "3", ports={"test_data": data})
    assert isinstance(first_error(untrained), BadParameter)


def test_codec_errors_are_fedflow_errors() -> None:
    assert issubclass(CodecError, FedflowError)
