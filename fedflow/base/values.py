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
from collections.abc import Callable
from dataclasses import Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

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
    wanted = [name for name in ("__init__", "__eq__", "__hash__") if own.get(name) is None]

    def compiled() -> None:
        twin = dataclasses.make_dataclass(
            cls.__qualname__,
            [(field.name, field.type, _copied(field)) for field in dataclasses.fields(made)],
            namespace={"__post_init__": None} if hasattr(cls, "__post_init__") else {},
            frozen=True, slots=slots, repr=False,
        )  # fmt: skip
        for name in wanted:
            method = vars(twin)[name]
            method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
            setattr(made, name, method)
        _WAITING.pop(made, None)

    _WAITING[made] = compiled
    for name in wanted:  # a class that defines `__eq__` has None as its `__hash__`
        methods[name] = _first_call(made, name, compiled)
    for name, method in methods.items():
        setattr(made, name, method)
    return made


_WAITING: Final[dict[type, Callable[[], None]]] = {}  #: class -> what compiles its methods


def compile_all() -> None:
    """Compile what waits, in a process that is going to be forked: each fork would do it again."""
    for compiled in list(_WAITING.values()):
        compiled()


def _first_call(cls: type, name: str, compiled: Callable[[], None]) -> Any:
    """Return a method that has the class's methods compiled when it is called."""

    def first_call(self: Any, *args: Any, **members: Any) -> Any:
        compiled()
        return vars(cls)[name](self, *args, **members)

    return first_call


def _copied(field: Field[Any]) -> Any:
    names = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
    return dataclasses.field(**{name: getattr(field, name) for name in names})


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
