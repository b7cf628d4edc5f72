"""The HTTP listeners on real sockets: what waitress must and must not do for us."""

from __future__ import annotations

import http.client
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from waitress.channel import HTTPChannel

from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.start import AddressNotHere, PortInUse
from fedflow.http.server import HttpServer, HttpSettings
from fedflow.web.auth import SignedRequest, signature, signed_request
from fedflow.web.context import built_of
from fedflow.web.settings import ClientKeys, WebSettings
from tests.unit.web.applications import whole_app

KEYS = ClientKeys(app_key="app", secret="top secret")
SMALL = HttpSettings(threads=2, body_bytes=100_000, upload_bytes=2_000_000)


class Recorder:
    """A WSGI application that remembers the environments; while `gate` is not set it waits."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        self.seen.append({**environ, "body": body})
        self.gate.wait(20)
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
        return [b"ok"]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def wait_for(condition: Callable[[], bool]) -> None:
    clock, never = SystemClock(), threading.Event()
    deadline_s = clock.monotonic_s() + 60
    while not condition():
        assert clock.monotonic_s() < deadline_s
        pause(0.01, never)


def start(stack: ExitStack, app: Any, settings: HttpSettings = SMALL) -> HttpServer:
    server = HttpServer(app, settings, name="fedflow-http")
    server.listen_tcp("127.0.0.1", 0)
    stack.callback(server.stop, 1.0)
    return server


def ask(
    stack: ExitStack, server: HttpServer, method: str, path: str, body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes, http.client.HTTPResponse]:  # fmt: skip
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    stack.callback(link.close)
    link.request(method, path, body, headers or {})
    answer = link.getresponse()
    return answer.status, answer.read(), answer


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(self._path))


# --- headers and bodies ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["APP_KEY", "app_key", "APP-KEY"])
def test_the_app_key_arrives_in_every_spelling(
    stack: ExitStack, recorder: Recorder, name: str
) -> None:
    ask(stack, start(stack, recorder), "POST", "/x", b"{}", {name: "k"})
    assert recorder.seen[0]["HTTP_APP_KEY"] == "k"


def test_other_names_with_underscore_are_dropped(stack: ExitStack, recorder: Recorder) -> None:
    headers = {"X_APP_KEY": "a", "fedflow_party": "1", "SRC_PARTY_ID": "1"}
    ask(stack, start(stack, recorder), "POST", "/x", b"{}", headers)
    assert not {"HTTP_X_APP_KEY", "HTTP_FEDFLOW_PARTY", "HTTP_SRC_PARTY_ID"} & set(recorder.seen[0])
    assert "fedflow.party" not in recorder.seen[0]


def test_both_spellings_at_once_are_not_one_key(stack: ExitStack, recorder: Recorder) -> None:
    headers = {"APP_KEY": "a", "APP-KEY": "b"}
    ask(stack, start(stack, recorder), "POST", "/x", b"{}", headers)
    assert recorder.seen[0]["HTTP_APP_KEY"] == "a, b"


def test_a_body_on_get_is_read(stack: ExitStack, recorder: Recorder) -> None:
    ask(stack, start(stack, recorder), "GET", "/x", b'{"a":1}')
    assert recorder.seen[0]["body"] == b'{"a":1}'


def test_the_target_is_kept_as_it_was_sent(stack: ExitStack, recorder: Recorder) -> None:
    target = "/v1/data/upload?%7B%22a%22:%20%22b+c%22%7D"
    ask(stack, start(stack, recorder), "POST", target, b"x")
    assert recorder.seen[0]["REQUEST_URI"] == target


def test_the_server_does_not_tell_its_version(stack: ExitStack, recorder: Recorder) -> None:
    _, _, answer = ask(stack, start(stack, recorder), "GET", "/x")
    assert answer.headers["Server"] == "fedflow"


def test_bodies_are_limited_and_uploads_less(stack: ExitStack, recorder: Recorder) -> None:
    server = start(stack, recorder)
    big = b"x" * 200_000
    assert ask(stack, server, "POST", "/v1/job/submit", big)[0] == 413
    assert ask(stack, server, "POST", "/v1/data/upload?a=b", big)[0] == 200
    assert len(recorder.seen) == 1


def test_an_upload_over_its_limit_is_not_received(stack: ExitStack, recorder: Recorder) -> None:
    server = start(stack, recorder)
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)) as link:
        head = b"POST /v1/data/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n"
        link.sendall(head)
        assert b"413" in link.recv(1000)
    assert recorder.seen == []


def test_requests_on_one_connection_are_limited_each_by_its_path(
    stack: ExitStack, recorder: Recorder
) -> None:
    server = start(stack, recorder)
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    stack.callback(link.close)
    for path, size in (("/v1/data/upload", 200_000), ("/v1/x", 10), ("/v1/data/upload", 200_000)):
        link.request("POST", path, b"x" * size)
        answer = link.getresponse()
        assert (answer.status, answer.read()) == (200, b"ok")
    link.request("POST", "/v1/x", b"x" * 200_000)
    assert link.getresponse().status == 413


@pytest.mark.parametrize(
    "raw",
    [b"GET\r\n\r\n", b"\xff\xfe\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
     b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n"],
)  # fmt: skip
def test_rubbish_is_answered_and_harms_nobody(
    stack: ExitStack, recorder: Recorder, raw: bytes
) -> None:
    server = start(stack, recorder)
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)) as link:
        try:
            link.sendall(raw)
            assert link.recv(1000).startswith(b"HTTP/1.")
        except ConnectionError:
            pass  # it hung up while we still sent
    assert ask(stack, server, "GET", "/x")[0] == 200


# --- the whole way --------------------------------------------------------------------------------


def test_a_signed_request_passes_the_whole_way(stack: ExitStack) -> None:
    app = whole_app(_Info(), WebSettings(client_keys=KEYS))  # type: ignore[arg-type]
    server = start(stack, app)
    now = str(SystemClock().now_ms())
    body = b'{"module": "FATE"}'
    headers = {"TIMESTAMP": now, "NONCE": "n", "APP_KEY": "app", "Content-Type": "application/json"}
    with Flask("signer").test_request_context(
        "/v1/version/get", method="POST", data=body, headers=headers
    ):
        headers["SIGNATURE"] = signature(KEYS, signed_request(), body).decode()
    status, answer, _ = ask(stack, server, "POST", "/v1/version/get", body, headers)
    assert (status, b'"FATE":"1.11.4"' in answer) == (200, True)
    _, answer, _ = ask(stack, server, "POST", "/v1/version/get", body)
    assert b'"retcode":109' in answer


def test_a_large_body_is_received_only_if_its_headers_are_signed(
    stack: ExitStack, recorder: Recorder
) -> None:
    app = whole_app(_Info(), WebSettings(client_keys=KEYS))  # type: ignore[arg-type]
    clients = built_of(app).clients
    assert clients is not None
    server = HttpServer(recorder, SMALL, name="fedflow-http", may_upload=clients.may_upload)
    server.listen_tcp("127.0.0.1", 0)
    stack.callback(server.stop, 1.0)
    target, kind = "/v1/data/upload?a=%20b", "multipart/form-data; boundary=b"
    headers = {
        "TIMESTAMP": str(SystemClock().now_ms()), "NONCE": "n", "APP_KEY": "app",
        "Content-Type": kind,
    }  # fmt: skip
    signed = SignedRequest(
        timestamp=headers["TIMESTAMP"], nonce="n", app_key="app", signature="", target=target
    )
    headers["SIGNATURE"] = signature(KEYS, signed, b"").decode()
    body = b"x" * 200_000  # more than others may send
    for _ in range(2):  # the nonce is not used up by looking
        assert ask(stack, server, "POST", target, body, headers)[0] == 200
    for changed in ({"NONCE": "m"}, {"TIMESTAMP": "1"}, {"SIGNATURE": ""}, {"APP_KEY": "x"}):
        assert declared(server, target, {**headers, **changed}) == 413
    assert declared(server, target + "x", headers) == 413
    small = {**headers, "SIGNATURE": "wrong"}
    assert ask(stack, server, "POST", target, b"x", small)[0] == 200  # the view refuses it
    assert len(recorder.seen) == 3


def declared(server: HttpServer, target: str, headers: dict[str, str]) -> int:
    """Return the status of a request whose large body is announced, but never sent."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as link:
        link.putrequest("POST", target)
        for name, value in {**headers, "Content-Length": "200000"}.items():
            link.putheader(name, value)
        link.endheaders()
        return link.getresponse().status


