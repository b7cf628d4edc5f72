"""Values of features that a row lacks, or that are null in it.

{hook: defaults, options: {values: {x0: 0.0, x1: -1}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from fedflow.serving.hooks.hook import HookRow, options_as


class DefaultsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the hook `defaults`."""

    values: dict[str, str | int | float | bool]


class Defaults:
    """Fills in values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def before(self, rows: Sequence[HookRow]) -> list[HookRow]:
        """Return rows without gaps."""
        return [
            replace(row, features={**self._values, **_given(row.features)})
            if any(row.features.get(name) is None for name in self._values)
            else row
            for row in rows
        ]


def _given(features: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in features.items() if value is not None}


def open_hook(options: Mapping[str, Any]) -> Defaults:
    """Raises: HookNotUsable."""
    return Defaults(options_as(options, DefaultsOptions).values)
