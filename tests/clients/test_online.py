"""FATE's clients publish models: two Flow servers, a serving process of each party, real scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import SETTINGS, Deployment
from tests.clients.environments import Environment
from tests.clients.vertical_pipelines import START
from tests.e2e.jobs import example
from tests.e2e.online import OnlineParties, features_of, online_parties, scores_of

Json = dict[str, Any]
pytestmark = pytest.mark.timeout(600)

_SCRIPT = (
    START
    + """
job = Job()
raw = job.read("reader_0", "breast_hetero_guest", "breast_hetero_host")
data = job.transform("data_transform_0", raw)
data = job.add(Intersection, "intersection_0", data).data
data = job.add(FeatureScale, "feature_scale_0", data, method="standard_scale").data
job.add(HeteroLR, "hetero_lr_0", {"train_data": data}, **QUICK)
job.add(HeteroSecureBoost, "trees_0", {"train_data": data}, num_trees=2, encrypt_param=KEY,
        task_type="classification", objective_param={"objective": "cross_entropy"},
        tree_param={"max_depth": 3})
line = job.fit()
found = {}

def refusal(call):
    try:
        call()
    except ValueError as error:
        return str(error)

found["undeployed"] = refusal(line.online.load)
for name in ("hetero_lr_0", "trees_0"):
    line.deploy_component([line.data_transform_0, line.intersection_0, line.feature_scale_0,
                           getattr(line, name)])
    predict = PipeLine()
    reader = Reader(name="reader_1")
    for site, table in ((GUEST, "breast_hetero_guest"), (HOST, "breast_hetero_host")):
        reader.get_party_instance(**site).component_param(
            table={"name": table, "namespace": "experiment"})
    predict.add_component(reader)
    predict.add_component(line, data=Data(
        predict_input={line.data_transform_0.input.data: reader.output.data}))
    predict.predict()
    table = predict.get_component(name).get_output_data()
    scores = {str(key): float(score) for key, score in zip(table["id"], table["predict_score"])}
    line.online.load()
    bad = refusal(lambda: line.online.bind("no:colons"))
    line.online.bind(f"by-sdk-{name}", "127.0.0.1:8000")
    version = line.get_predict_model_info().model_version
    found[name] = {"scores": scores, "version": version, "bad": bad}
show(**found)
"""
)


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, OnlineParties]]:
    """Give two Flow servers with serving processes and the example's tables."""
    folder = tmp_path_factory.mktemp("online_clients")
    with online_parties(folder, settings=SETTINGS) as parties:
        work = folder / "work"
        work.mkdir()
        found = Deployment("federated", parties.pair, Environment("fate-client", work))
        found.upload_example()
        yield found, parties


def test_the_pipeline_sdk_loads_and_binds_what_then_answers_with_the_offline_scores(
    online: tuple[Deployment, OnlineParties],
) -> None:
    deployment, parties = online
    found = deployment.guest.python(_SCRIPT, timeout_s=300)
    assert "must deploy components first" in found.pop("undeployed")  # the SDK itself says so
    for name, seen in found.items():
        assert "Cannot bind model" in seen["bad"]
        for user, features in features_of("breast_hetero_guest").items():
            answer = parties.ask(f"by-sdk-{name}", user, features)
            assert answer["retcode"] == 0, answer
            assert answer["data"]["modelVersion"] == seen["version"]
            assert answer["data"]["score"] == pytest.approx(seen["scores"][user], rel=0, abs=1e-9)


@pytest.fixture(scope="module")
def trained(online: tuple[Deployment, OnlineParties]) -> tuple[str, str]:
    """Return a trained model's id and version."""
    deployment, _ = online
    job_id = deployment.trained(*example(iterations=2))
    words = ("--model-version", job_id, "-r", "guest", "-p", 9999)
    (row,) = deployment.guest.ok("model", "get-model-info", *words)
    return row["f_model_id"], job_id


def deployed(client: Environment, model_id: str, job_id: str) -> str:
    words = ("--model-id", model_id, "--model-version", job_id)
    kept = ("--cpn-list", "reader_0,data_transform_0,intersection_0,hetero_lr_0")
    made: Json = client.ok("model", "deploy", *words, *kept)
    return str(made["model_version"])


