"""Two real servers that sign their calls and check permissions, and what their logs hold."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.e2e.jobs import empty_job
from tests.e2e.servers import GUEST_ID, HOST_ID, QUICK, Pair, Party, refusal_of, two_parties

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SIGNED = {**QUICK, "FEDFLOW__AUTHENTICATION__SITE__SWITCH": "true"}
CHECKED = "permission: {switch: true, component: true, dataset: true}\n"


@dataclass(frozen=True)
class Both:
    """Two servers, and the conf file of the host's."""

    pair: Pair
    conf: Path


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("administration")
    conf = folder / "host.yaml"
    conf.write_text(CHECKED)
    with two_parties(folder, settings=SIGNED, host_conf=conf) as pair:
        yield Both(pair, conf)


@pytest.fixture
def pair(both: Both) -> Iterator[Pair]:
    """Both servers with each other's keys; each test leaves them idle."""
    exchange_keys(both.pair)
    yield both.pair
    both.pair.wait_idle()


def data(party: Party, path: str, **body: Any) -> Any:
    answer = party.post(f"/v1/{path}", body)
    assert answer["retcode"] == 0, answer
    return answer.get("data")


def exchange_keys(pair: Pair) -> None:
    for own, other, party_id in (
        (pair.guest, pair.host, GUEST_ID),
        (pair.host, pair.guest, HOST_ID),
    ):
        pem = data(own, "key/query", party_id=party_id)
        data(other, "key/public/save", party_id=party_id, key=pem)


def run(pair: Pair) -> str:
    """Run a job of one `Empty` and return its id."""
    job_id = pair.guest.client.submit(*empty_job({})).job_id
    assert set(pair.ends(job_id).values()) == {"success"}
    return job_id


def test_a_call_is_refused_until_the_parties_have_each_others_keys(both: Both) -> None:
    pair = both.pair
    for party_id, party in ((GUEST_ID, pair.host), (HOST_ID, pair.guest)):
        data(party, "key/public/delete", party_id=party_id)
    refused = pair.guest.post(f"/v1/info/party/{HOST_ID}")
    assert refused["retcode"] == 103
    assert f"its public key is not stored at party {HOST_ID}" in refused["retmsg"]
    exchange_keys(pair)
    assert data(pair.guest, f"info/party/{HOST_ID}")["party_id"] == HOST_ID
    assert data(pair.host, f"info/party/{GUEST_ID}")["http_port"] == pair.guest.place.http_port
    own = data(pair.guest, "key/query", party_id=GUEST_ID)
    data(pair.host, "key/public/save", party_id=GUEST_ID, key=_other_key(own))
    refused = pair.guest.post(f"/v1/info/party/{HOST_ID}")
    assert "the signature is not its own" in refused["retmsg"]


def _other_key(pem: str) -> str:
    """Return a key that is somebody else's."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    other = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()
    assert other != pem
    return other


def test_a_job_is_refused_until_its_components_are_granted(pair: Pair) -> None:
    data(pair.host, "permission/delete", party_id=GUEST_ID, component="*", dataset="*")
    refused = refusal_of(lambda: pair.guest.client.submit(*empty_job({})))
    assert "Party 9999 may not use the component Empty at this site" in refused.message
    data(pair.host, "permission/grant", party_id=GUEST_ID, component="empty")
    run(pair)


def test_a_reload_puts_other_permissions_in_force(both: Both, pair: Pair) -> None:
    data(pair.host, "permission/delete", party_id=GUEST_ID, component="*", dataset="*")
    try:
        both.conf.write_text("permission: {switch: false}\n")
        assert data(pair.host, "server/reload")["job_default_config"]["task_cores"] == 4
        run(pair)
        both.conf.write_text("permission: {switch: maybe}\n")
        refused = pair.host.post("/v1/server/reload")
        assert (refused["error"]["name"], refused["error"]["path"]) == (
            "BadSetting", "permission.switch",
        )  # fmt: skip
    finally:
        both.conf.write_text(CHECKED)
        data(pair.host, "server/reload")
    assert pair.host.post("/v1/permission/grant", {"party_id": GUEST_ID})["retcode"] == 0


def test_the_logs_of_a_site_are_where_fates_clients_look(pair: Pair) -> None:
    data(pair.host, "permission/grant", party_id=GUEST_ID, component="empty")
    job_id = run(pair)
    with requests.post(f"{pair.guest.url}/v1/job/log/download", json={"job_id": job_id}) as answer:
        content = answer.content
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        names = set(tar.getnames())
        info = tar.extractfile(f"guest/{GUEST_ID}/INFO.log")
        assert info is not None
        lines = info.read().decode().splitlines()
    assert {
        f"guest/{GUEST_ID}/ERROR.log",
        f"guest/{GUEST_ID}/empty_0/0/INFO.log",
        "fate_flow_schedule.log",
    } <= names
    assert any("empty_0" in line for line in lines)
    which = {"job_id": job_id, "role": "guest", "party_id": int(GUEST_ID)}
    party = {**which, "log_type": "partyInfo"}
    assert data(pair.guest, "log/size", **party) == {"size": len(lines)}
    assert data(pair.guest, "log/cat", **party)[0] == {"line_num": 1, "content": lines[0]}
    component = {**which, "log_type": "componentInfo", "component_name": "empty_0"}
    assert data(pair.guest, "log/size", **component)["size"] == len(lines)
    assert data(pair.guest, "log/size", **which, log_type="jobSchedule")["size"] > 0
    assert data(pair.guest, "log/size", **which, log_type="partyError") == {"size": 0}
