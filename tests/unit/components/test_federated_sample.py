"""FederatedSample: sizes, strata, weights; all parties choose the same rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError, PeerFailed
from fedflow.components.sampling.federated_sample import FederatedSample
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Outputs
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.unit.components.one_party import GUEST, HOST, Party, rows_of

HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]
IDS = [f"u{i}" for i in range(100)]
LABELS = [int(i % 4 == 0) for i in range(100)]
PLAN = {"repeated": False}


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def inputs(ids: Mapping[Site, list[str]], folder: Path, **guest: Any) -> dict[Site, Inputs]:
    found = {}
    for site, names in ids.items():
        columns: dict[str, Any] = {"id": names}
        if site == GUEST:
            columns |= guest
        columns["x"] = [float(name[1:]) for name in names]
        table = Party(folder, site=site).table(columns)
        found[site] = Inputs(data={"data": [("intersection_0", table)]}, model={})
    return found


def run(
    folder: Path,
    ids: Mapping[Site, list[str]] | None = None,
    federation: LocalFederation | None = None,
    **params: Any,
) -> dict[Site, RunResult]:
    ids = ids or {GUEST: IDS, HOST: IDS}
    return run_component(
        FederatedSample,
        sites=list(ids),
        work_dir=folder,
        params=dict.fromkeys(ids, params),
        inputs=inputs(ids, folder, y=[LABELS[int(name[1:])] for name in ids[GUEST]]),
        federation=federation,
    )


def test_all_parties_take_the_same_random_rows(tmp_path: Path) -> None:
    results = run(tmp_path, {GUEST: IDS, HOST: IDS, HOST_2: IDS}, fractions=0.3)
    outputs = outputs_of(results)
    guest = rows_of(outputs[GUEST])
    assert len(guest["id"]) == len(set(guest["id"])) == 30
    assert guest["id"] == sorted(guest["id"], key=lambda name: int(name[1:]))
    assert guest["y"] == [LABELS[int(name[1:])] for name in guest["id"]]
    for host in (HOST, HOST_2):
        assert rows_of(outputs[host]) == {"id": guest["id"], "x": guest["x"]}
        assert outputs[host].summary == {"sample_count": 30}
    metric = results[GUEST].metrics["sample_count", "random"]
    assert (metric.metric_type, metric.points) == ("SAMPLE_TEXT", [("count", 30)])


@pytest.mark.parametrize(
    ("fractions", "count"), [(None, 10), (0.999, 99), (1, 100), (0.0, 1), (0.019, 1)]
)
def test_a_sample_has_the_size_asked_for(party: Party, fractions: float | None, count: int) -> None:
    table = party.table({"id": IDS, "x": range(100)})
    outputs = party.run(FederatedSample, table, fractions=fractions, task_type="homo")
    assert outputs.summary == {"sample_count": count}
    assert len(set(rows_of(outputs)["id"])) == count


def test_a_seed_makes_the_draw_repeatable(tmp_path: Path) -> None:
    first, again, other = (
        rows_of(outputs_of(run(tmp_path, fractions=0.2, random_state=seed))[HOST])["id"]
        for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other


def test_repeated_rows_get_new_ids_that_agree(tmp_path: Path) -> None:
    outputs = outputs_of(run(tmp_path, method="upsample", fractions=2.5, random_state=1))
    guest, host = rows_of(outputs[GUEST]), rows_of(outputs[HOST])
    assert guest["id"] == host["id"] == [str(i) for i in range(250)]
    assert guest["x"] == host["x"]
    assert len(set(guest["x"])) < 100


def test_strata_have_their_shares(tmp_path: Path) -> None:
    results = run(tmp_path, mode="stratified", fractions=[[0, 0.2], [1, 1.0], [2, 0.5]])
    outputs = outputs_of(results)
    labels = rows_of(outputs[GUEST])["y"]
    assert (labels.count(0), labels.count(1)) == (15, 25)
    assert rows_of(outputs[HOST])["id"] == rows_of(outputs[GUEST])["id"]
    assert outputs[GUEST].summary == {
        "sample_count": {"0": 15, "1": 25, "2": 0},
        "original_count": {"0": 75, "1": 25, "2": 0},
    }
    assert outputs[HOST].summary == {}
    metrics = results[GUEST].metrics
    assert metrics["sample_count", "stratified"].points == [(0, 15), (1, 25), (2, 0)]
    assert metrics["original_count", "stratified"].points == [(0, 75), (1, 25), (2, 0)]
    assert metrics["original_count", "stratified"].metric_type == "SAMPLE_TABLE"
    assert results[HOST].metrics == {}


def test_strata_can_grow(tmp_path: Path) -> None:
    fractions = [["0", 1.5], [1, 2.0]]
    outputs = outputs_of(run(tmp_path, mode="stratified", method="upsample", fractions=fractions))
    labels = rows_of(outputs[GUEST])["y"]
    assert (labels.count(0), labels.count(1)) == (112, 50)


def test_weights_say_how_often_a_row_is_taken(tmp_path: Path) -> None:
    ids = ["u0", "u1", "u2", "u3"]
    given = inputs({GUEST: ids, HOST: ids}, tmp_path, weight=[0.0, 1.0, 2.2, 0.5])
    results = run_component(
        FederatedSample,
        sites=[GUEST, HOST],
        work_dir=tmp_path,
        params={site: {"mode": "exact_by_weight"} for site in (GUEST, HOST)},
        inputs=given,
    )
    outputs = outputs_of(results)
    assert rows_of(outputs[HOST]) == {"id": [str(i) for i in range(5)], "x": [1, 2, 2, 2, 3]}
    metric = results[HOST].metrics["sample_count", "exact_by_weight"]
    assert (metric.metric_type, metric.points) == ("SAMPLE_TEXT", [("count", 5)])
    assert outputs[GUEST].summary == {"sample_count": 5}


def test_ids_that_differ_are_chosen_by_all_or_none(tmp_path: Path) -> None:
    """Sampled before the intersection, as in FATE's HeteroNN example."""
    guest, host = IDS[:80], list(reversed(IDS[20:]))
    outputs = outputs_of(run(tmp_path, {GUEST: guest, HOST: host}, fractions=0.5))
    of_guest, of_host = rows_of(outputs[GUEST])["id"], rows_of(outputs[HOST])["id"]
    assert len(of_guest) == 40
    common = set(IDS[20:80])
    assert set(of_guest) & common == set(of_host) & common
    assert 10 < len(of_host) < 70
    assert of_host == [name for name in host if name in set(of_host)]


