"""Features from several sources, as one row.

    features:
      source: composite
      options:
        sources:
          - {source: mysql, options: {...}}
          - {name: visits, source: redis, options: {..., names: {n7: visits_7d}}, needed: false}

The sources are asked one after the other, each for the items that no one before it failed. An id
that a needed source does not know is an error. Of a source that is not needed, values are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import msgspec

from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.base.values import dataclass
from fedflow.serving.codes import ServingCode
from fedflow.serving.sources.source import (
    FeatureFault,
    FeatureSource,
    FoundFeatures,
    Ids,
    failed_source,
    open_feature_source,
    options_as,
    together,
)


class PartOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the sources."""

    source: str
    options: dict[str, Any] = {}
    name: str | None = None  #: in sentences; None: that of `source`
    needed: bool = True  #: false: an id that it does not know has no values from it


class CompositeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source `composite`."""

    sources: Annotated[list[PartOptions], msgspec.Meta(min_length=1, max_length=16)]


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedSource:
    """A source among others."""

    name: str
    needed: bool
    source: FeatureSource


class CompositeFeatures:
    """The features of several sources."""

    def __init__(self, sources: Sequence[NamedSource], closing: ExitStack) -> None:
        """`closing` closes the sources."""
        self._sources = sources
        self._closing = closing
        self.id_names = frozenset[str]().union(*(one.source.id_names for one in sources))

    def find(self, ids: Sequence[Ids], *, deadline_s: float) -> FoundFeatures:
        """Return the features that all sources have of each item."""
        parts = []
        rows: list[dict[str, Any] | FeatureFault] = [{} for _ in ids]
        for one in self._sources:
            left = [n for n, row in enumerate(rows) if not isinstance(row, FeatureFault)]
            if not left:
                break
            found = one.source.find([ids[n] for n in left], deadline_s=deadline_s)
            parts.append(found)
            for number, more in zip(left, found, strict=True):
                rows[number] = _joined(one, rows[number], more)
        return together(rows, parts)

    def close(self) -> None:
        """Close all sources."""
        self._closing.close()


def _joined(
    one: NamedSource, row: dict[str, Any] | FeatureFault, more: Mapping[str, Any] | FeatureFault
) -> dict[str, Any] | FeatureFault:
    """Return a row with the features of one more source."""
    if isinstance(row, FeatureFault):
        return row
    if isinstance(more, FeatureFault):
        if more.retcode == ServingCode.NO_FEATURES and not one.needed:
            return row
        return FeatureFault(retcode=more.retcode, reason=f"source {one.name}: {more.reason}")
    if twice := row.keys() & more.keys():
        return failed_source(f"source {one.name}: another one has its column {min(twice)}, too")
    return {**row, **more}


def open_source(options: Mapping[str, Any]) -> CompositeFeatures:
    """Open all sources. Raises: BadServingSetting."""
    given = options_as(options, CompositeOptions)
    names = [one.name or one.source for one in given.sources]
    for number, name in enumerate(names):
        if Counter(names)[name] > 1:
            path = f"features.options.sources[{number}].name"
            reason = f"two sources are called {name!r}: give each a name"
            raise BadServingSetting(path=path, reason=reason)
    with ExitStack() as stack:
        opened = []
        for number, (name, one) in enumerate(zip(names, given.sources, strict=True)):
            path = f"features.options.sources[{number}]"
            source = open_feature_source(one.source, one.options, path=path)
            stack.callback(source.close)
            opened.append(NamedSource(name=name, needed=one.needed, source=source))
        return CompositeFeatures(opened, stack.pop_all())
