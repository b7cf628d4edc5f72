"""The component modules of this server, as the executor's prepared process describes them.

The server itself imports no component: it asks the process that has them. Descriptions are asked
for once; a parameter set that was found good is remembered.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from fedflow.base.errors import UnknownComponent
from fedflow.domain.job_spec import ModuleInfo
from fedflow.domain.site import Role

_KEEP = 2048


class Describer(Protocol):
    """Who has the components imported."""

    def describe(self) -> list[dict[str, Any]]:
        """Return module, aliases, roles, data_ports, needs_input, outputs, summary, parameters,
        param_name, defaults.
        """

    def check(self, module: str, parameters: Mapping[str, Any], *, path: str) -> None:
        """Check parameters. Raises: BadParameter, UnknownComponent."""


class Modules:
    """The `Catalog` of the use cases."""

    def __init__(self, describer: Describer) -> None:
        self._describer = describer
        self._lock = threading.Lock()
        self._described: list[dict[str, Any]] | None = None
        self._modules: dict[str, ModuleInfo] = {}
        self._parameters: dict[str, tuple[str, Mapping[str, Any]]] = {}  # name and defaults
        self._good: OrderedDict[bytes, None] = OrderedDict()

    def describe(self) -> list[dict[str, Any]]:
        """Return everything that is known of each module, for people and other systems."""
        self.modules()
        return list(self._described or ())

    def modules(self) -> Mapping[str, ModuleInfo]:
        """Return what the scheduler must know, by lower-case name and alias."""
        with self._lock:
            if self._described is None:
                self._described = self._describer.describe()
                for one in self._described:
                    info = _info(one)
                    for name in (one["module"], *one["aliases"]):
                        self._modules[name.lower()] = info
                    self._parameters[info.module.lower()] = (one["param_name"], one["defaults"])
            return self._modules

    def check(self, module: str, parameters: Mapping[str, Any], *, path: str) -> None:
        """Check parameters. Raises: BadParameter, UnknownComponent."""
        info = self.modules().get(module.lower())
        if info is None:
            raise UnknownComponent(module=module)
        known = msgspec.json.encode([info.module, parameters], order="sorted")
        key = hashlib.sha256(known).digest()  # other parties choose how much there is to remember
        with self._lock:
            if key in self._good:
                return
        self._describer.check(info.module, parameters, path=path)
        with self._lock:
            self._good[key] = None
            while len(self._good) > _KEEP:
                self._good.popitem(last=False)

    def parameters(self, module: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return what FATE calls the module's parameters, and all of them: `given` over defaults.

        Raises: UnknownComponent: it is not installed any more.
        """
        info = self.modules().get(module.lower())
        if info is None:
            raise UnknownComponent(module=module)
        name, defaults = self._parameters[info.module.lower()]
        return name, _filled(defaults, given)


def _filled(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` with what it leaves out, in objects that are parameters themselves too."""
    values = {**defaults, **given}
    for name, default in defaults.items():
        value = values[name]
        if isinstance(default, dict) and isinstance(value, dict):
            values[name] = _filled(default, value)
    return values


def _info(described: Mapping[str, Any]) -> ModuleInfo:
    return ModuleInfo(
        module=described["module"],
        roles=tuple(Role(r) for r in described["roles"]),
        data_ports=tuple(described["data_ports"]),
        needs_input=described["needs_input"],
        outputs=tuple(described["outputs"]),
        repeatable=described.get("repeatable", True),
    )
