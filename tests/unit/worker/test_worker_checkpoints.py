"""The checkpoints of a worker: what it asks of its server, and what it makes of the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedflow.base.errors.executors import ServerRefused
from fedflow.base.errors.models import CheckpointNotFound
from fedflow.sdk.outputs import Model
from fedflow.wire.paths import WORKER_NAMES
from fedflow.wire.task_report import member_values
from fedflow.wire.worker_commands import WorkerCommand, read_answer
from fedflow.worker.checkpoints import ServerCheckpoints
from fedflow.worker.model_store import ServerModelStore

MODEL = Model(meta_name="LRMeta", param_name="LRParam", meta={"a": 1}, param={"w": [0.5]})


class KeepingLink:
    """Keeps steps as a server does."""

    def __init__(self) -> None:
        self.steps: dict[int, dict[str, Any]] = {}
        self.calls: list[str] = []

    def call(self, asked: WorkerCommand[Any], *, patience_s: float = 60.0) -> Any:
        command = WORKER_NAMES[type(asked)]
        self.calls.append(command)
        body = json.loads(json.dumps(asked, allow_nan=False, default=member_values))
        return read_answer(self._answer(command, body), type(asked))

    def _answer(self, command: str, body: dict[str, Any]) -> Any:
        if command == "checkpoint_save":
            self.steps[body["step_index"]] = body
            return None
        if command == "checkpoint_list":
            return [[i, s["step_name"]] for i, s in sorted(self.steps.items())]
        if command == "checkpoint_get":
            return self.steps[body["step_index"]]
        if command == "model_store":
            return {"sha256": "ab", "size_bytes": 2}
        raise ServerRefused(command=command, retcode=100, reason="no store")


@pytest.fixture
def link() -> Any:
    return KeepingLink()


@pytest.fixture
def checkpoints(link: Any) -> ServerCheckpoints:
    return ServerCheckpoints(link, component="hetero_lr_0", alias="model")


def test_a_step_comes_back_as_it_was_saved(link: Any, checkpoints: ServerCheckpoints) -> None:
    checkpoints.save(3, "round_3", MODEL)
    assert link.steps[3]["model"]["alias"] == "model"
    assert checkpoints.load(3).model == MODEL
    assert (checkpoints.load(3).step_index, checkpoints.load(3).step_name) == (3, "round_3")


def test_the_latest_step_is_the_one_with_the_highest_index(checkpoints: ServerCheckpoints) -> None:
    assert checkpoints.latest() is None
    for index in (1, 10, 2):
        checkpoints.save(index, f"round_{index}", MODEL)
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step_index == 10
    assert checkpoints.steps() == [(1, "round_1"), (2, "round_2"), (10, "round_10")]


def test_a_step_that_was_never_saved_is_told_as_such(checkpoints: ServerCheckpoints) -> None:
    with pytest.raises(CheckpointNotFound):
        checkpoints.load(0)


def test_a_model_that_is_no_plain_json_is_refused_here(checkpoints: ServerCheckpoints) -> None:
    nan = Model(meta_name="M", param_name="P", meta={}, param={"w": float("nan")})
    with pytest.raises(ValueError):
        checkpoints.save(0, "s", nan)


@pytest.mark.parametrize(("meta", "param"), [("", "P"), ("a b", "P"), ("../M", "P"), ("M", "M")])
def test_a_model_has_two_names(meta: str, param: str) -> None:
    with pytest.raises(ValueError):
        Model(meta_name=meta, param_name=param, meta={}, param={})


def test_the_external_store_is_asked_through_the_server(link: Any) -> None:
    store = ServerModelStore(link)
    assert store.store() == {"sha256": "ab", "size_bytes": 2}
    with pytest.raises(ServerRefused, match="no store"):
        store.restore()
    assert link.calls == ["model_store", "model_restore"]
