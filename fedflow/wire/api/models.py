"""Models: what a version was made with, its tags, and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ComponentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A component of a DSL; `index` is its depth."""

    component_name: str
    module: str = ""
    index: int = 0


class ModelDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What a version was trained with, and what it predicts with."""

    runtime_conf: Mapping[str, Any] = msgspec.field(default_factory=dict)
    dsl: Mapping[str, Any] = msgspec.field(default_factory=dict)
    inference_dsl: Mapping[str, Any] | None = None
    component_info: tuple[ComponentInfo, ...] = ()
    inference_component_info: tuple[ComponentInfo, ...] = ()

    def __repr__(self) -> str:
        return f"<ModelDetail of {len(self.component_info)} components>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        rows = [(c.index, c.component_name, c.module) for c in self.component_info]
        return html.table(("depth", "component", "module"), rows)


class TaggedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A share of a version that has a tag."""

    model_id: str
    model_version: str
    model_size: int = 0  #: KiB
    role: str
    party_id: str


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a component's model after a step of its training."""

    step_index: int
    step_name: str = ""
    create_time: str = ""  #: UTC
    models: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Digests of the parts by name; of a single checkpoint their contents as base64 text."""

    def __repr__(self) -> str:
        return f"<Checkpoint {self.step_index} {self.step_name}>"
