"""Log files of jobs by FATE's names: lines, masks, bounds, and nothing outside the job's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.app.logs import job_logs
from fedflow.app.logs.addresses import LogName
from fedflow.app.logs.job_logs import JobLogs
from fedflow.app.logs.lines import LogIndexes
from fedflow.app.logs.records import MASK, mask_addresses
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.wire.api.administration import LogLine
from tests.unit.app.fakes import OneServer


@pytest.fixture
def logs(host: OneServer) -> JobLogs:
    host.create("1")
    return JobLogs(store=host.store, folders=Folders(host.home), indexes=LogIndexes())


def write(home: Path, name: str, content: str) -> None:
    path = home / "logs" / "1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode())


def name(log_type: str, **more: str) -> LogName:
    return LogName(
        **{"log_type": log_type, "job_id": "1", "role": "host", "party_id": "10000", **more}
    )


@pytest.mark.parametrize(
    ("log_type", "file"),
    [
        ("jobSchedule", "fate_flow_schedule.log"),
        ("jobScheduleError", "fate_flow_schedule_error.log"),
        ("partyError", "host/10000/ERROR.log"),
        ("partyWarning", "host/10000/WARNING.log"),
        ("partyInfo", "host/10000/INFO.log"),
        ("partyDebug", "host/10000/DEBUG.log"),
    ],
)
def test_a_log_type_is_the_file_that_fate_has_for_it(
    host: OneServer, logs: JobLogs, log_type: str, file: str
) -> None:
    assert (logs.size(name(log_type)), logs.lines(name(log_type))) == (0, [])
    write(host.home, file, "one\ntwo\r\nthree, not ended")
    assert logs.size(name(log_type)) == 3
    assert logs.lines(name(log_type), 2) == [
        LogLine(line_num=2, content="two"),
        LogLine(line_num=3, content="three, not ended"),
    ]
    assert [line.line_num for line in logs.lines(name(log_type), 1, 2)] == [1, 2]


def test_a_component_log_is_that_of_its_latest_attempt(host: OneServer, logs: JobLogs) -> None:
    which = name("componentInfo", component="lr_0")
    assert logs.size(which) == 0
    for version in ("0", "2", "10"):
        write(host.home, f"host/10000/lr_0/{version}/INFO.log", f"attempt {version}\n")
    assert logs.lines(which) == [LogLine(line_num=1, content="attempt 10")]


@pytest.mark.parametrize(
    "fields",
    [
        {"log_type": "partyInfo", "role": "../host"},
        {"log_type": "partyInfo", "role": ""},
        {"log_type": "partyInfo", "party_id": "../../.."},
        {"log_type": "partyInfo", "party_id": ""},
        {"log_type": "componentInfo", "component": ".."},
        {"log_type": "componentInfo", "component": "a/../../b"},
        {"log_type": "componentInfo"},
        {"log_type": "../../x"},
        {"log_type": "jobSchedule", "job_id": ".."},
        {"log_type": "jobSchedule", "job_id": "2"},
        {"log_type": "partyInfo", "job_id": "../1"},
    ],
)
def test_nothing_but_the_logs_of_known_jobs_can_be_named(
    logs: JobLogs, fields: dict[str, str]
) -> None:
    which = name(**fields)
    for ask in (logs.size, logs.lines):
        with pytest.raises((BadRequest, JobNotFound)):
            ask(which)


@pytest.mark.parametrize(("begin", "end"), [(0, None), (-1, 5), (3, 2)])
def test_a_range_that_is_none_is_refused(logs: JobLogs, begin: int, end: int | None) -> None:
    with pytest.raises(FedflowError):
        logs.lines(name("partyInfo"), begin, end)


def test_one_call_gives_a_bounded_number_of_lines_and_bytes(host: OneServer, logs: JobLogs) -> None:
    write(host.home, "host/10000/INFO.log", "x\n" * 20_000)
    assert len(logs.lines(name("partyInfo"))) == job_logs.PRINTED_LINES
    assert logs.lines(name("partyInfo"), 19_999)[-1].line_num == 20_000
    write(host.home, "host/10000/INFO.log", ("y" * 3_000_000 + "\n") * 3 + "end\n")
    found = logs.lines(name("partyInfo"))
    assert [len(line.content) for line in found] == [job_logs.PRINTED_LINE] * 3 + [3]
    assert found[3] == LogLine(line_num=4, content="end")
    write(host.home, "host/10000/INFO.log", ("z" * 10_000 + "\n") * 2_000)
    size = sum(len(line.content) for line in logs.lines(name("partyInfo")))
    assert size < job_logs.PRINTED + job_logs.PRINTED_LINE


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("from 10.0.12.7:9360 to 192.168.0.1", "from X:9360 to X"),
        ("http://127.0.0.1/x", "http://X/x"),
        ("at [fe80::1] and 2001:db8:0:0:0:0:0:1", "at [X] and X"),
        ("[2026-11-21 12:30:01,123] 1.11.4: a:b ::", "[2026-11-21 12:30:01,123] 1.11.4: a:b ::"),
        ("0.25 1.5e-3 10.5.3", "0.25 1.5e-3 10.5.3"),
        (":" * 16_000, ":" * 16_000),
    ],
)  # fmt: skip
def test_addresses_are_masked_and_times_are_not(text: str, shown: str) -> None:
    assert mask_addresses(text) == shown.replace("X", MASK)
