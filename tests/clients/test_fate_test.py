"""`fate_test` 1.6.1 against real servers: suites, data, benchmarks, flow tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Deployment
from tests.clients.environments import Environment
from tests.e2e.jobs import example
from tests.e2e.servers import DATA, QUICK, ROOT, standalone, two_parties

Json = dict[str, Any]
pytestmark = pytest.mark.timeout(600)

_CONFIG = """\
work_mode: 0
backend: 0
data_base_dir: {base}
cache_directory: cache/
performance_template_directory: performance/
flow_test_config_directory: flow_test_config.yaml
clean_data: true
parties:
  guest: [9999]
  host: [10000]
  arbiter: [10000]
services:
  - flow_services:
{services}
    serving_setting:
      address: 127.0.0.1:9
"""


@pytest.fixture(
    scope="module", params=[pytest.param("standalone", marks=pytest.mark.heavy), "federated"]
)
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Give servers, and a folder with data and a configuration of fate_test."""
    folder = tmp_path_factory.mktemp(f"fate_test_{request.param}")
    work = folder / "work"
    (work / "data").mkdir(parents=True)
    allowed = json.dumps([str(work)])
    settings = {
        **QUICK,
        "FEDFLOW__UPLOAD__ALLOWED_FOLDERS": allowed,
        "FEDFLOW__DOWNLOAD__ALLOWED_FOLDERS": allowed,
        "FEDFLOW__MODEL_STORE_ADDRESS__STORAGE": "folder",
        "FEDFLOW__MODEL_STORE_ADDRESS__FOLDER": str(folder / "models"),
    }
    (folder / "models").mkdir()
    with ExitStack() as stack:
        start = standalone if request.param == "standalone" else two_parties
        pair = stack.enter_context(start(folder, settings=settings))
        for name in ("breast_hetero_guest.csv", "breast_hetero_host.csv"):
            shutil.copy(DATA / name, work / "data" / name)
        if request.param == "standalone":
            served = [(pair.guest, "[9999, 10000]")]
        else:
            served = [(pair.guest, "[9999]"), (pair.host, "[10000]")]
        services = "\n".join(
            f"      - {{address: 127.0.0.1:{party.place.http_port}, parties: {ids}}}"
            for party, ids in served
        )
        config = _CONFIG.format(base=work, services=services)
        (work / "config.yaml").write_text(config, encoding="utf-8")
        client = Environment("fate-test", work, settings={"FEDFLOW_SERVER": pair.guest.url})
        yield Deployment(request.param, pair, client)
        for row in pair.guest.post("/v1/job/list/job", {"limit": 50})["data"]["jobs"]:
            if row["status"] in {"waiting", "running"}:
                pair.guest.post("/v1/job/stop", {"job_id": row["job_id"]})
        for party in pair.all:  # an executor that lives on waits for a server that never comes
            party.wait_idle()


def fate_test(bench: Deployment, *words: object) -> str:
    config = bench.client.cwd / "config.yaml"
    return bench.client.run("fate_test", "-c", config, "-y", *words, "-y", timeout_s=170)


def data_sets() -> list[Json]:
    return [
        {
            "file": f"data/breast_hetero_{role}.csv", "head": 1, "partition": 4,
            "table_name": f"breast_hetero_{role}", "namespace": "experiment", "role": f"{role}_0",
        }
        for role in ("guest", "host")
    ]  # fmt: skip


def write(folder: Path, **files: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, value in files.items():
        suffix = ".py" if isinstance(value, str) else ".json"
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / f"{name}{suffix}").write_text(text, encoding="utf-8")
    return folder


def outcomes(printed: str) -> dict[str, str]:
    """Return job -> status from the table that a suite prints."""
    found = {}
    for line in printed.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) > 2 and cells[2] in {"success", "failed", "canceled", "timeout"}:
            found[cells[0]] = cells[2]
    return found


def predict_dsl() -> Json:
    dsl, _ = example()
    components = dsl["components"]
    del components["evaluation_0"]
    components["data_transform_0"]["input"]["model"] = ["pipeline.data_transform_0.model"]
    ports = components["hetero_lr_0"]["input"]["data"]
    ports["test_data"] = ports.pop("train_data")
    components["hetero_lr_0"]["input"]["model"] = ["pipeline.hetero_lr_0.model"]
    for component in components.values():
        component["output"] = {"data": component["output"]["data"]}
    return {"components": components}


def predict_conf(conf: Json) -> Json:
    return {
        **conf,
        "job_parameters": {"common": {"job_type": "predict"}},
        "component_parameters": {"role": conf["component_parameters"]["role"]},
    }


def test_config_check_finds_all_servers(bench: Deployment) -> None:
    printed = bench.client.run("fate_test", "config", "check", "-c", "config.yaml")
    assert "[X]" not in printed, printed
    assert "fail" not in printed, printed


