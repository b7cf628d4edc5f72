"""HeteroKmeans against plain k-means on the joined table: clusters, model, metrics, prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.domain.site import Site
from fedflow.sdk import Inputs, TableKind
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import outputs_of, run_component
from tests.unit.components.kmeans_parties import (
    ARBITER,
    GUEST,
    HOSTS,
    Floats,
    blobs,
    centroids_of,
    first_rows,
    lloyd,
    rows_of,
    run,
    spread_over,
)


def trained(
    path: Path, features: Floats, *, hosts: int = 1, labels: Any = None, **params: Any
) -> dict[Site, Any]:
    tables = {"train_data": spread_over(features, hosts, labels=labels)}
    return outputs_of(run(path, tables, random_stat=7, **params))


@pytest.mark.parametrize("hosts", [1, 2, 3])
def test_the_result_is_that_of_plain_k_means(hosts: int, tmp_path: Path) -> None:
    features = blobs()
    outputs = trained(tmp_path, features, hosts=hosts, k=4, tol=1e-6)
    start = features[first_rows(len(features), 4, 7)]
    centroids, clusters, iterations, converged = lloyd(features, start, max_iter=300, tol=1e-6)
    assert converged
    assert iterations > 3
    for site in (GUEST, *HOSTS[:hosts]):
        assert rows_of(outputs[site])["predicted_cluster_index"] == clusters.tolist()
        assert outputs[site].summary["iterations"] == iterations
    found = centroids_of(outputs, (GUEST, *HOSTS[:hosts]))
    np.testing.assert_allclose(found, centroids, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("scale", [1e-90, 1e-6, 1.0, 1e7, 1e90])
def test_the_result_is_that_of_scikit_learn_on_any_scale(scale: float, tmp_path: Path) -> None:
    from sklearn.cluster import KMeans

    features = blobs(rows=60)
    start = features[first_rows(60, 3, 7)]
    known = KMeans(3, init=start, n_init=1, algorithm="lloyd", tol=0.0).fit(features)
    outputs = trained(tmp_path, features * scale, k=3, tol=0.0)
    assert rows_of(outputs[GUEST])["predicted_cluster_index"] == known.labels_.tolist()
    found = centroids_of(outputs, (GUEST, HOSTS[0])) / scale
    np.testing.assert_allclose(found, known.cluster_centers_, rtol=1e-9)
    assert outputs[GUEST].summary["is_converged"] is True


def test_max_iter_ends_a_training_that_has_not_converged(tmp_path: Path) -> None:
    features = blobs()
    outputs = trained(tmp_path, features, k=4, max_iter=2, tol=0.0)
    start = features[first_rows(len(features), 4, 7)]
    centroids, clusters, _, _ = lloyd(features, start, max_iter=2, tol=0.0)
    assert outputs[ARBITER].summary["is_converged"] is False
    assert outputs[ARBITER].summary["iterations"] == 2
    assert rows_of(outputs[GUEST])["predicted_cluster_index"] == clusters.tolist()
    np.testing.assert_allclose(centroids_of(outputs, (GUEST, HOSTS[0])), centroids, rtol=1e-12)


def test_the_movements_of_all_hosts_count(tmp_path: Path) -> None:
    """Only the last host's columns tell rows apart: what FATE leaves out."""
    features = np.zeros((40, 4))
    features[:, 3] = np.random.default_rng(1).normal(size=40)
    outputs = trained(tmp_path, features, hosts=3, k=3, tol=1e-9)
    start = features[first_rows(40, 3, 7)]
    _, clusters, iterations, _ = lloyd(features, start, max_iter=300, tol=1e-9)
    assert iterations > 1
    assert outputs[HOSTS[2]].summary["iterations"] == iterations
    assert rows_of(outputs[GUEST])["predicted_cluster_index"] == clusters.tolist()


