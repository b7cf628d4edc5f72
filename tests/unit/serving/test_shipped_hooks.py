"""The hooks that fedflow ships."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.serving_process import HookNotUsable
from fedflow.components.scoring.scorecard import ScorecardParams, credit_scores
from fedflow.serving.codes import ItemAnswer
from fedflow.serving.hooks.service_hooks import hooks_of
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.services.service_options import HookUse, ServiceOptions


def rows(hook: str, *features: Any, **options: Any) -> list[Any]:
    hooks = hooks_of(ServiceOptions(before=(HookUse(hook=hook, options=options),)))
    given = [OnlineRow(request_id="r", features=one, ids={"u": 1}) for one in features]
    found = hooks.before(given)
    return [one.features if isinstance(one, OnlineRow) else one.message for one in found]


def answers(hook: str, *items: ItemAnswer, **options: Any) -> list[ItemAnswer]:
    hooks = hooks_of(ServiceOptions(after=(HookUse(hook=hook, options=options),)))
    row = OnlineRow(request_id="r", features={}, ids={})
    return hooks.after([row] * len(items), items)


def test_rename_gives_features_the_names_of_the_model() -> None:
    assert rows("rename", {"age": 1, "x2": 2}, {}, {"a": 1, "b": 2}, {"age": 1, "x0": 2},
                names={"age": "x0", "a": "b", "b": "a"}) == [
        {"x0": 1, "x2": 2}, {}, {"b": 1, "a": 2}, "the hook rename: x0 is there by two names",
    ]  # fmt: skip


def test_defaults_fill_what_is_missing_or_null() -> None:
    assert rows("defaults", {}, {"x0": None, "x1": 3}, {"x0": 0, "x1": "", "x2": None},
                values={"x0": 7.5, "x1": "a"}) == [
        {"x0": 7.5, "x1": "a"}, {"x0": 7.5, "x1": 3}, {"x0": 0, "x1": "", "x2": None},
    ]  # fmt: skip


def test_threshold_names_the_range_of_a_score() -> None:
    scores = (0.0, 0.2, 0.2000001, 0.6, 0.61, 1.0)
    found = answers("threshold", *(ItemAnswer(score=one, label=1) for one in scores),
                    cuts=[0.2, 0.6], names=["accept", "review", "reject"])  # fmt: skip
    words = ["accept", "accept", "review", "review", "reject", "reject"]
    assert [one.label for one in found] == words
    assert [one.score for one in found] == list(scores)
    (one,) = answers("threshold", ItemAnswer(score=0.1, label=0, credit_score=612.5),
                     cuts=[600], names=[0, 1], by="credit_score", member="offer")  # fmt: skip
    assert (one.label, one.more) == (0, {"offer": 1})


def test_threshold_needs_one_number() -> None:
    items = [ItemAnswer(score=[0.1, 0.9, 0.0]), ItemAnswer(score=0.9)]
    found = answers("threshold", *items, cuts=[0.5], names=["a", "b"])
    assert [(one.retcode, one.label) for one in found] == [(140, None), (0, "b")]
    assert found[0].message == "the hook threshold: threshold needs one number, and score is none"


def test_scorecard_is_the_components_formula() -> None:
    scores = [0.0, 0.1, 0.5, 0.93, 1.0]
    found = answers("scorecard", *(ItemAnswer(score=one) for one in scores), offset=600, factor=50)
    params = ScorecardParams(offset=600, factor=50)
    assert [one.credit_score for one in found] == credit_scores(np.array(scores), params).tolist()
    assert found[2].credit_score == 600
    refused = answers("scorecard", ItemAnswer(score=1.5), ItemAnswer(score=[0.1, 0.9]),
                      ItemAnswer(score=0.5))  # fmt: skip
    assert [one.retcode for one in refused] == [140, 140, 0]


def test_labels_become_words() -> None:
    items = [ItemAnswer(score=0.5, label=one) for one in (0, 1, 1.0, "1", "x", None)]
    found = answers("labels", *items, labels={"0": "good", "1": "bad", "None": "never"})
    assert [one.label for one in found] == ["good", "bad", "bad", "bad", "x", None]
    (one,) = answers("labels", items[0], labels={"0": "good"}, member="word")
    assert (one.label, one.more) == (0, {"word": "good"})


@pytest.mark.parametrize(
    ("hook", "options", "path"),
    [
        ("threshold", {"cuts": [], "names": ["a"]}, "after[0].options.cuts"),
        ("threshold", {"cuts": [0.5, 0.5], "names": ["a", "b", "c"]}, "after[0].options.cuts"),
        ("threshold", {"cuts": [float("nan")], "names": ["a", "b"]}, "after[0].options.cuts"),
        ("threshold", {"cuts": [0.5], "names": ["a"]}, "after[0].options.names"),
        ("threshold", {"cuts": [0.5], "names": ["a", "b"], "by": "x"}, "after[0].options.by"),
        ("scorecard", {"factor_base": 1}, "after[0].options.factor_base"),
        ("scorecard", {"factor_base": 0}, "after[0].options.factor_base"),
        ("scorecard", {"points": 1}, "after[0].options"),
        ("labels", {"labels": {"a": None}}, "after[0].options.labels[...]"),
    ],
)
def test_options_that_do_not_fit_are_named(hook: str, options: Any, path: str) -> None:
    with pytest.raises(HookNotUsable) as caught:
        hooks_of(ServiceOptions(after=(HookUse(hook=hook, options=options),)))
    assert caught.value.fields["path"] == path
