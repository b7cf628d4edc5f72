"""Rows as domain values: which column has which field is written down once per table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from fedflow.domain.job.warning import JobWarning
from fedflow.domain.models.model import ModelKey
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Site
from fedflow.store.codec import (
    document_from_json,
    figures_from_text,
    figures_to_text,
    from_json,
    message_from_text,
    message_to_text,
    reason_from_text,
    reason_to_text,
    site_of,
    to_json,
)
from fedflow.store.session import Found, Value
from fedflow.store.table import Table

T = TypeVar("T")

Read = Callable[..., Any]  #: the values of the columns -> the value of the field
Write = Callable[[Any], tuple[Value, ...]]  #: the value of the field -> those of the columns


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value lies in columns. `write` None: it is only read."""

    read: Read
    write: Write | None = None

    def __call__(self, *columns: str) -> Columns:
        """Return which columns a field lies in."""
        return Columns(self, columns)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one field."""

    kind: Kind
    names: tuple[str, ...]


def single(read: Read, write: Callable[[Any], Value]) -> Kind:
    """Return the kind of a value that lies in one column."""
    return Kind(read, lambda value: (write(value),))


def made(cls: Callable[..., Any], **arguments: str) -> Kind:
    """Return the kind of a value that a constructor makes, each argument from one column."""
    names = tuple(arguments)
    parts = attrgetter(*arguments.values())
    return Kind(lambda *columns: cls(**dict(zip(names, columns, strict=True))), parts)


def word(enum: type[StrEnum]) -> Kind:
    """Return the kind of an enumeration's member, stored as its value."""
    members = {member.value: member for member in enum}
    return single(members.__getitem__, attrgetter("value"))


def _or_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _job_key(job_id: str, role: str, party_id: str) -> JobKey:
    return JobKey(job_id=job_id, site=site_of(role, party_id))


def _task_key(job_id: str, component: str, version: int, role: str, party_id: str) -> TaskKey:
    return TaskKey(
        job_id=job_id, component=component, version=version, site=site_of(role, party_id)
    )


def _model_key(role: str, party_id: str, model_id: str, model_version: str) -> ModelKey:
    return ModelKey(site=site_of(role, party_id), model_id=model_id, model_version=model_version)


def site_columns(site: Site) -> tuple[Value, ...]:
    """Return a site as its two columns."""
    return site.role.value, site.party_id


FLAG: Final = single(bool, int)
JSON: Final = single(from_json, to_json)
DOCUMENT: Final = single(document_from_json, to_json)
WARNINGS: Final = single(lambda text: tuple(JobWarning(**w) for w in from_json(text)), to_json)
JSON_OR_NONE: Final = single(_or_none(from_json), _or_none(to_json))
FIGURES: Final = single(figures_from_text, figures_to_text)
REASON: Final = single(reason_from_text, reason_to_text)
MESSAGE: Final = single(message_from_text, message_to_text)
SITE: Final = Kind(site_of, site_columns)
JOB_KEY: Final = Kind(_job_key, lambda key: (key.job_id, *site_columns(key.site)))
TASK_KEY: Final = Kind(
    _task_key, lambda key: (key.job_id, key.component, key.version, *site_columns(key.site))
)
MODEL_KEY: Final = Kind(
    _model_key, lambda key: (*site_columns(key.site), key.model_id, key.model_version)
)


def elapsed(value: Any) -> Value:
    """Return how long something ran, in milliseconds; None if it has not ended."""
    if value.started_ms is None or value.ended_ms is None:
        return None
    taken: int = value.ended_ms - value.started_ms
    return taken


class Mapper(Generic[T]):
    """How values of one class lie in the rows of a table.

    `fields` gives the columns of each field, a name alone is a column of the same value. `also`
    makes the other columns of a written row: constants, or functions of the value and of what
    `row` is given with it. `joined` are fields that a reader passes, since no column has them.
    """

    def __init__(
        self, table: Table, cls: type[T], fields: Mapping[str, Columns | str], *,
        also: Mapping[str, Callable[..., Value] | Value] | None = None,
        joined: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.table = table
        self._cls = cls
        self._fields = fields
        self._joined = tuple(joined)
        self._also = {
            name: value if callable(value) else _constant(value)
            for name, value in (also or {}).items()
        }
        names: list[str] = []
        self._plain: list[tuple[str, int, str]] = []
        self._single: list[tuple[str, int, Kind]] = []
        self._several: list[tuple[str, slice, Kind]] = []
        for name, columns in fields.items():
            first = len(names)
            if isinstance(columns, str):
                names.append(columns)
                self._plain.append((name, first, columns))
                continue
            names.extend(columns.names)
            if len(columns.names) == 1:
                self._single.append((name, first, columns.kind))
            else:
                self._several.append((name, slice(first, len(names)), columns.kind))
        self._names = names
        self.columns: Final = ", ".join(names)
        self.select: Final = f"SELECT {self.columns} FROM {table.name}"  # noqa: S608  constants

    def without(self, *fields: str) -> Mapper[T]:
        """Return a mapper that reads the same but for some fields, which get their defaults."""
        left = {name: columns for name, columns in self._fields.items() if name not in fields}
        return Mapper(self.table, self._cls, left, joined=self._joined)

    def read(self, row: Found, *joined: Any) -> T:
        """Return the value of a row of `columns`, and of what is `joined`, in this order."""
        values = {name: row[number] for name, number, _ in self._plain}
        for name, number, kind in self._single:
            values[name] = kind.read(row[number])
        for name, part, kind in self._several:
            values[name] = kind.read(*row[part])
        if joined:
            values.update(zip(self._joined, joined, strict=True))
        return self._cls(**values)

    def row(self, value: T, *given: Any) -> tuple[Value, ...]:
        """Return the row of a value, and of what is `given`: all columns that an insert names."""
        found: dict[str, Value] = {column: getattr(value, name) for name, _, column in self._plain}
        for name, number, kind in self._single:
            if kind.write is not None:
                (found[self._names[number]],) = kind.write(getattr(value, name))
        for name, part, kind in self._several:
            if kind.write is not None:
                found.update(zip(self._names[part], kind.write(getattr(value, name)), strict=True))
        for column, make in self._also.items():
            found[column] = make(value, *given)
        return tuple([found[column] for column in self.table.columns])

    def all(self, rows: Iterable[Found]) -> list[T]:
        """Return the values of rows."""
        return [*map(self.read, rows)]

    def one(self, row: Found | None) -> T | None:
        """Return the value of a row that may be missing."""
        return None if row is None else self.read(row)


def _constant(value: Value) -> Callable[..., Value]:
    return lambda *_given: value
