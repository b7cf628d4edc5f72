"""What shells offer for options: names that the server knows, and nothing without it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest
from click.shell_completion import ShellComplete

from fedflow.cli.flow.main import cli as flow
from fedflow.cli.main import cli
from tests.support.rest import Answer
from tests.unit.cli.conftest import NO_KEYS

TABLES = [
    {"table_name": "breast_guest", "namespace": "experiment", "count": 569},
    {"table_name": "breast_host", "namespace": "experiment", "count": 569},
    {"table_name": "$(touch evil)", "namespace": "experiment"},
    {"table_name": "--drop", "namespace": "-x"},
    {"table_name": "a b\nc", "namespace": "experiment"},
]
JOBS = [
    {"job_id": "2026112301", "role": "guest", "party_id": 9999, "status": "success"},
    {"job_id": "2026112301", "role": "host", "party_id": 9999, "status": "success"},
    {"job_id": "2026112302", "role": "guest", "party_id": 9999, "status": "running"},
]
MODELS = [
    {"f_model_id": "guest-9999#host-10000#model", "f_model_version": "2026112301"},
    {"f_model_id": "guest-9999#host-10000#model", "f_model_version": "2026112302"},
]
MODULES = [
    {"module": name, "roles": [], "aliases": [], "data_ports": [], "outputs": [], "summary": "",
     "parameters": {}, "needs_input": True}
    for name in ("HeteroLR", "HeteroLinR", "Reader")
]  # fmt: skip


@pytest.fixture
def offered(shell, make_view, make_task, monkeypatch):
    shell.answer("/v1/job/list/job", {"jobs": JOBS, "count": 3})
    tasks = [make_task("guest-9999", "success"), make_task("host-10000", "success")]
    shell.answer("/v1/job/status", make_view(tasks=tasks))
    shell.answer("/v1/table/list/all", {"count": len(TABLES), "tables": TABLES})
    shell.answer("/v1/model/query", MODELS)
    shell.answer("/v1/component/describe", MODULES)
    shell.answer("/v1/info/common", {"party_id": "9999"})
    shell.answer("/v1/party/list", [{"party_id": "10000"}])
    for name, value in {**NO_KEYS, "FEDFLOW_SERVER": shell.server.url}.items():
        monkeypatch.setenv(name, value)

    def offer(line):
        program, *words, begin = line.split(" ")
        root = cli if program == "fedflow" else flow
        found = ShellComplete(root, {}, program, "").get_completions(words, begin)
        return [one.value for one in found]

    return offer


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fedflow job query -j ", ["2026112301", "2026112302"]),
        ("fedflow job wait --job 2026112302", ["2026112302"]),
        ("fedflow table info -n ", ["experiment"]),
        ("fedflow table info -n experiment -t ", ["breast_guest", "breast_host"]),
        ("fedflow table preview -t breast_h", ["breast_host"]),
        ("fedflow data upload --table breast_g", ["breast_guest"]),
        ("fedflow model info -m ", ["guest-9999#host-10000#model"]),
        ("fedflow model info -v 20261123", ["2026112301", "2026112302"]),
        ("fedflow model bind -v ", ["2026112301", "2026112302"]),
        ("fedflow job log -j 7 -c ", ["reader_0"]),
        ("fedflow tracking metrics -j 7 -c re", ["reader_0"]),
        ("fedflow tracking metrics -c ", []),
        ("fedflow model deploy -v 7 -c ", ["reader_0"]),
        ("fedflow component describe heterol", ["HeteroLR", "HeteroLinR"]),
        ("fedflow permission grant -c Re", ["Reader"]),
        ("fedflow party ping ", ["9999", "10000"]),
        ("fedflow key show -p 1", ["10000"]),
        ("fedflow job log -j 7 -r host -p ", ["10000"]),
        ("flow job query -j ", ["2026112301", "2026112302"]),
        ("flow table info -n experiment -t ", ["breast_guest", "breast_host"]),
        ("flow component metrics -j 7 -cpn ", ["reader_0"]),
        ("flow model get-model-info --model-version ", ["2026112301", "2026112302"]),
    ],
)
def test_names_that_the_server_knows_are_offered(offered, line, words):
    assert offered(line) == words


def test_the_tables_of_a_namespace_are_asked_for(offered, shell):
    offered("fedflow table info -n experiment -t br")
    body = {"part": "br", "limit": 1000, "offset": 0, "namespace": "experiment"}
    assert shell.server.bodies("/v1/table/list/all") == [body]


def test_the_server_of_the_option_is_asked(offered, shell, monkeypatch):
    monkeypatch.setenv("FEDFLOW_SERVER", "http://127.0.0.1:1")
    assert offered("fedflow job query -j ") == []
    assert offered(f"fedflow job query --server {shell.server.url} -j ") != []


def test_what_a_server_refuses_is_no_suggestion(offered, shell):
    shell.server.answers["/v1/job/list/job"] = Answer(retcode=109, retmsg="sign")
    assert offered("fedflow job query -j ") == []


def complete(line, server):
    """Return the output of a bash that completes a line, and how long it took."""
    words = line.split(" ")
    env = {
        **os.environ, **NO_KEYS, "_FEDFLOW_COMPLETE": "bash_complete", "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1), "FEDFLOW_SERVER": server,
    }  # fmt: skip
    begin_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "fedflow.cli.main"], env=env, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    return done.stdout, done.stderr, time.monotonic() - begin_s


def test_a_key_press_gets_a_word_and_no_error_text(offered, shell):
    out, err, _ = complete("fedflow job query -j ", shell.server.url)
    assert (out.splitlines(), err) == (["plain,2026112301", "plain,2026112302"], "")


def test_a_server_that_is_down_or_silent_costs_a_second_and_prints_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1]):
            out, err, took_s = complete("fedflow job query -j ", f"http://127.0.0.1:{port}")
            assert (out.strip(), err) == ("", "")
            assert took_s < 25  # the process starts, too; without a limit it waits for 30 s
