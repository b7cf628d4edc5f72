"""Wires one server: settings -> adapters -> use cases -> doors and threads. The only place that
does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom
from typing import Any, TypeVar

from fedflow.app.core import ENGINE, Core, Ports, build_core
from fedflow.app.folders import Folders
from fedflow.app.info import Info, Place
from fedflow.app.launcher import WorkerSettings
from fedflow.app.modules import Modules
from fedflow.app.ports import Store
from fedflow.app.processes import Processes
from fedflow.app.services import Services
from fedflow.app.tables import Tables
from fedflow.app.timing import Timing
from fedflow.app.tracking import Tracking
from fedflow.app.uploads import Uploads
from fedflow.app.waiting import Changes
from fedflow.base.clock import SystemClock
from fedflow.base.ids import PartyId, new_salt
from fedflow.base.settings import Settings
from fedflow.executor.plain import PlainExecutor, local_executor
from fedflow.executor.processes import this_host
from fedflow.executor.zygote import ZygoteExecutor
from fedflow.federation.plane import DataPlane
from fedflow.federation.settings import MIB, FederationSettings
from fedflow.rpc.credentials import Credentials, certificate_party, load_credentials
from fedflow.rpc.federation import DataPlaneService, GrpcOutgoing
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.server import RpcServer, RpcSettings
from fedflow.rpc.unary import UnaryService, UnarySettings
from fedflow.server.sockets import socket_folder
from fedflow.server.threads import Couriers, DetectorThread, Pulses, SchedulerThread, Wakeups
from fedflow.store.connect import open_mysql, open_sqlite
from fedflow.tables.archives import LocalArchives
from fedflow.transport.channels import Channels, ChannelSettings
from fedflow.transport.grpc_client import GrpcClient
from fedflow.transport.loopback import LoopbackClient
from fedflow.transport.router import Router
from fedflow.transport.routes import RouteTable, make_routes
from fedflow.web.app import create_app
from fedflow.web.http_server import HttpServer, HttpSettings
from fedflow.web.relay import Relay
from fedflow.web.settings import ClientKeys, WebSettings

_RPC_GRACE_S = 0.2
"""What is left when the gRPC server stops are other parties' streams, which do not end alone."""

T = TypeVar("T")

_UPLOAD_KEEP_MS = 86_400_000  #: received files that are older belong to no job


