"""Commands of executors: both ends mean the same, and nothing malformed is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fedflow.base.errors.data import BadData
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.data.storages import Connection, PathFile, Secrets
from fedflow.wire import worker_commands as wire
from fedflow.wire.envelope import encode
from fedflow.wire.paths import WORKER_COMMANDS, WORKER_NAMES
from fedflow.wire.task_report import MetricBatch, ReportedModel, member_values
from tests.unit.app.fakes import table

MODEL = ReportedModel(alias="m", meta_name="M", param_name="P", meta={"a": 1}, param={"w": [0.5]})
TABLE = replace(table("n", "ü"), schema={"id": "x"})
SAVED = wire.SavedModel(meta_name="M", param_name="P", meta={"a": 1}, param={"w": [0.5]})
VERSION = {"model_id": "i", "model_version": "v"}
SPOKEN: list[tuple[wire.WorkerCommand[Any], Any]] = [
    (wire.SaveMetrics(metrics=[MetricBatch(namespace="n", name="l", points=[(0, 1.5)])]), None),
    (wire.FindTable(namespace="n", table_name="t"), TABLE),
    (wire.FindTable(job_id="1", component_name="a_0", data_name="data"), TABLE),
    (
        wire.ConnectTable(namespace="n", table_name="t"),
        Connection(address=PathFile(path="/x"), secrets=Secrets(user="u", password="p")),
    ),
    (wire.ConnectTarget(), Connection(address=PathFile(path="/x"), feature_columns=("a",))),
    (wire.AddTable(table=TABLE, drop=True), None),
    (wire.SaveModel(**VERSION, component_model=MODEL), None),
    (wire.GetModel(**VERSION, search_model_alias="m"), {"M": ["M", "e30="]}),
    (wire.GetRunParameters(**VERSION), {"lr_0": {"max_iter": 3}}),
    (wire.StoreModel(), wire.ExternalArchive(sha256="ab", size_bytes=2)),
    (wire.RestoreModel(), wire.ExternalArchive(sha256="ab", size_bytes=2)),
    (wire.SaveCheckpoint(step_index=1, step_name="s", model=MODEL), None),
    (wire.ListCheckpoints(), [(0, "a"), (1, "b")]),
    (wire.GetCheckpoint(step_index=1), wire.SavedStep(step_index=1, step_name="s", model=SAVED)),
    (wire.SignContent(content="YQ=="), "signature"),
    (
        wire.VerifySignatures(
            signed=[wire.SignedContent(site="host-1", content="YQ==", signature="s")]
        ),
        [True],
    ),
]


def sent(command: wire.WorkerCommand[Any]) -> Any:
    """Return a command as it arrives."""
    return json.loads(json.dumps(command, allow_nan=False, default=member_values))


def test_every_command_is_tried_here() -> None:
    assert {WORKER_NAMES[type(command)] for command, _ in SPOKEN} == {*WORKER_COMMANDS} - {
        "task_report"
    }


@pytest.mark.parametrize(("command", "answer"), SPOKEN)
def test_what_is_sent_is_what_arrives(command: wire.WorkerCommand[Any], answer: Any) -> None:
    assert wire.read_worker_command(sent(command), type(command)) == command
    assert wire.read_answer(msgspec.json.decode(encode(answer)), type(command)) == answer


@pytest.mark.parametrize(
    ("kind", "given", "path"),
    [
        (wire.SaveMetrics, {"metrics": ["x"]}, "$.metrics[0]"),
        (wire.FindTable, {"namespace": 1}, "$.namespace"),
        (wire.ConnectTable, {"namespace": "n"}, "$"),
        (wire.AddTable, {"table": {**msgspec.to_builtins(TABLE), "count": "x"}}, "$.table.count"),
        (wire.AddTable, {"table": 1}, "$.table"),
        (wire.AddTable, {"table": {"namespace": "x"}}, "$.table"),
        (wire.AddTable, {"table": msgspec.to_builtins(TABLE), "drop": 1}, "$.drop"),
        (wire.SaveModel, {**VERSION, "component_model": {"alias": "m"}}, "$.component_model"),
        (wire.GetModel, {"model_id": None, "model_version": "v"}, "$.model_id"),
        (wire.SaveCheckpoint, {"step_index": "1", "step_name": "s"}, "$.step_index"),
        (wire.GetCheckpoint, {"step_index": 1.5}, "$.step_index"),
    ],
)
def test_a_malformed_command_is_refused_with_its_place(
    kind: type[wire.WorkerCommand[Any]], given: Any, path: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        wire.read_worker_command(given, kind)
    assert refused.value.fields["path"] == path


@pytest.mark.parametrize("answer", [None, [], {}, {"sha256": 1, "size_bytes": 2}])
def test_an_answer_to_something_else_is_bad_data(answer: Any) -> None:
    with pytest.raises(BadData, match="answer to StoreModel"):
        wire.read_answer(answer, wire.StoreModel)
