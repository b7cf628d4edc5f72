"""Scores of a version: remembered, computed, or what a service gives in their place."""

from __future__ import annotations

from collections.abc import Sequence

from fedflow.serving.caches.results import CachedResults
from fedflow.serving.codes import Degraded, ItemAnswer, ServingCode, failed, is_partners_fault
from fedflow.serving.inference import Inference
from fedflow.serving.models import ServedModel
from fedflow.serving.partners.partner_parts import OnlineRow, scope_of
from fedflow.serving.services.service_options import DEFAULT_SCORE
from fedflow.serving.services.services import SelectedVersion


class Scores:
    """Scores rows. Thread-safe."""

    def __init__(self, inference: Inference, results: CachedResults | None) -> None:
        self._inference = inference
        self._results = results

    def of(
        self,
        chosen: SelectedVersion,
        rows: Sequence[OnlineRow],
        *,
        remembers: bool,
        until_s: float,
    ) -> list[ItemAnswer]:
        """Return what was answered to the same request before, and scores of the other rows.

        `remembers`: the caller named the request; `until_s` is a moment of the monotonic clock.
        """
        cached = self._results
        if not rows:
            return []
        if cached is None or not remembers or not chosen.options.cache_results:
            return self._scored(chosen, rows, until_s)
        given = [(row.request_id, row.features, row.ids) for row in rows]
        found = cached.find(scope_of(chosen.served, chosen.service_id), given)
        new = [row for row, known in zip(rows, found.answers, strict=True) if known is None]
        more = iter(self._scored(chosen, new, until_s) if new else [])
        items = [next(more) if known is None else known for known in found.answers]
        cached.store(found, [_as_stored(item) for item in items])
        return items

    def anew(
        self, served: ServedModel, rows: Sequence[OnlineRow], until_s: float
    ) -> list[ItemAnswer]:
        """Return scores, whatever was answered before."""
        return self._inference.batch(served, rows, until_s)

    def _scored(
        self, chosen: SelectedVersion, rows: Sequence[OnlineRow], until_s: float
    ) -> list[ItemAnswer]:
        options = chosen.options
        if len(rows) == 1:
            items = [self._inference.single(chosen.served, rows[0], until_s)]
        else:
            items = self._inference.batch(chosen.served, rows, until_s)
        if options.on_fault == DEFAULT_SCORE:
            items = [_or_default(item, options.default_score) for item in items]
        return items


def _as_stored(item: ItemAnswer) -> ItemAnswer:
    """Return what may be answered again: errors are not stored."""
    if item.degraded is None:
        return item
    return failed(ServingCode.NETWORK, item.degraded.why)


def _or_default(item: ItemAnswer, score: float) -> ItemAnswer:
    """Return the service's score for a row that has none because of a host."""
    if not is_partners_fault(item):
        return item
    return ItemAnswer(score=score, degraded=Degraded(how=DEFAULT_SCORE, why=item.message))
