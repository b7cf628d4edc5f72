"""How rows are scored: the guest's own part, the hosts' parts, and both together."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Final

from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.serving.codes import OF_HOST, Degraded, ItemAnswer, ServingCode, failed, failed_at_host
from fedflow.serving.guest_features import GuestFeatures
from fedflow.serving.joining import JoinedRequests, TooManyWait, WaitedTooLong
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.models import ServedModel
from fedflow.serving.online import OnlineScore
from fedflow.serving.partners.partner_parts import HostPart, OnlineRow, PartnerParts
from fedflow.serving.settings import ServingLimits

logger = logging.getLogger(__name__)

MOST_VALUES: Final = 100_000  #: features in all rows of a request

_CASE_ID: Final = re.compile(r"[0-9A-Za-z_.:-]{1,64}")
_BUSY: Final = "so many requests of this model wait already that this one is refused"
_LATE: Final = "the request was not answered in time"
_UNUSABLE: Final = OF_HOST + ServingCode.BAD_RESPONSE
_DEFECT: Final = "internal error; the log has the details"


def case_id_of(given: str, other: str) -> str:
    """Return the id that a caller gave, if it may stand in a log, else the other one."""
    return given if _CASE_ID.fullmatch(given) else other


class Inference:
    """Scores rows at the guest. Thread-safe."""

    def __init__(
        self,
        partners: PartnerParts,
        *,
        limits: ServingLimits,
        metrics: ServingMetrics,
        clock: Clock,
        features: GuestFeatures | None = None,
    ) -> None:
        """`features` complete rows; None: callers send all."""
        self._features = features
        self._partners = partners
        self._limits = limits
        self._metrics = metrics
        self._clock = clock

    def single(self, served: ServedModel, row: OnlineRow, deadline_s: float) -> ItemAnswer:
        """Return the score of a row, perhaps computed together with those of others.

        `deadline_s` is a moment of the monotonic clock. Rows that are computed together have the
        time of the one that waits longest.
        """

        def work(rows: Sequence[OnlineRow]) -> list[ItemAnswer]:
            return self._score(served, rows, deadline_s=max(one.deadline_s for one in rows))

        wait_s = deadline_s - self._clock.monotonic_s()
        try:
            line = self._line(served, row.service_id)
            return line.run(replace(row, deadline_s=deadline_s), work, wait_s=wait_s)
        except TooManyWait:
            return failed(ServingCode.OVERLOAD, _BUSY)
        except WaitedTooLong:
            return failed(ServingCode.NETWORK, _LATE)

    def _line(self, served: ServedModel, service_id: str) -> JoinedRequests[OnlineRow, ItemAnswer]:
        line = served.lines.get(service_id)
        if line is None:
            limits = self._limits
            new: JoinedRequests[OnlineRow, ItemAnswer] = JoinedRequests(
                most=limits.joined, waiting=limits.waiting
            )
            line = served.lines.setdefault(service_id, new)
        return line

    def batch(
        self, served: ServedModel, rows: Sequence[OnlineRow], deadline_s: float
    ) -> list[ItemAnswer]:
        """Return the scores of rows, in their order; `deadline_s` as above."""
        return self._score(served, rows, deadline_s=deadline_s)

    def _score(
        self, served: ServedModel, rows: Sequence[OnlineRow], *, deadline_s: float
    ) -> list[ItemAnswer]:
        self._metrics.joined.observe(len(rows))
        try:
            if self._features is None:
                return self._scored(served, rows, deadline_s)
            score = partial(self._scored, served, deadline_s=deadline_s)
            inputs = served.model.inputs
            return self._features.scored(rows, inputs, score, deadline_s=deadline_s)
        except Exception:
            logger.exception("Rows could not be scored", extra={"action": "score"})
            return [failed(ServingCode.SYSTEM, _DEFECT)] * len(rows)

    def _scored(
        self, served: ServedModel, rows: Sequence[OnlineRow], deadline_s: float
    ) -> list[ItemAnswer]:
        model = served.model
        batch = model.read([row.features for row in rows])
        if batch.errors:
            again = partial(self._scored, served, deadline_s=deadline_s)
            return _without_bad_rows(rows, batch.errors, again)
        local = model.local(batch)
        parts = self._partners.ask(served, rows, deadline_s) if model.hosts else {}
        answers = _merged(served, local, parts, len(rows))
        if any(one.retcode == _UNUSABLE for one in answers):
            self._partners.forget(served, rows)
        served.drift.count(batch.features, answers)
        return answers


def _merged(
    served: ServedModel, local: object, parts: Mapping[str, HostPart], rows: int
) -> list[ItemAnswer]:
    errors: dict[int, ItemAnswer] = {}
    helped: dict[int, Degraded] = {}
    for part in parts.values():
        errors = {**part.errors, **errors}
        helped = {**part.helped, **helped}
    if len(errors) == rows:
        return [errors[row] for row in range(rows)]
    try:
        scores = served.model.merge(local, {p: part.payload for p, part in parts.items()})
    except FedflowError as exc:
        logger.warning("%s", exc.message, extra={"action": "merge"})
        party = str(exc.fields.get("party", next(iter(parts), "")))
        fault = failed_at_host(party, ServingCode.BAD_RESPONSE, str(exc.message))
        return [errors.get(row, fault) for row in range(rows)]
    return [
        errors[row] if row in errors else _answer(one, helped.get(row))
        for row, one in enumerate(scores)
    ]


def _without_bad_rows(
    rows: Sequence[OnlineRow],
    errors: Mapping[int, str],
    scored: Callable[[Sequence[OnlineRow]], list[ItemAnswer]],
) -> list[ItemAnswer]:
    """Return the answers to all rows, those that cannot be read left out of the calculation."""
    good = [row for number, row in enumerate(rows) if number not in errors]
    answers = iter(scored(good) if good else [])
    return [
        failed(ServingCode.FEATURES, errors[number]) if number in errors else next(answers)
        for number in range(len(rows))
    ]


def _answer(score: OnlineScore, degraded: Degraded | None) -> ItemAnswer:
    if score.error is not None or score.score is None:
        return failed(ServingCode.MERGE, score.error or "there is no score")
    values = score.score if isinstance(score.score, list) else [score.score]
    if not all(map(isfinite, values)):
        return failed(ServingCode.MERGE, "the score is no finite number")
    return ItemAnswer(
        score=score.score, label=score.label, credit_score=score.credit_score, degraded=degraded
    )
