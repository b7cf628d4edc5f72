"""Logging: one line per record, for people or for machines."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from fedflow.base.log import JobLogFiles, JsonLines, set_up_logging

logger = logging.getLogger("fedflow.tests.log")


@pytest.fixture(autouse=True)
def _root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    waitress = logging.getLogger("waitress").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("waitress").setLevel(waitress)


def test_json_lines_carry_what_extra_gave() -> None:
    stream = io.StringIO()
    set_up_logging(level="INFO", style="json", stream=stream)
    logger.info("Job %s is %s", "1", "running", extra={"action": "move_job", "job_id": "1"})
    line = json.loads(stream.getvalue())
    assert line.pop("time_ms") > 1_600_000_000_000
    assert line == {
        "level": "INFO",
        "logger": "fedflow.tests.log",
        "message": "Job 1 is running",
        "action": "move_job",
        "job_id": "1",
    }


def test_a_traceback_and_odd_values_stay_on_one_json_line() -> None:
    stream = io.StringIO()
    set_up_logging(level="INFO", style="json", stream=stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("It failed\nhere", extra={"odd": {1, 2}, "path": ROOT_TYPE})
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert "ValueError: two\nlines" in json.loads(lines[0])["traceback"]


ROOT_TYPE = type("Odd", (), {"__str__": lambda self: "odd"})()


def test_console_lines_are_for_people() -> None:
    stream = io.StringIO()
    set_up_logging(level="WARNING", style="console", stream=stream)
    logger.info("not said")
    logger.warning("said to %s", "people")
    assert stream.getvalue().endswith("WARNING fedflow.tests.log: said to people\n")
    assert "not said" not in stream.getvalue()


def test_setting_up_twice_says_everything_once() -> None:
    stream = io.StringIO()
    for _ in range(2):
        set_up_logging(level="INFO", style="console", stream=stream)
    logger.info("once")
    assert stream.getvalue().count("once") == 1


def test_names_of_log_records_that_the_formatter_knows_are_not_repeated() -> None:
    record = logging.makeLogRecord({"msg": "hello %s", "args": ("you",), "job_id": "1"})
    line = json.loads(JsonLines().format(record))
    assert line.keys() == {"time_ms", "level", "logger", "message", "job_id"}


def test_what_is_said_about_a_job_goes_to_its_own_files(tmp_path: Path) -> None:
    handler = JobLogFiles(lambda job_id: tmp_path / job_id)
    log = logging.Logger("x")
    log.addHandler(handler)
    log.info("it %s", "starts", extra={"job_id": "1"})
    log.error("it failed: \ud800", extra={"job_id": "1"})
    log.debug("not said", extra={"job_id": "1"})
    log.info("about no job")
    for odd in ("..", "a/b", "", "x" * 65, 7):
        log.info("no job has this id", extra={"job_id": odd})
    assert [p.name for p in tmp_path.iterdir()] == ["1"]
    texts = {p.name: p.read_text() for p in (tmp_path / "1").iterdir()}
    assert sorted(texts) == ["fate_flow_schedule.log", "fate_flow_schedule_error.log"]
    assert texts["fate_flow_schedule.log"].splitlines()[0].endswith("- it starts")
    assert len(texts["fate_flow_schedule.log"].splitlines()) == 2
    assert texts["fate_flow_schedule_error.log"].startswith("[ERROR]")


def test_a_full_disk_loses_a_line_and_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    handler = JobLogFiles(lambda job_id: tmp_path / "file" / job_id)
    handler.handle(logging.makeLogRecord({"msg": "x", "levelno": 20, "job_id": "1"}))
    assert capsys.readouterr().err == ""


def test_what_another_party_sent_neither_makes_lines_nor_steers_a_terminal(tmp_path: Path) -> None:
    hostile = "refused: x\n[INFO] - Job 2 succeeded\r\x1b[2J\x9b31m\u2028\x00\x7f\tend"
    shown = r"refused: x\n[INFO] - Job 2 succeeded\r\x1b[2J\x9b31m\u2028\x00\x7f"
    stream = io.StringIO()
    set_up_logging(level="INFO", style="console", stream=stream)
    handler = JobLogFiles(lambda job_id: tmp_path / job_id)
    logging.getLogger().addHandler(handler)
    try:
        raise ValueError("kept")
    except ValueError:
        logger.exception("Job 1 was %s", hostile, extra={"job_id": "1"})
    for text in (stream.getvalue(), (tmp_path / "1" / "fate_flow_schedule.log").read_text()):
        first, *rest = text.splitlines()
        assert first.endswith(f"{shown}\tend")
        assert rest[0] == "Traceback (most recent call last):"


@pytest.mark.parametrize("style", ["console", "json"])
def test_what_the_machine_lacks_is_a_sentence_without_a_traceback(
    style: Literal["console", "json"],
) -> None:
    stream = io.StringIO()
    set_up_logging(level="INFO", style=style, stream=stream)
    try:
        try:
            raise OSError(errno.EMFILE, "Too many open files", "spec.json")
        except OSError as exc:
            raise ValueError("no spec") from exc
    except ValueError:
        logger.exception("The task could not be launched")
    said = stream.getvalue()
    sentence = "The task could not be launched: [Errno 24] Too many open files: 'spec.json'"
    assert sentence in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_another_error_of_the_system_keeps_its_traceback() -> None:
    stream = io.StringIO()
    set_up_logging(level="INFO", style="console", stream=stream)
    try:
        raise OSError(errno.EBADF, "Bad file descriptor")
    except OSError:
        logger.exception("The file could not be read")
    assert "Traceback (most recent call last)" in stream.getvalue()


def test_texts_that_grpc_cannot_decode_are_a_line() -> None:
    stream = io.StringIO()
    set_up_logging(level="INFO", style="console", stream=stream)
    try:
        b"socket: Too many open files\xa3".decode()
    except UnicodeDecodeError:
        logging.getLogger("grpc._cython.cygrpc").exception("Invalid encoding on %s", b"\xa3")
    assert stream.getvalue().count("\n") == 1
    assert "Invalid encoding on" in stream.getvalue()
