"""The hosts' parts of the scores of some rows, and what a service does in need.

Rows are those of one service, whose option `on_fault` says what a row without a part gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from fedflow.base.values import dataclass
from fedflow.serving.caches.keys import CacheScope
from fedflow.serving.caches.partner_results import FoundParts, PartnerResults
from fedflow.serving.codes import OF_HOST, Degraded, ItemAnswer, ServingCode, failed_at_host
from fedflow.serving.models import ServedModel
from fedflow.serving.partners.messages import IdValue, PartnerRequest, PartnerResponse
from fedflow.serving.partners.partner_calls import PartnerCalls
from fedflow.serving.scoring.host_answer import join_rows, rows_of
from fedflow.serving.services.service_options import (
    CACHED_STALE,
    GUEST_ONLY,
    NO_OPTIONS,
    ServiceOptions,
)

#: what a host says for good: what it said before is of no use then
_FINAL: Final = frozenset(
    OF_HOST + code
    for code in (
        ServingCode.PARAMETERS,
        ServingCode.FEATURES,
        ServingCode.NO_MODEL,
        ServingCode.NO_FEATURES,
        ServingCode.AUTHORISATION,
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OnlineRow:
    """A row that a caller asks a score for."""

    request_id: str
    features: Mapping[str, object]  #: stay with the guest
    ids: dict[str, IdValue]  #: go to every host
    service_id: str = ""
    options: ServiceOptions = NO_OPTIONS  #: of the service
    deadline_s: float = 0.0  #: of a single request, a moment of the monotonic clock


@dataclass(kw_only=True, slots=True)
class HostPart:
    """What a host says of all rows; in the place of one with an error stands anything."""

    payload: bytes = b""  #: empty: all rows have errors
    errors: dict[int, ItemAnswer] = field(default_factory=dict)
    helped: dict[int, Degraded] = field(default_factory=dict)


class PartnerParts:
    """Asks hosts for their parts, or uses again what they said. Thread-safe."""

    def __init__(self, calls: PartnerCalls, cached: PartnerResults | None) -> None:
        self._calls = calls
        self._cached = cached

    def ask(
        self, served: ServedModel, rows: Sequence[OnlineRow], deadline_s: float
    ) -> dict[str, HostPart]:
        """Return each host's part of rows of one service; `deadline_s` is a monotonic moment."""
        hosts = served.model.hosts
        cached = self._cached if rows[0].options.cache_partners else None
        if cached is None:
            found = self._calls.ask({one: _request(served, one, rows) for one in hosts}, deadline_s)
            parts = {one: _part(one, answer, len(rows)) for one, answer in found.items()}
        else:
            parts = self._with_cached(cached, served, rows, deadline_s)
        for host, part in parts.items():
            if part.errors:
                self._help(served, host, rows, part)
        return parts

    def forget(self, served: ServedModel, rows: Sequence[OnlineRow]) -> None:
        """Forget what hosts said of rows: the model cannot use it."""
        if self._cached is not None:
            scope, ids = scope_of(served, rows[0].service_id), [row.ids for row in rows]
            for host in served.model.hosts:
                self._cached.forget(scope, host, ids)

    def _with_cached(
        self,
        cached: PartnerResults,
        served: ServedModel,
        rows: Sequence[OnlineRow],
        deadline_s: float,
    ) -> dict[str, HostPart]:
        scope, ids = scope_of(served, rows[0].service_id), [row.ids for row in rows]
        found = {host: cached.find(scope, host, ids) for host in served.model.hosts}
        requests = {
            host: _request(served, host, [rows[n] for n in one.missing])
            for host, one in found.items()
            if one.missing
        }
        answers = self._calls.ask(requests, deadline_s)
        return {host: _joined(cached, one, answers.get(host)) for host, one in found.items()}

    def _help(
        self, served: ServedModel, host: str, rows: Sequence[OnlineRow], part: HostPart
    ) -> None:
        """Do for rows without a part of a host what their service says."""
        options = rows[0].options
        payloads: dict[int, bytes] = {}
        if options.on_fault == GUEST_ONLY:
            blank = served.model.without(host)
            payloads = {} if blank is None else dict.fromkeys(part.errors, blank)
        elif options.on_fault == CACHED_STALE and self._cached is not None:
            wanted = [row for row, one in part.errors.items() if one.retcode not in _FINAL]
            ids = [rows[row].ids for row in wanted]
            scope = scope_of(served, rows[0].service_id)
            old = self._cached.find(scope, host, ids, stale_s=options.stale_s)
            payloads = {
                row: one.payload
                for row, one in zip(wanted, old.parts, strict=True)
                if one is not None and one.error is None
            }
        if payloads:
            _put(host, part, payloads, how=options.on_fault, rows=len(rows))


def scope_of(served: ServedModel, service_id: str) -> CacheScope:
    """Return what cached values of a service's version are under."""
    return CacheScope(
        service_id=service_id,
        model_version=served.key.model_version,
        digest=served.head.digest,
    )


def _request(served: ServedModel, host: str, rows: Sequence[OnlineRow]) -> PartnerRequest:
    head = served.head
    return PartnerRequest(
        guest=head.party_id,
        host=host,
        model_id=head.model_id,
        model_version=head.model_version,
        digest=head.digest,
        request_ids=list(dict.fromkeys(row.request_id for row in rows)),
        ids=[row.ids for row in rows],
    )


def _part(host: str, answer: PartnerResponse | ItemAnswer, rows: int) -> HostPart:
    if isinstance(answer, ItemAnswer):
        return HostPart(errors=dict.fromkeys(range(rows), answer))
    errors = {
        row: failed_at_host(host, code, message[:500])
        for row, (code, message) in answer.errors.items()
    }
    return HostPart(payload=answer.partial, errors=errors)


def _joined(
    cached: PartnerResults, found: FoundParts, answer: PartnerResponse | ItemAnswer | None
) -> HostPart:
    """Return what was found and what the host says of the rest; None: it was not asked."""
    host, rows = found.party, len(found.parts)
    try:
        if isinstance(answer, ItemAnswer):
            nothing = PartnerResponse(errors=dict.fromkeys(range(len(found.missing)), (0, "")))
            part = _part(host, cached.join(found, nothing), rows)
            part.errors |= dict.fromkeys(found.missing, answer)
            return part
        if answer is not None:
            cached.store(found, answer)
        return _part(host, cached.join(found, answer), rows)
    except ValueError as exc:
        return HostPart(errors=dict.fromkeys(range(rows), _unusable(host, exc)))


def _put(host: str, part: HostPart, payloads: Mapping[int, bytes], *, how: str, rows: int) -> None:
    """Put parts in the places of rows without one."""
    try:
        known = rows_of(part.payload) if part.payload else [next(iter(payloads.values()))] * rows
        if len(known) != rows:
            raise ValueError(f"it is of {len(known)} rows, not of {rows}")
        part.payload = join_rows([payloads.get(row, one) for row, one in enumerate(known)])
    except ValueError as exc:
        part.errors = dict.fromkeys(range(rows), _unusable(host, exc))
        return
    for row in payloads:
        part.helped[row] = Degraded(how=how, why=part.errors.pop(row).message)


def _unusable(host: str, error: ValueError) -> ItemAnswer:
    return failed_at_host(host, ServingCode.BAD_RESPONSE, f"its part cannot be used: {error}")
