"""What an executor asks of its own server: a class per command, which both ends read and write.

`wire/paths.py` names the path of each. Reports are in `wire/task_report.py`: they have their own
rules, and stay in files when no server takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, get_args

import msgspec

from fedflow.base.decoding import mistake_of, read_as
from fedflow.base.errors.data import BadData
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.data.storages import Connection
from fedflow.domain.records import TableRecord
from fedflow.wire.task_report import MetricBatch, ReportedModel

A = TypeVar("A")


class WorkerCommand(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """A command that is answered with an `A`."""


W = TypeVar("W", bound=msgspec.Struct)


def read_worker_command(given: Mapping[str, Any], kind: type[W]) -> W:
    """Return a body as its class. Raises: BadRequest: a member is missing or wrong."""
    try:
        return read_as(given, kind)
    except msgspec.ValidationError as exc:
        path, sentence = mistake_of(exc)
        raise BadRequest(reason=f"{path}: {sentence}", path=path) from exc


def answer_of(kind: type[WorkerCommand[A]]) -> type[A]:
    """Return the type of a command's answer."""
    found: type[A] = get_args(vars(kind)["__orig_bases__"][0])[0]
    return found


def read_answer(given: Any, kind: type[WorkerCommand[A]]) -> A:
    """Return the answer to a command of this class. Raises: BadData: it is none."""
    try:
        return read_as(given, answer_of(kind))
    except msgspec.ValidationError as exc:
        raise BadData(where=f"answer to {kind.__name__}", reason=str(exc)) from exc


# --- answers --------------------------------------------------------------------------------------


class SavedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as two plain JSON objects with their names."""

    meta_name: str
    param_name: str
    meta: Mapping[str, Any]
    param: Mapping[str, Any]


class SavedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a training, and its model."""

    step_index: int
    step_name: str
    model: SavedModel


class ExternalArchive(msgspec.Struct, frozen=True, kw_only=True):
    """A model as the external store has it; `sha256` in hex."""

    sha256: str
    size_bytes: int


# --- parts of commands ----------------------------------------------------------------------------


class SignedContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a site is said to have signed."""

    site: str  #: `role-party_id`
    content: str  #: base64
    signature: str  #: as it was answered there


# --- commands -------------------------------------------------------------------------------------


class SaveMetrics(WorkerCommand[None], frozen=True, kw_only=True):
    """Keep metrics of a task that goes on."""

    metrics: list[MetricBatch] = []


class FindTable(WorkerCommand[TableRecord], frozen=True, kw_only=True):
    """What is known of a table: by its names, or as an output of an earlier job."""

    namespace: str | None = None
    table_name: str | None = None
    job_id: str | None = None
    component_name: str | None = None
    data_name: str | None = None


class ConnectTable(WorkerCommand[Connection], frozen=True, kw_only=True):
    """How the rows of a bound table are reached."""

    namespace: str
    table_name: str


class ConnectTarget(WorkerCommand[Connection], frozen=True, kw_only=True):
    """How the place is reached that a Writer was told to write to."""


class AddTable(WorkerCommand[None], frozen=True, kw_only=True):
    """Register a table that the task wrote; `drop` replaces one of that name."""

    table: TableRecord
    drop: bool = False


class SaveModel(WorkerCommand[None], frozen=True, kw_only=True):
    """Keep the task's model before its end."""

    model_id: str
    model_version: str
    component_model: ReportedModel


class GetModel(WorkerCommand[dict[str, list[str]]], frozen=True, kw_only=True):
    """The model of the task's component in a version: name -> [name, base64 of its JSON]."""

    model_id: str
    model_version: str
    search_model_alias: str | None = None


class GetRunParameters(WorkerCommand[dict[str, Any]], frozen=True, kw_only=True):
    """The parameters that the components of a version ran with."""

    model_id: str
    model_version: str


class StoreModel(WorkerCommand[ExternalArchive], frozen=True, kw_only=True):
    """Copy the model that the task's parameters name to the external store."""


class RestoreModel(WorkerCommand[ExternalArchive], frozen=True, kw_only=True):
    """Bring the model that the task's parameters name back from the external store."""


class SaveCheckpoint(WorkerCommand[None], frozen=True, kw_only=True):
    """Keep the model as it is after a step."""

    step_index: int
    step_name: str
    model: ReportedModel


class ListCheckpoints(WorkerCommand[list[tuple[int, str]]], frozen=True, kw_only=True):
    """The steps of the task's component: index and name."""


class GetCheckpoint(WorkerCommand[SavedStep], frozen=True, kw_only=True):
    """A step of the task's component, with its model."""

    step_index: int


class SignContent(WorkerCommand[str], frozen=True, kw_only=True):
    """Sign for this task by the key of the party's certificate."""

    content: str  #: base64


class VerifySignatures(WorkerCommand[list[bool]], frozen=True, kw_only=True):
    """Tell of each signature whether its site made it in this task."""

    signed: list[SignedContent]
