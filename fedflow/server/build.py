"""Wires one server: settings -> adapters -> use cases -> doors and threads. The only place that
does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom
from typing import Any, TypeVar

from fedflow.app.cleaning import Cleaning
from fedflow.app.core import ENGINE, Core, Ports, build_core
from fedflow.app.folders import Folders
from fedflow.app.info import Info, Place
from fedflow.app.keys import Keys
from fedflow.app.modules import Modules
from fedflow.app.processes import Processes
from fedflow.app.resources import Resources
from fedflow.app.services import Services
from fedflow.app.tracking import Tracking
from fedflow.app.waiting import Changes
from fedflow.base.clock import SystemClock, is_older
from fedflow.base.ids import new_salt
from fedflow.base.settings import Settings
from fedflow.executor.processes import this_host
from fedflow.federation.plane import DataPlane
from fedflow.federation.settings import MIB
from fedflow.models.blobs import LocalBlobs
from fedflow.rpc.credentials import certificate_party
from fedflow.rpc.federation import DataPlaneService, GrpcOutgoing
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.server import RpcServer, RpcSettings
from fedflow.rpc.signed import SignedDoor
from fedflow.rpc.site_keys import RsaSiteKeys
from fedflow.rpc.unary import UnaryService, UnarySettings
from fedflow.server.adapters import (
    credentials_of,
    executor_of,
    federation_settings,
    open_store,
    timing_of,
    web_settings,
    worker_settings,
)
from fedflow.server.administration import (
    Neighbourhood,
    build_administration,
    own_parties,
    permission_rules,
)
from fedflow.server.data import build_data
from fedflow.server.models import build_models
from fedflow.server.sockets import socket_folder
from fedflow.server.threads import Couriers, DetectorThread, Pulses, SchedulerThread, Wakeups
from fedflow.tables.archives import LocalArchives
from fedflow.transport.channels import Channels, ChannelSettings
from fedflow.transport.grpc_client import GrpcClient
from fedflow.transport.loopback import LoopbackClient
from fedflow.transport.router import Router
from fedflow.transport.routes import RouteTable, make_routes
from fedflow.web.app import create_app
from fedflow.web.current import built_of
from fedflow.web.http_server import HttpServer, HttpSettings
from fedflow.web.relay import Relay
from fedflow.web.routes import look_paths

_RPC_GRACE_S = 0.2
"""What is left when the gRPC server stops are other parties' streams, which do not end alone."""

T = TypeVar("T")

_SWEEP_EVERY_MS = 3_600_000  #: pause between two sweeps of the contents of models
_UNNAMED_KEEP_MS = 86_400_000  #: contents that are older and that no model names are deleted
_UPLOAD_KEEP_MS = 86_400_000  #: received files that are older belong to no job


