"""The component modules of this installation: built-in ones, and those of other packages.

Another package offers components by an entry point of the group `fedflow.components`, whose object
is a class declared with `@component`, or a tuple of such classes. Importing components is expensive
(numpy, pyarrow), so a server does not do it: it asks a zygote for `describe`.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import msgspec

from fedflow.sdk.component import ComponentSpec, is_component, spec_of
from fedflow.sdk.errors import UnknownComponent
from fedflow.sdk.params import checks_run, defaults_of

logger = logging.getLogger(__name__)

GROUP: Final = "fedflow.components"
_BUILTIN: Final = "fedflow.components.builtin:COMPONENTS"


@dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """Component descriptions by module name; `problems` tells what could not be loaded."""

    specs: tuple[ComponentSpec, ...]
    problems: tuple[str, ...]
    _by_name: dict[str, ComponentSpec] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_name: dict[str, ComponentSpec] = {}
        for spec in self.specs:
            for name in _names(spec):
                by_name.setdefault(name, spec)
        object.__setattr__(self, "_by_name", by_name)

    def find(self, module: str) -> ComponentSpec:
        """Return a component by its name or alias, in any case. Raises: UnknownComponent."""
        found = self._by_name.get(module.lower())
        if found is None:
            raise UnknownComponent(module=module)
        return found


def load_registry(*, found: Iterable[EntryPoint] | None = None) -> Registry:
    """Import all components and return them, built-in ones first.

    A provider that cannot be loaded, or that takes a name that is taken, becomes a problem; the
    others are there all the same. `found` replaces the installed entry points, for tests.
    """
    specs: list[ComponentSpec] = []
    problems: list[str] = []
    taken: dict[str, ComponentSpec] = {}
    for name, value in _providers(found):
        try:
            offered = [spec_of(one) for one in _offered(value)]
        except (Exception, SystemExit) as exc:
            logger.exception("Provider %s cannot be loaded.", name)
            problems.append(f"provider {name} ({value}): {type(exc).__name__}: {exc}")
            continue
        for spec in offered:
            rival = next((taken[n] for n in _names(spec) if n in taken), None)
            if rival is spec:
                continue
            if rival is not None:
                problems.append(f"provider {name}: {spec.module} has a name of {rival.module}")
                continue
            specs.append(spec)
            taken.update(dict.fromkeys(_names(spec), spec))
    return Registry(specs=tuple(specs), problems=tuple(problems))


def load_provider(value: str) -> Registry:
    """Import what `module:attribute` names, and nothing else. Raises: whatever importing raises."""
    specs = tuple(spec_of(offered) for offered in _offered(value))
    taken: set[str] = set()
    problems = []
    for spec in specs:
        names = set(_names(spec))
        if names & taken:
            problems.append(f"{spec.module} has a name of another of its components")
        taken |= names
    if not specs:
        problems.append(f"{value} holds no component")
    return Registry(specs=specs, problems=tuple(problems))


def describe(spec: ComponentSpec) -> dict[str, Any]:
    """Return what a server needs to know of a component, as plain JSON.

    Members: module, roles, data_ports, needs_input, outputs, repeatable, aliases, summary;
    `parameters`, the JSON schema of its parameters (None if they have none); `param_name`, what
    FATE calls them; `defaults`, the values of those that may be left out; and `checks_run`, whether
    they may refuse a planned run.
    """
    try:
        parameters: dict[str, Any] | None = msgspec.json.schema(spec.params)
    except TypeError:  # a parameter has a type of its own
        parameters = None
    return {
        "module": spec.module,
        "roles": [role.value for role in spec.roles],
        "data_ports": list(spec.data_ports),
        "needs_input": spec.needs_input,
        "outputs": list(spec.outputs),
        "repeatable": spec.repeatable,
        "aliases": list(spec.aliases),
        "summary": spec.summary,
        "parameters": parameters,
        "param_name": spec.param_name,
        "defaults": defaults_of(spec.params),
        "checks_run": checks_run(spec.params),
    }


def _names(spec: ComponentSpec) -> list[str]:
    return [name.lower() for name in (spec.module, *spec.aliases)]


def _providers(found: Iterable[EntryPoint] | None) -> Iterator[tuple[str, str]]:
    yield "builtin", _BUILTIN
    points = entry_points(group=GROUP) if found is None else found
    for point in sorted(points, key=lambda p: (p.name, p.value)):
        if point.value != _BUILTIN:
            yield point.name, point.value


def _offered(value: str) -> tuple[Any, ...]:
    """Return the classes and functions that `module:attribute` names."""
    module, _, attribute = value.partition(":")
    offered: Any = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        offered = getattr(offered, part)
    return (offered,) if is_component(offered) else tuple(offered)
