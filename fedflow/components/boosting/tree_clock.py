"""How far a tree has come, and how long its levels took at this party."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fedflow.components.samples.progress import part_of
from fedflow.components.training.part_seconds import PartSeconds
from fedflow.sdk import Context


class TreeClock:
    """Shows the progress of one tree level by level, and records their seconds."""

    def __init__(self, ctx: Context, number: int, *, first: int, trees: int, levels: int) -> None:
        """`number` is that of the tree, from 0; a run grows `trees` of them from `first` on."""
        self._ctx = ctx
        self._number = number
        self._levels = levels
        done = number - first
        self._show = part_of(ctx, start=done / trees, end=(done + 1) / trees)
        self._seconds = PartSeconds()
        self.parts = PartSeconds()

    @contextmanager
    def level(self, depth: int) -> Iterator[None]:
        """Count the time of the block as that of the level at `depth`, from 0."""
        with self._seconds.of(f"level_{depth}"):
            yield
        self._show((depth + 1) / self._levels)

    @contextmanager
    def tree(self) -> Iterator[None]:
        """Count the time of the block as that of the tree, and record all."""
        with self._seconds.of("tree"):
            yield
        self._seconds.record(self._ctx, self._number, metric_type="TREE_SECONDS")
