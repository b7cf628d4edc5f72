"""Step 4: Sources of tables: connectors, binding, provenance."""

from __future__ import annotations

from fedflow.store.schema import LONG, LONG_NULL, TIME, Schema, text


def up(schema: Schema) -> None:
    """Add what bound and disabled tables need, and ways to find who uses a table."""
    for column, kind in (
        ("f_engine", f"{text(100)} DEFAULT 'STANDALONE'"),
        ("f_source", LONG_NULL),
        ("f_disable", "TINYINT NOT NULL DEFAULT 0"),
        ("f_extra", LONG_NULL),
    ):
        schema.add_column("t_storage_table_meta", column, kind)
    schema.add_index("t_storage_table_meta", ("f_address",))
    schema.add_index("t_storage_table_meta", ("f_namespace",))
    schema.add_index("t_tracking_output_data_info", ("f_table_name",))
    schema.table(
        "t_storage_connector",
        {
            "f_name": text(100),
            "f_engine": text(100),
            "f_connector_info": LONG,
            "f_create_time": TIME,
        },
        key=("f_name",),
    )
