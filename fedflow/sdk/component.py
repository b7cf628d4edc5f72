"""How a class or function becomes a component: the decorator, and what the scheduler reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from fedflow.domain.site import Role
from fedflow.sdk.function import runner_of, signature_of
from fedflow.sdk.params import Params
from fedflow.sdk.protocol import Protocol

_MARK = "__fedflow_component__"
Absence: TypeAlias = Literal["rounds", "apart"]
"""How a component lives with an absent host: its rounds go on, or each site runs it for itself."""
DATA_PORTS = ("data", "train_data", "validate_data", "test_data", "eval_data")


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentSpec:
    """What is known of a component without running it; made by `@component`."""

    module: str  #: the name in a DSL, matched without regard to case
    roles: tuple[Role, ...]  #: that run it
    params: type[Params]  #: the class of its parameters
    data_ports: tuple[str, ...]  #: input ports that it understands
    needs_input: bool  #: at least one data port must be connected
    outputs: tuple[str, ...]  #: what it may make: `data`, `model`, `cache`
    #: results depend on inputs and parameters only, so a job may take over those of an earlier one
    repeatable: bool
    aliases: tuple[str, ...]  #: further names of the module
    param_name: str  #: what FATE calls its parameters, such as `HeteroLogisticParam`
    summary: str  #: one sentence for people
    #: lives with an absent host: `rounds` go on, or each site runs it `apart`; None: it cannot
    absence: Absence | None
    messages: Protocol | None  #: all that it sends to other sites; None: it does not say
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
    absence: Absence | None = None,
    messages: Protocol | None = None,
) -> Callable[[C], C]:
    """Declare the decorated class, or function, a component.

    A class has a method `run(self, ctx: Context) -> Outputs`. It is made anew for each run. The
    first line of the docstring is what `fedflow component list` prints.

    Of a function, parameters and ports are read from its signature. Its first argument is the
    context. Arguments with the name of a data port are the first table that comes in there, `model`
    is the model. Arguments by keyword are parameters, with types and defaults.

    Args:
        module: the name in a DSL.
        roles: who runs it: `guest`, `host`, `arbiter`, `local`.
        params: a subclass of `Params`; a class needs one, a function has none.
        data_ports: among `data`, `train_data`, `validate_data`, `test_data`, `eval_data`. Of a
            class: `("data",)`.
        needs_input: a data port must be connected. Of a class: true.
        outputs: kinds that it may make: `data`, `model`, `cache`.
        repeatable: false: it has effects, or depends on the time.
        aliases: further names in a DSL.
        param_name: what FATE calls its parameters; else the module's name and `Param`.
        absence: what an elastic job needs: `rounds`: its rounds go on without a host; `apart`: each
            site runs it for itself, without values between sites.
        messages: of `protocol`, all that it sends to other sites, each with its content. The ledger
            of a job shows these, and nothing else is sent. None: it may send anything; `apart`
            nothing.

    Raises: ValueError: a role or port is unknown, `params` are missing, or a function takes what is
        no input.
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
            absence=absence,
            messages=() if messages is None and absence == "apart" else messages,
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
    """Return what is known of a component. Raises: ValueError: it is none."""
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
