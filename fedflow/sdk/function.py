"""Components that are Python functions: what their signature says, as parameters and ports.

    @component("Mean", roles=("guest", "host"))
    def mean(ctx: Context, data: Table, *, column: str = "x0") -> Outputs: ...

The first argument is the context. Arguments with the name of a data port are the first table that
comes in there, `model` is the model of an upstream component. Arguments by keyword are parameters,
with their types and defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

import msgspec

from fedflow.base.errors.data import BadData
from fedflow.sdk.context import Context
from fedflow.sdk.outputs import Outputs
from fedflow.sdk.params import Params

MODEL: Final = "model"


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """What a component's function takes."""

    ports: tuple[str, ...]  #: data ports, in the order of the arguments
    required: frozenset[str]  #: arguments that have no default
    takes_model: bool
    params: type[Params]


def signature_of(
    function: Callable[..., Any], module: str, data_ports: tuple[str, ...]
) -> Signature:
    """Return what `function` takes; `data_ports` are the names that count as ports.

    Raises: ValueError: an argument is neither the context, a port, `model` nor by keyword; or the
        type of a parameter is missing, or none that JSON can be read into.
    """
    arguments = list(inspect.signature(function).parameters.values())
    if not arguments or arguments[0].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
        raise ValueError(f"{module}: the first argument of its function is the context")
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as exc:
        raise ValueError(f"{module}: a type of its function is not known: {exc}") from exc
    inputs: list[str] = []
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    required: set[str] = set()
    for argument in arguments[1:]:
        name, has_default = argument.name, argument.default is not inspect.Parameter.empty
        if argument.kind is inspect.Parameter.KEYWORD_ONLY:
            if name not in hints:
                raise ValueError(f"{module}: the type of parameter {name!r} is missing")
            field = (name, hints[name])
            fields.append((*field, _default(argument.default)) if has_default else field)
        elif argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and (
            name in data_ports or name == MODEL
        ):
            inputs.append(name)
            if not has_default:
                required.add(name)
        else:
            allowed = ", ".join((*data_ports, MODEL))
            raise ValueError(f"{module}: argument {name!r} must be one of {allowed}, or by keyword")
    params: Any = msgspec.defstruct(
        f"{function.__name__}_params",
        fields,
        bases=(Params,),
        namespace={"__doc__": function.__doc__},
        module=function.__module__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    try:
        msgspec.json.schema(params)
    except TypeError as exc:
        raise ValueError(f"{module}: a parameter's type cannot be read from JSON: {exc}") from exc
    return Signature(
        ports=tuple(name for name in inputs if name != MODEL),
        required=frozenset(required),
        takes_model=MODEL in inputs,
        params=params,
    )


def runner_of(function: Callable[..., Any], takes: Signature) -> type[Any]:
    """Return a class with `run`, as components have it, that calls the function.

    What the function returns may be Outputs, a table, tables in a tuple, or None.
    """

    class FunctionRun:
        """One run of the function."""

        def run(self, ctx: Context) -> Any:
            """Call the function. Raises: BadData: a table or model that it needs is not there."""
            given: dict[str, Any] = {port: ctx.inputs.first(port) for port in takes.ports}
            if takes.takes_model:
                given[MODEL] = next(iter(ctx.inputs.model.values()), None)
            for name in takes.required:
                if given.get(name) is None:
                    raise BadData(where=f"input {name}", reason="nothing came in here")
            values = {f: getattr(ctx.params, f) for f in takes.params.__struct_fields__}
            present = {n: v for n, v in given.items() if n in takes.required or v is not None}
            return _outputs(function(ctx, **present, **values))

    FunctionRun.__name__ = FunctionRun.__qualname__ = function.__name__
    FunctionRun.__doc__ = function.__doc__
    return FunctionRun


def _outputs(returned: Any) -> Any:
    """Return Outputs of what a function returned; what is none is left for the run to refuse."""
    if returned is None:
        return Outputs()
    if isinstance(returned, Outputs):
        return returned
    if isinstance(returned, tuple):
        return Outputs(data=returned)
    return Outputs(data=(returned,)) if hasattr(returned, "to_batches") else returned


def _default(value: Any) -> Any:
    """Return a default that no two runs share."""
    if isinstance(value, list | dict | set):
        kind = type(value)
        return msgspec.field(default_factory=lambda: kind(value))
    return value
