"""HomoFeatureBinning at real parties, with masks, against the quantiles of all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.error import FedflowError
from fedflow.components.binning.homo_feature_binning import HomoFeatureBinning
from fedflow.components.binning.homo_params import HomoFeatureBinningParams
from fedflow.components.binning.splitting import bin_numbers, quantile_points
from fedflow.domain.outside import outside_error
from fedflow.sdk import GroupDiffers, check_params
from tests.unit.components.homo_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
    breast_rows,
    outputs,
    rows_of,
    run_homo,
)

NAN = float("nan")


@pytest.mark.parametrize("method", ["recursive_query", "virtual_summary"])
def test_all_parties_cut_breast_at_the_same_points(method: str, tmp_path: Path) -> None:
    rows = breast_rows()
    results = run_homo(HomoFeatureBinning, rows, tmp_path, params={"method": method})
    found = outputs(results)
    guest, host = found[GUEST], found[HOST]
    assert guest.summary == host.summary
    told = found[ARBITER].model
    assert told is not None
    assert told.param["binning_result"]["binning_result"] == {}
    for name, points in guest.summary.items():
        pooled = np.concatenate((rows[GUEST][name], rows[HOST][name]))
        exact = quantile_points(pooled, 10)
        assert points[-1] == pooled.max()
        if method == "recursive_query":
            assert (bin_numbers(pooled, points) == bin_numbers(pooled, exact)).all()
        assert rows_of(host)[name] == bin_numbers(rows[HOST][name], points).tolist()
    binned = guest.model.param["binning_result"]["binning_result"]  # type: ignore[union-attr]
    assert binned["x0"]["split_points"] == guest.summary["x0"]
    assert binned["x0"]["bin_nums"] == len(guest.summary["x0"])
    assert guest.model.meta["method"] == method  # type: ignore[union-attr]
    assert (guest.model.meta_name, guest.model.param_name) == (  # type: ignore[union-attr]
        "FeatureBinningMeta",
        "FeatureBinningParam",
    )


def test_a_model_cuts_other_rows_alone(tmp_path: Path) -> None:
    rows = {
        GUEST: {"id": ["a", "b", "c"], "x": [1.0, 2.0, NAN], "z": [1.0, 1.0, 5.0]},
        HOST: {"id": ["d", "e"], "x": [3.0, 4.0], "z": [7.0, 5.0]},
    }
    params = {"bin_num": 2, "method": "recursive_query", "category_indexes": [1]}
    found = outputs(run_homo(HomoFeatureBinning, rows, tmp_path, params=params))
    assert rows_of(found[GUEST]) == {"id": ["a", "b", "c"], "x": [0, 0, 2], "z": [0, 0, 1]}
    assert rows_of(found[HOST]) == {"id": ["d", "e"], "x": [1, 1], "z": [2, 1]}
    assert found[GUEST].summary["z"] == [1.0, 5.0, 7.0]
    model = found[GUEST].model
    assert model is not None
    assert model.param["binning_result"]["binning_result"]["x"]["bin_nums"] == 3
    later = {GUEST: {"id": ["f"], "x": [9.0], "z": [6.0]}}
    told = found[ARBITER].model
    assert told is not None
    alone = run_homo(
        HomoFeatureBinning, later, tmp_path, params=params, models={GUEST: model, ARBITER: told}
    )
    assert rows_of(outputs(alone)[GUEST]) == {"id": ["f"], "x": [1], "z": [2]}


def test_only_chosen_columns_are_cut_and_transformed(tmp_path: Path) -> None:
    rows = {
        GUEST: {"id": ["a", "b"], "x": [1.0, 2.0], "z": [1.5, 2.5]},
        HOST: {"id": ["c"], "x": [3.0], "z": [0.5]},
        HOST_2: {"id": ["d"], "x": [4.0], "z": [0.5]},
    }
    params = {"bin_indexes": [0, 1], "bin_num": 2, "transform_param": {"transform_cols": [1]}}
    found = outputs(run_homo(HomoFeatureBinning, rows, tmp_path, params=params))
    assert set(found[HOST_2].summary) == {"x", "z"}
    assert rows_of(found[GUEST])["x"] == [1.0, 2.0]
    assert set(rows_of(found[GUEST])["z"]) <= {0, 1}


def test_parties_with_other_parameters_are_named(tmp_path: Path) -> None:
    rows = {
        GUEST: {"id": ["a"], "x": [1.0]},
        HOST: {"id": ["b"], "w": [1.0]},
    }
    results = run_homo(HomoFeatureBinning, rows, tmp_path)
    error = results[ARBITER].error
    assert isinstance(error, GroupDiffers)
    told = outside_error(error, ARBITER).message
    assert "host 10000 differs from guest 9999 in the columns' names or order" in told
    assert isinstance(results[GUEST].error, FedflowError)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "bucket"}, "method"),
        ({"transform_param": {"transform_type": "woe"}}, "there is no woe"),
        ({"max_iter": 101}, "max_iter"),
        ({"sample_bins": 0}, "sample_bins"),
        ({"split_points_by_index": {}}, "split_points_by_index"),
    ],
)
def test_impossible_parameters_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        check_params(HomoFeatureBinningParams, given, path="$")


def test_an_arbiter_is_needed_to_fit(tmp_path: Path) -> None:
    rows = {GUEST: {"id": ["a"], "x": [1.0]}}
    results = run_homo(HomoFeatureBinning, rows, tmp_path, arbiter=False)
    assert "one arbiter is needed" in str(results[GUEST].error)


def test_need_run_false_passes_the_tables_on(tmp_path: Path) -> None:
    rows = {GUEST: {"id": ["a"], "x": [1.0]}, HOST: {"id": ["b"], "x": [2.0]}}
    found = outputs(run_homo(HomoFeatureBinning, rows, tmp_path, params={"need_run": False}))
    assert found[GUEST].passed
    assert rows_of(found[HOST]) == {"id": ["b"], "x": [2.0]}
