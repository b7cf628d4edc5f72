"""Writes DSL and conf of longer jobs from one line per component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedflow.domain.site import Site
from tests.e2e.jobs import NAMES, Json
from tests.e2e.servers import GUEST_ID, HOST_ID, Pair


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One component: its inputs as `component.port`, and parameters at all, at guest, at host."""

    module: str
    data: Mapping[str, Sequence[str]] = field(default_factory=dict)  #: by port
    model: Sequence[str] = ()
    isometric: Sequence[str] = ()
    out: Sequence[str] = ("data",)
    cache: bool = False
    params: Json = field(default_factory=dict)
    guest: Json = field(default_factory=dict)
    host: Json = field(default_factory=dict)


def reader(names: Mapping[str, str] = NAMES) -> Step:
    """Return a reader of tables by party, of the uploaded breast-cancer tables if none are given"""
    tables = {
        party: {"table": {"name": name, "namespace": "experiment"}} for party, name in names.items()
    }
    return Step(module="Reader", guest=tables[GUEST_ID], host=tables[HOST_ID])


def transform(source: str = "reader_0.data") -> Step:
    """Return the DataTransform of these tables."""
    return Step(
        module="DataTransform",
        data={"data": [source]},
        guest={"with_label": True, "label_name": "y", "label_type": "int"},
        host={"with_label": False},
    )


def pipeline(steps: Mapping[str, Step], *, arbiter: bool = False) -> tuple[Json, Json]:
    """Return DSL and conf of a training job of guest and host; the host's party is arbiter."""
    components: Json = {}
    parameters: dict[str, Json] = {"common": {}, "guest": {}, "host": {}}
    for name, step in steps.items():
        inputs: Json = {}
        if step.data:
            inputs["data"] = {port: list(refs) for port, refs in step.data.items()}
        if step.model:
            inputs["model"] = list(step.model)
        if step.isometric:
            inputs["isometric_model"] = list(step.isometric)
        components[name] = {
            "module": step.module,
            **({"input": inputs} if inputs else {}),
            "output": {
                "data": list(step.out),
                "model": ["model"],
                **({"cache": ["cache"]} if step.cache else {}),
            },
        }
        own: dict[str, Any] = {"common": step.params, "guest": step.guest, "host": step.host}
        for place, values in own.items():
            if values:
                parameters[place][name] = values
    role: Json = {"guest": [int(GUEST_ID)], "host": [int(HOST_ID)]}
    if arbiter:
        role["arbiter"] = [int(HOST_ID)]
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(GUEST_ID)},
        "role": role,
        "job_parameters": {"common": {"job_type": "train"}},
        "component_parameters": {
            "common": parameters["common"],
            "role": {"guest": {"0": parameters["guest"]}, "host": {"0": parameters["host"]}},
        },
    }
    return {"components": components}, conf


def submitted(pair: Pair, dsl: Json, conf: Json) -> Json:
    """Submit a job; return its id as `job_id`, and the names of its model."""
    sent = pair.guest.client.submit(dsl, conf)
    return {
        "job_id": sent.job_id,
        "model_id": sent.model_id,
        "model_version": sent.model_version,
    }


def stored_steps(pair: Pair, job: Json, component: str, site: Site) -> list[int]:
    """Return the steps of which a site has checkpoints; `job` is what `submitted` returned."""
    names = {name: job[name] for name in ("model_id", "model_version")}
    share = {"role": site.role.value, "party_id": site.party_id, "component_name": component}
    found = pair.of(site).post("/v1/checkpoint/list", {**names, **share}).get("data") or ()
    return [int(row["step_index"]) for row in found]


def attempts(pair: Pair, job_id: str) -> dict[str, int]:
    """Return the number of the last attempt of each component, from 0."""
    tasks = pair.guest.post("/v1/job/task/query", {"job_id": job_id})["data"]
    return {task["f_component_name"]: task["f_task_version"] for task in tasks}
