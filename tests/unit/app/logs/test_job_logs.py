"""What pages of logs are made of: lines as people may see them, files of a site, and its errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from fedflow.app.logs import job_logs
from fedflow.app.logs.addresses import LogAddress, LogKind, LogName, log_address
from fedflow.app.logs.job_logs import SHOWN, JobLogs
from fedflow.app.logs.lines import LogIndexes
from fedflow.app.logs.search import Query
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobKey
from fedflow.domain.site import Role, Site
from fedflow.domain.states import TaskStatus
from fedflow.worker.logs import LevelFiles
from tests.board.seeds import GUEST, job, put, task
from tests.memory_store import MemoryStore

OF = job()
Write = Callable[..., Path]


@pytest.fixture
def logs(tmp_path: Path) -> JobLogs:
    """Logs of a server that shares `common` with others of its party."""
    store = MemoryStore()
    put(store, OF)
    folders = Folders(tmp_path / "home", tmp_path / "common")
    return JobLogs(store=store, folders=folders, indexes=LogIndexes())


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(place: LogAddress, text: str | bytes) -> Path:
        path = tmp_path / "common" / "logs" / Path(*place.parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        return path

    return write


def place(kind: LogKind = LogKind.INFO, component: str = "", attempt: str = "") -> LogAddress:
    return log_address(OF.key, kind=kind, component=component, attempt=attempt)


def record(level: str, text: str) -> str:
    return f"[{level}] [2026-11-22 06:49:10,123] [1:2] - [a.b] [line:9]: {text}\n"


def test_a_page_is_the_end_of_a_log_or_the_lines_from_a_number_on(
    logs: JobLogs, write: Write
) -> None:
    write(place(), "".join(record("INFO", f"row {n}") for n in range(1, 1001)))
    end = logs.page(place(), None, 3)
    assert end is not None
    assert (end.total, [line.number for line in end.lines]) == (1000, [998, 999, 1000])
    assert end.levels == {"INFO": 1000}
    middle = logs.page(place(), 500, 2)
    assert middle is not None
    assert [line.text[-7:] for line in middle.lines] == ["row 500", "row 501"]
    assert middle.lines[0].begins
    assert middle.lines[0].at_ms is not None
    behind = logs.page(place(), 2000, 5)
    assert behind is not None
    assert behind.lines == ()


def test_lines_of_a_traceback_have_the_level_of_their_record(logs: JobLogs, write: Write) -> None:
    write(place(), "printed before\n" + record("ERROR", "a failed") + "Traceback:\n  x\n")
    whole = logs.page(place(), 1, 9)
    assert whole is not None
    assert [line.level for line in whole.lines] == ["", "ERROR", "ERROR", "ERROR"]
    last = logs.page(place(), 4, 1)
    assert last is not None
    assert (last.lines[0].level, last.lines[0].begins) == ("ERROR", False)


def test_what_cannot_be_seen_is_shown_and_addresses_are_masked(logs: JobLogs, write: Write) -> None:
    text = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202egpj.exe\u2066 \x00\x07 at 10.0.12.7:80 \xa0"
    write(place(), text.encode() + b" \xff\xfe\n")
    page = logs.page(place(), 1, 1)
    assert page is not None
    assert page.lines[0].text == (
        "red  \\u202egpj.exe\\u2066 \\x00\\x07 at xxx.xxx.xxx.xxx:80 \xa0 \ufffd\ufffd"
    )


def test_a_line_of_megabytes_is_cut_and_its_size_told(logs: JobLogs, write: Write) -> None:
    write(place(), b"x" * 10_000_000 + b"\nshort\n")
    page = logs.page(place(), None, 2)
    assert page is not None
    assert [(len(li.text), li.size, li.is_cut) for li in page.lines] == [
        (SHOWN, 10_000_000, True), (5, 5, False),
    ]  # fmt: skip


def test_a_log_too_long_to_be_counted_at_once_shows_its_end_first(
    logs: JobLogs, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_logs, "COUNT_AT_ONCE", 256 * 1024)
    write(place(), "".join(record("INFO", f"row {n}") for n in range(10_000)))
    seen = []
    for _ in range(20):
        page = logs.page(place(), None, 2)
        assert page is not None
        assert page.lines[-1].text.endswith("row 9999")
        seen.append((page.counted, page.lines[-1].number))
        if page.total is not None:
            break
    assert seen[0] == (256 * 1024, None)
    assert seen[-1] == (page.size, 10_000)


def test_a_search_goes_on_by_its_cursor_and_begins_anew_in_another_log(
    logs: JobLogs, write: Write
) -> None:
    path = write(place(), "".join(record("INFO", f"row {n % 10}") for n in range(2000)))
    first = logs.search(place(), Query(text="ROW 7"), "", budget=1)
    assert first is not None
    assert (len(first.lines), first.is_done) == (200, True)
    path.unlink()
    write(place(), record("INFO", "row 7"))
    then = logs.search(place(), Query(text="row 7"), first.cursor)
    assert then is not None
    assert (then.is_new, [line.number for line in then.lines]) == (True, [1])
    with pytest.raises(BadRequest):
        logs.search(place(), Query(text="x"), "1.1:nonsense")


def test_the_fullest_log_of_an_attempt_is_the_one_of_debugging_if_it_was_on(
    logs: JobLogs, write: Write
) -> None:
    assert logs.folder(place()).fullest is LogKind.INFO
    write(place(component="a"), "x\n")
    write(place(LogKind.PRINTED, "a"), "y\n")
    assert logs.folder(place(component="a")).fullest is LogKind.INFO
    write(place(LogKind.DEBUG, "a"), "more\n")
    found = logs.folder(place(component="a"))
    assert found.fullest is LogKind.DEBUG
    assert found.sizes == {LogKind.DEBUG: 5, LogKind.INFO: 2, LogKind.PRINTED: 2}


def test_attempts_and_files_are_those_of_the_site(
    logs: JobLogs, write: Write, tmp_path: Path
) -> None:
    other = JobKey(job_id=OF.key.job_id, site=Site(Role.HOST, PartyId("10000")))
    for attempt in ("0", "2", "10"):
        write(place(component="a", attempt=attempt), "x\n")
    write(place(), "all\n")
    write(place(LogKind.SCHEDULE), "of the server\n")
    write(log_address(other, kind="info", component="secret"), "of the host\n")
    secret = tmp_path / "secret"
    secret.write_text("no log")
    (tmp_path / "common/logs" / Path(*place().folder) / "link.log").symlink_to(secret)
    assert logs.attempts(OF.key) == {"a": [0, 2, 10]}
    assert sorted(name for name, _ in logs.files(OF.key, of_job=False)) == [
        "guest/9999/INFO.log", "guest/9999/a/0/INFO.log", "guest/9999/a/10/INFO.log",
        "guest/9999/a/2/INFO.log",
    ]  # fmt: skip
    told = {name: file.read() for name, file in logs.files(OF.key, of_job=True)}
    assert told["fate_flow_schedule.log"] == b"of the server\n"


def test_the_first_error_is_found_in_the_log_with_everything(logs: JobLogs, write: Write) -> None:
    bad = task(
        OF, "a", "Reader", party_status=TaskStatus.FAILED,
        reason=Reason(code="BadData", message="no", site=GUEST),
    )  # fmt: skip
    error = record("ERROR", "a failed: no") + "ValueError: no\n"
    write(place(LogKind.INFO, "a"), record("INFO", "a failed: no") * 700 + error)
    write(place(LogKind.ERROR, "a"), error)
    found = logs.first_error(OF.key, [bad], place())
    assert found is not None
    assert found.record is not None
    assert found.record.lines == tuple(error.splitlines())
    assert logs.locate(found) == (place(LogKind.INFO, "a", "0"), 701)
    assert logs.first_error(OF.key, [bad], place(component="other")) is None


def test_a_task_that_failed_without_a_word_has_an_error_without_a_record(logs: JobLogs) -> None:
    bad = task(
        OF, "a", "Reader", party_status=TaskStatus.FAILED,
        reason=Reason(code="ExecutorDied", message="killed"),
    )  # fmt: skip
    found = logs.first_error(OF.key, [bad], place())
    assert found is not None
    assert (found.record, found.failure.reason.code) == (None, "ExecutorDied")
    assert logs.locate(found) == (place(LogKind.INFO, "a", "0"), None)


def test_a_log_that_is_not_there_is_none(logs: JobLogs) -> None:
    assert logs.tag(place()) is None
    assert logs.page(place(), None, 5) is None
    assert logs.levels(place()) is None
    assert logs.search(place(), Query(), "") is None
    assert logs.raw(place()) is None


@pytest.mark.parametrize(
    "named",
    [
        {"kind": "passwd"},
        {"kind": "info", "component": ".."},
        {"kind": "info", "component": "a/b"},
        {"kind": "info", "component": "a", "attempt": "../1"},
        {"kind": "info", "component": "a", "attempt": "-1"},
        {"kind": "info", "component": "a", "attempt": "９"},
    ],
)
def test_nothing_but_logs_can_be_named(named: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        log_address(OF.key, **named)
    with pytest.raises(BadRequest):
        log_address(JobKey(job_id="../1", site=GUEST), kind="info")


def test_an_answer_with_many_long_lines_has_the_beginnings_of_the_last_ones(
    logs: JobLogs, write: Write
) -> None:
    write(place(), ("y" * 4000 + "\n") * 200)
    page = logs.page(place(), 1, 200)
    assert page is not None
    lengths = [len(line.text) for line in page.lines]
    assert (lengths[0], lengths[-1]) == (4000, 200)
    assert (page.lines[0].is_cut, page.lines[-1].is_cut) == (False, True)
    assert sum(lengths) < 320 * 1024


def test_an_address_is_masked_where_a_line_is_cut(logs: JobLogs, write: Write) -> None:
    write(place(), " " * (SHOWN - 9) + "192.168.100.200 and more\n")
    page = logs.page(place(), 1, 1)
    assert page is not None
    assert page.lines[0].text.strip() == "xxx.xxx.x"


def test_the_lines_of_a_traceback_stay_with_their_record_in_every_view(
    logs: JobLogs, tmp_path: Path
) -> None:
    """What a worker writes is what pages, searches and the first error are made of."""
    here = place(component="lr_0", attempt="0")
    folder = tmp_path / "common" / "logs" / Path(*here.folder)
    folder.mkdir(parents=True)
    handler = LevelFiles(folder, level=logging.INFO, shared=folder.parent.parent)
    log = logging.Logger("x")
    log.addHandler(handler)
    log.info("begins")
    try:
        raise ZeroDivisionError("no rows")
    except ZeroDivisionError as exc:
        log.error("lr_0 failed", exc_info=exc)
    log.info("ends")
    handler.close()

    page = logs.page(here, None, 100)
    assert page is not None
    assert page.levels == {"INFO": 2, "ERROR": 1}
    assert [line.level for line in page.lines] == [
        "INFO",
        *["ERROR"] * (len(page.lines) - 2),
        "INFO",
    ]
    found = logs.search(here, Query(levels=frozenset({"ERROR"})), "")
    assert found is not None
    assert [line.number for line in found.lines] == list(range(2, len(page.lines)))
    assert found.lines[-1].text == "ZeroDivisionError: no rows"

    failed = task(OF, "lr_0", "HeteroLR", party_status=TaskStatus.FAILED)
    first = logs.first_error(OF.key, [failed], here)
    assert first is not None
    assert first.record is not None
    assert first.record.lines[1] == "Traceback (most recent call last):"
    assert first.record.lines[-1] == "ZeroDivisionError: no rows"

    own = LogName(
        log_type="componentInfo", job_id=OF.key.job_id, role=GUEST.role.value,
        party_id=GUEST.party_id, component="lr_0",
    )  # fmt: skip
    assert logs.size(own) == len(page.lines)
    assert logs.lines(own)[-2].content == "ZeroDivisionError: no rows"
