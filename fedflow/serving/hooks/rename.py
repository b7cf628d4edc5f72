"""Callers' names of features become the model's.

{hook: rename, options: {names: {age: x0, income: x1}}}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from fedflow.base.errors.serving_process import HookNotUsable
from fedflow.serving.hooks.hook import HookRow, RowFault, options_as


class RenameOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the hook `rename`."""

    names: dict[str, str]  #: callers' -> the model's; others stay as they are


class Rename:
    """Renames features."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def before(self, rows: Sequence[HookRow]) -> list[HookRow | RowFault]:
        """Return rows by the names of the model."""
        return [self._renamed(row) for row in rows]

    def _renamed(self, row: HookRow) -> HookRow | RowFault:
        given = {self._names.get(name, name): value for name, value in row.features.items()}
        if len(given) < len(row.features):
            count = Counter(self._names.get(name, name) for name in row.features)
            return RowFault(reason=f"{count.most_common(1)[0][0]} is there by two names")
        return replace(row, features=given)


def open_hook(options: Mapping[str, Any]) -> Rename:
    """Raises: HookNotUsable."""
    names = options_as(options, RenameOptions).names
    for name, count in Counter(names.values()).items():
        if count > 1:
            raise HookNotUsable(path="options.names", reason=f"two names become {name!r}")
    return Rename(names)
