"""Step 3: Permissions, site keys, services."""

from __future__ import annotations

from fedflow.store.schema import Schema


def up(schema: Schema) -> None:
    """Make the tables."""
