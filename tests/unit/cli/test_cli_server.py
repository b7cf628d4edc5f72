"""`fedflow server` options, `fedflow tls`, the group of commands, the demo's parts."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import msgspec
import pytest
from rich.console import Console

import fedflow
from fedflow.cli.demo import find_examples
from fedflow.cli.demo_servers import free_ports
from fedflow.cli.main import _commands, cli
from fedflow.cli.output import Output, clean, duration
from fedflow.cli.server import ServerOptions
from fedflow.cli.server_process import find_server, wait_until_started
from fedflow.executor.processes import start_time_of
from tests.support.rest import Answer


def test_options_become_settings():
    options = ServerOptions(
        home=Path("/h"),
        http=("127.0.0.1", 1),
        grpc=("127.0.0.1", 2),
        party="9999",
        route=("10000=127.0.0.1:3",),
        insecure=True,
        tls_ca=Path("ca.pem"),
    )
    assert options.overrides() == {
        "fateflow": {
            "host": "127.0.0.1",
            "http_port": 1,
            "grpc_host": "127.0.0.1",
            "grpc_port": 2,
        },
        "party_id": "9999",
        "routes": {"10000": "127.0.0.1:3"},
        "insecure": True,
        "tls": {"ca": "ca.pem"},
    }


def test_what_is_not_said_is_left_to_the_conf_file():
    assert ServerOptions(home=Path("/h")).overrides() == {}


def test_the_two_listeners_may_have_addresses_of_their_own():
    options = ServerOptions(home=Path("/h"), http=("127.0.0.1", 1), grpc=("0.0.0.0", 2))
    listen = options.overrides()["fateflow"]
    assert (listen["host"], listen["grpc_host"]) == ("127.0.0.1", "0.0.0.0")


def test_start_hands_on_every_option_that_run_takes():
    options = ServerOptions(
        home=Path("/h"), http=("::1", 1), grpc=("::1", 2), party="9999", insecure=True,
        route=("1=a:1", "2=b:2"), conf=Path("c"), tls_ca=Path("x"), tls_cert=Path("y"),
        tls_key=Path("z"),
    )  # fmt: skip
    assert options.arguments() == [
        "--home", "/h", "--http", "[::1]:1", "--grpc", "[::1]:2", "--conf", "c", "--tls-ca", "x",
        "--tls-cert", "y", "--tls-key", "z", "--party", "9999", "--route", "1=a:1",
        "--route", "2=b:2", "--insecure",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--http", "9380"), "is not like 127.0.0.1:9380"),
        (("--http", "h:99999"), "is not like 127.0.0.1:9380"),
        (("--route", "10000"), "is not like 10000=127.0.0.1:9361"),
        (("--conf", "/no/such.yaml"), "does not exist"),
    ],
)
def test_a_wrong_server_option_is_a_usage_error(shell, tmp_path, words, said):
    result = shell("server", "start", "--home", tmp_path / "h", *words)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "h").exists()


def test_a_wrong_setting_is_said_before_anything_starts(shell, tmp_path):
    (tmp_path / "c.yaml").write_text("fateflow: {htpp_port: 1}\n")
    result = shell("server", "start", "--home", tmp_path / "h", "--conf", tmp_path / "c.yaml")
    assert result.exit_code == 1
    assert "htpp_port" in result.stderr
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize("listener", ["--http", "--grpc"])
def test_an_open_listener_without_protection_is_refused(shell, tmp_path, listener):
    result = shell("server", "start", "--home", tmp_path / "h", listener, "0.0.0.0:0")
    assert result.exit_code == 1
    assert "--insecure" in result.stderr


def test_no_server_is_code_4_for_status_and_fine_for_stop(shell, tmp_path):
    result = shell("server", "status", "--home", tmp_path)
    assert (result.exit_code, "No server runs in this folder." in result.stdout) == (4, True)
    assert shell("server", "stop", "--home", tmp_path).exit_code == 0


def _state(tmp_path, **members):
    (tmp_path / "run").mkdir()
    text = msgspec.json.encode({"http": "127.0.0.1:1", "grpc": "127.0.0.1:2", **members})
    (tmp_path / "run" / "server.json").write_bytes(text)


def test_a_pid_is_trusted_only_with_its_start_time(tmp_path):
    pid = os.getpid()
    _state(tmp_path, pid=pid, start_time=start_time_of(pid) - 1)
    assert find_server(tmp_path) is None


def test_a_server_is_found_by_its_state_file(tmp_path):
    pid = os.getpid()
    _state(tmp_path, pid=pid, start_time=start_time_of(pid), party_id="9999")
    found = find_server(tmp_path)
    assert found is not None
    assert (found.url, found.party_id) == ("http://127.0.0.1:1", "9999")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": "x"}'])
def test_a_broken_state_file_is_no_server(tmp_path, text):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "server.json").write_bytes(text)
    assert find_server(tmp_path) is None


def test_a_home_that_may_not_be_read_is_not_one_without_a_server(shell, tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    for command in ("status", "stop"):
        done = shell("server", command, "--home", tmp_path)
        assert (done.exit_code, "cannot be used" in done.stderr) == (1, True)
        assert f"{tmp_path}/run/server.json: Permission denied" in done.stderr
        assert "No server runs" not in done.stdout


def _runs_at(shell, tmp_path, **ready):
    """A server whose process is this one."""
    http = shell.server.url.removeprefix("http://")
    pid = os.getpid()
    _state(tmp_path, pid=pid, start_time=start_time_of(pid), http=http)
    shell.server.answers["/readyz"] = Answer(raw=msgspec.json.encode(ready))


def test_the_status_of_a_server_that_is_not_ready_has_its_reasons(shell, tmp_path):
    reasons = ["home: 3 MiB are free, health.min_free_mib asks for 256"]
    _runs_at(shell, tmp_path, ready=False, reasons=reasons, draining=True)
    done = shell("server", "status", "--home", tmp_path)
    assert done.exit_code == 1
    assert f"ready    no\n         {reasons[0]}\n" in done.stdout
    assert "drained  yes" in done.stdout
    assert "{" not in done.stdout
    told = shell("server", "status", "--home", tmp_path, "--json")
    assert (told.exit_code, json.loads(told.stdout)["reasons"]) == (1, reasons)


def test_the_status_of_a_ready_server_is_success(shell, tmp_path):
    _runs_at(shell, tmp_path, ready=True, reasons=[], cores={"free": 1, "total": 2})
    done = shell("server", "status", "--home", tmp_path)
    assert done.exit_code == 0
    assert "ready    yes\ncores    1 of 2 free\n" in done.stdout


def test_a_process_that_does_not_answer_is_code_4(shell, tmp_path):
    pid = os.getpid()
    _state(tmp_path, pid=pid, start_time=start_time_of(pid))
    done = shell("server", "status", "--home", tmp_path)
    assert (done.exit_code, "it does not answer" in done.stdout) == (4, True)


def test_a_start_waits_for_what_is_still_starting(shell, tmp_path):
    _runs_at(shell, tmp_path, ready=False, starting=True, reasons=["executor: it is starting"])
    state = find_server(tmp_path)
    assert wait_until_started(state, timeout_s=0.1) == ["executor: it is starting"]
    shell.server.answers["/readyz"] = Answer(
        raw=msgspec.json.encode({"ready": True, "starting": False, "reasons": []})
    )
    assert wait_until_started(state) == []


# --- tls ------------------------------------------------------------------------------------------


def test_tls_create_makes_files_that_a_server_accepts(shell, tmp_path):
    from fedflow.rpc.credentials import load_credentials

    made = shell.json("tls", "create", "--dir", tmp_path, "--party", "9999", "--party", "10000",
                      "--host", "10.0.0.1")  # fmt: skip
    for files in made:
        credentials = load_credentials(
            Path(files["certificate"]),
            Path(files["key"]),
            authorities=Path(files["ca"]),
            party_id=files["party_id"],
            now_ms=time.time_ns() // 1_000_000,
        )
        assert credentials.party_id == files["party_id"]
        assert Path(files["key"]).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600


def test_tls_create_adds_a_party_under_the_same_authority(shell, tmp_path):
    shell.json("tls", "create", "--dir", tmp_path, "--party", "1")
    before = (tmp_path / "ca.pem").read_bytes()
    shell.json("tls", "create", "--dir", tmp_path, "--party", "2")
    assert (tmp_path / "ca.pem").read_bytes() == before


def test_tls_create_overwrites_nothing(shell, tmp_path):
    shell.json("tls", "create", "--dir", tmp_path, "--party", "1")
    before = (tmp_path / "1.key").read_bytes()
    result = shell("tls", "create", "--dir", tmp_path, "--party", "1")
    assert (result.exit_code, "File exists" in result.stderr) == (2, True)
    assert (tmp_path / "1.key").read_bytes() == before


def test_a_party_id_cannot_leave_the_folder(shell, tmp_path):
    result = shell("tls", "create", "--dir", tmp_path / "d", "--party", "../x")
    assert result.exit_code == 2
    assert not (tmp_path / "d").exists()


# --- the group ------------------------------------------------------------------------------------


def test_help_lists_every_command_without_importing_it(shell):
    result = shell("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in _commands())


@pytest.mark.parametrize("name", _commands())
def test_every_command_has_help_that_agrees_with_the_list(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    with click.Context(command) as context:
        assert command.get_help(context)


def test_an_unknown_command_is_a_usage_error(shell):
    result = shell("nonsense")
    assert (result.exit_code, "No such command" in result.stderr) == (2, True)


def test_a_defect_is_told_without_a_traceback(shell, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("oops")

    monkeypatch.setattr("fedflow.client.jobs.JobCalls.jobs", broken)
    result = shell("job", "list", env={"FEDFLOW_DEBUG": ""})
    assert result.exit_code == 1
    assert "internal error: RuntimeError: oops" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_wrong_address_is_an_error(shell):
    result = shell("job", "list", "--server", "ftp://x")
    assert (result.exit_code, "ftp://x" in result.stderr) == (1, True)


def test_job_query_starts_without_the_servers_libraries():
    code = (
        "import sys, fedflow.cli.main, fedflow.cli.job;"
        "heavy = {'numpy', 'flask', 'grpc', 'pyarrow', 'peewee', 'sklearn', 'cryptography'};"
        "print(', '.join(heavy & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert (ended.stderr, ended.stdout) == ("", "\n")


def test_the_reader_of_a_pipe_may_leave_early():
    module = [sys.executable, "-m", "fedflow.cli.main", "--help"]
    with subprocess.Popen(module, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


# --- small parts ----------------------------------------------------------------------------------


def test_control_characters_are_made_visible():
    assert clean("a\x1b[2J\tb\n\u202e") == "a\ufffd[2J\tb\n\ufffd"


def printed(monkeypatch, width, columns, rows):
    """Return the lines of a table on a terminal of some width."""
    out = io.StringIO()
    monkeypatch.setattr(
        "fedflow.cli.output.console", lambda: Console(file=out, width=width, highlight=False)
    )
    Output(as_json=False).table(columns, rows)
    return out.getvalue().splitlines()


def test_a_wide_table_is_printed_in_parts_and_no_number_is_broken(monkeypatch):
    columns = ["id", *(f"x{i}" for i in range(20))]
    row = ["100", *(-0.123848 * (i + 1) for i in range(20))]
    lines = printed(monkeypatch, 80, columns, [row])
    words = " ".join(lines).split()
    assert {"-0.123848", "-0.247696", "-2.47696", *columns} <= set(words)
    assert max(map(len, lines)) <= 80
    parts = [line for line in lines if line.startswith("id ")]
    assert len(parts) == words.count("100") == 3


def test_a_long_text_is_folded_in_its_column(monkeypatch):
    lines = printed(monkeypatch, 40, ["job", "why"], [["2026112301", "a long text " * 8]])
    assert len([line for line in lines if "long" in line]) > 1
    assert all(line.startswith(("job ", "2026112301 ", " " * 12)) for line in lines)


def test_words_that_are_longer_than_the_terminal_still_are_printed(monkeypatch):
    lines = printed(monkeypatch, 30, ["name", "model"], [["a", "q" * 100]])
    assert "".join(lines).count("q") == 100


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (61, "1 min 01 s"), (7500, "2 h 05 min"), (None, None)],
)
def test_durations_are_for_people(seconds, text):
    assert duration(seconds) == text


def test_the_examples_of_a_checkout_are_found():
    examples = find_examples()
    assert (examples / "data" / "breast_hetero_guest.csv").is_file()
    assert examples.parent == Path(fedflow.__file__).resolve().parent.parent


def test_free_ports_differ():
    assert len(set(free_ports(20))) == 20
