"""Bodies of party commands: what is sent, what is left out, what is refused."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from fedflow.base.errors.requests import BadRequest
from fedflow.wire.commands import (
    CommandBody,
    ControlJob,
    CreateTask,
    EndJob,
    Heartbeat,
    InitiatorRerun,
    JobHeartbeat,
    OfEpoch,
    PreparedModel,
    RerunJob,
    ReturnCores,
    SiteAnswer,
    StartTask,
    TaskReport,
    plain,
    read_command,
)
from fedflow.wire.paths import BODIES, PARTY_COMMANDS

REASON = {"code": "Stopped", "message": "by hand", "site": "guest-9999"}


@pytest.mark.parametrize("name", sorted(PARTY_COMMANDS))
def test_each_command_has_a_body_that_ignores_what_it_does_not_know(name: str) -> None:
    kind = BODIES[name]
    given: dict[str, Any] = {
        f.encode_name: _any_of(f.type) for f in msgspec.structs.fields(kind) if f.required
    }
    body = read_command({**given, "of_a_later_release": [1]}, kind)
    assert given.items() <= plain(body).items()


def _any_of(kind: Any) -> Any:
    fits = {str: "a", list: [], dict: {}}
    values = [*fits.values(), 1, *get_args(kind)]  # a literal's words are its arguments
    return next(value for value in values if _reads(value, kind))


def _reads(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (OfEpoch(), {"epoch": 0}),
        (ReturnCores(epoch=1), {"epoch": 1}),
        (ReturnCores(epoch=1, reason=REASON), {"epoch": 1, "reason": REASON}),
        (EndJob(epoch=0), {"epoch": 0, "reason": None}),
        (EndJob(tag="x", tasks={}, progress=0),
         {"epoch": 0, "reason": None, "tag": "x", "tasks": {}, "progress": 0}),
        (CreateTask(epoch=2), {"epoch": 2, "auto_retries": 0}),
        (StartTask(epoch=0), {"epoch": 0}),
        (StartTask(epoch=0, absent=["a"]), {"epoch": 0, "absent": ["a"]}),
        (TaskReport(party_status="failed"),
         {"party_status": "failed", "reason": None, "start_time": None, "end_time": None,
          "elapsed": None}),
        (InitiatorRerun(job_parameters={}, component_parameters={}),
         {"component_name": None, "force": False, "failed_only": False, "job_parameters": {},
          "component_parameters": {}}),
        (ControlJob(action="pause"), {"action": "pause"}),
        (ControlJob(action="continue", steps=None), {"action": "continue", "steps": None}),
        (SiteAnswer(), {"status": None}),
        (SiteAnswer(status="running", epoch=0, tasks={}, stop=None),
         {"status": "running", "epoch": 0, "tasks": {}, "stop": None}),
        (Heartbeat(jobs={"1": JobHeartbeat(epoch=0, sites={})}),
         {"jobs": {"1": {"epoch": 0, "sites": {}}}}),
    ],
)  # fmt: skip
def test_what_is_sent_and_what_is_left_out(body: CommandBody, sent: dict[str, Any]) -> None:
    assert plain(body) == sent


@pytest.mark.parametrize(
    ("kind", "given", "path"),
    [
        (OfEpoch, {"epoch": "0"}, "$.epoch"),
        (OfEpoch, {"epoch": None}, "$.epoch"),
        (OfEpoch, {"epoch": -1}, "$.epoch"),
        (OfEpoch, {"epoch": 10**9 + 1}, "$.epoch"),
        (StartTask, {"absent": "a"}, "$.absent"),
        (StartTask, {"absent": ["a", 1]}, "$.absent[1]"),
        (RerunJob, {"tasks": {"a": True}}, "$.tasks[...]"),
        (RerunJob, {}, "$"),
        (Heartbeat, {"jobs": []}, "$.jobs"),
    ],
)
def test_a_wrong_type_is_refused_with_its_place(
    kind: type[CommandBody], given: dict[str, Any], path: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        read_command(given, kind)
    assert refused.value.fields["path"] == path


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (EndJob, {"reason": "x", "tasks": [], "progress": "1", "tag": 5}, EndJob()),
        (CreateTask, {"auto_retries": "many"}, CreateTask()),
        (JobHeartbeat, {"sites": 1, "tasks": {}}, JobHeartbeat(tasks={})),
        (PreparedModel, {"digest": 1}, PreparedModel()),
        (PreparedModel, "no object", PreparedModel()),
        (PreparedModel, None, PreparedModel()),
    ],
)
def test_some_members_of_a_wrong_type_count_as_absent(
    kind: type[CommandBody], given: Any, read: CommandBody
) -> None:
    assert read_command(given, kind) == read
