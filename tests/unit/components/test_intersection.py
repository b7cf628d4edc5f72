"""The component Intersection, all parties in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.components.intersection.intersection import Intersection
from fedflow.components.intersection.params import IntersectionParams
from fedflow.cores import forked as processes
from fedflow.sdk import (
    BadData,
    BadParameter,
    Inputs,
    NoCommonIds,
    PeerFailed,
    PlannedRun,
    TableKind,
    TableSchema,
    check_params,
)
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import outputs_of, run_component
from fedflow.testing.tables import local_store
from tests.unit.components.intersection_parties import (
    GUEST,
    HOST,
    HOST_2,
    errors_of,
    ids_out,
    intersect,
)


def pruning(**changed: Any) -> dict[str, Any]:
    """Return the parameters of a run with a Bloom filter."""
    return {
        "run_preprocess": True,
        "intersect_preprocess_params": {"false_positive_rate": 0.02, **changed},
    }


PRUNING = pruning()


def test_both_parties_keep_the_common_rows_in_the_guests_order(tmp_path: Path) -> None:
    results = intersect(
        {GUEST: ["9", "3", "7", "1"], HOST: ["1", "2", "3", "4", "9"]},
        tmp_path,
    )
    for site, at in ((GUEST, [0.0, 1.0, 3.0]), (HOST, [4.0, 2.0, 0.0])):
        table = outputs_of(results)[site].data[0]
        assert table is not None
        assert table.read().to_pydict() == {"id": ["9", "3", "1"], "at": at}
        assert table.schema.columns == ("at",)


def test_metric_and_summary_are_from_each_partys_own_view(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1", "2", "3", "4"], HOST: ["1", "2"]}, tmp_path)
    for site, own in ((GUEST, 4), (HOST, 2)):
        assert outputs_of(results)[site].summary == {
            "intersect_num": 2,
            "intersect_rate": 2 / own,
            "cardinality_only": False,
            "unique_id_num": own,
        }
        metric = results[site].metrics["train", "intersection"]
        assert metric.metric_type == "INTERSECTION"
        assert metric.points == [
            ("intersect_count", 2),
            ("input_match_id_count", own),
            ("intersect_rate", 2 / own),
            ("unmatched_count", own - 2),
            ("unmatched_rate", (own - 2) / own),
        ]
        assert metric.meta["intersect_method"] == "ecdh"
        assert metric.meta["join_method"] == "inner_join"
        assert results[site].progress[-1] == 1.0
        assert list(results[site].progress) == sorted(results[site].progress)


def test_several_hosts_all_get_what_everyone_has(tmp_path: Path) -> None:
    results = intersect(
        {
            GUEST: ["5", "4", "3", "2", "1"],
            HOST: ["1", "2", "3", "9"],
            HOST_2: ["2", "7", "5", "3"],
        },
        tmp_path,
    )
    for site in (GUEST, HOST, HOST_2):
        assert ids_out(results, site) == ["3", "2"]


@settings(max_examples=15, deadline=None)
@given(
    guest=st.lists(st.text(max_size=3), min_size=1, max_size=12, unique=True),
    host=st.lists(st.text(max_size=3), min_size=1, max_size=12, unique=True),
)
def test_any_two_id_lists_give_their_set_intersection(
    guest: list[str], host: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    results = intersect({GUEST: guest, HOST: host}, tmp_path_factory.mktemp("psi"))
    expected = [i for i in guest if i in set(host)]
    if expected:
        assert ids_out(results, GUEST) == ids_out(results, HOST) == expected
    else:
        assert all(isinstance(r.error, NoCommonIds) for r in results.values())


def test_ids_compare_as_strings(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1", "01", "1.0"], HOST: [" 1", "01", "1e0"]}, tmp_path)
    assert ids_out(results, GUEST) == ["01"]


def test_many_ids_in_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FORK_FROM", 1_000)
    guest = [f"u{i}" for i in range(0, 18_000, 2)]
    host = [f"u{i}" for i in reversed(range(0, 18_000, 3))]
    results = intersect({GUEST: guest, HOST: host}, tmp_path, cores=2)
    expected = [f"u{i}" for i in range(0, 18_000, 6)]
    assert ids_out(results, GUEST) == ids_out(results, HOST) == expected


def test_tables_on_disk_of_many_batches(tmp_path: Path) -> None:
    schema = TableSchema(kind=TableKind.RAW, id="id", columns=("x0",))
    numbers = {GUEST: range(0, 15_000, 10), HOST: range(14_990, -1, -10), HOST_2: range(0, 9_000)}
    stores = {site: local_store(tmp_path / site.key) for site in numbers}
    inputs = {}
    for site, own in numbers.items():
        ids = pa.array([str(i) for i in own])
        with stores[site].create(schema, namespace="test", name="own") as writer:
            for batch in pa.table({"id": ids, "x0": ids}).to_batches(max_chunksize=1_000):
                writer.write(batch)
        inputs[site] = Inputs(data={"data": [("reader_0", writer.close())]}, model={})
    results = run_component(
        Intersection, sites=tuple(numbers), inputs=inputs, tables=stores, work_dir=tmp_path
    )
    expected = [str(i) for i in range(0, 9_000, 10)]
    for site in numbers:
        table = outputs_of(results)[site].data[0]
        assert table is not None
        assert table.schema == schema
        assert table.read().to_pydict() == {"id": expected, "x0": expected}


def test_no_common_ids_is_an_error_at_every_party(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1"], HOST: ["2"], HOST_2: ["1"]}, tmp_path)
    assert all(isinstance(r.error, NoCommonIds) for r in results.values())


def test_only_output_key_leaves_just_the_ids(tmp_path: Path) -> None:
    results = intersect(
        {GUEST: ["1", "2"], HOST: ["2"]}, tmp_path, params={"only_output_key": True}
    )
    for site in (GUEST, HOST):
        table = outputs_of(results)[site].data[0]
        assert table is not None
        assert table.read().to_pydict() == {"id": ["2"]}


def test_a_host_is_not_told_when_ids_are_not_synced(tmp_path: Path) -> None:
    fed = LocalFederation((GUEST, HOST))
    results = intersect(
        {GUEST: ["1", "2"], HOST: ["2"]},
        tmp_path,
        params={"sync_intersect_ids": False},
        federation=fed,
    )
    assert ids_out(results, GUEST) == ["2"]
    host = outputs_of(results)[HOST]
    assert (host.data, dict(host.summary)) == ((), {})
    assert results[HOST].metrics == {}
    assert fed.unread() == []


def test_repeated_ids_are_refused_with_their_number(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1", "2", "1", "1"], HOST: ["1"]}, tmp_path)
    assert isinstance(results[GUEST].error, BadData)
    assert "2 of 4 ids repeat" in str(results[GUEST].error)
    assert isinstance(results[HOST].error, PeerFailed)


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1"], HOST: []}, tmp_path)
    assert isinstance(results[HOST].error, BadData)
    assert isinstance(results[GUEST].error, PeerFailed)


def test_a_missing_id_is_refused(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1", None], HOST: ["1"]}, tmp_path)  # type: ignore[list-item]
    assert "1 rows have no id" in str(results[GUEST].error)


def test_a_missing_table_or_host_is_refused(tmp_path: Path) -> None:
    results = run_component(Intersection, sites=(GUEST, HOST), work_dir=tmp_path)
    assert {type(r.error) for r in results.values()} <= {BadData, PeerFailed}
    alone = intersect({GUEST: ["1"]}, tmp_path)
    assert isinstance(alone[GUEST].error, BadParameter)


def test_raw_runs_ecdh_and_warns(tmp_path: Path) -> None:
    params = {"intersect_method": "raw", "join_role": "guest"}
    results = intersect({GUEST: ["1"], HOST: ["1"]}, tmp_path, params=params)
    assert ids_out(results, HOST) == ["1"]
    (doubt,) = check_params(IntersectionParams, params, path="$").doubts()
    assert (doubt.field, doubt.code) == ("intersect_method", "Replaced")
    assert "ECDH is run" in doubt.message


@pytest.mark.parametrize(
    "params",
    [
        {"intersect_method": "psi"},
        {"random_bit": 64, "rsa_params": {"random_bit": 64}},
        {"join_method": "left_join", "sync_intersect_ids": False},
        {"cardinality_only": True, "run_cache": True},
        {"run_cache": True, "rsa_params": {"split_calculation": True}},
        {"run_preprocess": True},
        {"join_method": "left_join", "sample_id_generator": "host"},
        {
            "cardinality_only": True,
            "cardinality_method": "rsa",
            "rsa_params": {"split_calculation": True},
        },
        {"dh_params": {"key_length": 8193}},
        {"ecdh_params": {"curve": "p256"}},
        {"rsa_params": {"key_length": 512}},
        {"sync_intersect_ids": "yes"},
        {"no_such": 1},
    ],
)
def test_parameters_that_do_not_fit_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(BadParameter):
        check_params(IntersectionParams, params, path="$")


@pytest.mark.parametrize(
    ("params", "plan", "word"),
    [
        ({}, {"sites": (GUEST,)}, "there is no host"),
        ({}, {"sites": (HOST, HOST_2)}, "exactly one guest"),
        (
            {"cardinality_only": True, "cardinality_method": "rsa"},
            {"sites": (GUEST, HOST, HOST_2)},
            "cardinality_method: rsa takes one host",
        ),
        ({"run_cache": True}, {"has_cache": True}, "run_cache: a cache is an input"),
        ({"cardinality_only": True}, {"has_cache": True}, "cardinality_only: a cache"),
        (PRUNING, {"has_cache": True}, "run_preprocess: a cache is an input"),
        (
            {"intersect_method": "rsa", "rsa_params": {"split_calculation": True}},
            {"has_cache": True},
            "rsa_params.split_calculation: a cache is an input",
        ),
    ],
)
def test_runs_that_cannot_be_are_refused_before_they_start(
    params: dict[str, Any], plan: dict[str, Any], word: str
) -> None:
    run = PlannedRun(**{"site": HOST, "sites": (GUEST, HOST), **plan})
    with pytest.raises(BadParameter, match=word):
        check_params(IntersectionParams, params, path="$", run=run)


def test_the_parameters_of_official_confs_are_accepted() -> None:
    params = {
        "intersect_method": "ecdh",
        "sync_intersect_ids": True,
        "only_output_key": False,
        "random_bit": 128,
        "rsa_params": {"hash_method": "sha256", "final_hash_method": "md5", "key_length": 1024},
        "dh_params": {"salt": "12345", "key_length": 1024},
        "ecdh_params": {"salt": "12345", "hash_method": "sha256"},
        "with_encode": False,
        "repeated_id_process": False,
        "allow_info_share": False,
        "intersect_cache_param": {"id_type": "phone"},
        "raw_params": {"use_hash": True},
    }
    assert check_params(IntersectionParams, params, path="$").method == "ecdh"


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [
        ("sync_intersect_ids", {}, {"sync_intersect_ids": False}),
        ("ecdh_params.salt", {"ecdh_params": {"salt": "a"}}, {"ecdh_params": {"salt": "b"}}),
        ("intersect_method", {}, {"intersect_method": "dh"}),
        ("ecdh_params.hash_method", {}, {"ecdh_params": {"hash_method": "sha512"}}),
        (
            "dh_params.key_length",
            {"intersect_method": "dh"},
            {"intersect_method": "dh", "dh_params": {"key_length": 1024}},
        ),
        (
            "dh_params.salt",
            {"intersect_method": "dh"},
            {"intersect_method": "dh", "dh_params": {"salt": "b"}},
        ),
        (
            "rsa_params.final_hash_method",
            {"intersect_method": "rsa"},
            {"intersect_method": "rsa", "rsa_params": {"final_hash_method": "md5"}},
        ),
        (
            "rsa_params.split_calculation",
            {"intersect_method": "rsa"},
            {"intersect_method": "rsa", "rsa_params": {"split_calculation": True}},
        ),
        ("cardinality_only", {}, {"cardinality_only": True}),
        (
            "sync_cardinality",
            {"cardinality_only": True},
            {"cardinality_only": True, "sync_cardinality": True},
        ),
        ("join_method", {}, {"join_method": "left_join"}),
        (
            "new_sample_id",
            {"join_method": "left_join"},
            {"join_method": "left_join", "new_sample_id": True},
        ),
        ("run_preprocess", {}, PRUNING),
        ("filter_owner", PRUNING, pruning(filter_owner="host")),
        ("false_positive_rate", PRUNING, pruning(false_positive_rate=0.5)),
        ("preprocess_salt", PRUNING, pruning(preprocess_salt="b")),
        ("random_state", PRUNING, pruning(random_state=1)),
    ],
)
def test_settings_that_differ_between_parties_are_named_before_any_work(
    key: str, one: Any, other: Any, tmp_path: Path
) -> None:
    fed = LocalFederation((GUEST, HOST))
    results = intersect(
        {GUEST: ["1"], HOST: ["1"]}, tmp_path, params={GUEST: one, HOST: other}, federation=fed
    )
    errors = errors_of(results)
    assert errors
    assert all(isinstance(e, BadParameter) and key in str(e) for e in errors)
    assert fed.sent_bytes < 3_000


def test_need_run_false_passes_the_input_on(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1"], HOST: ["2"]}, tmp_path, params={"need_run": False})
    assert ids_out(results, GUEST) == ["1"]
    assert all(r.outputs is not None and r.outputs.passed for r in results.values())


KEYS = {"key_length": 2048}
HASHES = {"hash_method": "sha256", "final_hash_method": "sha256"}
CURVE = {"hash_method": "sha256", "curve": "curve25519"}


@pytest.mark.parametrize(
    "params",
    [
        {
            "intersect_method": "rsa",
            "sync_intersect_ids": False,
            "only_output_key": True,
            "rsa_params": {**HASHES, "split_calculation": True, "random_base_fraction": 0.5},
        },
        {
            "intersect_method": "raw",
            "join_role": "host",
            "with_encode": True,
            "encode_params": {"encode_method": "sm3", "salt": "12345", "base64": False},
            "only_output_key": True,
        },
        {
            "intersect_method": "ecdh",
            "only_output_key": True,
            "ecdh_params": {**CURVE, "salt": "12345"},
            "run_preprocess": True,
            "intersect_preprocess_params": {
                "preprocess_method": "sha256",
                "false_positive_rate": 0.2,
            },
        },
        {
            "cardinality_only": True,
            "cardinality_method": "rsa",
            "sync_cardinality": False,
            "rsa_params": {**HASHES, **KEYS, "split_calculation": False},
            "intersect_preprocess_params": {
                "false_positive_rate": 1e-4,
                "encrypt_method": "rsa",
                "hash_method": "sha256",
            },
        },
        {"cardinality_only": True, "cardinality_method": "ecdh", "ecdh_params": CURVE},
        {
            "intersect_method": "rsa",
            "only_output_key": True,
            "repeated_id_process": True,
            "repeated_id_owner": "guest",
        },
    ],
)
def test_what_fates_example_jobs_ask_for_runs(params: dict[str, Any], tmp_path: Path) -> None:
    results = intersect({GUEST: ["1", "2", "3"], HOST: ["3", "1"]}, tmp_path, params=params)
    found = outputs_of(results)[GUEST]
    assert found.summary["intersect_num"] == 2
    if not params.get("cardinality_only"):
        assert ids_out(results, GUEST) == ["1", "3"]
