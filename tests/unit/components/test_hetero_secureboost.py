"""HeteroSecureBoost: the trees of the joined table, grown by several parties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.components.boosting.losses import BinaryCrossEntropy
from tests.unit.components.boosting_parties import (
    GUEST,
    HOST,
    HOST_2,
    Twin,
    data_of,
    models_of,
    predictions,
    run,
    trees_of,
)
from tests.unit.components.hetero_lr_parties import Data

pytestmark = pytest.mark.timeout(120)

THREE = {GUEST: 2, HOST: 2, HOST_2: 2}


def grown(data: Data, loss: Any, twin: Twin, rounds: int, labels: Any) -> Any:
    """Return the twin's trees and scores after so many rounds."""
    twin.cut(data.features)
    scores = np.tile(loss.start(labels), (len(labels), 1))
    trees = []
    for _ in range(rounds):
        g, h = loss.gradients(labels, scores)
        found = [
            twin.tree(data.features, g[:, k], h[:, k], range(len(labels)))
            for k in range(loss.width)
        ]
        for k, tree in enumerate(found):
            scores[:, k] += twin.learning_rate * twin.scores(tree, data.features)
        trees += found
    return trees, scores


@pytest.mark.parametrize("widths", [{GUEST: 2, HOST: 3}, THREE, {GUEST: 0, HOST: 3}])
@pytest.mark.parametrize("values", [0, 3])
def test_trees_are_those_of_the_joined_table(widths: Any, values: int, tmp_path: Path) -> None:
    data = data_of(widths=widths, values=values)
    results = run(data, tmp_path)
    loss = BinaryCrossEntropy()
    expected, scores = grown(data, loss, Twin(list(widths.values())), 2, data.labels)
    assert trees_of(models_of(results)) == expected
    made = predictions(results)["predict_score"].to_numpy()
    np.testing.assert_allclose(made, loss.mean(scores), rtol=0, atol=1e-12)


def test_trees_are_the_same_under_the_scheme_of_okamoto_and_uchiyama(tmp_path: Path) -> None:
    data = data_of(values=3)
    under_paillier = models_of(run(data, tmp_path / "paillier"))
    under_ou = models_of(
        run(data, tmp_path / "ou", encrypt_param={"method": "ou", "key_length": 2048})
    )
    assert trees_of(under_ou) == trees_of(under_paillier)
