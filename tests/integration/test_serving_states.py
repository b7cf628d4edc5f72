"""What a Flow server reads of serving processes: real ones, dead ones, and what is none."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from fedflow.client.serving_servers import HttpServingServers
from tests.support.linear_model import MODEL_ID, expected_score, share_of
from tests.support.serving_admin import serving_admin
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

pytestmark = pytest.mark.timeout(120)

ROW = {"x0": 1.0, "x1": 2.0}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServingPlace, ServingPlace]]:
    guest, host = serving_pair(tmp_path_factory.mktemp("states"), partner_ids=["device_id"])
    yield guest, host
    guest.stop()
    host.stop()


def admin_of(place: ServingPlace) -> str:
    return f"127.0.0.1:{place.settings['admin']['port']}"


def test_a_process_is_read_whole(pair: tuple[ServingPlace, ServingPlace]) -> None:
    guest, host = pair
    host.load("load-v2", share_of("host", "v2"))
    guest.load("load-v2", share_of("guest", "v2"))
    guest.bind("v2")
    guest.infer(ROW)
    servings = HttpServingServers([admin_of(guest), admin_of(host)], token=None)
    of_guest, of_host = servings.states()
    assert (of_guest.trouble, of_host.trouble) == ("", "")
    assert of_guest.readiness is not None
    assert of_guest.readiness.partners == {"10000": "answers"}
    assert [one.model_version for one in of_guest.versions] == ["v1", "v2"]
    (credit,) = of_guest.services
    assert [(one.model_version, one.weight) for one in credit.versions] == [("v2", 100.0)]
    assert len(credit.history) == 2
    assert {one.model_version for one in of_guest.drift} == {"v1", "v2"}
    assert of_guest.partner_ids == ["device_id"]
    (count,) = [o for o in of_guest.samples if o.name == "fedflow_serving_requests_total"]
    assert (count.labels["service"], count.value) == ("credit", 1)
    assert of_host.services == []
    assert servings.roll_back("credit")[0].retcode == 0
    (credit,) = servings.states()[0].services
    assert [one.model_version for one in credit.versions] == ["v1"]
    assert credit.versions[0].model_id == MODEL_ID


def test_a_request_is_tried_at_the_first_that_answers(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, _ = pair
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{closed.getsockname()[1]}"
        servings = HttpServingServers([dead, admin_of(guest)], token=None)
        reply = servings.tried("credit", ROW, {"device_id": "u1"})
        assert HttpServingServers([dead], token=None).tried("credit", ROW, {}).answer is None
    assert reply.address == admin_of(guest)
    assert reply.answer is not None
    assert reply.answer.data.score == pytest.approx(expected_score({**ROW, **ROWS["u1"]}))
    assert reply.answer.data.selected_by


def test_what_does_not_answer_is_said_and_costs_little_time(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, _ = pair
    with socket.socket() as mute, serving_admin(token="another") as other:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        silent = f"127.0.0.1:{mute.getsockname()[1]}"
        servings = HttpServingServers([silent, other.address, admin_of(guest)], token=None)
        began_s = time.monotonic()
        found = servings.states()
        assert time.monotonic() - began_s < 5
    assert [one.trouble for one in found] == ["silent", "refused", ""]
    assert [one.address for one in found] == [silent, other.address, admin_of(guest)]


@pytest.mark.parametrize("body", [b"<html>", b'{"ready": 5}', b"\xff", b"[" * 100_000])
def test_what_cannot_be_read_is_said(body: bytes) -> None:
    with one_answer(body) as address:
        (found,) = HttpServingServers([address], token=None).states()
    assert found.trouble == "unreadable"


@contextmanager
def one_answer(body: bytes) -> Iterator[str]:
    """Run an HTTP server that answers everything with one body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
