"""A data-plane server of one party for tests and benchmarks: real sockets, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, TypeVar

import grpc
import numpy as np
from numpy.typing import NDArray

from fedflow.base.clock import SystemClock
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.ids import PartyId
from fedflow.domain.administration.servers import Instance
from fedflow.domain.site import Site
from fedflow.federation.handle import FederationHandle
from fedflow.federation.plane import DataPlane
from fedflow.federation.settings import FederationSettings
from fedflow.rpc.client.channels import CallSealing, Channels, ChannelSettings, open_to_exchange
from fedflow.rpc.client.routes import Route, Routes, RouteTable, parse_address
from fedflow.rpc.credentials import Credentials, certificate_party
from fedflow.rpc.data_plane.links import GrpcSender
from fedflow.rpc.data_plane.relays import Relays
from fedflow.rpc.data_plane.service import DataPlaneService
from fedflow.rpc.sealed.agreement import SiteKeys
from fedflow.rpc.sealed.incoming import IncomingCalls
from fedflow.rpc.server.dial_in import DialIn
from fedflow.rpc.server.exchange import KINDS, ExchangeService
from fedflow.rpc.server.listener import AddService, RpcServer, RpcSettings
from fedflow.wire.exchange import CallKind
from tests.support.certificates import Authority, make_certificate

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Party:
    """Who a test server is."""

    party_id: str
    home: Path  #: spool and unix socket lie here
    credentials: Credentials | None = None  #: None: no TLS
    port: int = 0  #: 0 lets the system choose


def credentials_of(party_id: str, authority: Authority) -> Credentials:
    """Return fresh credentials of a party, signed by a test authority."""
    made = make_certificate(party_id, authority=authority)
    return Credentials(
        party_id=PartyId(party_id),
        certificate=made.certificate,
        key=made.key,
        authorities=authority.certificate,
        expires_ms=0,
    )


def value_on_disk(path: Path, size_bytes: int) -> NDArray[np.int64]:
    """Return a value in a file of its own, without a copy in memory: each page has its number."""
    value = np.memmap(path, dtype=np.int64, mode="w+", shape=(size_bytes // 8,))
    pages = value[::512]
    pages[:] = np.arange(1, pages.size + 1)
    value.flush()
    return value


def is_equal_on_disk(found: NDArray[np.int64], value: NDArray[np.int64]) -> bool:
    """Compare two values piece by piece."""
    step = 1 << 23
    return found.shape == value.shape and all(
        np.array_equal(found[at : at + step], value[at : at + step])
        for at in range(0, value.size, step)
    )


class Directory:
    """What the servers of one party know of each other; `is_away` is that of their database."""

    def __init__(self) -> None:
        self.secret = "of the store"
        self.has_others = True
        self.is_away = False
        self.asked = 0
        self.places: dict[tuple[str, Site], Instance] = {}

    def place(self, session: str, site: Site, server: DataPlaneServer) -> None:
        """Note that a server runs a site's executor."""
        self.places[session, site] = Instance(
            instance_id=str(server.port), host="here", http="", grpc=f"127.0.0.1:{server.port}",
            version="1", shared_mark="m", secret=self.secret,
        )  # fmt: skip

    def runs_at(self, session: str, site: Site, *, asked_by: int) -> Instance | None:
        """Return the other server that runs a site's executor. Raises: StoreUnavailable."""
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable(reason="connection refused")
        found = self.places.get((session, site))
        return None if found is None or found.instance_id == str(asked_by) else found


