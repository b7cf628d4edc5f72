"""How requests of callers are answered, whatever door they come through.

A door reads a `CallerRequest` and rows, and writes the answers. Here a version is chosen,
its scores are computed, and what was answered is counted and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import ServiceNotBound, TokenNotValid, VersionNotLoaded
from fedflow.base.values import dataclass
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.doors.caller_keys import ANYBODY, Caller, CallerKeys
from fedflow.serving.doors.tensors import undeclared_id
from fedflow.serving.hooks.service_hooks import NO_HOOKS
from fedflow.serving.inference import case_id_of
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.models import ServedModels
from fedflow.serving.partners.messages import IdValue
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.scores import Scores
from fedflow.serving.services.comparison import VersionComparison
from fedflow.serving.services.releases import Version
from fedflow.serving.services.selection import Header
from fedflow.serving.services.services import SelectedVersion, Services, version_of
from fedflow.serving.services.shadows import Shadows
from fedflow.serving.settings import ServingSettings

logger = logging.getLogger(__name__)

_TOO_MANY: Final = "more rows per second than the service answers"

BY_VERSION: Final = "version"
BY_DEFAULT: Final = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerRequest:
    """A request of a caller, without its rows."""

    kind: str  #: single, batch or infer
    case_id: str
    service_id: str = ""
    model_id: str = ""
    model_version: str = ""
    is_named: bool = False  #: the caller gave the case id
    header: Header
    caller: Caller = ANYBODY
    started_s: float  #: of the monotonic clock
    deadline_s: float = inf  #: the caller does not wait for longer

    def named(self, case_id: str) -> CallerRequest:
        """Return the request with the id that the caller gave, if it may stand in a log."""
        if not case_id_of(case_id, ""):
            return self
        return replace(self, case_id=case_id, is_named=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredRow:
    """The answer to a row, and the version that gave it."""

    chosen: SelectedVersion
    item: ItemAnswer


class Answering:
    """Answers requests. Thread-safe."""

    def __init__(
        self,
        models: ServedModels,
        services: Services,
        scores: Scores,
        shadows: Shadows,
        *,
        metrics: ServingMetrics,
        settings: ServingSettings,
        clock: Clock,
    ) -> None:
        self._models = models
        self._services = services
        self._scores = scores
        self._shadows = shadows
        self._metrics = metrics
        self._settings = settings
        self._limits = settings.limits
        self._clock = clock
        self._keys = CallerKeys(settings.callers.keys, settings.callers.token, clock)

    def identified(self, asked: CallerRequest, authorization: str) -> CallerRequest:
        """Return a request with its caller. Raises: TokenNotValid: that is counted and logged."""
        try:
            return replace(asked, caller=self._keys.caller_of(authorization))
        except TokenNotValid as exc:
            self.refused(asked, failed(exc.retcode, str(exc.message)))
            raise

    def answer(
        self, asked: CallerRequest, rows: Sequence[OnlineRow]
    ) -> list[AnsweredRow] | ItemAnswer:
        """Return the answer to each row, each by the version of its user; or why there is none."""
        fault = self.ids_fault(rows) or self.caller_fault(asked, len(rows))
        if fault is not None:
            return self.refused(asked, fault)
        chosen = []
        for row in rows:
            one = self.select(asked, row.ids)
            if isinstance(one, ItemAnswer):
                return self.refused(asked, one)
            chosen.append(one)
        groups: dict[tuple[int, str], list[int]] = {}
        for number, one in enumerate(chosen):
            groups.setdefault((id(one.served), one.by), []).append(number)
        found: dict[int, AnsweredRow] = {}
        for numbers in groups.values():
            one = chosen[numbers[0]]
            items = self.answer_by(asked, one, [rows[number] for number in numbers])
            for number, item in zip(numbers, items, strict=True):
                found[number] = AnsweredRow(chosen=one, item=item)
        return [found[number] for number in range(len(rows))]

    def answer_by(
        self, asked: CallerRequest, chosen: SelectedVersion, rows: Sequence[OnlineRow]
    ) -> list[ItemAnswer]:
        """Return the answers of one version to rows."""
        service = chosen.service
        if service is not None and service.rate is not None and not service.rate.take(len(rows)):
            items = [failed(ServingCode.OVERLOAD, _TOO_MANY)] * len(rows)
            self._count(asked, chosen, items)
            return items
        hooks = NO_HOOKS if service is None else service.hooks
        own = [replace(row, service_id=chosen.service_id, options=chosen.options) for row in rows]
        kept = hooks.before(own, partner_ids=self._settings.partner_ids)
        good = [row for row in kept if isinstance(row, OnlineRow)]
        scored = self._scores.of(
            chosen, good, remembers=asked.is_named, until_s=self._until_s(asked, rows)
        )
        after = iter(hooks.after(good, scored))
        items = [next(after) if isinstance(one, OnlineRow) else one for one in kept]
        self._count(asked, chosen, items)
        if good and service is not None and service.comparison is not None:
            self._compare(asked, chosen, service.comparison, good, scored)
        return items

    def _until_s(self, asked: CallerRequest, rows: Sequence[OnlineRow]) -> float:
        """Return until when rows may be scored, a moment of the monotonic clock."""
        is_single = len(rows) == 1 and asked.kind != "batch"
        budget_ms = self._limits.single_ms if is_single else self._limits.batch_ms
        return min(asked.started_s + budget_ms / 1000, asked.deadline_s)

    def select(
        self, asked: CallerRequest, ids: Mapping[str, IdValue]
    ) -> SelectedVersion | ItemAnswer:
        """Return what answers: the service, else the named version, else the default service."""
        settings = self._settings
        try:
            if asked.service_id:
                return self._of_service(asked, asked.service_id, ids, by="")
            if asked.model_version and settings.explicit_version:
                served = self._models.of_version(asked.model_id, asked.model_version)
                return SelectedVersion(served=served, service=None, by=BY_VERSION)
            if settings.default_service is not None:
                return self._of_service(asked, settings.default_service, ids, by=BY_DEFAULT)
        except ServiceNotBound as exc:
            return failed(ServingCode.NO_SERVICE, str(exc.message))
        except VersionNotLoaded as exc:
            return failed(ServingCode.NO_MODEL, str(exc.message))
        return failed(ServingCode.PARAMETERS, "the request has no serviceId")

    def caller_fault(self, asked: CallerRequest, rows: int = 0) -> ItemAnswer | None:
        """Return why the caller may not ask this; None: it may, and its rows are counted."""
        service, settings = asked.service_id, self._settings
        if not service and not (asked.model_version and settings.explicit_version):
            service = settings.default_service or ""
        return asked.caller.fault(service, rows)

    def ids_fault(self, rows: Sequence[OnlineRow]) -> ItemAnswer | None:
        """Return why ids may not leave this site; None: they may."""
        names = (name for row in rows for name in row.ids)
        name = undeclared_id(names, self._settings.partner_ids)
        if not name:
            return None
        return failed(ServingCode.PARAMETERS, f"{name[:100]!r} may not leave this site")

    def refused(self, asked: CallerRequest, fault: ItemAnswer) -> ItemAnswer:
        """Count and log a request that no version answers; return why."""
        name = asked.caller.name
        self._metrics.requests.add("", "", asked.kind, name)
        self._metrics.rows.add("", "", str(fault.retcode), name)
        if self._settings.access_log:
            code = fault.retcode
            logger.info("%s %s caller=%s retcode=%d", asked.case_id, asked.kind, name or "-", code)
        return fault

    def _of_service(
        self, asked: CallerRequest, service_id: str, ids: Mapping[str, IdValue], *, by: str
    ) -> SelectedVersion:
        service = self._services.get(service_id)
        served, why = version_of(service, self._models, ids, asked.case_id, asked.header)
        return SelectedVersion(served=served, service=service, by=by or why)

    def _compare(
        self,
        asked: CallerRequest,
        chosen: SelectedVersion,
        comparison: VersionComparison,
        rows: Sequence[OnlineRow],
        items: Sequence[ItemAnswer],
    ) -> None:
        """Count what a version answered, and let the shadows score the same rows."""
        key, now_s = chosen.served.key, self._clock.monotonic_s
        own = (key.model_id, key.model_version)
        comparison.count(own, items, now_s() - asked.started_s)

        def score(version: Version) -> None:
            try:
                started_s, shadow = now_s(), self._models.of_version(*version)
            except VersionNotLoaded:  # it was unloaded meanwhile
                return
            deadline_s = started_s + self._limits.batch_ms / 1000
            found = self._scores.anew(shadow, rows, deadline_s)
            comparison.count(version, found, now_s() - started_s, answered=items)

        for version in chosen.shadows:
            if version != own:
                self._shadows.run(partial(score, version))

    def _count(
        self, asked: CallerRequest, chosen: SelectedVersion, items: Sequence[ItemAnswer]
    ) -> None:
        took_s = self._clock.monotonic_s() - asked.started_s
        labels = (chosen.service_id, chosen.served.key.model_version)
        name = asked.caller.name
        self._metrics.requests.add(*labels, asked.kind, name)
        self._metrics.latency.observe(took_s, *labels)
        for item in items:
            self._metrics.rows.add(*labels, str(item.retcode), name)
            if item.degraded:
                self._metrics.degraded.add(*labels, item.degraded.how)
        if self._settings.access_log:
            worst = max(item.retcode for item in items)
            logger.info(
                "%s %s caller=%s service=%s version=%s rows=%d retcode=%d %.1f ms",
                asked.case_id,
                asked.kind,
                name or "-",
                *labels,
                len(items),
                worst,
                took_s * 1000,
            )
