"""What docs/operations.md tells operators to type, typed: certificates, keys, backup, restore; and
a server that deletes old jobs by itself.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedflow.cli.main import cli
from fedflow.client.client import Client
from tests.e2e.jobs import empty_job
from tests.e2e.servers import (
    DATA,
    GUEST_ID,
    HOST_ID,
    QUICK,
    ROOT,
    Party,
    Place,
    free_ports,
    running,
    wait_for,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
KEYS = ("analysts", "a-long-random-secret")
AUTHENTICATION = f"""
authentication:
  client: {{switch: true, http_app_key: {KEYS[0]}, http_secret_key: {KEYS[1]}}}
  site: {{switch: true}}
"""


def blocks(part: str) -> list[str]:
    """Return the shell blocks of the page that have a text."""
    found = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [block for block in found if part in block]


def typed(text: str, folder: Path, **other: str) -> None:
    """Run lines of a shell block in a folder, with other values of its variables."""
    for name, value in other.items():
        assert f"{name}=" in text
        text = re.sub(rf"^{name}=.*$", f"{name}='{value}'", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if not line.startswith("fedflow ")]
    command = ["bash", "-euc", "\n".join(lines)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def places(tmp_path: Path) -> tuple[Place, Place]:
    """Two parties with certificates of the page's recipe and its conf."""
    tls = tmp_path / "tls"
    tls.mkdir()
    (authority,) = blocks("req -x509")
    (own,) = blocks("-keyout $party.key")
    (signed,) = blocks("-CAcreateserial")
    typed(authority, tls)
    for party in (GUEST_ID, HOST_ID):
        typed(own, tls, party=party)
        typed(signed, tls, party=party)
    conf = tmp_path / "service_conf.yaml"
    conf.write_text(AUTHENTICATION)
    http_g, http_h, grpc_g, grpc_h = free_ports(4)
    guest = Place(
        home=tmp_path / "guest", party_id=GUEST_ID, http_port=http_g, grpc_port=grpc_g,
        routes={HOST_ID: f"127.0.0.1:{grpc_h}"}, tls=tls, settings=QUICK, conf=conf,
    )  # fmt: skip
    host = Place(
        home=tmp_path / "host", party_id=HOST_ID, http_port=http_h, grpc_port=grpc_h,
        routes={GUEST_ID: f"127.0.0.1:{grpc_g}"}, tls=tls, settings=QUICK, conf=conf,
    )  # fmt: skip
    return guest, host


@pytest.fixture
def parties(places: tuple[Place, Place]) -> Iterator[tuple[Party, Party]]:
    with running(*places) as (guest, host):
        yield guest, host


def fedflow(party: Party, *words: str, code: int = 0, signed: bool = True) -> str:
    keys = dict(zip(("FEDFLOW_APP_KEY", "FEDFLOW_SECRET_KEY"), KEYS, strict=True)) if signed else {}
    env = {"FEDFLOW_SERVER": party.url, "FEDFLOW_APP_KEY": None, "FEDFLOW_SECRET_KEY": None, **keys}
    result = CliRunner(env=env).invoke(cli, words)
    assert result.exit_code == code, result.output
    return result.output


def swap_keys(guest: Party, host: Party, folder: Path) -> None:
    """Give each party the other's public key, as the page says."""
    for one, other, party_id in ((guest, host, GUEST_ID), (host, guest, HOST_ID)):
        file = folder / f"party-{party_id}.pem"
        file.write_text(fedflow(one, "key", "show", "-p", party_id))
        fedflow(other, "key", "save", "-p", party_id, "-f", str(file))


def test_what_the_page_says_works_from_certificates_to_a_restored_backup(
    parties: tuple[Party, Party], places: tuple[Place, Place], tmp_path: Path
) -> None:
    guest, host = parties
    assert "not authenticated" in fedflow(guest, "job", "list", code=1, signed=False)
    swap_keys(guest, host, tmp_path)
    with Client(guest.url, app_key=KEYS[0], secret=KEYS[1]) as client:
        job = client.submit(*empty_job({}, {}))
        client.wait(job.job_id, timeout_s=120)
        assert client.job(job.job_id).status == "success"
    source = str(DATA / "breast_hetero_guest.csv")
    fedflow(guest, "data", "upload", "-f", source, "-n", "kept", "-t", "rows")
    assert "569" in fedflow(guest, "table", "info", "-n", "kept", "-t", "rows")

    backup = tmp_path / "backup"
    save, restore = blocks("$backup")
    typed(save, tmp_path, home=str(guest.home), backup=str(backup))
    guest.stop()
    restored = tmp_path / "restored"
    typed(restore, tmp_path, home=str(restored), backup=str(backup))
    settings = {**QUICK, "FEDFLOW__RETENTION__JOBS_DAYS": "0.00005"}
    with running(replace(places[0], home=restored, settings=settings)) as (again,):
        shown = fedflow(again, "table", "preview", "-n", "kept", "-t", "rows")
        assert "133" in shown
        gone = lambda: not [p for p in (again.home / "jobs").iterdir() if p.is_dir()]  # noqa: E731
        wait_for(gone, "the old jobs to be deleted")
        assert "No jobs" in fedflow(again, "job", "list")
        assert not (again.home / "logs" / job.job_id).exists()
        assert "569" in fedflow(again, "table", "info", "-n", "kept", "-t", "rows")
