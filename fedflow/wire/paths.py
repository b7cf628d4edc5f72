"""The one table of commands between parties: name, path, body, and back.

A path is given without the prefix `/v1`. HTTP and gRPC are two doors to this table; the relay opens
nothing else to another party. Source of the paths:
`docs/reference/rest.md#calls-between-servers`; `heartbeat`, `info_common`, `preflight` and
`job_rerun` are fedflow's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.wire import commands
from fedflow.wire import worker_commands as worker
from fedflow.wire.commands import CommandBody
from fedflow.wire.task_report import EndReport

PREFIX: Final = "/v1"

_JOB = "<job_id>/<role>/<party_id>"
_TASK = "<job_id>/<component>/<task_id>/<version>/<role>/<party_id>"

_PARTY: Final[dict[str, tuple[str, type[CommandBody]]]] = {
    "heartbeat": ("/party/heartbeat", commands.Heartbeat),
    "info_common": ("/party/info/common", commands.NoMembers),
    "preflight": ("/party/preflight", commands.PreflightRequest),
    "job_create": (f"/party/{_JOB}/create", commands.CreateJob),
    "job_check": (f"/party/{_JOB}/check", commands.CreateJob),
    "job_reuse": (f"/party/{_JOB}/reuse", commands.ReuseRequest),
    "job_rerun": (f"/party/{_JOB}/rerun", commands.RerunJob),
    "job_parameters": (f"/party/{_JOB}/parameter/update", commands.ChangeParameters),
    "job_apply": (f"/party/{_JOB}/resource/apply", commands.OfEpoch),
    "job_return": (f"/party/{_JOB}/resource/return", commands.ReturnCores),
    "job_start": (f"/party/{_JOB}/start", commands.OfEpoch),
    "job_stop": (f"/party/{_JOB}/stop/<status>", commands.EndJob),
    "job_status": (f"/party/{_JOB}/status/<status>", commands.EndJob),
    "model_deploy": (f"/party/{_JOB}/model/deploy", commands.DeployModel),
    "model_migrate": (f"/party/{_JOB}/model/migrate", commands.MigrateModel),
    "model_history": (f"/party/{_JOB}/model/history", commands.ChangeHistory),
    "model_share": (f"/party/{_JOB}/model/share", commands.ModelDigest),
    "model_commit": (f"/party/{_JOB}/model/commit", commands.ModelCommand),
    "model_undo": (f"/party/{_JOB}/model/undo", commands.ModelCommand),
    "model_publish": (f"/party/{_JOB}/model/publish", commands.PublishModel),
    "task_create": (f"/party/{_TASK}/create", commands.CreateTask),
    "task_start": (f"/party/{_TASK}/start", commands.StartTask),
    "task_collect": (f"/party/{_TASK}/collect", commands.NoMembers),
    "task_status": (f"/party/{_TASK}/status/<status>", commands.SettleTask),
    "task_stop": (f"/party/{_TASK}/stop/<status>", commands.SettleTask),
    "initiator_stop": (f"/initiator/{_JOB}/stop/<status>", commands.InitiatorStop),
    "initiator_rerun": (f"/initiator/{_JOB}/rerun", commands.InitiatorRerun),
    "initiator_parameters": (f"/initiator/{_JOB}/parameter/update", commands.InitiatorParameters),
    "initiator_control": (f"/initiator/{_JOB}/control", commands.ControlJob),
    "initiator_report": (f"/initiator/{_TASK}/report", commands.TaskReport),
    "output_table": (
        "/tracker/<job_id>/<component>/<role>/<party_id>/output/table",
        commands.NoMembers,
    ),
}
"""Name -> path with `<parameters>` and body; open to other parties through the relay."""

PARTY_COMMANDS: Final = {name: path for name, (path, _body) in _PARTY.items()}
BODIES: Final = {name: body for name, (_path, body) in _PARTY.items()}

_WORKER: Final[dict[str, tuple[str, type[Struct]]]] = {
    "task_report": (f"/party/{_TASK}/report", EndReport),  # or a `RunningReport`
    "metric_save": (f"/tracker/{_TASK}/metric_data/save", worker.SaveMetrics),
    "table_get": (f"/tracker/{_TASK}/table_meta/get", worker.FindTable),
    "table_connection": (f"/tracker/{_TASK}/table_meta/connection", worker.ConnectTable),
    "table_target": (f"/tracker/{_TASK}/table_meta/target", worker.ConnectTarget),
    "table_create": (f"/tracker/{_TASK}/table_meta/create", worker.AddTable),
    "model_save": (f"/tracker/{_TASK}/model/save", worker.SaveModel),
    "model_get": (f"/tracker/{_TASK}/model/get", worker.GetModel),
    "run_parameters_get": (
        f"/tracker/{_TASK}/model/run_parameters/get",
        worker.GetRunParameters,
    ),
    "model_store": (f"/tracker/{_TASK}/model/store", worker.StoreModel),
    "model_restore": (f"/tracker/{_TASK}/model/restore", worker.RestoreModel),
    "checkpoint_save": (f"/tracker/{_TASK}/checkpoint/save", worker.SaveCheckpoint),
    "checkpoint_list": (f"/tracker/{_TASK}/checkpoint/list", worker.ListCheckpoints),
    "checkpoint_get": (f"/tracker/{_TASK}/checkpoint/get", worker.GetCheckpoint),
    "content_sign": (f"/tracker/{_TASK}/sign", worker.SignContent),
    "signature_verify": (f"/tracker/{_TASK}/verify", worker.VerifySignatures),
}
"""Name -> path and body. For executors of this server only, with their task token; never through
the relay.
"""

WORKER_COMMANDS: Final = {name: path for name, (path, _body) in _WORKER.items()}
WORKER_NAMES: Final = {body: name for name, (_path, body) in _WORKER.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """A path that was recognised, and its parameters as text."""

    name: str
    params: dict[str, str]


def job_path(name: str, key: JobKey, *, status: str = "") -> str:
    """Return the path of a job command, for example `/party/<job>/<role>/<party>/create`."""
    return _fill(
        PARTY_COMMANDS[name],
        job_id=key.job_id,
        role=key.site.role.value,
        party_id=key.site.party_id,
        status=status,
    )


def task_path(name: str, key: TaskKey, *, status: str = "") -> str:
    """Return the path of a task command."""
    pattern = PARTY_COMMANDS.get(name) or WORKER_COMMANDS[name]
    return _fill(
        pattern,
        job_id=key.job_id,
        component=key.component,
        task_id=key.task_id,
        version=str(key.version),
        role=key.site.role.value,
        party_id=key.site.party_id,
        status=status,
    )


def _fill(pattern: str, **values: str) -> str:
    for name, value in values.items():
        pattern = pattern.replace(f"<{name}>", value)
    return pattern


_VALUES: Final[dict[str, str]] = {
    "job_id": r"[0-9A-Za-z_-]{1,64}",
    "role": "|".join(r.value for r in Role),
    "party_id": r"[0-9A-Za-z]{1,32}",
    "component": r"[0-9A-Za-z_-]{1,100}",
    "task_id": r"[0-9A-Za-z_-]{1,165}",
    "version": r"[0-9]{1,9}",
    "status": r"[a-z]{1,10}",
}


def _regex(pattern: str) -> re.Pattern[str]:
    text = re.sub(r"<(\w+)>", lambda m: f"(?P<{m[1]}>{_VALUES[m[1]]})", pattern)
    return re.compile(rf"{PREFIX}{text}/?")


_SINGLE: Final = {name: re.compile(pattern) for name, pattern in _VALUES.items()}
_PARTY_PATTERNS: Final = {name: _regex(pattern) for name, pattern in PARTY_COMMANDS.items()}
_WORKER_PATTERNS: Final = {name: _regex(pattern) for name, pattern in WORKER_COMMANDS.items()}


def fits(parameter: str, value: str) -> bool:
    """Tell whether a text can be a path's `parameter`: `job_id`, `party_id`, `component` ..."""
    return _SINGLE[parameter].fullmatch(value) is not None


