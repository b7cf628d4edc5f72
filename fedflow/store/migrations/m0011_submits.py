"""Step 11: What makes a submit safe to repeat, and results found again."""

from __future__ import annotations

from fedflow.store.schema import LONG, TIME, Schema, text, text_null


def up(schema: Schema) -> None:
    """Make the table of idempotency keys; let scheduled tasks be found by cache key."""
    schema.table(
        "t_submit_key",
        {
            "f_key": text(255),
            "f_digest": text(64),
            "f_job_id": text(64),
            "f_warnings": LONG,
            "f_create_time": TIME,
        },
        key=("f_key",),
        indexes=(("f_create_time",),),
    )
    schema.add_column("t_schedule_task", "f_cache_key", text_null(64))
    schema.add_column("t_schedule_task", "f_inherited_from", "VARCHAR(64) NOT NULL DEFAULT ''")
    schema.add_index("t_schedule_task", ("f_cache_key", "f_job_id"))
