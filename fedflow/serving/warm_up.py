"""Asks hosts for parts before anybody needs them, so that requests find them in the caches.

Rows come by the admin port, some at a time; who sends them keeps to a rate
(`fedflow serving warm-up`). Nothing is scored: features of the guest are not needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.serving_process import BadServingRequest, VersionNotLoaded
from fedflow.base.ids import new_request_id
from fedflow.serving.doors.tensors import undeclared_id
from fedflow.serving.models import ServedModel, ServedModels
from fedflow.serving.partners.messages import IdValue
from fedflow.serving.partners.partner_parts import OnlineRow, PartnerParts
from fedflow.serving.services.services import ServedService, Services
from fedflow.serving.settings import ServingSettings


class WarmUpRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /admin/v1/caches/warm-ups`."""

    service_id: str
    ids: list[dict[str, IdValue]]  #: per row, exactly as callers will send them


class WarmedRows(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    rows: int
    warmed: int  #: rows that have parts of all hosts of all versions now
    hosts: list[str]
    retcodes: dict[str, int]  #: why the others have not: rows by return code, the first of a row


class WarmUp:
    """Fills the caches of hosts' parts. Thread-safe."""

    def __init__(
        self,
        models: ServedModels,
        services: Services,
        parts: PartnerParts,
        *,
        settings: ServingSettings,
        clock: Clock,
    ) -> None:
        self._models = models
        self._services = services
        self._parts = parts
        self._settings = settings
        self._clock = clock

    def warm(self, given: WarmUpRows) -> WarmedRows:
        """Ask all hosts of all versions of a service for what the caches lack.

        Raises: BadServingRequest, ServiceNotBound, VersionNotLoaded: no version is loaded.
        """
        service = self._services.get(given.service_id)
        self._check(service, given.ids)
        deadline_s = self._clock.monotonic_s() + self._settings.limits.batch_ms / 1000
        request_id = new_request_id()
        rows = [
            OnlineRow(request_id=request_id, features={}, ids=ids, service_id=given.service_id)
            for ids in given.ids
        ]
        hosts: dict[str, None] = {}
        faults: dict[int, int] = {}
        versions = self._versions(service)
        for served in versions:
            if not served.model.hosts:
                continue
            for host, part in self._parts.ask(served, rows, deadline_s).items():
                hosts[host] = None
                for row, answer in part.errors.items():
                    faults.setdefault(row, answer.retcode)
        if not any(served.model.hosts for served in versions):
            raise BadServingRequest(reason="no version of the service asks other parties")
        counts = Counter(str(code) for code in faults.values())
        return WarmedRows(
            rows=len(rows),
            warmed=len(rows) - len(faults),
            hosts=list(hosts),
            retcodes=dict(sorted(counts.items())),
        )

    def _check(self, service: ServedService, ids: Sequence[dict[str, IdValue]]) -> None:
        """Raises: BadServingRequest."""
        settings, most = self._settings, self._settings.limits.batch_rows
        if not settings.caches.partners.enabled:
            raise BadServingRequest(reason="caches.partners.enabled is not set")
        if not service.bound.options.cache_partners:
            raise BadServingRequest(reason="the service has cache_partners: false")
        if not 0 < len(ids) <= most:
            raise BadServingRequest(reason=f"there are {len(ids)} rows, not 1 to {most}")
        name = undeclared_id((name for one in ids for name in one), settings.partner_ids)
        if name:
            raise BadServingRequest(reason=f"{name[:100]!r} may not leave this site")

    def _versions(self, service: ServedService) -> list[ServedModel]:
        """Return the loaded versions of a release, shadows too. Raises: VersionNotLoaded."""
        found: list[ServedModel] = []
        missing: FedflowError | None = None
        for one in service.bound.release.versions:
            try:
                found.append(self._models.of_version(one.model_id, one.model_version))
            except VersionNotLoaded as exc:
                missing = exc
        if not found and missing is not None:
            raise missing
        return found
