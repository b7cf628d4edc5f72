"""What a feature source does, and how one is opened by its name."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from math import inf
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec

from fedflow.base.decoding import mistake_of, read_as
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.base.values import dataclass
from fedflow.serving.codes import ServingCode
from fedflow.serving.partners.messages import MOST_VERSION, IdValue

GROUP: Final = "fedflow.serving.feature_source"
_BUILT_IN: Final = ("composite", "http", "mysql", "redis", "sqlite", "table")
_PATH: Final = "features"  #: of the section whose options a source reads; its errors name it so
_HINTS: Final = {"redis": "; it comes with fedflow[redis]"}

_TYPES: Final = (float, int, str, bool)  #: of features

Ids = Mapping[str, IdValue]
Validity = Annotated[float, msgspec.Meta(ge=0, le=31_536_000)] | None
"""An option: for how many seconds guests may use again what was found; 0: never."""
T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureFault:
    """Why there are no features for an id."""

    retcode: int  #: 113: there are none; 102: the id cannot be used; 116: the source failed
    reason: str


class FoundFeatures(list[Mapping[str, Any] | FeatureFault]):
    """What a source found, and how long a guest may use again what is computed from it."""

    def __init__(
        self,
        items: Iterable[Mapping[str, Any] | FeatureFault],
        *,
        version: str = "",
        valid_s: float | None = None,
    ) -> None:
        """`version` is that of the features: guests get it and use nothing of another one.

        `valid_s` is in seconds; 0: nothing may be used again; None: the source says nothing.
        Raises: ValueError: the version has more than 200 characters, or the time is none.
        """
        super().__init__(items)
        if len(version) > MOST_VERSION:
            raise ValueError(f"the version of features has {len(version)} characters")
        if valid_s is not None and not 0 <= valid_s < inf:
            raise ValueError(f"{valid_s} is no time for which features are valid")
        self.version = version
        self.valid_s = valid_s


def together(
    items: Iterable[Mapping[str, Any] | FeatureFault],
    parts: Iterable[Sequence[Mapping[str, Any] | FeatureFault]],
) -> FoundFeatures:
    """Return items that were computed from what several look-ups found.

    They are valid as long as the part with the shortest life; another version of a part is another
    version of all.
    """
    known = [part for part in parts if isinstance(part, FoundFeatures)]
    versions = list(dict.fromkeys(part.version for part in known if part.version))
    text = "\n".join(versions)
    if len(versions) > 1:
        text = hashlib.sha256(text.encode()).hexdigest()
    lives = [part.valid_s for part in known if part.valid_s is not None]
    return FoundFeatures(items, version=text, valid_s=min(lives, default=None))


class FeatureSource(Protocol):
    """Finds features by ids. Thread-safe."""

    @property
    def id_names(self) -> frozenset[str]:
        """Return the names of the ids that it looks for; none: whatever it is given."""

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        """Return the features of each item, or why it has none; a missing value has no name there.

        `deadline_s` is a moment of the monotonic clock. A `FoundFeatures` also says how long they
        are valid.
        """

    def close(self) -> None:
        """Give back what the source holds."""


OpenSource = Callable[[Mapping[str, Any]], FeatureSource]


def open_feature_source(
    name: str, options: Mapping[str, Any], *, path: str = _PATH
) -> FeatureSource:
    """Return a source of this package, or of an entry point; `path` is that of the settings.

    The option `names` is that of every source. Raises: BadServingSetting.
    """
    opened = _opener(name, path)
    own = {key: value for key, value in options.items() if key != "names"}
    try:
        names = options_as({"names": options.get("names", {})}, _Names).names
        _check_names(names)
        source = opened(own)
    except BadServingSetting as exc:
        place = str(exc.fields["path"])
        if place.startswith(f"{_PATH}.options"):
            place = path + place.removeprefix(_PATH)
        raise BadServingSetting(path=place, reason=exc.fields["reason"]) from exc
    return RenamedFeatures(source, names) if names else source


def _opener(name: str, path: str) -> OpenSource:
    """Return what opens the source of a name. Raises: BadServingSetting."""
    others = {one.name: one for one in entry_points(group=GROUP)}
    try:
        if name in _BUILT_IN:
            return _built_in(name)
        if name in others:
            loaded: OpenSource = others[name].load()
            return loaded
    except (ImportError, AttributeError) as exc:
        reason = f"{name}: {exc}{_HINTS.get(name, '')}"
        raise BadServingSetting(path=f"{path}.source", reason=reason) from exc
    known = ", ".join(sorted({*_BUILT_IN, *others}))
    reason = f"there is no {name!r}; known are {known}"
    raise BadServingSetting(path=f"{path}.source", reason=reason)


def _built_in(name: str) -> OpenSource:
    """Return what opens a source of this package; libraries of the others are not imported."""
    if name == "composite":
        from fedflow.serving.sources.composite import open_source as open_composite

        return open_composite
    if name == "mysql":
        from fedflow.serving.sources.mysql import open_source as open_mysql

        return open_mysql
    if name == "redis":
        from fedflow.serving.sources.redis import open_source as open_redis

        return open_redis
    if name == "table":
        from fedflow.serving.sources.table import open_source as open_table

        return open_table
    if name == "sqlite":
        from fedflow.serving.sources.sqlite import open_source as open_sqlite

        return open_sqlite
    from fedflow.serving.sources.http import open_source as open_http

    return open_http


class _Names(msgspec.Struct, frozen=True, kw_only=True):
    names: dict[str, str]  #: columns of the source -> columns of the model


def _check_names(names: Mapping[str, str]) -> None:
    twice = [name for name, count in Counter(names.values()).items() if count > 1]
    if twice:
        reason = f"two columns become {twice[0]!r}"
        raise BadServingSetting(path="features.options.names", reason=reason)


class RenamedFeatures:
    """A source whose columns have other names than the model's."""

    def __init__(self, source: FeatureSource, names: Mapping[str, str]) -> None:
        """`names` are the model's by those of the source; others stay as they are."""
        self._source = source
        self._names = names
        self.id_names = source.id_names

    def find(self, ids: Sequence[Ids], *, deadline_s: float) -> FoundFeatures:
        """Return the features of each item by the names of the model."""
        found = self._source.find(ids, deadline_s=deadline_s)
        renamed = (one if isinstance(one, FeatureFault) else self._renamed(one) for one in found)
        return together(renamed, [found])

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _renamed(self, row: Mapping[str, Any]) -> Mapping[str, Any] | FeatureFault:
        renamed = {self._names.get(name, name): value for name, value in row.items()}
        if len(renamed) < len(row):
            return failed_source("two columns of the source have one name of the model")
        return renamed


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


def as_features(columns: Sequence[str], values: Sequence[Any]) -> dict[str, Any] | FeatureFault:
    """Return a row without its missing values; a fault: one has no type of a feature."""
    row = {name: value for name, value in zip(columns, values, strict=True) if value is not None}
    if len(row) > sum(type(value) in _TYPES for value in row.values()):
        name = next(name for name, value in row.items() if type(value) not in _TYPES)
        return failed_source(f"the column {name} has neither numbers nor texts")
    return row


def failed_source(reason: str) -> FeatureFault:
    """Return the fault of an item at which the source failed."""
    return FeatureFault(retcode=ServingCode.SOURCE, reason=reason)


def not_found() -> FeatureFault:
    """Return the fault of an id without features."""
    return FeatureFault(retcode=ServingCode.NO_FEATURES, reason="there are no features for the id")
