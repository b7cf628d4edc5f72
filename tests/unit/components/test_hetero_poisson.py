"""HeteroPoisson must equal the same training in the clear, exposures included."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter, Diverged
from fedflow.base.errors.data import BadData
from fedflow.components.linear.hetero_poisson import HeteroPoisson
from fedflow.components.linear.params import HeteroPoissonParams
from fedflow.sdk import Model, check_params
from fedflow.testing.checkpoints import MemoryCheckpoints
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
    first_error,
    run,
    small,
    weights_of,
    with_labels,
    with_numbers,
)

SITES = (GUEST, HOST, ARBITER)
POISSON: dict[str, Any] = {"cls": HeteroPoisson, "learning_rate": 0.05}


def settings(iterations: int = 3, **changes: Any) -> OracleSettings:
    known: dict[str, Any] = {"family": "poisson", "learning_rate": 0.05}
    return OracleSettings(iterations=iterations, **known | changes)


def counts(**kinds: Any) -> Data:
    return with_numbers(small(**kinds), counts=True)


def exposed(data: Data, exposures: Any) -> Data:
    guest = data.tables[GUEST].append_column("days", pa.array(exposures))
    return Data({**data.tables, GUEST: guest}, data.features, data.labels, data.weights)


def models_of(results: Any) -> dict[Any, Model]:
    return {site: out.model for site, out in outputs_of(results).items() if out.model is not None}


@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop", "adam"])
@pytest.mark.parametrize("batch_size", [-1, 16])
def test_training_equals_the_oracle(optimizer: str, batch_size: int, tmp_path: Path) -> None:
    data = counts()
    federation = LocalFederation(SITES)
    results = run(
        data,
        tmp_path,
        optimizer=optimizer,
        batch_size=batch_size,
        federation=federation,
        **POISSON,
    )
    known = settings(optimizer=optimizer, batch_size=batch_size)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, known))
    assert federation.unread() == []


@pytest.mark.parametrize("penalty", ["L1", "L2", "none"])
def test_penalties_and_sample_weights_equal_the_oracle(penalty: str, tmp_path: Path) -> None:
    data = counts(weighted=True)
    results = run(data, tmp_path, penalty=penalty, alpha=0.5, **POISSON)
    known = settings(penalty=penalty, alpha=0.5)
    expected = train_in_clear(data.features, data.labels, known, weights=data.weights)
    assert_equals_oracle(results, expected)


def test_exposures_are_offsets_in_training_and_prediction(tmp_path: Path) -> None:
    exposures = np.random.default_rng(3).uniform(0.2, 4.0, 40)
    data = exposed(counts(), exposures)
    results = run(data, tmp_path / "1", exposure_colname="days", **POISSON)
    expected = train_in_clear(data.features, data.labels, settings(), offset=np.log(exposures))
    assert_equals_oracle(results, expected)
    model = models_of(results)[GUEST]
    assert model.param["header"] == ["x0", "x1", "x2"]
    assert model.meta["exposure_colname"] == "days"
    means = np.exp(expected.scores_per_iteration[-1])
    for found in (
        results,
        run(data, tmp_path / "2", ports={"test_data": data}, models=models_of(results), **POISSON),
    ):
        table = outputs_of(found)[GUEST].data[0]
        assert table is not None
        rows = table.read()
        np.testing.assert_allclose(rows["predict_score"].to_numpy(), means, rtol=1e-5)
        assert rows["predict_detail"][0].as_py().startswith("{'label': ")


def test_no_exposure_counts_as_a_very_short_one(tmp_path: Path) -> None:
    exposures = [0.0, *[1.0] * 39]
    data = exposed(counts(), exposures)
    results = run(data, tmp_path, exposure_colname="days", **POISSON)
    offset = np.log(np.array([1e-7, *[1.0] * 39]))
    expected = train_in_clear(data.features, data.labels, settings(), offset=offset)
    assert_equals_oracle(results, expected)


def test_an_exposure_column_that_is_not_there_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = counts()
    results = run(data, tmp_path, exposure_colname="exposure", **POISSON)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, settings()))
    assert "no column 'exposure'" in caplog.text


def test_the_model_has_fates_names(tmp_path: Path) -> None:
    model = models_of(run(counts(), tmp_path, **POISSON))[GUEST]
    assert model.meta_name == "HeteroPoissonRegressionMeta"
    assert model.param_name == "HeteroPoissonRegressionParam"
    assert "reveal_strategy" not in model.meta
    assert "encrypted_weight" not in model.param


def test_measures_are_those_of_means(tmp_path: Path) -> None:
    data = counts()
    results = run(data, tmp_path, validation_freqs=3, metrics=["rmse"], **POISSON)
    expected = train_in_clear(data.features, data.labels, settings())
    error = np.exp(expected.scores_per_iteration[-1]) - data.labels
    measured = outputs_of(results)[GUEST].summary["validation_metrics"]["train"]
    root = math.sqrt(float(np.mean(error**2)))
    assert measured == {"root_mean_squared_error": pytest.approx([root], abs=2e-6)}


def test_a_resumed_training_gives_the_same_bits(tmp_path: Path) -> None:
    data = counts()
    params = {**POISSON, "callback_param": {"callbacks": ["ModelCheckpoint"]}, "batch_size": 16}
    whole = run(data, tmp_path / "0", max_iter=4, **params)
    stored = {site: MemoryCheckpoints() for site in SITES}
    run(data, tmp_path / "1", max_iter=3, checkpoints=stored, **params)
    for store in stored.values():
        store.begin()
    resumed = run(data, tmp_path / "2", max_iter=4, checkpoints=stored, task_version=1, **params)
    assert weights_of(resumed, GUEST, HOST).tolist() == weights_of(whole, GUEST, HOST).tolist()
    assert models_of(resumed)[ARBITER].param == models_of(whole)[ARBITER].param


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (with_labels(small(), [-1.0, *[1.0] * 39]), "1 labels are negative"),
        (exposed(with_labels(small(), [1.0] * 40), [-1.0] * 40), "40 negative exposures"),
        (exposed(with_labels(small(), [1.0] * 40), [None, *[1.0] * 39]), "'days' has 1 missing"),
    ],
)
def test_bad_numbers_are_refused(data: Data, what: str, tmp_path: Path) -> None:
    results = run(data, tmp_path, exposure_colname="days", **POISSON)
    error = first_error(results)
    assert isinstance(error, BadData)
    assert what in str(error)
    assert all(result.error is not None for result in results.values())


def test_means_that_grow_without_end_are_divergence(tmp_path: Path) -> None:
    results = run(counts(), tmp_path, cls=HeteroPoisson, optimizer="sgd", learning_rate=1e3)
    assert isinstance(first_error(results), Diverged)


def test_two_hosts_are_refused_everywhere(tmp_path: Path) -> None:
    data = counts(widths={GUEST: 2, HOST: 3, HOST_2: 2})
    for result in run(data, tmp_path, **POISSON, early_stop="weight_diff").values():
        assert isinstance(result.error, BadParameter)
        assert "works with 1 host, not with 2" in str(result.error)


def test_sqn_is_not_among_the_optimizers() -> None:
    with pytest.raises(BadParameter, match="optimizer"):
        check_params(HeteroPoissonParams, {"optimizer": "sqn"}, path="$")