def parse_party_path(path: str) -> Match | None:
    """Return the party command that a full path (with `/v1`) names, or None: the allow-list."""
    try:
        return _party_match(path)
    except LookupError:
        return None


@lru_cache(maxsize=256)
def _party_match(path: str) -> Match:
    """Keep the last answers: each check on a packet's way asks. What raises is not kept, so a
    an unknown caller's long paths are not either.
    """
    match = _parse(path, _PARTY_PATTERNS)
    if match is None:
        raise LookupError(path)
    return match


def parse_worker_path(path: str) -> Match | None:
    """Return the executor's command that a full path (with `/v1`) names, or None."""
    return _parse(path, _WORKER_PATTERNS)


def _parse(path: str, patterns: Mapping[str, re.Pattern[str]]) -> Match | None:
    for name, pattern in patterns.items():
        found = pattern.fullmatch(path)
        if found:
            return Match(name=name, params=found.groupdict())
    return None


def site_of(params: Mapping[str, str]) -> Site | None:
    """Return the site that a path's parameters name, or None if it names none."""
    if "role" not in params:
        return None
    return Site(Role(params["role"]), PartyId(params["party_id"]))


def task_of(params: Mapping[str, str]) -> TaskKey:
    """Return the task share that a task path's parameters name.

    Raises: BadRequest: the task id is not that of the job and component, or the path names no task.
    """
    site = site_of(params)
    if site is None or "version" not in params:
        raise BadRequest(reason="the path names no task")
    key = TaskKey(
        job_id=params["job_id"],
        component=params["component"],
        version=int(params["version"]),
        site=site,
    )
    if key.task_id != params["task_id"]:
        raise BadRequest(reason=f"the task id is not {key.task_id}")
    return key
