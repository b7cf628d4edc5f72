"""What a hook gets and gives, and how one is opened by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib.metadata import entry_points
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fedflow.base.decoding import mistake_of, read_as
from fedflow.base.errors.serving_process import HookNotUsable
from fedflow.base.values import dataclass
from fedflow.serving.partners.messages import IdValue

BEFORE: Final = "before"
AFTER: Final = "after"
_GROUPS: Final = {BEFORE: "fedflow.serving.before", AFTER: "fedflow.serving.after"}
_BUILT_IN: Final[Mapping[str, tuple[str, ...]]] = {
    BEFORE: ("defaults", "rename"),
    AFTER: ("labels", "scorecard", "threshold"),
}

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True, slots=True)
class HookRow:
    """A row on its way to the model. Its mappings are the hook's own copies."""

    features: dict[str, Any]  #: texts, numbers, truth values, None; stay with the guest
    ids: dict[str, IdValue]  #: go to every host


@dataclass(frozen=True, kw_only=True, slots=True)
class HookAnswer:
    """The answer to a row that has a score."""

    score: float | list[float] | None  #: a list has one value per class
    label: str | int | float | None = None
    credit_score: float | None = None
    degraded: bool = False  #: the score came about without a host
    more: dict[str, Any] = field(default_factory=dict)  #: further members of the answer's `data`


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFault:
    """Why a hook lets a row have no score; the caller reads it."""

    reason: str


class BeforeHook(Protocol):
    """Changes rows before the model. Called by several threads.

    `may_change_ids = True` in the class is the right to change what goes to the hosts.
    """

    def before(self, rows: Sequence[HookRow]) -> Sequence[HookRow | RowFault]:
        """Return the rows, or why one has no score, in their order."""


class AfterHook(Protocol):
    """Changes answers after the model. Called by several threads."""

    def after(
        self, rows: Sequence[HookRow], answers: Sequence[HookAnswer]
    ) -> Sequence[HookAnswer | RowFault]:
        """Return the answers to rows, or why there is none, in their order."""


Hook = BeforeHook | AfterHook
OpenHook = Callable[[Mapping[str, Any]], Hook]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedHook:
    """A hook with its name."""

    name: str
    hook: Any  #: has a method of the name of its place
    shipped: bool  #: it is of this package

    @property
    def may_change_ids(self) -> bool:
        """Tell whether it may change what goes to the hosts."""
        return getattr(self.hook, "may_change_ids", False) is True


def open_hook(place: str, name: str, options: Mapping[str, Any]) -> OpenedHook:
    """Return a hook of this package, or of an entry point; `place` is `before` or `after`.

    Raises: HookNotUsable: its path begins with `hook` or `options`.
    """
    shipped = name in _BUILT_IN[place]
    opened = _built_in(name) if shipped else _of_others(place, name)
    try:
        hook: Any = opened(options)
    except HookNotUsable:
        raise
    except Exception as exc:
        reason = f"{name} refuses them: {type(exc).__name__}: {exc}"
        raise HookNotUsable(path="options", reason=reason[:500]) from exc
    if not callable(getattr(hook, place, None)):
        raise HookNotUsable(path="hook", reason=f"what {name!r} opens has no method {place}")
    return OpenedHook(name=name, hook=hook, shipped=shipped)


def options_as(options: Mapping[str, Any], kind: type[T]) -> T:
    """Return the options of a hook as a type. Raises: HookNotUsable: they do not fit."""
    try:
        return read_as(dict(options), kind)
    except msgspec.ValidationError as exc:
        place, reason = mistake_of(exc)
        raise HookNotUsable(path=f"options{place.removeprefix('$')}", reason=reason) from exc


def _of_others(place: str, name: str) -> OpenHook:
    """Return the function of an entry point. Raises: HookNotUsable."""
    points = {one.name: one for one in entry_points(group=_GROUPS[place])}
    if name not in points:
        known = ", ".join(sorted({*_BUILT_IN[place], *points}))
        raise HookNotUsable(path="hook", reason=f"there is no {name!r}; known are {known}")
    try:
        loaded: OpenHook = points[name].load()
    except Exception as exc:
        raise HookNotUsable(path="hook", reason=f"{name}: {exc}"[:500]) from exc
    return loaded


def _built_in(name: str) -> OpenHook:
    """Return what opens a hook of this package; libraries of the others are not imported."""
    if name == "defaults":
        from fedflow.serving.hooks.defaults import open_hook as open_defaults

        return open_defaults
    if name == "rename":
        from fedflow.serving.hooks.rename import open_hook as open_rename

        return open_rename
    if name == "labels":
        from fedflow.serving.hooks.labels import open_hook as open_labels

        return open_labels
    if name == "scorecard":
        from fedflow.serving.hooks.scorecard import open_hook as open_scorecard

        return open_scorecard
    from fedflow.serving.hooks.threshold import open_hook as open_threshold

    return open_threshold
