"""Horizontal components, driven by the unmodified `pipeline` SDK of fate-client 1.11.3."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.clients.conftest import PATIENCE_S, SCORES, Deployment
from tests.clients.horizontal_pipelines import NETWORK, PREPARED, ROWS, homo_tables

Json = dict[str, Any]

TORCH = importlib.util.find_spec("torch")


@pytest.fixture(scope="module")
def homo(deployment: Deployment) -> Deployment:
    """Give servers on which each party has rows with the same columns."""
    deployment.upload_texts("homo", homo_tables())
    return deployment


def pooled(column: int) -> Any:
    """Return a column of all parties' rows; the first is the id."""
    rows = [line.split(",") for text in homo_tables() for line in text.splitlines()[1:]]
    return np.array([float(row[column]) for row in rows])


def test_rows_of_two_parties_are_split_cut_coded_and_learnt_in_one_job(homo: Deployment) -> None:
    seen = homo.guest.python(PREPARED, timeout_s=PATIENCE_S)
    found, tables = seen["found"], seen["tables"]

    counts = found["homo_data_split_0"]["data_split_count_info"]
    assert counts["original"] == ROWS
    assert sorted(table["rows"] for table in tables["homo_data_split_0"]) == sorted(
        counts[part] for part in ("train", "validate", "test")
    )

    binned = found["homo_feature_binning_0"]
    assert binned["colour"] == [1.0, 2.0, 3.0, 4.0]
    for column, name in enumerate(("x0", "x1", "x2"), start=2):
        values = np.sort(pooled(column))
        exact = values[-(-np.arange(1, 6) * len(values) // 5) - 1]
        step = (values[-1] - values[0]) / 1000
        assert binned[name] == pytest.approx(exact.tolist(), abs=step)
        ranks = values.searchsorted(found["homo_feature_binning_1"][name], "right")
        assert ranks.tolist() == (-(-np.arange(1, 6) * len(values) // 5)).tolist()
    assert seen["binned"]["binningResult"]["binningResult"]["x0"]["splitPoints"] == binned["x0"]
    assert tables["homo_feature_binning_2"] == tables["homo_feature_binning_0"]

    coded = tables["homo_one_hot_0"][0]["columns"]
    assert coded[:2] == ["id", "y"]
    assert {f"x0_{n}" for n in range(5)} <= set(coded)
    assert tables["homo_one_hot_1"][0]["columns"][5:] == [f"colour_{n}" for n in (1, 2, 3, 4)]
    assert tables["homo_one_hot_2"][0]["columns"][5:] == [f"colour_{n}" for n in (1, 2, 3)]

    learnt = found["homo_lr_0"]
    assert set(learnt["coef"]) == {"x0", "x1", "x2", "colour"}
    assert seen["weights"]["weight"] == pytest.approx(learnt["coef"], abs=1e-9)
    assert set(learnt["validation_metrics"]) == {"train", "validate"}
    assert len(learnt["local_loss_history"]) == 5
    assert found["evaluation_0"]["homo_lr_0"]["train"]["auc"] > 0.9
    assert tables["homo_lr_0"] == [{"columns": ["id", *SCORES], "rows": 2 * ROWS}]
    assert seen["predicted"] == [{"columns": ["id", *SCORES], "rows": ROWS}]
    assert seen["again"]["homo_lr_0"]["predict"]["auc"] > 0.9


@pytest.mark.heavy
@pytest.mark.skipif(TORCH is None, reason="needs the extra nn")
def test_a_network_of_the_sdk_is_trained_and_predicts(homo: Deployment) -> None:
    assert TORCH is not None
    place = Path(str(TORCH.origin)).parents[1]
    seen = homo.guest.python(NETWORK, place, timeout_s=PATIENCE_S)
    found = seen["found"]
    assert found["evaluation_0"]["homo_nn_0"]["train"]["auc"] > 0.97
    learnt = found["homo_nn_0"]
    assert len(learnt["loss_history"]) == 20
    assert set(learnt["metrics_summary"]) == {"train", "validate"}
    assert seen["model"]["epochIdx"] == 20
    losses = homo.losses(seen["job"], "homo_nn_0", role="guest")
    assert [losses[0], losses[-1]] == [learnt["loss_history"][0], learnt["loss_history"][-1]]
    assert seen["tables"]["homo_nn_1"] == [{"columns": ["id", *SCORES], "rows": ROWS}]
    assert seen["predicted"] == seen["tables"]["homo_nn_1"]
    assert seen["again"]["homo_nn_0"]["predict"]["auc"] > 0.97


pytestmark = pytest.mark.timeout(600)
