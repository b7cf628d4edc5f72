"""Strategies: what they make of weights, and those of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from fedflow.components.horizontal import strategies
from fedflow.components.horizontal.lr_params import HomoLRParams
from fedflow.components.horizontal.privacy import DpParam, private, spent
from fedflow.components.horizontal.strategies import StrategyParam, strategy_of
from fedflow.sdk import BadParameter, check_params

BEFORE = np.array([1.0, -1.0])
MEAN = np.array([2.0, -1.5])


def following(singles: Any = (), **given: Any) -> Any:
    strategy = strategy_of(StrategyParam(**given))
    return strategy.following(BEFORE, MEAN, strategy.memory(2), singles)


def test_federated_averaging_is_the_mean() -> None:
    assert np.array_equal(following()[0], MEAN)


@pytest.mark.parametrize("name", ["fedadam", "fedyogi"])
def test_adaptive_strategies_follow_reddi_et_al(name: str) -> None:
    weights, memory = following(name=name)
    update = MEAN - BEFORE
    first = 0.1 * update
    second = np.full(2, 1e-6)
    if name == "fedadam":
        second = 0.99 * second + 0.01 * update**2
    else:
        second = second - 0.01 * update**2 * np.sign(second - update**2)
    expected = BEFORE + 0.1 * first / (np.sqrt(second) + 1e-3)
    np.testing.assert_allclose(weights, expected)
    np.testing.assert_allclose(memory["first"], first)
    np.testing.assert_allclose(memory["second"], second)


def test_the_trimmed_mean_leaves_out_the_ends_of_each_weight() -> None:
    singles = [np.array([float(i), -1000.0 * (i == 0)]) for i in range(5)]
    weights, _ = following(singles, name="trimmed_mean", trimmed=0.2)
    np.testing.assert_allclose(weights, [2.0, 0.0])


def test_krum_chooses_one_of_those_that_agree() -> None:
    singles = [np.array([1.0, 1.0]), np.array([1.1, 1.0]), np.array([0.9, 1.0]), np.full(2, 99.0)]
    weights, _ = following(singles, name="krum", trimmed=0.25)
    assert any(np.array_equal(weights, one) for one in singles[:3])


def test_a_strategy_of_another_package_is_found_by_its_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint(name="own", value=f"{__name__}:Own", group=strategies.GROUP)
    monkeypatch.setattr(strategies, "entry_points", lambda group: [point])
    param = StrategyParam(name="own", options={"step": 2})
    weights, _ = strategy_of(param).following(BEFORE, MEAN, {}, [])
    assert np.array_equal(weights, MEAN * 2)


def test_an_unknown_strategy_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(BadParameter, match="fedavg, fedprox"):
        strategy_of(StrategyParam(name="none such"))


def test_an_unknown_strategy_is_refused_when_the_job_is_submitted() -> None:
    with pytest.raises(BadParameter, match="'fedsgd' is not one of fedavg"):
        check_params(HomoLRParams, {"strategy": {"name": "fedsgd"}}, path="$")


class Own:
    """A strategy of another package."""

    needs_singles = False
    proximal = 0.0

    def __init__(self, param: StrategyParam) -> None:
        self._step = float(param.options["step"])

    def memory(self, size: int) -> Any:
        return {}

    def following(self, weights: Any, mean: Any, memory: Any, singles: Any) -> Any:
        return mean * self._step, {}


def test_an_update_is_clipped_and_gets_a_part_of_the_noise() -> None:
    param = DpParam(need_dp=True, clip=2.0, noise_multiplier=1.5)
    before, after = np.zeros(20_000), np.full(20_000, 3.0)
    parts = [private(before, after, param, members=4) for _ in range(4)]
    clipped = after * 2.0 / np.linalg.norm(after)
    noise = sum(parts) - 4 * clipped
    assert noise.std() == pytest.approx(1.5 * 2.0, rel=0.05)
    assert abs(noise.mean()) < 0.1


def test_the_budget_grows_with_rounds_and_falls_with_noise() -> None:
    pytest.importorskip("dp_accounting")
    few = spent(10, DpParam(noise_multiplier=2.0), members=10)
    assert few < spent(20, DpParam(noise_multiplier=2.0), members=10)
    assert few > spent(10, DpParam(noise_multiplier=4.0), members=10)
