"""What differs between two versions of a model at one site: documents, metrics, weights.

A value that only one version has is None in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.domain.records import Json

MAX_CHANGES: Final = 10_000  #: values that one part of a difference names
INTERCEPT: Final = "(intercept)"  #: as a column; no column of a table is called so

Change = tuple[Any, Any]  #: old and new value
Changes = Mapping[str, Change]


@dataclass(frozen=True, kw_only=True, slots=True)
class DslDifference:
    """Components that one DSL has and the other has not, and values that differ in both."""

    added: Sequence[str]
    removed: Sequence[str]
    changed: Changes


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelWeights:
    """One component's model, for comparison; `weights` None: it is no linear model."""

    digest: str
    weights: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightDifference:
    """One component's model in both versions: weights per column, or only its digests."""

    digests: Change
    weights: Changes | None


def dsl_difference(old: Json, new: Json) -> DslDifference:
    """Return what differs between two DSLs."""
    before, after = _components(old), _components(new)
    both = [name for name in before if name in after]
    return DslDifference(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=value_difference({n: before[n] for n in both}, {n: after[n] for n in both}),
    )


def value_difference(old: Json, new: Json) -> dict[str, Change]:
    """Return path -> old and new value of what differs in two JSON values; lists count as values.

    At most `MAX_CHANGES` of them, in the order of their paths.
    """
    before, after = dict(_values(old, "")), dict(_values(new, ""))
    changes: dict[str, Change] = {}
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path) and len(changes) < MAX_CHANGES:
            changes[path] = (before.get(path), after.get(path))
    return changes


def weight_difference(
    old: Mapping[str, ModelWeights], new: Mapping[str, ModelWeights]
) -> dict[str, WeightDifference]:
    """Return component -> how its model differs; those with equal contents are left out."""
    found: dict[str, WeightDifference] = {}
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        digests = (before.digest if before else None, after.digest if after else None)
        if digests[0] == digests[1]:
            continue
        weights = None
        linear = [m.weights for m in (before, after) if m is not None]
        if linear and all(w is not None for w in linear):
            weights = value_difference(
                before.weights if before else {}, after.weights if after else {}
            )
        found[name] = WeightDifference(digests=digests, weights=weights)
    return found


def linear_weights(param: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the weights of a stored linear model by column, None if it is none or has none.

    With several classes a column is named `<class>/<column>`.
    """
    result = param.get("one_vs_rest_result")
    if param.get("need_one_vs_rest") and isinstance(result, dict):
        names, parts = result.get("one_vs_rest_classes"), result.get("completed_models")
        if not isinstance(names, list) or not isinstance(parts, list):
            return None
        found: dict[str, float] = {}
        for name, part in zip(names, parts, strict=False):
            weights = _weights(part)
            if weights is None:
                return None
            found.update({f"{name}/{column}": value for column, value in weights.items()})
        return found
    return _weights(param)


def _weights(part: Any) -> dict[str, float] | None:
    weight = part.get("weight") if isinstance(part, dict) else None
    if not isinstance(weight, dict) or not weight or not all(map(_is_number, weight.values())):
        return None
    intercept = part.get("intercept")
    return {**weight, INTERCEPT: intercept} if _is_number(intercept) else dict(weight)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _components(dsl: Json) -> dict[str, Any]:
    given = dsl.get("components") if isinstance(dsl, dict) else None
    return given if isinstance(given, dict) else {}


def _values(value: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Yield the path of each value that is no object with members, and the value."""
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _values(member, f"{path}.{name}" if path else str(name))
    elif path:
        yield path, value
