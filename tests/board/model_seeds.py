"""Jobs whose components stored real models and tables, in the store of a test's server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedflow.domain.records import JobKey, OutputTable, StoredModel, TableRecord, TaskKey
from fedflow.domain.site import Site
from fedflow.sdk import TableKind, TableSchema
from fedflow.testing.tables import local_store
from tests.board.places import Place
from tests.board.real_models import Made
from tests.board.seeds import START_MS, dsl, job, job_id, put, put_metrics, task

COMPONENT = "model_0"


def put_model(place: Place, number: int, made: Made) -> str:
    """Put a job with one component into the store, at all sites that have a share of its model.

    Returns the job's id.
    """
    for site, model in made.models.items():
        add_share(
            place, number, site, made.module,
            param_name=model.param_name, param=model.param, meta=model.meta,
            metrics=made.metrics[site],
        )  # fmt: skip
    return job_id(number)


def add_share(
    place: Place, number: int, site: Site, module: str, *, param_name: str, param: Any,
    meta: Any = None, metrics: Any = (), component: str = COMPONENT,
) -> None:  # fmt: skip
    """Put one site's share of a job with one component that stored a model."""
    of = job(number, dsl=dsl({component: (module, ())}))
    of = replace(of, key=JobKey(job_id=of.key.job_id, site=site))
    own = task(of, component, module)
    put(place.store, of, own)
    stored = StoredModel(
        key=own.key, alias="model", meta_name="Meta", param_name=param_name,
        meta=dict(meta or {}), param=param,
    )  # fmt: skip
    with place.store.transaction() as tx:
        tx.tracking.put_model(stored, now_ms=START_MS)
    put_metrics(place.store, own, *metrics)


def add_attempts(place: Place, number: int, storing: Mapping[int, float], count: int) -> None:
    """Put a job of the guest with one component that ran `count` times; some attempts stored a
    model with this weight.
    """
    of = job(number, dsl=dsl({COMPONENT: ("HeteroLR", ())}))
    first = task(of, COMPONENT, "HeteroLR")
    tasks = [replace(first, key=replace(first.key, version=version)) for version in range(count)]
    put(place.store, of, *tasks)
    with place.store.transaction() as tx:
        for version, weight in storing.items():
            stored = StoredModel(
                key=tasks[version].key, alias="model", meta_name="Meta",
                param_name="HeteroLogisticRegressionParam", meta={},
                param={"weight": {"x0": weight}, "header": ["x0"], "intercept": 0.0},
            )  # fmt: skip
            tx.tracking.put_model(stored, now_ms=START_MS)


def model_path(number: int, site: Site, tab: str = "model", component: str = COMPONENT) -> str:
    """Return the path of a component's tab."""
    return (
        f"/board/jobs/{job_id(number)}/{site.role.value}/{site.party_id}"
        f"/components/{component}/{tab}"
    )


def stored_table(
    place: Place, namespace: str, name: str, columns: Mapping[str, Any], **changes: Any
) -> TableRecord:
    """Write a real table below the server's table root, name it in its store, and return it."""
    names = list(columns)
    label = "y" if "y" in names else None
    schema = TableSchema(
        kind=TableKind.INSTANCES, id=names[0], label=label,
        columns=tuple(n for n in names[1:] if n != "y"),
    )  # fmt: skip
    ordered = [schema.id, *(["y"] if label else []), *schema.columns]
    with local_store(place.home / "tables").create(schema) as writer:
        writer.write(pa.table({n: columns[n] for n in ordered}))
        made = writer.close()
    entry: TableRecord = made.entry  # type: ignore[attr-defined]
    record = replace(entry, namespace=namespace, name=name, **changes)
    with place.store.transaction() as tx:
        tx.tables.put(record)
    return record


def put_output(
    place: Place, number: int, site: Site, table: TableRecord, *, data_name: str = "data",
    component: str = "dataio_0", position: int = 0, version: int = 0,
) -> None:  # fmt: skip
    """Let a table be an output of an attempt of a component of a job."""
    key = TaskKey(job_id=job_id(number), component=component, version=version, site=site)
    output = OutputTable(
        key=key, data_name=data_name, position=position, namespace=table.namespace, name=table.name
    )
    with place.store.transaction() as tx:
        tx.tracking.put_output(output, now_ms=START_MS)


def table_root(place: Place) -> Path:
    """Return where the server's tables are."""
    return place.home / "tables"
