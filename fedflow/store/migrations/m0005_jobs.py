"""Step 5: Reruns and reuse of tasks, and indexes for lists."""

from __future__ import annotations

from typing import Final

from fedflow.store.codec import from_json, short_text
from fedflow.store.schema import BIG, LONG_NULL, TIME_NULL, Schema, text, text_null

_NUMBER: Final = "INTEGER NOT NULL DEFAULT 0"
_COLUMNS: Final = (
    ("t_job", "f_job_parameters", LONG_NULL),
    ("t_job", "f_train_runtime_conf", LONG_NULL),
    ("t_task", "f_auto_retries", _NUMBER),
    ("t_task", "f_auto_retry_delay", _NUMBER),
    ("t_task", "f_inherited_from", "VARCHAR(64) NOT NULL DEFAULT ''"),
    ("t_schedule_job", "f_rerun_time", TIME_NULL),
    ("t_schedule_task", "f_epoch", _NUMBER),
    ("t_schedule_task", "f_retries", _NUMBER),
    ("t_job", "f_partners", LONG_NULL),
    ("t_job", "f_partners_short", text_null(150)),
    ("t_job", "f_description_short", text_null(150)),
    ("t_task", "f_latest", "TINYINT NOT NULL DEFAULT 1"),
)
_NEWEST_FIRST: Final = ("f_create_time DESC", "f_job_id DESC", "f_role", "f_party_id")
_LISTED: Final = (
    "f_tag", "f_start_time", "f_end_time", "f_elapsed", "f_partners_short", "f_description_short",
)  # fmt: skip


def up(schema: Schema) -> None:
    """Add what reruns, retries and inherited tasks need, and what lists are made from."""
    for table, column, kind in _COLUMNS:
        schema.add_column(table, column, kind)
    _job_lists(schema)
    _task_lists(schema)


def _job_lists(schema: Schema) -> None:
    """Let two indexes hold all that a list filters and orders by, so that it reads no other row."""
    with schema.at_once():
        found = schema.run(
            "SELECT f_job_id, f_role, f_party_id, f_roles, f_description FROM t_job "
            "WHERE f_partners IS NULL",
            (),
        )
        for job_id, role, party_id, roles, description in found:
            every = {party for parties in from_json(roles).values() for party in parties}
            partners = ",".join(sorted(every - {party_id}))
            schema.run(
                "UPDATE t_job SET f_partners = ?, f_partners_short = ?, f_description_short = ? "
                "WHERE f_job_id = ? AND f_role = ? AND f_party_id = ?",
                (
                    partners, short_text(partners), short_text(description), job_id, role, party_id,
                ),
            )  # fmt: skip
    schema.add_index("t_job", (*_NEWEST_FIRST, "f_status", *_LISTED))
    schema.add_index("t_job", ("f_status", *_NEWEST_FIRST, *_LISTED))
    schema.drop_index("t_job", ("f_create_time", "f_job_id"))
    schema.drop_index("t_job", ("f_status", "f_create_time"))


def _task_lists(schema: Schema) -> None:
    """Mark the latest attempts, index them by what lists are ordered by, and count the tasks."""
    with schema.at_once():
        replaced = schema.run(
            "SELECT t.f_number FROM t_task AS t WHERE t.f_latest = 1 AND EXISTS ("
            "SELECT 1 FROM t_task AS newer WHERE newer.f_job_id = t.f_job_id "
            "AND newer.f_task_id = t.f_task_id AND newer.f_role = t.f_role "
            "AND newer.f_party_id = t.f_party_id AND newer.f_task_version > t.f_task_version)",
            (),
        )
        for (number,) in replaced:
            schema.run("UPDATE t_task SET f_latest = 0 WHERE f_number = ?", (number,))
    site = ("f_job_id", "f_role", "f_party_id")
    columns = {"f_job_id": text(64), "f_role": text(16), "f_party_id": text(64), "f_count": BIG}
    schema.table("t_task_count", columns, key=site, clustered=True)
    if not schema.run("SELECT 1 FROM t_task_count LIMIT 1", ()):
        schema.run(
            "INSERT INTO t_task_count (f_job_id, f_role, f_party_id, f_count) "
            "SELECT f_job_id, f_role, f_party_id, COUNT(*) FROM t_task WHERE f_latest = 1 "
            "GROUP BY f_job_id, f_role, f_party_id",
            (),
        )
    newest_first = ("f_latest", "f_create_time", "f_number")
    filters = ("f_role", "f_party_id", "f_status", "f_component_name")
    schema.add_index("t_task", (*newest_first, *filters))
    for column in ("f_start_time", "f_end_time", "f_elapsed", "f_job_id", "f_task_version"):
        schema.add_index("t_task", ("f_latest", column, "f_number"))
