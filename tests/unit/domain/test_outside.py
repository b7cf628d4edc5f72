"""No sentence leaves its party with what is not for others: every error, field by field."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

import fedflow
from fedflow.app.protocol.party_commands import (
    PartyCommands,
    reason_from_wire,
    reason_to_wire,
)
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import SystemClock
from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.components import BadParameter, ComponentFailed, NoCommonIds
from fedflow.base.errors.data import BadData, TableNotFound
from fedflow.base.errors.data_plane import PeerFailed
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import ExecutorDied
from fedflow.base.errors.jobs import (
    BadSteps,
    ContinueRefused,
    NotEnoughResources,
    PauseRefused,
    QuotaReached,
    RerunRefused,
)
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.messages import Message, joined, plain_template, verbatim
from fedflow.domain import outside as module
from fedflow.domain.job.amounts import ComputeResources, cores_text
from fedflow.domain.outside import (
    is_kept_back,
    outside,
    outside_error,
    outside_reason,
)
from fedflow.domain.reason import Reason
from fedflow.domain.records import ScheduledJob, TaskKey
from fedflow.domain.scheduling.decide import named_reason
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.federation.messages import error_from_wire
from fedflow.rpc.data_plane.service import _refusal
from fedflow.sdk import errors as sdk_errors
from fedflow.wire import envelope

GUEST, HOST, ARBITER = (Site.from_key(k) for k in ("guest-9999", "host-10000", "arbiter-7"))
ERRORS = sorted(all_errors(), key=lambda kind: kind.code)
MARK = "hiv_status_4711"


def marked(kind: type[FedflowError]) -> FedflowError:
    """Return an error with a mark in every field that is not public."""
    if issubclass(kind, InvalidJobSpec):
        text = "shown" if "summary" in kind.public else MARK
        return kind([Problem(f"$.{text}", text, text)])
    fields: dict[str, Any] = {}
    for _, name, form, _ in Formatter().parse(kind.template()):
        if name is not None:
            shown = 3 if form else "shown"
            fields[name] = shown if name in kind.public else MARK
    return kind(**fields) if "kind" not in kind.public else kind(**fields, kind=2)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_no_way_out_shows_what_a_class_does_not_let_out(kind: type[FedflowError]) -> None:
    error = marked(kind)
    reason = Reason(code=error.name, message=error.message, site=HOST)
    named = named_reason("dt_0", reason)
    followed = PeerFailed(site=str(HOST), reason=error.message)
    for one in (reason, named, Reason(code=followed.name, message=followed.message, site=GUEST)):
        told = json.dumps(reason_to_wire(one, HOST, to=GUEST))
        assert MARK not in told
        assert one.code in told
    for answer in (envelope.failure(outside_error(error, HOST)), _refusal(error)):
        assert MARK not in envelope.encode(answer).decode()
    assert MARK not in error_from_wire(_refusal(error)).message


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_the_name_and_the_public_fields_of_an_error_leave(kind: type[FedflowError]) -> None:
    error = marked(kind)
    told = outside(error.message, code=error.name, site=HOST)
    if kind.public and error.message.template not in told:
        assert all(str(error.fields[n]) in told for n in error.message.fields if n in kind.public)
    assert told == outside(told, code=error.name, site=HOST)
    left = outside_error(error, HOST)
    assert (left.name, left.code, left.retcode) == (error.name, error.code, error.retcode)
    assert left.hint == kind.hint


def test_the_party_itself_gets_the_whole_sentence() -> None:
    error = marked(BadData)
    reason = Reason(code=error.name, message=error.message, site=HOST)
    assert MARK in json.dumps(reason_to_wire(reason, HOST, to=HOST))


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_public_fields_are_fields_of_the_sentence(kind: type[FedflowError]) -> None:
    """What only the answer's data holds is named here."""
    names = {name for _, name, _, _ in Formatter().parse(kind.template()) if name is not None}
    assert set(kind.public) - names <= {"kind", "parties", "path"}


def test_classes_with_one_sentence_let_the_same_fields_out() -> None:
    found: dict[str, set[frozenset[str]]] = {}
    for kind in ERRORS:
        found.setdefault(plain_template(kind.template()), set()).add(frozenset(kind.public))
    assert {text: fields for text, fields in found.items() if len(fields) > 1} == {}


