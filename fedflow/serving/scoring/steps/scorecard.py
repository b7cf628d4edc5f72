"""Scorecard online: probabilities as credit scores."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fedflow.components.scoring.scorecard import ScorecardParams, credit_scores
from fedflow.domain.site import Role
from fedflow.serving.scoring.predicted import Predicted
from fedflow.serving.scoring.registry import StepSource


def scorecard(source: StepSource, predicted: Predicted) -> Predicted:
    """Return predictions with credit scores. Raises: ValueError: they are not of two classes."""
    params = source.params(ScorecardParams)
    if not params.need_run or source.site.role is not Role.GUEST:
        return predicted
    if len(predicted.labels) != 2:
        raise ValueError("the model before it does not predict two classes")
    return replace(predicted, credit=partial(credit_scores, params=params))
