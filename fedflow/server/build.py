"""Wires one server: settings -> adapters -> use cases -> doors and threads. The only place that
does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any, TypeVar

from fedflow.app.administration.info import Info, ServerIdentity
from fedflow.app.administration.keys import Keys, SiteSigner
from fedflow.app.administration.leadership import Leadership
from fedflow.app.administration.modules import Modules
from fedflow.app.administration.servers import Servers
from fedflow.app.core import Core, Ports, build_core
from fedflow.app.data.tables import Tables
from fedflow.app.initiator.neighbours import Neighbours
from fedflow.app.participant.processes import Processes
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.app.protocol.party_router import PartyRouter
from fedflow.app.queries.cleaning import GarbageCollection
from fedflow.app.services import DataServices, LateServices, ModelServices, Services
from fedflow.base.clock import SteadyClock, SystemClock
from fedflow.base.descriptors import connections_of_clients
from fedflow.base.home import OwnFile
from fedflow.base.ids import new_salt
from fedflow.base.lazy import Lazy
from fedflow.base.settings import Settings
from fedflow.blobs.files import LocalBlobs
from fedflow.executor.processes import this_host
from fedflow.executor.provider_folder import ProviderFile
from fedflow.executor.provider_process import ProviderProcesses
from fedflow.federation.plane import DataPlane
from fedflow.federation.settings import MIB
from fedflow.http.server import HttpServer, HttpSettings
from fedflow.rpc.client.channels import CallSealing, Channels, ChannelSettings, open_to_exchange
from fedflow.rpc.client.commands import GrpcClient
from fedflow.rpc.client.routes import RouteTable
from fedflow.rpc.client.servers import ServerLinks
from fedflow.rpc.credentials import certificate_party
from fedflow.rpc.data_plane.links import GrpcSender
from fedflow.rpc.data_plane.service import DataPlaneService
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.server.deferred import RENDEZVOUS, CalledLate, DeferredService
from fedflow.rpc.server.exchange import KINDS, ExchangeService
from fedflow.rpc.server.servers import ServersService
from fedflow.rpc.server.signed import SignatureCheck
from fedflow.rpc.server.unary import UnaryService
from fedflow.server.adapters import (
    allowed_sources,
    applications_of,
    command_limits,
    credentials_of,
    engines_of,
    executor_of,
    federation_settings,
    job_defaults_of,
    job_limits_of,
    mounted_by,
    open_store,
    permission_rules,
    register_engines,
    relays_of,
    retention_of,
    routes_of,
    rpc_server_of,
    servings_of,
    timing_of,
    web_settings,
    windows_of,
    worker_settings,
)
from fedflow.server.health import OwnParts, sockets_of
from fedflow.server.lived_time import LivedTimeFile
from fedflow.server.loops import Loop, faults_of
from fedflow.server.servers import (
    LeadThread,
    ServerLeaseThread,
    WakeLeader,
    address_for_others,
    compare_files,
    own_instance,
)
from fedflow.server.sockets import socket_folder
from fedflow.server.threads import ClockThread, DetectorThread, LeaderThreads, Wakeups
from fedflow.tables.archives import LocalArchives
from fedflow.tables.remote_gc import RemoteTableRows
from fedflow.web.app import create_app
from fedflow.web.context import built_of
from fedflow.web.leader_forwarding import LeaderForwarding
from fedflow.web.relay import Relay
from fedflow.wire.versions import BEFORE, OURS, Speaks

if TYPE_CHECKING:
    from fedflow.app.administration_services import Administration
    from fedflow.app.participant.worker_signatures import Signer, WorkerSignatures
    from fedflow.rpc.sealed.incoming import IncomingCalls
    from fedflow.rpc.server.dial_in import DialIn

_RPC_GRACE_S = 0.2
"""What is left when the gRPC server stops are other parties' streams, which do not end alone."""

T = TypeVar("T")

_UPLOAD_KEEP_MS = 86_400_000  #: received files that are older belong to no job


