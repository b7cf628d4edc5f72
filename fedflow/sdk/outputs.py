"""What a component run returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedflow.sdk.table import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A trained model's share at one site: two plain JSON objects.

    `meta` repeats parameters, `param` holds what was learnt; the names end in `Meta` and `Param`
    (`reference/components.md` section 8) and field names are snake_case.
    """

    meta_name: str
    param_name: str
    meta: Mapping[str, Any]
    param: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outputs:
    """Tables by position of the declared `output.data` names (None = none here), and a model."""

    data: tuple[Table | None, ...] = ()
    model: Model | None = None
    passed: bool = False  #: the component skipped its work (`need_run` false): status PASS
    summary: Mapping[str, Any] = field(default_factory=dict)
