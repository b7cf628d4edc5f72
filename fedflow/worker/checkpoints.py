"""The checkpoints of a worker: all of them are at its server."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from fedflow.base.errors.models import CheckpointNotFound
from fedflow.sdk.context import Step
from fedflow.sdk.outputs import Model
from fedflow.wire.task_report import ReportedModel
from fedflow.wire.worker_commands import GetCheckpoint, ListCheckpoints, SaveCheckpoint
from fedflow.worker.report import ServerLink


class ServerCheckpoints:
    """See `fedflow.sdk.Checkpoints`. Every call may raise ServerNotReachable, ServerRefused (with
    the server's own sentence) and LaunchRefused.
    """

    def __init__(self, link: ServerLink, *, component: str, alias: str) -> None:
        self._link = link
        self._component = component
        self._alias = alias

    def save(self, step_index: int, step_name: str, model: Model) -> None:
        reported = model_to_wire(model, alias=self._alias)
        self._link.call(SaveCheckpoint(step_index=step_index, step_name=step_name, model=reported))

    def steps(self) -> Sequence[tuple[int, str]]:
        return self._link.call(ListCheckpoints())

    def load(self, step_index: int) -> Step:
        if step_index not in {index for index, _ in self.steps()}:
            raise CheckpointNotFound(
                component=self._component, step=step_index, model="the model of this job"
            )
        return self._load(step_index)

    def latest(self) -> Step | None:
        steps = self.steps()
        return self._load(steps[-1][0]) if steps else None

    def _load(self, step_index: int) -> Step:
        found = self._link.call(GetCheckpoint(step_index=step_index))
        return Step(
            step_index=found.step_index,
            step_name=found.step_name,
            model=Model(**asdict(found.model)),
        )


def model_to_wire(model: Model, *, alias: str) -> ReportedModel:
    """Return a model as the server takes it, `alias` being its declared output name."""
    return ReportedModel(
        alias=alias,
        meta_name=model.meta_name,
        param_name=model.param_name,
        meta=dict(model.meta),
        param=dict(model.param),
    )