def test_sentences_that_may_leave_are_written_somewhere() -> None:
    written = set()
    for path in Path(fedflow.__file__).parent.rglob("*.py"):
        if path != Path(module.__file__):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
            written |= {plain_template(text) for text in texts if isinstance(text, str)}
    assert [text for text in module._SENTENCES[1:] if text not in written] == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BadData(where="column 'hiv'", reason="row 8"), "BadData; the details stay at host 10000"),
        (
            TableNotFound(namespace="a", name="b", party_id="10000"),
            "No table ….… at party 10000.",
        ),
        (
            NoCommonIds(own=30),
            "The parties have no sample id in common (… ids at this party).",
        ),
        (BadParameter(path="$.x", reason="no column 'hiv'"), "$.x: …."),
        (
            ComponentFailed(component="dt_0", reason="column 'hiv'"),
            "dt_0 failed: …",
        ),
        (
            PartyUnreachable(
                party_id="7", address="h:1", reason=Message("no answer within {seconds:g} s", 5)
            ),
            "Party 7 cannot be reached at …: no answer within 5 s.",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, FedflowError) else "",
)
def test_what_is_said(error: FedflowError, told: str) -> None:
    shown = outside(error.message, code=error.name, site=HOST)
    assert shown == told
    assert is_kept_back(shown)
    assert not is_kept_back(error.message)


@pytest.mark.parametrize(
    "error",
    [
        RerunRefused(
            job_id="1",
            reason=Message("it has no component {component!r}, but {known}", "zzz", "dt_0, lr_0"),
        ),
        RerunRefused(
            job_id="1",
            reason=Message(
                "{message}; nothing was changed",
                Message("{party} has no module {module} (it is fedflow {version})", "7", "X", "9"),
            ),
        ),
        PauseRefused(
            job_id="1",
            reason=Message("it is paused already ({hold})", Message("paused by {site}", HOST)),
        ),
        ContinueRefused(job_id="1", reason=Message("it has ended: {status}", "failed")),
        BadSteps(given=0, reason=Message("it is not from 1 to {limit}", 9)),
        QuotaReached(
            party_id="7",
            initiator="9999",
            reason=Message("its jobs take {mib} MiB of the disk", 5),
        ),
        NotEnoughResources(
            what="task_cores = 9", need=cores_text(9), where=HOST, key="cores_per_node",
            total=Message("{most} for one job, of {cores}", 4, 8),
        ),
    ],
    ids=lambda error: error.name,
)  # fmt: skip
def test_what_the_asker_wished_for_and_its_limits_are_told_whole(error: FedflowError) -> None:
    assert outside(error.message, code=error.name, site=HOST) == error.message


def test_what_a_site_lacks_is_told_in_numbers() -> None:
    need = ComputeResources(cores=4, memory=512, spark=2)
    left = Message("{free} of {total} free on Spark", 2, 8)
    told = Message("waits for {need} at {site}: {left}", str(need), HOST, left)
    assert outside(told, code="NotEnoughResources", site=HOST) == told
    assert told.startswith("waits for 4 cores and 512 MiB of memory and 2 cores on Spark at host")


@pytest.mark.parametrize(
    "text",
    [
        "column 'hiv' {site}",
        Message("column hiv of {site}", site="host 10000"),
        verbatim("column 'hiv'"),
        Message("{text}", text="column 'hiv'"),
        joined(["column 'hiv'", "row 8"], "; "),
    ],
)
def test_a_text_that_nobody_knows_stays(text: str) -> None:
    told = outside(text, code="KeyError", site=HOST)
    assert told == "KeyError; the details stay at host 10000"
    assert outside(text, code="column 'hiv'", site=HOST).startswith("FedflowError; ")


def test_a_text_instead_of_an_errors_name_stays() -> None:
    told = outside_reason(Reason(code="column 'hiv'", message=verbatim("row 8"), site=HOST), GUEST)
    assert (told.code, told.message) == (
        "FedflowError", "FedflowError; the details stay at host 10000",
    )  # fmt: skip