def conf_of(model_id: str, version: str, **more: Any) -> Json:
    """Return a conf of FATE's examples for `model load` and `model bind`."""
    return {
        "initiator": {"party_id": "9999", "role": "guest"},
        "role": {"guest": ["9999"], "host": ["10000"], "arbiter": ["10000"]},
        "job_parameters": {"work_mode": 1, "model_id": model_id, "model_version": version},
        **more,
    }


@pytest.mark.parametrize("by", ["conf", "job"])
def test_flow_model_load_and_bind_publish_a_deployed_version(
    online: tuple[Deployment, OnlineParties], trained: tuple[str, str], by: str, tmp_path: Path
) -> None:
    deployment, parties = online
    client = deployment.guest
    version = deployed(client, *trained)
    service = f"by-flow-{by}"
    if by == "conf":
        conf = conf_of(trained[0], version)
        loaded = client.flow("model", "load", "-c", client.file("load.json", conf))
        bind = {**conf, "service_id": service, "servings": ["127.0.0.1:8000"]}
        bound = client.flow("model", "bind", "-c", client.file("bind.json", bind))
    else:
        loaded = client.flow("model", "load", "-j", version)
        words = ("-c", client.file("bind.json", {"service_id": service}), "-j", version)
        bound = client.flow("model", "bind", *words)
    said = {"retcode": 0, "retmsg": "success"}
    assert (loaded["retcode"], loaded["retmsg"], loaded["jobId"]) == (0, "success", version)
    assert loaded["data"] == {
        "guest": {"9999": 0},
        "host": {"10000": 0},
        "detail": {"guest": {"9999": said}, "host": {"10000": said}},
    }
    assert (bound["retcode"], bound["retmsg"]) == (0, "success")
    offline = offline_scores(deployment, trained[0], version, tmp_path)
    for user, features in features_of("breast_hetero_guest").items():
        answer = parties.ask(service, user, features)
        assert (answer["retcode"], answer["data"]["modelVersion"]) == (0, version), answer
        assert answer["data"]["score"] == pytest.approx(offline[user], rel=0, abs=1e-9)


def offline_scores(
    deployment: Deployment, model_id: str, version: str, folder: Path
) -> dict[str, float]:
    """Return the scores of a predict job by sample id."""
    client = deployment.pair.guest.client
    tables = {role: ("experiment", f"breast_hetero_{role}") for role in ("guest", "host")}
    job_id = client.models.predict(model_id, version, tables).job_id
    assert client.wait(job_id, timeout_s=120).succeeded
    files = client.download_output(job_id, "hetero_lr_0", folder)
    return scores_of(next(file for file in files if file.suffix == ".csv"))


def test_flow_model_load_and_bind_refuse_in_fates_way(
    online: tuple[Deployment, OnlineParties], trained: tuple[str, str]
) -> None:
    deployment, parties = online
    client = deployment.guest
    model_id, job_id = trained
    version = deployed(client, model_id, job_id)

    def refused(verb: str, conf: Json) -> tuple[int, str]:
        answer = client.flow("model", verb, "-c", client.file("conf.json", conf))
        return answer["retcode"], answer["retmsg"]

    nothing = {"service_id": "s", "job_parameters": {"model_id": model_id}}
    for verb in ("load", "bind"):
        undeployed = refused(verb, conf_of(model_id, job_id, service_id="s"))
        assert undeployed[0] == 100
        assert "not deployed" in undeployed[1]
        unknown = {"job_id": "202001010000000000000", "service_id": "s"}
        assert refused(verb, unknown)[0] == 101
        assert refused(verb, {"service_id": "s"})[0] == 101
        assert refused(verb, nothing)[0] == 101
    assert refused("bind", conf_of(model_id, version)) == (101, "no service id")
    for service in ("a:b", "a?b", "a/b", "a&b"):
        assert refused("bind", conf_of(model_id, version, service_id=service))[0] != 0
    retcode, said = refused("bind", conf_of(model_id, version, service_id="not-loaded"))
    assert retcode != 0
    assert "not loaded" in said, said
    assert parties.ask("not-loaded", "1", {})["retcode"] == 122
    other = conf_of(model_id, version)
    other["job_parameters"]["model_id"] = "guest-1#host-2#model"
    assert refused("load", other)[0] == 101
    assert "No arguments received" in client.flow("model", "load")["retmsg"]
