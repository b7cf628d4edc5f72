"""What a component run returns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fedflow.sdk.table import Table

_NAME: Final = re.compile(r"[0-9A-Za-z_.-]{1,100}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A trained model's share at one site: two plain JSON objects.

    `meta` repeats parameters, `param` holds what was learnt; the names end in `Meta` and `Param`
    (`docs/reference/models.md#fields`) and field names are snake_case.
    """

    meta_name: str
    param_name: str
    meta: Mapping[str, Any]
    param: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Raises: ValueError: a name is no name."""
        for name in (self.meta_name, self.param_name):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name for a model's object")
        if self.meta_name == self.param_name:
            raise ValueError(f"both objects of a model are named {self.meta_name!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """Something expensive to compute that is stored at its own site, for later jobs.

    No other party and no person gets `private`: it may hold the secrets that the rest needs.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)  #: by any name
    meta: Mapping[str, Any] = field(default_factory=dict)  #: plain JSON
    private: Mapping[str, Any] = field(default_factory=dict)  #: plain JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class Outputs:
    """Tables by position of the declared `output.data` names (None = none here), and a model.

    Caches stand in the order of the declared `output.cache` names; a table of a cache is not an
    output too.
    """

    data: tuple[Table | None, ...] = ()
    model: Model | None = None
    passed: bool = False  #: the component skipped its work (`need_run` false): status PASS
    summary: Mapping[str, Any] = field(default_factory=dict)
    cache: tuple[Cache, ...] = ()
