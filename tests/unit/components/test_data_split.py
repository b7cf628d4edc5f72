"""HeteroDataSplit and HomoDataSplit: sizes, strata, ports; parties split alike."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.model_selection import train_test_split

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.samples.alignment import ids_digest
from fedflow.components.sampling.data_split import HeteroDataSplit, HomoDataSplit
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Outputs
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.unit.components.one_party import GUEST, HOST, Party, rows_of, schema_of

HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]
IDS = [f"u{i}" for i in range(100)]
LABELS = [int(i % 4 == 0) for i in range(100)]


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def inputs(folder: Path, ids: Mapping[Site, list[str]], **guest: Any) -> dict[Site, Inputs]:
    found = {}
    for site, names in ids.items():
        columns = {"id": names, **(guest if site == GUEST else {})}
        table = Party(folder, site=site).table({**columns, "x": [float(n[1:]) for n in names]})
        found[site] = Inputs(data={"data": [("intersection_0", table)]}, model={})
    return found


def run(
    folder: Path, ids: Mapping[Site, list[str]] | None = None, labels: Any = None, **params: Any
) -> dict[Site, RunResult]:
    ids = ids or {GUEST: IDS, HOST: IDS}
    return run_component(
        HeteroDataSplit,
        sites=list(ids),
        work_dir=folder,
        params=dict.fromkeys(ids, params),
        inputs=inputs(folder, ids, y=labels or LABELS),
    )


def homo(party: Party, **params: Any) -> Outputs:
    return party.run(HomoDataSplit, party.table({"id": IDS, "y": LABELS}), **params)


def sizes(outputs: Outputs) -> list[int]:
    return [len(rows_of(outputs, i)["id"]) for i in range(3)]


def test_parties_split_alike(tmp_path: Path) -> None:
    results = run(
        tmp_path,
        {GUEST: IDS, HOST: IDS, HOST_2: IDS},
        test_size=0.3,
        validate_size=0.2,
        random_state=5,
    )
    outputs = outputs_of(results)
    parts = [rows_of(outputs[GUEST], i)["id"] for i in range(3)]
    assert [len(part) for part in parts] == [50, 20, 30]
    assert sorted(itertools.chain(*parts)) == sorted(IDS)
    for host in (HOST, HOST_2):
        assert [rows_of(outputs[host], i)["id"] for i in range(3)] == parts
    summary = {
        "data_split_count_info": {"train": 50, "validate": 20, "test": 30, "original": 100},
        "data_split_ratio_info": {"train": 0.5, "validate": 0.2, "test": 0.3},
        "stratified": False,
    }
    for site in (GUEST, HOST):
        assert outputs[site].summary == summary
        metric = results[site].metrics["train", "data_split"]
        assert metric.metric_type == "DATA_SPLIT"
        assert metric.points == [("data_split", 0)]
        assert metric.meta == summary


def test_the_draw_is_scikit_learns_over_the_sorted_ids(party: Party) -> None:
    outputs = homo(party, test_size=0.25, random_state=11)
    train, test = train_test_split(sorted(IDS), train_size=75, test_size=25, random_state=11)
    assert set(rows_of(outputs, 0)["id"]) == set(train)
    assert set(rows_of(outputs, 2)["id"]) == set(test)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [80, 20, 0]),
        ({"test_size": 0.3}, [70, 0, 30]),
        ({"train_size": 0.7}, [70, 0, 30]),
        ({"validate_size": 0.1}, [90, 10, 0]),
        ({"validate_size": 25, "test_size": 25}, [50, 25, 25]),
        ({"train_size": 60, "test_size": 10}, [60, 30, 10]),
        ({"train_size": 0.6, "validate_size": 0.3}, [60, 30, 10]),
        ({"train_size": 0.0, "test_size": 0.5}, [0, 50, 50]),
        ({"test_size": 0, "train_size": 0.5}, [50, 50, 0]),
        ({"test_size": 1.0}, [0, 0, 100]),
    ],
)
def test_what_is_not_given_is_inferred(
    party: Party, params: dict[str, Any], expected: list[int]
) -> None:
    assert sizes(homo(party, **params)) == expected


def test_a_part_without_rows_is_an_empty_table(party: Party) -> None:
    outputs = homo(party)
    assert schema_of(outputs, 2) == schema_of(outputs, 0)
    assert outputs.data[2] is not None
    assert outputs.data[2].count == 0


def test_strata_have_equal_shares(tmp_path: Path) -> None:
    results = run(tmp_path, stratified=True, test_size=0.4, validate_size=0.2)
    outputs = outputs_of(results)
    labels = [rows_of(outputs[GUEST], i)["y"] for i in range(3)]
    assert [(part.count(0), part.count(1)) for part in labels] == [(30, 10), (15, 5), (30, 10)]
    info = outputs[GUEST].summary["data_split_label_info"]
    assert info == {
        "original": {"0": 75, "1": 25},
        "train": {"0": 30, "1": 10},
        "validate": {"0": 15, "1": 5},
        "test": {"0": 30, "1": 10},
        "label_names": ["0", "1"],
        "continuous_label": False,
    }
    assert "data_split_label_info" not in outputs[HOST].summary
    assert outputs[HOST].summary["stratified"] is True


def test_ranges_of_numbers_are_strata(tmp_path: Path) -> None:
    """FATE's example: bounds belong to the range below them."""
    values = [[-0.5, 0.0, 0.1, 0.2, 3.0][i % 5] for i in range(100)]
    results = run(tmp_path, labels=values, stratified=True, test_size=0.3, split_points=[0.2, 0.0])
    outputs = outputs_of(results)
    assert outputs[GUEST].summary["data_split_label_info"] == {
        "original": {"0": 40, "1": 40, "2": 20},
        "train": {"0": 28, "1": 28, "2": 14},
        "validate": {"0": 0, "1": 0, "2": 0},
        "test": {"0": 12, "1": 12, "2": 6},
        "split_points": [0.0, 0.2],
        "continuous_label": True,
    }


