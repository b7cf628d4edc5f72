"""Decisions by the score, with several cuts.

    {hook: threshold, options: {cuts: [0.2, 0.6], names: [accept, review, reject]}}

A score above a cut belongs to the next name, as above the threshold of a predict job.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import Annotated, Any, Literal

import msgspec

from fedflow.base.errors.serving_process import HookNotUsable
from fedflow.serving.hooks.hook import HookAnswer, HookRow, RowFault, options_as


class ThresholdOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the hook `threshold`."""

    cuts: Annotated[list[float], msgspec.Meta(min_length=1, max_length=1_000)]  #: ascending
    names: list[str | int]  #: one more than cuts, from the lowest scores on
    by: Literal["score", "credit_score"] = "score"
    member: str | None = None  #: of the answer; None: the decision is the label


class Threshold:
    """Says what scores mean."""

    def __init__(self, options: ThresholdOptions) -> None:
        self._options = options

    def after(
        self, rows: Sequence[HookRow], answers: Sequence[HookAnswer]
    ) -> list[HookAnswer | RowFault]:
        """Return answers with a decision."""
        return [self._decided(one) for one in answers]

    def _decided(self, answer: HookAnswer) -> HookAnswer | RowFault:
        options = self._options
        value = answer.score if options.by == "score" else answer.credit_score
        if value is None or isinstance(value, list):
            return RowFault(reason=f"threshold needs one number, and {options.by} is none")
        decision = options.names[bisect_left(options.cuts, value)]
        if options.member is None:
            return replace(answer, label=decision)
        return replace(answer, more={**answer.more, options.member: decision})


def open_hook(options: Mapping[str, Any]) -> Threshold:
    """Raises: HookNotUsable."""
    given = options_as(options, ThresholdOptions)
    if not all(map(isfinite, given.cuts)) or any(a >= b for a, b in pairwise(given.cuts)):
        raise HookNotUsable(path="options.cuts", reason="each is larger than the one before it")
    if len(given.names) != len(given.cuts) + 1:
        reason = f"{len(given.cuts)} cuts need {len(given.cuts) + 1} names"
        raise HookNotUsable(path="options.names", reason=reason)
    return Threshold(given)
