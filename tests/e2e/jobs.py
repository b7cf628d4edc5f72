"""The jobs of the end-to-end tests: the shipped example, and small ones of `Empty` components."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.e2e.servers import DATA, GUEST_ID, HOST_ID, ROOT, Pair

EXAMPLE = ROOT / "examples" / "hetero_lr"
NAMES = {GUEST_ID: "breast_hetero_guest", HOST_ID: "breast_hetero_host"}
HORIZONTAL_NAMES = {GUEST_ID: "breast_homo_guest", HOST_ID: "breast_homo_host"}

Json = dict[str, Any]


def upload_data(pair: Pair, names: Mapping[str, str] = NAMES) -> None:
    """Upload to each party's own server its own file; `names` are tables by party."""
    for party, table in ((pair.guest, names[GUEST_ID]), (pair.host, names[HOST_ID])):
        view = party.upload(DATA / f"{table}.csv", table, drop=True)
        assert view.succeeded, view


def example(*, iterations: int = 10, key_bits: int = 1024) -> tuple[Json, Json]:
    """Return DSL and conf of the shipped example: full batch, stored order, no early stop."""
    dsl = json.loads((EXAMPLE / "dsl.json").read_text())
    conf = json.loads((EXAMPLE / "conf.json").read_text())
    learner = conf["component_parameters"]["common"]["hetero_lr_0"]
    learner.update(max_iter=iterations, batch_size=-1, tol=0.0)
    learner["encrypt_param"]["key_length"] = key_bits
    return dsl, conf


def reads(conf: Json, role: str, table: str) -> Json:
    """Let the reader of a role read another table."""
    conf["component_parameters"]["role"][role]["0"]["reader_0"]["table"]["name"] = table
    return conf


def empty_job(*steps: Json, **common: Any) -> tuple[Json, Json]:
    """Return a chain of `Empty` components at guest and host; each step is its parameters."""
    components: Json = {}
    for number, _ in enumerate(steps):
        components[f"empty_{number}"] = {"module": "Empty", "output": {"data": ["data"]}}
        if number:
            components[f"empty_{number}"]["input"] = {
                "data": {"data": [f"empty_{number - 1}.data"]}
            }
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(GUEST_ID)},
        "role": {"guest": [int(GUEST_ID)], "host": [int(HOST_ID)]},
        "job_parameters": {
            "common": {"job_type": "train", "task_cores": 1, "task_parallelism": 1, **common}
        },
        "component_parameters": {
            "common": {f"empty_{number}": step for number, step in enumerate(steps)}
        },
    }
    return {"components": components}, conf