def test_without_shuffling_the_parts_follow_the_sorted_ids(party: Party) -> None:
    outputs = homo(party, shuffle=False, test_size=0.1)
    ordered = sorted(IDS)
    assert set(rows_of(outputs, 2)["id"]) == set(ordered[90:])


def test_outputs_stand_in_the_order_that_the_dsl_declares(party: Party) -> None:
    names = ("test_data", "train_data")
    outputs = homo(party, output_names=names, test_size=0.3)
    assert [len(rows_of(outputs, i)["id"]) for i in range(2)] == [30, 70]
    unknown = homo(party, output_names=("a", "b", "c"), test_size=0.3)
    assert sizes(unknown) == [70, 0, 30]


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"train_size": 0.9, "test_size": 0.2}, "more than 1"),
        ({"train_size": 0.5, "validate_size": 0.2, "test_size": 0.2}, "not 1 in all"),
        ({"train_size": 90, "test_size": 20}, "not 100 in all"),
        ({"train_size": 50, "test_size": 0.5}, "cannot be mixed"),
        ({"test_size": 101}, "not 100 in all"),
        ({"test_size": 1.5}, "test_size"),
        ({"test_size": -1}, "test_size"),
        ({"stratified": True, "shuffle": False}, "shuffle"),
    ],
)
def test_impossible_sizes_are_refused(party: Party, params: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        homo(party, **params)


@pytest.mark.parametrize(
    ("labels", "params", "what"),
    [
        (None, {}, "has no label column"),
        ([1, None, 0, 0], {}, "1 of 4 rows have no label"),
        ([1, 0, 0, 0], {}, "1 of 2 classes have one row only"),
        ([1, 1, 0, 0], {"test_size": 1}, "a part of 1 rows cannot hold 2 classes"),
        (["a", "b", "a", "b"], {"split_points": [1.0]}, "not a number"),
    ],
)
def test_labels_that_cannot_be_stratified_are_refused(
    party: Party, labels: Any, params: dict[str, Any], what: str
) -> None:
    columns: dict[str, Any] = {"id": ["a", "b", "c", "d"]}
    table = party.table(columns if labels is None else {**columns, "y": labels})
    error = party.fails(HomoDataSplit, table, stratified=True, **{"test_size": 0.5, **params})
    assert isinstance(error, BadData)
    assert what in error.message


def test_parties_with_other_rows_are_refused(tmp_path: Path) -> None:
    results = run(tmp_path, {GUEST: IDS, HOST: IDS[1:]})
    assert isinstance(results[GUEST].error, BadData)
    assert isinstance(results[HOST].error, BadData)


@pytest.mark.parametrize("test", [[98], [98, 98], [97, 99], [0, 98, 99]])
def test_a_host_refuses_parts_that_do_not_hold_every_row_once(
    tmp_path: Path, test: list[int]
) -> None:
    federation = LocalFederation((GUEST, HOST), receive_timeout_s=60.0)
    given = inputs(tmp_path, {HOST: IDS})
    for name, rows in (("train", range(90)), ("validate", range(90, 98)), ("test", test)):
        federation.at(GUEST).send(f"id_{name}", np.array(list(rows), np.int64), to=HOST)
    guest = run_component(
        HeteroDataSplit,
        sites=[GUEST, HOST],
        only=[HOST],
        work_dir=tmp_path,
        inputs=given,
        federation=_agreeing(federation),
    )
    assert isinstance(guest[HOST].error, CodecError)


def _agreeing(federation: LocalFederation) -> LocalFederation:
    """Let the guest say that it has the host's rows."""
    own = {"rows": len(IDS), "digest": ids_digest(pa.chunked_array([pa.array(IDS)]))}
    federation.at(GUEST).send("sample_ids", own, to=HOST, tag="split")
    return federation


def test_nothing_to_do_and_nothing_to_split(party: Party) -> None:
    table = party.table({"id": IDS})
    assert party.run(HomoDataSplit, table, need_run=False) == Outputs(data=(table,), passed=True)
    assert "no rows to split" in party.fails(HomoDataSplit, None).message
    empty = party.table({"id": pa.array([], pa.string())})
    assert "no rows to split" in party.fails(HomoDataSplit, empty).message
    assert party.run(HomoDataSplit, empty, need_run=False).data == (empty,)
