"""Jobs that FATE accepts although something in them is doubtful, by the unmodified `flow` command.

Each runs to its end and is warned of; strict, it is refused.
"""

from __future__ import annotations

from typing import Any, Final

from tests.clients.conftest import Deployment
from tests.clients.environments import Environment

Json = dict[str, Any]

BINNING: Final[Json] = {
    "method": "OPTIMAL",
    "optimal_binning_param": {"metric_method": "chi-square", "max_bin": 8},
    "bin_num": 4,
    "transform_param": {"transform_cols": -1, "transform_type": "BIN_NUM"},
    "encrypt_param": {"key_length": 1024},
}
DSL: Final[Json] = {
    "version": 2,
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "data_transform_0": {
            "module": "datatransform", "note": "clean",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "intersection_0": {
            "module": "Intersection",
            "input": {"data": {"data": ["data_transform_0.data", "data_transform_0.data"]}},
            "output": {"data": ["data"]},
        },
        "hetero_feature_binning_0": {
            "module": "HeteroFeatureBinning",
            "input": {"data": {"data": ["intersection_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
    },
}  # fmt: skip
SITES: Final[Json] = {
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
}


def reads(name: str, **more: Any) -> Json:
    table = {"name": f"breast_hetero_{name}", "namespace": "experiment"}
    return {"0": {"reader_0": {"table": table}, **more}}


def train_conf() -> Json:
    transform = {"data_transform_0": {"with_label": True, "label_name": "y"}}
    evaluation = {"evaluation_0": {"eval_type": "binary"}}
    return {
        "dsl_version": 2,
        **SITES,
        "job_parameters": {
            "common": {"task_cores": 1, "task_conf": {"evaluation_0": {"task_cores": 1}}},
            "role": {"arbiter": {"0": {"task_cores": 1}}},
        },
        "component_parameters": {
            "common": {**evaluation, "hetero_feature_binning_0": BINNING},
            "role": {
                "guest": reads("guest", **transform),
                "host": {**reads("host", **evaluation), "3": evaluation},
                "arbiter": {"0": evaluation},
            },
        },
        "provider": {"common": {"evaluation_0": "fate@1.11.4"}},
    }


def predict_conf(model: Json) -> Json:
    return {
        "dsl_version": 2,
        **SITES,
        "role": {**SITES["role"], "arbiter": [10000]},
        "job_parameters": {
            "common": {"job_type": "predict", **model},
            "role": {"arbiter": {"0": {"task_cores": 1}}},
        },
        "component_parameters": {"role": {"guest": reads("guest"), "host": reads("host")}},
    }


def version_1() -> tuple[Json, Json]:
    """Return a job of version 1 with parameters for a component and a role that it lacks."""
    dsl = {
        "components": {
            "dataio_0": {
                "module": "DataIO",
                "input": {"data": {"data": ["args.train_data"]}},
                "output": {"data": ["train"], "model": ["dataio"]},
            },
            "intersection_0": {
                "module": "Intersection",
                "input": {"data": {"data": ["dataio_0.train", "dataio_0.train"]}},
                "output": {"data": ["train"]},
            },
        }
    }

    def given(name: str, *, label: bool) -> Json:
        table = {"name": f"breast_hetero_{name}", "namespace": "experiment"}
        dataio: Json = {"with_label": [label]}
        if label:
            dataio |= {"label_name": ["y"], "label_type": ["int"]}
        return {"args": {"data": {"train_data": [table]}}, "dataio_0": dataio}

    conf = {
        **SITES,
        "job_parameters": {"work_mode": 1, "task_cores": 1},
        "role_parameters": {
            "guest": given("guest", label=True),
            "host": given("host", label=False),
            "arbiter": {"evaluation_0": {"eval_type": ["binary"]}},
        },
        "algorithm_parameters": {"evaluation_0": {"eval_type": "binary"}},
    }
    return dsl, conf


def submitted(client: Environment, conf: Json, dsl: Json | None = None) -> Json:
    words = ("-c", client.file("conf.json", conf))
    if dsl is not None:
        words += ("-d", client.file("dsl.json", dsl))
    answer: Json = client.flow("job", "submit", *words)
    return answer


def warned(answer: Json) -> set[tuple[str, str]]:
    warnings = answer["data"]["warnings"]
    assert all(one["message"] and one["hint"] for one in warnings), warnings
    return {(one["code"], one["path"]) for one in warnings}


def ends_well(deployment: Deployment, answer: Json) -> None:
    """Check that a job was accepted and succeeds, and that its warnings are shown afterwards."""
    assert answer["retcode"] == 0, answer
    job_id = answer["jobId"]
    assert deployment.wait(deployment.guest, job_id)["f_status"] == "success"
    view = deployment.pair.guest.client.job(job_id)
    assert {(one.code, one.path) for one in view.warnings} >= warned(answer)


def test_a_training_that_fate_runs_runs_with_warnings_and_its_model_predicts(
    deployment: Deployment,
) -> None:
    client = deployment.guest
    answer = submitted(client, train_conf(), DSL)
    parameters = "$.conf.component_parameters"
    components = "$.dsl.components"
    assert warned(answer) == {
        ("UnknownMember", "$.dsl.version"),
        ("UnknownMember", f"{components}.data_transform_0.note"),
        ("DuplicateInput", f"{components}.intersection_0.input.data.data[1]"),
        ("UnknownComponentName", f"{parameters}.common.evaluation_0"),
        ("UnknownComponentName", f'{parameters}.role.host["0"].evaluation_0'),
        ("UnknownIndex", f'{parameters}.role.host["3"]'),
        ("UnknownRole", f"{parameters}.role.arbiter"),
        ("UnknownComponentName", "$.conf.job_parameters.common.task_conf.evaluation_0"),
        ("UnknownRole", "$.conf.job_parameters.role.arbiter"),
        ("UnknownComponentName", "$.conf.provider.common.evaluation_0"),
        ("NoEffect", f"{parameters}.common.hetero_feature_binning_0.optimal_binning_param.max_bin"),
        ("ShortKey", f"{parameters}.common.hetero_feature_binning_0.encrypt_param.key_length"),
    }
    ends_well(deployment, answer)

    trained = answer["data"]["model_info"]
    which = ("--model-id", trained["model_id"], "--model-version", trained["model_version"])
    names = ",".join(list(DSL["components"]))
    version = client.ok("model", "deploy", *which, "--cpn-list", names)["model_version"]
    model = {"model_id": trained["model_id"], "model_version": version}
    answer = submitted(client, predict_conf(model))
    assert ("UnknownRole", "$.conf.role.arbiter") in warned(answer)
    ends_well(deployment, answer)


def test_a_job_of_version_1_is_as_lenient(deployment: Deployment) -> None:
    dsl, conf = version_1()
    answer = submitted(deployment.guest, conf, dsl)
    assert warned(answer) >= {
        ("DuplicateInput", "$.dsl.components.intersection_0.input.data.data[1]"),
        ("UnknownComponentName", "$.conf.algorithm_parameters.evaluation_0"),
        ("UnknownRole", "$.conf.role_parameters.arbiter"),
        ("NoEffect", "$.conf.job_parameters.common.work_mode"),
    }
    ends_well(deployment, answer)


def test_strict_the_same_jobs_are_refused_before_anything_starts(deployment: Deployment) -> None:
    client = deployment.guest
    conf = train_conf()
    conf["job_parameters"]["common"]["strict"] = True
    answer = submitted(client, conf, DSL)
    assert answer["retcode"] == 103, answer
    problems = {problem["rule"] for problem in answer["error"]["problems"]}
    assert {"UnknownComponentName", "UnknownRole", "UnknownIndex", "DuplicateInput"} <= problems
    dsl, old = version_1()
    old["job_parameters"]["strict"] = True
    assert submitted(client, old, dsl)["retcode"] == 103


def test_what_fate_refuses_stays_refused(deployment: Deployment) -> None:
    guest_as_arbiter = train_conf()
    guest_as_arbiter["role"] = {"guest": [9999], "host": [10000], "arbiter": [9999]}
    dsl = {
        "components": {
            **DSL["components"],
            "hetero_lr_0": {
                "module": "HeteroLR",
                "input": {"data": {"train_data": ["intersection_0.data"]}},
                "output": {"data": ["data"], "model": ["model"]},
            },
        }
    }
    answer = submitted(deployment.guest, guest_as_arbiter, dsl)
    assert answer["retcode"] == 103
    assert [p["rule"] for p in answer["error"]["problems"]] == ["GuestIsArbiter"]
    wrong = train_conf()
    wrong["component_parameters"]["common"]["hetero_feature_binning_0"] = {"method": "bucketts"}
    assert submitted(deployment.guest, wrong, DSL)["retcode"] == 103
