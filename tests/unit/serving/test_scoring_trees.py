"""Scores of boosted trees online equal those of a predict job, in one message per host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.serving import BadPartial, UnservableModel
from fedflow.components.boosting.hetero_secureboost import (
    HeteroFastSecureBoost,
    HeteroSecureBoost,
)
from fedflow.serving.scoring.host_answer import answer_of, read_answer
from fedflow.serving.scoring.pipeline import build
from tests.unit.components.boosting_parties import BASE
from tests.unit.components.hetero_lr_parties import GUEST, HOST
from tests.unit.serving.scoring_parties import (
    PARTIES,
    THREE,
    Node,
    Pipeline,
    assert_same,
    check_parity,
    labels_of,
    numbers_of,
    table_of,
)
from tests.unit.serving.test_scoring_linear import read_node

SHALLOW = {"tree_param": {"max_depth": 3}}
MISSING = {"tree_param": {"max_depth": 3}, "use_missing": True}
ZERO_MISSING = {"tree_param": {"max_depth": 3, "use_missing": True, "zero_as_missing": True}}
MIX = {"boosting_strategy": "mix", "num_trees": 4, **SHALLOW}
LAYERED = {"work_mode": "layered", "host_depth": 2, "guest_depth": 1}
VECTORS = {"multi_mode": "multi_output", **SHALLOW}


def trees(cls: Any = HeteroSecureBoost, **params: Any) -> Node:
    return Node(name="secureboost_0", cls=cls, params={**BASE, **params})


def trained(
    node: Node, folder: Path, *, sites: Any = PARTIES, classes: int = 2, missing: float = 0.0
) -> Pipeline:
    """Return a pipeline of trees on rows of which some have zeros."""
    kind = {} if classes else {"label": {"label_type": "float"}}
    pipeline = Pipeline([read_node(missing_fill=False, **kind), node], folder, sites=sites)
    rows = numbers_of(60, seed=1, sites=sites, missing=missing)
    for given in rows.values():
        for row in given[::7]:
            row["x1"] = 0.0
    pipeline.train(rows, labels_of(rows, classes=classes or 30))
    return pipeline


@pytest.mark.parametrize(
    ("node", "sites", "classes", "missing"),
    [
        (trees(**SHALLOW), PARTIES, 2, 0.0),
        (trees(HeteroFastSecureBoost, **MIX), PARTIES, 2, 0.0),
        (trees(HeteroFastSecureBoost, **LAYERED), PARTIES, 2, 0.0),
        (trees(**SHALLOW), PARTIES, 3, 0.0),
        (trees(**VECTORS), PARTIES, 4, 0.0),
        (trees(**MISSING), THREE, 2, 0.2),
        (trees(**ZERO_MISSING), PARTIES, 2, 0.2),
        (trees(**MIX, use_missing=True), THREE, 3, 0.2),
        (trees(**SHALLOW, task_type="regression", objective_param={"objective": "lse"}),
         PARTIES, 0, 0.0),
        (trees(**SHALLOW, task_type="regression",
               objective_param={"objective": "tweedie", "params": [1.5]}), THREE, 0, 0.0),
    ],
    ids=[
        "standard", "mix", "layered", "three classes", "vector leaves", "missing, two hosts",
        "zeros missing", "mix, missing, three classes, two hosts", "numbers", "tweedie, two hosts",
    ],
)  # fmt: skip
def test_trees(node: Node, sites: Any, classes: int, missing: float, tmp_path: Path) -> None:
    pipeline = trained(node, tmp_path, sites=sites, classes=classes, missing=missing)
    fresh = numbers_of(1000, seed=2, sites=sites, missing=missing)
    for given in fresh.values():
        for row in given[::5]:
            row["x1"] = 0.0
    scores = check_parity(pipeline, fresh)
    assert len({str(score.score) for score in scores}) > 5


def test_missing_values_that_trees_do_not_know_are_an_error_of_their_row(tmp_path: Path) -> None:
    pipeline = trained(trees(**SHALLOW), tmp_path)
    fresh = numbers_of(20, seed=3)
    fresh[GUEST][4]["x0"] = None
    fresh[HOST][5]["x2"] = "NA"
    fresh[HOST][6]["x2"] = "word"
    scores = pipeline.online().score(fresh)
    assert scores[4].error == "no value of x0"
    assert {scores[5].error, scores[6].error} == {"host 10000 cannot score this row"}
    fine = [number for number in range(20) if number not in (4, 5, 6)]
    expected = pipeline.predict(table_of(fresh, fine))
    assert_same([scores[number] for number in fine], expected)


def test_a_host_sends_one_message_of_bits_and_leaves(tmp_path: Path) -> None:
    pipeline = trained(trees(**MIX), tmp_path)
    host = pipeline.online().models[HOST]
    answer = read_answer(host.partial(host.read(numbers_of(9, seed=3)[HOST])))
    assert (answer.bits, answer.leaves.shape, answer.scores.shape) == (0, (9, 2), (9, 0))
    pipeline = trained(trees(**SHALLOW), tmp_path)
    host = pipeline.online().models[HOST]
    payload = host.partial(host.read(numbers_of(9, seed=3)[HOST]))
    answer = read_answer(payload)
    assert answer.bits > 0
    assert len(payload) == 20 + 2 + 9 * -(-answer.bits // 8)


def test_leaves_that_are_none_are_refused(tmp_path: Path) -> None:
    online = trained(trees(**MIX), tmp_path).online()
    rows = numbers_of(3, seed=3)
    guest, host = online.models[GUEST], online.models[HOST]
    local = guest.local(guest.read(rows[GUEST]))
    answer = read_answer(host.partial(host.read(rows[HOST])))
    for wrong, reason in ((-1, "no nodes"), (2**31 - 1, "no nodes"), (0, "inner nodes")):
        leaves = answer.leaves.copy()
        leaves[1, 1] = wrong
        payload = replace(answer, leaves=leaves).to_bytes()
        with pytest.raises(
            BadPartial, match=f"host 10000 cannot be used: it has leaves .*{reason}"
        ):
            guest.merge(local, {HOST.party_id: payload})
    failed = answer.failed.copy()
    failed[1] = True
    leaves[1, 1] = -5
    payload = answer_of(failed, leaves=leaves).to_bytes()
    scores = guest.merge(local, {HOST.party_id: payload})
    assert [score.error is not None for score in scores] == [False, True, False]


def test_a_model_that_hides_ways_is_refused(tmp_path: Path) -> None:
    pipeline = trained(trees(**SHALLOW), tmp_path)
    pipeline.nodes[1].params = {**pipeline.nodes[1].params, "EINI_inference": True}
    with pytest.raises(UnservableModel, match="EINI_inference hides the way of a row"):
        build(pipeline.deployed(GUEST))