def test_a_suite_with_dependencies_succeeds(bench: Deployment) -> None:
    dsl, conf = example(iterations=2)
    script = (
        "def main(config='../../config.yaml', namespace=''):\n    print('a task without the SDK')\n"
    )
    tasks = {
        "train": {"conf": "train_conf.json", "dsl": "train_dsl.json"},
        "predict": {
            "conf": "predict_conf.json", "dsl": "predict_dsl.json", "model_deps": "train",
        },
    }  # fmt: skip
    suite = {
        "data": data_sets(), "tasks": tasks,
        "pipeline_tasks": {"script": {"script": "script.py"}},
    }  # fmt: skip
    folder = write(
        bench.client.cwd / "suite", train_conf=conf, train_dsl=dsl, predict_conf=predict_conf(conf),
        predict_dsl=predict_dsl(), script=script, hetero_testsuite=suite,
    )  # fmt: skip
    printed = fate_test(bench, "suite", "-i", folder)
    found = outcomes(printed)
    assert found.get("train") == "success", printed
    assert found.get("predict") == "success", printed


def test_data_sets_are_uploaded_and_deleted(bench: Deployment) -> None:
    folder = write(
        bench.client.cwd / "only_data", some_testsuite={"data": data_sets(), "tasks": {}}
    )
    printed = fate_test(bench, "data", "upload", "-i", folder, "-s", "testsuite")
    assert "Traceback" not in printed, printed
    info = {"namespace": "experiment", "table_name": "breast_hetero_guest"}
    assert bench.pair.guest.post("/v1/table/table_info", info)["data"]["count"] == 569
    printed = fate_test(bench, "data", "delete", "-i", folder, "-s", "testsuite")
    assert "Traceback" not in printed, printed
    assert bench.pair.guest.post("/v1/table/table_info", info)["data"]["exist"] == 0


def test_benchmark_quality_compares_scripts(bench: Deployment) -> None:
    script = "def main(param):\n    return {}, {'auc': param['auc']}\n"
    group = {
        "one": {"script": "one.py", "conf": "param.json"},
        "two": {"script": "two.py", "conf": "param.json"},
        "compare_setting": {"relative_tol": 0.01},
    }
    folder = write(
        bench.client.cwd / "quality", one=script, two=script, param={"auc": 0.98},
        some_benchmark={"data": data_sets(), "group": group},
    )  # fmt: skip
    printed = fate_test(bench, "benchmark-quality", "-i", folder)
    assert "All Metrics Match: True" in printed or "All Metrics Match" in printed, printed
    assert "Traceback" not in printed, printed


# --- flow tests -----------------------------------------------------------------------------------

_FLOW_TEST = """\
train_auc: 0.98
api_version: v1
component_name: hetero_lr_0
metric_output_path: /metric.json
model_output_path: /model.json
flow_test_template:
  train_conf_path: /flow_test/train_conf.json
  train_dsl_path: /flow_test/train_dsl.json
  predict_conf_path: /flow_test/predict_conf.json
  predict_dsl_path: /flow_test/predict_dsl.json
  upload_conf_path: /flow_test/upload_conf.json
"""
_ASKS_OF_1_6 = {"job list", "task list", "model  import"}
"""Checks that want what FATE itself changed after 1.6; see `docs/reference/rest.md#fate_test`."""
_LATER = {"model load", "model bind"}  #: online serving
_RUNNING = {"clean job"}  #: the check cleans a job that runs, which is refused
_ONE_SERVER = {"job data view"}  #: a server of all parties shows the tables of all
_SAME_PARTIES = {"model migrate"}  #: the check migrates a model to the parties that have it


@pytest.mark.parametrize(
    ("bench", "door"),
    [
        ("federated", "rest"),
        pytest.param("federated", "sdk", marks=pytest.mark.heavy),
        pytest.param("federated", "cli", marks=pytest.mark.heavy),
        pytest.param("standalone", "rest", marks=pytest.mark.heavy),
    ],
    indirect=["bench"],
)
def test_the_flow_tests_pass_but_for_what_fate_changed(bench: Deployment, door: str) -> None:
    work = bench.client.cwd
    dsl, conf = example(iterations=30)  # still runs when it is stopped after five seconds
    uploads = data_sets()
    upload = {**uploads[0], "file": str(work / uploads[0]["file"])}
    del upload["role"]
    write(
        work / "flow_test",
        train_conf=conf,
        train_dsl=dsl,
        predict_conf=predict_conf(conf),
        predict_dsl=predict_dsl(),
        upload_conf={**upload, "table_name": "for_flow_test"},
    )
    (work / "flow_test_config.yaml").write_text(_FLOW_TEST, encoding="utf-8")
    for party, table in zip((bench.pair.guest, bench.pair.host), uploads, strict=True):
        path = work / table["file"]
        assert party.upload(path, table["table_name"], drop=True).succeeded
    shutil.copytree(ROOT / "examples" / "fate_test" / "python", work / "python", dirs_exist_ok=True)
    printed = fate_test(bench, "flow-test", door)
    found = checks(printed)
    assert len(found) > 26, printed
    failed = {name for name, state in found.items() if state == "failed"}
    known = _ASKS_OF_1_6 | _LATER | _RUNNING | _SAME_PARTIES
    if bench.mode == "standalone":
        known |= _ONE_SERVER
    assert failed <= known, printed


def checks(printed: str) -> dict[str, str]:
    """Return check -> state from the tables that a flow test prints."""
    found = {}
    for line in printed.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 2 and cells[1] in {"success", "failed"}:
            found[cells[0]] = cells[1]
    return found
