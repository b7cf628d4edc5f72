"""Step 10: The servers of one party."""

from __future__ import annotations

from fedflow.store.schema import TIME, Schema, text


def up(schema: Schema) -> None:
    """Add the table of servers, and which of them runs a task."""
    schema.table(
        "t_server_instance",
        {
            "f_instance_id": text(64),
            "f_host": text(255),
            "f_http_address": text(300),
            "f_grpc_address": text(300),
            "f_version": text(32),
            "f_shared_mark": text(64),
            "f_secret": text(64),
            "f_state": text(16),
            "f_start_time": TIME,
            "f_beat_time": TIME,
        },
        key=("f_instance_id",),
    )
    schema.add_column("t_task", "f_instance_id", "VARCHAR(64) NOT NULL DEFAULT ''")
