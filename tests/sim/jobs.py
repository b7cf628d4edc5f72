"""Random jobs, and the modules that they name."""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar

from fedflow.domain.job.spec import ModuleInfo
from fedflow.domain.site import Role


class FakeCatalog:
    """Modules that do nothing: `Step` runs everywhere, `Remote` at hosts only; `Rounds` takes
    longer, and trains on without absent hosts.
    """

    _modules: ClassVar = {
        "step": ModuleInfo(
            module="Step",
            roles=(Role.GUEST, Role.HOST, Role.ARBITER),
            data_ports=("data",),
            needs_input=False,
            outputs=("data",),
            absence="apart",
        ),
        "rounds": ModuleInfo(
            module="Rounds",
            roles=(Role.GUEST, Role.HOST, Role.ARBITER),
            data_ports=("data",),
            needs_input=False,
            outputs=("data",),
            absence="rounds",
        ),
        "remote": ModuleInfo(
            module="Remote",
            roles=(Role.HOST,),
            data_ports=("data",),
            needs_input=False,
            outputs=("data",),
            absence="apart",
        ),
    }

    def modules(self) -> dict[str, ModuleInfo]:
        return self._modules

    def check(self, module: str, parameters: Any, **_: Any) -> tuple[()]:
        return ()


def random_job(
    rng: Random, parties: tuple[str, ...], *, options: float = 0.0
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a random DAG of one to five components over all parties, and its conf.

    `options` is how likely each of the rarer options is.
    """
    count = rng.randint(1, 5)
    components: dict[str, Any] = {}
    for n in range(count):
        upstream = [f"c{i}" for i in range(n) if rng.random() < 0.5]
        component: dict[str, Any] = {
            "module": "Remote" if rng.random() < 0.2 else "Step",
            "output": {"data": ["data"]},
        }
        if upstream:
            component["input"] = {"data": {"data": [f"{u}.data" for u in upstream]}}
        components[f"c{n}"] = component
    guest, *hosts = parties
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(guest)},
        "role": {
            "guest": [int(guest)],
            "host": [int(h) for h in hosts],
            "arbiter": [int(hosts[0])],
        },
        "job_parameters": {
            "common": random_parameters(rng) | _options(rng, tuple(components), options)
        },
    }
    if (engine := rng.choice((None, None, "SPARK", "STANDALONE"))) is not None:
        conf["job_parameters"]["role"] = {"guest": {"0": {"computing_engine": engine}}}
    return {"components": components}, conf


def elastic_job(rng: Random, parties: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a job that goes on without some of its hosts: rounds, and what is before and behind
    them at each site.
    """
    dsl, conf = random_job(rng, parties)
    components = dsl["components"]
    for name in {rng.choice(tuple(components)), rng.choice(tuple(components))}:
        components[name]["module"] = "Rounds"
    common = conf["job_parameters"]["common"]
    common["timeout"] = 259_200
    common["elastic"] = {
        "min_parties": rng.randint(1, len(parties)),
        "round_deadline_s": rng.choice((1, 20)),
        "rejoin": rng.random() < 0.8,
    }
    return dsl, conf


def random_parameters(rng: Random) -> dict[str, Any]:
    """Return job parameters that a rerun may have too."""
    return {
        "task_cores": rng.choice((1, 2, 4)),
        "task_parallelism": rng.choice((1, 2)),
        "auto_retries": rng.choice((0, 0, 1, 3)),
        "auto_retry_delay": rng.choice((0, 1, 7)),
        "priority": rng.choice((0, 0, -5, 100)),
        "timeout": rng.choice((259_200, 259_200, 600, 30)),
        "computing_engine": rng.choice((None, "STANDALONE", "SPARK")),
    }


def _options(rng: Random, names: tuple[str, ...], likely: float) -> dict[str, Any]:
    """Return job parameters that few jobs have."""

    def by_chance(**options: Any) -> dict[str, Any]:
        return {key: value for key, value in options.items() if rng.random() < likely}

    chosen = by_chance(
        run_to=rng.choice(names),
        step=True,
        reuse=True,
        task_memory=rng.choice((100, 300)),
        federated_status_collect_type="PULL",
        infrastructure_retries=0,
    )
    task_conf = {
        name: by_chance(
            schedule_policy=rng.choice(("all_done", "one_success", "none_failed")),
            timeout=rng.choice((1, 2, 60)),
            auto_retries=rng.choice((0, 2)),
            auto_retry_delay=rng.choice((0, 5)),
            retry_on=["ComponentFailed"],
            task_cores=1,
        )
        for name in names
    }
    return chosen | ({"task_conf": task_conf} if any(task_conf.values()) else {})


def policy_of(conf: Any, component: str) -> str:
    """Return the schedule policy of a component."""
    task_conf = conf["job_parameters"]["common"].get("task_conf", {})
    policy: str = task_conf.get(component, {}).get("schedule_policy", "all_success")
    return policy


def upstream(dsl: Any, component: str) -> set[str]:
    """Return the components whose outputs a component reads."""
    data = dsl["components"][component].get("input", {}).get("data", {})
    return {ref.split(".")[0] for refs in data.values() for ref in refs}
