"""Logging: one line per record, for people or for machines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from fedflow.base.log import JsonLines, set_up_logging

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
