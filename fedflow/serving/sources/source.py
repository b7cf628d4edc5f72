"""What a feature source does, and how one is opened by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fedflow.base.decoding import mistake_of, read_as
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.base.values import dataclass
from fedflow.serving.codes import ServingCode
from fedflow.serving.messages import IdValue

GROUP: Final = "fedflow.serving.feature_source"
_BUILT_IN: Final = ("http", "sqlite", "table")  #: modules of this package

Ids = Mapping[str, IdValue]
T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureFault:
    """Why there are no features for an id."""

    retcode: int  #: 113: there are none; 102: the id cannot be used; 116: the source failed
    reason: str


class FeatureSource(Protocol):
    """Finds features by ids. Thread-safe."""

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        """Return the features of each item, or why it has none; a missing value has no name there.

        `deadline_s` is a moment of the monotonic clock.
        """

    def close(self) -> None:
        """Give back what the source holds."""


OpenSource = Callable[[Mapping[str, Any]], FeatureSource]


def open_feature_source(name: str, options: Mapping[str, Any]) -> FeatureSource:
    """Return a source of this package, or of an entry point. Raises: BadServingSetting."""
    others = {one.name: one for one in entry_points(group=GROUP)}
    try:
        if name in _BUILT_IN:
            opened = _built_in(name)
        elif name in others:
            opened = others[name].load()
        else:
            known = ", ".join(sorted({*_BUILT_IN, *others}))
            reason = f"there is no {name!r}; known are {known}"
            raise BadServingSetting(path="features.source", reason=reason)
    except (ImportError, AttributeError) as exc:
        raise BadServingSetting(path="features.source", reason=f"{name}: {exc}") from exc
    return opened(options)


def _built_in(name: str) -> OpenSource:
    """Return what opens a source of this package; libraries of the others are not imported."""
    if name == "table":
        from fedflow.serving.sources.table import open_source as open_table

        return open_table
    if name == "sqlite":
        from fedflow.serving.sources.sqlite import open_source as open_sqlite

        return open_sqlite
    from fedflow.serving.sources.http import open_source as open_http

    return open_http


def options_as(options: Mapping[str, Any], kind: type[T]) -> T:
    """Return the options of a source as a type. Raises: BadServingSetting: they do not fit."""
    try:
        return read_as(dict(options), kind)
    except msgspec.ValidationError as exc:
        place, reason = mistake_of(exc)
        path = f"features.options{place.removeprefix('$')}"
        raise BadServingSetting(path=path, reason=reason) from exc


def key_of(ids: Ids, names: Sequence[str]) -> tuple[str, ...] | FeatureFault:
    """Return the texts of the ids that a source looks up; numbers are as they are written."""
    texts = []
    for name in names:
        value = ids.get(name)
        if value is None or isinstance(value, bool) or value == "":
            return FeatureFault(retcode=ServingCode.FEATURES, reason=f"the id {name} is missing")
        if isinstance(value, float):
            if not value.is_integer():
                reason = f"the id {name} is neither text nor a whole number"
                return FeatureFault(retcode=ServingCode.FEATURES, reason=reason)
            value = int(value)
        texts.append(str(value))
    return tuple(texts)


def not_found() -> FeatureFault:
    """Return the fault of an id without features."""
    return FeatureFault(retcode=ServingCode.NO_FEATURES, reason="there are no features for the id")
