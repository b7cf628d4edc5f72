"""Rows as domain values: which column has which field is written down once per table.

A mapper is compiled at its first use into two plain functions, one that reads a row and one that
makes one: they cost what a constructor call and a tuple cost that were written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from fedflow.domain.models.model import ModelKey
from fedflow.domain.records import JobKey, TaskKey
from fedflow.store import codec
from fedflow.store.session import Found, Value
from fedflow.store.tables import Table

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value lies in columns: expressions of Python.

    `read` makes the value from the columns `{0}`, `{1}` ...; each of `write` makes one column from
    the value `{0}`. They may name functions of `codec` and `names`.
    """

    read: str
    write: tuple[str, ...]
    names: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *columns: str) -> Columns:
        """Return which columns a field lies in."""
        return Columns(self, columns)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one field."""

    kind: Kind
    names: tuple[str, ...]


def made(cls: type, **arguments: str) -> Kind:
    """Return the kind of a value that a constructor makes, each argument from one column."""
    given = ", ".join(f"{name}={{{number}}}" for number, name in enumerate(arguments))
    write = tuple(f"{{0}}.{path}" for path in arguments.values())
    return Kind(f"{cls.__name__}({given})", write, {cls.__name__: cls})


def word(enum: type[StrEnum]) -> Kind:
    """Return the kind of an enumeration's member, stored as its value."""
    name = f"{enum.__name__}_of"
    return Kind(f"{name}[{{0}}]", ("{0}.value",), {name: {member.value: member for member in enum}})


_SITE_COLUMNS: Final = ("{0}.site.role.value", "{0}.site.party_id")

PLAIN: Final = Kind("{0}", ("{0}",))
FLAG: Final = Kind("bool({0})", ("int({0})",))
JSON: Final = Kind("from_json({0})", ("to_json({0})",))
DOCUMENT: Final = Kind("document_from_json({0})", ("to_json({0})",))
TEXTS: Final = Kind("tuple(from_json({0}))", ("to_json({0})",))
JSON_OR_NONE: Final = Kind(
    "None if {0} is None else from_json({0})", ("None if {0} is None else to_json({0})",)
)
REASON: Final = Kind("reason_from_text({0})", ("reason_to_text({0})",))
SITE: Final = Kind("site_of({0}, {1})", ("{0}.role.value", "{0}.party_id"))
JOB_KEY: Final = Kind(
    "JobKey(job_id={0}, site=site_of({1}, {2}))", ("{0}.job_id", *_SITE_COLUMNS), {"JobKey": JobKey}
)
TASK_KEY: Final = Kind(
    "TaskKey(job_id={0}, component={1}, version={2}, site=site_of({3}, {4}))",
    ("{0}.job_id", "{0}.component", "{0}.version", *_SITE_COLUMNS),
    {"TaskKey": TaskKey},
)
MODEL_KEY: Final = Kind(
    "ModelKey(site=site_of({0}, {1}), model_id={2}, model_version={3})",
    (*_SITE_COLUMNS, "{0}.model_id", "{0}.model_version"),
    {"ModelKey": ModelKey},
)

ELAPSED: Final = "None if v.started_ms is None or v.ended_ms is None else v.ended_ms - v.started_ms"


class Mapper(Generic[T]):
    """How values of one class lie in the rows of a table.

    `fields` gives the columns of each field, a name alone is a column of the same value. `also`
    makes the other columns of a written row, each by an expression of the value `v`, of the
    arguments named in `given` and of `names`. `joined` are fields that a reader
    passes, since no column has them.
    """

    def __init__(
        self, table: Table, cls: type[T], fields: Mapping[str, Columns | str], *,
        also: Mapping[str, str] | None = None, given: Iterable[str] = (),
        joined: Iterable[str] = (), names: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.table = table
        self._cls = cls
        self._fields = {f: PLAIN(c) if isinstance(c, str) else c for f, c in fields.items()}
        self._also = also or {}
        self._given = tuple(given)
        self._joined = tuple(joined)
        self._more_names = names or {}
        self.columns: Final = ", ".join(c for f in self._fields.values() for c in f.names)
        self.select: Final = f"SELECT {self.columns} FROM {table.name}"  # noqa: S608  constants

    def without(self, *fields: str) -> Mapper[T]:
        """Return a mapper that reads the same but for some fields, which get their defaults."""
        left = {f: c for f, c in self._fields.items() if f not in fields}
        return Mapper(self.table, self._cls, left, joined=self._joined, names=self._more_names)

    @cached_property
    def read(self) -> Callable[..., T]:
        """Return the value of a row of `columns`, and of what is `joined`, in this order."""
        count = len(self.columns.split(","))
        row = ", ".join(f"c{number}" for number in range(count))
        number = 0
        values = [f"{name}={name}" for name in self._joined]
        for name, columns in self._fields.items():
            last = number + len(columns.names)
            values.append(f"{name}={columns.kind.read.format(*_names(number, last))}")
            number = last
        body = f"({row},) = row\n return cls({', '.join(values)})"
        return self._compiled(("row", *self._joined), body)

    @cached_property
    def row(self) -> Callable[..., tuple[Value, ...]]:
        """Return the row of a value, and of what is `given`: all columns that an insert names."""
        made = dict(self._also)
        for name, columns in self._fields.items():
            for column, expression in zip(columns.names, columns.kind.write, strict=True):
                made[column] = expression.format(f"v.{name}")
        values = ", ".join(made[column] for column in self.table.columns)
        return self._compiled(("v", *self._given), f"return ({values},)")

    def all(self, rows: Iterable[Found]) -> list[T]:
        """Return the values of rows."""
        return [*map(self.read, rows)]

    def one(self, row: Found | None) -> T | None:
        """Return the value of a row that may be missing."""
        return None if row is None else self.read(row)

    def _compiled(self, parameters: Iterable[str], body: str) -> Callable[..., Any]:
        names = {**vars(codec), **self._more_names, "cls": self._cls}
        for columns in self._fields.values():
            names.update(columns.kind.names)
        exec(f"def function({', '.join(parameters)}):\n {body}", names)  # noqa: S102  our constants
        function: Callable[..., Any] = names["function"]
        return function


def _names(first: int, end: int) -> list[str]:
    return [f"c{number}" for number in range(first, end)]
