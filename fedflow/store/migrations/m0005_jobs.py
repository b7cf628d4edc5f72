"""Step 5: Reruns and reuse of tasks, and indexes for lists."""

from __future__ import annotations

from fedflow.store.schema import Schema


def up(schema: Schema) -> None:
    """Make the tables."""
