"""What an upload prints while it lasts."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from fedflow.cli import upload_progress
from fedflow.cli.output import Output
from fedflow.cli.upload_progress import UploadProgress
from fedflow.wire.api.jobs import JobStatusView


class Hand:
    """A clock that is moved by hand."""

    def __init__(self):
        self.seconds = 0.0

    def now_ms(self):
        return int(self.seconds * 1000)

    def monotonic_s(self):
        return self.seconds


@pytest.fixture
def clock():
    return Hand()


def test_in_a_pipe_a_line_is_printed_every_ten_seconds(clock, capsys, make_view, make_task):
    half = make_task("local-0", "running", progress=0.5, ended_ms=None)
    view = msgspec.convert(make_view("running", tasks=[half]), JobStatusView)
    with UploadProgress(
        Output(as_json=False), file="g.csv", size_bytes=155_000_000, clock=clock
    ) as at:
        for seconds in range(25):
            clock.seconds = seconds
            at.sent(6_200_000 * seconds, 155_000_000)
        clock.seconds = 31
        at.made(view)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "sending g.csv, 62.0 of 155.0 MB, 40%",
        "sending g.csv, 124.0 of 155.0 MB, 80%",
        "creating the table, job 7 running, 50%",
    ]


def test_a_short_upload_and_one_for_programs_print_no_line(clock, capsys):
    with UploadProgress(Output(as_json=True), file="g.csv", size_bytes=10, clock=clock) as at:
        clock.seconds = 60
        at.sent(5, 10)
    with UploadProgress(Output(as_json=False), file="g.csv", size_bytes=0, clock=clock) as at:
        at.sent(0, 0)
    assert capsys.readouterr() == ("", "")


def test_the_first_frame_on_a_terminal_has_the_size_of_the_file(clock, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(Output, "is_live", True)
    monkeypatch.setattr(
        upload_progress, "console", lambda: Console(file=screen, force_terminal=True, width=100)
    )
    with UploadProgress(Output(as_json=False), file="g.csv", size_bytes=155_000_000, clock=clock):
        pass
    assert "0.0 of 155.0 MB" in screen.getvalue()
    assert "?" not in screen.getvalue().replace("\x1b[?25", "")
