"""Step 4: Sources of tables: connectors, binding, provenance."""

from __future__ import annotations

from fedflow.store.schema import Schema


def up(schema: Schema) -> None:
    """Make the tables."""
