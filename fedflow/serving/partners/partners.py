"""The partners' port: a host's process answers the processes of guests.

The party of a caller is that of its certificate. Features are those of the own feature source,
whatever a request says.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc
import msgspec
from msgspec import structs

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import VersionNotLoaded
from fedflow.base.shares import Shares
from fedflow.rpc.credentials import Credentials, certificate_party
from fedflow.serving.codes import ServingCode
from fedflow.serving.grpc_port import GrpcPort
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.models import ServedModel, ServedModels
from fedflow.serving.partners.audit import CallAudit
from fedflow.serving.partners.messages import (
    METHOD,
    PartnerRequest,
    PartnerResponse,
    pack_message,
    read_partner_request,
)
from fedflow.serving.rates import Rate
from fedflow.serving.scoring.host_answer import with_decimals
from fedflow.serving.settings import PartnersPort, ServingSettings
from fedflow.serving.sources.source import FeatureFault, FeatureSource, FoundFeatures

logger = logging.getLogger(__name__)

_LONGEST_S: Final = 60.0  #: of a call without a deadline


class HostParts:
    """A host's parts of scores. Thread-safe."""

    def __init__(
        self,
        models: ServedModels,
        source: FeatureSource | None,
        *,
        settings: ServingSettings,
        audit: CallAudit | None,
        metrics: ServingMetrics,
        clock: Clock,
    ) -> None:
        self._models = models
        self._source = source
        self._rows = max(settings.limits.batch_rows, settings.limits.joined)
        self._metrics = metrics
        self._rows_per_s = settings.partners.rows_per_s
        self._score_decimals = settings.partners.score_decimals
        self._audit = audit
        self._clock = clock
        self._rates: dict[tuple[str, str, str], Rate] = {}

    def answer(self, request: PartnerRequest, deadline_s: float) -> PartnerResponse:
        """Return the part of a host of this process; `deadline_s` is a monotonic moment.

        The party of the guest was checked.
        """
        try:
            response = self._answer(request, deadline_s)
        except Exception:
            logger.exception("A part could not be computed", extra={"action": "partial"})
            response = _refused(ServingCode.SYSTEM, "internal error")
        guest = "" if response.retcode else request.guest  # else anything may stand there
        good = len(request.ids) - len(response.errors)
        self._metrics.partner_rows.add(guest, str(response.retcode), number=good)
        for code, _ in response.errors.values():
            self._metrics.partner_rows.add(guest, str(code))
        return response

    def _answer(self, request: PartnerRequest, deadline_s: float) -> PartnerResponse:
        if not 0 < len(request.ids) <= self._rows:
            reason = f"{len(request.ids)} rows; 1 to {self._rows} are answered"
            return _refused(ServingCode.PARAMETERS, reason)
        try:
            served = self._models.of_host(request.host, request.model_id, request.model_version)
        except VersionNotLoaded as exc:
            return _refused(ServingCode.NO_MODEL, str(exc.message))
        if request.digest != served.head.digest:
            reason = f"version {served.key.model_version} is another one here: digests differ"
            return _refused(ServingCode.NO_MODEL, reason)
        if request.guest not in served.head.roles.get("guest", ()):
            reason = f"party {request.guest} is no guest of the model"
            return _refused(ServingCode.AUTHORISATION, reason)
        if self._is_too_much(request):
            return _refused(ServingCode.OVERLOAD, "more rows per second than this guest may ask")
        if self._source is None:
            return _refused(ServingCode.SOURCE, "this party has no feature source")
        if self._audit is not None:
            try:
                self._audit.note(request)
            except OSError as exc:
                logger.error("the audit cannot be written: %s", exc, extra={"action": "audit"})
                return _refused(ServingCode.SYSTEM, "the call cannot be written down")
        found = self._source.find(request.ids, deadline_s=deadline_s)
        response = _part(served, found)
        if self._score_decimals is not None and response.partial:
            rounded = with_decimals(response.partial, self._score_decimals)
            response = structs.replace(response, partial=rounded)
        if isinstance(found, FoundFeatures):
            return structs.replace(response, feature_version=found.version, valid_s=found.valid_s)
        return response

    def _is_too_much(self, request: PartnerRequest) -> bool:
        """Count the rows of a request; its guest and its model are known to be real."""
        if self._rows_per_s is None:
            return False
        key = (request.guest, request.host, request.model_id)
        rate = self._rates.get(key)
        if rate is None:
            made = Rate(self._rows_per_s, max(self._rows_per_s, 1.0), self._clock)
            rate = self._rates.setdefault(key, made)
        return not rate.take(len(request.ids))


