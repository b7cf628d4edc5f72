"""The hosts' parts of the scores of some rows, and what a service does in need.

What a row's service says about faults (`on_fault`) is done row by row, as rows of several services
may be scored together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from fedflow.base.values import dataclass
from fedflow.serving.codes import Degraded, ItemAnswer, ServingCode, failed_at_host
from fedflow.serving.messages import IdValue, PartnerRequest, PartnerResponse
from fedflow.serving.models import ServedModel
from fedflow.serving.partner_calls import PartnerCalls
from fedflow.serving.scoring.host_answer import join_answers, split_answer
from fedflow.serving.service_options import GUEST_ONLY, NO_OPTIONS, ServiceOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class OnlineRow:
    """A row that a caller asks a score for."""

    request_id: str
    features: Mapping[str, object]  #: stay with the guest
    ids: dict[str, IdValue]  #: go to every host
    service_id: str = ""
    options: ServiceOptions = NO_OPTIONS  #: of the service


@dataclass(kw_only=True, slots=True)
class HostPart:
    """What a host says of all rows; in the place of one with an error stands anything."""

    payload: bytes = b""  #: empty: all rows have errors
    errors: dict[int, ItemAnswer] = field(default_factory=dict)
    helped: dict[int, Degraded] = field(default_factory=dict)


class PartnerParts:
    """Asks hosts for their parts. Thread-safe."""

    def __init__(self, calls: PartnerCalls) -> None:
        self._calls = calls

    def ask(
        self, served: ServedModel, rows: Sequence[OnlineRow], deadline_s: float
    ) -> dict[str, HostPart]:
        """Return each host's part; `deadline_s` is a moment of the monotonic clock."""
        requests = {host: _request(served, host, rows) for host in served.model.hosts}
        found = self._calls.ask(requests, deadline_s)
        return {host: _part(served, host, rows, answer) for host, answer in found.items()}


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


def _part(
    served: ServedModel,
    host: str,
    rows: Sequence[OnlineRow],
    answer: PartnerResponse | ItemAnswer,
) -> HostPart:
    if isinstance(answer, ItemAnswer):
        part = HostPart(errors=dict.fromkeys(range(len(rows)), answer))
    else:
        errors = {
            row: failed_at_host(host, code, message[:500])
            for row, (code, message) in answer.errors.items()
        }
        part = HostPart(payload=answer.partial, errors=errors)
    if part.errors and any(rows[row].options.on_fault == GUEST_ONLY for row in part.errors):
        _help(served, host, rows, part)
    return part


def _help(served: ServedModel, host: str, rows: Sequence[OnlineRow], part: HostPart) -> None:
    """Let rows do without a host, where their service and the model allow it."""
    blank = served.model.without(host)
    if blank is None:
        return
    helped = [row for row in part.errors if rows[row].options.on_fault == GUEST_ONLY]
    try:
        payloads = split_answer(part.payload, [1] * len(rows)) if part.payload else []
        payloads = payloads or [blank] * len(rows)
        for row in helped:
            payloads[row] = blank
        part.payload = join_answers(payloads)
    except ValueError as exc:
        fault = failed_at_host(host, ServingCode.BAD_RESPONSE, f"its part cannot be used: {exc}")
        part.errors = dict.fromkeys(range(len(rows)), fault)
        return
    for row in helped:
        fault = part.errors.pop(row)
        part.helped[row] = Degraded(how=GUEST_ONLY, why=fault.message)