class DataPlaneServer:
    """Runs a data plane and its gRPC door in a thread. A context manager."""

    def __init__(
        self, party: Party, *, settings: FederationSettings, services: Sequence[AddService] = (),
        keys: SiteKeys | None = None,
    ) -> None:  # fmt: skip
        """`keys`: it can be called, and calls, over an exchange."""
        self._keys = keys
        self._dialled: list[DialIn] = []
        self.party = party
        self.settings = settings
        self.directory: Directory | None = None  #: set before the start: one of several servers
        self._services = services
        self.socket_path = party.home / "data.sock"
        self.routes = RouteTable(Routes(local=frozenset({party.party_id}), remote={}))
        client = party.credentials.for_client() if party.credentials else None
        self._channels = Channels(
            self.routes,
            credentials=client,
            settings=ChannelSettings(),
            sealing=None
            if keys is None
            else CallSealing(party_id=party.party_id, keys=lambda: keys, kinds=KINDS),
        )
        server = party.credentials.for_server() if party.credentials else None
        self._rpc = RpcServer(RpcSettings(port=party.port), credentials=server)
        self.plane: DataPlane
        self.service: DataPlaneService

    @property
    def port(self) -> int:
        """Return the gRPC port."""
        return self._rpc.port

    def route_to(self, ports: Mapping[str, int]) -> None:
        """Let this server reach other parties at ports of this machine."""
        tls = self.party.credentials is not None
        remote = {p: Route(host="127.0.0.1", port=n, tls=tls) for p, n in ports.items()}
        own = frozenset({self.party.party_id})
        self.routes.replace(Routes(local=own, remote=remote))

    def route_over(self, port: int, parties: Sequence[str]) -> None:
        """Let this server reach other parties over an exchange at a port of this machine."""
        over = parse_address(f"exchange://127.0.0.1:{port}", path="routes", tls=True)
        own = frozenset({self.party.party_id})
        self.routes.replace(Routes(local=own, remote=dict.fromkeys(parties, over)))

    def dial_in(self, port: int, *, server_id: str = "one", keepalive_s: float = 10.0) -> DialIn:
        """Keep connections open to an exchange at a port of this machine, until the stop."""
        assert self.party.credentials is not None
        service = ExchangeService(self._incoming_calls)
        answer = self._rpc.shares.counting(service.handler, sealed=True).stream_stream
        address = f"127.0.0.1:{port}"
        lines = DialIn(
            address,
            open_channel=partial(
                open_to_exchange, address, credentials=self.party.credentials.for_client(),
                settings=ChannelSettings(keepalive_s=keepalive_s, ping_timeout_s=keepalive_s),
            ),
            answer=partial(answer, None),
            server_id=server_id,
            rng=Random(1),
        )  # fmt: skip
        self._rpc.loop.call_soon_threadsafe(lines.start)
        self._dialled.append(lines)
        return lines

    def hang_up(self) -> None:
        """Close the connections to exchanges."""
        while self._dialled:
            self._on_loop(self._dialled.pop().stop())

    def handle(
        self, session: str, site: Site, *, token: str, incarnation: int = 0
    ) -> FederationHandle:
        """Return the handle that an executor of this server would use."""
        return FederationHandle(
            self.socket_path,
            session=session,
            site=site,
            token=token,
            timeout_s=self.settings.receive_timeout_s,
            incarnation=incarnation,
        )

    def open(self, session: str, sites: Sequence[Site], *, token: str) -> None:
        """Open the session at every site of this party."""
        for site in sites:
            if self.routes.is_local(site.party_id):
                self.plane.open_session(session, site, token=token, sites=sites)

    def start(self) -> None:
        """Listen on both doors."""
        self._rpc.open()
        service = self._on_loop(self._start())
        over_exchange = ExchangeService(self._incoming_calls)
        self._rpc.listen([service.add_to, over_exchange.add_to, *self._services])

    def stop(self) -> None:
        """Stop both doors."""
        self.hang_up()
        self._on_loop(self.plane.stop())
        self._rpc.stop(0.0)

    def __enter__(self) -> DataPlaneServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    async def _start(self) -> DataPlaneService:
        port = GrpcSender(
            open_channel=self._channels.open_aio_channel,
            is_local=self.routes.is_local,
            settings=self.settings,
            turn=self._channels.route,
        )
        self.plane = DataPlane(
            self.settings,
            spool_dir=self.party.home / "spool",
            socket_path=self.socket_path,
            port=port,
        )
        await self.plane.start()
        self.service = DataPlaneService(
            self.plane, authenticate=certificate_party, settings=self.settings,
            servers=self._relays(), pace=self._rpc.pace,
        )  # fmt: skip
        return self.service

    def _incoming_calls(self) -> IncomingCalls:
        assert self._keys is not None, "this server is not behind an exchange"
        handlers = self.service.handlers
        return IncomingCalls(
            {
                CallKind.MESSAGES: self._rpc.shares.counting(handlers["Messages"]),
                CallKind.BULK: self._rpc.shares.counting(handlers["Bulk"]),
            },
            keys=self._keys,
            clock=SystemClock(),
            hosts=self.routes.is_local,
            admits=self.routes.is_partner,
            pace=self._rpc.pace,
        )

    def _relays(self) -> Relays | None:
        directory = self.directory
        if directory is None:
            return None
        return Relays(
            runs_at=lambda session, site: directory.runs_at(session, site, asked_by=self.port),
            has_others=lambda: directory.has_others,
            open_channel=lambda to: grpc.aio.insecure_channel(to.grpc),
            secret=lambda: directory.secret,
            settings=self.settings,
        )

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._rpc.loop).result(10)
