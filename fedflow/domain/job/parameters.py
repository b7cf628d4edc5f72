"""Job parameters (FATE's RunParameters): typed values, their checks, and their merge for one site.

The field names are FATE's keys, so that `as_json` gives what its clients read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Annotated, Final, Literal, get_type_hints

import msgspec
from msgspec import Meta

from fedflow.base.decoding import read_as, words_of
from fedflow.base.errors.catalog import all_errors
from fedflow.base.values import dataclass
from fedflow.domain.job.document import (
    MAX_DEPTH,
    JsonObject,
    Report,
    child,
    kind_of,
    lay_over,
    shown,
)
from fedflow.domain.policies import Policy

Computing = Literal["STANDALONE", "EGGROLL", "SPARK", "LINKIS_SPARK"]
FederationEngine = Literal["STANDALONE", "EGGROLL", "RABBITMQ", "PULSAR"]
Storage = Literal[
    "STANDALONE", "EGGROLL", "HDFS", "MYSQL", "PATH", "HIVE", "LINKIS_HIVE", "LOCALFS", "API"
]
Text = Annotated[str, Meta(max_length=1_000)]
Cores = Annotated[int, Meta(ge=1, le=10_000)]
Retries = Annotated[int, Meta(ge=0, le=100)]
Delay = Annotated[int, Meta(ge=0, le=86_400)]  #: seconds
Span = Annotated[int, Meta(ge=1, le=315_360_000)]  #: seconds
Memory = Annotated[int, Meta(ge=0, le=1_000_000_000)]  #: MiB

MAX_NAME: Final = 100  #: characters of the name of a job
PROCESSORS_KEY: Final = "eggroll.session.processors.per.node"  #: in `eggroll_run`: cores per node
EXECUTORS_KEY: Final = "num-executors"  #: in `spark_run`: nodes
EXECUTOR_CORES_KEY: Final = "executor-cores"  #: in `spark_run`: cores per node


class InheritanceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which components of which earlier job are taken over instead of run again."""

    job_id: Annotated[str, Meta(min_length=1, max_length=100)]
    component_list: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskConf:
    """How one component is run (`task_conf.<component>`). None = as the job says."""

    launcher: str = "default"  #: FATE's; no other one is supported
    schedule_policy: Policy = Policy.ALL_SUCCESS
    timeout: Span | None = None  #: seconds from the task's start
    auto_retries: Retries | None = None
    auto_retry_delay: Delay | None = None
    retry_on: list[Text] | None = None  #: names of errors
    task_cores: Cores | None = None
    task_memory: Memory | None = None
    reuse: bool = True  #: with the job's `reuse`: may take over an earlier job's results


