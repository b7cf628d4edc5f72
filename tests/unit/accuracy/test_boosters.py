"""xgboost and lightgbm with the settings of HeteroSecureBoost grow the trees of the twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.accuracy.boosters import (
    BINARY,
    CLASSES,
    LAYERED,
    MIX,
    NUMBERS,
    Boosting,
    binned,
    lightgbm_scores,
    xgboost_own,
    xgboost_scores,
)
from benchmarks.accuracy.data import Floats
from fedflow.components.boosting.bins import BinnedColumns
from fedflow.components.boosting.losses import BinaryCrossEntropy, CrossEntropy, regression_loss
from tests.unit.components.boosting_parties import Twin, data_of

#: why a tool may not be there; lightgbm is none of `dev`, since it needs a library of the system
EXTRA = "pip install --editable '.[accuracy]' adds it"

FEATURES = data_of(rows=60).features  # two columns of the guest, three of the host
SUMS = FEATURES.sum(axis=1)
RANKS = np.argsort(np.argsort(SUMS)).astype(float)
LABELS = {BINARY: RANKS // 30, CLASSES: RANKS // 20, NUMBERS: SUMS}
LOSSES: dict[str, Any] = {
    BINARY: BinaryCrossEntropy(),
    CLASSES: CrossEntropy(3),
    NUMBERS: regression_loss("lse", []),
}


def in_clear(how: Boosting, *levels: dict[int, tuple[int, ...]]) -> Floats:
    """Return the twin's predictions; `levels` are those of the rounds in turn."""
    loss, labels = LOSSES[how.kind], LABELS[how.kind]
    twin = Twin([2, 3], max_depth=how.depth, bins=how.bins, l2=how.l2, min_gain=how.min_gain)
    twin.cut(FEATURES)
    scores = np.tile(loss.start(labels), (len(labels), 1))
    for number in range(how.rounds):
        now = replace(twin, levels=levels[number % len(levels)] if levels else {})
        g, h = loss.gradients(labels, scores)
        for k in range(loss.width):
            tree = now.tree(FEATURES, g[:, k], h[:, k], range(len(labels)))
            scores[:, k] += how.learning_rate * twin.scores(tree, FEATURES)
    found: Floats = loss.mean(scores)
    return found if loss.width > 1 else found.ravel()


def of_xgboost(how: Boosting) -> Floats:
    pytest.importorskip("xgboost", reason=EXTRA)
    return xgboost_scores(FEATURES, LABELS[how.kind], how, guest=2)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("values", [0, 4])
def test_bins_are_those_of_the_component(values: int, missing: float) -> None:
    features = data_of(values=values, missing=missing).features
    features[:, 0] = features[:, 0] if missing == 0 else np.nan
    expected = BinnedColumns.of(features, bins=8).numbers
    found = binned(features, 8)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(features))
    present = ~np.isnan(features)
    np.testing.assert_array_equal(found[present], expected[present])


@pytest.mark.parametrize("kind", [BINARY, CLASSES, NUMBERS])
def test_penalty_and_rate_have_the_tools_units(kind: str) -> None:
    how = Boosting(kind=kind, rounds=2, l2=3.0, depth=2)
    expected = in_clear(how)
    np.testing.assert_allclose(of_xgboost(how), expected, atol=1e-5)
    pytest.importorskip("lightgbm", reason=EXTRA)
    np.testing.assert_allclose(lightgbm_scores(FEATURES, LABELS[kind], how), expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "gain"), [(BINARY, 5.0), (CLASSES, 4.0), (NUMBERS, 50.0)])
def test_the_least_gain_has_xgboosts_unit(kind: str, gain: float) -> None:
    how = Boosting(kind=kind, rounds=1, min_gain=gain)
    expected = in_clear(how)
    np.testing.assert_allclose(of_xgboost(how), expected, atol=1e-5)
    for other in (gain / 2, gain * 2):
        assert np.abs(expected - in_clear(replace(how, min_gain=other))).max() > 1e-3


def test_trees_of_one_party_in_turn() -> None:
    how = Boosting(kind=BINARY, rounds=3, strategy=MIX)
    guest, host = (dict.fromkeys(range(3), (party,)) for party in (0, 1))
    np.testing.assert_allclose(of_xgboost(how), in_clear(how, guest, host), atol=1e-5)


@pytest.mark.parametrize("min_gain", [1e-3, 3.0])
def test_upper_levels_are_the_hosts_and_lower_ones_the_guests(min_gain: float) -> None:
    how = Boosting(
        kind=BINARY, rounds=2, strategy=LAYERED, depth=4, host_depth=2, min_gain=min_gain
    )
    levels = {0: (1,), 1: (1,), 2: (0,), 3: (0,)}
    np.testing.assert_allclose(of_xgboost(how), in_clear(how, levels), atol=1e-5)


def test_goss_takes_large_gradients_and_few_of_the_others() -> None:
    how = Boosting(kind=BINARY, rounds=4, goss=(0.5, 0.2))
    found, whole = of_xgboost(how), of_xgboost(replace(how, goss=None))
    assert np.abs(found - whole).max() > 1e-3
    assert (found.round() == LABELS[BINARY]).mean() > 0.9


def test_xgboost_as_it_comes_cuts_its_own_bins() -> None:
    how = Boosting(kind=NUMBERS, rounds=3, bins=8)
    xgboost = of_xgboost(how)
    own = xgboost_own(FEATURES, LABELS[NUMBERS], how)
    assert 1e-3 < np.abs(own - xgboost).max() < np.ptp(SUMS) / 2