def test_an_upload_passes_the_whole_way(stack: ExitStack, tmp_path: Path) -> None:
    services = _Uploads(tmp_path)
    app = whole_app(services, WebSettings())  # type: ignore[arg-type]
    query = quote('{"namespace": "exp", "table_name": "g"}', safe=":,")
    content = b"id,x\n" + b"1,2\n" * 100_000
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="d.csv"\r\n\r\n'
        + content + b"\r\n--b--\r\n"
    )  # fmt: skip
    status, answer, _ = ask(
        stack, start(stack, app), "POST", f"/v1/data/upload?{query}", body,
        {"Content-Type": "multipart/form-data; boundary=b"},
    )  # fmt: skip
    assert (status, b'"retcode":100' in answer) == (200, True)  # the fake answers with a defect
    assert services.parameters == {"namespace": "exp", "table_name": "g"}
    assert services.content == content
    assert list((tmp_path / "spool").iterdir()) == []


class _Info:
    """Only what the version routes need."""

    @property
    def info(self) -> _Info:
        return self

    def versions(self) -> dict[str, str]:
        return {"FATE": "1.11.4"}


class _Uploads:
    """Takes the file and fails, so that its removal is seen too."""

    def __init__(self, home: Path) -> None:
        self.spool_dir = home / "spool"
        self.parameters: dict[str, Any] = {}
        self.content = b""

    @property
    def data(self) -> _Uploads:
        return self

    @property
    def uploads(self) -> _Uploads:
        return self

    def submit(self, parameters: dict[str, Any], path: Path, *, keep_file: bool = False) -> None:
        self.parameters, self.content = parameters, path.read_bytes()
        raise RuntimeError("a defect")


