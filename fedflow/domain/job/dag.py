"""The directed acyclic graph of a job's components."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from fedflow.base.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Dag:
    """Component names in declaration order, and edges (upstream, downstream).

    Repeated edges count once. Everything else is computed at construction, reading is a look-up.
    Raises: ValueError: a name is given twice, an edge has an unknown end, or there is a cycle.
    """

    names: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    order: tuple[str, ...] = field(init=False, compare=False)
    """Every component after those it depends on; among the possible ones the first declared."""
    levels: tuple[tuple[str, ...], ...] = field(init=False, compare=False, repr=False)
    """Components by depth (longest way from a source), each level in declaration order."""
    _upstream: Mapping[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    _downstream: Mapping[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    _depth: Mapping[str, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        names = tuple(self.names)
        index = {name: i for i, name in enumerate(names)}
        if len(index) != len(names):
            raise ValueError("a component is named twice")
        unknown = sorted({end for edge in self.edges for end in edge if end not in index})
        if unknown:
            raise ValueError(f"edges name unknown components: {', '.join(unknown)}")
        edges = tuple(sorted(set(self.edges), key=lambda edge: (index[edge[0]], index[edge[1]])))
        upstream = _neighbours(names, ((down, up) for up, down in edges))
        downstream = _neighbours(names, edges)
        order = _order(names, upstream, downstream=downstream, index=index)
        if len(order) < len(names):
            raise ValueError(f"there is a cycle: {'->'.join(find_cycle(names, edges) or ())}")
        depth = _depths(order, upstream)
        values = {
            "names": names,
            "edges": edges,
            "order": order,
            "levels": _levels(names, depth),
            "_upstream": upstream,
            "_downstream": downstream,
            "_depth": depth,
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def upstream(self, name: str) -> tuple[str, ...]:
        """Return the components that `name` takes input from directly, in declaration order."""
        return self._upstream[name]

    def downstream(self, name: str) -> tuple[str, ...]:
        """Return the components that take input from `name` directly, in declaration order."""
        return self._downstream[name]

    def depth(self, name: str) -> int:
        """Return the number of edges on the longest way from a source to `name`."""
        return self._depth[name]

    def ancestors(self, name: str) -> frozenset[str]:
        """Return all components on which one depends, near or far."""
        reached: set[str] = set()
        stack = [name]
        while stack:
            new = [up for up in self.upstream(stack.pop()) if up not in reached]
            reached.update(new)
            stack.extend(new)
        return frozenset(reached)

    def descendants(self, *names: str) -> tuple[str, ...]:
        """Return all components that depend on one of `names`, near or far, in topological order.

        A name is itself among the result only if it depends on another one of them.
        """
        reached: set[str] = set()
        stack = list(names)
        while stack:
            new = [down for down in self._downstream[stack.pop()] if down not in reached]
            reached.update(new)
            stack.extend(new)
        return tuple(name for name in self.order if name in reached)


def find_cycle(names: Sequence[str], edges: Iterable[tuple[str, str]]) -> tuple[str, ...] | None:
    """Return one cycle as (a, b, ..., a), the same one each time, or None if there is none."""
    downstream = _neighbours(names, edges)
    done: set[str] = set()
    for start in names:
        if start in done:
            continue
        way: dict[str, None] = {start: None}  # names on the way from `start`, in order
        branches = [iter(downstream[start])]
        while branches:
            down = next(branches[-1], None)
            if down is None:
                branches.pop()
                done.add(way.popitem()[0])
            elif down in way:
                passed = list(way)
                return (*passed[passed.index(down) :], down)
            elif down not in done:
                way[down] = None
                branches.append(iter(downstream[down]))
    return None


def _neighbours(
    names: Iterable[str], pairs: Iterable[tuple[str, str]]
) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {name: [] for name in names}
    for name, neighbour in pairs:
        found[name].append(neighbour)
    return {name: tuple(neighbours) for name, neighbours in found.items()}


def _order(
    names: Sequence[str],
    upstream: Mapping[str, tuple[str, ...]],
    *,
    downstream: Mapping[str, tuple[str, ...]],
    index: Mapping[str, int],
) -> tuple[str, ...]:
    """Kahn's algorithm; of the components that could come next, the first declared comes next."""
    missing = {name: len(upstream[name]) for name in names}
    ready = [index[name] for name in names if not missing[name]]  # ascending, so a heap already
    order: list[str] = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(name)
        for down in downstream[name]:
            missing[down] -= 1
            if not missing[down]:
                heapq.heappush(ready, index[down])
    return tuple(order)


def _depths(order: Sequence[str], upstream: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = 1 + max((depth[up] for up in upstream[name]), default=-1)
    return depth


def _levels(names: Sequence[str], depth: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    levels: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for name in names:
        levels[depth[name]].append(name)
    return tuple(tuple(level) for level in levels)
