"""Intersection of tables with match ids: several rows per id, and whose sample ids are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.data_plane import CodecError
from fedflow.sdk import BadData, BadParameter, PeerFailed, Site, Table
from fedflow.testing.federation import LocalFederation, SiteFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of
from tests.unit.components.intersection_parties import (
    GUEST,
    HOST,
    HOST_2,
    SMALL_KEYS,
    errors_of,
    ids_out,
    intersect_tables,
    table_out,
    with_match_ids,
)


def tables() -> dict[Site, Table]:
    """Return a guest that repeats match ids, and hosts that do not."""
    return {
        GUEST: with_match_ids(["g1", "g2", "g3", "g4", "g5"], ["b", "a", "b", "x", "c"]),
        HOST: with_match_ids(["h1", "h2", "h3", "h4"], ["c", "b", "q", "a"]),
        HOST_2: with_match_ids(["k1", "k2"], ["b", "c"]),
    }


def run(
    sites: tuple[Site, ...], work_dir: Path, *, given: Mapping[Site, Table] | None = None, **p: Any
) -> dict[Site, RunResult]:
    fed = LocalFederation(sites)
    chosen = given or tables()
    results = intersect_tables(
        {site: chosen[site] for site in sites}, work_dir, params=p, federation=fed
    )
    if all(r.error is None for r in results.values()):
        assert fed.unread() == []
    return results


@pytest.mark.parametrize("method", ["ecdh", "rsa"])
def test_hosts_repeat_their_rows_for_each_of_the_guests(method: str, tmp_path: Path) -> None:
    params = {"intersect_method": method, "rsa_params": {"key_length": 1024}}
    results = run((GUEST, HOST), tmp_path, **params)
    sids = ["g1", "g2", "g3", "g5"]
    assert table_out(results, GUEST) == {
        "sid": sids,
        "id": ["b", "a", "b", "c"],
        "at": [0.0, 1.0, 2.0, 4.0],
    }
    assert table_out(results, HOST) == {
        "sid": sids,
        "id": ["b", "a", "b", "c"],
        "at": [1.0, 3.0, 1.0, 0.0],
    }


def test_several_hosts_follow_the_guest(tmp_path: Path) -> None:
    results = run((GUEST, HOST, HOST_2), tmp_path)
    for site in (GUEST, HOST, HOST_2):
        assert table_out(results, site)["sid"] == ["g1", "g3", "g5"]
        assert table_out(results, site)["id"] == ["b", "b", "c"]


def test_counts_are_of_distinct_match_ids(tmp_path: Path) -> None:
    results = run((GUEST, HOST), tmp_path)
    points = dict(results[GUEST].metrics["train", "intersection"].points)
    assert points == {
        "intersect_count": 3,
        "input_match_id_count": 4,
        "intersect_rate": 3 / 4,
        "unmatched_count": 1,
        "unmatched_rate": 1 / 4,
        "intersect_sample_id_count": 4,
    }
    assert outputs_of(results)[HOST].summary["intersect_num"] == 3


def test_the_hosts_rows_decide_if_it_is_the_generator(tmp_path: Path) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2", "g3"], ["b", "a", "x"]),
        HOST: with_match_ids(["h1", "h2", "h3", "h4"], ["a", "b", "q", "b"]),
    }
    results = run((GUEST, HOST), tmp_path, given=given, sample_id_generator="host")
    sids = ["h2", "h4", "h1"]  # in the guest's order
    assert table_out(results, GUEST) == {"sid": sids, "id": ["b", "b", "a"], "at": [0.0, 0.0, 1.0]}
    assert table_out(results, HOST) == {"sid": sids, "id": ["b", "b", "a"], "at": [1.0, 3.0, 0.0]}


@pytest.mark.parametrize("generator", ["guest", "host"])
def test_new_sample_ids_are_alike_and_tell_nothing(generator: str, tmp_path: Path) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2"], ["b", "a"]),
        HOST: with_match_ids(["h1", "h2"], ["a", "b"]),
    }
    fed_params = {"new_sample_id": True, "sample_id_generator": generator}
    results = run((GUEST, HOST), tmp_path, given=given, **fed_params)
    made = ids_out(results, GUEST)
    assert ids_out(results, HOST) == made
    assert len(set(made)) == 2
    assert not set(made) & {"g1", "g2", "h1", "h2"}
    assert table_out(results, HOST)["id"] == table_out(results, GUEST)["id"] == ["b", "a"]


def test_only_the_keys_and_match_ids_are_left_where_asked(tmp_path: Path) -> None:
    results = run((GUEST, HOST), tmp_path, only_output_key=True)
    assert list(table_out(results, HOST)) == ["sid", "id"]


def test_a_left_join_keeps_all_rows_of_the_guest(tmp_path: Path) -> None:
    results = run((GUEST, HOST), tmp_path, join_method="left_join")
    assert table_out(results, HOST) == {
        "sid": ["g1", "g2", "g3", "g4", "g5"],
        "id": ["b", "a", "b", None, "c"],
        "at": [1.0, 3.0, 1.0, 0.0, 0.0],
    }


def test_zeros_of_a_left_join_leave_missing_cells_of_other_rows(tmp_path: Path) -> None:
    host = tables()[HOST]
    cells = pa.array([7.0, None, 8.0, None])
    rows = host.read().drop_columns(["at"]).append_column("absent", cells)
    schema = replace(host.schema, columns=("absent",))
    given = {GUEST: tables()[GUEST], HOST: MemoryTableStore().add(rows, schema=schema)}
    results = run((GUEST, HOST), tmp_path, given=given, join_method="left_join")
    assert table_out(results, HOST) == {
        "sid": ["g1", "g2", "g3", "g4", "g5"],
        "id": ["b", "a", "b", None, "c"],
        "absent": [None, None, None, 0.0, 7.0],
    }


@pytest.mark.parametrize("generator", ["guest", "host"])
def test_only_the_generator_may_repeat_match_ids_that_all_have(
    generator: str, tmp_path: Path
) -> None:
    repeated = with_match_ids(["1", "2", "3"], ["a", "b", "a"])
    plain = with_match_ids(["4", "5"], ["a", "b"])
    repeater = "guest" if generator == "host" else "host"
    given = (
        {GUEST: repeated, HOST: plain} if generator == "host" else {GUEST: plain, HOST: repeated}
    )
    results = run((GUEST, HOST), tmp_path, given=given, sample_id_generator=generator)
    (error,) = errors_of(results)
    assert isinstance(error, BadData)
    assert (
        f"1 of the 2 match ids in the intersection are those of several rows at the {repeater}"
        in str(error)
    )
    assert f"Set sample_id_generator to '{repeater}'" in str(error)
    assert results[HOST].error is not None  # it has not learned which ids are common


METHODS: dict[str, dict[str, Any]] = {
    "ecdh": {"intersect_method": "ecdh"},
    "dh": {"intersect_method": "dh"},
    "rsa": {"intersect_method": "rsa", **SMALL_KEYS},
    "rsa, split": {
        "intersect_method": "rsa",
        "rsa_params": {"key_length": 1024, "split_calculation": True},
    },
    "preprocessed": {
        "run_preprocess": True,
        "intersect_preprocess_params": {"false_positive_rate": 0.02, "filter_owner": "host"},
    },
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("generator", ["guest", "host"])
def test_match_ids_that_not_all_have_may_repeat(
    generator: str, method: str, tmp_path: Path
) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2", "g3", "g4"], ["only", "a", "b", "only"]),
        HOST: with_match_ids(["h1", "h2", "h3", "h4", "h5"], ["k", "b", "k", "k", "a"]),
    }
    results = run(
        (GUEST, HOST), tmp_path, given=given, sample_id_generator=generator, **METHODS[method]
    )
    sids = ["g2", "g3"] if generator == "guest" else ["h5", "h2"]
    assert table_out(results, GUEST) == {"sid": sids, "id": ["a", "b"], "at": [1.0, 2.0]}
    assert table_out(results, HOST) == {"sid": sids, "id": ["a", "b"], "at": [4.0, 1.0]}


def test_match_ids_that_one_of_several_hosts_lacks_may_repeat(tmp_path: Path) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2"], ["a", "b"]),
        HOST: with_match_ids(["h1", "h2", "h3"], ["b", "a", "b"]),
        HOST_2: with_match_ids(["k1"], ["a"]),
    }
    results = run((GUEST, HOST, HOST_2), tmp_path, given=given)
    assert all(table_out(results, site)["id"] == ["a"] for site in given)
    given[HOST_2] = with_match_ids(["k1", "k2"], ["a", "b"])
    (error,) = errors_of(run((GUEST, HOST, HOST_2), tmp_path, given=given))
    assert isinstance(error, BadData)
    assert "Make them unique in its table" in str(error)


def test_repeats_of_a_host_that_gets_no_output_do_not_matter(tmp_path: Path) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2"], ["a", "x"]),
        HOST: with_match_ids(["h1", "h2"], ["a", "a"]),
    }
    results = run((GUEST, HOST), tmp_path, given=given, sync_intersect_ids=False)
    assert ids_out(results, GUEST) == ["g1"]


def test_a_left_join_repeats_no_row_of_a_host_either(tmp_path: Path) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2", "g3"], ["x", "a", "a"]),
        HOST: with_match_ids(["h1", "h2", "h3"], ["k", "a", "k"]),
    }
    results = run((GUEST, HOST), tmp_path, given=given, join_method="left_join")
    assert table_out(results, HOST)["at"] == [0.0, 1.0, 1.0]


def test_match_ids_at_one_party_only_are_an_error_at_both(tmp_path: Path) -> None:
    given = {GUEST: tables()[GUEST], HOST: MemoryTableStore().add({"id": ["a"]})}
    results = run((GUEST, HOST), tmp_path, given=given)
    assert all(isinstance(e, BadData) and "match ids" in str(e) for e in errors_of(results))
    assert all(isinstance(r.error, BadData | PeerFailed) for r in results.values())


@pytest.mark.parametrize(
    ("sites", "params"),
    [
        ((GUEST, HOST, HOST_2), {"sample_id_generator": "host"}),
        ((GUEST, HOST), {"sample_id_generator": "host", "sync_intersect_ids": False}),
    ],
)
def test_a_host_generates_only_alone_and_where_ids_are_synced(
    sites: tuple[Site, ...], params: dict[str, Any], tmp_path: Path
) -> None:
    errors = errors_of(run(sites, tmp_path, **params))
    assert errors
    assert all(isinstance(e, BadParameter) and "sample_id_generator" in str(e) for e in errors)


def test_a_missing_match_id_is_refused(tmp_path: Path) -> None:
    given = {GUEST: with_match_ids(["1", "2"], ["a", None]), HOST: tables()[HOST]}  # type: ignore[list-item]
    assert "1 rows have no id" in str(run((GUEST, HOST), tmp_path, given=given)[GUEST].error)


@pytest.mark.parametrize(
    "told",
    [
        pa.table({"id": ["1"]}),
        pa.table({"id": ["1", "1"]}),
        pa.table({"id": ["1", None]}),
        pa.table({"id": [1, 2]}),
        pa.table({"sid": ["1", "2"]}),
        pa.table({"id": ["1", "2"], "more": [1, 2]}),
        ["1", "2"],
        b"12",
    ],
)
def test_sample_ids_that_are_none_are_refused(told: Any, tmp_path: Path) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2"], ["b", "a"]),
        HOST: with_match_ids(["h1", "h2"], ["a", "b"]),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fedflow.components.intersection.alignment._send_ids",
            lambda ctx, ids, *, to: ctx.federation.send("sample_ids", told, to=to),
        )
        results = run((GUEST, HOST), tmp_path, given=given)
    assert "sample_ids" in str(results[HOST].error)


@pytest.mark.parametrize(
    "told",
    [
        np.array([0, 0]),  # one is missing
        np.array([1, 0]),
        np.array([0, 1, 2]),
        np.array([-1, 0, 1]),
        np.array([0.0, 1.0]),
        [0, 1],
    ],
)
def test_rows_that_a_generating_host_makes_up_are_refused(told: Any, tmp_path: Path) -> None:
    given = {
        GUEST: with_match_ids(["g1", "g2"], ["b", "a"]),
        HOST: with_match_ids(["h1", "h2", "h3"], ["a", "b", "b"]),
    }
    original = SiteFederation.send

    def lying(self: SiteFederation, name: str, value: Any, **more: Any) -> None:
        original(self, name, told if name == "expanded_rows" else value, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SiteFederation, "send", lying)
        results = run((GUEST, HOST), tmp_path, given=given, sample_id_generator="host")
    assert isinstance(results[GUEST].error, CodecError)
