"""Evaluation of clusters, and of each class against the rest, against scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.ids import PartyId
from fedflow.components.evaluation.clustering import agreement, davies_bouldin, nearest
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.sdk import BadData, Role, Site
from fedflow.testing.run import RunResult
from tests.unit.components.one_party import Party

ARBITER = Site(Role.ARBITER, PartyId("10000"))
CLUSTERING = {"eval_type": "clustering"}
GROUPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


def evaluate(
    party: Party, columns: Mapping[str, Any], *, labelled: bool = True, **params: Any
) -> RunResult:
    label = {"label": "label"} if labelled else {}
    others = [name for name in columns if name != "label"][1:]
    table = party.table(columns, kind="predictions", columns=tuple(others), **label)
    return party.result(Evaluation, ports={"data": [("kmeans_0", table)]}, **params)


def assigned(true: list[Any], clusters: list[Any], kind: str = "train") -> dict[str, Any]:
    """Return rows with their cluster, as HeteroKmeans writes them."""
    ids = [str(i) for i in range(len(true))]
    kinds = [kind] * len(true)
    return {"id": ids, "label": true, "predicted_cluster_index": clusters, "type": kinds}


def blobs(clusters: int = 3) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows in the plane and the cluster of each."""
    rng = np.random.default_rng(11)
    members = np.arange(60) % clusters
    return rng.normal(size=(60, 2)) + 2.0 * members[:, None], members


def shape_of(points: Any, members: Any) -> dict[str, Any]:
    """Return the table of clusters that describes these rows."""
    names = np.unique(members)
    centroids = np.array([points[members == c].mean(axis=0) for c in names])
    away = [
        np.linalg.norm(points[members == c] - centroids[i], axis=1) for i, c in enumerate(names)
    ]
    squared = ((centroids[:, None] - centroids[None]) ** 2).sum(axis=2)
    apart = [np.delete(row, i).tolist() for i, row in enumerate(squared)]
    return {
        "id": [str(c) for c in names],
        "cluster_sample_count": [len(a) for a in away],
        "cluster_inner_dist": [float(a.mean()) for a in away],
        "max_radius": [float(a.max()) for a in away],
        "inter_cluster_dist": apart,
        "type": ["train"] * len(names),
    }


@settings(deadline=None)
@given(GROUPS)
def test_agreement_is_that_of_scikit_learn(rows: list[tuple[int, int]]) -> None:
    from sklearn import metrics as sk
    from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix

    true, clusters = np.array(rows).T
    found = agreement(true, clusters)
    (_, only_cluster), (only_class, both) = pair_confusion_matrix(true, clusters)
    either = both + only_class + only_cluster
    assert found.contingency.tolist() == contingency_matrix(true, clusters).tolist()
    assert found.jaccard == pytest.approx(both / either if either else 1.0)
    assert found.fowlkes_mallows == pytest.approx(sk.fowlkes_mallows_score(true, clusters))
    assert found.adjusted_rand == pytest.approx(sk.adjusted_rand_score(true, clusters))


@pytest.mark.parametrize("clusters", [2, 3, 5])
def test_the_davies_bouldin_index_is_that_of_scikit_learn(clusters: int) -> None:
    from sklearn.metrics import davies_bouldin_score

    points, members = blobs(clusters)
    table = shape_of(points, members)
    found = davies_bouldin(
        np.array(table["cluster_inner_dist"]), np.array(table["inter_cluster_dist"])
    )
    assert found == pytest.approx(davies_bouldin_score(points, members), rel=1e-12)


def test_centroids_in_one_place_overlap_infinitely() -> None:
    assert davies_bouldin(np.zeros(2), np.zeros((2, 1))) == np.inf


def test_the_nearest_cluster_is_named_by_its_own_position() -> None:
    assert nearest(np.array([[9.0, 1.0], [9.0, 4.0], [1.0, 4.0]])).tolist() == [2, 2, 0]


def test_rows_with_their_cluster_give_the_label_measures(tmp_path: Path) -> None:
    from sklearn import metrics as sk

    true, clusters = [0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 0, 2]
    result = evaluate(Party(tmp_path), assigned(true, clusters), **CLUSTERING)
    metric = result.metrics["train", "kmeans_0"]
    assert metric.metric_type == "CLUSTERING_EVALUATION_SUMMARY"
    assert metric.points == [
        ("jaccard_similarity_score", round(2 / 5, 6)),
        ("fowlkes_mallows_score", round(float(sk.fowlkes_mallows_score(true, clusters)), 6)),
        ("adjusted_rand_score", round(float(sk.adjusted_rand_score(true, clusters)), 6)),
    ]
    table = result.metrics["train", "kmeans_0_contingency_matrix"].meta
    assert (table["true_labels"], table["predicted_labels"]) == ([0, 1, 2], [0, 1, 2])
    assert table["result_table"] == [[0, 2, 0], [2, 0, 0], [1, 0, 1]]
    assert result.outputs is not None
    assert result.outputs.summary == {"kmeans_0": {"train": dict(metric.points)}}


def test_rows_without_label_are_no_part_of_the_label_measures(tmp_path: Path) -> None:
    rows = assigned([0, None, 1], [0, 0, 1])
    result = evaluate(Party(tmp_path), rows, metrics=["jaccard"], **CLUSTERING)
    assert result.metrics["train", "kmeans_0"].points == [("jaccard_similarity_score", 1.0)]
    unlabelled = assigned([None, None], [0, 1])
    assert evaluate(Party(tmp_path), unlabelled, **CLUSTERING).metrics == {}


