"""Intersection with caches: what is kept, what is skipped, and what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fedflow.base.errors import BadData, BadParameter, FedflowError
from fedflow.base.ids import PartyId
from fedflow.components.psi.ecdh import Blinder
from fedflow.components.psi.intersection import Intersection
from fedflow.sdk import Cache, Inputs, Role, Site
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
HOST_2 = Site(Role.HOST, PartyId("10001"))
IDS = {GUEST: ["b", "a", "x"], HOST: ["c", "b", "y", "a"], HOST_2: ["a", "b", "z"]}
LATER = "202611210000000000000"


def run(
    ids: Mapping[Site, list[str]],
    work_dir: Path,
    *,
    caches: Mapping[Site, Cache] | None = None,
    **options: Any,
) -> dict[Site, RunResult]:
    inputs, tables = {}, {}
    for site, own in ids.items():
        tables[site] = store = MemoryTableStore()
        table = store.add({"id": pa.array(own, pa.string())})
        cache = (caches or {}).get(site)
        inputs[site] = Inputs(
            data={"data": [("reader_0", table)]},
            model={},
            cache={"cache_loader_0": cache} if cache else {},
        )
    return run_component(
        Intersection, sites=tuple(ids), inputs=inputs, tables=tables, work_dir=work_dir, **options
    )


def make(ids: Mapping[Site, list[str]], work_dir: Path, **params: Any) -> dict[Site, Cache]:
    everywhere = {key: {"run_cache": True, **params} for key in ids}
    outputs = outputs_of(run(ids, work_dir / "make", params=everywhere))
    assert all(output.data == () for output in outputs.values())
    return {site: output.cache[0] for site, output in outputs.items()}


def ids_out(results: Mapping[Site, RunResult], site: Site) -> list[Any]:
    (table,) = outputs_of(results)[site].data
    assert table is not None
    return table.read().column("id").to_pylist()


@pytest.mark.parametrize("sites", [(GUEST, HOST), (GUEST, HOST, HOST_2)])
def test_a_later_job_with_the_cache_finds_the_same(sites: tuple[Site, ...], tmp_path: Path) -> None:
    ids = {site: IDS[site] for site in sites}
    caches = make(ids, tmp_path)
    fed = LocalFederation(sites)
    asked = {**ids, GUEST: ["q", "a", "c", "b"]}
    results = run(asked, tmp_path / "2", caches=caches, job_id=LATER, federation=fed)
    assert fed.unread() == []
    common = ["a", "b"] if HOST_2 in sites else ["a", "c", "b"]
    for site in sites:
        assert ids_out(results, site) == common


def test_the_hosts_table_may_stand_in_another_order(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    turned = {**ids, HOST: sorted(IDS[HOST])}
    results = run(turned, tmp_path / "2", caches=caches, job_id=LATER)
    assert ids_out(results, HOST) == ids_out(results, GUEST) == ["b", "a"]


def test_only_the_host_has_its_secret_and_only_the_guest_the_points(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    assert caches[GUEST].private == {}
    (points,) = caches[GUEST].tables.values()
    assert not set(points.read().column(0).to_pylist()) & {i for own in ids.values() for i in own}
    secret = caches[HOST].private["secret"]
    assert secret not in str(caches[HOST].meta)
    (kept,) = caches[HOST].tables.values()
    assert sorted(kept.read().column(0).to_pylist()) == sorted(IDS[HOST])
    again = make(ids, tmp_path / "again")
    assert again[HOST].private["secret"] != secret


def test_with_a_cache_the_host_blinds_none_of_its_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    counts: list[int] = []
    original = Blinder.blind_ids

    def counted(self: Blinder, own: pa.Array, *rest: Any, **more: Any) -> Any:
        counts.append(len(own))
        return original(self, own, *rest, **more)

    monkeypatch.setattr(Blinder, "blind_ids", counted)
    run(ids, tmp_path / "2", caches=caches, job_id=LATER)
    assert counts == [len(IDS[GUEST])]


def test_the_metric_of_a_cache_tells_what_it_holds_but_no_secret(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    results = run(ids, tmp_path, params={key: {"run_cache": True} for key in ids})
    for site in ids:
        metric = results[site].metrics["train", "intersection_cache_meta"]
        assert metric.metric_type == "INTERSECTION"
        assert metric.meta["rows"] == {HOST.key: 4}
    secret = outputs_of(results)[HOST].cache[0].private["secret"]
    assert secret not in str(results[HOST].metrics)


def error_of(results: Mapping[Site, RunResult], site: Site) -> FedflowError:
    error = results[site].error
    assert isinstance(error, FedflowError)
    return error


@pytest.mark.parametrize("less", [["c", "b", "y"], ["c", "b", "y", "n"], ["c", "b", "y", "a", "n"]])
def test_a_host_with_other_ids_than_the_caches_must_make_a_new_one(
    less: list[str], tmp_path: Path
) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    results = run({**ids, HOST: less}, tmp_path / "2", caches=caches, job_id=LATER)
    assert isinstance(error_of(results, HOST), BadData)
    assert "make a new cache" in str(results[HOST].error)


def test_caches_of_two_jobs_do_not_fit_together(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    one = make(ids, tmp_path)
    everywhere = {key: {"run_cache": True} for key in ids}
    other = outputs_of(run(ids, tmp_path / "o", params=everywhere, job_id=LATER))[GUEST].cache[0]
    results = run(ids, tmp_path / "2", caches={**one, GUEST: other}, job_id=LATER)
    assert any("another cache" in str(r.error) for r in results.values())


def test_a_cache_at_one_party_only_is_refused(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    results = run(ids, tmp_path / "2", caches={HOST: caches[HOST]}, job_id=LATER)
    assert any("cache" in str(r.error) for r in results.values())
    results = run(ids, tmp_path / "3", params={GUEST: {"run_cache": True}}, job_id=LATER)
    assert any("run_cache" in str(r.error) for r in results.values())


def test_a_cache_needs_the_salt_that_it_was_made_with(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path, ecdh_params={"salt": "one"})
    params = {key: {"ecdh_params": {"salt": "two"}} for key in ids}
    results = run(ids, tmp_path / "2", caches=caches, params=params)
    assert any("salt" in str(r.error) for r in results.values())


def test_what_is_no_cache_of_this_party_is_refused(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    wrong = {
        "foreign": Cache(meta={"intersect_method": "rsa"}),
        "the guest's": caches[GUEST],
        "another protocol": replace(caches[HOST], meta={**caches[HOST].meta, "protocol": "v0"}),
        "another guest": replace(caches[HOST], meta={**caches[HOST].meta, "guest": "guest-1"}),
        "no secret": replace(caches[HOST], private={}),
    }
    for name, cache in wrong.items():
        results = run(ids, tmp_path / name, caches={**caches, HOST: cache}, job_id=LATER)
        assert isinstance(error_of(results, HOST), BadParameter), name


def test_a_cache_input_together_with_run_cache_is_refused(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    everywhere = {key: {"run_cache": True} for key in ids}
    results = run(ids, tmp_path / "2", caches=caches, params=everywhere)
    assert all(isinstance(r.error, BadParameter) for r in results.values())
