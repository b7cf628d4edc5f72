"""Commands that a test sends to a real server, as any party whose certificate it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import grpc

from fedflow.base.clock import SystemClock
from fedflow.base.ids import new_request_id
from fedflow.domain.records import Reply
from fedflow.domain.site import Site
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.commands import GrpcClient
from fedflow.rpc.client.routes import Route, Routes, RouteTable
from fedflow.rpc.credentials import load_credentials
from fedflow.rpc.packets import ProtobufPackets
from tests.e2e.jobs import Json
from tests.e2e.servers import Party

Send = Callable[[Site, str, Json], Reply]  #: (who sends, path, body) -> answer


@contextmanager
def sending(party: Party) -> Iterator[Send]:
    """Yield a function that sends a party's server a command as the party of a site."""
    destination = str(party.place.party_id)
    with ExitStack() as stack:
        clients: dict[str, GrpcClient] = {}

        def call(site: Site, path: str, body: Json) -> Reply:
            own = site.party_id
            if own not in clients:
                channels = stack.enter_context(_channels(party, own))
                clients[own] = GrpcClient(channels, packets=ProtobufPackets(), own_party=own)
            return clients[own].call(
                site, destination, path, body,
                request_id=new_request_id(), job_id="j", deadline_s=20.0,
            )  # fmt: skip

        yield call


@contextmanager
def connected(party: Party, own: str) -> Iterator[grpc.Channel]:
    """Yield a channel to a party's server with the certificate of the party `own`."""
    with _channels(party, own) as channels:
        yield channels.channel(str(party.place.party_id))


@contextmanager
def _channels(party: Party, own: str) -> Iterator[Channels]:
    place, tls = party.place, party.place.tls
    assert tls is not None
    proof = load_credentials(
        tls / f"{own}.pem", tls / f"{own}.key", authorities=tls / "ca.pem",
        party_id=own, now_ms=SystemClock().now_ms(),
    )  # fmt: skip
    route = Route(host="127.0.0.1", port=place.grpc_port, tls=True)
    routes = Routes(local=frozenset({own}), remote={str(place.party_id): route})
    channels = Channels(
        RouteTable(routes), credentials=proof.for_client(), settings=ChannelSettings()
    )
    try:
        yield channels
    finally:
        channels.close()
