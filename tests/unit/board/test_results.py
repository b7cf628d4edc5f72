"""Headline figures of a job as tiles, and the one that a list shows."""

from __future__ import annotations

import pytest

from fedflow.board.presenters.results import by_component, headline, tiles
from fedflow.domain.job.figures import figures_of

EVALUATED = figures_of(
    "evaluation_0",
    "Evaluation",
    {"lr_0": {"train": {"auc": 0.991834, "ks": 0.94}, "validate": {"auc": 0.9866, "ks": 0.928}}},
)
TRAINED = figures_of(
    "lr_0", "HeteroLR", {"is_converged": False, "iters": 10, "loss_history": [0.7, 0.354]}
)
JOINED = figures_of("intersection_0", "Intersection", {"intersect_num": 1569})


def test_a_trained_model_shows_scores_convergence_and_rows() -> None:
    found = [(t.label, t.value, t.detail, t.kind) for t in tiles((*JOINED, *TRAINED, *EVALUATED))]
    assert found == [
        ("AUC · validate", "0.9866", "train 0.9918", ""),
        ("KS · validate", "0.928", "train 0.94", ""),
        ("Converged", "no", "10 iterations, loss 0.354", "warn"),
        ("Rows in common", "1,569", "", ""),
    ]


def test_a_host_sees_no_scores_but_how_far_it_came() -> None:
    assert [t.label for t in tiles((*JOINED, *TRAINED))] == ["Converged", "Rows in common"]


def test_a_tile_leads_to_the_component_that_told_it() -> None:
    assert [t.component for t in tiles((*TRAINED, *EVALUATED))] == [
        "evaluation_0", "evaluation_0", "lr_0",
    ]  # fmt: skip


def test_without_a_word_of_convergence_the_iterations_count() -> None:
    figures = figures_of("sbt_0", "HeteroSecureBoost", {"loss_history": [0.7, 0.4]})
    assert [(t.label, t.value, t.detail) for t in tiles(figures)] == [
        ("Training", "2 iterations", "loss 0.4")
    ]


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ((*JOINED, *TRAINED, *EVALUATED), "AUC 0.9866"),
        ((*JOINED, *TRAINED), "10 iterations, loss 0.354"),
        (JOINED, "1,569 rows"),
        ((), ""),
    ],
)
def test_a_list_shows_what_counts_most(figures, text) -> None:
    assert headline(figures) == text


def test_each_component_has_a_figure_of_its_own() -> None:
    kept = figures_of("selection_0", "HeteroFeatureSelection", {"all": {"last_col_nums": 15}})
    assert by_component((*JOINED, *kept, *TRAINED, *EVALUATED)) == {
        "intersection_0": "1,569 rows",
        "selection_0": "15 columns",
        "lr_0": "10 iterations, loss 0.354",
        "evaluation_0": "AUC 0.9866",
    }
