"""Step 16: Lists of tables."""

from __future__ import annotations

from fedflow.store.schema import Schema

_SEEN = ("f_namespace", "f_name", "f_origin", "f_disable", "f_count")


def up(schema: Schema) -> None:
    """Let tables be listed, newest first, without a look at their rows, which hold previews."""
    schema.add_index("t_storage_table_meta", ("f_create_time", *_SEEN))
