"""Points of probabilities, by the formula of the component Scorecard.

    {hook: scorecard, options: {offset: 500, factor: 20, factor_base: 2}}

The options are the parameters of that component. The score is the probability of the second class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedflow.base.errors.serving_process import HookNotUsable
from fedflow.components.scoring.scorecard import ScorecardParams, credit_scores
from fedflow.serving.hooks.hook import HookAnswer, HookRow, RowFault, options_as


class ScorecardPoints:
    """Gives points to scores."""

    def __init__(self, params: ScorecardParams) -> None:
        self._params = params

    def after(
        self, rows: Sequence[HookRow], answers: Sequence[HookAnswer]
    ) -> list[HookAnswer | RowFault]:
        """Return answers with a credit score."""
        scores = [_probability(one.score) for one in answers]
        points = credit_scores(np.array([0.5 if s is None else s for s in scores]), self._params)
        return [
            RowFault(reason="scorecard needs a probability, and the score is none")
            if score is None
            else replace(answer, credit_score=number)
            for answer, score, number in zip(answers, scores, points.tolist(), strict=True)
        ]


def _probability(score: float | list[float] | None) -> float | None:
    if score is None or isinstance(score, list) or not 0 <= score <= 1:
        return None
    return score


def open_hook(options: Mapping[str, Any]) -> ScorecardPoints:
    """Raises: HookNotUsable."""
    params = options_as(options, ScorecardParams)
    try:
        params.check()
    except ValueError as exc:
        name, _, reason = str(exc).partition(": ")
        raise HookNotUsable(path=f"options.{name}", reason=reason) from exc
    return ScorecardPoints(params)