@dataclass(frozen=True, kw_only=True, slots=True)
class JobParameters:
    """How a job is run at one site. None = the server decides."""

    job_type: Literal["train", "predict"] = "train"
    dsl_version: int = 2  #: of the submitted form; a job of version 1 runs converted
    task_parallelism: Annotated[int, Meta(ge=1, le=1_000)] = 1  #: tasks that may run at once
    task_cores: Cores = 4  #: cores of one task at one site, over all nodes
    task_memory: Memory = 0  #: MiB of one task at one site
    computing_partitions: Cores | None = None  #: partitions of a loaded table
    computing_engine: Computing | None = None
    federation_engine: FederationEngine | None = None
    storage_engine: Storage | None = None
    federated_mode: Literal["SINGLE", "MULTIPLE"] | None = None  #: SINGLE: all sites on one server
    federated_status_collect_type: Literal["PUSH", "PULL"] = "PUSH"
    federated_data_exchange_type: Text | None = None  #: reserved, without effect
    federation_info: dict[str, object] = field(default_factory=dict)
    auto_retries: Retries = 0  #: new attempts after FAILED or TIMEOUT
    auto_retry_delay: Delay = 1  #: seconds before each of them
    retry_on: list[Text] | None = None  #: errors to try again; None: all that may go away
    infrastructure_retries: Retries = 3  #: new attempts after a failure of a server's own
    timeout: Span = 259_200  #: seconds from creation to end, without those in which it was held
    run_to: Text | list[Text] | None = None  #: run only these components and what they need
    step: bool = False  #: wait for `job continue` before each component
    model_id: Text | None = None
    model_version: Text | None = None
    inheritance_info: dict[str, object] = field(default_factory=dict)  #: see `InheritanceInfo`
    engines_address: dict[str, object] = field(default_factory=dict)
    adaptation_parameters: dict[str, object] = field(default_factory=dict)  #: computed by FATE
    eggroll_run: dict[str, object] = field(default_factory=dict)
    spark_run: dict[str, object] = field(default_factory=dict)
    rabbitmq_run: dict[str, object] = field(default_factory=dict)
    pulsar_run: dict[str, object] = field(default_factory=dict)
    task_conf: dict[str, dict[str, object]] = field(default_factory=dict)  #: by component name
    assistant_role: list[str] | None = None
    map_table_name: Text | None = None
    map_namespace: Text | None = None
    priority: Annotated[int, Meta(ge=-1_000, le=1_000)] = 0  #: fedflow's: a greater one goes first
    idempotency_key: Annotated[str, Meta(max_length=255)] | None = (
        None  #: see `domain/scheduling/submits.py`
    )
    name: Text = ""  #: fedflow's: what people call the job
    elastic: dict[str, object] | None = (
        None  #: see `domain/job/elastic.py`; None: hosts may not fail
    )
    reuse: bool = False  #: results of equal components of earlier jobs are taken over
    strict: bool = False  #: what would be a warning refuses the job, or fails the task
    user: Text = ""  #: owner at this site
    roles: dict[str, object] = field(default_factory=dict)  #: copy of the conf's `role`
    role_parameters: dict[str, object] = field(default_factory=dict)

    @property
    def inherits(self) -> InheritanceInfo | None:
        """Return what is taken over from an earlier job, None if nothing is."""
        if not self.inheritance_info:
            return None
        return read_as(self.inheritance_info, InheritanceInfo)

    @property
    def runs_to(self) -> tuple[str, ...]:
        """Return the components that `run_to` names; none means that all run."""
        named = [self.run_to] if isinstance(self.run_to, str) else self.run_to or []
        return tuple(name for name in named if name)

    def task(self, component: str) -> TaskConf:
        """Return how one component is run."""
        return read_as(self.task_conf.get(component, {}), TaskConf)

    def as_json(self) -> dict[str, object]:
        """Return all parameters under FATE's keys, as a new plain JSON object."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


_TYPES: Final = get_type_hints(JobParameters, include_extras=True)
_TASK_TYPES: Final = get_type_hints(TaskConf, include_extras=True)
_ENGINES: Final = ("computing_engine", "federation_engine", "storage_engine")
_SPARK: Final = ("computing_engine", "SPARK")  #: each party checks that it has one
_UPPER: Final = (*_ENGINES, "federated_mode", "federated_status_collect_type")
_MODEL_KEYS: Final = ("model_id", "model_version")
OBSOLETE: Final = ("work_mode", "backend")
"""Parameters of FATE 1.5 and 1.6; FATE's answer to a submit with one begins with `[WARN]`."""
_WITHOUT_EFFECT: Final = (
    "federated_data_exchange_type", "federation_info", "engines_address",
    "adaptation_parameters", "rabbitmq_run", "pulsar_run", "assistant_role", "map_table_name",
    "map_namespace",
)  # fmt: skip
"""Checked, kept and shown, but nothing here depends on them."""
_CORES_KEYS: Final = (
    ("eggroll_run", PROCESSORS_KEY),
    ("spark_run", EXECUTORS_KEY),
    ("spark_run", EXECUTOR_CORES_KEY),
)


def check_job_parameters(values: JsonObject, path: str, *, report: Report) -> dict[str, object]:
    """Return the parameters among `values` that are known, given (not null) and right.

    What is wrong becomes a problem at its path; unknown keys and those without effect a warning.
    """
    checked: dict[str, object] = {}
    for key, value in values.items():
        at = child(path, key)
        if key in OBSOLETE:
            report.warn(at, "is obsolete and has no effect", code="NoEffect")
        elif key not in _TYPES:
            report.warn(at, "unknown job parameter, it has no effect", code="UnknownMember")
        elif value is not None:
            _check(key, value, at, checked=checked, report=report)
    for member, key in _CORES_KEYS:
        options = checked.get(member)
        if isinstance(options, dict) and key in options and cores_option(options, key) is None:
            message = f"must be a whole number from 0 to 10000, not {shown(options[key])}"
            at = child(child(path, member), key)
            report.problem(at, message, rule="JobParameterError")
    return checked


