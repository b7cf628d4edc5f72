"""Binary measures against scikit-learn and against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.components.evaluation.binary import BinaryScores, stability

ROWS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.500001, 0.9, 1.0])),
    min_size=2,
    max_size=40,
).filter(lambda rows: len({p for p, _ in rows}) == 2)


def build(rows: list[tuple[bool, float]]) -> tuple[np.ndarray, np.ndarray, BinaryScores]:  # type: ignore[type-arg]
    positive = np.array([p for p, _ in rows])
    scores = np.array([s for _, s in rows])
    return positive, scores, BinaryScores(positive, scores)


def drawn(rows: int = 1_000, *, decimals: int = 3) -> list[tuple[bool, float]]:
    rng = np.random.default_rng(7)
    positive = rng.random(rows) < 0.3
    scores = np.round(1 / (1 + np.exp(-rng.normal(positive * 1.2, 1.0))), decimals)
    return list(zip(positive.tolist(), scores.tolist(), strict=True))


@settings(deadline=None)
@given(ROWS)
def test_auc_is_the_share_of_pairs_in_right_order(rows: list[tuple[bool, float]]) -> None:
    positive, scores, measured = build(rows)
    pairs = scores[positive][:, None] - scores[~positive][None, :]
    assert measured.auc() == pytest.approx(float(((pairs > 0) + 0.5 * (pairs == 0)).mean()))


@settings(deadline=None)
@given(ROWS)
def test_counts_are_those_of_scores_above_the_threshold(rows: list[tuple[bool, float]]) -> None:
    positive, scores, measured = build(rows)
    thresholds = np.array([-1.0, 0.0, 0.1, 0.3, 0.5, 1.0, 2.0])
    tp, fp = measured.counts(thresholds)
    assert tp.tolist() == [int((positive & (scores > t)).sum()) for t in thresholds]
    assert fp.tolist() == [int((~positive & (scores > t)).sum()) for t in thresholds]


@pytest.mark.parametrize("decimals", [1, 3, 9])
def test_auc_and_roc_agree_with_scikit_learn(decimals: int) -> None:
    from sklearn.metrics import auc, roc_auc_score, roc_curve

    positive, scores, measured = build(drawn(decimals=decimals))
    assert measured.auc() == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    curve = measured.roc()
    fpr, tpr, _ = roc_curve(positive, scores)
    assert measured.exact_ks() == pytest.approx(float((tpr - fpr).max()), abs=1e-12)
    assert (curve.x[0], curve.y[0], curve.x[-1], curve.y[-1]) == (0, 0, 1, 1)
    assert len(curve.x) <= 102
    assert {*zip(curve.x, curve.y, strict=True)} <= {*zip(fpr, tpr, strict=True)}
    assert auc(curve.x, curve.y) == pytest.approx(measured.auc(), abs=5e-3)


def test_ks_is_the_largest_gap_over_the_hundred_cuts() -> None:
    positive, scores, measured = build(drawn(569))
    ordered = np.sort(scores)[::-1]
    gaps = []
    for k in range(100):
        above = scores > ordered[int(569 * k / 100)]
        gaps.append(above[positive].mean() - above[~positive].mean())
    value, fpr, tpr = measured.ks()
    assert value == pytest.approx(max(gaps))
    assert value <= measured.exact_ks()
    assert (len(fpr.x), fpr.y[-1], tpr.y[-1], tpr.x[-1]) == (101, 1.0, 1.0, 1.0)
    assert (tpr.y - fpr.y).max() == value


def test_a_perfect_ranking_has_auc_and_ks_one() -> None:
    _, _, measured = build([(False, 0.1), (False, 0.2), (True, 0.8), (True, 0.9)])
    assert (measured.auc(), measured.ks()[0], measured.exact_ks()) == (1.0, 1.0, 1.0)


def test_threshold_curves_agree_with_scikit_learn() -> None:
    from sklearn.metrics import accuracy_score, precision_score, recall_score

    positive, scores, measured = build(drawn())
    accuracy = measured.accuracy()
    precision, recall = measured.precision_and_recall()
    for i, t in enumerate(accuracy.thresholds):
        predicted = scores > t
        assert accuracy.y[i] == pytest.approx(accuracy_score(positive, predicted))
        assert recall.y[i] == pytest.approx(recall_score(positive, predicted))
        assert precision.y[i] == pytest.approx(
            precision_score(positive, predicted, zero_division=1.0)
        )
    assert recall.y[-1] == 1.0


def test_lift_and_gain_end_at_one_and_begin_at_the_top() -> None:
    positive, scores, measured = build(drawn())
    lift, gain = measured.lift_and_gain()
    assert (lift.x[-1], lift.y[-1], gain.x[-1], gain.y[-1]) == (1.0, 1.0, 1.0, 1.0)
    assert (np.diff(lift.x) > 0).all()
    for x, value, t in zip(lift.x, lift.y, lift.thresholds, strict=True):
        above = scores > t
        assert above.mean() == pytest.approx(x)
        assert positive[above].mean() / positive.mean() == pytest.approx(value)


def test_confusion_and_f1_stand_at_fixed_thresholds() -> None:
    from sklearn.metrics import confusion_matrix, f1_score

    positive, scores, measured = build(drawn())
    table, f1 = measured.confusion(), measured.f1()
    for i in (0, 1, 37, 50, 99):
        predicted = scores > i / 100
        assert confusion_matrix(positive, predicted).ravel().tolist() == [
            table[name][i] for name in ("tn", "fp", "fn", "tp")
        ]
        assert f1.y[i] == pytest.approx(f1_score(positive, predicted, zero_division=0.0))


def test_quantile_precision_and_recall_are_per_class() -> None:
    from sklearn.metrics import precision_recall_fscore_support

    positive, scores, measured = build(drawn())
    p, r, thresholds = measured.quantile_precision_recall()
    assert p.shape == r.shape == (21, 2)
    for i in (5, 10, 20):
        expected = precision_recall_fscore_support(
            positive, scores > thresholds[i], labels=[False, True], zero_division=1.0
        )
        assert p[i].tolist() == pytest.approx(expected[0].tolist())
        assert r[i].tolist() == pytest.approx(expected[1].tolist())


def test_one_class_is_noted_and_still_counted() -> None:
    _, _, measured = build([(False, 0.1), (False, 0.7)])
    assert not measured.has_both_classes
    assert measured.accuracy().y[-1] == 0.0
    assert measured.confusion()["tn"][50] == 1


def test_equal_scores_shift_nothing_and_moved_ones_do() -> None:
    positive, scores, _ = build(drawn(4_000, decimals=9))
    same = stability((positive, scores), (positive, scores))
    assert same.total == 0.0
    assert len(same.expected) == 20
    assert same.expected.sum() == 4_000
    moved = stability((positive, scores), (positive, scores * 0.5))
    assert moved.total > 0.25
    assert moved.actual.sum() == 4_000
    assert np.isfinite(moved.scores).all()


def test_stability_by_hand() -> None:
    train = (np.array([True, False] * 10), np.repeat([0.2, 0.8], 10))
    validate = (np.array([True] * 4), np.array([0.1, 0.2, 0.2, 0.9]))
    found = stability(train, validate)
    assert found.bounds.tolist() == [0.2, 0.8]
    assert found.expected.tolist() == [10, 10, 0]
    assert found.actual.tolist() == [3, 0, 1]
    share = [(0.75, 0.5), (1e-6, 0.5), (0.25, 1e-6)]
    assert found.scores.tolist() == pytest.approx([(a - e) * np.log(a / e) for a, e in share])
