"""Values are dataclasses of the standard library in all that can be seen of them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import pytest

from fedflow.base import values

T = TypeVar("T")
Decorator = Callable[..., Any]
BOTH: list[Decorator] = [dataclasses.dataclass, values.dataclass]


@values.dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A value of this module, since pickling looks for it here."""

    x: int
    tags: tuple[str, ...] = ()
    notes: dict[str, int] = field(default_factory=dict, compare=False, repr=False)


def classes(dataclass: Decorator) -> tuple[type[Any], ...]:
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Plain:
        """Doc."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list, compare=False, repr=False)
        d: float = field(default=0.5, init=False)
        e: dict[str, int] = field(default_factory=dict, init=False, hash=False)
        many: ClassVar[int] = 7

    @dataclass(frozen=True, slots=True)
    class Positional(Generic[T]):
        """Doc."""

        a: T
        b: int = 2
        seen: list[int] = field(default_factory=list, hash=False)

        def __post_init__(self) -> None:
            self.seen.append(self.b)

    @dataclass(frozen=True)
    class Base:
        """Doc."""

        a: int

    @dataclass(frozen=True, kw_only=True)
    class Derived(Base):
        """Doc."""

        a: int = 3
        b: int

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Own:
        """Doc."""

        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 4

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True, slots=True)
    class Empty:
        """Doc."""

    return Plain, Positional, Base, Derived, Own, Empty


CALLS: list[tuple[int, tuple[Any, ...], dict[str, Any]]] = [
    (0, (), {"a": 1}), (0, (), {"a": 1, "b": "x", "c": [1]}), (0, (1,), {}), (0, (), {}),
    (0, (), {"a": 1, "d": 2.0}), (0, (), {"a": 1, "z": 2}), (1, (1,), {}), (1, (1, 3, [9]), {}),
    (1, ("t",), {"b": 5}), (1, (), {}), (2, (8,), {}), (3, (), {"b": 1}), (3, (), {"a": 5, "b": 1}),
    (4, (), {"a": 1}), (5, (), {}), (5, (1,), {}),
]  # fmt: skip


@pytest.mark.parametrize(("index", "given", "named"), CALLS)
def test_instances_are_those_of_the_standard_library(
    index: int, given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    theirs, ours = (outcome(classes(one)[index], given, named) for one in BOTH)
    assert ours == theirs


def outcome(cls: type[Any], given: tuple[Any, ...], named: dict[str, Any]) -> object:
    """Return what can be seen of an instance, or the error that making it raises."""
    try:
        made, other = (cls(*copy.deepcopy(given), **copy.deepcopy(named)) for _ in "12")
    except TypeError as exc:
        return str(exc)
    return (
        repr(made), asdict(made), made == other, made != other, made == 1, hash(made),
        hash(other), [(f.name, f.kw_only, f.init) for f in fields(made)], cls.__match_args__,
        repr(replace(made)) == repr(made), msgspec.to_builtins(made), cls.__doc__,
        cls.__init__.__qualname__, [refused(made, f.name) for f in fields(made)],
    )  # fmt: skip


def refused(made: Any, name: str) -> list[str]:
    with pytest.raises(FrozenInstanceError) as setting:
        setattr(made, name, 1)
    with pytest.raises(FrozenInstanceError) as deleting:
        delattr(made, name)
    return [str(setting.value), str(deleting.value)]


def test_a_value_can_be_copied_pickled_and_read() -> None:
    value = Point(x=1, tags=("a",), notes={"n": 1})
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (again, again.notes) == (value, value.notes)
    assert msgspec.convert({"x": 2}, Point) == Point(x=2)
    assert hash(Point(x=1)) == hash(Point(x=1, notes={"m": 2}))
    with pytest.raises(AttributeError):
        value.__dict__  # noqa: B018


def test_a_value_that_holds_itself_can_be_shown() -> None:
    held: dict[str, Any] = {}

    @values.dataclass(frozen=True, slots=True)
    class Holder:
        """Doc."""

        of: dict[str, Any]

    held["me"] = Holder(held)
    assert repr(held["me"]).endswith("Holder(of={'me': ...})")


@pytest.mark.parametrize(
    "options", [{}, {"frozen": False}, {"frozen": True, "order": True}, {"slots": True}]
)
def test_other_options_are_given_to_the_standard_library(options: dict[str, bool]) -> None:
    @values.dataclass(**options)  # type: ignore[call-overload, untyped-decorator]
    class Other:
        a: int

    assert Other.__init__.__code__.co_varnames == ("self", "a")
    assert Other(1) == Other(1)


def test_threads_that_make_the_first_instances_at_once_make_equal_ones() -> None:
    for _ in range(20):
        cls, gate = classes(values.dataclass)[0], threading.Barrier(4)

        def make(_: int, cls: type[Any] = cls, gate: threading.Barrier = gate) -> object:
            gate.wait()
            return cls(a=1)

        with ThreadPoolExecutor(4) as pool:
            assert len(set(pool.map(make, range(4)))) == 1


def test_all_that_waits_can_be_compiled_before_a_fork() -> None:
    made = classes(values.dataclass)
    before = [vars(cls)["__init__"] for cls in made]
    values.compile_all()
    after = [vars(cls)["__init__"] for cls in made]
    assert all(new is not old for new, old in zip(after, before, strict=True))
    cls = made[0]
    assert cls(a=1) == cls(a=1)
    assert vars(cls)["__init__"] is after[0]
