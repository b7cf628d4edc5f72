"""Puts a serving process together: state, models, partners, and the three ports."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fedflow.base.clock import SystemClock
from fedflow.http.server import HttpServer, HttpSettings
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.routes import RouteTable, make_routes
from fedflow.rpc.credentials import Credentials, credentials_in
from fedflow.serving.answering import Answering
from fedflow.serving.caches.caches import Caches, open_caches
from fedflow.serving.doors.admin import AdminActions, AdminPortRoutes
from fedflow.serving.doors.callers import CallersPortRoutes
from fedflow.serving.doors.fate_inference import FateInference
from fedflow.serving.doors.open_inference import OpenInference
from fedflow.serving.doors.wsgi import application
from fedflow.serving.guest_features import GuestFeatures
from fedflow.serving.health import ServingHealth
from fedflow.serving.inference import Inference
from fedflow.serving.learned_references import LearnedReferences
from fedflow.serving.load_state import LoadState
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.models import ServedModels
from fedflow.serving.online import Build
from fedflow.serving.partners.audit import CallAudit
from fedflow.serving.partners.partner_calls import PartnerCalls
from fedflow.serving.partners.partner_parts import PartnerParts
from fedflow.serving.partners.partners import HostParts, PartnersServer
from fedflow.serving.scores import Scores
from fedflow.serving.services.service_options import LONGEST_STALE_S
from fedflow.serving.services.service_state import ServiceState
from fedflow.serving.services.services import Services
from fedflow.serving.services.shadows import Shadows
from fedflow.serving.settings import AdminPort, CallersPort, FeatureSettings, ServingSettings
from fedflow.serving.sources.source import FeatureSource, open_feature_source
from fedflow.serving.state_file import StateFile
from fedflow.serving.warm_up import WarmUp

logger = logging.getLogger(__name__)

_ADMIN_THREADS = 4
_MIB = 1 << 20


class ServingProcess:
    """One process that serves models, from `open` to `close`."""

    def __init__(self, settings: ServingSettings, home: Path, build: Build) -> None:
        self._settings = settings
        self._home = home
        self._build = build
        self._clock = SystemClock()
        self._metrics = ServingMetrics()
        self._stack = ExitStack()
        self._health: ServingHealth | None = None
        self.callers_port = self.admin_port = self.partners_port = 0
        self.callers_grpc_port: int | None = None  #: None: there is no such port

    def open(self) -> None:
        """Read the state, build the models, listen.

        Raises: ServingStateNotUsable, BadSetting, PortInUse; what was opened is closed by `close`.
        """
        settings, clock = self._settings, self._clock
        credentials = credentials_in(
            settings.partners.tls, party_id=settings.party_id or "", now_ms=clock.now_ms()
        )
        source = self._source(settings.features, "features")
        caches = open_caches(
            settings.caches,
            self._home,
            stale_s=LONGEST_STALE_S,
            metrics=self._metrics,
            clock=clock,
        )
        self._stack.callback(caches.close)
        models, services = self._stored()
        answers = HostParts(
            models,
            source,
            settings=settings,
            audit=self._audit(),
            metrics=self._metrics,
            clock=clock,
        )
        calls = PartnerCalls(
            self._channels(credentials),
            answers.answer if settings.party_id is None else None,
            limits=settings.limits,
            metrics=self._metrics,
            clock=clock,
        )
        self._stack.callback(calls.close)
        self._health = ServingHealth(models, calls)
        self._listen_to_partners(answers, credentials)
        self._listen_to_callers(models, services, self._health, calls, caches)

    def _listen_to_partners(self, answers: HostParts, credentials: Credentials | None) -> None:
        settings = self._settings
        server = PartnersServer(
            settings.partners,
            answers,
            credentials=credentials,
            allowed=_allowed(settings),
            clock=self._clock,
        )
        self._stack.callback(server.stop, 3.0)
        server.listen()
        self.partners_port = server.port

    def _listen_to_callers(
        self,
        models: ServedModels,
        services: Services,
        health: ServingHealth,
        calls: PartnerCalls,
        caches: Caches,
    ) -> None:
        """Open the callers' ports and the admin port."""
        settings, clock = self._settings, self._clock
        parts = PartnerParts(calls, caches.partners)
        answering = self._answering(models, services, parts, caches)
        fate = FateInference(answering, limits=settings.limits, clock=clock)
        open_inference = OpenInference(models, answering, health, settings=settings)
        if settings.callers.grpc_port is not None:
            self._listen_grpc(answering, fate, open_inference)
        callers = CallersPortRoutes(answering, fate, open_inference, health, clock=clock)
        admin = AdminPortRoutes(
            models,
            services,
            health,
            self._metrics,
            settings=settings,
            actions=AdminActions(
                tried=callers.tried,
                purge=caches.purge,
                warm_up=WarmUp(models, services, parts, settings=settings, clock=clock),
            ),
        )
        self.admin_port = self._listen(
            HttpServer(
                application(admin.answer, _admin_document),
                _http(settings.admin, _ADMIN_THREADS),
                name="fedflow-admin",
            ),
            settings.admin,
        )
        self.callers_port = self._listen(
            HttpServer(
                application(callers.answer, _callers_document),
                _http(settings.callers, settings.callers.threads),
                name="fedflow-callers",
            ),
            settings.callers,
        )

    def _answering(
        self, models: ServedModels, services: Services, parts: PartnerParts, caches: Caches
    ) -> Answering:
        shadows = Shadows()
        self._stack.callback(shadows.close)
        inference = Inference(
            parts,
            limits=self._settings.limits,
            metrics=self._metrics,
            clock=self._clock,
            features=self._guest_features(),
        )
        return Answering(
            models,
            services,
            Scores(inference, caches.results),
            shadows,
            metrics=self._metrics,
            settings=self._settings,
            clock=self._clock,
        )

    def close(self) -> None:
        """Say that it stops, answer what is asked meanwhile, then end everything."""
        if self._health is not None:
            self._health.draining = True
            time.sleep(self._settings.limits.drain_ms / 1000)
        self._stack.close()

    def _listen_grpc(
        self, answering: Answering, fate: FateInference, open_inference: OpenInference
    ) -> None:
        from fedflow.serving.doors.callers_grpc import (
            CallersGrpcServer,  # with protobuf, if it is on
        )

        server = CallersGrpcServer(
            self._settings.callers, answering, fate, open_inference, clock=self._clock
        )
        self._stack.callback(server.stop, 3.0)
        server.listen()
        self.callers_grpc_port = server.port

    def _stored(self) -> tuple[ServedModels, Services]:
        """Return what was loaded and bound before."""
        settings, clock = self._settings, self._clock
        file = StateFile(self._home / "serving.sqlite")
        self._stack.callback(file.close)
        models = ServedModels(
            LoadState(file),
            self._build,
            party_id=settings.party_id,
            limits=settings.limits,
            references=LearnedReferences(self._home / "references"),
            clock=clock,
        )
        models.open()
        services = Services(
            ServiceState(file),
            models,
            caches_parts=settings.caches.partners.enabled,
            clock=clock,
        )
        self._stack.callback(services.close)
        services.open()
        return models, services

    def _guest_features(self) -> GuestFeatures | None:
        source = self._source(self._settings.guest_features, "guest_features")
        return None if source is None else GuestFeatures(source)

    def _source(self, given: FeatureSettings, path: str) -> FeatureSource | None:
        if given.source is None:
            return None
        source = open_feature_source(given.source, given.options, path=path)
        self._stack.callback(source.close)
        return source

    def _audit(self) -> CallAudit | None:
        given = self._settings.partners
        if not given.audit:
            return None
        audit = CallAudit(self._home, days=given.audit_days, clock=self._clock)
        self._stack.callback(audit.close)
        return audit

    def _channels(self, credentials: Credentials | None) -> Channels:
        settings, tls = self._settings, credentials is not None
        local = None if settings.party_id is None else (settings.party_id,)
        return Channels(
            RouteTable(make_routes(local, settings.routes, tls=tls)),
            credentials=credentials.for_client() if credentials is not None else None,
            settings=ChannelSettings(message_bytes=settings.partners.message_mib * _MIB),
        )

    def _listen(self, server: HttpServer, port: CallersPort | AdminPort) -> int:
        self._stack.callback(server.stop, 5.0)
        server.listen_tcp(port.host, port.port)
        return server.port


def _admin_document() -> dict[str, Any]:
    from fedflow.serving.doors.openapi import admin_document  # made for the few who read it

    return admin_document()


def _callers_document() -> dict[str, Any]:
    from fedflow.serving.doors.openapi import callers_document  # as above

    return callers_document()


def _http(port: CallersPort | AdminPort, threads: int) -> HttpSettings:
    body_bytes = port.body_mib * _MIB
    return HttpSettings(threads=threads, body_bytes=body_bytes, upload_bytes=body_bytes)


def _allowed(settings: ServingSettings) -> frozenset[str] | None:
    """Return the guests that are answered; None: all, as one process serves all parties."""
    if settings.partners.allowed is not None:
        return frozenset(settings.partners.allowed)
    return None if settings.party_id is None else frozenset(settings.routes)
