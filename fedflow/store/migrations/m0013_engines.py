"""Step 13: What waiting jobs need of a Spark cluster."""

from __future__ import annotations

from fedflow.store.schema import Schema

_QUEUE = ("f_status", "f_priority DESC", "f_queue_time", "f_job_id", "f_need_cores")


def up(schema: Schema) -> None:
    """Let jobs need cores of a second engine; what the queue chooses from stays in one index.

    Shares without an engine are of the server's own machine, as all were.
    """
    schema.add_column("t_schedule_job", "f_need_spark", "INTEGER NOT NULL DEFAULT 0")
    schema.drop_index("t_schedule_job", (*_QUEUE, "f_need_memory", "f_ask_time"))  # of its name
    schema.add_index("t_schedule_job", (*_QUEUE, "f_need_memory", "f_need_spark", "f_ask_time"))
