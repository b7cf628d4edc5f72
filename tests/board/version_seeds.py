"""Versions of models for tests of the board, put straight into a server's store."""

from __future__ import annotations

from typing import Any

from fedflow.domain.models.model import (
    Checkpoint,
    ModelComponent,
    ModelKey,
    ModelVersion,
    canonical_json,
    part_of,
)
from fedflow.domain.site import Site
from tests.board.places import Place
from tests.board.seeds import GUEST, HOST, START_MS

MODEL_ID = "guest-9999#host-10000#model"
DSL: dict[str, Any] = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "data_transform_0": {
            "module": "DataTransform",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "hetero_lr_0": {
            "module": "HeteroLR",
            "input": {"data": {"train_data": ["data_transform_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
    }
}
CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
    "job_parameters": {"common": {"job_type": "train"}},
    "component_parameters": {
        "common": {"hetero_lr_0": {"max_iter": 3}},
        "role": {
            "guest": {"0": {"data_transform_0": {"label_name": "guests_own_label"}}},
            "host": {"0": {"data_transform_0": {"with_label": False}}},
        },
    },
}


def version(number: int, site: Site = GUEST, **changes: Any) -> ModelVersion:
    """Return one site's share of a trained version."""
    name = f"2026112011{number:014d}"
    made: dict[str, Any] = {
        "key": ModelKey(site=site, model_id=MODEL_ID, model_version=name),
        "job_id": name,
        "roles": {"guest": ["9999"], "host": ["10000"]},
        "initiator": GUEST,
        "train_dsl": DSL,
        "train_conf": CONF,
        "conf_on_party": {"job_parameters": {}},
        "fate_version": "1.11.4",
        "created_ms": START_MS + number * 1000,
        "updated_ms": START_MS + number * 1000,
        "size_bytes": 4096,
    }
    return ModelVersion(**{**made, **changes})


def put_version(
    place: Place, made: ModelVersion, *, weights: dict[str, float] | None = None
) -> None:
    """Store a share with the model of a linear regression."""
    given = weights or {"x0": 0.5, "x1": -1.25}
    with place.store.transaction() as tx:
        tx.models.put(made)
        tx.models.put_component(component(place, made.key, weights=given))


def component(place: Place, key: ModelKey, *, weights: dict[str, float]) -> ModelComponent:
    """Return the model of `hetero_lr_0`, whose contents are stored."""
    param = {"weight": weights, "intercept": 0.25, "iters": 3, "is_converged": True}
    meta, content = canonical_json({"max_iter": 3}), canonical_json(param)
    blobs = place.services.models.repository._blobs
    for one in (meta, content):
        blobs.put(one)
    return ModelComponent(
        key=key,
        component="hetero_lr_0",
        module="HeteroLR",
        alias="model",
        meta=part_of("HeteroLogisticRegressionMeta", meta),
        param=part_of("HeteroLogisticRegressionParam", content),
        run_parameters={"max_iter": 3, "db_password": "hunter2"},
        created_ms=START_MS,
    )


def put_checkpoints(place: Place, key: ModelKey, count: int) -> None:
    """Store checkpoints of `hetero_lr_0`."""
    of = component(place, key, weights={"x0": 0.125})
    with place.store.transaction() as tx:
        for step in range(count):
            tx.models.put_checkpoint(
                Checkpoint(
                    key=key, component="hetero_lr_0", attempt=0, alias="model", step_index=step,
                    step_name=f"round_{step}", meta=of.meta, param=of.param, created_ms=START_MS,
                )
            )  # fmt: skip


def put_everywhere(place: Place, number: int, **options: Any) -> ModelVersion:
    """Store the shares of guest and host; return the guest's."""
    for site in (GUEST, HOST):
        put_version(place, version(number, site), **options)
    return version(number)