def _part(
    served: ServedModel, found: Sequence[Mapping[str, Any] | FeatureFault]
) -> PartnerResponse:
    """Return the part of rows; in the place of one without features stands a row that has some.

    So parts of all hosts have the rows of the request, and the guest drops those with an error.
    """
    errors = {
        row: (int(one.retcode), one.reason)
        for row, one in enumerate(found)
        if isinstance(one, FeatureFault)
    }
    rows = [{} if isinstance(one, FeatureFault) else one for one in found]
    for _ in range(2):
        good = next((row for row in range(len(rows)) if row not in errors), None)
        if good is None:
            return PartnerResponse(errors=errors)
        batch = served.model.read([rows[good if n in errors else n] for n in range(len(rows))])
        bad = {row: why for row, why in batch.errors.items() if row not in errors}
        if not bad:
            break
        errors |= {row: (int(ServingCode.FEATURES), why) for row, why in bad.items()}
    partial = served.model.partial(batch)
    counted = [row for row in range(len(rows)) if row not in errors]
    served.drift.count(batch.features if not errors else batch.features[counted])
    return PartnerResponse(partial=partial, errors=errors)


def _refused(code: ServingCode, message: str) -> PartnerResponse:
    return PartnerResponse(retcode=int(code), message=message)


class PartnersServer:
    """The gRPC server of the partners' port."""

    def __init__(
        self,
        port: PartnersPort,
        answers: HostParts,
        *,
        credentials: Credentials | None,
        allowed: frozenset[str] | None,
        clock: Clock,
    ) -> None:
        """`allowed` are the guests that are answered; None: all."""
        self._settings = port
        self._answers = answers
        self._credentials = credentials
        self._allowed = allowed
        self._clock = clock
        self._shares = Shares(port.threads)
        self._lock = threading.Lock()
        self._grpc = GrpcPort(
            name="partners-grpc",
            threads=port.threads,
            waiting=port.threads * 8,
            message_mib=port.message_mib,
        )
        self.port = 0

    def listen(self) -> None:
        """Bind the port and serve. Raises: PortInUse."""
        given, credentials = self._settings, self._credentials
        _, service, method = METHOD.split("/")
        methods = {method: grpc.unary_unary_rpc_method_handler(self._serve)}
        shown = None if credentials is None else credentials.for_server()
        self.port = self._grpc.listen(given.host, given.port, {service: methods}, shown)

    def stop(self, grace_s: float) -> None:
        """Refuse new calls, let running ones end within `grace_s`."""
        self._grpc.stop(grace_s)

    def _serve(self, raw: bytes, context: grpc.ServicerContext) -> bytes:
        return pack_message(self._response(raw, context))

    def _response(self, raw: bytes, context: grpc.ServicerContext) -> PartnerResponse:
        try:
            request = read_partner_request(raw)
        except (msgspec.MsgspecError, RecursionError) as exc:
            return _refused(ServingCode.PARAMETERS, f"the request cannot be read: {exc}")
        party = certificate_party(context)
        if party is not None and party != request.guest:
            reason = f"the certificate is that of party {party}, not of {request.guest}"
            return _refused(ServingCode.AUTHORISATION, ascii(reason)[:300])
        if self._allowed is not None and request.guest not in self._allowed:
            return _refused(ServingCode.AUTHORISATION, "this party is no partner of this process")
        with self._lock:
            taken = self._shares.take(request.guest)
        if not taken:
            return _refused(ServingCode.OVERLOAD, "this party has too many calls at once")
        try:
            left_s = context.time_remaining()
            longest_s = _LONGEST_S if left_s is None else min(left_s, _LONGEST_S)
            return self._answers.answer(request, self._clock.monotonic_s() + longest_s)
        finally:
            with self._lock:
                self._shares.give_back(request.guest)
