"""Step 9: The history of jobs."""

from __future__ import annotations

from fedflow.store.schema import LONG_NULL, TIME, Schema, text


def up(schema: Schema) -> None:
    """Make the table of events. Jobs of an older store have no history before this step."""
    schema.table(
        "t_job_event",
        {
            "f_job_id": text(64),
            "f_time": TIME,
            "f_epoch": "INTEGER NULL",
            "f_subject": text(16),
            "f_role": text(16),
            "f_party_id": text(64),
            "f_component_name": text(100),
            "f_task_version": "BIGINT NULL",
            "f_from": text(16),
            "f_to": text(16),
            "f_reason": LONG_NULL,
        },
        key=("f_number",),
        numbered="f_number",
        indexes=(("f_job_id", "f_number"),),
    )
