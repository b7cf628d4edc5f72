"""HeteroKmeans refuses what cannot be, says why, and believes no other party."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.error import FedflowError
from fedflow.components.clustering.lloyd import distance_bits, means, squared_distances
from fedflow.components.clustering.params import HeteroKmeansParams
from fedflow.components.clustering.session import SUM_BITS, scale_for
from fedflow.domain.site import Role, Site
from fedflow.sdk import BadData, BadParameter, CodecError, Model, PeerFailed, PlannedRun
from fedflow.sdk.params import check_params
from fedflow.testing.federation import LocalFederation, SiteFederation
from fedflow.testing.run import RunResult, outputs_of
from tests.unit.components.kmeans_parties import (
    ARBITER,
    GUEST,
    HOSTS,
    blobs,
    run,
    spread_over,
)

HOST = HOSTS[0]
SITES = (GUEST, HOST, ARBITER)
ROWS = 20


def refused(results: dict[Site, RunResult]) -> FedflowError:
    with pytest.raises(FedflowError) as caught:
        outputs_of(results)
    return caught.value


def changed(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("k", 1),
        ("k", 2.5),
        ("max_iter", 0),
        ("tol", -1),
        ("tol", float("inf")),
        ("random_stat", -1),
        ("random_stat", 2**32),
        ("K", 3),
    ],
)
def test_parameters_out_of_range_are_refused_before_the_start(name: str, value: Any) -> None:
    with pytest.raises(BadParameter) as caught:
        check_params(HeteroKmeansParams, {name: value}, path="kmeans_0")
    assert name in str(caught.value)


def test_the_defaults_are_those_of_fate() -> None:
    params = check_params(HeteroKmeansParams, {}, path="$")
    assert (params.k, params.max_iter, params.tol, params.random_stat) == (5, 300, 1e-3, None)


@pytest.mark.parametrize(
    ("sites", "ports", "has_model", "reason"),
    [
        ((GUEST, HOST), ("train_data",), False, "exactly one arbiter"),
        ((GUEST, ARBITER), ("train_data",), False, "at least one host"),
        ((GUEST, HOST), ("test_data",), True, "exactly one arbiter"),
        (SITES, ("test_data",), False, "test_data needs a trained model"),
        (SITES, ("train_data", "test_data"), False, "train_data together with test_data"),
        (SITES, ("validate_data",), True, "validate_data without train_data"),
    ],
)
def test_runs_that_cannot_be_are_refused_before_the_start(
    sites: tuple[Site, ...], ports: tuple[str, ...], has_model: bool, reason: str
) -> None:
    planned = PlannedRun(site=GUEST, sites=sites, data_ports=ports, has_model=has_model)
    with pytest.raises(BadParameter, match=reason):
        check_params(HeteroKmeansParams, {}, path="$", run=planned)


def test_more_clusters_than_rows_are_refused(tmp_path: Path) -> None:
    results = run(tmp_path, {"train_data": spread_over(blobs(rows=4), 1)}, k=5)
    error = refused(results)
    assert isinstance(error, BadParameter)
    assert "heterokmeans_0.k: 5 clusters of 4 rows" in str(error)


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("x1", [None] + [1.0] * (ROWS - 1), "has 1 missing or infinite values; fill them"),
        ("x1", [float("inf")] + [1.0] * (ROWS - 1), "has 1 missing or infinite values"),
        ("x0", ["a"] * ROWS, "is string, not a number"),
        ("x0", [1e200] + [-1e200] * (ROWS - 1), "scale its columns"),
        ("x0", [1e140] + [0.0] * (ROWS - 1), "scale its columns"),
        ("id", [f"w{i}" for i in range(ROWS)], "align them with Intersection first"),
    ],
)
def test_data_that_cannot_be_used_are_refused(
    name: str, values: Any, reason: str, tmp_path: Path
) -> None:
    tables = spread_over(blobs(rows=ROWS), 1)
    tables[HOST] = changed(tables[HOST], name, values)
    error = refused(run(tmp_path, {"train_data": tables}, k=2))
    assert isinstance(error, BadData)
    assert reason in str(error)


@pytest.mark.parametrize("site", [GUEST, HOST])
def test_a_party_without_columns_or_rows_is_refused(site: Site, tmp_path: Path) -> None:
    tables = spread_over(blobs(rows=ROWS), 1)
    without = {**tables, site: tables[site].select(["id"])}
    assert "has no feature columns" in str(refused(run(tmp_path, {"train_data": without}, k=2)))
    empty = {each: table.slice(0, 0) for each, table in tables.items()}
    assert "has no rows" in str(refused(run(tmp_path, {"train_data": empty}, k=2)))


@pytest.mark.parametrize("site", [HOST, ARBITER])
def test_parties_must_mean_the_same_clusters(site: Site, tmp_path: Path) -> None:
    tables = {"train_data": spread_over(blobs(rows=ROWS), 1)}
    error = refused(run(tmp_path, tables, k=3, per_site={site: {"k": 4}}))
    assert isinstance(error, BadParameter)
    assert "heterokmeans_0.k: 4 here, 3 at guest" in str(error)
    error = refused(run(tmp_path, tables, k=3, per_site={site: {"max_iter": 4}}))
    assert "max_iter" in str(error)


def damage(path: tuple[Any, ...], value: Any) -> Callable[[Model], Model]:
    def change(model: Model) -> Model:
        param: Any = {**model.param}
        param["centroid_detail"] = [
            {"centroid": [*c["centroid"]]} for c in param["centroid_detail"]
        ]
        inner = param
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        return Model(
            meta_name=model.meta_name, param_name=model.param_name, meta=model.meta, param=param
        )

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (damage(("count_of_clusters",), 1), "it has 1 clusters"),
        (damage(("count_of_clusters",), "many"), "Expected `int`"),
        (damage(("count_of_clusters",), 3), "it does not have 3 centroids of 3 columns"),
        (damage(("centroid_detail", 0, "centroid"), [1.0]), "does not have 2 centroids"),
        (damage(("centroid_detail", 0, "centroid", 0), float("nan")), "a centroid is not finite"),
        (damage(("centroid_detail", 0, "centroid", 0), "x"), "Expected `float`"),
        (damage(("header",), ["x0", "x1", "x1"]), "it has no columns, or one twice"),
        (damage(("header",), []), "it has no columns"),
        (damage(("header",), ["x0", "x1", "x9"]), "lacks the model's columns x9"),
    ],
)
def test_a_damaged_model_is_refused(
    change: Callable[[Model], Model], reason: str, tmp_path: Path
) -> None:
    tables = spread_over(blobs(rows=ROWS), 1)
    fitted = outputs_of(run(tmp_path, {"train_data": tables}, k=2))
    models = {site: outputs.model for site, outputs in fitted.items() if outputs.model}
    models[HOST] = change(models[HOST])
    error = refused(run(tmp_path, {"test_data": tables}, models=models))
    assert isinstance(error, BadData)
    assert reason in str(error)


def test_a_model_of_another_training_or_component_is_refused(tmp_path: Path) -> None:
    tables = spread_over(blobs(rows=ROWS), 1)
    two, three = (outputs_of(run(tmp_path, {"train_data": tables}, k=k)) for k in (2, 3))
    models = {site: outputs.model for site, outputs in two.items() if outputs.model}
    mixed = {**models, HOST: three[HOST].model}
    assert "3 here, 2 at guest" in str(refused(run(tmp_path, {"test_data": tables}, models=mixed)))  # type: ignore[arg-type]
    other = Model(meta_name="PSIMeta", param_name="PSIParam", meta={}, param={})
    foreign = refused(run(tmp_path, {"test_data": tables}, models={**models, GUEST: other}))
    assert "it holds PSIParam, not HeteroKmeansParam" in str(foreign)


class Hostile(LocalFederation):
    """One site sends what it likes in place of one value."""

    def __init__(self, source: Site, name: str, change: Callable[[Any], Any]) -> None:
        super().__init__(SITES)
        self._source, self._name, self._change = source, name, change

    def at(self, site: Site) -> SiteFederation:
        handle = super().at(site)
        if site != self._source:
            return handle
        honest = handle.send

        def send(name: str, value: Any, *, to: Any, tag: str = "") -> None:
            honest(name, self._change(value) if name == self._name else value, to=to, tag=tag)

        handle.send = send  # type: ignore[method-assign]
        return handle


def plan_with(**members: Any) -> Callable[[Any], Any]:
    return lambda value: {**value, **members}


def noise(value: Any) -> Any:
    return np.random.default_rng(1).integers(0, 2**64, size=value.shape, dtype=np.uint64)


HOSTILE = [
    (ARBITER, "cluster_result", lambda v: v[:-1], "not one cluster for each row"),
    (ARBITER, "cluster_result", lambda v: v.astype(np.float64), "not one cluster for each row"),
    (ARBITER, "cluster_result", lambda v: v + np.int32(9), "a cluster is none of the 3"),
    (ARBITER, "cluster_result", lambda v: v - np.int32(9), "a cluster is none of the 3"),
    (ARBITER, "cluster_result", lambda v: None, "not one cluster for each row"),
    (ARBITER, "arbiter_tol", lambda v: {"converged": 1}, "arbiter_tol: not two flags"),
    (ARBITER, "arbiter_tol", lambda v: {"converged": False, "stop": False}, "past max_iter 2"),
    (GUEST, "kmeans_plan", lambda v: 7, "kmeans_plan: Expected `object`"),
    (GUEST, "kmeans_plan", plan_with(k="3"), "kmeans_plan: Expected `int`"),
    (GUEST, "kmeans_plan", plan_with(parts=["predict"]), "other data sets here"),
    (GUEST, "kmeans_plan", plan_with(more=1), "unknown field"),
    (GUEST, "mask_seed", lambda v: v[:5], "mask_seed: not 32 bytes"),
    (GUEST, "mask_seed", lambda v: "x" * 32, "mask_seed: not 32 bytes"),
    (GUEST, "distance_scale", plan_with(rows=0), "rows or shift are out of range"),
    (GUEST, "distance_scale", plan_with(rows=2**40), "rows or shift are out of range"),
    (GUEST, "distance_scale", plan_with(shift=4000), "rows or shift are out of range"),
    (GUEST, "distance_scale", plan_with(shift=60), "too fine for the distances of this party"),
    (GUEST, "distance_scale", plan_with(rows=21), ""),  # host and arbiter both notice
    (GUEST, "centroid_list", lambda v: v.astype(np.float64), "not a list of row numbers"),
    (GUEST, "centroid_list", lambda v: v[:2], "2 rows, not 3"),
    (GUEST, "centroid_list", lambda v: v * 0, "a row is unknown or repeated"),
    (GUEST, "centroid_list", lambda v: v + 100, "a row is unknown or repeated"),
    (GUEST, "guest_dist", lambda v: v[1:], "no share of shape (23, 3)"),
    (GUEST, "guest_dist", lambda v: v.astype(np.float64), "no share of shape (23, 3)"),
    (GUEST, "guest_dist", noise, "the parties' dist do not add up to distances"),
    (HOST, "host_dist", lambda v: v + np.uint64(1), "a centroid is apart from itself"),
    (HOST, "host_tol", lambda v: [1.0], "no share of shape (1,)"),
    (HOST, "host_tol", lambda v: v - np.uint64(1 << 63), "tol do not add up to distances"),
    (HOST, "distance_bits", lambda v: {"bits": 2.5}, "sent no size of its distances"),
    (HOST, "distance_bits", lambda v: {"bits": 5000}, "sent no size of its distances"),
    (HOST, "distance_bits", lambda v: [1], "sent no size of its distances"),
]


@pytest.mark.parametrize(("source", "name", "change", "reason"), HOSTILE)
def test_what_another_party_sends_is_checked(
    source: Site, name: str, change: Callable[[Any], Any], reason: str, tmp_path: Path
) -> None:
    results = run(
        tmp_path,
        {"train_data": spread_over(blobs(rows=ROWS), 1)},
        federation=Hostile(source, name, change),
        k=3,
        max_iter=2,
        tol=0.0,
        random_stat=2,
    )
    errors = [r.error for s, r in results.items() if s != source and r.error is not None]
    first = [e for e in errors if not isinstance(e, PeerFailed)]
    assert first, results
    assert all(isinstance(error, CodecError | BadParameter) for error in first)
    assert any(reason in str(error) for error in first)


class Recording(LocalFederation):
    """Keeps the values that the arbiter gets."""

    def __init__(self, sites: tuple[Site, ...]) -> None:
        super().__init__(sites)
        self.seen: dict[tuple[str, str, Site], Any] = {}

    def _put(self, key: Any, value: Any, size: int) -> None:
        if key.destination == ARBITER:
            self.seen[key.name, key.tag, key.source] = value
        super()._put(key, value, size)


def test_what_the_arbiter_gets_of_one_party_looks_like_noise(tmp_path: Path) -> None:
    """Equal data in two runs give unlike messages, and the same sums."""
    features = np.repeat(np.eye(4), 8, axis=0)  # few, small, equal distances
    sites = (GUEST, *HOSTS[:2], ARBITER)
    seen = []
    for _ in range(2):
        federation = Recording(sites)
        tables = {"train_data": spread_over(features, 2)}
        outputs_of(run(tmp_path, tables, federation=federation, k=2, random_stat=1))
        seen.append(federation.seen)
    first, second = seen
    hidden = [key for key in first if key[0].endswith(("_dist", "_tol"))]
    assert {key[0] for key in hidden} == {"guest_dist", "host_dist", "guest_tol", "host_tol"}
    for key in hidden:
        assert (first[key] != second[key]).all()
        if first[key].size > 1:
            assert len(np.unique(first[key])) == first[key].size
            high = (first[key] >> np.uint64(63)).mean()
            assert 0.2 < high < 0.8
    for name, tag in {(key[0].partition("_")[2], key[1]) for key in hidden}:
        totals = [
            sum(v for k, v in run_seen.items() if k[0].endswith(f"_{name}") and k[1] == tag)
            for run_seen in seen
        ]
        np.testing.assert_array_equal(*totals)
    others = {key[0] for key in first} - {key[0] for key in hidden}
    assert others == {"kmeans_plan", "distance_scale"}


def test_an_arbiter_that_has_data_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.unit.components import kmeans_parties

    same = Site(Role.ARBITER, HOST.party_id)
    tables = {"train_data": spread_over(blobs(rows=ROWS), 1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kmeans_parties, "ARBITER", same)
        outputs_of(run(tmp_path, tables, k=2))
    said = [r.getMessage() for r in caplog.records if "is arbiter and host" in r.getMessage()]
    assert len(said) == 3


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("k", [2, 5, 64])
def test_no_sum_reaches_the_sign(parties: int, k: int) -> None:
    points = np.random.default_rng(parties).uniform(-1e3, 1e3, size=(200, 4))
    bits = distance_bits(points)
    largest = squared_distances(points, points).max()
    assert largest < 2.0**bits <= 16 * largest
    scale = scale_for(bits, parties=parties, rows=200)
    assert parties * 2.0 ** (bits + scale.shift) <= 2.0**SUM_BITS
    assert parties * k * 2.0 ** (bits + scale.movement_shift(k)) <= 2.0**SUM_BITS


def test_means_of_equal_rows_are_these_rows() -> None:
    features = np.full((7, 2), 0.1)  # their sum divided by 7 is another number
    assert features.mean(axis=0)[0] != 0.1
    moved = means(features, np.zeros(7, dtype=np.int32), features[:1])
    assert moved.tolist() == [[0.1, 0.1]]
    assert distance_bits(features) == distance_bits(features, moved) == -900


def test_a_party_with_equal_rows_takes_no_digits_from_the_others(tmp_path: Path) -> None:
    features = np.column_stack([np.full(30, 0.1), blobs(rows=30, columns=1)[:, 0] * 1e-40])
    outputs = outputs_of(run(tmp_path, {"train_data": spread_over(features, 1)}, k=3, tol=0.0))
    assert min(outputs[GUEST].summary["cluster_sizes"].values()) > 0
