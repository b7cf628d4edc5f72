"""Tensors of models with several classes, of text columns, and of rows that have no score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.serving.codes import ItemAnswer, failed
from fedflow.serving.doors.tensors import (
    TensorLimits,
    input_facts,
    output_facts,
    output_tensors,
    read_infer_request,
    read_rows,
)
from tests.unit.components.hetero_lr_parties import BASE, GUEST
from tests.unit.serving.scoring_parties import Node, Pipeline, labels_of, numbers_of
from tests.unit.serving.test_scoring_linear import read_node

LIMITS = TensorLimits(rows=300, values=1000, ids=None)
IDS = (
    '{"name": "i", "shape": [1], "datatype": "INT64", "data": [1],'
    ' "parameters": {"send_to_remote": true}}'
)


@dataclass(frozen=True)
class FactsOfModel:
    """A model that nobody asks for scores."""

    inputs: tuple[str, ...] = ("x0", "city")
    text_inputs: frozenset[str] = frozenset({"city"})
    labels: tuple[Any, ...] = ()
    hosts: tuple[str, ...] = ("10000",)
    role: str = "guest"
    digest: str = "d"

    def read(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        raise NotImplementedError

    def partial(self, batch: Any) -> bytes:
        raise NotImplementedError

    def local(self, batch: Any) -> Any:
        raise NotImplementedError

    def merge(self, local: Any, partials: Mapping[str, bytes]) -> list[Any]:
        raise NotImplementedError


def test_a_trained_model_of_three_classes_says_so(tmp_path: Path) -> None:
    nodes = [read_node(), Node(name="hetero_lr_0", cls=HeteroLR, params={**BASE, "max_iter": 1})]
    pipeline = Pipeline(nodes, tmp_path)
    rows = numbers_of(45, seed=1)
    pipeline.train(rows, [label * 10 for label in labels_of(rows, classes=3)])
    online = pipeline.online()
    model = online.models[GUEST]
    assert output_facts(model)[0] == {"name": "score", "datatype": "FP64", "shape": [-1, 3]}
    assert {one["datatype"] for one in input_facts(model, ())} == {"FP64"}
    scores = [ItemAnswer(score=one.score, label=one.label) for one in online.score(rows)[:2]]
    found = output_tensors([scores[0], failed(2113, "gone"), scores[1]], model, ())
    score, label, status, message = found
    assert score["shape"] == [3, 3]
    assert score["data"] == [*scores[0].score, None, None, None, *scores[1].score]  # type: ignore[misc]
    assert label["data"] == [str(scores[0].label), "", str(scores[1].label)]
    assert status["data"] == [0, 2113, 0]
    assert message["data"] == ["", "gone", ""]
    (score, *_) = output_tensors([failed(2105, "gone")] * 2, model, ())
    assert (score["shape"], score["data"]) == ([2, 3], [None] * 6)


def test_a_model_of_numbers_has_no_labels_and_says_which_inputs_are_text() -> None:
    model = FactsOfModel()
    assert [one["name"] for one in output_facts(model)] == ["score", "status", "message"]
    assert [one["datatype"] for one in input_facts(model, ("id",))] == ["FP64", "BYTES", "BYTES"]
    items = [ItemAnswer(score=1.5, credit_score=600.0), failed(102, "x")]
    found = {one["name"]: one["data"] for one in output_tensors(items, model, ())}
    assert found == {
        "score": [1.5, None], "credit_score": [600.0, None], "status": [0, 102],
        "message": ["", "x"],
    }  # fmt: skip


def test_numbers_are_float_and_ids_are_by_row() -> None:
    body = f'{{"inputs": [{IDS}, {{"name": "x0", "shape": [1], "datatype": "FP64", "data": [3]}}]}}'
    rows = read_rows(read_infer_request(body.encode()), FactsOfModel(), LIMITS)
    assert rows.features == [{"x0": 3.0}]
    assert isinstance(rows.features[0]["x0"], float)
    assert rows.ids == [{"i": 1}]


def test_without_partners_nothing_leaves() -> None:
    body = f'{{"inputs": [{IDS}]}}'.encode()
    rows = read_rows(read_infer_request(body), FactsOfModel(hosts=()), LIMITS)
    assert (rows.features, rows.ids) == ([{}], [{}])


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "1" + "0" * 400])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    tensor = f'{{"name": "x0", "shape": [1], "datatype": "FP64", "data": [{number}]}}'
    body = f'{{"inputs": [{IDS}, {tensor}]}}'.encode()
    with pytest.raises(BadServingRequest) as caught:
        read_rows(read_infer_request(body), FactsOfModel(), LIMITS)
    assert "x0" in str(caught.value) or "out of range" in str(caught.value)


def test_with_hooks_or_a_look_up_tensors_may_have_other_names() -> None:
    tensors = [
        {"name": "age", "shape": [1], "datatype": "INT64", "data": [5]},
        {"name": "x0", "shape": [1], "datatype": "FP64", "data": [1.5]},
    ]
    request = read_infer_request(json.dumps({"inputs": tensors}).encode())
    model = FactsOfModel(hosts=())
    with pytest.raises(BadServingRequest, match="'age' is no input of the model"):
        read_rows(request, model, LIMITS)
    rows = read_rows(request, model, replace(LIMITS, more=True))
    assert rows.features == [{"age": 5, "x0": 1.5}]


def test_with_a_look_up_a_model_without_hosts_has_ids_too() -> None:
    request = read_infer_request(f'{{"inputs": [{IDS}]}}'.encode())
    model = FactsOfModel(hosts=())
    assert read_rows(request, model, LIMITS).ids == [{}]
    assert read_rows(request, model, replace(LIMITS, more=True)).ids == [{"i": 1}]