@pytest.mark.parametrize(
    "params",
    [
        {"mode": "stratified", "fractions": [[0, 0.5], [1, 0.5]]},
        {"method": "upsample", "fractions": 2.0},
        {"mode": "exact_by_weight"},
    ],
)
def test_other_samples_need_the_same_rows(tmp_path: Path, params: dict[str, Any]) -> None:
    results = run(tmp_path, {GUEST: IDS, HOST: IDS[1:]}, **params)
    error = results[GUEST].error
    assert isinstance(error, BadData)
    assert "align them with Intersection first" in error.message
    assert isinstance(results[HOST].error, PeerFailed)


def test_labels_without_a_share_are_counted(tmp_path: Path) -> None:
    results = run(tmp_path, mode="stratified", fractions=[[0, 0.5]])
    error = results[GUEST].error
    assert isinstance(error, BadData)
    assert "25 of 100 rows have a label that fractions does not name" in error.message


def test_rows_of_negative_weight_are_left_out(
    party: Party, caplog: pytest.LogCaptureFixture
) -> None:
    table = party.table({"id": ["a", "b", "c"], "weight": [-2.0, 1.5, 1.0], "x": [1.0, 2.0, 3.0]})
    outputs = party.run(FederatedSample, table, mode="exact_by_weight")
    assert rows_of(outputs)["x"] == [2.0, 2.0, 3.0]
    assert "1 of 3 weights are negative" in caplog.text


