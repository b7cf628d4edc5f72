"""Step 12: Where the rows of a table are, if not in a folder of the table root."""

from __future__ import annotations

from fedflow.store.schema import LONG_NULL, Schema


def up(schema: Schema) -> None:
    """Add the address of bound tables and of those that were made on Spark."""
    schema.add_column("t_storage_table_meta", "f_storage", LONG_NULL)
