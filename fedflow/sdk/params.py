"""Declared parameters of a component: types, ranges, and the path of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from fedflow.base.decoding import read_as
from fedflow.base.errors.components import BadParameter
from fedflow.domain.job.planned_run import PlannedRun as PlannedRun  # noqa: PLC0414  others find it here

P = TypeVar("P", bound="Params")

MAX_MISTAKES: Final = 100  #: of one parameter set that are listed

_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_MEMBER = re.compile(r"\.(\w+)")
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)
_NAMED = re.compile(r"(?P<where>[A-Za-z_]\w*(?:\.\w+|\[\d+\])*): (?P<what>.+)", re.DOTALL)


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parameter classes: frozen, by keyword, unknown names refused.

    Ranges are given as `Annotated[int, msgspec.Meta(ge=1)]`; rules over several fields go into
    `check`, which raises `ValueError("<field>: <sentence>")`.
    """

    def check(self) -> None:
        """Raise ValueError if the fields do not fit together."""

    def check_run(self, run: PlannedRun) -> None:
        """Raise ValueError, as `check` does, if a run with these parameters cannot be as planned.

        For rules over roles, the number of hosts, and connected ports; where the fault is no
        parameter's, the sentence begins with `role: ` or `input.data: `.
        """


def check_params(
    kind: type[P], values: Mapping[str, Any], *, path: str, run: PlannedRun | None = None
) -> P:
    """Return `values` as a `kind`, every field checked, and the planned `run` if one is given.

    Raises: BadParameter: with every mistake that was found (`BadParameter.mistakes`): unknown
        names, wrong types and bad ranges, with the JSON path below `path`; if there are none, what
        `check` says, and what `check_run` says.
    """
    try:
        params = read_as(dict(values), kind)
    except msgspec.ValidationError as exc:
        _refuse(_all_mistakes(kind, dict(values), exc), path)
    said: list[tuple[str, str]] = []
    try:
        params.check()
    except ValueError as exc:
        said.append(_placed(str(exc), kind))
    if run is not None:
        try:
            params.check_run(run)
        except ValueError as exc:
            said.append(_placed(str(exc), kind))
    if said:
        _refuse(said, path)
    return params


def check_planned(params: Params, run: PlannedRun, *, path: str) -> None:
    """Do nothing if a run can be as planned. Raises: BadParameter: it cannot; `path` as given."""
    try:
        params.check_run(run)
    except ValueError as exc:
        _refuse([_placed(str(exc), type(params))], path)


def checks_run(kind: type[Params]) -> bool:
    """Tell whether parameters of this kind may refuse a planned run."""
    return kind.check_run is not Params.check_run


def defaults_of(kind: type[Params]) -> dict[str, Any]:
    """Return the values of the fields that may be left out, as plain JSON."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not msgspec.NODEFAULT:
            values[field.name] = msgspec.to_builtins(field.default_factory())
        elif field.default is not msgspec.NODEFAULT:
            values[field.name] = msgspec.to_builtins(field.default)
    return values


def _refuse(mistakes: Sequence[tuple[str, str]], path: str) -> None:
    """Raise BadParameter for mistakes, each (path below `path`, sentence)."""
    (where, what), *more = [(path + where, what) for where, what in mistakes]
    raise BadParameter(path=where, reason=what, more=more)


def _all_mistakes(
    kind: type[Params], values: dict[str, Any], first: msgspec.ValidationError
) -> list[tuple[str, str]]:
    """Return every mistake in the types and ranges, in the order of the fields.

    msgspec tells one at a time, so what it named is taken out and the rest is read again. Missing
    fields come last, when all that is there is right.
    """
    found: list[tuple[str, str]] = []
    error: msgspec.ValidationError | None = first
    taken: set[str] = set()
    while error is not None and len(found) < MAX_MISTAKES:
        what, where = _read(error)
        members = list(_members(where))
        unknown = _UNKNOWN.search(what)
        if "missing required field" in what:
            if not members:
                missing = [n for n in _required(kind) if n not in values and n not in taken]
                found += [(f".{name}", "is missing") for name in missing]
                break
            found.append((where, what))
        else:
            name = unknown[1] if unknown else ""
            found.append((where, _plain(what, kind, at_top=not members)))
            members += [name] if unknown else []
        if not members:
            break
        if len(members) == 1:
            taken.add(members[0])
        values = _without(values, members)
        error = _error(kind, values)
    return found


def _error(kind: type[Params], values: dict[str, Any]) -> msgspec.ValidationError | None:
    try:
        read_as(values, kind)
    except msgspec.ValidationError as exc:
        return exc
    return None


def _read(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return (sentence, path without the `$`) of a validation error."""
    found = _AT.match(str(error))
    return (found["what"], found["path"] or "") if found else (str(error), "")


def _members(where: str) -> Iterator[str]:
    """Yield the names of a path such as `.a.b[0].c`, up to the first index."""
    yield from _MEMBER.findall(where.partition("[")[0])


def _without(values: dict[str, Any], members: Sequence[str]) -> dict[str, Any]:
    """Return `values` without the member at a path; what is not changed is not copied."""
    first, *rest = members
    copy = dict(values)
    inner = copy.get(first)
    if rest and isinstance(inner, dict):
        copy[first] = _without(inner, rest)
    else:
        copy.pop(first, None)
    return copy


def _required(kind: type[Params]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


def _placed(sentence: str, kind: type[Params]) -> tuple[str, str]:
    """Return (path, sentence) of what a check said: the path of the field that it begins with."""
    named = _NAMED.fullmatch(sentence)
    if named and re.split(r"[.\[]", named["where"])[0] in kind.__struct_fields__:
        return f".{named['where']}", named["what"]
    return "", sentence


def _plain(what: str, kind: type[Params], *, at_top: bool) -> str:
    """Return the validation library's sentence, with the known names where one was unknown."""
    if at_top and "unknown field" in what:
        return f"{what}; known are {', '.join(kind.__struct_fields__)}"
    return what
