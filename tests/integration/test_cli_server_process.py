"""`fedflow server start`, `status`, `stop` with a real server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from fedflow.base.errors.start import BadCertificate, HomeNotUsable, PortInUse
from fedflow.cli.server_process import log_file, wait_for
from fedflow.client.client import Client
from fedflow.domain.records import Handle
from fedflow.executor.processes import is_running, this_host


def fedflow(*words):
    return subprocess.run(
        [sys.executable, "-m", "fedflow.cli.main", *(str(word) for word in words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=40,
    )


@pytest.fixture
def home(tmp_path):
    yield tmp_path / "home"
    fedflow("server", "stop", "--home", tmp_path / "home")


ANY = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")


def test_a_server_starts_once_answers_and_stops(home):
    started = fedflow("server", "start", "--home", home, *ANY, "--party", "9999", "--json")
    assert started.returncode == 0, started.stderr
    state = json.loads(started.stdout)
    with Client(f"http://{state['http']}") as client:
        assert client.is_healthy()
        assert client.jobs().count == 0
    again = fedflow("server", "start", "--home", home, *ANY, "--json")
    assert json.loads(again.stdout)["pid"] == state["pid"]
    status = json.loads(fedflow("server", "status", "--home", home, "--json").stdout)
    assert (status["running"], status["party_id"]) == (True, "9999")
    log = log_file(home)
    log.rename(log.with_name("moved.log"))
    os.kill(state["pid"], signal.SIGHUP)
    assert wait_for(log.exists, timeout_s=10)
    with Client(f"http://{state['http']}") as client:
        assert client.is_healthy()
    stopped = json.loads(fedflow("server", "stop", "--home", home, "--json").stdout)
    assert stopped == {"stopped": True, "killed": False, "pid": state["pid"]}
    handle = Handle(pid=state["pid"], start_time=state["start_time"], host=this_host())
    assert not is_running(handle)
    assert fedflow("server", "status", "--home", home).returncode == 4
    assert "The server stops" in log.read_text()


def test_a_port_in_use_is_told_by_start(home):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = fedflow(
            "server", "start", "--home", home, "--http", f"127.0.0.1:{port}", "--grpc",
            "127.0.0.1:0",
        )  # fmt: skip
    assert ended.returncode == 1
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "Cannot listen" in ended.stderr
    assert f"Hint: {PortInUse.hint}\n" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_taken_port_for_parties_is_told_without_a_line_of_grpc(home):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = fedflow(
            "server", "start", "--home", home, "--http", "127.0.0.1:0", "--grpc",
            f"127.0.0.1:{port}",
        )  # fmt: skip
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use." in ended.stderr
    assert f"Hint: {PortInUse.hint}\n" in ended.stderr
    assert "add_port" not in (home / "server-logs" / "server.log").read_text()


def test_a_certificate_of_another_party_is_told_with_what_helps(home, tmp_path):
    fedflow("tls", "create", "--dir", tmp_path / "tls", "--party", "9999")
    files = ("--tls-ca", "ca.pem", "--tls-cert", "9999.pem", "--tls-key", "9999.key")
    words = [word if word.startswith("--") else tmp_path / "tls" / word for word in files]
    ended = fedflow("server", "start", "--home", home, *ANY, "--party", "7", *words)
    assert "its common name is 9999, not party 7" in ended.stderr
    assert f"Hint: {BadCertificate.hint}\n" in ended.stderr


def test_a_log_that_cannot_be_written_is_told_with_the_hint_of_the_home(home):
    (home / "server-logs" / "server.log").mkdir(parents=True)
    ended = fedflow("server", "start", "--home", home, *ANY)
    assert "server.log: Is a directory." in ended.stderr
    assert f"Hint: {HomeNotUsable.hint}\n" in ended.stderr


def test_a_home_that_is_a_file_is_told_by_start(tmp_path):
    (tmp_path / "file").touch()
    ended = fedflow("server", "start", "--home", tmp_path / "file" / "home", *ANY)
    assert ended.returncode == 1
    assert "file/home" in ended.stderr
    assert "Traceback" not in ended.stderr