@pytest.mark.parametrize(
    ("columns", "params", "what"),
    [
        ({"x": [1.0]}, {"mode": "stratified", "fractions": [[1, 0.5]]}, "has no label column"),
        ({"x": [1.0]}, {"mode": "exact_by_weight"}, "has no weights"),
        ({"weight": [-1.0]}, {"mode": "exact_by_weight"}, "none of 1 weights is above 0"),
        ({"weight": [0.0]}, {"mode": "exact_by_weight"}, "none of 1 weights is above 0"),
        ({"weight": [1e12]}, {"mode": "exact_by_weight"}, "is too large"),
        ({"x": [1.0]}, {"method": "upsample", "fractions": 1e12}, "is too large"),
        ({"weight": [math.nan]}, {"mode": "exact_by_weight"}, "1 missing or infinite"),
    ],
)
def test_unusable_data_are_refused(
    party: Party, columns: dict[str, Any], params: dict[str, Any], what: str
) -> None:
    table = party.table({"id": ["a"], **columns})
    error = party.fails(FederatedSample, table, **params)
    assert isinstance(error, BadData)
    assert what in error.message


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"fractions": 1.5}, "fractions"),
        ({"fractions": -0.1}, "fractions"),
        ({"fractions": [[0, 1]]}, "fractions"),
        ({"fractions": 0.0, "method": "upsample"}, "fractions"),
        ({"mode": "stratified"}, "fractions"),
        ({"mode": "stratified", "fractions": [[0, 1.5]]}, "fractions"),
        ({"mode": "stratified", "fractions": [[0, 0.5], ["0", 0.5]]}, "named twice"),
        ({"mode": "cluster"}, "mode"),
        ({"method": "sideways"}, "method"),
        ({"task_type": "both"}, "task_type"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_wrong_parameters_are_named(party: Party, params: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        party.run(FederatedSample, party.table({"id": ["a"]}), **params)


def test_parties_that_would_name_rows_differently_are_refused(tmp_path: Path) -> None:
    results = run_component(
        FederatedSample,
        sites=[GUEST, HOST],
        work_dir=tmp_path,
        params={GUEST: {"method": "upsample", "fractions": 1.5}},
        inputs=inputs({GUEST: IDS, HOST: IDS}, tmp_path),
    )
    error = results[HOST].error
    assert isinstance(error, BadParameter)
    assert "federatedsample_0.method: mode and method must be those of the guest" in error.message


@pytest.mark.parametrize(
    ("plan", "positions"),
    [
        ({**PLAN, "by": "position"}, np.array([0, 100])),
        ({**PLAN, "by": "position"}, np.array([-1, 2])),
        ({**PLAN, "by": "position"}, np.array([3, 3])),
        ({**PLAN, "by": "position"}, np.array([3, 2])),
        ({**PLAN, "by": "position"}, np.array([3.0])),
        ({**PLAN, "by": "position"}, np.array([[3]])),
        ({**PLAN, "by": "hash", "key": "k", "limit": "0" * 16}, None),
        ({**PLAN, "by": "hash", "key": "0" * 16, "limit": 5}, None),
        ({**PLAN, "by": "luck"}, None),
        ({"by": "position"}, np.array([3])),
        (["position"], None),
    ],
)
def test_a_host_refuses_what_no_guest_of_ours_sends(
    tmp_path: Path, plan: Any, positions: Any
) -> None:
    federation = LocalFederation((GUEST, HOST), receive_timeout_s=60.0)
    guest = federation.at(GUEST)
    guest.send("sample_plan", plan, to=HOST)
    if positions is not None:
        guest.send("sample_ids", positions, to=HOST)
    results = run_component(
        FederatedSample,
        sites=[GUEST, HOST],
        only=[HOST],
        work_dir=tmp_path,
        inputs=inputs({HOST: IDS}, tmp_path),
        federation=federation,
    )
    assert isinstance(results[HOST].error, CodecError)


def test_rows_are_found_over_many_blocks(party: Party) -> None:
    rows = 150_000
    table = party.table({"id": [str(i) for i in range(rows)], "x": range(rows)})
    outputs = party.run(FederatedSample, table, fractions=0.5, random_state=2)
    got = rows_of(outputs)
    assert got["id"] == [str(x) for x in got["x"]]
    assert got["x"] == sorted(got["x"])
    assert len(got["x"]) == 75_000


def test_nothing_to_do_and_nothing_to_draw_from(party: Party) -> None:
    table = party.table({"id": ["a"]})
    assert party.run(FederatedSample, table, need_run=False) == Outputs(data=(table,), passed=True)
    assert "no rows to choose from" in party.fails(FederatedSample, None).message
    empty = party.table({"id": np.array([], dtype=str)})
    assert party.run(FederatedSample, empty, need_run=False).data == (empty,)
