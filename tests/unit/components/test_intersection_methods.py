"""Intersection with every method: the same rows as the plain intersection of sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.components.intersection.hashing import is_available
from fedflow.components.intersection.params import IntersectionParams
from fedflow.components.waiting import PATIENCE_S
from fedflow.cores import forked as processes
from fedflow.sdk import BadParameter, NoCommonIds, Site, TableKind, TableSchema, check_params
from fedflow.testing.federation import LocalFederation, SiteFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of
from fedflow.testing.tables import local_store
from fedflow.testing.workers import PicklingWorkers
from tests.unit.components.intersection_parties import (
    GUEST,
    HOST,
    HOST_2,
    ids_out,
    intersect,
    intersect_tables,
    table_out,
)

RSA: dict[str, Any] = {"intersect_method": "rsa", "rsa_params": {"key_length": 1024}}
SPLIT: dict[str, Any] = {
    "intersect_method": "rsa",
    "rsa_params": {"key_length": 1024, "split_calculation": True, "random_base_fraction": 0.5},
}
METHODS: dict[str, dict[str, Any]] = {
    "ecdh": {"intersect_method": "ECDH"},
    "dh": {"intersect_method": "dh", "dh_params": {"key_length": 1024, "salt": "12345"}},
    "dh none": {
        "intersect_method": "DH",
        "dh_params": {"key_length": 1024, "hash_method": "NONE"},
    },
    "rsa": RSA,
    "rsa split": SPLIT,
    "rsa md5": {
        "intersect_method": "rsa",
        "random_bit": 128,
        "rsa_params": {"key_length": 1024, "final_hash_method": "md5", "hash_method": "sha512"},
    },
    "raw": {"intersect_method": "raw"},
}
COUNTED = {"cardinality_only": True, "sync_cardinality": True}
RNG = np.random.default_rng(7)
IDS = {
    site: [f"u{i}" for i in RNG.choice(60, size=size, replace=False)]
    for site, size in ((GUEST, 40), (HOST, 35), (HOST_2, 45))
}


def pruned(owner: str, method: dict[str, Any]) -> dict[str, Any]:
    return {
        **method,
        "run_preprocess": True,
        "intersect_preprocess_params": {"false_positive_rate": 0.2, "filter_owner": owner},
    }


def common(*sites: Site) -> list[str]:
    return [i for i in IDS[GUEST] if all(i in IDS[site] for site in sites)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sites", [(GUEST, HOST), (GUEST, HOST, HOST_2)])
def test_every_method_finds_what_all_parties_have(
    sites: tuple[Site, ...], method: str, tmp_path: Path
) -> None:
    fed = LocalFederation(sites)
    ids = {site: IDS[site] for site in sites}
    results = intersect(ids, tmp_path, params=METHODS[method], federation=fed)
    for site in sites:
        assert table_out(results, site) == {
            "id": common(*sites),
            "at": [float(IDS[site].index(i)) for i in common(*sites)],
        }
        assert results[site].progress[-1] == 1.0
        assert list(results[site].progress) == sorted(results[site].progress)
    assert fed.unread() == []


@pytest.mark.parametrize("method", ["ecdh", "dh", "rsa", "rsa split"])
@pytest.mark.parametrize("owner", ["guest", "host"])
@pytest.mark.parametrize("sites", [(GUEST, HOST), (GUEST, HOST, HOST_2)])
def test_a_bloom_filter_before_changes_no_result(
    sites: tuple[Site, ...], owner: str, method: str, tmp_path: Path
) -> None:
    fed = LocalFederation(sites)
    ids = {site: IDS[site] for site in sites}
    params = pruned(owner, METHODS[method])
    results = intersect(ids, tmp_path, params=params, federation=fed)
    for site in sites:
        assert ids_out(results, site) == common(*sites)
        assert outputs_of(results)[site].summary["unique_id_num"] == len(IDS[site])
    assert fed.unread() == []


@pytest.mark.parametrize("owner", ["guest", "host"])
def test_pruned_ids_are_not_blinded(
    owner: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = {GUEST: [f"g{i}" for i in range(500)], HOST: [f"h{i}" for i in range(500)]}
    for own in ids.values():
        own[3] = "both"
    few, many = LocalFederation((GUEST, HOST)), LocalFederation((GUEST, HOST))
    results = intersect(ids, tmp_path / "few", params=pruned(owner, {}), federation=few)
    assert ids_out(results, GUEST) == ids_out(results, HOST) == ["both"]
    assert "test guessed ids" in caplog.text
    intersect(ids, tmp_path / "many", federation=many)
    assert few.sent_bytes < 0.8 * many.sent_bytes


@pytest.mark.parametrize("method", ["ecdh", "dh", "rsa", "rsa split"])
@pytest.mark.parametrize("owner", ["guest", "host", None])
def test_nothing_in_common_is_told_at_every_party(
    owner: str | None, method: str, tmp_path: Path
) -> None:
    params = pruned(owner, METHODS[method]) if owner else METHODS[method]
    ids = {GUEST: ["1", "2"], HOST: ["3"], HOST_2: ["2", "1"]}
    results = intersect(ids, tmp_path, params=params)
    assert [type(r.error) for r in results.values()] == [NoCommonIds] * 3


@pytest.mark.parametrize("method", [RSA, SPLIT, {"intersect_method": "dh"}])
def test_hosts_have_no_output_where_ids_are_not_synced(
    method: dict[str, Any], tmp_path: Path
) -> None:
    params = {**method, "sync_intersect_ids": False, "only_output_key": True}
    results = intersect({GUEST: IDS[GUEST], HOST: IDS[HOST]}, tmp_path, params=params)
    assert table_out(results, GUEST) == {"id": common(HOST)}
    assert outputs_of(results)[HOST].data == ()


@pytest.mark.parametrize("method", ["dh", "rsa", "rsa split"])
def test_several_processes_find_the_same(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "FORK_FROM", 50)
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    results = intersect(ids, tmp_path, params=METHODS[method], cores=2)
    assert ids_out(results, HOST) == common(HOST)


@pytest.mark.parametrize("method", METHODS)
def test_workers_that_are_far_away_find_the_same(method: str, tmp_path: Path) -> None:
    far = PicklingWorkers()
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    workers = {GUEST: far, HOST: PicklingWorkers(block_rows=1)}
    results = intersect(ids, tmp_path, params=METHODS[method], workers=workers)
    assert ids_out(results, HOST) == common(HOST)
    assert max(call.pickled_bytes for call in far.calls) < 4_096


@pytest.mark.skipif(not is_available("sm3"), reason="OpenSSL without sm3")
@pytest.mark.parametrize("method", ["ecdh", "dh", "rsa"])
def test_sm3_is_used_where_there_is_one(method: str, tmp_path: Path) -> None:
    own = METHODS[method].get(f"{method}_params", {})
    params = {**METHODS[method], f"{method}_params": {**own, "hash_method": "sm3"}}
    results = intersect({GUEST: ["1", "2"], HOST: ["2"]}, tmp_path, params=params)
    assert ids_out(results, GUEST) == ["2"]


def test_a_hash_that_openssl_lacks_is_refused_before_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "fedflow.components.intersection.params.is_available", lambda name: name != "sm3"
    )
    for path in ("dh_params.hash_method", "rsa_params.final_hash_method"):
        section, name = path.split(".")
        params = {"intersect_method": section.removesuffix("_params"), section: {name: "sm3"}}
        with pytest.raises(BadParameter, match=f"{path}: OpenSSL"):
            check_params(IntersectionParams, params, path="$")
        check_params(IntersectionParams, {section: {name: "sm3"}}, path="$")


def test_short_rsa_keys_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    intersect({GUEST: ["1"], HOST: ["1"]}, tmp_path, params=RSA)
    assert "an RSA key of 1024 bits" in caplog.text


def test_options_without_effect_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    params = {**SPLIT, "with_sample_id": True, "with_encode": False, "new_sample_id": True}
    doubts = check_params(IntersectionParams, params, path="$").doubts()
    assert [one.field for one in doubts] == ["with_sample_id", "rsa_params.random_base_fraction"]
    intersect({GUEST: ["1"], HOST: ["1"]}, tmp_path, params=params)
    assert "intersection_0.new_sample_id: there are no match ids" in caplog.text


def left_tables() -> dict[Site, Any]:
    """Return a guest and a host with a column of each kind."""
    schema = TableSchema(
        kind=TableKind.INSTANCES,
        id="id",
        label="y",
        weight="w",
        columns=("x", "n", "t"),
        anonymous=("host_10000_x0", "host_10000_x1", "host_10000_x2"),
    )
    host = {
        "id": ["c", "a", "q"],
        "y": [1, 0, 1],
        "w": [2.0, 3.0, 4.0],
        "x": [1.5, None, 0.5],
        "n": [5, 6, 7],
        "t": ["u", "v", "w"],
    }
    return {
        GUEST: MemoryTableStore().add({"id": ["a", "b", "c"], "x0": [1.0, 2.0, 3.0]}),
        HOST: MemoryTableStore().add(host, schema=schema),
        HOST_2: MemoryTableStore().add({"id": ["b", "c"], "x0": [1.0, 2.0]}),
    }


@pytest.mark.parametrize("method", ["ecdh", "rsa", "rsa split"])
def test_a_left_join_keeps_the_guests_rows_and_gives_hosts_zeros(
    method: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    params = {**METHODS[method], "join_method": "left_join"}
    fed = LocalFederation((GUEST, HOST, HOST_2))
    results = intersect_tables(left_tables(), tmp_path, params=params, federation=fed)
    assert table_out(results, GUEST) == {"id": ["a", "b", "c"], "x0": [1.0, 2.0, 3.0]}
    assert table_out(results, HOST) == {
        "id": ["a", "b", "c"],
        "y": [0, None, 1],
        "w": [3.0, 0.0, 2.0],
        "x": [None, 0.0, 1.5],
        "n": [6, 0, 5],
        "t": ["v", "0", "u"],
    }
    assert table_out(results, HOST_2) == {"id": ["a", "b", "c"], "x0": [0.0, 1.0, 2.0]}
    found = outputs_of(results)
    assert [found[s].summary["intersect_num"] for s in (GUEST, HOST, HOST_2)] == [1, 2, 2]
    kept = found[HOST].data[0]
    assert kept is not None
    assert kept.schema.anonymous == ("host_10000_x0", "host_10000_x1", "host_10000_x2")
    assert results[GUEST].metrics["train", "intersection"].meta["join_method"] == "left_join"
    assert "tells all hosts the sample ids" in caplog.text
    assert fed.unread() == []


def test_a_left_join_keeps_the_types_of_columns_on_disk(tmp_path: Path) -> None:
    given = left_tables()
    stores = {site: local_store(tmp_path / site.key) for site in given}
    params = {"join_method": "left_join"}
    results = intersect_tables(given, tmp_path, params=params, tables=stores)
    found = outputs_of(results)[HOST].data[0]
    assert found is not None
    kept = found.read().schema
    source = given[HOST].read().schema
    assert {f.name: f.type for f in kept} == {f.name: f.type for f in source}


def test_a_left_join_with_new_ids_tells_no_host_the_guests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    params = {"join_method": "left_join", "new_sample_id": True, "only_output_key": True}
    fed = LocalFederation((GUEST, HOST, HOST_2))
    results = intersect_tables(left_tables(), tmp_path, params=params, federation=fed)
    made = ids_out(results, GUEST)
    assert len(set(made)) == 3
    assert not set(made) & {"a", "b", "c"}
    assert ids_out(results, HOST) == ids_out(results, HOST_2) == made
    assert "tells all hosts" not in caplog.text
    again = intersect_tables(left_tables(), tmp_path / "2", params=params, job_id="2")
    assert not set(ids_out(again, GUEST)) & set(made)


def test_a_left_join_of_hosts_that_share_no_id_tells_them_so(tmp_path: Path) -> None:
    ids = {GUEST: ["1", "2"], HOST: ["1"], HOST_2: ["2"]}
    fed = LocalFederation(tuple(ids))
    results = intersect(ids, tmp_path, params={"join_method": "left_join"}, federation=fed)
    assert [type(r.error) for r in results.values()] == [NoCommonIds] * 3
    assert fed.unread() == []


def test_a_left_join_with_a_filter_of_the_guest(tmp_path: Path) -> None:
    params = pruned("guest", {"join_method": "left_join"})
    results = intersect({GUEST: ["1", "2"], HOST: ["9", "2"]}, tmp_path, params=params)
    assert table_out(results, HOST) == {"id": ["1", "2"], "at": [0.0, 1.0]}


def test_ids_of_other_types_compare_as_text(tmp_path: Path) -> None:
    tables = {
        GUEST: MemoryTableStore().add({"id": pa.array([1, 2, 3])}),
        HOST: MemoryTableStore().add({"id": pa.array(["3", "1"])}),
    }
    results = intersect_tables(tables, tmp_path, params=METHODS["dh"])
    assert ids_out(results, HOST) == ["1", "3"]


@pytest.mark.parametrize("params", [METHODS["rsa split"], pruned("host", {}), COUNTED])
def test_what_takes_long_to_compute_is_waited_for(
    params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: dict[str, float | None] = {}
    original = SiteFederation.recv

    def noting(self: SiteFederation, name: str, **more: Any) -> Any:
        waited[name] = more.get("timeout_s")
        return original(self, name, **more)

    monkeypatch.setattr(SiteFederation, "recv", noting)
    intersect({GUEST: ["1", "2"], HOST: ["2"]}, tmp_path, params=params)
    assert waited.pop("psi_hello") is None
    assert set(waited.values()) == {PATIENCE_S}
