"""Step 8: The queue: what jobs need, and memory."""

from __future__ import annotations

from typing import Final

from fedflow.store.schema import Schema

_NUMBER: Final = "BIGINT NOT NULL DEFAULT 0"
_COLUMNS: Final = (
    ("t_job", "f_memory", _NUMBER),
    ("t_job", "f_queue_time", _NUMBER),
    ("t_job", "f_denied_time", "BIGINT NULL"),
    ("t_engine_registry", "f_memory", _NUMBER),
    ("t_engine_registry", "f_remaining_memory", _NUMBER),
    ("t_engine_registry", "f_cores_percent", "DOUBLE NOT NULL DEFAULT 1"),
    ("t_schedule_job", "f_need_cores", "INTEGER NOT NULL DEFAULT 0"),
    ("t_schedule_job", "f_need_memory", _NUMBER),
    ("t_schedule_job", "f_queue_time", _NUMBER),
    ("t_schedule_job", "f_ask_time", _NUMBER),
    ("t_schedule_job", "f_look_time", _NUMBER),
    ("t_schedule_job", "f_deadline_time", _NUMBER),
    ("t_schedule_site", "f_open", "TINYINT NOT NULL DEFAULT 0"),
)


def up(schema: Schema) -> None:
    """Add what the queue is ordered by and chosen from, and memory beside cores.

    What older jobs need is 0 until they are looked at: their look time has passed.
    """
    for table, column, kind in _COLUMNS:
        schema.add_column(table, column, kind)
    with schema.at_once():
        schema.run("UPDATE t_job SET f_queue_time = f_create_time WHERE f_queue_time = 0", ())
        schema.run(
            "UPDATE t_schedule_job SET f_queue_time = COALESCE(f_rerun_time, f_create_time) "
            "WHERE f_queue_time = 0",
            (),
        )
        schema.run(
            "UPDATE t_schedule_site SET f_open = 1 WHERE f_open = 0 AND f_job_id IN "
            "(SELECT f_job_id FROM t_schedule_job "
            "WHERE f_status IN ('ready', 'waiting', 'running'))",
            (),
        )
    schema.add_index(
        "t_schedule_job",
        (
            "f_status", "f_priority DESC", "f_queue_time", "f_job_id", "f_need_cores",
            "f_need_memory", "f_ask_time",
        ),
    )  # fmt: skip
    schema.add_index("t_schedule_job", ("f_status", "f_queue_time", "f_job_id"))
    schema.add_index("t_schedule_job", ("f_status", "f_look_time"))
    schema.add_index("t_schedule_job", ("f_status", "f_deadline_time"))
    schema.add_index("t_schedule_site", ("f_open", "f_party_id", "f_job_id"))
    schema.add_index("t_schedule_site", ("f_open", "f_phase", "f_party_id", "f_job_id"))
    schema.add_index("t_job", ("f_resource_in_use", "f_denied_time"))
    schema.add_index("t_job", ("f_status", "f_resource_in_use", "f_job_id"))
