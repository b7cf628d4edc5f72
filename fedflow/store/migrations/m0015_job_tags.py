"""Step 15: Tags of jobs."""

from __future__ import annotations

from fedflow.store.schema import TIME, Schema, text


def up(schema: Schema) -> None:
    """Make the table of tags; and let it be found who uses a table."""
    schema.table(
        "t_job_tag",
        {"f_job_id": text(64), "f_name": text(50), "f_create_time": TIME},
        key=("f_job_id", "f_name"),
        clustered=True,
        indexes=(("f_name", "f_job_id"),),
    )
    schema.add_index("t_tracking_output_data_info", ("f_table_name",))
