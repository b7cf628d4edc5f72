"""Rendezvous over gRPC with mutual TLS: the certificate says whose runs they are."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import msgspec
import pytest

from fedflow.app.administration.rendezvous import RendezvousRuns
from fedflow.base.clock import SystemClock
from fedflow.base.errors.parties import NotPartner
from fedflow.base.errors.requests import NotAuthenticated
from fedflow.rpc.client.rendezvous import GrpcRun
from fedflow.rpc.client.routes import Route
from fedflow.rpc.credentials import Credentials, certificate_party, load_credentials
from fedflow.rpc.server.deferred import RENDEZVOUS, DeferredService
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.rpc.server.rendezvous import RendezvousService
from fedflow.wire.rendezvous import MAX_CALL_BYTES
from tests.memory_store import MemoryStore
from tests.support.certificates import make_ca, make_certificate

OWN, PARTNER, OTHER = "10000", "9999", "8888"


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Credentials]:
    """Return the credentials of three parties of one authority."""
    folder, authority = tmp_path_factory.mktemp("tls"), make_ca()
    found = {}
    for party in (OWN, PARTNER, OTHER):
        made = make_certificate(party, authority=authority)
        paths = [folder / f"{party}.{kind}" for kind in ("crt", "key", "ca")]
        for path, pem in zip(paths, (made.certificate, made.key, authority.certificate)):
            path.write_bytes(pem)
        found[party] = load_credentials(
            paths[0], paths[1], authorities=paths[2], party_id=party,
            now_ms=SystemClock().now_ms(),
        )  # fmt: skip
    return found


@pytest.fixture
def port(known: dict[str, Credentials]) -> Iterator[int]:
    """Serve runs of the party 10000 and its partner 9999; return the port."""
    server = RpcServer(RpcSettings(port=0), credentials=known[OWN].for_server())
    runs = RendezvousRuns(store=MemoryStore(), clock=SystemClock())
    service = DeferredService(
        RENDEZVOUS,
        lambda: RendezvousService(
            runs, authenticate=certificate_party, allows={OWN, PARTNER}.__contains__,
            pace=server.pace,
        ),
    )  # fmt: skip
    server.open()
    server.listen([service.add_to])
    yield server.port
    server.stop(0.2)
    service.close()


def run_of(port: int, who: Credentials, *, party_id: str) -> GrpcRun:
    return GrpcRun(
        Route(host="127.0.0.1", port=port), party_id=party_id, run_id="r", server_party=OWN,
        credentials=who.for_client(),
    )  # fmt: skip


def test_runs_are_those_of_the_certificates_party(port: int, known: dict[str, Credentials]) -> None:
    with run_of(port, known[PARTNER], party_id=PARTNER) as partner:
        assert partner.write("00000000", None).was_set
    with run_of(port, known[OWN], party_id=OWN) as own:
        assert own.read(None).token is None
        assert own.write("00000000AAAA", None).was_set
    with run_of(port, known[PARTNER], party_id=PARTNER) as partner:
        assert partner.read(None).text == "00000000"


def test_nobody_speaks_for_another_party_and_strangers_have_no_runs(
    port: int, known: dict[str, Credentials]
) -> None:
    with run_of(port, known[PARTNER], party_id=OWN) as run, pytest.raises(NotAuthenticated):
        run.read(None)
    with run_of(port, known[OTHER], party_id=OTHER) as run, pytest.raises(NotPartner):
        run.write("00000000", None)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"\xff", b"[" * 5_000, b'{"run_id": "r"}', b'{"party_id":1,"run_id":"r"}',
     b'{"party_id":"9999","run_id":"r","more":1}', b'{"party_id":"a b","run_id":"r"}',
     b'{"party_id":"9999","run_id":"' + b"r" * 300 + b'"}'],
)  # fmt: skip
def test_hostile_calls_are_answered_with_an_error_and_the_next_one_is_served(
    port: int, known: dict[str, Credentials], raw: bytes
) -> None:
    with run_of(port, known[PARTNER], party_id=PARTNER) as run:
        answer = msgspec.json.decode(run._stub(iter((raw,)), timeout=10))
        assert answer["retcode"] != 0
        assert answer["error"]["name"] in ("BadRequest", "NotAuthenticated")
        assert run.read(None).token is None


def test_a_call_that_is_too_large_is_refused(port: int, known: dict[str, Credentials]) -> None:
    with run_of(port, known[PARTNER], party_id=PARTNER) as run:
        with pytest.raises(grpc.RpcError) as refused:
            run._stub(iter((b" " * (MAX_CALL_BYTES + 1),)), timeout=10)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
