"""Figures of components: what is taken from a summary, and which of them a job shows."""

from __future__ import annotations

import math

import pytest

from fedflow.domain.job.figures import (
    COLUMNS,
    CONVERGED,
    ITERATIONS,
    LOSS,
    MOST,
    MOST_OF_JOB,
    ROWS,
    Figure,
    figures_of,
    progress,
    scores,
    with_figures,
)

EVALUATED = {
    "hetero_lr_0": {
        "train": {"ks": 0.94, "auc": 0.99, "precision": 0.9},
        "validate": {"auc": 0.98, "ks": 0.93},
    }
}


def test_an_evaluation_has_the_scores_of_each_model_and_part_the_validated_first():
    found = figures_of("evaluation_0", "Evaluation", EVALUATED)
    assert [(f.model, f.part, f.name, f.value) for f in found] == [
        ("hetero_lr_0", "validate", "auc", 0.98),
        ("hetero_lr_0", "validate", "ks", 0.93),
        ("hetero_lr_0", "train", "auc", 0.99),
        ("hetero_lr_0", "train", "ks", 0.94),
    ]


def test_a_regression_is_told_by_its_error_and_what_it_explains():
    measures = {"explained_variance": 0.5, "r2_score": 0.4, "root_mean_squared_error": 2.0}
    found = figures_of("evaluation_0", "Evaluation", {"linr_0": {"validate": measures}})
    assert [f.name for f in found] == ["root_mean_squared_error", "r2_score"]


def test_a_training_tells_whether_it_converged_after_how_many_iterations_with_which_loss():
    summary = {"is_converged": False, "iters": 10, "loss_history": [0.7, 0.4, 0.35]}
    found = {f.name: f.value for f in figures_of("hetero_lr_0", "HeteroLR", summary)}
    assert found == {CONVERGED: 0.0, ITERATIONS: 10.0, LOSS: 0.35}


def test_iterations_are_counted_if_they_are_not_given():
    found = figures_of("sbt_0", "HeteroSecureBoost", {"loss_history": [0.7, 0.4]})
    assert {f.name: f.value for f in found} == {ITERATIONS: 2.0, LOSS: 0.4}


@pytest.mark.parametrize(
    ("summary", "name", "value"),
    [
        ({"intersect_num": 569, "intersect_rate": 1.0}, ROWS, 569.0),
        ({"all": {"last_col_nums": 15}}, COLUMNS, 15.0),
    ],
)
def test_what_is_left_is_counted(summary, name, value):
    (found,) = figures_of("c_0", "Any", summary)
    assert (found.name, found.value) == (name, value)


@pytest.mark.parametrize(
    "summary",
    [
        {}, {"is_converged": "yes"}, {"loss_history": [[1.0], [2.0]], "iters": True},
        {"loss_history": "long"}, {"all": 3}, {"intersect_num": math.nan},
        {"intersect_num": 10**400}, {"loss_history": [math.inf]},
    ],
)  # fmt: skip
def test_of_what_is_no_number_nothing_is_kept(summary):
    assert all(f.name == ITERATIONS for f in figures_of("c_0", "Any", summary))


@pytest.mark.parametrize(
    "summary", [{"a": 1}, {"a": {"b": 2}}, {"a": {"b": {"auc": "1"}}}, {1: {2: {3: 4}}}]
)
def test_an_evaluation_of_another_shape_has_no_figures(summary):
    assert figures_of("evaluation_0", "Evaluation", summary) == ()


def test_figures_are_bounded():
    many = {f"m_{n}": {"train": {"auc": 0.5}} for n in range(100)}
    found = figures_of("evaluation_0", "evaluation", many)
    assert len(found) == MOST
    known = ()
    for n in range(20):
        known = with_figures(known, f"e_{n}", found)
    assert len(known) == MOST_OF_JOB


def test_a_component_that_runs_again_replaces_its_figures_alone():
    old = figures_of("evaluation_0", "Evaluation", EVALUATED)
    other = Figure(component="lr_0", name=LOSS, value=0.3)
    new = Figure(component="evaluation_0", name="auc", value=0.5, model="lr_0", part="train")
    assert with_figures((*old, other), "evaluation_0", [new]) == (other, new)


def test_a_job_shows_the_scores_of_its_last_model_on_the_rows_that_count():
    found = figures_of("evaluation_0", "Evaluation", EVALUATED)
    later = figures_of("evaluation_1", "Evaluation", {"lr_1": {"train": {"auc": 0.7}}})
    assert [f.value for f in scores(found)] == [0.98, 0.93]
    assert [f.value for f in scores((*found, *later))] == [0.7]
    assert [f.value for f in scores((*found, *later), model="hetero_lr_0")] == [0.98, 0.93]
    assert scores(()) == ()


def test_progress_is_that_of_the_last_component_that_tells_it():
    one = Figure(component="lr_0", name=CONVERGED, value=0.0)
    two = Figure(component="lr_1", name=CONVERGED, value=1.0)
    assert progress([one, two], CONVERGED) == two
    assert progress([one], LOSS) is None
