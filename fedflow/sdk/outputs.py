"""What a component run returns."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fedflow.sdk.table import Table

_DEPTH: Final = 200  #: of nested objects, where a mistake is looked for
_NAME: Final = re.compile(r"[0-9A-Za-z_.-]{1,100}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A trained model's part at one site: two objects of plain JSON.

    Each site stores its own part; no other party gets it. Later it is `ctx.inputs.model` of the
    same component in a predict job, or of a component that is connected to it. The board shows the
    JSON as a tree.

    Raises: ValueError: a name is empty, longer than 100 characters or holds other than letters,
        digits, `_`, `-` and `.`; or both are equal. TypeError: an object is no mapping.
    """

    meta_name: str  #: ends in `Meta`
    param_name: str  #: ends in `Param`
    meta: Mapping[str, Any]  #: what the training was asked to do: parameters
    param: Mapping[str, Any]  #: what was learnt; names of columns too, to find them again

    def __post_init__(self) -> None:
        for name in (self.meta_name, self.param_name):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name for a model's object")
        if self.meta_name == self.param_name:
            raise ValueError(f"both objects of a model are named {self.meta_name!r}")
        for what in (self.meta, self.param):
            if not isinstance(what, Mapping):
                raise TypeError(f"meta and param of a Model are dicts, not a {type(what).__name__}")


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
    """What a run returns: tables, a model, a summary, caches; nothing of them is needed.

    Raises: TypeError: `data` is no tuple of tables, or `model` no Model.
    """

    data: tuple[Table | None, ...] = ()  #: in the order of the DSL's `output.data`; None: none here
    model: Model | None = None  #: if the component declares `outputs=(..., "model")`
    passed: bool = False  #: the component skipped its work: status PASS
    summary: Mapping[str, Any] = field(default_factory=dict)  #: plain JSON, for programs and people
    cache: tuple[Cache, ...] = ()  #: in the order of the DSL's `output.cache`

    def __post_init__(self) -> None:
        if not isinstance(self.data, tuple | list):
            got = type(self.data).__name__
            raise TypeError(f"Outputs(data=...) is a tuple of tables, such as (table,), not {got}")
        for table in self.data:
            if table is not None and not hasattr(table, "namespace"):
                raise TypeError(
                    f"Outputs(data=...) holds a {type(table).__name__}; write rows to a table with"
                    " ctx.tables.create(schema)"
                )
        if self.model is not None and not isinstance(self.model, Model):
            raise TypeError(f"Outputs(model=...) is a Model, not a {type(self.model).__name__}")


class NotPlain(TypeError):
    """A model, cache or summary is not plain JSON."""

    def __init__(self, what: str, members: tuple[str | int, ...], mistake: str) -> None:
        """Name the member by its whole path: for its own party only."""
        self._what, self._members, self._mistake = what, members, mistake
        super().__init__(self._said(members))

    @property
    def for_all(self) -> str:
        """Return the sentence for all parties: without names deep inside, which may be data."""
        return self._said(self._members if len(self._members) <= 2 else (*self._members[:2], ...))

    def _said(self, members: tuple[object, ...]) -> str:
        path = "".join(
            f"[{m}]" if isinstance(m, int) else "..." if m is ... else f".{m}" for m in members
        )
        return f"its {self._what} is not plain JSON: {path.removeprefix('.')} {self._mistake}"


def check_plain(outputs: Outputs) -> None:
    """Do nothing if model, caches and summary can be stored as JSON. Raises: NotPlain."""
    parts: list[tuple[str, dict[str, Any]]] = [("summary", dict(outputs.summary))]
    if outputs.model is not None:
        model = {"meta": dict(outputs.model.meta), "param": dict(outputs.model.param)}
        parts.append(("model", model))
    parts += [("cache", {"meta": dict(c.meta), "private": dict(c.private)}) for c in outputs.cache]
    for what, value in parts:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as exc:
            members, mistake = next(_mistakes(value, (), ()), ((), f"cannot be written ({exc})"))
            raise NotPlain(what, members, mistake) from None


def _mistakes(
    value: Any, path: tuple[str | int, ...], around: tuple[int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the path of each member that JSON does not know, and what is wrong with it."""
    if id(value) in around:
        yield path, "holds itself"
    elif len(path) > _DEPTH:
        yield path[:1], f"is nested deeper than {_DEPTH} levels"
    elif isinstance(value, dict):
        for key, member in value.items():
            if key is not None and not isinstance(key, str | int | float):
                yield path, f"has a key that is a {type(key).__name__} (use texts)"
            yield from _mistakes(member, (*path, str(key)), (*around, id(value)))
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            yield from _mistakes(member, (*path, index), (*around, id(value)))
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield path, f"is {float(value)} (JSON has no NaN and no infinity; use None)"
    elif value is not None and not isinstance(value, str | int):
        yield path, f"is a {type(value).__name__} ({_cure(value)})"


def _cure(value: Any) -> str:
    if getattr(value, "ndim", None) == 0:
        return "use .item()"
    if hasattr(value, "tolist"):
        return "use .tolist()"
    return "use numbers, texts, lists and dicts"
