"""How many ids the parties share, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedflow.components.intersection import cardinality
from fedflow.sdk import BadParameter, Site
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import outputs_of
from tests.unit.components.intersection_parties import (
    GUEST,
    HOST,
    HOST_2,
    errors_of,
    intersect,
    intersect_tables,
    with_match_ids,
)

IDS = {
    GUEST: ["1", "2", "3", "4", "5"],
    HOST: ["9", "3", "5", "1"],
    HOST_2: ["1", "5", "8", "9", "3", "2"],
}
HOST_3 = Site(HOST.role, type(HOST.party_id)("10003"))


def only(method: str, **more: Any) -> dict[str, Any]:
    return {"cardinality_only": True, "cardinality_method": method, **more}


@pytest.mark.parametrize("method", ["ecdh", "dh", "rsa"])
@pytest.mark.parametrize("sync", [True, False])
def test_the_number_is_exact_and_there_is_no_table(method: str, sync: bool, tmp_path: Path) -> None:
    ids = {GUEST: IDS[GUEST], HOST: IDS[HOST]}
    fed = LocalFederation((GUEST, HOST))
    params = only(method, sync_cardinality=sync, rsa_params={"key_length": 1024})
    results = intersect(ids, tmp_path, params=params, federation=fed)
    found = outputs_of(results)
    assert found[GUEST].data == found[HOST].data == ()
    assert found[GUEST].summary == {
        "intersect_num": 3,
        "intersect_rate": 3 / 5,
        "cardinality_only": True,
        "unique_id_num": 5,
    }
    metric = results[GUEST].metrics["train", "intersection"]
    assert dict(metric.points)["intersect_count"] == 3
    assert metric.meta["intersect_method"] == method
    told = found[HOST].summary.get("intersect_num")
    assert told == (3 if sync else None)
    assert ("train", "intersection") in results[HOST].metrics or not sync
    assert fed.unread() == []


@pytest.mark.parametrize("method", ["ecdh", "dh"])
@pytest.mark.parametrize(
    ("sites", "expected"),
    [((GUEST, HOST, HOST_2), 3), ((GUEST, HOST_2, HOST), 3), ((GUEST, HOST, HOST_2, HOST_3), 2)],
)
def test_with_several_hosts_it_is_what_all_have(
    sites: tuple[Site, ...], expected: int, method: str, tmp_path: Path
) -> None:
    ids = {site: {**IDS, HOST_3: ["5", "1"]}[site] for site in sites}
    fed = LocalFederation(sites)
    params = only(method, sync_cardinality=True)
    results = intersect(ids, tmp_path, params=params, federation=fed)
    numbers = {outputs_of(results)[site].summary["intersect_num"] for site in sites}
    assert numbers == {expected}
    assert fed.unread() == []
    assert all(r.progress[-1] == 1.0 for r in results.values())


def test_nothing_in_common_is_a_number_too(tmp_path: Path) -> None:
    results = intersect({GUEST: ["1"], HOST: ["2"]}, tmp_path, params=only("ecdh"))
    assert outputs_of(results)[GUEST].summary["intersect_num"] == 0


def test_match_ids_are_counted_once(tmp_path: Path) -> None:
    tables = {
        GUEST: with_match_ids(["g1", "g2", "g3"], ["a", "a", "b"]),
        HOST: with_match_ids(["h1", "h2"], ["a", "a"]),
    }
    results = intersect_tables(tables, tmp_path, params=only("ecdh"))
    assert outputs_of(results)[GUEST].summary["intersect_num"] == 1
    assert outputs_of(results)[GUEST].summary["unique_id_num"] == 2


def test_rsa_takes_one_host(tmp_path: Path) -> None:
    results = intersect(IDS, tmp_path, params=only("rsa"))
    assert any(isinstance(e, BadParameter) for e in errors_of(results))


def test_no_party_can_tell_which_rows_are_common(tmp_path: Path) -> None:
    """Every set that the guest gets was sorted by somebody else after all secrets were in it."""
    seen: dict[str, bytes] = {}
    original = cardinality._receive

    def spying(ctx: Any, cipher: Any, source: Site, **named: Any) -> Any:
        got = original(ctx, cipher, source, **named)
        if ctx.site == GUEST:
            seen[named["owner"].key + named.get("suffix", "")] = got.tobytes()
        return got

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cardinality, "_receive", spying)
        intersect({GUEST: IDS[GUEST], HOST: IDS[HOST]}, tmp_path, params=only("ecdh"))
    own = seen[f"{GUEST.key}-complete"]
    rows = [own[i : i + 32] for i in range(0, len(own), 32)]
    assert rows == sorted(rows, key=lambda row: int.from_bytes(row[:8], "little"))


@pytest.mark.parametrize("told", [-1, 2, 1.0, "1", None, True])
def test_a_number_that_cannot_be_is_refused(told: Any, tmp_path: Path) -> None:
    original = cardinality._count_in_ring

    def lying(ctx: Any, keys: Any) -> Any:
        count = original(ctx, keys)
        return told if ctx.site == GUEST else count

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cardinality, "_count_in_ring", lying)
        params = only("ecdh", sync_cardinality=True)
        results = intersect({GUEST: ["1"], HOST: ["1"]}, tmp_path, params=params)
    assert "cardinality" in str(results[HOST].error)
