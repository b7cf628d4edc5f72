"""Words for labels.

{hook: labels, options: {labels: {"0": good, "1": bad}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from fedflow.serving.hooks.hook import HookAnswer, HookRow, options_as


class LabelsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the hook `labels`."""

    labels: dict[str, str | int | float]  #: by the label's text; others stay as they are
    member: str | None = None  #: of the answer; None: the word takes the label's place


class Labels:
    """Replaces labels."""

    def __init__(self, options: LabelsOptions) -> None:
        self._options = options

    def after(self, rows: Sequence[HookRow], answers: Sequence[HookAnswer]) -> list[HookAnswer]:
        """Return answers with words."""
        return [self._worded(one) for one in answers]

    def _worded(self, answer: HookAnswer) -> HookAnswer:
        label, options = answer.label, self._options
        if isinstance(label, float) and label.is_integer():
            label = int(label)
        word = options.labels.get(str(label))
        if label is None or word is None:
            return answer
        if options.member is None:
            return replace(answer, label=word)
        return replace(answer, more={**answer.more, options.member: word})


def open_hook(options: Mapping[str, Any]) -> Labels:
    """Raises: HookNotUsable."""
    return Labels(options_as(options, LabelsOptions))
