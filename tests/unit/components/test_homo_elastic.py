"""A party that is lost does not end the horizontal components of an elastic job."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.components.binning.homo_feature_binning import HomoFeatureBinning
from fedflow.components.features.homo_one_hot import HomoOneHotEncoder
from fedflow.components.nn.homo_nn import HomoNN
from fedflow.domain.job.elastic import Elastic
from fedflow.sdk import Site
from tests.unit.components.homo_parties import ARBITER, GUEST, HOST, HOST_2, run_homo

ELASTIC = Elastic(min_parties=2, round_deadline_s=3.0, last_call_s=0.5)

NETWORK = {
    "trainer": {"param": {"epochs": 3}},
    "nn_define": {"0-0": {"layer": "Linear", "in_features": 1, "out_features": 1}},
    "loss": {"loss_fn": "MSELoss"},
    "optimizer": {"optimizer": "SGD", "lr": 0.01},
}


@pytest.mark.parametrize(
    ("module", "port", "params"),
    [
        (HomoFeatureBinning, "data", {"bin_num": 3}),
        (HomoOneHotEncoder, "data", {}),
        (HomoNN, "train_data", NETWORK),
    ],
)
def test_rounds_go_on_without_a_party_that_is_lost(
    module: Any, port: str, params: dict[str, Any], tmp_path: Path
) -> None:
    if module is HomoNN and importlib.util.find_spec("torch") is None:
        pytest.skip("needs the extra nn")
    rows: dict[Site, dict[str, Any]] = {
        site: {
            "id": [f"{n}" for n in range(8)],
            "y": [0.0, 1.0] * 4,
            "x": np.arange(start, start + 8),
        }
        for site, start in ((GUEST, 0), (HOST, 4), (HOST_2, 8))
    }
    rows[HOST_2]["x"] = [True] + [False] * 7
    rows[HOST_2]["w"] = [0.5] * 8  # one column more: its plan is refused, or its run fails
    results = run_homo(
        module,
        rows,
        tmp_path,
        params=params,
        ports=(port,),
        elastic=ELASTIC,
        only=(GUEST, HOST, ARBITER),
    )
    for site in (GUEST, HOST):
        assert results[site].error is None, results[site].error
        assert results[site].outputs is not None
    assert results[ARBITER].error is None
