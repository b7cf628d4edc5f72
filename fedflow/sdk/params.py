"""Declared parameters of a component: types, ranges, and the path of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from fedflow.base.decoding import read_as, words_of
from fedflow.base.errors.components import BadParameter
from fedflow.domain.job.planned_run import PlannedRun as PlannedRun  # noqa: PLC0414  others find it here
from fedflow.domain.job.warning import HINTS, JobWarning
from fedflow.sdk.spellings import read_spellings

P = TypeVar("P", bound="Params")

MAX_MISTAKES: Final = 100  #: of one parameter set that are listed

_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_MEMBER = re.compile(r"\.(\w+)")
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)
_NAMED = re.compile(r"(?P<where>[A-Za-z_]\w*(?:\.\w+|\[\d+\])*): (?P<what>.+)", re.DOTALL)


class Doubt(NamedTuple):
    """Something doubtful in parameters that are accepted."""

    field: str  #: as `max_iter`, or `encrypt_param.method`; empty: the parameters as a whole
    message: str  #: what was ignored, and what is used
    code: str = "NoEffect"  #: a stable word for programs
    hint: str = ""  #: what to do; empty: the hint of the code, if it has one


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parameter classes: frozen, by keyword, unknown names refused.

    Write `class MyParams(Params, frozen=True, kw_only=True)` and the fields with type and default.
    Ranges are given as `Annotated[int, msgspec.Meta(ge=1)]`, other ways of writing a value as
    one of `fedflow.sdk.spellings`.
    """

    def check(self) -> None:
        """Do nothing if the fields fit together; for rules over several of them.

        Raises: ValueError: `<field>: <sentence>`; the submit is refused with it.
        """

    def doubts(self) -> Iterable[Doubt]:
        """Return what is accepted and doubtful: a field without effect, a value that is replaced.

        Each becomes a warning of the job at the submit; a strict job is refused.
        """
        return ()

    def check_run(self, run: PlannedRun) -> None:
        """Do nothing if a run can be as planned; for rules over roles, hosts and connected ports.

        Raises: ValueError: `<field>: <sentence>`. If no parameter is at fault, the sentence begins
            with `role: ` or `input.data: `.
        """


def check_params(
    kind: type[P], values: Mapping[str, Any], *, path: str, run: PlannedRun | None = None
) -> P:
    """Return `values` as a `kind`, all checked as at a submit; for tests of parameters.

    Args:
        path: what the path of a mistake begins with, such as `$`.
        run: is checked too, if it is given.

    Raises: BadParameter: unknown names, wrong types and bad ranges, all of them. If there are none,
        what `check` and `check_run` say. `BadParameter.mistakes` has pairs of path and sentence.
    """
    given = read_spellings(values, kind)
    try:
        params = read_as(given, kind)
    except msgspec.ValidationError as exc:
        _refuse(_all_mistakes(kind, given, exc), path)
    said = _check_mistakes(params, given)
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


def check_together(params: Params, *, path: str) -> None:
    """Do nothing if parameters fit together. Raises: BadParameter: they do not; `path` as given."""
    try:
        params.check()
    except ValueError as exc:
        _refuse([_placed(str(exc), type(params))], path)


def warnings_of(params: Params, *, path: str) -> list[JobWarning]:
    """Return what is doubtful in checked parameters, with paths below `path`."""
    return [
        JobWarning(
            code=one.code,
            path=f"{path}.{one.field}" if one.field else path,
            message=one.message,
            hint=one.hint or HINTS.get(one.code, ""),
        )
        for one in params.doubts()
    ]


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
            known = _words_at(kind, members) if "enum value" in what else []
            more = f"; known are {', '.join(known)}" if known else ""
            found.append((where, _plain(what, kind, at_top=not members) + more))
            members += [name] if unknown else []
        if not members:
            break
        if len(members) == 1:
            taken.add(members[0])
        values = _without(values, members)
        error = _error(kind, values)
    return found


def _check_mistakes(params: Params, values: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what `check` says. It stops at the first mistake, so the field that this one names is
    taken out, and its default is checked with the others; a rule over several fields ends it.
    """
    kind = type(params)
    found: list[tuple[str, str]] = []
    while len(found) < MAX_MISTAKES:
        try:
            params.check()
        except ValueError as exc:
            said = _placed(str(exc), kind)
        else:
            break
        if said in found:  # the default is not allowed either
            break
        found.append(said)
        members = list(_members(found[-1][0]))
        left = _without(values, members) if members else values
        if left == values or _error(kind, left) is not None:
            break
        values, params = left, read_as(left, kind)
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


def _words_at(kind: type[Params], members: Sequence[str]) -> list[str]:
    """Return the words that the field at a path allows, none if it is no enumeration."""
    hint: Any = kind
    for name in members:
        inner = [one for one in (hint, *get_args(hint)) if _is_params(one)]
        if not inner:
            return []
        hint = get_type_hints(inner[0], include_extras=True).get(name)
    return words_of(hint)


def _is_params(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)
