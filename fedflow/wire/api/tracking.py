"""What the components of a job gave: metrics, outputs, models.

Source: `docs/reference/rest.md#tracking`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from fedflow.wire.api import PartyNumber


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """The component names of a job."""

    components: tuple[str, ...] = ()


class DataView(msgspec.Struct, frozen=True, kw_only=True):
    """Which tables a job reads, its roles, and this site's partners."""

    dataset: Mapping[str, Mapping[str, Mapping[str, str]]]
    roles: Mapping[str, Sequence[PartyNumber]]
    partner: Mapping[str, Sequence[PartyNumber]]
    model_summary: Mapping[str, Any] = {}


class OutputAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where an output table is; `namespace` is what older clients read."""

    table_name: str
    table_namespace: str
    namespace: str
    data_name: str


class OutputMeta(msgspec.Struct, frozen=True, kw_only=True):
    """For each output: its columns (null when it is empty), its rows in all, its name."""

    header: tuple[tuple[str, ...] | None, ...] = ()
    total: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


class Metric(
    msgspec.Struct, frozen=True, kw_only=True, rename={"points": "data"}, omit_defaults=True
):
    """One metric of one component at one site: points [key, value], and what they mean."""

    SHOWN: ClassVar = "namespace name points meta"

    points: tuple[tuple[Any, Any], ...]
    meta: Mapping[str, Any]
    namespace: str = ""  #: an answer has this and the next as the names of the metric
    name: str = ""

    @property
    def kind(self) -> str:
        """Return the metric's type in FATE's words, for example `LOSS`."""
        return str(self.meta.get("metric_type", ""))

    @property
    def is_summary(self) -> bool:
        """Tell whether the points are named values, not a curve."""
        return bool(self.points) and all(isinstance(key, str) for key, _ in self.points)

    def value(self, key: Any) -> Any:
        """Return the value at `key`. Raises: KeyError: there is none."""
        return dict(self.points)[key]

    def __repr__(self) -> str:
        return f"<Metric {self.namespace}/{self.name}: {len(self.points)} points>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        title = f"{self.namespace} / {self.name}"
        return html.table(("at", "value"), self.points, title=title)


class PartyModelMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The meta part of a model, and the module that made it."""

    meta_data: Any = {}
    module_name: str = ""


class PartyModel(msgspec.Struct, frozen=True, kw_only=True):
    """One site's part of a trained model, and what it is called."""

    param: Mapping[str, Any]
    meta: Mapping[str, Any] = {}
    module: str = ""