def test_a_sentence_within_a_sentence_leaves_if_it_may() -> None:
    cause = Reason(code="ExecutorDied", message=verbatim("column 'hiv'"), site=HOST)
    told = outside_reason(named_reason("dt_0", cause), GUEST)
    assert told.message == "dt_0 at host 10000: ExecutorDied; the details stay at host 10000"
    stopped = Reason(code="Stopped", message=Message("stopped by {site}", HOST), site=HOST)
    assert outside_reason(stopped, GUEST) == stopped
    assert not is_kept_back(stopped.message)
    both = joined([stopped.message, BadData(where="'hiv'", reason="row 8").message], "; ")
    assert outside(both, code="X", site=HOST) == "stopped by host 10000; …"


def test_a_job_that_a_site_gave_up_is_told_on_with_the_name_of_its_error() -> None:
    why = Message("{site} has given the job up: {message}", HOST, marked(BadData).message)
    told = outside(why, code="PartyRefused", site=HOST)
    assert told == ("host 10000 has given the job up: PartyRefused; the details stay at host 10000")
    died = ExecutorDied(task="dt_0", reason=Message("killed by signal {signal}", 9))
    why = Message("{site} has given the job up: {message}", HOST, died.message)
    assert outside(why, code="PartyRefused", site=HOST) == why


def test_a_full_sentence_of_an_older_release_is_read_and_not_passed_on() -> None:
    full = Message("column 'hiv': {n} of 30 cells hold no number, first in row 8", n=1)
    given = {"code": "BadData", "message": str(full), "site": HOST.key}
    reason = reason_from_wire(given)
    assert reason is not None
    assert reason.message == full
    passed = reason_to_wire(named_reason("dt_0", reason), GUEST, to=ARBITER)
    assert passed is not None
    assert passed["message"] == "dt_0 at host 10000: BadData; the details stay at host 10000"
    assert passed["site"] == HOST.key


def test_no_error_that_components_raise_lets_a_free_text_out() -> None:
    kinds = {kind.__name__: kind for kind in ERRORS}
    raised = set(sdk_errors.__all__)
    for folder in ("components", "sdk"):
        for path in (Path(fedflow.__file__).parent / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    raised.add(ast.unparse(node.exc.func))
    found = {name: kinds[name].public for name in raised & kinds.keys()}
    assert len(found) > 12
    free = {"reason", "where", "what", "name", "message", "own"}
    assert {name: public for name, public in found.items() if free & {*public}} == {}


def commands_with(job: ScheduledJob, reason: Reason) -> Iterator[tuple[str, Any]]:
    """Yield every command that says a reason to another party, and its body."""
    make = PartyCommands(clock=SystemClock(), timing=Timing(), new_request_id=lambda: "r")
    key = TaskKey(job_id="1", component="dt_0", version=0, site=HOST)
    failed = TaskStatus.FAILED
    yield "return", make.return_cores(job, HOST, reason=reason)
    yield "end", make.end_job(job, HOST, JobStatus.FAILED, reason=reason, statuses={})
    yield "settle", make.settle_task(job, key, failed, reason=reason)
    yield "stop", make.request_stop(key.job, GUEST, JobStatus.FAILED, reason=reason, epoch=0)
    yield (
        "report",
        make.report_task(key, GUEST, failed, reason=reason, started_ms=1, ended_ms=2),
    )


def test_no_command_that_says_a_reason_shows_it_whole() -> None:
    job = ScheduledJob(
        job_id="1", initiator=GUEST, status=JobStatus.RUNNING, epoch=0, dsl={}, conf={},
        priority=0, created_ms=0, updated_ms=0, sites=(), tasks=(),
    )  # fmt: skip
    error = marked(BadData)
    for name, command in commands_with(
        job, Reason(code=error.name, message=error.message, site=ARBITER)
    ):
        assert MARK not in json.dumps(command.body), name
        assert command.body["reason"]["code"] == "BadData"
        assert command.body["reason"]["site"] == ARBITER.key
    takes = [
        name
        for name, made in vars(PartyCommands).items()
        if "reason" in getattr(made, "__annotations__", {})
    ]
    assert len(takes) == len(list(commands_with(job, Reason(code="X", message=error.message))))
