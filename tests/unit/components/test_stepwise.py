"""Stepwise selection: candidates, criteria, and what a selection leaves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data_plane import CodecError
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.components.linear.families import LINEAR, LOGISTIC
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.params import HeteroLRParams, StepwiseParam
from fedflow.components.linear.stepwise import Mask, candidates, criterion
from fedflow.sdk import check_params
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import outputs_of
from tests.unit.components.hetero_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
    Data,
    first_error,
    run,
    small,
    with_labels,
)

SITES = (GUEST, HOST, ARBITER)
WIDTHS = {GUEST: 2, HOST: 2}


def step(**fields: Any) -> dict[str, Any]:
    return {"need_stepwise": True, "score_name": "BIC", "nvmin": 1, **fields}


def two_that_matter(rows: int = 60) -> Data:
    """Return data whose labels depend on guest's x0 and host's x1 alone."""
    data = small(rows=rows, widths=WIDTHS)
    noise = np.random.default_rng(4).normal(size=rows)
    return with_labels(data, 2.0 * data.features[:, 0] - 3.0 * data.features[:, 3] + 0.05 * noise)


class InClear:
    """The selection on joined columns; masks have the host's columns first."""

    def __init__(self, data: Data, *, direction: str, iterations: int) -> None:
        self.data = data
        self.direction = direction
        self.iterations = iterations
        self.steps: list[tuple[Mask, float]] = []

    def value(self, mask: Mask) -> float:
        columns = self.data.features[:, [2, 3, 0, 1]][:, list(mask)]
        known = OracleSettings(
            iterations=self.iterations,
            family="linear",
            optimizer="sgd",
            learning_rate=0.5,
            alpha=0.0,
            decay=0.0,
        )
        loss = train_in_clear(columns, self.data.labels, known).losses[-1]
        rows = len(columns)
        return (sum(mask) + 1) * math.log(rows) + rows * math.log(2 * loss)

    def run(self) -> None:
        mask: Mask = (self.direction != "forward",) * 4
        self.steps = [(mask, self.value(mask))]
        for _ in range(10):
            tried = {mask: self.value(mask)}
            for flip in range(4):
                if mask[flip] != (self.direction == "forward") or self.direction == "both":
                    other = tuple(m != (i == flip) for i, m in enumerate(mask))
                    if sum(other):
                        tried[other] = self.value(other)
            best = min(tried, key=lambda m: tried[m])
            self.steps.append((best, tried[best]))
            if best == mask:
                return
            mask = best


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_a_selection_takes_the_steps_of_one_in_the_clear(direction: str, tmp_path: Path) -> None:
    data = two_that_matter()
    federation = LocalFederation(SITES)
    results = run(
        data,
        tmp_path,
        cls=HeteroLinR,
        learning_rate=0.5,
        alpha=0.0,
        decay=0.0,
        max_iter=6,
        stepwise_param=step(direction=direction),
        federation=federation,
    )
    assert federation.unread() == []
    expected = InClear(data, direction=direction, iterations=6)
    expected.run()
    for site in SITES:
        found = [
            (metric.meta, metric.points)
            for (space, name), metric in results[site].metrics.items()
            if name.startswith("stepwise_") and space == "train"
        ]
        masks = [tuple(meta["host_mask"] + meta["guest_mask"]) for meta, _ in found]
        assert masks == [mask for mask, _ in expected.steps]
        values = [meta["current_ic_val"] for meta, _ in found]
        assert values == pytest.approx([value for _, value in expected.steps], rel=1e-5)
        assert found[1][1] == [("stepwise_1", 1)]
        summary = outputs_of(results)[site].summary
        assert summary["step_0"]["number_in"] == sum(expected.steps[0][0])
    assert expected.steps[-1][0] == (False, True, True, False)
    guest, host = (outputs_of(results)[site].model for site in (GUEST, HOST))
    assert guest is not None
    assert host is not None
    assert guest.param["header"] == ["x0"]
    assert host.param["header"] == ["x1"]
    (table,) = outputs_of(results)[GUEST].data
    assert table is not None
    score = (
        data.tables[GUEST]["x0"].to_numpy() * guest.param["weight"]["x0"]
        + data.tables[HOST]["x1"].to_numpy() * host.param["weight"]["x1"]
        + guest.param["intercept"]
    )
    np.testing.assert_allclose(table.read()["predict_score"].to_numpy(), score, atol=1e-9)


