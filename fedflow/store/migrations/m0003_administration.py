"""Step 3: Permissions, site keys, services."""

from __future__ import annotations

from fedflow.store.schema import INT, LONG, TIME, Schema, text


def up(schema: Schema) -> None:
    """Make the tables."""
    schema.table(
        "t_permission",
        {
            "f_party_id": text(64),
            "f_role": text(16),
            "f_kind": text(16),
            "f_name": text(200),
            "f_namespace": text(200),
            "f_create_time": TIME,
        },
        key=("f_party_id", "f_role", "f_kind", "f_name", "f_namespace"),
    )
    schema.table(
        "t_site_key_info",
        {
            "f_party_id": text(64),
            "f_key_name": text(10),
            "f_key": LONG,
            "f_update_time": TIME,
        },
        key=("f_party_id", "f_key_name"),
    )
    schema.table(
        "t_server_registry_info",
        {
            "f_server_name": text(30),
            "f_host": text(255),
            "f_port": INT,
            "f_protocol": text(10),
            "f_update_time": TIME,
        },
        key=("f_server_name",),
    )
    schema.table(
        "t_service_registry_info",
        {
            "f_server_name": text(30),
            "f_service_name": text(100),
            "f_url": text(2000),
            "f_method": text(10),
            "f_params": LONG,
            "f_data": LONG,
            "f_headers": LONG,
            "f_update_time": TIME,
        },
        key=("f_server_name", "f_service_name"),
    )
