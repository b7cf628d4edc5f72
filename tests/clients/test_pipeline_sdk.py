"""The `pipeline` SDK of fate-client 1.11.3: upload, fit, look at results, deploy, predict."""

from __future__ import annotations

from typing import Final

import pytest

from tests.clients.conftest import Deployment
from tests.e2e.servers import DATA

_BUILD: Final = """
import json, sys
from pipeline.backend.pipeline import PipeLine
from pipeline.component import *
from pipeline.interface import Data, Model, Cache

def readers(name="reader_0"):
    reader = Reader(name=name)
    for role, party in (("guest", 9999), ("host", 10000)):
        table = {"name": f"breast_hetero_{role}", "namespace": "experiment"}
        reader.get_party_instance(role=role, party_id=party).component_param(table=table)
    return reader

def transform():
    found = DataTransform(name="data_transform_0")
    found.get_party_instance(role="guest", party_id=9999).component_param(
        with_label=True, output_format="dense")
    found.get_party_instance(role="host", party_id=10000).component_param(with_label=False)
    return found

def start(**roles):
    return PipeLine().set_initiator(role="guest", party_id=9999).set_roles(
        guest=9999, host=10000, arbiter=10000)

def learner(name="hetero_lr_0", **more):
    given = dict(penalty="L2", optimizer="rmsprop", tol=1e-4, alpha=0.01, max_iter=2, batch_size=-1,
                 learning_rate=0.15, init_param={"init_method": "zeros", "fit_intercept": True},
                 encrypt_param={"key_length": 1024})
    given.update(more)
    return HeteroLR(name=name, **given)

def show(**found):
    print()
    print(json.dumps(found))
"""

_TRAIN: Final = (
    _BUILD
    + """
pipeline = start()
reader_0, data_transform_0 = readers(), transform()
intersection_0 = Intersection(name="intersection_0")
hetero_lr_0 = learner()
evaluation_0 = Evaluation(name="evaluation_0", eval_type="binary")
pipeline.add_component(reader_0)
pipeline.add_component(data_transform_0, data=Data(data=reader_0.output.data))
pipeline.add_component(intersection_0, data=Data(data=data_transform_0.output.data))
pipeline.add_component(hetero_lr_0, data=Data(train_data=intersection_0.output.data))
pipeline.add_component(evaluation_0, data=Data(data=hetero_lr_0.output.data))
pipeline.compile()
pipeline.fit()
"""
)


def test_a_file_is_uploaded_by_the_pipeline(deployment: Deployment) -> None:
    script = f"""
{_BUILD}
pipeline = start()
pipeline.add_upload_data(file={str(DATA / "breast_hetero_guest.csv")!r}, table_name="by_sdk",
                         namespace="experiment", head=1, partition=4)
pipeline.upload(drop=1)
show(done=True)
"""
    client = deployment.guest
    assert client.python(script)["done"]
    assert client.ok("table", "info", "-n", "experiment", "-t", "by_sdk")["count"] == 569


def test_a_pipeline_fits_shows_results_deploys_and_predicts(deployment: Deployment) -> None:
    script = (
        _TRAIN
        + """
task = pipeline.get_component("hetero_lr_0")
data = task.get_output_data()
summary = task.get_summary()
model = task.get_model_param()
table = task.get_output_data_table()
metrics = pipeline.get_component("evaluation_0").get_summary()

pipeline.deploy_component([data_transform_0, intersection_0, hetero_lr_0])
predict = PipeLine()
reader_1 = readers("reader_1")
predict.add_component(reader_1)
predict.add_component(pipeline, data=Data(
    predict_input={pipeline.data_transform_0.input.data: reader_1.output.data}))
evaluation_1 = Evaluation(name="evaluation_1", eval_type="binary")
predict.add_component(evaluation_1, data=Data(data=pipeline.hetero_lr_0.output.data))
predict.predict()
again = predict.get_component("hetero_lr_0").get_output_data()
ids = sorted(set(data["id"]) & set(again["id"]))
both = [dict(zip(rows["id"], map(float, rows["predict_score"]))) for rows in (data, again)]
show(columns=list(data.columns), rows=len(data), predicted=len(again),
     types=sorted(set(again["type"])), same=len(ids),
     apart=max(abs(both[0][i] - both[1][i]) for i in ids),
     coef=summary["coef"], weight=model["weight"], table=table, metrics=metrics)
"""
    )
    found = deployment.guest.python(script)
    assert found["columns"][-5:] == [
        "label",
        "predict_result",
        "predict_score",
        "predict_detail",
        "type",
    ]
    assert found["rows"] == found["predicted"] == found["same"] == 569
    assert found["types"] == ["predict"]
    assert found["apart"] < 1e-9
    assert len(found["coef"]) == len(found["weight"]) == 10
    assert set(found["table"]) >= {"table_name", "table_namespace"}
    assert found["metrics"]


