"""`fate_test` 1.6.1 against real servers: suites, data, benchmarks, flow tests."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Deployment
from tests.clients.environments import Environment
from tests.clients.horizontal_suites import (
    LONG,
    SHORT,
    Suites,
    write_tables,
)
from tests.clients.horizontal_suites import (
    PREDICTED as HORIZONTAL_PREDICTED,
)
from tests.e2e.jobs import example
from tests.e2e.pipelines import GUEST_ID, NAMES, Step, pipeline, reader, transform
from tests.e2e.servers import DATA, GUEST, HOST, QUICK, ROOT, standalone, two_parties

Json = dict[str, Any]
CLASSES_TABLE = "breast_classes_guest"
WITH_ARBITER = {"hetero_kmeans", "data_split", *SHORT, *LONG}
VERTICAL_TABLES = ("breast_hetero_guest", "breast_hetero_host", CLASSES_TABLE)
pytestmark = pytest.mark.timeout(600)

CONFIG = """\
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
      address: {serving}
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
        write_classes(DATA / "breast_hetero_guest.csv", work / "data" / f"{CLASSES_TABLE}.csv")
        write_tables(work / "data")
        if request.param == "standalone":
            served = [(pair.guest, "[9999, 10000]")]
        else:
            served = [(pair.guest, "[9999]"), (pair.host, "[10000]")]
        services = "\n".join(
            f"      - {{address: 127.0.0.1:{party.place.http_port}, parties: {ids}}}"
            for party, ids in served
        )
        config = CONFIG.format(base=work, services=services, serving="127.0.0.1:9")
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
    return bench.client.run("fate_test", "-c", config, "-y", *words, "-y", timeout_s=900)


def data_sets(names: Iterable[str] = VERTICAL_TABLES) -> list[Json]:
    return [
        {
            "file": f"data/{name}.csv", "head": 1, "partition": 4,
            "table_name": name, "namespace": "experiment", "role": f"{name.split('_')[-1]}_0",
        }
        for name in names
    ]  # fmt: skip


def write_classes(source: Path, target: Path) -> None:
    """Write the guest's rows with four classes: its own label, and the sign of its last column."""
    with source.open(encoding="utf-8") as given, target.open("w", encoding="utf-8") as written:
        written.write(next(given))
        for line in given:
            own, label, *values = line.split(",")
            written.write(",".join([own, str(int(label) + 2 * (float(values[-1]) > 0)), *values]))


def write(folder: Path, **files: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        suffix = ".py" if isinstance(value, str) else ".json"
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / f"{name}{suffix}").write_text(text, encoding="utf-8")
    return folder


def outcomes(printed: str) -> dict[str, str]:
    """Return job -> status from the tables that suites print."""
    return {cells[0]: cells[2] for cells in _jobs(printed)}


def job_ids(printed: str) -> dict[str, str]:
    """Return job -> its id from the tables that suites print."""
    return {cells[0]: cells[1] for cells in _jobs(printed)}


def _jobs(printed: str) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in printed.splitlines()]
    ends = {"success", "failed", "canceled", "timeout"}
    return [cells for cells in rows if len(cells) > 2 and cells[2] in ends]


ALIGNED = ("reader_0", "data_transform_0", "intersection_0")


def predict_dsl(dsl: Json, *names: str) -> Json:
    """Return the DSL that predicts with components of a training, of which the last one learnt."""
    components = {name: copy.deepcopy(dsl["components"][name]) for name in names}
    for name, component in components.items():
        if component["module"] not in {"Reader", "Intersection"}:
            component["input"]["model"] = [f"pipeline.{name}.model"]
            ports = component["input"]["data"]
            ports.pop("validate_data", None)
            if "train_data" in ports:
                ports["test_data"] = ports.pop("train_data")
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
        predict_dsl=predict_dsl(dsl, *ALIGNED, "hetero_lr_0"), script=script,
        hetero_testsuite=suite,
    )  # fmt: skip
    printed = fate_test(bench, "suite", "-i", folder)
    found = outcomes(printed)
    assert found.get("train") == "success", printed
    assert found.get("predict") == "success", printed


