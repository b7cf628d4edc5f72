"""Job parameters (FATE's RunParameters): typed values, their checks, and their merge for one site.

The field names are FATE's keys, so that `as_json` gives what its clients read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Final, Literal, get_type_hints

import msgspec
from msgspec import Meta

from fedflow.base.reading import read_as
from fedflow.domain.document import (
    MAX_DEPTH,
    JsonObject,
    Report,
    child,
    copy_object,
    kind_of,
    merge_objects,
    shown,
)

Computing = Literal["STANDALONE", "EGGROLL", "SPARK", "LINKIS_SPARK"]
FederationEngine = Literal["STANDALONE", "EGGROLL", "RABBITMQ", "PULSAR"]
Storage = Literal[
    "STANDALONE", "EGGROLL", "HDFS", "MYSQL", "PATH", "HIVE", "LINKIS_HIVE", "LOCALFS", "API"
]
Text = Annotated[str, Meta(max_length=1_000)]
Cores = Annotated[int, Meta(ge=1, le=10_000)]

PROCESSORS_KEY: Final = "eggroll.session.processors.per.node"  #: in `eggroll_run`: cores per node
EXECUTORS_KEY: Final = "num-executors"  #: in `spark_run`: nodes
EXECUTOR_CORES_KEY: Final = "executor-cores"  #: in `spark_run`: cores per node


class InheritanceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which components of which earlier job are taken over instead of run again."""

    job_id: Annotated[str, Meta(min_length=1, max_length=100)]
    component_list: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobParameters:
    """How a job is run at one site. None = the server decides."""

    job_type: Literal["train", "predict"] = "train"
    dsl_version: int = 2  #: of the submitted form; a job of version 1 runs converted
    task_parallelism: Annotated[int, Meta(ge=1, le=1_000)] = 1  #: tasks that may run at once
    task_cores: Cores = 4  #: cores of one task at one site, over all nodes
    task_memory: Annotated[int, Meta(ge=0)] = 0  #: never applied
    computing_partitions: Cores | None = None  #: partitions of a loaded table
    computing_engine: Computing | None = None
    federation_engine: FederationEngine | None = None
    storage_engine: Storage | None = None
    federated_mode: Literal["SINGLE", "MULTIPLE"] | None = None  #: SINGLE: all sites on one server
    federated_status_collect_type: Literal["PUSH", "PULL"] = "PUSH"
    federated_data_exchange_type: Text | None = None  #: reserved, without effect
    federation_info: dict[str, object] = field(default_factory=dict)
    auto_retries: Annotated[int, Meta(ge=0, le=100)] = 0  #: new attempts after FAILED or TIMEOUT
    auto_retry_delay: Annotated[int, Meta(ge=0, le=86_400)] = 1  #: seconds before each of them
    timeout: Annotated[int, Meta(ge=1, le=315_360_000)] = 259_200  #: seconds from creation to end
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
    user: Text = ""  #: owner at this site
    roles: dict[str, object] = field(default_factory=dict)  #: copy of the conf's `role`
    role_parameters: dict[str, object] = field(default_factory=dict)

    @property
    def inherits(self) -> InheritanceInfo | None:
        """Return what is taken over from an earlier job, None if nothing is."""
        if not self.inheritance_info:
            return None
        return read_as(self.inheritance_info, InheritanceInfo)

    def as_json(self) -> dict[str, object]:
        """Return all parameters under FATE's keys, as a new plain JSON object."""
        return copy_object(asdict(self))


_TYPES: Final[Mapping[str, type[object]]] = {
    f.name: get_type_hints(JobParameters, include_extras=True)[f.name]
    for f in fields(JobParameters)
}
_ENGINES: Final = ("computing_engine", "federation_engine", "storage_engine")
_UPPER: Final = (*_ENGINES, "federated_mode", "federated_status_collect_type")
_MODEL_KEYS: Final = ("model_id", "model_version")
OBSOLETE: Final = ("work_mode", "backend")
"""Parameters of FATE 1.5 and 1.6; FATE's answer to a submit with one begins with `[WARN]`."""
_WITHOUT_EFFECT: Final = (
    "task_memory", "federated_data_exchange_type", "federation_info", "engines_address",
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
            report.warn(at, "is obsolete and has no effect")
        elif key not in _TYPES:
            report.warn(at, "unknown job parameter, it has no effect")
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
    merged: dict[str, object] = asdict(defaults)
    for layer in layers:
        merged = merge_objects(merged, layer, depth=MAX_DEPTH)
    return read_as(copy_object(merged), JobParameters)


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
    if key == "dsl_version":
        value = 1 if value in (1, "1") else 2  # the conf's own member is what counts
    try:
        read_as(value, _TYPES[key])
        if key == "inheritance_info" and value:
            read_as(value, InheritanceInfo)
    except msgspec.ValidationError as error:
        given = shown(value) if not isinstance(value, dict | list) else kind_of(value)
        report.problem(path, f"{error}, given was {given}", rule="JobParameterError")
        return
    checked[key] = value
    unsupported = _unsupported(key, value)
    if unsupported is not None:
        report.problem(path, unsupported, rule="NotSupportedYet")
    if key in _WITHOUT_EFFECT and value:
        report.warn(path, "has no effect in this version")
    if key in _ENGINES and value != "STANDALONE":
        report.warn(path, f"{value} is not an engine of this version; each server uses its own")


def _unsupported(key: str, value: object) -> str | None:
    """Return why a right value cannot be honoured; ignoring it would give a wrong job."""
    if key == "task_conf" and isinstance(value, dict):
        launchers = [conf.get("launcher") for conf in value.values() if isinstance(conf, dict)]
        if any(launcher not in (None, "default") for launcher in launchers):
            return "task launchers such as deepspeed are not supported by this version"
    return None