def test_a_seed_repeats_the_result_bit_for_bit_and_none_does_not(tmp_path: Path) -> None:
    tables = {"train_data": spread_over(blobs(), 2)}
    seeds = (11, 11, None, None)
    found = [outputs_of(run(tmp_path, tables, k=5, max_iter=3, random_stat=s)) for s in seeds]
    for site in (GUEST, *HOSTS[:2], ARBITER):
        first, again = (outputs[site] for outputs in found[:2])
        assert first.model == again.model
        assert first.summary == again.summary
        assert rows_of(first) == rows_of(again)
    assert rows_of(found[0][ARBITER], 1) == rows_of(found[1][ARBITER], 1)
    assert found[2][GUEST].model != found[3][GUEST].model


def test_a_cluster_without_rows_keeps_its_centroid(tmp_path: Path) -> None:
    features = np.array([[0.0, 0.0]] * 5 + [[9.0, 9.0]] * 5)  # several first centroids are equal
    outputs = trained(tmp_path, features, k=5)
    param = outputs[GUEST].model.param
    rows = [part["cluster"][1] for part in param["cluster_detail"]]
    assert sorted(rows) == [0, 0, 0, 5, 5]
    assert {row["centroid"][0] for row in param["centroid_detail"]} == {0.0, 9.0}
    shapes = rows_of(outputs[ARBITER])
    assert shapes["cluster_sample_count"] == [5, 5]
    assert shapes["inter_cluster_dist"] == ["[162.0]", "[162.0]"]


def test_rows_that_are_all_equal_are_one_cluster(tmp_path: Path) -> None:
    results = run(tmp_path, {"train_data": spread_over(np.ones((6, 2)), 1)}, k=2, random_stat=1)
    outputs = outputs_of(results)
    assert rows_of(outputs[GUEST])["predicted_cluster_index"] == [0] * 6
    assert rows_of(outputs[ARBITER])["inter_cluster_dist"] == ["[]"]
    assert outputs[ARBITER].summary["dbi_history"] == []
    assert results[ARBITER].metrics == {}


def test_as_many_clusters_as_rows_are_allowed(tmp_path: Path) -> None:
    outputs = trained(tmp_path, blobs(rows=6), k=6)
    assert sorted(rows_of(outputs[GUEST])["predicted_cluster_index"]) == list(range(6))


def test_the_model_has_the_names_and_fields_of_fate(tmp_path: Path) -> None:
    outputs = trained(tmp_path, blobs(rows=20), k=3, max_iter=50, tol=0.01)
    for site in (GUEST, HOSTS[0], ARBITER):
        model = outputs[site].model
        assert (model.meta_name, model.param_name) == ("HeteroKmeansMeta", "HeteroKmeansParam")
        assert model.meta == {"k": 3, "tol": 0.01, "max_iter": 50}
        assert list(model.param) == [
            "count_of_clusters",
            "max_interation",
            "converged",
            "cluster_detail",
            "centroid_detail",
            "header",
        ]
        assert model.param["count_of_clusters"] == 3
        detail = [part["cluster"] for part in model.param["cluster_detail"]]
        assert [index for index, _, _ in detail] == [0, 1, 2]
        assert sum(rows for _, rows, _ in detail) == 20
        assert sum(share for _, _, share in detail) == pytest.approx(1.0)
    assert outputs[HOSTS[0]].model.param["header"] == ["x0", "x1", "x2"]
    assert outputs[ARBITER].model.param["header"] == []
    assert outputs[ARBITER].model.param["centroid_detail"] == []


def test_the_index_of_each_iteration_is_that_of_scikit_learn(tmp_path: Path) -> None:
    from sklearn.metrics import davies_bouldin_score

    features = blobs()
    tables = {"train_data": spread_over(features, 2)}
    results = run(tmp_path, tables, k=3, random_stat=7, tol=0.0)
    metric = results[ARBITER].metrics["train", "DBI"]
    iterations = outputs_of(results)[ARBITER].summary["iterations"]
    assert metric.metric_type == "DBI"
    assert metric.meta["unit_name"] == "iters"
    assert [x for x, _ in metric.points] == list(range(iterations + 1))
    clusters = rows_of(outputs_of(results)[GUEST])["predicted_cluster_index"]
    expected = davies_bouldin_score(features, clusters)
    assert metric.points[-1][1] == pytest.approx(expected, rel=1e-9)
    assert outputs_of(results)[ARBITER].summary["dbi_history"] == [y for _, y in metric.points]
    assert results[GUEST].metrics == {}