class FedflowServer:
    """One running server. `open` starts everything, `close` stops it; executors live on."""

    def __init__(
        self, settings: Settings, home: Path, *, reread: Callable[[], Settings] | None = None,
        speaks: Speaks | None = OURS,
    ) -> None:  # fmt: skip
        """`reread` returns the settings as the conf has them later; `server/reload` calls it.

        `speaks` are the protocols between parties that it claims to speak, None: it says nothing,
        as releases of protocol 1.
        """
        self._speaks = speaks
        self.settings = settings
        self._reread = reread
        shared = settings.shared_home
        self.folders = Folders(home, Path(shared) if shared is not None else None)
        self.place: ServerIdentity | None = None
        self._wall = SystemClock()
        self._clock = SteadyClock(self._wall)
        self._lived_time = LivedTimeFile(self.folders.lived_time, self._clock)
        self._timing = timing_of(settings)
        self._notifier = JobNotifier(self._wall)
        self._wakeups = Wakeups(self._notifier)
        self._beat: ServerLeaseThread | None = None
        self._lead: LeadThread | None = None
        self.own_parts = OwnParts()
        self._parts = ExitStack()  #: what was opened, closed in the opposite order

    def open(self) -> None:
        """Start the server; returns once its doors are open.

        Raises: StoreUnavailable, SchemaTooNew, PortInUse, BadSetting, HomeNotUsable,
            SharedHomeDiffers: `close` cleans up.
        """
        self._sockets = socket_folder(self.folders)
        self._credentials = credentials_of(self.settings, self._wall.now_ms())
        self._lived_time.resume()
        self._open_store()
        self._open_executor()
        self._open_servers()
        self._open_parties()
        self._wire_core()
        self._core.detector.recover()
        self._open_doors()
        self._join_servers()
        self._start_threads()

    def _open_store(self) -> None:
        self._store = open_store(self.settings, self.folders)
        self._parts.callback(self._store.close)
        self.own_parts.notes = compare_files(self._store, self.folders)
        register_engines(self.settings, self._store, self._clock.now_ms())

    def _open_executor(self) -> None:
        self._processes = Processes()
        self._executor = executor_of(self.settings, self._processes)
        self._executor.open()
        self._parts.callback(self._executor.close)
        self._applications = applications_of(self.settings, self.folders)
        if self._applications is not None:
            self._applications.open()
            self._parts.callback(self._applications.close)
        self._provider_book = ProviderFile(self.folders.provider_book)
        self._provider_host = ProviderProcesses()
        self._modules = Modules(self._executor, book=self._provider_book, host=self._provider_host)

    def _open_parties(self) -> None:
        """Open the ways to other parties: calls, and values between executors."""
        settings, credentials = self.settings, self._credentials
        self._routes = RouteTable(routes_of(settings))
        self._rpc = rpc_server_of(settings, credentials, admits=self._routes.is_partner)
        self._rpc.open()
        self._parts.callback(lambda: self._rpc.stop(_RPC_GRACE_S))
        own_party = settings.party_id or "0"
        channels = Channels(
            self._routes,
            credentials=credentials.for_client() if credentials else None,
            settings=ChannelSettings(),
            sealing=CallSealing(party_id=own_party, keys=lambda: self._keys, kinds=KINDS),
        )
        self._parts.callback(channels.close)
        self._parties = PartyRouter(
            self._routes,
            servers=self._servers,
            own_party=own_party,
            remote=GrpcClient(
                channels, packets=ProtobufPackets(), own_party=own_party,
                sign=self._sign if settings.authentication.site.switch else None,
                speaks=self._speaks,
            ),
        )  # fmt: skip
        self._keys = Keys(
            store=self._store,
            signer=Lazy(self._site_keys),
            parties=self._parties,
            own_party=settings.party_id,
            clock=self._clock,
        )
        limits = federation_settings(settings)
        self._plane = DataPlane(
            limits,
            spool_dir=self.folders.spool,
            socket_path=self._sockets / "federation.sock",
            port=GrpcSender(
                open_channel=channels.open_aio_channel,
                turn=channels.route,
                is_local=self._routes.is_local,
                settings=limits,
            ),
        )

    def _open_servers(self) -> None:
        """Prepare to be one of several servers of this party, if the store allows for others."""
        settings, credentials = self.settings, self._credentials
        self._links = ServerLinks(
            settings.party_id or "0",
            credentials=credentials.for_client() if credentials else None,
            command_s=settings.scheduling.call_timeout_s,
        )
        self._parts.callback(self._links.close)
        self._shared = settings.database.engine == "mysql"
        own = own_instance(self.folders)
        self.own_parts.keep({"instance": OwnFile(self.folders.instance, own.instance_id)})
        self._servers = Servers(
            own,
            store=self._store,
            leadership=Leadership(SystemClock()),
            clock=SystemClock(),
            shared=self._shared,
            calls=self._links,
            on_change=lambda: self._lead.changed() if self._lead is not None else None,
        )

    def _join_servers(self) -> None:
        settings = self.settings
        http = f"{settings.fateflow.host}:{self._http.port}"
        self._servers.join(http=http, grpc=address_for_others(settings, self._rpc.port))

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
                speaks=self._speaks or BEFORE,
                servers=self._servers,
                providers=self._modules,
                applications=self._applications,
                servings=servings_of(self.settings),
                windows=windows_of(self.settings, self.folders),
            ),
            folders=self.folders,
            timing=self._timing,
            worker_settings=worker_settings(self.settings, self.folders, self._sockets),
            host=this_host(),
            notifier=self._notifier,
            rules=permission_rules(self.settings),
            engines=engines_of(self.settings),
            job_defaults=job_defaults_of(self.settings),
            limits=job_limits_of(self.settings),
        )

    def _open_doors(self) -> None:
        settings = self.settings
        place = ServerIdentity(
            host=settings.fateflow.host,
            http_port=settings.fateflow.http_port,
            grpc_host=settings.fateflow.parties_host,
            grpc_port=settings.fateflow.grpc_port,
            party_id=settings.party_id,
            insecure=settings.insecure,
        )
        services = self._services(place)
        self._tidy_data(services)
        unfinished = RemoteTableRows(self.folders.tables)
        self._parts.callback(unfinished.close)
        self._garbage = GarbageCollection(
            models=self._core.models,
            tables=self._tables,
            unfinished=unfinished,
            clock=self._clock,
        )
        of_web = web_settings(settings)
        app = create_app(services, of_web, clock=self._wall, mounted=mounted_by(of_web))
        forwarding = LeaderForwarding(
            self._servers, self._links, Relay(app), events=self._wakeups,
            check_executors=self._check_executors,
        )  # fmt: skip
        self._parties.connect(self._core.commands, forward=forwarding.dispatch)
        signed = settings.authentication.site.switch
        self._unary = UnaryService(
            SignatureCheck(forwarding.dispatch, check=self._keys.check)
            if signed
            else forwarding.dispatch,
            authenticate=certificate_party,
            packets=ProtobufPackets(),
            hosts=self._routes.is_local,
            admits=self._routes.is_partner,
            pace=self._rpc.pace,
            settings=command_limits(settings, self._speaks),
        )
        self._parts.callback(self._unary.close)
        self._on_loop(self._plane.start())
        self._parts.callback(lambda: self._on_loop(self._plane.stop()))
        service = self._on_loop(self._data_plane_service())
        self._parts.callback(lambda: self._on_loop(self._relays.close()))
        own_door = ServersService(
            forwarding.serve, secret=lambda: self._servers.secret, pace=self._rpc.pace
        )
        self._parts.callback(own_door.close)
        rendezvous = DeferredService(RENDEZVOUS, lambda: self._rendezvous(services))
        self._parts.callback(rendezvous.close)
        over_exchange = ExchangeService(lambda: self._incoming_calls(service))
        doors = (self._unary, service, own_door, rendezvous, over_exchange)
        self._rpc.listen([door.add_to for door in doors])
        self._dial_in(over_exchange)
        built = built_of(app)
        web = HttpSettings(
            connections=connections_of_clients(),
            upload_bytes=settings.upload.max_mib * MIB,
            read_only=built.mounts.read_only_paths,
        )
        self._unix = HttpServer(app, HttpSettings(), name="fedflow-worker-http")
        self._unix.listen_unix(self._sockets / "server.sock")
        self._parts.callback(self._unix.stop)
        clients = built.clients
        self._http = HttpServer(
            app, web, name="fedflow-http", may_upload=clients.may_upload if clients else None
        )
        self._http.listen_tcp(settings.fateflow.host, settings.fateflow.http_port)
        self._parts.callback(self._http.stop)
        self.place = services.info.place = replace(
            place, http_port=self._http.port, grpc_port=self._rpc.port
        )

    def _rendezvous(self, services: Services) -> CalledLate:
        from fedflow.rpc.server.rendezvous import RendezvousService

        routes = self._routes
        return RendezvousService(
            services.rendezvous,
            authenticate=certificate_party,
            allows=lambda party_id: routes.is_local(party_id) or routes.is_partner(party_id),
            pace=self._rpc.pace,
        )

    def _services(self, place: ServerIdentity) -> Services:
        core = self._core
        settings = self.settings
        info = Info(
            store=self._store,
            engines=core.kernel.engines,
            probes=self.own_parts.probes(
                settings, self.folders, core=core, executor=self._executor, servers=self._servers
            ),
            place=place,
            clock=self._clock,
        )
        neighbours = Neighbours(
            info=info,
            parties=core.parties,
            circuit_breakers=core.circuit_breakers,
            preflight=core.preflight,
            store=self._store,
            routes=self._routes.addresses,
            call_timeout_s=settings.scheduling.call_timeout_s,
        )
        core.commands.add_look("info_common", neighbours.answer)
        core.commands.check_store(info.require_store)
        archives = LocalArchives(self.folders.tables)
        self._tables = Tables(
            store=self._store,
            folders=self.folders,
            archives=archives,
            sources=allowed_sources(settings),
            clock=self._clock,
            own_party=settings.party_id or "0",
        )
        late = LateServices(
            administration=Lazy(lambda: self._administration(neighbours)),
            data=Lazy(self._data),
            models=Lazy(self._models),
            signatures=Lazy(self._signatures),
        )
        return Services(
            core,
            late,
            info=info,
            modules=self._modules,
            servers=self._servers,
            tables=self._tables,
            archives=archives,
        )

    def _site_keys(self) -> SiteSigner:
        from fedflow.rpc.site_keys import RsaSiteKeys  # with `cryptography`

        return RsaSiteKeys(self.folders.site_key)

    def _administration(self, neighbours: Neighbours) -> Administration:
        from fedflow.server.administration import Neighbourhood, build_administration

        given = Neighbourhood(
            core=self._core,
            modules=self._modules,
            provider_book=self._provider_book,
            provider_host=self._provider_host,
            keys=self._keys,
            routes=self._routes,
            neighbours=neighbours,
        )
        return build_administration(self.settings, given, reread=self._reread)

    def _signatures(self) -> WorkerSignatures:
        from fedflow.app.participant.worker_signatures import WorkerSignatures

        return WorkerSignatures(
            store=self._store, workers=self._core.workers, signer=Lazy(self._signer)
        )

    def _signer(self) -> Signer | None:
        if self._credentials is None:
            return None
        from fedflow.rpc.certificate_signatures import CertificateSigner  # with `cryptography`

        return CertificateSigner(self._credentials, clock=self._wall)

    def _data(self) -> DataServices:
        from fedflow.server.data import build_data

        return build_data(self.settings, self._core, tables=self._tables)

    def _models(self) -> ModelServices:
        from fedflow.server.models import build_models

        return build_models(self.settings, self._core, blobs=self._blobs)

    def _tidy_data(self, services: Services) -> None:
        """Seal connectors that an older key or none sealed, delete what old uploads left."""
        with self._store.read() as tx:
            connectors = tx.connectors.all()
        if connectors:
            services.data.connectors.seal_old()
        if any(self.folders.uploads.iterdir()):
            services.data.uploads.sweep(self._clock.now_ms() - _UPLOAD_KEEP_MS)

    def _start_threads(self) -> None:
        core: Core = self._core
        scheduling = self.settings.scheduling
        self._leading = LeaderThreads(
            core, interval_s=scheduling.tick_interval_s, wakeups=self._wakeups,
            retention=retention_of(self.settings, core),
        )  # fmt: skip
        self._detector = DetectorThread(
            core.detector, interval_s=scheduling.detect_interval_s, on_look=self._look
        )
        clock_thread = ClockThread(self._clock, store=self._store, keep=self._lived_time.keep)
        self._parts.callback(clock_thread.join)
        self._parts.callback(clock_thread.stop)
        self._parts.callback(self._stop_threads)
        clock_thread.start()
        clock_thread.look_after(self._detector)  # which looks after all others
        self._loops: list[Loop] = [clock_thread, self._detector]
        if self._shared:
            self._lead = LeadThread(
                self._servers, start=self._leading.start, cease=self._leading.stop
            )
            self._beat = ServerLeaseThread(self._servers)
            wake_leader = WakeLeader(self._servers, self._links)
            self._wakeups.tell_leader = wake_leader.tell
            for thread in (self._lead, self._beat, wake_leader):
                self._parts.callback(thread.join)
                self._parts.callback(thread.stop)
                thread.start()
                self._loops.append(thread)
            self._parts.callback(self._servers.leave)
            self._lead.changed()
        else:
            self._leading.start()
        self._detector.start()
        self.own_parts.keep(sockets_of(self._unix, self._plane, self._on_loop))
        self.own_parts.connect(
            loop=self._rpc.loop,
            threads=lambda: [*faults_of(self._loops), *self._leading.faults()],
        )

    def _look(self) -> None:
        for thread in self._loops:
            thread.start()
        self.own_parts.look()
        if self._servers.leads:
            self._leading.look()
            self._garbage.collect()

    def close(self) -> None:
        """Stop threads, doors and adapters; running executors live on for the next server."""
        self._parts.close()

    def _stop_threads(self) -> None:
        self._detector.stop()
        self._detector.join()  # first: it starts outbox senders and heartbeat threads
        self._leading.stop()

    def _check_executors(self) -> None:
        if self._beat is not None:
            self._beat.beat_now()
        self._core.detector.stop_ended()

    async def _data_plane_service(self) -> DataPlaneService:
        """Return it, made on the event loop, as what it waits with belongs to the loop."""
        limits = federation_settings(self.settings)
        self._relays = relays_of(self._servers, self._links, limits)
        return DataPlaneService(
            self._plane,
            authenticate=certificate_party,
            settings=limits,
            pace=self._rpc.pace,
            servers=self._relays if self._shared else None,
        )

    def _incoming_calls(self, values: DataPlaneService) -> IncomingCalls:
        from fedflow.rpc.sealed.incoming import IncomingCalls  # with `cryptography`

        handlers = {**self._unary.handlers, **values.handlers}
        return IncomingCalls(
            {
                kind: self._rpc.shares.counting(handlers[path.rpartition("/")[2]])
                for path, kind in KINDS.items()
            },
            keys=self._keys,
            clock=self._wall,
            hosts=self._routes.is_local,
            admits=self._routes.is_partner,
            pace=self._rpc.pace,
        )

    def _dial_in(self, service: ExchangeService) -> None:
        """Let calls come over connections of this server's own, if it cannot be called."""
        if not self.settings.dial_in or self._credentials is None:
            return
        from fedflow.rpc.server.dial_in import DialIn  # most servers are called

        credentials = self._credentials.for_client()
        settings = ChannelSettings(message_bytes=self._rpc.message_bytes)
        answer = self._rpc.shares.counting(service.handler, sealed=True).stream_stream
        for address in self.settings.dial_in:
            lines = DialIn(
                address,
                open_channel=partial(
                    open_to_exchange, address, credentials=credentials, settings=settings
                ),
                answer=partial(answer, None),
                server_id=self._servers.own_id,
                rng=SystemRandom(),
            )  # fmt: skip
            self.own_parts.lines.append(lines)
            self._rpc.loop.call_soon_threadsafe(lines.start)
            self._parts.callback(self._hang_up, lines)

    def _hang_up(self, lines: DialIn) -> None:
        self._on_loop(lines.stop())

    def _sign(self, body: bytes) -> str:
        return self._keys.sign(body)

    def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._rpc.loop).result(timeout=30)
