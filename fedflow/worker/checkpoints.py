"""The checkpoints of a worker: all of them are at its server."""

from __future__ import annotations

from collections.abc import Sequence

from fedflow.base.errors.models import CheckpointNotFound
from fedflow.sdk.context import Step
from fedflow.sdk.outputs import Model
from fedflow.wire.task_report import ReportedModel
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
        self._link.call(
            "checkpoint_save",
            {
                "step_index": step_index,
                "step_name": step_name,
                "model": model_to_wire(model, alias=self._alias),
            },
        )

    def steps(self) -> Sequence[tuple[int, str]]:
        return [(int(index), str(name)) for index, name in self._link.call("checkpoint_list", {})]

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
        found = self._link.call("checkpoint_get", {"step_index": step_index})
        model = found["model"]
        return Step(
            step_index=int(found["step_index"]),
            step_name=str(found["step_name"]),
            model=Model(
                meta_name=model["meta_name"],
                param_name=model["param_name"],
                meta=model["meta"],
                param=model["param"],
            ),
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
