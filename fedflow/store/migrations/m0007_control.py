"""Step 7: Holding jobs, choosing components, per-component options."""

from __future__ import annotations

from fedflow.store.schema import LONG_NULL, TIME_NULL, Schema


def up(schema: Schema) -> None:
    """Add how far people let a job go, retries that cost nothing, and which inputs are absent."""
    schema.add_column("t_schedule_job", "f_control", LONG_NULL)
    schema.add_column("t_schedule_job", "f_held_time", TIME_NULL)
    schema.add_column("t_schedule_task", "f_infrastructure_retries", "INTEGER NOT NULL DEFAULT 0")
    schema.add_column("t_task", "f_absent", LONG_NULL)