def test_the_arbiter_describes_clusters_and_rows(tmp_path: Path) -> None:
    features = blobs()
    outputs = trained(tmp_path, features, k=3, tol=0.0)
    start = features[first_rows(len(features), 3, 7)]
    centroids, clusters, _, _ = lloyd(features, start, max_iter=300, tol=0.0)
    away = np.linalg.norm(features - centroids[clusters], axis=1)
    shapes, rows = rows_of(outputs[ARBITER]), rows_of(outputs[ARBITER], 1)
    assert shapes["cluster_index"] == ["0", "1", "2"]
    assert shapes["cluster_sample_count"] == np.bincount(clusters).tolist()
    inner = [away[clusters == c].mean() for c in range(3)]
    assert shapes["cluster_inner_dist"] == pytest.approx(inner)
    assert shapes["max_radius"] == pytest.approx([away[clusters == c].max() for c in range(3)])
    assert rows["row"] == [str(i) for i in range(len(features))]
    assert rows["predicted_cluster_index"] == clusters.tolist()
    assert rows["distance"] == pytest.approx(away)
    assert set(rows["type"]) == set(shapes["type"]) == {"train"}


def test_evaluation_reads_the_tables_as_they_are(tmp_path: Path) -> None:
    from sklearn import metrics as sk

    features, labels = blobs(), np.arange(90) % 3
    outputs = trained(tmp_path, features, labels=labels, k=3)
    clusters = rows_of(outputs[GUEST])["predicted_cluster_index"]
    params = {"eval_type": "clustering", "run_clustering_arbiter_metric": True}
    found = {}
    for site in (GUEST, HOSTS[0], ARBITER):
        inputs = Inputs(data={"data": [("kmeans_0", outputs[site].data[0])]}, model={})
        results = run_component(
            Evaluation,
            sites=[site],
            work_dir=tmp_path,
            params={site: params},
            inputs={site: inputs},
        )
        found[site] = outputs_of(results)[site].summary
    at_guest = found[GUEST]["kmeans_0"]["train"]
    expected = sk.adjusted_rand_score(labels, clusters)
    assert at_guest["adjusted_rand_score"] == pytest.approx(expected, abs=1e-6)
    index = sk.davies_bouldin_score(features, clusters)
    at_arbiter = found[ARBITER]["kmeans_0"]["train"]
    assert at_arbiter["davies_bouldin_index"] == pytest.approx(index, rel=1e-2)
    assert at_arbiter["davies_bouldin_index"] == pytest.approx(
        outputs[ARBITER].summary["dbi_history"][-1], abs=1e-6
    )
    assert found[HOSTS[0]] == {}


