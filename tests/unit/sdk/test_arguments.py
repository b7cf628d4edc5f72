"""What authors easily pass wrongly is told in words of the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.sdk import Model, Outputs
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.tracker import RecordingTracker
from fedflow.worker.tracker import ServerTracker

TABLE = MemoryTableStore().add({"id": ["a"], "x": [1.0]})


@pytest.mark.parametrize("make", [RecordingTracker, lambda: ServerTracker(None)])
@pytest.mark.parametrize(
    ("points", "meta", "error", "words"),
    [
        ([1.0, 2.0], {}, TypeError, r"metric train/loss: points are pairs \(x, y\), not '1.0'"),
        (["ab"], {}, TypeError, "points are pairs"),
        ([(1, 2, 3)], {}, TypeError, "points are pairs"),
        ([(0, np.int64(1))], {}, TypeError, r"\.item\(\)"),
        ([(0, 1.0)], {"x": np.ones(2)}, TypeError, r"\.tolist\(\)"),
        ([(0, float("nan"))], {}, ValueError, "metric train/loss: .*not JSON compliant"),
    ],
)
def test_a_metric_that_cannot_be_recorded_is_named(
    make: Any, points: Any, meta: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make().metric("train", "loss", metric_type="LOSS", points=points, meta=meta)


def test_points_may_be_lists_or_items_of_a_dict() -> None:
    tracker = RecordingTracker()
    for points in ([[0, 1.0]], {"a": 2}.items(), [(1, 2)]):
        tracker.metric("train", "any", metric_type="ANY", points=points)
    assert tracker.metrics["train", "any"].points == [(0, 1.0), ("a", 2), (1, 2)]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"data": TABLE}, r"Outputs\(data=...\) is a tuple of tables, such as \(table,\)"),
        ({"data": (pa.table({"id": ["a"]}),)}, r"ctx\.tables\.create\(schema\)"),
        ({"data": ({"id": ["a"]},)}, "holds a dict"),
        ({"model": {"meta": {}, "param": {}}}, r"Outputs\(model=...\) is a Model, not a dict"),
    ],
)
def test_outputs_of_a_wrong_type_are_told(members: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Outputs(**members)
    assert Outputs(data=(TABLE, None)).data == (TABLE, None)


def test_a_models_objects_are_dicts() -> None:
    with pytest.raises(TypeError, match="dicts, not a list"):
        Model(meta_name="AMeta", param_name="AParam", meta={}, param=[])  # type: ignore[arg-type]
