"""Requests that are too large, while others are answered; a host with another certificate."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from select import select

import psutil
import pytest

from fedflow.cli.server_process import wait_for
from fedflow.cli.tls import create_files
from tests.support.linear_model import GUEST, HOST
from tests.support.serving_processes import ServingPlace, serving_pair
from tests.support.serving_traffic import Traffic, quiet_end, traffic

ROW = {"x0": 1.0, "x1": 2.0}
MIB = 1 << 20
PATHS = ("federation/v1/inference", "federation/v1/batchInference", "v2/models/x/infer")

Pair = tuple[ServingPlace, ServingPlace]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    guest, host = serving_pair(tmp_path_factory.mktemp("large"), limits={"single_ms": 2000})
    with quiet_end(guest, host):
        yield guest, host


def unharmed(found: Traffic) -> None:
    assert (found.wrong, found.failures) == ([], [])


def sent(guest: ServingPlace, path: str, head: str) -> bytes:
    """Send 100 MiB as long as they are taken; return the answer."""
    port = guest.settings["callers"]["port"]
    chunk = b" " * MIB
    if "chunked" in head:
        chunk = b"%x\r\n%s\r\n" % (MIB, chunk)
    with closing(socket.create_connection(("127.0.0.1", port), 30)) as link:
        lines = (f"POST /{path} HTTP/1.1", "Host: x", "Content-Type: application/json", head)
        link.sendall("".join(f"{one}\r\n" for one in (*lines, "")).encode())
        for _ in range(100):
            if select([link], [], [], 0.02)[0]:  # it answers before it has read all
                break
            link.sendall(chunk)
        return link.recv(1000)


def test_100_mib_are_refused_unread_and_others_are_answered(pair: Pair) -> None:
    guest = pair[0]
    assert guest.process is not None
    memory = psutil.Process(guest.process.pid).memory_info
    before = memory().rss
    with traffic(guest, per_second=50) as found:
        for path in PATHS:
            for head in (f"Content-Length: {100 * MIB}", "Transfer-Encoding: chunked"):
                assert b" 413 " in sent(guest, path, head).partition(b"\r\n")[0]
        assert wait_for(lambda: sum(found.codes.values()) > 20, timeout_s=30)
    unharmed(found)
    assert memory().rss - before < 64 * MIB


def test_10_000_rows_and_a_duplicate_index_are_refused_and_others_are_answered(pair: Pair) -> None:
    one = {"featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1"}}
    with traffic(pair[0], per_second=50) as found:
        answer = pair[0].batch([{"index": n, **one} for n in range(10_000)])
        assert (answer["retcode"], answer.get("batchDataList")) == (100, None), answer["retmsg"]
        answer = pair[0].batch([{"index": 1, **one}] * 2)
        assert answer["retcode"] == 100
        assert wait_for(lambda: sum(found.codes.values()) > 20, timeout_s=30)
    unharmed(found)


def test_a_host_with_a_certificate_of_somebody_else_gives_no_score(
    pair: Pair, tmp_path: Path
) -> None:
    guest, host = pair
    tls = host.settings["partners"]["tls"]
    other = {one.party_id: one for one in create_files(tmp_path, (GUEST, HOST))}[HOST]
    host.stop()
    host.settings["partners"]["tls"] = {
        "ca": str(other.ca), "certificate": str(other.certificate), "key": str(other.key),
    }  # fmt: skip
    host.start()
    answer = guest.infer(ROW)
    assert answer["retcode"] == 2105, answer
    host.stop()
    host.settings["partners"]["tls"] = tls
    host.start()
    assert wait_for(lambda: guest.infer(ROW)["retcode"] == 0, timeout_s=60)