def test_a_step_tells_what_fates_board_shows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="fedflow.task")
    data = small(rows=30, widths=WIDTHS)
    results = run(data, tmp_path, max_iter=2, stepwise_param=step(max_step=1, score_name="AIC"))
    meta = results[GUEST].metrics["train", "stepwise_0"].meta
    assert meta["host_features_anonym"] == ["host_10000_x0", "host_10000_x1"]
    assert meta["guest_features_anonym"] == ["guest_9999_x0", "guest_9999_x1"]
    assert meta["header"] == meta["all_features"] == ["x0", "x1"]
    assert meta["to_enter"] == []
    assert (meta["n_count"], meta["score_name"], meta["direction"]) == (30, "AIC", "both")
    loss = meta["loss"]
    assert meta["current_ic_val"] == pytest.approx(2 * 5 + 2 * 30 * loss)
    assert "header" not in results[ARBITER].metrics["train", "stepwise_0"].meta
    assert ("train", "loss") not in results[ARBITER].metrics
    assert "stepwise_2" not in {name for _, name in results[GUEST].metrics}
    assert "step 1 of at most 1 is done:" in caplog.text
    assert "iteration" not in caplog.text, "of candidates only warnings are logged"
    for result in results.values():
        assert list(result.progress) == sorted(result.progress)
        assert result.progress[-1] == 1.0
        assert len(set(result.progress)) > 3, "each candidate counts"


def test_criteria_follow_their_formulas() -> None:
    logistic = criterion(LOGISTIC, "bic", loss=0.5, rows=100, dfe=3)
    assert logistic == pytest.approx(3 * math.log(100) + 100)
    linear = criterion(LINEAR, "AIC", loss=0.5, rows=100, dfe=3)
    assert linear == pytest.approx(6.0)


def flips(mask: str, **param: Any) -> list[str]:
    found = candidates(tuple(c == "1" for c in mask), StepwiseParam(**param))
    return ["".join(str(int(b)) for b in other) for other in found]


def test_candidates_add_and_remove_one_column_within_the_bounds() -> None:
    assert flips("110", direction="backward", nvmin=1) == ["010", "100"]
    assert flips("110", direction="backward", nvmin=2) == []
    assert flips("100", direction="forward") == ["110", "101"]
    assert flips("110", direction="forward", nvmin=1, nvmax=2) == []
    assert flips("110", direction="both", nvmin=1) == ["010", "100", "111"]


def test_several_classes_or_hosts_are_refused(tmp_path: Path) -> None:
    three = with_labels(small(widths=WIDTHS), [0, 1, 2, 0] * 10)
    assert isinstance(
        first_error(run(three, tmp_path / "1", stepwise_param=step())), NotSupportedYet
    )
    two = small(widths={**WIDTHS, HOST_2: 2})
    params = {"early_stop": "weight_diff", "stepwise_param": step()}
    error = first_error(run(two, tmp_path / "2", **params))
    assert isinstance(error, BadParameter)
    assert "one host, not with 2" in str(error)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"score_name": "R2"}, "score_name"),
        ({"direction": "up"}, "direction"),
        ({"nvmin": 3, "nvmax": 2}, "nvmax"),
    ],
)
def test_bad_parameters_are_named(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        check_params(HeteroLRParams, {"stepwise_param": fields}, path="$")


@pytest.mark.parametrize(
    "told", [None, {"columns": [1], "rows": 3}, {"columns": ["a"], "rows": 0}, {"columns": ["a"]}]
)
def test_impossible_columns_of_another_party_are_refused(told: Any, tmp_path: Path) -> None:
    data = small(widths=WIDTHS)
    federation = LocalFederation(SITES)
    federation.at(HOST).send("stepwise_columns", told, to=(GUEST, ARBITER))
    results = run(
        Data({GUEST: data.tables[GUEST]}, data.features, data.labels),
        tmp_path,
        stepwise_param=step(),
        federation=federation,
        also=(HOST,),
    )
    assert isinstance(first_error(results), CodecError)