def merge_job_parameters(layers: Iterable[JsonObject], *, defaults: JobParameters) -> JobParameters:
    """Return `defaults` with the checked `layers` over it: objects are merged, later wins."""
    merged: dict[str, object] = msgspec.to_builtins(defaults)
    for layer in layers:
        lay_over(merged, layer, depth=MAX_DEPTH)
    return read_as(merged, JobParameters)


def name_problem(name: str) -> str | None:
    """Return what is wrong with a name for a job, None if it can be one."""
    if not 1 <= len(name) <= MAX_NAME:
        return f"a name has 1 to {MAX_NAME} characters"
    if name != name.strip():
        return "a name neither begins nor ends with a blank"
    return None if name.isprintable() else "a name has no control characters"


def cores_option(options: JsonObject, key: str) -> int | None:
    """Return a count of cores or nodes among engine options (0 if absent), None if it is not one.

    FATE's own files give such numbers as text, too.
    """
    value = options.get(key, 0)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= 10_000 else None


def _check(
    key: str, value: object, path: str, *, checked: dict[str, object], report: Report
) -> None:
    """Put one value into `checked`, in its normal form, or record why not."""
    if key in _MODEL_KEYS and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if key in _UPPER and isinstance(value, str):
        value = value.upper()
    if key == "task_conf" and isinstance(value, dict):
        checked[key] = _task_confs(value, path, report=report)
        return
    if key == "elastic":
        from fedflow.domain.job.elastic_checks import check_elastic  # most jobs never need it

        check_elastic(value, path, report=report)
        checked[key] = value if isinstance(value, dict) else None
        return
    if key == "dsl_version":
        value = 1 if value in (1, "1") else 2  # the conf's own member is what counts
    wrong = _mistake(value, _TYPES[key])
    if wrong is None and key == "inheritance_info" and value:
        wrong = _mistake(value, InheritanceInfo)
    if wrong is not None:
        report.problem(path, wrong, rule="JobParameterError")
        return
    checked[key] = value
    if key == "name" and value and (problem := name_problem(str(value))):
        report.problem(path, problem, rule="JobParameterError")
    if key == "retry_on":
        _check_errors(value, path, report=report)
    if key in _WITHOUT_EFFECT and value:
        report.warn(path, "has no effect in this version", code="NoEffect")
    if key in _ENGINES and value != "STANDALONE" and (key, value) != _SPARK:
        message = f"{value} is not an engine of this version; each server uses its own"
        report.warn(path, message, code="OtherEngine")


def _mistake(value: object, kind: type[object]) -> str | None:
    """Return why a value is none of a kind, None if it is one."""
    try:
        read_as(value, kind)
    except msgspec.ValidationError as error:
        given = shown(value) if not isinstance(value, dict | list) else kind_of(value)
        known = ", ".join(words_of(kind))
        return f"{error}, given was {given}" + (f"; known are {known}" if known else "")
    return None


def _task_confs(values: JsonObject, path: str, *, report: Report) -> dict[str, dict[str, object]]:
    """Return the options of components that are known, given (not null) and right."""
    checked: dict[str, dict[str, object]] = {}
    for component, options in values.items():
        at = child(path, component)
        members = report.expect_object(options, at, rule="JobParameterError") or {}
        report.warn_of_unknown(members, _TASK_TYPES, path=at)
        right = checked.setdefault(component, {})
        for key, value in members.items():
            if key in _TASK_TYPES:
                _check_option(key, value, child(at, key), right=right, report=report)
    return checked


def _check_option(
    key: str, value: object, path: str, *, right: dict[str, object], report: Report
) -> None:
    if value is None:
        return
    wrong = _mistake(value, _TASK_TYPES[key])
    if wrong is not None:
        report.problem(path, wrong, rule="JobParameterError")
        return
    right[key] = value
    if key == "retry_on":
        _check_errors(value, path, report=report)
    if key == "launcher" and value != "default":  # ignoring it would give a wrong job
        message = "task launchers such as deepspeed are not supported by this version"
        report.problem(path, message, rule="NotSupportedYet")


def _check_errors(names: object, path: str, *, report: Report) -> None:
    """Record the names that are not those of an error: they would never match."""
    known = {error.__name__ for error in all_errors()}
    for i, name in enumerate(names if isinstance(names, list) else ()):
        if name not in known:
            message = f"{shown(name)} is no name of an error of fedflow"
            report.problem(f"{path}[{i}]", message, rule="JobParameterError")