class FedflowServer:
    """One running server. `open` starts everything, `close` stops it; executors live on."""

    def __init__(
        self, settings: Settings, home: Path, *, reread: Callable[[], Settings] | None = None
    ) -> None:
        """`reread` returns the settings as the conf has them later; `server/reload` calls it."""
        self.settings = settings
        self._reread = reread
        self.folders = Folders(home)
        self.place: Place | None = None
        self._clock = SystemClock()
        self._timing = timing_of(settings)
        self._changes = Changes(self._clock)
        self._swept_ms = 0
        self._wakeups = Wakeups(self._changes)
        self._relay: Relay | None = None
        self._parts = ExitStack()  #: what was opened, closed in the opposite order

    def open(self) -> None:
        """Start the server; returns once its doors are open.

        Raises: StoreUnavailable, SchemaTooNew, PortInUse, BadSetting: `close` cleans up.
        """
        self._sockets = socket_folder(self.folders)
        self._credentials = credentials_of(self.settings, self._clock.now_ms())
        self._open_store()
        self._open_executor()
        self._open_parties()
        self._wire_core()
        self._core.detector.recover()
        self._open_doors()
        self._start_threads()

    def _open_store(self) -> None:
        self._store = open_store(self.settings, self.folders)
        self._parts.callback(self._store.close)
        engine = self.settings.fate_on_standalone.standalone
        with self._store.transaction() as tx:
            cores = engine.cores_per_node * engine.nodes
            tx.engines.put(ENGINE, cores, now_ms=self._clock.now_ms())

    def _open_executor(self) -> None:
        self._processes = Processes()
        self._executor = executor_of(self.settings, self._processes)
        self._executor.open()
        self._parts.callback(self._executor.close)
        self._modules = Modules(self._executor)

    def _open_parties(self) -> None:
        """Open the ways to other parties: calls, and values between executors."""
        settings, credentials = self.settings, self._credentials
        self._rpc = RpcServer(
            RpcSettings(host=settings.fateflow.parties_host, port=settings.fateflow.grpc_port),
            credentials=credentials.for_server() if credentials else None,
        )
        self._rpc.open()
        self._parts.callback(lambda: self._rpc.stop(_RPC_GRACE_S))
        self._routes = RouteTable(
            make_routes(own_parties(settings), settings.routes, tls=credentials is not None)
        )
        channels = Channels(
            self._routes,
            credentials=credentials.for_client() if credentials else None,
            settings=ChannelSettings(),
        )
        self._parts.callback(channels.close)
        own_party = settings.party_id or "0"
        self._parties = Router(
            self._routes,
            local=LoopbackClient(self._dispatch, own_party=own_party),
            remote=GrpcClient(
                channels, packets=ProtobufPackets(), own_party=own_party,
                sign=self._sign if settings.authentication.site.switch else None,
            ),
        )  # fmt: skip
        self._keys = Keys(
            store=self._store,
            signer=RsaSiteKeys(self.folders.site_key),
            parties=self._parties,
            own_party=settings.party_id,
            clock=self._clock,
        )
        limits = federation_settings(settings)
        self._plane = DataPlane(
            limits,
            spool_dir=self.folders.spool,
            socket_path=self._sockets / "federation.sock",
            port=GrpcOutgoing(
                open_channel=channels.open_aio_channel,
                is_local=self._routes.is_local,
                settings=limits,
            ),
        )

    def _wire_core(self) -> None:
        self._blobs = LocalBlobs(self.folders.model_blobs)
        self._core = build_core(
            Ports(
                store=self._store,
                blobs=self._blobs,
                catalog=self._modules,
                parties=self._parties,
                executor=self._executor,
                processes=self._processes,
                sessions=self._plane,
                wakeup=self._wakeups,
                clock=self._clock,
                rng=SystemRandom(),
                salt=new_salt(),
            ),
            folders=self.folders,
            timing=self._timing,
            worker_settings=worker_settings(self.settings, self.folders, self._sockets),
            host=this_host(),
            changes=self._changes,
            rules=permission_rules(self.settings),
        )

    def _open_doors(self) -> None:
        settings = self.settings
        place = Place(
            host=settings.fateflow.host,
            http_port=settings.fateflow.http_port,
            grpc_host=settings.fateflow.parties_host,
            grpc_port=settings.fateflow.grpc_port,
            party_id=settings.party_id,
            insecure=settings.insecure,
        )
        services = self._services(place)
        services.data.uploads.sweep(self._clock.now_ms() - _UPLOAD_KEEP_MS)
        self._tables = services.data.tables
        app = create_app(services, web_settings(settings), clock=self._clock)
        self._relay = Relay(app)
        signed = settings.authentication.site.switch
        self._unary = UnaryService(
            SignedDoor(self._dispatch, check=self._keys.check) if signed else self._dispatch,
            authenticate=certificate_party,
            packets=ProtobufPackets(),
            hosts=self._routes.is_local,
            settings=UnarySettings(),
        )
        self._parts.callback(self._unary.close)
        self._on_loop(self._plane.start())
        self._parts.callback(lambda: self._on_loop(self._plane.stop()))
        service = self._on_loop(self._data_plane_service())
        self._rpc.listen([self._unary.add_to, service.add_to])
        web = HttpSettings(upload_bytes=settings.upload.max_mib * MIB, looks=look_paths(app))
        self._unix = HttpServer(app, HttpSettings(), name="fedflow-worker-http")
        self._unix.listen_unix(self._sockets / "server.sock")
        self._parts.callback(self._unix.stop)
        clients = built_of(app).clients
        self._http = HttpServer(
            app, web, name="fedflow-http", may_upload=clients.may_upload if clients else None
        )
        self._http.listen_tcp(settings.fateflow.host, settings.fateflow.http_port)
        self._parts.callback(self._http.stop)
        self.place = services.info.place = Place(
            host=place.host,
            http_port=self._http.port,
            grpc_host=place.grpc_host,
            grpc_port=self._rpc.port,
            party_id=place.party_id,
            insecure=place.insecure,
        )

    def _services(self, place: Place) -> Services:
        core = self._core
        settings = self.settings
        info = Info(
            store=self._store,
            engine=ENGINE,
            executor_ready=self._executor.ready,
            place=place,
            clock=self._clock,
        )
        neighbourhood = Neighbourhood(
            store=self._store,
            folders=self.folders,
            clock=self._clock,
            core=core,
            modules=self._modules,
            info=info,
            parties=self._parties,
            keys=self._keys,
            routes=self._routes,
        )
        data = build_data(
            self.settings,
            store=self._store,
            submissions=core.submissions,
            folders=self.folders,
            clock=self._clock,
        )
        models = build_models(
            settings,
            core,
            store=self._store,
            blobs=self._blobs,
            parties=self._parties,
            folders=self.folders,
            clock=self._clock,
        )
        return Services(
            administration=build_administration(settings, neighbourhood, reread=self._reread),
            cleaning=Cleaning(store=self._store, tables=data.tables, jobs=core.jobs),
            commands=core.commands,
            data=data,
            documents=core.documents,
            info=info,
            jobs=core.jobs,
            models=models,
            modules=self._modules,
            parameter_updates=core.parameter_updates,
            reruns=core.reruns,
            resources=Resources(
                store=self._store, wakeup=self._wakeups, clock=self._clock, engine=ENGINE
            ),
            submissions=core.submissions,
            tracking=Tracking(
                store=self._store,
                archives=LocalArchives(self.folders.tables),
                modules=self._modules,
            ),
            workers=core.workers,
        )

    def _start_threads(self) -> None:
        core: Core = self._core
        scheduling = self.settings.scheduling
        self._couriers = Couriers(delivery=core.delivery, store=self._store, clock=self._clock)
        self._scheduler = SchedulerThread(
            core.scheduler, interval_s=scheduling.tick_interval_s, clock=self._clock
        )
        self._pulses = Pulses(
            detector=core.detector, jobs=core.jobs, timing=self._timing, store=self._store
        )
        self._detector = DetectorThread(
            core.detector, interval_s=scheduling.detect_interval_s, on_look=self._look
        )
        self._wakeups.connect(scheduler=self._scheduler, couriers=self._couriers)
        self._parts.callback(self._stop_threads)
        self._scheduler.start()
        self._couriers.start()
        self._detector.start()

    def _look(self) -> None:
        self._pulses.look()
        self._couriers.look()
        now_ms = self._clock.now_ms()
        if is_older(self._swept_ms, _SWEEP_EVERY_MS, now_ms):
            self._swept_ms = now_ms
            self._core.models.sweep(now_ms - _UNNAMED_KEEP_MS)
        self._tables.drop_kept()

    def close(self) -> None:
        """Stop threads, doors and adapters; running executors live on for the next server."""
        self._parts.close()

    def _stop_threads(self) -> None:
        for thread in (self._scheduler, self._detector):
            thread.stop()
        for thread in (self._scheduler, self._detector):
            thread.join()
        self._pulses.stop()  # only now: the detector starts pulses
        self._couriers.stop()

    def _dispatch(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Hand a party's command to the party-facing routes, in process."""
        if self._relay is None:
            raise RuntimeError("the server is not open yet")
        return self._relay(path, headers, body)

    async def _data_plane_service(self) -> DataPlaneService:
        """Return it, made on the event loop, as what it waits with belongs to the loop."""
        limits = federation_settings(self.settings)
        return DataPlaneService(self._plane, authenticate=certificate_party, settings=limits)

    def _sign(self, body: bytes) -> str:
        return self._keys.sign(body)

    def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._rpc.loop).result(timeout=30)
