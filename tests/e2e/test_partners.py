"""Who is no partner learns nothing and starts nothing: real servers over TLS.

The guest's partners are those with a route, that is the host. The host's conf lists a third party
alone, which has no server and no route.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import PARTY_COMMANDS, job_path
from tests.e2e.jobs import empty_job
from tests.e2e.packets import connected, sending
from tests.e2e.servers import (
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    Pair,
    Party,
    Place,
    free_ports,
    make_certificates,
    running,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

STRANGER = Site(Role.HOST, PartyId("7777"))
JOB_ID = "2" * 24


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The conf file of the host."""
    path = tmp_path_factory.mktemp("conf") / "host.yaml"
    path.write_text("partners: [7777]\n")
    return path


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, conf: Path) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("partners")
    tls = make_certificates(folder / "tls", GUEST_ID, HOST_ID, STRANGER.party_id)
    http_g, http_h, grpc_g, grpc_h = free_ports(4)
    guest = Place(
        home=folder / "guest", party_id=GUEST_ID, http_port=http_g, grpc_port=grpc_g, tls=tls,
        routes={HOST_ID: f"127.0.0.1:{grpc_h}"}, settings=QUICK,
    )  # fmt: skip
    host = Place(
        home=folder / "host", party_id=HOST_ID, http_port=http_h, grpc_port=grpc_h, tls=tls,
        routes={GUEST_ID: f"127.0.0.1:{grpc_g}"}, settings=QUICK, conf=conf,
    )  # fmt: skip
    with running(guest, host) as (first, second):
        yield Pair(first, second)


def commands(asking: Site, asked: Site) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return what a party may ask of a site that it has no job with: name -> path and body."""
    initiator = {"initiator_role": asking.role.value, "initiator_party_id": asking.party_id}
    dsl, conf = empty_job({}, federated_status_collect_type="PULL")
    conf["initiator"] = {"role": asking.role.value, "party_id": int(asking.party_id)}
    conf["role"] = {
        asked.role.value: [int(asked.party_id)], asking.role.value: [int(asking.party_id)]
    }  # fmt: skip
    key = JobKey(job_id=JOB_ID, site=asked)
    preflight = {"party_id": asked.party_id, "initiator_role": asking.role.value, "uses": []}
    tables = {"reader_0": {"name": "t", "namespace": "experiment"}}
    return {
        "info": (PARTY_COMMANDS["info_common"], {}),
        "heartbeat": (PARTY_COMMANDS["heartbeat"], {"jobs": {}}),
        "preflight": (PARTY_COMMANDS["preflight"], preflight),
        "reuse": (job_path("job_reuse", key), {**initiator, "tables": tables}),
        "create": (
            job_path("job_create", key), {**initiator, "dsl": dsl, "runtime_conf": conf},
        ),
        "check": (job_path("job_check", key), {**initiator, "dsl": dsl, "runtime_conf": conf}),
        "stop": (job_path("job_stop", key, status="canceled"), {"epoch": 0}),
        "no such route": ("/job/list/job", {}),
    }  # fmt: skip


def stored(party: Party) -> Any:
    """Return the jobs of a server, and the folders of jobs."""
    listed = party.post("/v1/job/list/job", {"limit": 0})["data"]["count"]
    found = (p for name in ("jobs", "logs") for p in (party.home / name).glob("*"))
    return listed, sorted(str(path) for path in found)


def test_a_party_without_a_route_gets_one_answer_whatever_it_asks(pair: Pair) -> None:
    before = stored(pair.guest)
    with sending(pair.guest) as send:
        answers = [send(STRANGER, *one) for one in commands(STRANGER, GUEST).values()]
    assert {(a.retcode, a.error, a.data) for a in answers} == {(108, "NotPartner", None)}
    (said,) = {answer.retmsg for answer in answers}
    assert said.startswith("The calling party is no partner of this server.")
    assert stored(pair.guest) == before


def test_a_list_of_partners_counts_whatever_routes_there_are(pair: Pair) -> None:
    before = stored(pair.host)
    with sending(pair.host) as send:
        asked = Site(Role.GUEST, PartyId(HOST_ID))
        refused = [send(GUEST, *one) for one in commands(GUEST, HOST).values()]
        assert {a.error for a in refused} == {"NotPartner"}
        assert stored(pair.host) == before
        told = {n: send(STRANGER, *one) for n, one in commands(STRANGER, asked).items()}
    assert {n for n, answer in told.items() if answer.retcode} == {"no such route"}
    assert pair.host.post("/v1/job/stop", {"job_id": JOB_ID})["retcode"] == 0


@pytest.mark.parametrize("method", ["Messages", "Bulk"])
def test_who_is_no_partner_sends_no_values(pair: Pair, method: str) -> None:
    refused = grpc.StatusCode.PERMISSION_DENIED
    for party, own, is_partner in (
        (pair.guest, STRANGER.party_id, False),
        (pair.host, GUEST_ID, False),
        (pair.guest, HOST_ID, True),
    ):
        with connected(party, own) as channel:
            call = channel.stream_stream(f"/fedflow.v1.DataPlane/{method}")(
                iter([b"0"]), timeout=10
            )
            with suppress(grpc.RpcError):  # it is no message of this door
                list(call)
            assert (call.code() is not refused) is is_partner, call.details()


def test_the_initiator_is_told_and_a_reload_puts_another_list_in_force(
    pair: Pair, conf: Path
) -> None:
    dsl, given = empty_job({})
    body = {"job_dsl": dsl, "job_runtime_conf": given}
    refused = pair.guest.post("/v1/job/submit", body)
    assert refused["retcode"] == 103
    assert "The calling party is no partner of this server" in refused["retmsg"]
    conf.write_text("partners: [7777, 9999]\n")
    try:
        assert pair.host.post("/v1/server/reload")["retcode"] == 0
        job_id = pair.guest.client.submit(dsl, given).job_id
        assert set(pair.ends(job_id).values()) == {"success"}
        conf.write_text("partners: [a b]\n")
        wrong = pair.host.post("/v1/server/reload")
        assert (wrong["error"]["name"], wrong["error"]["path"]) == ("BadSetting", "partners")
    finally:
        conf.write_text("partners: [7777]\n")
        assert pair.host.post("/v1/server/reload")["retcode"] == 0
