"""How a class or function becomes a component: the decorator, and what the scheduler reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fedflow.domain.site import Role
from fedflow.sdk.function import runner_of, signature_of
from fedflow.sdk.params import Params

_MARK = "__fedflow_component__"
DATA_PORTS = ("data", "train_data", "validate_data", "test_data", "eval_data")


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentSpec:
    """What is known of a component without running it.

    `data_ports` are the input ports it understands, `outputs` the kinds it may produce (`data`,
    `model`, `cache`); `needs_input` tells that at least one data port must be connected.
    `repeatable` tells that results depend on inputs and parameters only, and that nothing else
    happens: jobs may then take over results of earlier ones (`reuse`).
    """

    module: str  #: the name in a DSL, matched without regard to case
    roles: tuple[Role, ...]
    params: type[Params]
    data_ports: tuple[str, ...]
    needs_input: bool
    outputs: tuple[str, ...]
    repeatable: bool
    aliases: tuple[str, ...]
    param_name: str  #: what FATE calls its parameters, such as `HeteroLogisticParam`
    summary: str  #: one sentence for people
    factory: type[Any]  #: class with `run(self, ctx: Context) -> Outputs`


C = TypeVar("C", bound=Callable[..., Any])


def component(
    module: str,
    *,
    roles: tuple[str, ...],
    params: type[Params] | None = None,
    data_ports: tuple[str, ...] | None = None,
    needs_input: bool | None = None,
    outputs: tuple[str, ...] = ("data",),
    repeatable: bool = True,
    aliases: tuple[str, ...] = (),
    param_name: str | None = None,
) -> Callable[[C], C]:
    """Declare the decorated class, or function, a component.

    A class has a method `run(self, ctx: Context) -> Outputs`; its `data_ports` are `data` and an
    input is needed if nothing else is said, and `params` must be given. Of a function these are
    read from its signature (`sdk.function`), what is said here counts more. The docstring's first
    line becomes the summary. Without a `param_name` it is the module's name and `Param`. Raises:
    ValueError: a role or port is unknown, `params` are missing, or a function takes what is no
    input.
    """
    unknown = [p for p in data_ports or () if p not in DATA_PORTS]
    if unknown:
        raise ValueError(f"{module}: unknown data ports {unknown}")

    def mark(offered: C) -> C:
        factory, kind, ports, needed = _described(offered, module, params, data_ports or DATA_PORTS)
        spec = ComponentSpec(
            module=module,
            roles=tuple(Role(r) for r in roles),
            params=kind,
            data_ports=ports if data_ports is None else data_ports,
            needs_input=needed if needs_input is None else needs_input,
            outputs=outputs,
            repeatable=repeatable,
            aliases=aliases,
            param_name=param_name or f"{module}Param",
            summary=(offered.__doc__ or module).strip().splitlines()[0],
            factory=factory,
        )
        for one in (offered, factory):
            setattr(one, _MARK, spec)
        return offered

    return mark


def is_component(offered: object) -> bool:
    """Tell whether a class or function is declared with @component."""
    return isinstance(getattr(offered, _MARK, None), ComponentSpec)


def spec_of(offered: Any) -> ComponentSpec:
    """Return the description of a component. Raises: ValueError: it is none."""
    spec = getattr(offered, _MARK, None)
    if not isinstance(spec, ComponentSpec):
        name = getattr(offered, "__name__", repr(offered)[:100])
        raise ValueError(f"{name} is not declared with @component")  # noqa: TRY004
    return spec


def _described(
    offered: Any, module: str, params: type[Params] | None, ports: tuple[str, ...]
) -> tuple[type[Any], type[Params], tuple[str, ...], bool]:
    """Return (factory, parameters, data ports, whether they are needed). Raises: ValueError."""
    if isinstance(offered, type):
        if params is None:
            raise ValueError(f"{module}: a class needs `params`, a subclass of Params")
        return offered, params, ("data",), True
    takes = signature_of(offered, module, ports)
    if params is not None:
        raise ValueError(f"{module}: the parameters of a function are its arguments by keyword")
    needed = any(port in takes.required for port in takes.ports)
    return runner_of(offered, takes), takes.params, takes.ports, needed
