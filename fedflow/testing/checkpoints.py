"""Checkpoints in memory, for tests of components; several runs may share one, as attempts do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fedflow.base.errors.models import CheckpointNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.model import canonical_json
from fedflow.sdk.context import Step
from fedflow.sdk.outputs import Model
from fedflow.wire.json_text import decode_json

_NAME = re.compile(r"[0-9A-Za-z_.-]{1,100}")


class MemoryCheckpoints:
    """See `fedflow.sdk.Checkpoints`. `begin` starts a further attempt on what is stored."""

    def __init__(self) -> None:
        self._attempt = 0
        self._steps: dict[int, tuple[int, Step]] = {}  #: index -> attempt, step

    def begin(self) -> None:
        """Let the next `save` count as one of a new attempt."""
        self._attempt += 1

    def save(self, step_index: int, step_name: str, model: Model) -> None:
        if step_index < 0 or not _NAME.fullmatch(step_name):
            raise BadRequest(reason=f"step {step_index} {step_name!r} cannot be stored")
        plain = replace(
            model,
            meta=decode_json(canonical_json(dict(model.meta))),
            param=decode_json(canonical_json(dict(model.param))),
        )
        kept = {
            index: stored
            for index, stored in self._steps.items()
            if index < step_index or stored[0] == self._attempt
        }
        step = Step(step_index=step_index, step_name=step_name, model=plain)
        self._steps = {**kept, step_index: (self._attempt, step)}

    def steps(self) -> Sequence[tuple[int, str]]:
        return [(index, step.step_name) for index, (_, step) in sorted(self._steps.items())]

    def load(self, step_index: int) -> Step:
        if step_index not in self._steps:
            raise CheckpointNotFound(component="the component", step=step_index, model="the test")
        return self._steps[step_index][1]

    def latest(self) -> Step | None:
        return self._steps[max(self._steps)][1] if self._steps else None