def test_validation_rows_go_to_the_clusters_of_the_training(tmp_path: Path) -> None:
    features, more = blobs(), blobs(rows=30, seed=5) * 3.0  # partly beyond the training rows
    ports = {"train_data": spread_over(features, 1), "validate_data": spread_over(more, 1)}
    results = run(tmp_path, ports, k=3, random_stat=7)
    outputs = outputs_of(results)
    table = rows_of(outputs[HOSTS[0]])
    assert table["type"] == ["train"] * 90 + ["validate"] * 30
    centroids = centroids_of(outputs, (GUEST, HOSTS[0]))
    nearest = ((more[:, None] - centroids[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert table["predicted_cluster_index"][90:] == nearest.tolist()
    assert sum(outputs[GUEST].summary["cluster_sizes"].values()) == 90
    assert rows_of(outputs[ARBITER])["type"] == ["train"] * 3 + ["validate"] * len(set(nearest))
    assert results[GUEST].progress[-1] == 1.0
    assert list(results[HOSTS[0]].progress) == sorted(results[HOSTS[0]].progress)


def test_a_model_puts_other_rows_into_its_clusters(tmp_path: Path) -> None:
    fitted = trained(tmp_path, blobs(), hosts=2, k=3)
    models = {site: outputs.model for site, outputs in fitted.items()}
    other = blobs(rows=2, seed=9)  # fewer rows than clusters
    results = run(tmp_path, {"test_data": spread_over(other, 2)}, models=models)
    outputs = outputs_of(results)
    centroids = centroids_of(fitted, (GUEST, *HOSTS[:2]))
    nearest = ((other[:, None] - centroids[None]) ** 2).sum(axis=2).argmin(axis=1).tolist()
    for site in (GUEST, *HOSTS[:2]):
        table = rows_of(outputs[site])
        assert table["predicted_cluster_index"] == nearest
        assert set(table["type"]) == {"predict"}
        assert outputs[site].model is None
    assert results[ARBITER].metrics == {}
    assert rows_of(outputs[ARBITER], 1)["predicted_cluster_index"] == nearest


def test_columns_are_found_by_their_names_in_a_prediction(tmp_path: Path) -> None:
    features = blobs(rows=30)
    fitted = trained(tmp_path, features, k=3)
    tables = spread_over(features, 1)
    host = tables[HOSTS[0]]
    tables[HOSTS[0]] = host.select(["id", "x2", "x0", "x1"]).append_column("more", host["x0"])
    models = {site: outputs.model for site, outputs in fitted.items()}
    outputs = outputs_of(run(tmp_path, {"test_data": tables}, models=models))
    clusters = rows_of(fitted[GUEST])["predicted_cluster_index"]
    assert rows_of(outputs[GUEST])["predicted_cluster_index"] == clusters


def test_labels_match_ids_and_kinds_stand_in_the_output(tmp_path: Path) -> None:
    labels = [None if i == 3 else i % 2 for i in range(20)]
    match_ids = [f"m{i}" for i in range(20)]
    tables = spread_over(blobs(rows=20), 1, labels=labels, match_id=match_ids)
    outputs = outputs_of(run(tmp_path, {"train_data": tables}, k=2))
    schema = outputs[GUEST].data[0].schema
    assert (schema.kind, schema.label) == (TableKind.PREDICTIONS, "label")
    names = ["id", "match_id", "label", "predicted_cluster_index", "type"]
    assert list(schema.names) == names
    assert rows_of(outputs[GUEST])["label"] == labels
    assert rows_of(outputs[GUEST])["match_id"] == match_ids
    assert rows_of(outputs[HOSTS[0]])["label"] == [None] * 20
    assert outputs[GUEST].data[1] is None


def test_weights_and_a_model_beside_training_rows_have_no_effect(tmp_path: Path) -> None:
    features = blobs(rows=30)
    plain = trained(tmp_path, features, k=3)
    tables = spread_over(features, 1, weight=np.linspace(0.1, 5, 30))
    models = {site: outputs.model for site, outputs in plain.items()}
    results = run(tmp_path, {"train_data": tables}, models=models, k=3, random_stat=7)
    assert outputs_of(results)[GUEST].model == plain[GUEST].model
    assert [w.code for w in results[GUEST].warnings] == ["NoEffect", "NoEffect"]
    assert [w.code for w in results[HOSTS[0]].warnings] == ["NoEffect"]


def test_every_value_that_is_sent_is_read(tmp_path: Path) -> None:
    tables = {"train_data": spread_over(blobs(), 2), "eval_data": spread_over(blobs(seed=4), 2)}
    federation = LocalFederation((GUEST, *HOSTS[:2], ARBITER))
    outputs_of(run(tmp_path, tables, federation=federation, k=3, random_stat=7))
    assert federation.unread() == []
