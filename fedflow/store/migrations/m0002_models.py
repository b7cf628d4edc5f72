"""Step 2: Models, their tags and checkpoints."""

from __future__ import annotations

from fedflow.store.schema import Schema


def up(schema: Schema) -> None:
    """Make the tables."""
