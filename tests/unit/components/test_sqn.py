"""The quasi-Newton optimizer: against explicit matrices in the clear, and between the parties."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.linear.params import HeteroLRParams, SqnParam
from fedflow.components.linear.party_weights import PartyWeights
from fedflow.components.linear.sqn import QuasiNewton, announced_sample
from fedflow.sdk import check_params
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import outputs_of
from tests.unit.components.hetero_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
    assert_equals_oracle,
    assert_weights_equal_oracle,
    losses,
    run,
    small,
    weights_of,
    with_numbers,
)

SITES = (GUEST, HOST, ARBITER)
SQN: dict[str, Any] = {"optimizer": "sqn", "learning_rate": 0.3}


def settings(iterations: int, **changes: Any) -> OracleSettings:
    return OracleSettings(iterations=iterations, optimizer="sqn", learning_rate=0.3, **changes)


@pytest.mark.parametrize("batch_size", [-1, 16])
def test_logistic_training_equals_the_oracle(batch_size: int, tmp_path: Path) -> None:
    data = small()
    federation = LocalFederation(SITES)
    results = run(data, tmp_path, max_iter=9, batch_size=batch_size, federation=federation, **SQN)
    assert federation.unread() == []
    expected = train_in_clear(data.features, data.labels, settings(9, batch_size=batch_size))
    assert_equals_oracle(results, expected)
    plain = train_in_clear(
        data.features, data.labels, OracleSettings(iterations=9, optimizer="sgd", learning_rate=0.3)
    )
    assert expected.losses[-1] < plain.losses[-1]


def test_the_interval_and_the_memory_are_those_asked_for(tmp_path: Path) -> None:
    data = with_numbers(small())
    params = {"sqn_param": {"update_interval_L": 2, "memory_M": 2}, **SQN}
    results = run(data, tmp_path, cls=HeteroLinR, max_iter=9, **params)
    known = settings(9, family="linear", interval=2, memory=2)
    assert_equals_oracle(results, train_in_clear(data.features, data.labels, known))


@pytest.mark.parametrize("cls", [HeteroLR, HeteroLinR])
def test_sample_weights_and_two_hosts_equal_the_oracle(cls: Any, tmp_path: Path) -> None:
    widths = {GUEST: 3, HOST: 2, HOST_2: 2}
    data = small(widths=widths, weighted=True)
    family = "logistic"
    if cls is HeteroLinR:
        data, family = with_numbers(data), "linear"
    params = {**SQN, "learning_rate": 0.1, "early_stop": "weight_diff"}
    results = run(data, tmp_path, cls=cls, max_iter=8, **params)
    known = OracleSettings(iterations=8, optimizer="sqn", learning_rate=0.1, family=family)
    expected = train_in_clear(data.features, data.labels, known, weights=data.weights)
    assert_weights_equal_oracle(results, expected, *widths)


def test_a_sample_of_rows_is_the_same_with_a_seed(tmp_path: Path) -> None:
    data = small()
    found = []
    for number, seed in enumerate((1, 1, 2)):
        sample = {"sample_size": 12, "random_seed": seed}
        results = run(data, tmp_path / str(number), max_iter=9, sqn_param=sample, **SQN)
        found.append(losses(results))
    assert found[0] == found[1] != found[2]
    assert found[0][-1] < found[0][0]


def test_a_resumed_training_gives_the_same_bits(tmp_path: Path) -> None:
    data = small()
    params = {
        **SQN,
        "callback_param": {"callbacks": ["ModelCheckpoint"]},
        "batch_size": 20,
        "sqn_param": {"sample_size": 15, "random_seed": 4},
    }
    whole = run(data, tmp_path / "0", max_iter=7, **params)
    stored = {site: MemoryCheckpoints() for site in SITES}
    run(data, tmp_path / "1", max_iter=4, checkpoints=stored, **params)
    for store in stored.values():
        store.begin()
    resumed = run(data, tmp_path / "2", max_iter=7, checkpoints=stored, task_version=1, **params)
    assert weights_of(resumed, GUEST, HOST).tolist() == weights_of(whole, GUEST, HOST).tolist()
    both = [outputs_of(results)[ARBITER].model for results in (whole, resumed)]
    assert both[0] == both[1]


def test_a_pair_without_curvature_is_left_out() -> None:
    rule = QuasiNewton(SqnParam())
    rule.learn(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    rule.learn(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    assert rule.step(np.array([2.0, 3.0]), 1.0).tolist() == [2.0, 3.0]
    rule.learn(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    assert rule.step(np.array([2.0, 0.0]), 1.0).tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    "direction", ["up", [0.0, 1.0], np.zeros(3), np.array([np.nan, 0.0]), np.zeros(2, np.float32)]
)
def test_an_impossible_direction_is_refused(direction: Any) -> None:
    share = PartyWeights(HeteroLRParams(), columns=("a",), intercept=True)
    with pytest.raises(CodecError):
        share.along(direction)


@pytest.mark.parametrize(
    "told",
    [
        "all",
        None,
        list(range(10)),
        np.arange(9),
        np.arange(11),
        np.arange(31, 41),
        np.zeros(10, dtype=np.int64),
    ],
)
def test_impossible_sample_rows_are_refused(told: Any) -> None:
    federation = LocalFederation(SITES)
    federation.at(GUEST).send("sqn_sample_index", told, to=HOST, tag="0.2")
    host: Any = SimpleNamespace(
        federation=federation.at(HOST),
        only=lambda role: GUEST,
        params=SimpleNamespace(sqn=SqnParam(sample_size=10)),
    )
    with pytest.raises(CodecError, match="sqn_sample_index"):
        announced_sample(host, rows=40, tag="0.2")


@pytest.mark.parametrize(
    ("fields", "what"),
    [({"sample_size": 9}, "sample_size"), ({"random_seed": -1}, "random_seed")],
)
def test_bad_parameters_are_named(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        check_params(HeteroLRParams, {"sqn_param": fields}, path="$")
