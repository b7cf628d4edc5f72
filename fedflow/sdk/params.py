"""Declared parameters of a component: types, ranges, and the path of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from fedflow.base.errors import BadParameter
from fedflow.base.reading import read_as
from fedflow.domain.site import Role, Site

P = TypeVar("P", bound="Params")

_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """What is known of a component's run at one site before it starts."""

    site: Site
    sites: tuple[Site, ...]  #: all that run the component, in the conf's order
    data_ports: tuple[str, ...] = ()  #: connected ones, as `train_data`
    has_model: bool = False  #: a model or isometric model is connected, or stored for prediction
    has_cache: bool = False  #: a cache is connected

    def sites_of(self, role: Role) -> tuple[Site, ...]:
        """Return the sites with `role`, in the conf's order."""
        return tuple(s for s in self.sites if s.role is role)


def check_planned(params: Params, run: PlannedRun, *, path: str) -> None:
    """Do nothing if a run can be as planned. Raises: BadParameter: it cannot; `path` as given."""
    try:
        params.check_run(run)
    except ValueError as exc:
        raise BadParameter(path=path, reason=str(exc)) from exc


def check_params(kind: type[P], values: Mapping[str, Any], *, path: str) -> P:
    """Return `values` as a `kind`, every field checked.

    Raises: BadParameter: an unknown name, a wrong type or a bad range, with the JSON path below
    `path`.
    """
    try:
        params = read_as(dict(values), kind)
    except msgspec.ValidationError as exc:
        found = _AT.match(str(exc))
        what = found["what"] if found else str(exc)
        where = path + (found["path"] or "" if found else "")
        raise BadParameter(path=where, reason=_plain(what, kind)) from exc
    try:
        params.check()
    except ValueError as exc:
        raise BadParameter(path=path, reason=str(exc)) from exc
    return params


def defaults_of(kind: type[Params]) -> dict[str, Any]:
    """Return the values of the fields that may be left out, as plain JSON."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not msgspec.NODEFAULT:
            values[field.name] = msgspec.to_builtins(field.default_factory())
        elif field.default is not msgspec.NODEFAULT:
            values[field.name] = msgspec.to_builtins(field.default)
    return values


def _plain(what: str, kind: type[Params]) -> str:
    """Return the validation library's sentence, with the known names where one was unknown."""
    if "unknown field" in what:
        return f"{what}; known are {', '.join(kind.__struct_fields__)}"
    return what