def run_suites(
    bench: Deployment, suites: Suites, predicted: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Run suites of jobs that all must succeed; return job -> its id.

    A job of `predicted` is followed by `<job>_predict`, of these components of it.
    """
    folder = bench.client.cwd / "-".join(suites)
    for suite, jobs in suites.items():
        files, tasks = {}, {}
        for job, steps in jobs.items():
            dsl, conf = pipeline(steps, arbiter=suite in WITH_ARBITER)
            files |= {f"{job}_dsl": dsl, f"{job}_conf": conf}
            tasks[job] = {"conf": f"{job}_conf.json", "dsl": f"{job}_dsl.json"}
            if job in predicted:
                name = f"{job}_predict"
                files[f"{name}_dsl"] = predict_dsl(dsl, *predicted[job])
                files[f"{name}_conf"] = predict_conf(conf)
                task = {"conf": f"{name}_conf.json", "dsl": f"{name}_dsl.json"}
                tasks[name] = {**task, "model_deps": job}
        readers = [step for steps in jobs.values() for step in steps.values() if not step.data]
        tables = {own["table"]["name"] for one in readers for own in (one.guest, one.host)}
        files[f"{suite}_testsuite"] = {"data": data_sets(sorted(tables)), "tasks": tasks}
        write(folder / suite, **files)
    printed = fate_test(bench, "suite", "-i", folder)
    names = [job for jobs in suites.values() for job in jobs]
    names += [f"{job}_predict" for job in names if job in predicted]
    assert outcomes(printed) == dict.fromkeys(names, "success"), printed
    return job_ids(printed)


# --- horizontal components ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "suites",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.heavy, pytest.mark.timeout(1200)]),
    ],
)
def test_suites_of_horizontal_components_succeed(bench: Deployment, suites: Suites) -> None:
    ids = run_suites(bench, suites, HORIZONTAL_PREDICTED)
    client = bench.pair.guest.client
    for job, least in {"train": 0.97, "binary": 0.98, "seldom": 0.98, "warm": 0.97}.items():
        if job in ids:
            measured = client.summary(ids[job], "evaluation_0", site=GUEST)["learner_0"]["train"]
            assert measured["auc"] > least
    for job in {"summary", "query", "some", "categories"} & set(ids):
        found = [
            bench.pair.of(site).client.summary(ids[job], "learner_0", site=site)
            for site in (GUEST, HOST)
        ]
        assert found[0]
        assert found[0] == found[1]


# --- trees and clusters ---------------------------------------------------------------------------

TREES: Json = {
    "num_trees": 2,
    "tree_param": {"max_depth": 3},
    "n_iter_no_change": False,
    "random_seed": 5,
    "encrypt_param": {"method": "Paillier", "key_length": 1024},
}
START: dict[str, Step] = {
    "reader_0": reader(),
    "data_transform_0": transform(),
    "intersection_0": Step(module="Intersection", data={"data": ["data_transform_0.data"]}),
}
ROWS = {"train_data": ["intersection_0.data"]}
CLASSES = {**NAMES, GUEST_ID: CLASSES_TABLE}
SPLIT = Step(
    module="HeteroDataSplit",
    data={"data": ["intersection_0.data"]},
    out=["train_data", "validate_data", "test_data"],
    params={"validate_size": 0.3, "random_state": 3},
)
HALVES = {"train_data": ["split_0.train_data"], "validate_data": ["split_0.validate_data"]}


def trees(data: Mapping[str, Sequence[str]] = ROWS, *, fast: bool = False, **params: Any) -> Step:
    """Return a component that trains, by its newer or its older name."""
    module = "HeteroFastSecureBoost" if fast else "HeteroSecureBoost"
    return Step(module=module, data=data, params={**TREES, **params})


def evaluation(*learners: str, **params: Any) -> Step:
    return Step(module="Evaluation", data={"data": [f"{n}.data" for n in learners]}, params=params)


def selection(name: str, model: str) -> Step:
    """Return a component that keeps the features which a model of trees uses."""
    return Step(
        module="HeteroFeatureSelection",
        data={"data": ["intersection_0.data"]},
        isometric=[f"{model}.model"],
        params={"filter_methods": [name], "sbt_param": {"threshold": 0.03}},
    )


WARM = {"callback_param": {"callbacks": ["ModelCheckpoint"], "save_freq": 1}}
EARLY = {"validation_freqs": 1, "early_stopping_rounds": 1, "metrics": ["auc"], "num_trees": 4}
SUITES: Suites = {
    "hetero_secureboost": {
        "std": {
            **START,
            "trees_0": trees(),
            "evaluation_0": evaluation("trees_0"),
            "selection_0": selection("hetero_sbt_filter", "trees_0"),
        },
    },
    "hetero_fast_secureboost": {
        "layered": {
            **START,
            "trees_0": trees(fast=True, work_mode="layered", guest_depth=1, host_depth=2),
            "mix_0": trees(fast=True, work_mode="mix", tree_num_per_party=1),
            "evaluation_0": evaluation("trees_0", "mix_0"),
            "selection_0": selection("hetero_fast_sbt_filter", "trees_0"),
        },
    },
    "hetero_kmeans": {
        "clusters": {
            **START,
            "trees_0": Step(
                module="HeteroKmeans",
                data=ROWS,
                out=["data_0", "data_1"],
                params={"k": 3, "max_iter": 5, "random_stat": 4},
            ),
            "evaluation_0": Step(
                module="Evaluation",
                data={"data": ["trees_0.data_0"]},
                params={"eval_type": "clustering", "run_clustering_arbiter_metric": True},
            ),
        },
    },
}
KINDS: Suites = {
    "hetero_secureboost": {
        "kinds": {
            **START,
            "complete_0": trees(complete_secure=1, cipher_compress=False),
            "missing_0": trees(use_missing=True, zero_as_missing=True, run_goss=True),
            "cross_0": trees(num_trees=1, cv_param={"need_cv": True, "n_splits": 2}),
            "numbers_0": trees(task_type="regression", objective_param={"objective": "lse"}),
            "split_0": SPLIT,
            "early_0": trees(HALVES, **EARLY),
            "warm_0": trees(**WARM),
            "warm_1": replace(trees(**WARM), model=["warm_0.model"]),
            "unlabeled_0": Step(
                module="PositiveUnlabeled",
                data={"data": ["intersection_0.data", "warm_1.data"]},
                params={"strategy": "probability", "threshold": 0.6},
            ),
            "again_0": trees({"train_data": ["unlabeled_0.data"]}, num_trees=1),
            "evaluation_0": evaluation("complete_0", "missing_0", "early_0", "warm_1"),
            "evaluation_1": evaluation("numbers_0", eval_type="regression"),
        },
        "classes": {
            **START,
            "reader_0": reader(CLASSES),
            "trees_0": trees(multi_mode="multi_output"),
            "single_0": trees(),
            "evaluation_0": evaluation("trees_0", "single_0", eval_type="multi"),
        },
    },
}
PREDICTED = dict.fromkeys(("std", "layered", "clusters", "classes"), (*ALIGNED, "trees_0"))


@pytest.mark.parametrize(
    "suites",
    [pytest.param(SUITES, id="each"), pytest.param(KINDS, id="kinds", marks=pytest.mark.heavy)],
)
def test_suites_of_trees_and_clusters_succeed(bench: Deployment, suites: Suites) -> None:
    ids = run_suites(bench, suites, PREDICTED)
    client, names = bench.pair.guest.client, set(ids)
    for learner in ("trees_0", "single_0") if "classes" in names else ():
        measured = client.summary(ids["classes"], "evaluation_0", site=GUEST)[learner]["train"]
        assert measured["accuracy"] > 0.8
    for job in {"std", "layered"} & names:
        measured = client.summary(ids[job], "evaluation_0", site=GUEST)["trees_0"]["train"]
        assert measured["auc"] > 0.97
        for site in (GUEST, HOST):
            kept = bench.pair.of(site).client.summary(ids[job], "selection_0", site=site)["all"]
            assert 0 < kept["left_col_nums"] < {GUEST: 10, HOST: 20}[site]


# --- data sets and benchmarks ---------------------------------------------------------------------


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

FLOW_TEST = """\
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
    dsl, conf = example(iterations=80)  # still runs when it is stopped after five seconds
    uploads = data_sets()
    upload = {**uploads[0], "file": str(work / uploads[0]["file"])}
    del upload["role"]
    write(
        work / "flow_test",
        train_conf=conf,
        train_dsl=dsl,
        predict_conf=predict_conf(conf),
        predict_dsl=predict_dsl(dsl, *ALIGNED, "hetero_lr_0"),
        upload_conf={**upload, "table_name": "for_flow_test"},
    )
    (work / "flow_test_config.yaml").write_text(FLOW_TEST, encoding="utf-8")
    for party, table in zip((bench.pair.guest, bench.pair.host), uploads[:2], strict=True):
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
