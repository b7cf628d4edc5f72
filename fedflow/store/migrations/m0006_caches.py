"""Step 6: Caches of components."""

from __future__ import annotations

from fedflow.store.schema import BIG, LONG, TIME, Schema, text, text_null


def up(schema: Schema) -> None:
    """Make the table."""
    schema.table(
        "t_cache_record",
        {
            "f_cache_key": text(64),
            "f_job_id": text(64),
            "f_component_name": text(100),
            "f_task_version": BIG,
            "f_role": text(16),
            "f_party_id": text(64),
            "f_cache_name": text(100),
            "f_tables": LONG,
            "f_meta": LONG,
            "f_private": LONG,
            "f_same_as": text_null(64),
            "f_create_time": TIME,
        },
        key=(
            "f_job_id", "f_component_name", "f_task_version", "f_role", "f_party_id",
            "f_cache_name",
        ),
        indexes=(("f_cache_key",),),
    )  # fmt: skip
