"""What a worker makes of answers that its server sends."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from fedflow.base.errors.executors import LaunchRefused
from fedflow.base.errors.start import ServerNotReachable
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Site
from fedflow.wire.worker_commands import GetRunParameters
from fedflow.worker.report import ServerLink

KEY = TaskKey(job_id="1", component="a_0", version=0, site=Site.from_key("host-10000"))
OK = b'{"retcode":0,"data":{"ok":1}}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: %d\r\nX: a:b\r\n\r\n%s" % (len(OK), OK)


def _ask(path: Path, *answers: bytes) -> list[object]:
    """Call once per answer; a connection ends after an answer that says so or is broken."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            left = list(answers)
            while left:
                connection, _ = listener.accept()
                with connection:
                    while left and connection.recv(65536):
                        answer = left.pop(0)
                        connection.sendall(answer)
                        if not answer.endswith(OK) or b"close" in answer:
                            break

        thread = threading.Thread(target=serve)
        thread.start()
        link = ServerLink(str(path), key=KEY, token="t", launch_id="l")
        try:
            return [_outcome(link) for _ in answers]
        finally:
            link.close()
            thread.join()


def _outcome(link: ServerLink) -> object:
    try:
        return link.call(GetRunParameters(model_id="m", model_version="1"), patience_s=0)
    except ServerNotReachable as exc:
        return str(exc.fields["reason"])
    except LaunchRefused as exc:
        return exc.name


def test_a_connection_is_kept_until_the_server_ends_it(tmp_path: Path) -> None:
    closing = ANSWER.replace(b"X: a:b", b"Connection: Close")
    assert _ask(tmp_path / "s", ANSWER, ANSWER, closing, ANSWER) == [{"ok": 1}] * 4


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "ConnectionResetError: the server closed the connection"),
        (ANSWER[:-1], "ConnectionResetError: the server's answer broke off"),
        (ANSWER[:20], "ConnectionResetError: the server closed the connection"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "ValueError: the server's answer has no length"),
        (ANSWER.replace(b"200", b"503") + b" ", "ValueError: the server answered 503"),
        (b"X" * 70_000 + b"\r\n", "ValueError: a line of the server's answer is too long"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
         "ValueError: the server's answer is no envelope"),
    ],
)  # fmt: skip
def test_after_a_broken_answer_a_new_connection_is_made(
    tmp_path: Path, answer: bytes, reason: str
) -> None:
    assert _ask(tmp_path / "s", answer, ANSWER) == [reason, {"ok": 1}]


def test_a_process_whose_server_has_lost_the_task_must_exit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = b'{"retcode":101,"retmsg":"No task","error":{"name":"TaskNotFound"}}'
    head = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert _ask(tmp_path / "s", head + body) == ["LaunchRefused"]
    assert f"The server has lost {KEY}" in caplog.text