def test_a_row_without_cluster_is_refused(tmp_path: Path) -> None:
    error = evaluate(Party(tmp_path), assigned([0, 1], [0, None]), **CLUSTERING).error
    assert isinstance(error, BadData)
    assert "1 rows" in str(error)


@pytest.mark.parametrize("as_text", [False, True])
def test_clusters_give_their_shape_at_the_arbiter(as_text: bool, tmp_path: Path) -> None:
    from sklearn.metrics import davies_bouldin_score

    points, members = blobs()
    table = shape_of(points, members)
    if as_text:
        table["inter_cluster_dist"] = [str(row) for row in table["inter_cluster_dist"]]
    asked = {**CLUSTERING, "run_clustering_arbiter_metric": True}
    result = evaluate(Party(tmp_path, site=ARBITER), table, labelled=False, **asked)
    expected = round(float(davies_bouldin_score(points, members)), 6)
    assert result.metrics["train", "kmeans_0"].points == [("davies_bouldin_index", expected)]
    meta = result.metrics["train", "kmeans_0_distance_measure"].meta
    assert meta["cluster_index"] == ["0", "1", "2"]
    assert meta["radius"] == [round(r, 6) for r in table["max_radius"]]
    assert (meta["nearest_idx"][0], meta["nearest_idx"][2]) == ("1", "1")


def test_the_arbiter_measures_only_when_told_to(tmp_path: Path) -> None:
    table = shape_of(*blobs())
    party = Party(tmp_path, site=ARBITER)
    assert evaluate(party, table, labelled=False, **CLUSTERING).metrics == {}


@pytest.mark.parametrize(
    "change",
    [
        {"inter_cluster_dist": [[1.0], [1.0], [1.0]]},
        {"inter_cluster_dist": [[1.0, 2.0], [1.0, -2.0], [1.0, 2.0]]},
        {"inter_cluster_dist": ["[1, 2]", "[1, 2]", "nothing"]},
        {"cluster_inner_dist": [1.0, None, 2.0]},
        {"type": ["train", "validate", "train"]},
    ],
)
def test_clusters_that_cannot_be_measured_are_refused(
    change: dict[str, Any], tmp_path: Path
) -> None:
    table = {**shape_of(*blobs()), **change}
    result = evaluate(Party(tmp_path), table, labelled=False, **CLUSTERING)
    assert isinstance(result.error, BadData)


def classified(details: list[str], labels: list[Any]) -> dict[str, Any]:
    rows = len(labels)
    return {
        "id": [str(i) for i in range(rows)],
        "label": labels,
        "predict_result": labels,
        "predict_score": [0.5] * rows,
        "predict_detail": details,
        "type": ["validate"] * rows,
    }


UNFOLDED = {"eval_type": "multi", "unfold_multi_result": True}


@pytest.mark.parametrize("names", [(0, 1, 2), ("a", "b", "c"), (0.0, 1.0, 2.0)])
def test_each_class_is_measured_against_the_rest(names: tuple[Any, ...], tmp_path: Path) -> None:
    from sklearn.metrics import roc_auc_score, roc_curve

    rng = np.random.default_rng(2)
    codes = np.arange(60) % 3
    scores = rng.random((60, 3)) + 0.4 * np.eye(3)[codes]
    details = [str({str(n): s for n, s in zip(names, row)}) for row in scores.tolist()]
    labels = [names[code] for code in codes]
    result = evaluate(Party(tmp_path), classified(details, labels), **UNFOLDED)
    for code, name in enumerate(names):
        metric = result.metrics["validate", f"kmeans_0_class_{name}_ovr"]
        assert metric.metric_type == "ovr"
        fpr, tpr, _ = roc_curve(codes == code, scores[:, code])
        assert dict(metric.points) == pytest.approx(
            {
                "auc": roc_auc_score(codes == code, scores[:, code]),
                "ks": float((tpr - fpr).max()),
            },
            abs=1e-6,
        )
    assert result.metrics["validate", "kmeans_0"].points[0] == ("accuracy", 1.0)


def test_a_class_that_no_row_has_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    details = ["{'0': 0.5, '1': 0.5, '2': 0.1}", "{'0': 0.5, '1': 0.5, '2': 1}"]
    result = evaluate(Party(tmp_path), classified(details, [0, 1]), **UNFOLDED)
    names = {name for _, name in result.metrics}
    assert {"kmeans_0_class_0_ovr", "kmeans_0_class_1_ovr"} <= names
    assert "kmeans_0_class_2_ovr" not in names
    assert "class 2" in caplog.text


@pytest.mark.parametrize(
    "second",
    ["nothing", "[1]", "{'0': 1.0}", "{'0': 1.0, '1': 'x'}", "{'0': 1.0, '1': 2, '2': 3}", None],
)
def test_details_that_name_no_score_per_class_are_refused(second: Any, tmp_path: Path) -> None:
    details = ["{'0': 0.5, '1': 0.5}", second]
    result = evaluate(Party(tmp_path), classified(details, [0, 1]), **UNFOLDED)
    assert isinstance(result.error, BadData)
