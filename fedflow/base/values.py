"""`dataclass` for values: the standard library's, but the methods are not compiled at import.

The standard one writes the source of six methods and compiles it, about a millisecond per class,
also for the classes that a process never makes an instance of; with hundreds of classes that was a
third of a server's import. Here a method is compiled when it is first called. Fields, `replace`,
`asdict`, pickling and errors are those of the standard library; a class that is not frozen, or has
options that are not parameters here, is given to it.

`InitVar` is not understood. The bases of a class must come from the same `dataclass`; the standard
library checks that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

Scope = dict[str, Any]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  mypy knows it under this name
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Return a class, or a decorator of one, as the standard library's does."""
        if cls is not None or not options.get("frozen") or not options.keys() <= _KNOWN:
            return dataclasses.dataclass(cls, **options)
        given = {name: value for name, value in options.items() if name != "frozen"}
        return lambda of: _value_class(of, **given)


_KNOWN: Final = frozenset({"frozen", "kw_only", "slots"})


def _value_class(cls: type, *, kw_only: bool = False, slots: bool = False) -> type:
    made: type = dataclasses.dataclass(
        init=False, repr=False, eq=False, kw_only=kw_only, slots=slots
    )(cls)
    own = vars(cls)
    methods: dict[str, Any] = {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if slots:
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    if "__repr__" not in own:
        methods["__repr__"] = _text
    for name, source_of in _COMPILED.items():
        if own.get(name) is None:  # a class that defines `__eq__` has None as its `__hash__`
            methods[name] = _compiled_later(made, name, source_of)
    for name, method in methods.items():
        setattr(made, name, method)
    return made


def _compiled_later(cls: type, name: str, source_of: Callable[[type, Scope], str]) -> Any:
    """Return a method that puts the compiled one into its place when it is called."""

    def first_call(self: Any, *args: Any, **members: Any) -> Any:
        scope: Scope = {}
        exec(source_of(cls, scope), scope)  # noqa: S102  our own text
        method = scope[name]
        method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
        setattr(cls, name, method)
        return method(self, *args, **members)

    return first_call


def _init(cls: type, scope: Scope) -> str:
    scope |= {"_set_": object.__setattr__, "_missing_": MISSING}
    positional: list[str] = []
    keyword: list[str] = []
    body: list[str] = []
    for field in dataclasses.fields(cls):
        name = parameter = value = field.name
        if field.default is not MISSING:
            scope[f"_default_{name}"] = field.default
            parameter += f"=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif field.default_factory is not MISSING:
            scope[f"_make_{name}"] = field.default_factory
            parameter += "=_missing_"
            value = f"_make_{name}()" + (f" if {name} is _missing_ else {name}" * field.init)
        if field.init:
            (keyword if field.kw_only else positional).append(parameter)
        if value != name or field.init:
            body.append(f"_set_(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *keyword] if keyword else [])])
    return f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"])


def _eq(cls: type, _scope: Scope) -> str:
    names = [f.name for f in dataclasses.fields(cls) if f.compare]
    return f"""\
def __eq__(self, other):
 if other.__class__ is self.__class__:
  return {_values("self", names)} == {_values("other", names)}
 return NotImplemented"""


def _hash(cls: type, _scope: Scope) -> str:
    fields = dataclasses.fields(cls)
    names = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
    return f"def __hash__(self): return hash({_values('self', names)})"


def _values(of: str, names: list[str]) -> str:
    return f"({''.join(f'{of}.{name},' for name in names)})"


_COMPILED: Final[Mapping[str, Callable[[type, Scope], str]]] = {
    "__init__": _init, "__eq__": _eq, "__hash__": _hash,
}  # fmt: skip


@recursive_repr("...")
def _text(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_set(self: Any, name: str, _value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