class FedflowServer:
    """One running server. `open` starts everything, `close` stops it; executors live on."""

    def __init__(self, settings: Settings, home: Path) -> None:
        self.settings = settings
        self.folders = Folders(home)
        self.place: Place | None = None
        self._clock = SystemClock()
        self._timing = timing_of(settings)
        self._changes = Changes(self._clock)
        self._wakeups = Wakeups(self._changes)
        self._relay: Relay | None = None
        self._parts = ExitStack()  #: what was opened, closed in the opposite order

    def open(self) -> None:
        """Start the server; returns once its doors are open.

        Raises: StoreUnavailable, SchemaTooNew, PortInUse, BadSetting: `close` cleans up.
        """
        settings = self.settings
        sockets = socket_folder(self.folders)
        credentials = _credentials(settings, self._clock.now_ms())
        self._tls = credentials is not None
        self._store = _open_store(settings, self.folders)
        self._parts.callback(self._store.close)
        engine = settings.fate_on_standalone.standalone
        with self._store.transaction() as tx:
            cores = engine.cores_per_node * engine.nodes
            tx.engines.put(ENGINE, cores, now_ms=self._clock.now_ms())

        processes = Processes()
        self._executor = _executor(settings, processes)
        self._executor.open()
        self._parts.callback(self._executor.close)
        modules = Modules(self._executor)

        self._rpc = RpcServer(
            RpcSettings(host=settings.fateflow.parties_host, port=settings.fateflow.grpc_port),
            credentials=credentials.for_server() if credentials else None,
        )
        self._rpc.open()
        self._parts.callback(lambda: self._rpc.stop(_RPC_GRACE_S))
        routes = RouteTable(
            make_routes(_own(settings), settings.routes, tls=credentials is not None)
        )
        self._channels = Channels(
            routes,
            credentials=credentials.for_client() if credentials else None,
            settings=ChannelSettings(),
        )
        self._parts.callback(self._channels.close)
        packets = ProtobufPackets()
        own_party = settings.party_id or "0"
        router = Router(
            routes,
            local=LoopbackClient(self._dispatch, own_party=own_party),
            remote=GrpcClient(self._channels, packets=packets, own_party=own_party),
        )
        limits = _federation_settings(settings)
        self._plane = DataPlane(
            limits,
            spool_dir=self.folders.spool,
            socket_path=sockets / "federation.sock",
            port=GrpcOutgoing(
                open_channel=self._channels.open_aio_channel,
                is_local=routes.is_local,
                settings=limits,
            ),
        )
        self._core = build_core(
            Ports(
                store=self._store,
                catalog=modules,
                parties=router,
                executor=self._executor,
                processes=processes,
                sessions=self._plane,
                wakeup=self._wakeups,
                clock=self._clock,
                rng=SystemRandom(),
                salt=new_salt(),
            ),
            folders=self.folders,
            timing=self._timing,
            worker_settings=_worker_settings(settings, self.folders, sockets),
            host=this_host(),
            changes=self._changes,
        )
        self._core.detector.recover()
        self._open_doors(routes, packets, limits, modules, sockets)
        self._start_threads()

    def _open_doors(
        self,
        routes: RouteTable,
        packets: ProtobufPackets,
        limits: FederationSettings,
        modules: Modules,
        sockets: Path,
    ) -> None:
        settings = self.settings
        place = Place(
            host=settings.fateflow.host,
            http_port=settings.fateflow.http_port,
            grpc_host=settings.fateflow.parties_host,
            grpc_port=settings.fateflow.grpc_port,
            party_id=settings.party_id,
            insecure=settings.insecure,
        )
        services = self._services(modules, place)
        services.uploads.sweep(self._clock.now_ms() - _UPLOAD_KEEP_MS)
        app = create_app(services, _web_settings(settings), clock=self._clock)
        self._relay = Relay(app)
        self._unary = UnaryService(
            self._dispatch,
            authenticate=certificate_party if self._tls else _no_certificate,
            packets=packets,
            hosts=routes.is_local,
            settings=UnarySettings(),
        )
        self._parts.callback(self._unary.close)
        self._on_loop(self._plane.start())
        self._parts.callback(lambda: self._on_loop(self._plane.stop()))
        service = self._on_loop(_data_plane_service(self._plane, limits, tls=self._tls))
        self._rpc.listen([self._unary.add_to, service.add_to])
        web = HttpSettings(upload_bytes=settings.upload.max_mib * MIB)
        self._unix = HttpServer(app, HttpSettings(), name="fedflow-worker-http")
        self._unix.listen_unix(sockets / "server.sock")
        self._parts.callback(self._unix.stop)
        self._http = HttpServer(app, web, name="fedflow-http")
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

    def _services(self, modules: Modules, place: Place) -> Services:
        core = self._core
        settings = self.settings
        return Services(
            commands=core.commands,
            info=Info(
                store=self._store,
                engine=ENGINE,
                executor_ready=self._executor.ready,
                place=place,
            ),
            jobs=core.jobs,
            submissions=core.submissions,
            modules=modules,
            tables=Tables(
                store=self._store, folders=self.folders, own_party=settings.party_id or "0"
            ),
            tracking=Tracking(store=self._store, archives=LocalArchives(self.folders.tables)),
            uploads=Uploads(
                store=self._store,
                submissions=core.submissions,
                folders=self.folders,
                allowed_folders=tuple(Path(f) for f in settings.upload.allowed_folders),
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

    def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._rpc.loop).result(timeout=30)


async def _data_plane_service(
    plane: DataPlane, limits: FederationSettings, *, tls: bool
) -> DataPlaneService:
    authenticate = certificate_party if tls else _no_certificate
    return DataPlaneService(plane, authenticate=authenticate, settings=limits)


def _no_certificate(_context: object) -> None:
    """Without TLS nobody's party is proven."""


def timing_of(settings: Settings) -> Timing:
    """Return the times that scheduling goes by, from the settings."""
    given = settings.scheduling
    return Timing(
        create_timeout_ms=int(given.create_timeout_s * 1000),
        lease_ms=int(given.lease_s * 1000),
        heartbeat_ms=int(given.heartbeat_s * 1000),
        call_timeout_s=given.call_timeout_s,
        retry_cap_ms=int(given.retry_cap_s * 1000),
        launch_grace_ms=int(given.launch_grace_s * 1000),
        stop_grace_s=given.stop_grace_s,
    )


def _own(settings: Settings) -> tuple[str, ...] | None:
    """Return the parties that this server hosts; None = all, in standalone mode."""
    return None if settings.party_id is None else (settings.party_id,)


def _open_store(settings: Settings, folders: Folders) -> Store:
    database = settings.database
    if database.engine == "sqlite":
        return open_sqlite(folders.home / "fedflow.sqlite", synchronous=database.synchronous)
    return open_mysql(
        host=database.host,
        port=database.port,
        user=database.user,
        password=database.passwd,
        database=database.name,
        max_connections=database.max_connections,
        stale_timeout_s=database.stale_timeout,
    )


def _executor(settings: Settings, processes: Processes) -> ZygoteExecutor:
    if settings.executor.start_method == "plain":
        return PlainExecutor(events=processes, python=sys.executable)
    return local_executor(events=processes, python=sys.executable)


def _credentials(settings: Settings, now_ms: int) -> Credentials | None:
    tls = settings.tls
    if tls.ca is None or tls.certificate is None or tls.key is None:
        return None
    return load_credentials(
        Path(tls.certificate),
        Path(tls.key),
        authorities=Path(tls.ca),
        party_id=PartyId(settings.party_id or "0"),
        now_ms=now_ms,
    )


def _federation_settings(settings: Settings) -> FederationSettings:
    given = settings.federation
    return FederationSettings(
        receive_timeout_s=given.receive_timeout_s,
        spool_bytes=given.spool_mib * MIB,
        memory_bytes=given.memory_mib * MIB,
    )


def _worker_settings(settings: Settings, folders: Folders, sockets: Path) -> WorkerSettings:
    memory_mib = settings.executor.memory_mib
    return WorkerSettings(
        server_socket=sockets / "server.sock",
        federation_socket=sockets / "federation.sock",
        tables_root=folders.tables,
        memory_bytes=memory_mib * MIB if memory_mib else None,
        receive_timeout_s=settings.federation.receive_timeout_s,
        log_level=settings.log.level,
    )


def _web_settings(settings: Settings) -> WebSettings:
    client = settings.authentication.client
    keys = (
        ClientKeys(app_key=client.http_app_key, secret=client.http_secret_key)
        if client.switch
        else None
    )
    return WebSettings(client_keys=keys, upload_bytes=settings.upload.max_mib * MIB)
