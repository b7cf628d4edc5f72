"""Step 2: Models, their tags and checkpoints."""

from __future__ import annotations

from typing import Final

from fedflow.store.schema import BIG, FLAG, INT, LONG, TIME, Schema, text, text_null

_SHARE: Final = {
    "f_role": text(16),
    "f_party_id": text(64),
    "f_model_id": text(512),
    "f_model_version": text(64),
}
_KEY: Final = ("f_role", "f_party_id", "f_model_id", "f_model_version")
_PARTS: Final = {
    "f_meta_name": text(200),
    "f_meta_sha256": text(64),
    "f_meta_sha1": text(40),
    "f_meta_size": BIG,
    "f_param_name": text(200),
    "f_param_sha256": text(64),
    "f_param_sha1": text(40),
    "f_param_size": BIG,
}
_BY_DIGEST: Final = (("f_meta_sha256",), ("f_param_sha256",))


def up(schema: Schema) -> None:
    """Make the tables."""
    schema.table(
        "t_machine_learning_model_info",
        {
            **_SHARE,
            "f_job_id": text(64),
            "f_roles": LONG,
            "f_initiator_role": text(16),
            "f_initiator_party_id": text(64),
            "f_train_dsl": LONG,
            "f_train_runtime_conf": LONG,
            "f_runtime_conf_on_party": LONG,
            "f_inference_dsl": LONG,
            "f_fate_version": text(32),
            "f_parent": FLAG,
            "f_parent_info": LONG,
            "f_size": BIG,
            "f_loaded_times": INT,
            "f_imported": FLAG,
            "f_archive_sha256": text_null(100),
            "f_archive_from_ip": text_null(100),
            "f_ready": FLAG,
            "f_create_time": TIME,
            "f_update_time": TIME,
        },
        key=_KEY,
        indexes=(
            ("f_model_version",),
            ("f_job_id",),
            ("f_create_time",),
            ("f_ready", "f_create_time"),
        ),
    )
    schema.table(
        "t_pipeline_component_meta",
        {
            **_SHARE,
            "f_component_name": text(100),
            "f_component_module_name": text(200),
            "f_model_alias": text(100),
            **_PARTS,
            "f_run_parameters": LONG,
            "f_create_time": TIME,
        },
        key=(*_KEY, "f_component_name"),
        indexes=(("f_model_version",), *_BY_DIGEST),
    )
    schema.table(
        "t_model_checkpoint",
        {
            **_SHARE,
            "f_component_name": text(100),
            "f_step_index": INT,
            "f_step_name": text(100),
            "f_task_version": BIG,
            "f_model_alias": text(100),
            **_PARTS,
            "f_create_time": TIME,
        },
        key=(*_KEY, "f_component_name", "f_step_index"),
        indexes=_BY_DIGEST,
    )
    schema.table(
        "t_tags",
        {"f_name": text(100), "f_desc": LONG, "f_create_time": TIME, "f_update_time": TIME},
        key=("f_name",),
        numbered="f_id",
    )
    schema.table(
        "t_model_tag",
        {"f_m_id": text(64), "f_t_id": BIG, "f_create_time": TIME},
        key=("f_m_id", "f_t_id"),
        numbered="f_id",
        indexes=(("f_t_id",),),
    )
