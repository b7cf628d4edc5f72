"""SSHE models and scorecards online equal a predict job; encrypted weights are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.serving import UnservableModel
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.scoring.scorecard import Scorecard
from fedflow.components.sshe.component import HeteroSSHELinR, HeteroSSHELR
from fedflow.serving.scoring.pipeline import build
from tests.unit.components.hetero_lr_parties import GUEST, HOST
from tests.unit.components.sshe_parties import BASE, KNOWN
from tests.unit.serving.scoring_parties import (
    Node,
    Pipeline,
    assert_equal_scores,
    assert_same,
    labels_of,
    numbers_of,
    table_of,
)
from tests.unit.serving.test_scoring_linear import TRAINED, read_node


def sshe(cls: Any = HeteroSSHELR, **params: Any) -> Node:
    return Node(name="sshe_0", cls=cls, params={**BASE, **KNOWN, "max_iter": 1, **params})


@pytest.mark.parametrize(
    ("cls", "classes"), [(HeteroSSHELR, 2), (HeteroSSHELR, 3), (HeteroSSHELinR, 5)]
)
def test_plain_weights(cls: Any, classes: int, tmp_path: Path) -> None:
    kind = {"label": {"label_type": "float"}} if cls is HeteroSSHELinR else {}
    pipeline = Pipeline([read_node(**kind), sshe(cls)], tmp_path)
    rows = numbers_of(30, seed=1)
    pipeline.train(rows, labels_of(rows, classes=classes))
    fresh = numbers_of(300, seed=2, missing=0.1)
    online = pipeline.online()
    scores = online.score(fresh)
    assert_same(scores, pipeline.predict(fresh))
    assert_equal_scores(scores[:20], online.one_by_one(table_of(fresh, range(20))))


def test_encrypted_weights_are_refused_at_both_parties(tmp_path: Path) -> None:
    hidden = {"reveal_every_iter": False, "reveal_strategy": "encrypted_reveal_in_host"}
    pipeline = Pipeline([read_node(), sshe(**hidden)], tmp_path)
    rows = numbers_of(20, seed=1)
    pipeline.train(rows, labels_of(rows))
    for site in (GUEST, HOST):
        with pytest.raises(UnservableModel, match=r"sshe_0 .* the host's weights are encrypted"):
            build(pipeline.deployed(site))


def test_scorecard(tmp_path: Path) -> None:
    nodes = [
        read_node(),
        Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED),
        Node(name="scorecard_0", cls=Scorecard, params={"offset": 600.0, "factor": 25.0}),
    ]
    pipeline = Pipeline(nodes, tmp_path)
    rows = numbers_of(40, seed=1)
    pipeline.train(rows, labels_of(rows))
    fresh = numbers_of(300, seed=2)
    scores = pipeline.online().score(fresh)
    offline = pipeline.predict(fresh)
    assert_same(scores, offline)
    found = [score.credit_score for score in scores]
    np.testing.assert_allclose(np.array(found, dtype=float), offline["credit_score"], atol=1e-9)
    assert len(set(found)) > 50


def test_a_scorecard_needs_two_classes(tmp_path: Path) -> None:
    nodes = [
        read_node(label={"label_type": "float"}),
        Node(name="hetero_linr_0", cls=HeteroLinR, params=TRAINED),
    ]
    pipeline = Pipeline(nodes, tmp_path)
    rows = numbers_of(40, seed=1)
    pipeline.train(rows, labels_of(rows))
    pipeline.nodes.append(Node(name="scorecard_0", cls=Scorecard))
    with pytest.raises(UnservableModel, match=r"scorecard_0 .* does not predict two classes"):
        build(pipeline.deployed(GUEST))
