"""The component Intersection, all parties in one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.errors import CodecError
from fedflow.base.ids import PartyId
from fedflow.components.psi import workers
from fedflow.components.psi.ecdh import Blinder
from fedflow.components.psi.intersection import Intersection
from fedflow.components.psi.params import IntersectionParams
from fedflow.sdk import (
    BadData,
    BadParameter,
    ComponentFailed,
    FedflowError,
    Inputs,
    NoCommonIds,
    NotSupportedYet,
    PeerFailed,
    Role,
    Site,
    TableKind,
    TableSchema,
    check_params,
)
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component
from fedflow.testing.tables import local_store

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
HOST_2 = Site(Role.HOST, PartyId("10001"))


def intersect(
    ids: Mapping[Site, list[str]],
    work_dir: Path,
    *,
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[Site, RunResult]:
    """Run Intersection over tables with these ids and a column `at` with the row number."""
    inputs = {}
    for site, own in ids.items():
        store = MemoryTableStore()
        columns = {"id": pa.array(own, pa.string()), "at": np.arange(len(own), dtype=float)}
        inputs[site] = Inputs(data={"data": [("reader_0", store.add(columns))]}, model={})
    return run_component(
        Intersection,
        sites=tuple(ids),
        params=dict.fromkeys(ids, params or {}),
        inputs=inputs,
        work_dir=work_dir,
        **options,
    )


def ids_out(results: Mapping[Site, RunResult], site: Site) -> list[str]:
    table = outputs_of(results)[site].data[0]
    assert table is not None
    return table.read().column("id").to_pylist()  # type: ignore[no-any-return]


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
    monkeypatch.setattr(workers, "FORK_FROM", 1_000)
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
    assert isinstance(alone[GUEST].error, ComponentFailed)


def test_tables_with_match_ids_are_not_taken_for_others(tmp_path: Path) -> None:
    schema = TableSchema(kind=TableKind.INSTANCES, id="sid", match_id="id", columns=())
    table = MemoryTableStore().add({"sid": ["1"], "id": ["a"]}, schema=schema)
    inputs = Inputs(data={"data": [("reader_0", table)]}, model={})
    results = run_component(
        Intersection, sites=(GUEST, HOST), inputs={GUEST: inputs, HOST: inputs}, work_dir=tmp_path
    )
    assert any(isinstance(r.error, NotSupportedYet) for r in results.values())


@pytest.mark.parametrize(
    "params",
    [
        {"intersect_method": "rsa"},
        {"intersect_method": "DH"},
        {"cardinality_only": True},
        {"join_method": "left_join"},
        {"new_sample_id": True},
        {"with_sample_id": True},
        {"run_preprocess": True, "intersect_preprocess_params": {"false_positive_rate": 0.02}},
        {"ecdh_params": {"hash_method": "sm3"}},
    ],
)
def test_what_is_not_supported_is_said_before_anything_is_sent(
    params: dict[str, Any], tmp_path: Path
) -> None:
    fed = LocalFederation((GUEST, HOST))
    results = intersect({GUEST: ["1"], HOST: ["1"]}, tmp_path, params=params, federation=fed)
    assert all(isinstance(r.error, NotSupportedYet) for r in results.values())
    assert fed.sent_bytes == 0


def test_raw_runs_ecdh_and_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    results = intersect(
        {GUEST: ["1"], HOST: ["1"]},
        tmp_path,
        params={"intersect_method": "raw", "join_role": "guest"},
    )
    assert ids_out(results, HOST) == ["1"]
    assert "ECDH is used instead" in caplog.text
    assert "join_role is deprecated" in caplog.text


@pytest.mark.parametrize(
    "params",
    [
        {"intersect_method": "psi"},
        {"random_bit": 64, "rsa_params": {"random_bit": 64}},
        {"join_method": "left_join", "sync_intersect_ids": False},
        {"cardinality_only": True, "run_cache": True},
        {"run_cache": True, "rsa_params": {"split_calculation": True}},
        {"run_preprocess": True},
        {"ecdh_params": {"curve": "p256"}},
        {"rsa_params": {"key_length": 512}},
        {"sync_intersect_ids": "yes"},
        {"no_such": 1},
    ],
)
def test_parameters_that_do_not_fit_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(BadParameter):
        check_params(IntersectionParams, params, path="$")


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
        ("sync_intersect_ids", True, False),
        ("ecdh_params", {"salt": "a"}, {"salt": "b"}),
    ],
)
def test_settings_that_differ_between_parties_are_named(
    key: str, one: Any, other: Any, tmp_path: Path
) -> None:
    table = MemoryTableStore().add({"id": ["1"]})
    inputs = Inputs(data={"data": [("reader_0", table)]}, model={})
    results = run_component(
        Intersection,
        sites=(GUEST, HOST),
        params={GUEST: {key: one}, HOST: {key: other}},
        inputs={GUEST: inputs, HOST: inputs},
        work_dir=tmp_path,
    )
    errors = [r.error for r in results.values() if not isinstance(r.error, PeerFailed)]
    assert errors
    assert all(isinstance(e, BadParameter) and key in str(e) for e in errors)


def test_need_run_false_passes_the_input_on(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1"], HOST: ["2"]}, tmp_path, params={"need_run": False})
    assert ids_out(results, GUEST) == ["1"]
    assert all(r.outputs is not None and r.outputs.passed for r in results.values())


class _WickedHost:
    """Speaks the host's part up to a point and then lies."""

    def __init__(self, fed: LocalFederation, lies: Mapping[str, Any]) -> None:
        self._at = fed.at(HOST)
        self._lies = lies

    def play(self, hello: Mapping[str, Any]) -> None:
        honest = Blinder().blind_ids(pa.array(["1", "2"]), b"d").tobytes()
        replies = {
            "psi_hello": dict(hello) | {"rows": 2},
            "id_ciphertext_exchange_h2g": honest,
            "doubly_encrypted_id": honest,
        }
        for name, value in (replies | dict(self._lies)).items():
            self._at.send(name, value, to=GUEST)