# --- listening and stopping -----------------------------------------------------------------------


def test_a_tcp_port_in_use_is_a_readable_error(recorder: Recorder) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = HttpServer(recorder, SMALL, name="fedflow-http")
        with pytest.raises(PortInUse, match="in use"):
            server.listen_tcp("127.0.0.1", taken.getsockname()[1])


def test_an_address_of_another_machine_is_told_apart_from_a_port_in_use(
    recorder: Recorder,
) -> None:
    server = HttpServer(recorder, SMALL, name="fedflow-http")
    with pytest.raises(AddressNotHere, match="Cannot listen on 192") as caught:
        server.listen_tcp("192.0.2.1", 0)
    assert "port" not in caught.value.hint


def test_executors_reach_the_unix_socket_and_nobody_else_does(
    stack: ExitStack, recorder: Recorder, tmp_path: Path
) -> None:
    path = tmp_path / "server.sock"
    server = HttpServer(recorder, SMALL, name="fedflow-worker")
    server.listen_unix(path)
    stack.callback(server.stop, 1.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    link = UnixConnection(path)
    stack.callback(link.close)
    for _ in range(3):
        link.request("POST", "/v1/x", b"{}", {"X-Fedflow-Task-Token": "t"})
        assert link.getresponse().read() == b"ok"
    assert recorder.seen[0]["HTTP_X_FEDFLOW_TASK_TOKEN"] == "t"


def test_a_live_unix_socket_is_not_taken_over_but_a_dead_one_is(
    stack: ExitStack, recorder: Recorder, tmp_path: Path
) -> None:
    path = tmp_path / "server.sock"
    first = HttpServer(recorder, SMALL, name="fedflow-worker")
    first.listen_unix(path)
    with pytest.raises(PortInUse):
        HttpServer(recorder, SMALL, name="fedflow-worker").listen_unix(path)
    first.stop()
    assert not path.exists()
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    second = HttpServer(recorder, SMALL, name="fedflow-worker")
    second.listen_unix(path)
    stack.callback(second.stop, 1.0)
    link = UnixConnection(path)
    stack.callback(link.close)
    link.request("GET", "/x")
    assert link.getresponse().status == 200


def test_a_unix_socket_that_was_removed_is_made_anew_and_open_connections_stay(
    stack: ExitStack, recorder: Recorder, tmp_path: Path
) -> None:
    path = tmp_path / "run" / "server.sock"
    path.parent.mkdir()
    server = HttpServer(recorder, SMALL, name="unix")
    server.listen_unix(path)
    stack.callback(server.stop)
    before = stack.enter_context(closing(_unix(path)))
    assert not server.is_lost()
    path.unlink()
    path.parent.rmdir()
    assert server.is_lost()
    server.listen_again()
    assert not server.is_lost()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for client in (before, stack.enter_context(closing(_unix(path)))):
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_the_unix_socket_of_a_server_that_came_after_stays(
    stack: ExitStack, recorder: Recorder, tmp_path: Path
) -> None:
    path = tmp_path / "server.sock"
    first, second = (HttpServer(recorder, SMALL, name=name) for name in ("first", "second"))
    first.listen_unix(path)
    path.unlink()
    second.listen_unix(path)
    stack.callback(second.stop, 1.0)
    first.stop(1.0)
    assert not second.is_lost()


def _unix(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(60)
    client.connect(str(path))
    return client


def test_stop_lets_a_running_view_answer(stack: ExitStack, recorder: Recorder) -> None:
    server = start(stack, recorder)
    recorder.gate.clear()
    answers: list[int] = []
    asker = threading.Thread(target=lambda: answers.append(ask(stack, server, "GET", "/slow")[0]))
    asker.start()
    wait_for(lambda: bool(recorder.seen))
    port = server.port
    stopper = threading.Thread(target=server.stop, args=(10.0,))
    stopper.start()

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:  # it was waiting to be accepted when the listener closed
            return False
        return False

    wait_for(refused)
    recorder.gate.set()
    stopper.join(60)
    asker.join(60)
    assert answers == [200]


class Looker(Recorder):
    """Its gate holds up looks only."""

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if not environ["PATH_INFO"].startswith("/look"):
            start_response("200 OK", [("Content-Length", "2")])
            return [b"ok"]
        return super().__call__(environ, start_response)


def test_many_who_only_look_are_served_few_at_once_and_hold_up_nobody_else(
    stack: ExitStack,
) -> None:
    looker = Looker()
    settings = HttpSettings(threads=1, read_only=frozenset({"/look"}), look_threads=2)
    server = start(stack, looker, settings)
    looker.gate.clear()
    stack.callback(looker.gate.set)
    answers: list[int] = []
    paths = ["/look", "/look/", "/look?x=1"] * 4
    askers = [
        threading.Thread(
            target=lambda path=path: answers.append(ask(stack, server, "GET", path)[0])
        )
        for path in paths
    ]
    for asker in askers:
        asker.start()
    wait_for(lambda: len(looker.seen) == 2)
    wait_for(lambda: len(server._server.active_channels) == len(paths))
    assert [ask(stack, server, "POST", "/other")[0] for _ in range(3)] == [200] * 3
    assert len(looker.seen) == 2
    looker.gate.set()
    for asker in askers:
        asker.join(60)
    assert answers == [200] * len(paths)


def test_the_loop_does_not_turn_idly_while_an_answer_is_sent(
    stack: ExitStack, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending, turns, never = threading.Event(), list[None](), threading.Event()
    flush, handle_write = HTTPChannel._flush_some, HTTPChannel.handle_write

    def flush_slowly(channel: HTTPChannel, do_close: bool = True) -> bool:
        if not sending.is_set():
            sending.set()
            pause(0.3, never)
        return bool(flush(channel, do_close=do_close))

    def count(channel: HTTPChannel) -> None:
        turns.append(None)
        handle_write(channel)

    monkeypatch.setattr(HTTPChannel, "_flush_some", flush_slowly)
    monkeypatch.setattr(HTTPChannel, "handle_write", count)
    server = start(stack, recorder)
    asker = threading.Thread(target=ask, args=(stack, server, "GET", "/x"))
    asker.start()
    assert sending.wait(60)
    status, _, _ = ask(stack, server, "GET", "/y")  # wakes the loop, which then sees what is unsent
    asker.join(60)
    assert status == 200
    assert 1 <= len(turns) < 100  # of thousands, without a pause between them


def test_stop_leaves_no_thread_and_can_be_said_twice(recorder: Recorder) -> None:
    before = set(threading.enumerate())
    with ExitStack() as stack:
        server = start(stack, recorder)
        ask(stack, server, "GET", "/x")
        server.stop()
        server.stop()
        with pytest.raises(RuntimeError):
            _ = server.port
    assert set(threading.enumerate()) - before == set()


def test_a_stuck_view_does_not_hold_up_stop_for_ever(stack: ExitStack, recorder: Recorder) -> None:
    server = start(stack, recorder)
    recorder.gate.clear()
    with closing(socket.create_connection(("127.0.0.1", server.port))) as link:
        link.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(lambda: bool(recorder.seen))
        started_s = SystemClock().monotonic_s()
        server.stop(0.1)
        assert SystemClock().monotonic_s() - started_s < 60
    recorder.gate.set()
    wait_for(lambda: not any(t.name.startswith("fedflow-http") for t in threading.enumerate()))


# --- slow clients ---------------------------------------------------------------------------------

SLOW = HttpSettings(threads=4, slow_s=1.0, connections=40)
HEADERS = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
BIG = 60_000_000  #: bytes of an answer, more than the kernel takes


class Sending(Recorder):
    """Answers `/big` with many bytes."""

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/big":
            return super().__call__(environ, start_response)
        start_response("200 OK", [("Content-Length", str(BIG))])
        return (bytes(100_000) for _ in range(BIG // 100_000))


def is_closed(one: socket.socket) -> bool:
    """Tell whether the other end has closed; reads what it sent."""
    try:
        return one.recv(100) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("first", [b"GET /x HTTP/1.1\r\nA: ", HEADERS], ids=["headers", "body"])
def test_who_sends_a_byte_now_and_then_is_closed(
    stack: ExitStack, recorder: Recorder, first: bytes
) -> None:
    server = start(stack, recorder, SLOW)
    opened = [
        stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(20)
    ]
    for one in opened:
        one.sendall(first)
        one.setblocking(False)

    def drip() -> bool:
        for one in opened:
            with suppress(OSError):
                one.send(b"a")
        with ExitStack() as moment:
            assert ask(moment, server, "GET", "/x")[0] == 200
        return all(is_closed(one) for one in opened)

    wait_for(drip)


def test_who_reads_too_slowly_keeps_no_thread(stack: ExitStack) -> None:
    server = start(stack, Sending(), SLOW)
    opened = []
    for _ in range(4):  # as many as there are threads
        one = stack.enter_context(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", server.port))
        one.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        opened.append(one)
    assert ask(stack, server, "GET", "/x")[0] == 200  # within 60 s
    assert len(ask(stack, server, "GET", "/big")[1]) == BIG


def test_a_view_may_take_longer_than_a_slow_client(stack: ExitStack, recorder: Recorder) -> None:
    server = start(stack, recorder, HttpSettings(threads=4, slow_s=0.2))
    recorder.gate.clear()
    threading.Timer(1.5, recorder.gate.set).start()
    assert ask(stack, server, "GET", "/x")[0] == 200


def test_one_address_takes_its_share_of_the_connections_only(
    stack: ExitStack, recorder: Recorder
) -> None:
    server = HttpServer(recorder, HttpSettings(threads=2, connections=40), name="fedflow-http")
    server.listen_tcp("0.0.0.0", 0)
    stack.callback(server.stop, 1.0)
    opened = []
    for _ in range(60):
        one = stack.enter_context(socket.create_connection(("127.0.0.2", server.port)))
        one.sendall(b"GET ")
        one.setblocking(False)
        opened.append(one)
    wait_for(lambda: sum(is_closed(one) for one in opened) == 30)
    other = http.client.HTTPConnection(
        "127.0.0.2", server.port, timeout=60, source_address=("127.0.0.3", 0)
    )
    stack.callback(other.close)
    other.request("GET", "/x")
    assert other.getresponse().status == 200
    for one in opened:
        one.close()
    wait_for(lambda: len(server._server.active_channels) <= 1)
    assert ask(stack, server, "GET", "/x")[0] == 200


def test_without_descriptors_the_listener_rests_and_goes_on_later() -> None:
    command = [sys.executable, "-c", FEW_DESCRIPTORS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "served again\n", done.stderr
    lines = [line for line in done.stderr.splitlines() if "cannot accept" in line]
    assert 1 <= len(lines) <= 5
    assert "Traceback" not in done.stderr


FEW_DESCRIPTORS = """
import http.client, logging, os, resource, socket, time
from fedflow.http.server import HttpServer, HttpSettings
logging.basicConfig(level=logging.INFO)
def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
server = HttpServer(app, HttpSettings(threads=2), name="http")
server.listen_tcp("127.0.0.1", 0)
taken = [os.open("/dev/null", os.O_RDONLY)]
client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
client.request("GET", "/")  # so that its connection has its descriptor
client.getresponse().read()
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 40, most))
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
os.close(taken.pop())
waiting = socket.socket()  # the last descriptor
waiting.connect(("127.0.0.1", server.port))
waiting.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
start = time.process_time()
time.sleep(2.5)
assert time.process_time() - start < 0.5, "it spins"
for one in taken:
    os.close(one)
waiting.settimeout(60)
assert waiting.recv(15).startswith(b"HTTP/1.0 200")
client.request("GET", "/")
assert client.getresponse().read() == b"ok"
server.stop(1.0)
print("served again")
"""