def test_a_fit_reuses_an_earlier_job(deployment: Deployment) -> None:
    script = (
        _TRAIN
        + """
from pipeline.runtime.entity import JobParameters
first = pipeline.get_train_job_id()
info = {"job_id": first, "component_list": ["reader_0", "data_transform_0", "intersection_0"]}
pipeline.fit(JobParameters(inheritance_info=info))
second = pipeline.get_train_job_id()
show(first=first, second=second, rows=len(pipeline.get_component("hetero_lr_0").get_output_data()))
"""
    )
    found = deployment.guest.python(script)
    assert found["first"] != found["second"]
    assert found["rows"] == 569
    tasks = deployment.guest.ok("task", "query", "-j", found["second"], "-r", "guest", "-p", 9999)
    assert {t["f_status"] for t in tasks} == {"success"}


def test_a_fit_starts_from_a_checkpoint(deployment: Deployment) -> None:
    script = (
        _TRAIN.replace(
            "learner()",
            'learner(callback_param={"callbacks": ["ModelCheckpoint"], "save_freq": 1})',
        )
        + """
info = pipeline.get_model_info()
following = start()
reader_0, data_transform_0 = readers(), transform()
intersection_0 = Intersection(name="intersection_0")
model_loader_0 = ModelLoader(name="model_loader_0", model_id=info.model_id,
                             model_version=info.model_version, component_name="hetero_lr_0",
                             step_index=1)
hetero_lr_0 = learner()
following.add_component(reader_0)
following.add_component(data_transform_0, data=Data(data=reader_0.output.data))
following.add_component(intersection_0, data=Data(data=data_transform_0.output.data))
following.add_component(model_loader_0)
following.add_component(hetero_lr_0, data=Data(train_data=intersection_0.output.data),
                        model=Model(model=model_loader_0.output.model))
following.compile()
following.fit()
show(summary=following.get_component("hetero_lr_0").get_summary(),
     model_id=info.model_id, model_version=info.model_version)
"""
    )
    found = deployment.guest.python(script)
    assert len(found["summary"]["coef"]) == 10
    client = deployment.guest
    words = ("-r", "guest", "-p", 9999, "--model-id", found["model_id"])
    words += ("--model-version", found["model_version"], "-cpn", "hetero_lr_0")
    steps = client.ok("checkpoint", "list", *words)
    assert [s["step_index"] for s in steps][:2] == [0, 1]
    assert client.ok("checkpoint", "get", *words, "--step-index", 1)["step_index"] == 1


def test_an_intersection_uses_a_cache(deployment: Deployment) -> None:
    script = (
        _BUILD
        + """
pipeline = start()
reader_0, data_transform_0 = readers(), transform()
intersection_0 = Intersection(name="intersection_0", intersect_method="ecdh", run_cache=True)
pipeline.add_component(reader_0)
pipeline.add_component(data_transform_0, data=Data(data=reader_0.output.data))
pipeline.add_component(intersection_0, data=Data(data=data_transform_0.output.data))
pipeline.compile()
pipeline.fit()
following = start()
reader_0, data_transform_0 = readers(), transform()
cache_loader_0 = CacheLoader(name="cache_loader_0", job_id=pipeline.get_train_job_id(),
                             component_name="intersection_0", cache_name="cache")
intersection_0 = Intersection(name="intersection_0", intersect_method="ecdh")
following.add_component(reader_0)
following.add_component(data_transform_0, data=Data(data=reader_0.output.data))
following.add_component(cache_loader_0)
following.add_component(intersection_0, data=Data(data=data_transform_0.output.data),
                        cache=Cache(cache_loader_0.output.cache))
following.compile()
following.fit()
show(rows=len(following.get_component("intersection_0").get_output_data()))
"""
    )
    assert deployment.guest.python(script)["rows"] == 569


def test_a_bound_table_is_read(deployment: Deployment) -> None:
    script = f"""
{_BUILD}
pipeline = start()
pipeline.bind_table(name="bound_by_sdk", namespace="experiment",
                    path={str(DATA / "breast_hetero_guest.csv")!r}, head=1, id_delimiter=",")
show(done=True)
"""
    assert deployment.guest.python(script)["done"]


def test_the_minimal_test_of_fate_succeeds(deployment: Deployment) -> None:
    words = ("test", "min", "-gid", 9999, "-hid", 10000, "-aid", 10000)
    printed = deployment.guest.run("flow", *words, timeout_s=150)
    assert "Traceback" not in printed, printed[-3000:]
    assert "lower than expect" not in printed, printed[-3000:]
    assert "Running component hetero_secureboost_0" in printed, printed[-3000:]
    assert printed.count("Job is success") == 4, printed[-3000:]  # each model trains and predicts


def test_config_check_finds_the_server(deployment: Deployment) -> None:
    printed = deployment.guest.run("pipeline", "config", "check")
    assert "status normal, Flow version: 1.11" in printed


pytestmark = pytest.mark.timeout(600)
