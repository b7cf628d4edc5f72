"""What somebody else can cause a thousand times takes a few lines of the log, and a count."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from fedflow.base.log import set_up_logging

logger = logging.getLogger("fedflow.tests.repeats")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    waitress = logging.getLogger("waitress").level
    stream = io.StringIO()
    set_up_logging(level="INFO", style="json", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("waitress").setLevel(waitress)


def lines(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["message"] for line in stream.getvalue().splitlines()]


def refuse(number: int) -> None:
    logger.warning("refused a packet of party %d", number)


def test_a_flood_takes_a_few_lines_and_its_number_is_told_later(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100_000):
        refuse(number)
    assert lines(stream) == [f"refused a packet of party {number}" for number in range(5)]
    pass_a_minute(monkeypatch)
    logger.info("something else")
    assert lines(stream)[5:] == [
        "99995 more within 60 s, the first was: refused a packet of party 0",
        "something else",
    ]
    refuse(7)
    assert lines(stream)[7:] == ["refused a packet of party 7"]


def pass_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    make = logging.getLogRecordFactory()

    def later(*given: object, **more: object) -> logging.LogRecord:
        record: logging.LogRecord = make(*given, **more)
        record.created += 61
        return record

    monkeypatch.setattr(logging, "_logRecordFactory", later)


def test_lines_of_other_jobs_and_what_moves_on_are_all_shown(stream: io.StringIO) -> None:
    for number in range(50):
        logger.info("Job %d moved", number)
        logger.error("Job %d failed", number, extra={"job_id": str(number)})
    assert len(lines(stream)) == 100


def test_refused_requests_are_told_apart_by_their_error(stream: io.StringIO) -> None:
    for number in range(300):
        said = {"action": "refuse", "code": number % 3}
        logger.info("POST /v1/party/%d/start refused", number, extra=said)
    assert len(lines(stream)) == 15


def test_texts_that_others_choose_make_no_kinds(stream: io.StringIO) -> None:
    for number in range(3000):
        logger.warning("a name " + str(number), extra={"job_id": str(number)})
    assert len(lines(stream)) == 1000 + 5


def test_tracebacks_are_told_apart_by_where_they_end(stream: io.StringIO) -> None:
    for number in range(100):
        try:
            if number % 2:
                raise ValueError(number)
            int("no number")
        except ValueError:
            logger.exception("it failed")
    assert len(lines(stream)) == 10


def lose(what: str) -> None:
    logger.error("the %s", what, extra={"action": "store"})


def test_a_line_that_comes_again_is_counted_not_repeated(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        lose("disk is full")
    lose("disk is gone")
    assert lines(stream) == ["the disk is full", "the disk is gone"]
    pass_a_minute(monkeypatch)
    lose("disk is full")
    assert lines(stream)[2:] == [
        "3 more within 60 s, the first was: the disk is full",
        "the disk is full",
    ]


def test_lines_of_two_places_are_two_kinds(stream: io.StringIO) -> None:
    for number in range(10):
        logger.warning("one place, %d", number)
        logger.warning("another place, %d", number)
    assert len(lines(stream)) == 10


class Talkative:
    """Logs while it is shown, as garbage does that is collected in this moment."""

    def __str__(self) -> str:
        logger.warning("a task was destroyed while it waited")
        return "something"


@pytest.mark.timeout(60)
def test_a_line_from_within_a_line_stops_nothing(stream: io.StringIO) -> None:
    logger.warning("about %s", Talkative())
    assert set(lines(stream)) == {"a task was destroyed while it waited", "about something"}
    refuse(1)
    assert lines(stream)[-1] == "refused a packet of party 1"
