"""A guest's own features: what a caller's row lacks is looked up in this party's source.

Looked up are the ids that the caller sent for the partners, and features that the source names as
ids; those stay here. A value of the caller wins, also one that is null. A row that lacks nothing is
not looked up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedflow.serving.codes import ItemAnswer, failed
from fedflow.serving.partners.messages import IdValue
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.sources.source import FeatureFault, FeatureSource, Ids, failed_source

logger = logging.getLogger(__name__)


class GuestFeatures:
    """Completes rows. Thread-safe."""

    def __init__(self, source: FeatureSource) -> None:
        self._source = source

    def scored(
        self,
        rows: Sequence[OnlineRow],
        inputs: Sequence[str],
        score: Callable[[Sequence[OnlineRow]], list[ItemAnswer]],
        *,
        deadline_s: float,
    ) -> list[ItemAnswer]:
        """Return what `score` answers to completed rows; a row without features has its error.

        `inputs` are the columns of the model; `deadline_s` is a moment of the monotonic clock.
        """
        lacking = [n for n, row in enumerate(rows) if any(i not in row.features for i in inputs)]
        found = self._find([self._ids(rows[n]) for n in lacking], deadline_s)
        full, errors = dict(enumerate(rows)), dict[int, ItemAnswer]()
        for number, one in zip(lacking, found, strict=True):
            if isinstance(one, FeatureFault):
                errors[number] = failed(one.retcode, f"the guest's features: {one.reason}")
                del full[number]
            else:
                full[number] = _completed(rows[number], inputs, one)
        answers = iter(score(list(full.values())) if full else [])
        return [errors[n] if n in errors else next(answers) for n in range(len(rows))]

    def _find(
        self, ids: Sequence[Ids], deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        """Return what the source has; if it raises, no row has anything."""
        if not ids:
            return []
        try:
            found = self._source.find(ids, deadline_s=deadline_s)
        except Exception:
            logger.exception("The feature source failed", extra={"action": "feature_source"})
            return [failed_source("the source failed")] * len(ids)
        if len(found) != len(ids):
            return [failed_source("the source gave another number of items")] * len(ids)
        return found

    def _ids(self, row: OnlineRow) -> dict[str, IdValue]:
        """Return what may find the features of a row."""
        own: dict[str, IdValue] = {}
        for name in self._source.id_names:
            value = row.features.get(name)
            if isinstance(value, str | int | float):
                own[name] = value
        return {**own, **row.ids}


def _completed(row: OnlineRow, inputs: Sequence[str], found: Mapping[str, Any]) -> OnlineRow:
    own = {name: found[name] for name in inputs if name in found}
    return replace(row, features={**own, **row.features})
