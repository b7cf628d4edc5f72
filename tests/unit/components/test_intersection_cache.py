"""Intersection with caches: what is kept, what is skipped, and what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.error import FedflowError
from fedflow.components.intersection.ecdh import CurveCipher
from fedflow.components.intersection.intersection import Intersection
from fedflow.sdk import Cache, Inputs, Site
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.unit.components.intersection_parties import (
    GUEST,
    HOST,
    HOST_2,
    ids_out,
    intersect_tables,
    with_match_ids,
)

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


METHODS: dict[str, dict[str, Any]] = {
    "ecdh": {},
    "dh": {"intersect_method": "dh"},
    "rsa": {"intersect_method": "rsa", "rsa_params": {"key_length": 1024}},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sites", [(GUEST, HOST), (GUEST, HOST, HOST_2)])
def test_a_later_job_with_the_cache_finds_the_same(
    sites: tuple[Site, ...], method: str, tmp_path: Path
) -> None:
    ids = {site: IDS[site] for site in sites}
    caches = make(ids, tmp_path, **METHODS[method])
    fed = LocalFederation(sites)
    asked = {**ids, GUEST: ["q", "a", "c", "b"]}
    params = dict.fromkeys(ids, METHODS[method])
    results = run(asked, tmp_path / "2", caches=caches, job_id=LATER, federation=fed, params=params)
    assert fed.unread() == []
    common = ["a", "b"] if HOST_2 in sites else ["a", "c", "b"]
    for site in sites:
        assert ids_out(results, site) == common


@pytest.mark.parametrize("method", METHODS)
def test_with_the_cache_the_host_sends_its_ids_no_more(method: str, tmp_path: Path) -> None:
    ids = {GUEST: ["a"], HOST: [f"h{i}" for i in range(200)] + ["a"]}
    caches = make(ids, tmp_path, **METHODS[method])
    fed = LocalFederation((GUEST, HOST))
    params = dict.fromkeys(ids, METHODS[method])
    results = run(ids, tmp_path / "2", caches=caches, job_id=LATER, federation=fed, params=params)
    assert ids_out(results, HOST) == ["a"]
    assert fed.sent_bytes < 2_500


@pytest.mark.parametrize("made", METHODS)
@pytest.mark.parametrize("used", METHODS)
def test_a_cache_serves_the_method_that_made_it(made: str, used: str, tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path, **METHODS[made])
    params = dict.fromkeys(ids, METHODS[used])
    results = run(ids, tmp_path / "2", caches=caches, job_id=LATER, params=params)
    errors = [r.error for r in results.values() if r.error]
    assert bool(errors) == (made != used)
    if errors:
        assert any("intersect_method" in str(e) and made in str(e) for e in errors)


def test_a_cache_needs_the_settings_that_it_was_made_with(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path, **METHODS["rsa"])
    other = {"intersect_method": "rsa", "rsa_params": {"key_length": 3072}}
    results = run(ids, tmp_path / "2", caches=caches, params=dict.fromkeys(ids, other))
    assert any("rsa_params.key_length" in str(r.error) for r in results.values())


@pytest.mark.parametrize(
    "params",
    [
        {"run_preprocess": True, "intersect_preprocess_params": {"false_positive_rate": 0.1}},
        {"cardinality_only": True},
        {"intersect_method": "rsa", "rsa_params": {"split_calculation": True}},
    ],
)
def test_what_a_cache_cannot_serve_is_refused(params: dict[str, Any], tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    results = run(ids, tmp_path / "2", caches=caches, params=dict.fromkeys(ids, params))
    assert all(isinstance(r.error, BadParameter) for r in results.values())


@pytest.mark.parametrize("method", METHODS)
def test_a_damaged_secret_is_refused(method: str, tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path, **METHODS[method])
    damaged = replace(caches[HOST], private={"secret": "zz"})
    params = dict.fromkeys(ids, METHODS[method])
    results = run(ids, tmp_path / "2", caches={**caches, HOST: damaged}, params=params)
    assert isinstance(error_of(results, HOST), BadParameter)


def test_match_ids_are_cached_once_each(tmp_path: Path) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2", "g3"], ["a", "b", "a"]),
        HOST: with_match_ids(["h1", "h2", "h3", "h4"], ["b", "k", "a", "k"]),
    }
    made = intersect_tables(given, tmp_path, params={"run_cache": True})
    caches = {site: outputs_of(made)[site].cache[0] for site in given}
    inputs = {
        site: Inputs(
            data={"data": [("reader_0", table)]}, model={}, cache={"cache_loader_0": caches[site]}
        )
        for site, table in given.items()
    }
    results = run_component(Intersection, sites=tuple(given), inputs=inputs, work_dir=tmp_path)
    assert ids_out(results, HOST) == ["g1", "g2", "g3"]


def test_the_hosts_table_may_stand_in_another_order(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    turned = {**ids, HOST: sorted(IDS[HOST])}
    results = run(turned, tmp_path / "2", caches=caches, job_id=LATER)
    assert ids_out(results, HOST) == ids_out(results, GUEST) == ["b", "a"]


def test_only_the_host_has_its_secret_and_only_the_guest_the_points(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    assert set(caches[GUEST].private) == {"settings"}
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
    original = CurveCipher.blind_ids

    def counted(self: CurveCipher, own: pa.Array, *rest: Any, **more: Any) -> Any:
        counts.append(len(own))
        return original(self, own, *rest, **more)

    monkeypatch.setattr(CurveCipher, "blind_ids", counted)
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


@pytest.mark.parametrize("method", ["ecdh", "dh", "rsa"])
def test_settings_that_a_later_job_leaves_out_are_those_of_the_cache(
    method: str, tmp_path: Path
) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    own: dict[str, Any] = {"salt": "one", "hash_method": "sha384"}
    own |= {} if method == "ecdh" else {"key_length": 1024}
    caches = make(ids, tmp_path, intersect_method=method, **{f"{method}_params": own})
    params = {site: {"intersect_method": method} for site in ids}
    results = run(ids, tmp_path / "2", caches=caches, params=params, job_id=LATER)
    assert ids_out(results, GUEST) == ids_out(results, HOST) == ["b", "a"]


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


def test_a_guests_cache_must_hold_something_usable_of_every_host(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    params = dict.fromkeys(ids, METHODS["rsa"])
    caches = make(ids, tmp_path, **METHODS["rsa"])
    made = caches[GUEST]
    short = MemoryTableStore().add({"id": ["ab"] * 4})
    text = MemoryTableStore().add({"id": ["no hexadecimal"] * 4})
    wrong = {
        "holds nothing of": replace(made, tables={}),
        "holds no key of": replace(made, meta={**made.meta, "public_keys": {}}),
        "holds no blinded ids": replace(made, tables={HOST.key: short}),
        "table holds no": replace(made, tables={HOST.key: text}),
    }
    for reason, cache in wrong.items():
        given = {**caches, GUEST: cache}
        results = run(ids, tmp_path / reason, caches=given, params=params, job_id=LATER)
        assert reason in str(error_of(results, GUEST))


def test_a_cache_of_fewer_ids_than_the_host_has_is_refused_by_the_guest(tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    caches = make(ids, tmp_path)
    kept = caches[GUEST].tables[HOST.key].head(3)
    fewer = replace(caches[GUEST], tables={HOST.key: MemoryTableStore().add(kept)})
    results = run(ids, tmp_path / "2", caches={**caches, GUEST: fewer}, job_id=LATER)
    assert "4 ids, 3 in the cache" in str(error_of(results, GUEST))
