"""Step 14: Accounts of the board and the sessions of browsers."""

from __future__ import annotations

from fedflow.store.schema import TIME, Schema, text


def up(schema: Schema) -> None:
    """Make both tables."""
    schema.table(
        "t_account",
        {
            "f_name": text(64),
            "f_role": text(16),
            "f_password": text(255),
            "f_create_time": TIME,
            "f_update_time": TIME,
        },
        key=("f_name",),
    )
    schema.table(
        "t_account_session",
        {
            "f_digest": text(64),
            "f_name": text(64),
            "f_address": text(64),
            "f_create_time": TIME,
            "f_seen_time": TIME,
        },
        key=("f_digest",),
        indexes=(("f_name",),),
    )
