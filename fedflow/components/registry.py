"""The component modules of this installation: built-in ones, and those of other packages.

Another package offers components by an entry point of the group `fedflow.components`, whose object
is a class declared with `@component`, or a tuple of such classes. Importing components is expensive
(numpy, pyarrow), so a server does not do it: it asks a zygote for `describe`. The zygote imports a
built-in component when it is first asked for.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
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
class ComponentRegistry:
    """Components by name or alias in lower case; `problems` tells what could not be loaded.

    One of fedflow's own is the text `module:class` until it is first asked for.
    """

    offers: dict[str, ComponentSpec | str]
    problems: tuple[str, ...]
    packages: Mapping[str, str] = field(default_factory=dict)
    """Module of another package -> name of its entry point, `@`, version of the package."""

    @property
    def specs(self) -> tuple[ComponentSpec, ...]:
        """Return all components, built-in ones first; those that are not imported yet are."""
        return tuple(dict.fromkeys(self.find(name) for name in self.offers))

    @property
    def names(self) -> dict[str, str]:
        """Return the names of the modules by lower-case name and alias; nothing is imported."""
        return {
            name: offer.rpartition(":")[2] if isinstance(offer, str) else offer.module
            for name, offer in self.offers.items()
        }

    def described(self) -> list[dict[str, Any]]:
        """Return `describe` of each component, with `package`: empty for fedflow's own."""
        return [
            {**describe(spec), "package": self.packages.get(spec.module, "")} for spec in self.specs
        ]

    def find(self, module: str) -> ComponentSpec:
        """Return a component by its name or alias, in any case. Raises: UnknownComponent."""
        name = module.lower()
        offer = self.offers.get(name)
        if offer is None:
            raise UnknownComponent(module=module)
        if isinstance(offer, str):
            (found,) = _offered(offer)
            offer = self.offers[name] = spec_of(found)
        return offer


def load_registry(*, found: Iterable[EntryPoint] | None = None) -> ComponentRegistry:
    """Import the components of other packages and return them after the built-in ones.

    A provider that cannot be loaded, or that takes a name that is taken, becomes a problem; the
    others are there all the same. `found` replaces the installed entry points, for tests.
    """
    from fedflow.components.builtin import COMPONENTS  # which the process of a provider never has

    offers: dict[str, ComponentSpec | str] = {
        value.rpartition(":")[2].lower(): f"fedflow.components.{value}" for value in COMPONENTS
    }
    registry = ComponentRegistry(offers=offers, problems=())
    problems: list[str] = []
    packages: dict[str, str] = {}
    points = entry_points(group=GROUP) if found is None else found
    for point in sorted(points, key=lambda p: (p.name, p.value)):
        if point.value == _BUILTIN:
            continue
        try:
            offered = [spec_of(one) for one in _offered(point.value)]
        except (Exception, SystemExit) as exc:
            logger.exception("Provider %s cannot be loaded.", point.name)
            what = f"{type(exc).__name__}: {exc}"
            problems.append(f"provider {point.name} ({point.value}): {what}")
            continue
        for spec in offered:
            taken = next((name for name in _names(spec) if name in offers), None)
            rival = registry.find(taken) if taken is not None else None
            if rival is None:
                offers.update(dict.fromkeys(_names(spec), spec))
                packages[spec.module] = f"{point.name}@{point.dist.version if point.dist else ''}"
            elif rival is not spec:
                said = f"{spec.module} has a name of {rival.module}"
                problems.append(f"provider {point.name}: {said}")
    return replace(registry, problems=tuple(problems), packages=packages)


def load_provider(value: str) -> ComponentRegistry:
    """Import what `module:attribute` names, and nothing else. Raises: whatever importing raises."""
    offers: dict[str, ComponentSpec | str] = {}
    problems = []
    for spec in [spec_of(offered) for offered in _offered(value)]:
        if not offers.keys().isdisjoint(_names(spec)):
            problems.append(f"{spec.module} has a name of another of its components")
        for name in _names(spec):
            offers.setdefault(name, spec)
    if not offers:
        problems.append(f"{value} holds no component")
    return ComponentRegistry(offers=offers, problems=tuple(problems))


def describe(spec: ComponentSpec) -> dict[str, Any]:
    """Return what a server needs to know of a component, as plain JSON.

    Members: module, roles, data_ports, needs_input, outputs, repeatable, absence, aliases,
    summary; `messages`, those of its protocol (None if it declares none);
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
        "absence": spec.absence,
        "messages": None if spec.messages is None else [asdict(one) for one in spec.messages],
        "aliases": list(spec.aliases),
        "summary": spec.summary,
        "parameters": parameters,
        "param_name": spec.param_name,
        "defaults": defaults_of(spec.params),
        "checks_run": checks_run(spec.params),
    }


def _names(spec: ComponentSpec) -> list[str]:
    return [name.lower() for name in (spec.module, *spec.aliases)]


def _offered(value: str) -> tuple[Any, ...]:
    """Return the classes and functions that `module:attribute` names."""
    module, _, attribute = value.partition(":")
    offered: Any = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        offered = getattr(offered, part)
    return (offered,) if is_component(offered) else tuple(offered)
