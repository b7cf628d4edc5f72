"""Tests of the trainable component: against the solution in the clear, resumed, with bad data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ridge import RidgeParams, RidgeRegression

from fedflow.sdk import (
    BadData,
    BadParameter,
    Diverged,
    Inputs,
    PlannedRun,
    Role,
    Site,
    Table,
    check_params,
)
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of, run_component

GUEST = Site.from_key("guest-9999")
HOSTS = (Site.from_key("host-10000"), Site.from_key("host-10001"))
SITES = (GUEST, *HOSTS, Site.from_key("arbiter-10002"))
PARAMS = {"epochs": 4, "measure_every": 2, "key_bits": 1024, "alpha": 0.1, "learning_rate": 0.3}

RNG = np.random.default_rng(7)
X = {site: RNG.normal(size=(40, 2)) for site in (GUEST, *HOSTS)}
Y = sum(x @ [1.0, -2.0] for x in X.values()) + 0.5


def table(site: Site, rows: slice = slice(None), *, first: int = 0) -> Table:
    ids = [f"u{first + row}" for row in range(40)[rows]]
    columns: dict[str, Any] = {"id": ids, "a": X[site][rows, 0], "b": X[site][rows, 1]}
    if site is GUEST:
        columns["y"] = Y[rows]
    return MemoryTableStore().add(pa.table(columns))


def run(folder: Path, *, params: dict[str, Any] = PARAMS, **more: Any) -> Any:
    ports = {"train_data": slice(0, 30), "validate_data": slice(30, 40)}
    inputs = {
        site: Inputs(
            data={
                port: [("a", None if site not in X else table(site, rows))]
                for port, rows in ports.items()
            },
            model={},
        )
        for site in SITES
    }
    inputs |= more.pop("inputs", {})
    return run_component(
        RidgeRegression, sites=SITES, work_dir=folder, inputs=inputs,
        params=dict.fromkeys(SITES, params), **more,
    )  # fmt: skip


def in_the_clear() -> np.ndarray:
    """Return the scores of all rows after the same steps without encryption."""
    x = np.hstack([X[GUEST], np.ones((40, 1)), *(X[host] for host in HOSTS)])
    weights = np.zeros(x.shape[1])
    for _ in range(PARAMS["epochs"]):
        gradient = x[:30].T @ (x[:30] @ weights - Y[:30]) / 30
        weights -= PARAMS["learning_rate"] * (gradient + PARAMS["alpha"] * weights)
    return x @ weights


def test_training_gives_what_it_gives_in_the_clear_and_predict_too(tmp_path: Path) -> None:
    results = run(tmp_path)
    outputs = outputs_of(results)
    rows = outputs[GUEST].data[0].read().to_pydict()
    assert rows["predict_score"] == pytest.approx(in_the_clear().tolist(), abs=1e-5)
    assert rows["type"] == ["train"] * 30 + ["validate"] * 10
    assert [len(outputs[host].data) for host in HOSTS] == [0, 0]

    metrics = results[GUEST].metrics
    assert [x for x, _ in metrics["train", "loss"].points] == [1, 3]
    assert metrics["validate", "ridgeregression_0"].metric_type == "EVALUATION_SUMMARY"
    assert results[HOSTS[0]].metrics == {}
    assert results[GUEST].progress == (0.25, 0.5, 0.75, 1.0)

    tests = {
        site: Inputs(
            data={"test_data": [("a", None if site not in X else table(site))]},
            model={"ridge_0": model} if (model := outputs[site].model) else {},
        )
        for site in SITES[:3]
    }
    again = run_component(RidgeRegression, sites=SITES[:3], work_dir=tmp_path, inputs=tests)
    predicted = outputs_of(again)[GUEST].data[0].read().to_pydict()
    assert predicted["predict_score"] == pytest.approx(in_the_clear().tolist(), abs=1e-5)
    assert set(predicted["type"]) == {"predict"}


def test_a_repeated_attempt_goes_on_from_what_all_sites_have(tmp_path: Path) -> None:
    stored = {site: MemoryCheckpoints() for site in SITES}
    run(tmp_path, params={**PARAMS, "epochs": 3}, checkpoints=stored)
    assert stored[GUEST].steps() == [(1, "epoch_1")]
    results = run(tmp_path, checkpoints=stored)
    rows = outputs_of(results)[GUEST].data[0].read().to_pydict()
    assert rows["predict_score"] == pytest.approx(in_the_clear().tolist(), abs=1e-5)
    assert results[GUEST].progress == (0.75, 1.0)
    stored[HOSTS[1]] = MemoryCheckpoints()  # one site has lost its own: all begin anew
    assert run(tmp_path, checkpoints=stored)[GUEST].progress[0] == 0.25


def test_other_rows_at_a_host_and_missing_labels_are_told(tmp_path: Path) -> None:
    other = Inputs(data={"train_data": [("a", table(HOSTS[0], slice(0, 30), first=1))]}, model={})
    with pytest.raises(BadData, match="host 10000: other ids than the guest's"):
        outputs_of(run(tmp_path, inputs={HOSTS[0]: other}))
    ports = {"train_data": slice(0, 30), "validate_data": slice(30, 40)}
    bare = {port: [("a", table(HOSTS[0], rows))] for port, rows in ports.items()}
    with pytest.raises(BadData, match="needs a label column"):
        outputs_of(run(tmp_path, inputs={GUEST: Inputs(data=bare, model={})}))


def test_a_step_that_is_too_long_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="without bound"):
        outputs_of(run(tmp_path, params={**PARAMS, "learning_rate": 1e7}))


@pytest.mark.parametrize(
    ("sites", "ports", "words"),
    [
        (SITES[:1], ("train_data",), "at least one host"),
        (SITES[:2], ("train_data",), "one arbiter is needed"),
        (SITES[:2], ("test_data",), "needs a model"),
    ],
)
def test_a_run_that_cannot_be_is_refused_at_the_submit(
    sites: tuple[Site, ...], ports: tuple[str, ...], words: str
) -> None:
    planned = PlannedRun(site=GUEST, sites=sites, data_ports=ports)
    with pytest.raises(BadParameter, match=words):
        check_params(RidgeParams, {}, path="$", run=planned)
    assert Role.ARBITER not in {site.role for site in sites}
