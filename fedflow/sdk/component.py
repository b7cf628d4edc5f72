"""How a class becomes a component: the decorator and the description that the scheduler reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fedflow.domain.site import Role
from fedflow.sdk.params import Params

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


C = TypeVar("C", bound=type[Any])


def component(
    module: str,
    *,
    roles: tuple[str, ...],
    params: type[Params],
    data_ports: tuple[str, ...] = ("data",),
    needs_input: bool = True,
    outputs: tuple[str, ...] = ("data",),
    repeatable: bool = True,
    aliases: tuple[str, ...] = (),
    param_name: str | None = None,
) -> Callable[[C], C]:
    """Declare the decorated class a component.

    The class has a method `run(self, ctx: Context) -> Outputs`. Its docstring's first line becomes
    the summary. Without a `param_name` it is the module's name and `Param`. Raises: ValueError: a
    role or port is unknown.
    """
    unknown = [p for p in data_ports if p not in DATA_PORTS]
    if unknown:
        raise ValueError(f"{module}: unknown data ports {unknown}")

    def mark(cls: C) -> C:
        cls.__fedflow_component__ = ComponentSpec(
            module=module,
            roles=tuple(Role(r) for r in roles),
            params=params,
            data_ports=data_ports,
            needs_input=needs_input,
            outputs=outputs,
            repeatable=repeatable,
            aliases=aliases,
            param_name=param_name or f"{module}Param",
            summary=(cls.__doc__ or module).strip().splitlines()[0],
            factory=cls,
        )
        return cls

    return mark


def spec_of(cls: type[Any]) -> ComponentSpec:
    """Return the description of a component class. Raises: ValueError: it is not a component."""
    spec = getattr(cls, "__fedflow_component__", None)
    if not isinstance(spec, ComponentSpec):
        raise ValueError(f"{cls.__name__} is not declared with @component")  # noqa: TRY004
    return spec