@pytest.mark.parametrize(
    "lies",
    [
        {"psi_hello": {"rows": 2}},
        {"psi_hello": "hello"},
        {"psi_hello": {"protocol": "x", "rows": -1, "sync_intersect_ids": True, "domain": ""}},
        {"psi_hello": {"protocol": "x", "rows": 1, "sync_intersect_ids": True, "domain": ""}},
        {"id_ciphertext_exchange_h2g": b"\0" * 64},
        {"id_ciphertext_exchange_h2g": b"\x09" + b"\0" * 31},
        {"id_ciphertext_exchange_h2g": (b"\x09" + b"\0" * 31) * 2},
        {"id_ciphertext_exchange_h2g": b"\xff" * 64},
        {"id_ciphertext_exchange_h2g": {"points": 1}},
        {"doubly_encrypted_id": b"short"},
        {"doubly_encrypted_id": (b"\x09" + b"\0" * 31) * 2},
    ],
)
def test_a_wicked_host_is_refused(lies: Mapping[str, Any], tmp_path: Path) -> None:
    table = MemoryTableStore().add({"id": ["1", "2"]})
    probe = _hello_of_guest(tmp_path)
    fed = LocalFederation((GUEST, HOST))
    _WickedHost(fed, lies).play(probe)
    error = _guest_alone(fed, table, tmp_path)
    assert isinstance(error, CodecError)


@pytest.mark.parametrize(
    "positions",
    [
        np.array([0, 0]),
        np.array([2]),
        np.array([-1]),
        np.array([0.0]),
        np.array([[0]]),
        np.array([0, 1, 2]),
        [0],
        b"",
    ],
)
def test_a_host_refuses_wicked_positions(positions: Any, tmp_path: Path) -> None:
    probe = _hello_of_guest(tmp_path)
    fed = LocalFederation((GUEST, HOST))
    guest = fed.at(GUEST)
    honest = Blinder().blind_ids(pa.array(["1", "2"]), b"d").tobytes()
    guest.send("psi_hello", probe, to=HOST)
    guest.send("id_ciphertext_exchange_g2h", honest, to=HOST)
    guest.send("intersect_ids", positions, to=HOST)
    table = MemoryTableStore().add({"id": ["1", "2"]})
    error = _one_site(HOST, fed, table, tmp_path)
    assert isinstance(error, CodecError)


def _hello_of_guest(tmp_path: Path) -> dict[str, Any]:
    """Return what an honest guest with two rows says first."""
    fed = LocalFederation((GUEST, HOST))
    fed.finish(HOST)
    _guest_alone(fed, MemoryTableStore().add({"id": ["1", "2"]}), tmp_path)
    return fed.at(HOST).recv("psi_hello", from_=GUEST)  # type: ignore[no-any-return]


def _guest_alone(fed: LocalFederation, table: Any, tmp_path: Path) -> FedflowError:
    return _one_site(GUEST, fed, table, tmp_path)


def _one_site(site: Site, fed: LocalFederation, table: Any, tmp_path: Path) -> FedflowError:
    """Run the component at one site only; the test plays the other."""
    inputs = Inputs(data={"data": [("reader_0", table)]}, model={})
    results = run_component(
        Intersection,
        sites=(GUEST, HOST),
        only=(site,),
        inputs={site: inputs},
        work_dir=tmp_path,
        federation=fed,
    )
    error = results[site].error
    assert isinstance(error, FedflowError)
    return error
