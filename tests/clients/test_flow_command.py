"""Every `flow` command of fate-client 1.11.3 against real servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.clients.conftest import Deployment
from tests.e2e.jobs import empty_job, example
from tests.e2e.servers import DATA

COMPONENTS = ["reader_0", "data_transform_0", "intersection_0", "hetero_lr_0", "evaluation_0"]
MODEL_ID = "arbiter-10000#guest-9999#host-10000#model"
SHARE = ("-r", "guest", "-p", 9999, "-cpn", "hetero_lr_0")


def share(job_id: str, component: str, role: str = "guest", party: str = "9999") -> tuple[str, ...]:
    return ("-j", job_id, "-cpn", component, "-r", role, "-p", party)


# --- jobs, tasks ----------------------------------------------------------------------------------


def test_job_list_and_query_show_the_job(deployment: Deployment, job_id: str) -> None:
    client = deployment.guest
    listed = client.ok("job", "list", "-l", 3)
    assert listed["count"] >= len(listed["jobs"]) > 0
    rows = client.ok("job", "query", "-j", job_id, "-r", "guest", "-p", 9999, "-s", "success")
    assert [r["f_job_id"] for r in rows] == [job_id]
    assert client.ok("job", "query", "-j", "nothing") == []


def test_job_config_writes_what_was_submitted(
    deployment: Deployment, job_id: str, tmp_path: Path
) -> None:
    words = ("-j", job_id, "-r", "guest", "-p", 9999, "-o", tmp_path)
    answer = deployment.guest.flow("job", "config", *words)
    assert answer["retcode"] == 0, answer
    written = {path.name: path for path in Path(answer["directory"]).iterdir()}
    dsl = json.loads(written["dsl.json"].read_text())
    assert list(dsl["components"]) == COMPONENTS
    assert {"runtime_conf.json", "model_info.json", "train_runtime_conf.json"} <= set(written)


def test_job_log_downloads_the_logs(deployment: Deployment, job_id: str, tmp_path: Path) -> None:
    answer = deployment.guest.flow("job", "log", "-j", job_id, "-o", tmp_path)
    assert answer["retcode"] == 0, answer
    assert (Path(answer["directory"]) / "guest" / "9999" / "INFO.log").is_file()
    assert deployment.guest.flow("job", "log", "-j", "nothing", "-o", tmp_path)["retcode"] != 0


def test_job_view_lists_the_output_tables(deployment: Deployment, job_id: str) -> None:
    rows = deployment.guest.ok("job", "view", "-j", job_id, "-r", "guest", "-p", 9999)
    found = {row["f_component_name"] for row in rows}
    assert found == {"reader_0", "data_transform_0", "intersection_0", "hetero_lr_0"}


def test_job_dsl_deduces_the_predict_dsl(deployment: Deployment, tmp_path: Path) -> None:
    client = deployment.guest
    path = client.file("train_dsl.json", example()[0])
    listed = ",".join(COMPONENTS[:4])
    dsl = client.ok("job", "dsl", "--train-dsl-path", path, "--cpn-list", listed)
    assert list(dsl["components"]) == COMPONENTS[:4]
    assert dsl["components"]["hetero_lr_0"]["input"]["model"] == ["pipeline.hetero_lr_0.model"]
    answer = client.flow(
        "job", "dsl", "--train-dsl-path", path, "--cpn-list", listed, "-o", tmp_path
    )
    assert answer["retcode"] == 0, answer


def test_task_list_and_query_show_the_tasks(deployment: Deployment, job_id: str) -> None:
    client = deployment.guest
    assert len(client.ok("task", "list", "-l", 2)["tasks"]) == 2
    rows = client.ok("task", "query", "-j", job_id, "-r", "guest", "-p", 9999)
    assert {r["f_component_name"] for r in rows} == set(COMPONENTS)
    assert {r["f_status"] for r in rows} == {"success"}
    one = client.ok("task", "query", "-j", job_id, "-cpn", "hetero_lr_0", "-s", "success")
    assert {r["f_component_module"] for r in one} == {"HeteroLR"}
    assert client.flow("task", "query", "-j", "nothing")["retcode"] == 101


# --- tracking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("noun", ["tracking", "component"])
def test_metrics_parameters_model_and_tables_are_answered(
    deployment: Deployment, job_id: str, noun: str
) -> None:
    client = deployment.guest
    of_evaluation = share(job_id, "evaluation_0")
    of_model = share(job_id, "hetero_lr_0")
    assert "hetero_lr_0" in client.ok(noun, "metrics", *of_evaluation)["train"]
    scores = dict(client.ok(noun, "metric-all", *of_evaluation)["train"]["hetero_lr_0"]["data"])
    assert 0.9 < scores["auc"] <= 1
    parameters = client.ok(noun, "parameters", *of_model)
    assert parameters["module"] == "HeteroLR"
    model = client.flow(noun, "output-model", *of_model)
    assert len(model["data"]["weight"]) == 10
    assert model["meta"]["module_name"] == "HeteroLR"
    tables = client.ok(noun, "output-data-table", *of_model)
    assert tables[0]["table_name"]
    assert tables[0]["table_namespace"].startswith("output_data_")


@pytest.mark.parametrize("noun", ["tracking", "component"])
def test_output_data_and_the_summary_are_written(
    deployment: Deployment, job_id: str, noun: str, tmp_path: Path
) -> None:
    client = deployment.guest
    answer = client.flow(noun, "output-data", *share(job_id, "hetero_lr_0"), "-o", tmp_path)
    assert answer["retcode"] == 0, answer
    files = sorted(p.name for p in Path(answer["directory"]).iterdir())
    assert len(files) == 2
    lines = (Path(answer["directory"]) / files[0]).read_text().splitlines()
    assert len(lines) == 570
    summary = client.ok(noun, "get-summary", *share(job_id, "hetero_lr_0"))
    assert len(summary["coef"]) == 10
    kept = tmp_path / "summary.json"
    client.flow(noun, "get-summary", *share(job_id, "hetero_lr_0"), "-o", kept)
    nothing = client.flow(noun, "output-data", *share(job_id, "evaluation_0"), "-o", tmp_path)
    assert nothing["retcode"] != 0


def test_component_list_names_all_components(deployment: Deployment, job_id: str) -> None:
    found = deployment.guest.ok("component", "list", "-j", job_id)
    assert sorted(found["components"]) == sorted(COMPONENTS)


def test_metric_delete_removes_the_metrics_of_a_job(deployment: Deployment) -> None:
    client = deployment.guest
    job_id = deployment.trained(*example(iterations=1))
    assert client.flow("component", "metric-delete", "-j", job_id)["retcode"] == 0
    assert client.flow("component", "metrics", *share(job_id, "evaluation_0"))["data"] == {}


# --- data and tables ------------------------------------------------------------------------------


def table(name: str = "breast_hetero_guest", namespace: str = "experiment") -> tuple[str, ...]:
    return ("-n", namespace, "-t", name)


def test_table_info_and_upload_history_show_what_was_uploaded(deployment: Deployment) -> None:
    client = deployment.guest
    info = client.ok("table", "info", *table())
    assert (info["count"], info["exist"], info["partition"]) == (569, 1, 4)
    gone = client.ok("table", "info", *table("nothing"))
    assert (gone["exist"], gone["count"]) == (0, 0)
    history = client.ok("data", "upload-history", "-l", 50)
    uploaded = [info["upload_info"]["table_name"] for entry in history for info in entry.values()]
    assert "breast_hetero_guest" in uploaded


def test_a_bound_table_is_listed_disabled_enabled_and_deleted(deployment: Deployment) -> None:
    client = deployment.guest
    address = {"path": str(DATA / "breast_hetero_guest.csv")}
    conf = {"namespace": "bound", "name": "t", "engine": "PATH", "address": address, "head": 1}
    path = client.file("bind.json", conf)
    assert client.ok("table", "bind", "-c", path) == {"table_name": "t", "namespace": "bound"}
    assert client.flow("table", "bind", "-c", path)["retcode"] == 100
    assert client.flow("table", "bind", "-c", path, "--drop")["retcode"] == 0
    words = table("t", "bound")
    assert client.flow("table", "disable", *words)["retcode"] == 0
    assert client.ok("table", "info", *words)["enable"] is False
    assert client.flow("table", "enable", *words)["retcode"] == 0
    assert client.ok("table", "info", *words)["enable"] is True
    assert client.flow("table", "disable", *words)["retcode"] == 0
    assert client.flow("table", "disable-delete")["retcode"] == 0
    assert client.ok("table", "info", *words)["exist"] == 0
    answer = client.flow("table", "delete", *words)
    assert (answer["retcode"], answer["retmsg"]) == (101, "no find table")


def test_a_table_is_traced_to_its_jobs_and_sources(deployment: Deployment, job_id: str) -> None:
    client = deployment.guest
    assert job_id in client.ok("table", "tracking-job", *table())["job"]
    found = client.ok("tracking", "output-data-table", *share(job_id, "reader_0"))[0]
    source = client.ok(
        "table", "tracking-source", "-n", found["table_namespace"], "-t", found["table_name"]
    )
    assert source[0]["parent_table_name"] == "breast_hetero_guest"


def test_a_connector_is_shown_without_its_password(deployment: Deployment) -> None:
    client = deployment.guest
    conf = {
        "connector_name": "warehouse", "engine": "MYSQL",
        "connector_info": {"user": "u", "passwd": "hidden", "host": "127.0.0.1", "port": 3306},
    }  # fmt: skip
    words = ("table", "connector-create", "-c", client.file("connector.json", conf))
    assert client.flow(*words)["retcode"] == 0
    found = client.flow("table", "connector-query", "--connector-name", "warehouse")
    assert found["retcode"] == 0
    assert "hidden" not in json.dumps(found)


def test_rows_are_downloaded_and_written_to_a_second_table(deployment: Deployment) -> None:
    client = deployment.guest
    target = client.cwd / "downloaded.csv"
    conf = {"namespace": "experiment", "table_name": "breast_hetero_guest",
            "output_path": str(target), "delimiter": ","}  # fmt: skip
    answer = client.flow("data", "download", "-c", client.file("download.json", conf))
    assert answer["retcode"] == 0, answer
    assert deployment.wait(client, answer["jobId"], role="local")["f_status"] == "success"
    assert len(target.read_text().splitlines()) == 570
    copy = {"namespace": "experiment", "table_name": "breast_hetero_guest",
            "output_namespace": "copies", "output_name": "guest"}  # fmt: skip
    answer = client.flow("data", "writer", "-c", client.file("writer.json", copy))
    assert answer["retcode"] == 0, answer
    assert deployment.wait(client, answer["jobId"], role="local")["f_status"] == "success"
    assert client.ok("table", "info", *table("guest", "copies"))["count"] == 569


# --- administration -------------------------------------------------------------------------------


def test_server_provider_service_and_resource_answer(deployment: Deployment, job_id: str) -> None:
    client = deployment.guest
    assert client.ok("server", "versions")["API"] == "v1"
    assert "job_default_config" in client.ok("server", "reload")
    providers = client.ok("provider", "list")
    assert {"fate", "fate_flow"} <= set(providers)
    assert "fate" in client.ok("provider", "list", "-n", "fate")
    assert "heterolr" in {name.lower() for name in client.ok("provider", "list-components")}
    assert client.flow("service", "registry")["retcode"] == 0
    used = client.ok("resource", "query")
    assert used["computing_engine_resource"]["f_remaining_cores"] > 0
    assert client.flow("resource", "return", "-j", job_id)["retcode"] == 0
    assert client.flow("queue", "clean")["retcode"] == 0


def test_privileges_and_keys_are_stored_and_deleted(deployment: Deployment) -> None:
    client = deployment.guest
    conf = client.file("privilege.json", {"party_id": 10000, "component": "reader"})
    granted = client.flow("privilege", "grant", "-c", conf)
    assert granted["retcode"] == 100, "permissions are switched off here"
    assert client.flow("privilege", "query", "-p", 10000)["retcode"] == 0
    client.flow("privilege", "delete", "-c", conf)
    pem = public_key()
    saved = client.flow(
        "key", "save", "-c", client.file("key.json", {"party_id": 10000, "key": pem})
    )
    assert saved["retcode"] == 0, saved
    assert "BEGIN PUBLIC KEY" in client.ok("key", "query", "-p", 10000)
    assert client.flow("key", "delete", "-p", 10000)["retcode"] == 0


def public_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def test_a_tag_is_created_given_to_a_model_and_deleted(deployment: Deployment, job_id: str) -> None:
    client = deployment.guest
    assert client.flow("tag", "create", "-t", "release", "-d", "good ones")["retcode"] == 0
    assert client.flow("tag", "create", "-t", "release")["retcode"] == 100
    assert client.flow("model", "tag-model", "-j", job_id, "-t", "release")["retcode"] == 0
    assert client.ok("model", "tag-list", "-j", job_id)["count"] == 1
    assert "release" in [t["name"] for t in client.ok("tag", "list", "-l", 5)["tags"]]
    found = client.ok("tag", "query", "-t", "release", "--with-model")
    assert found["count"] == len(found["models"])
    assert {m["model_version"] for m in found["models"]} == {job_id}
    words = ("-t", "release", "--new-tag-name", "product", "--new-tag-desc", "best")
    assert client.flow("tag", "update", *words)["retcode"] == 0
    assert (
        client.flow("model", "tag-model", "-j", job_id, "-t", "product", "--remove")["retcode"] == 0
    )
    assert client.flow("tag", "delete", "-t", "product")["retcode"] == 0


def test_templates_are_downloaded_as_files(deployment: Deployment, tmp_path: Path) -> None:
    answer = deployment.guest.flow("template", "download", "--output-path", tmp_path)
    assert answer["retcode"] == 0, answer
    assert any(p.suffix == ".json" for p in tmp_path.rglob("*"))


# --- models ---------------------------------------------------------------------------------------


def test_a_model_is_deployed_predicts_and_is_exported_and_imported(
    deployment: Deployment, job_id: str, tmp_path: Path
) -> None:
    client = deployment.guest
    which = ("--model-id", MODEL_ID, "--model-version", job_id)
    listed = ",".join(COMPONENTS[:4])
    deployed = client.ok("model", "deploy", *which, "--cpn-list", listed)
    assert deployed["guest"] == {"9999": 0}
    version = deployed["model_version"]
    child = ("--model-id", MODEL_ID, "--model-version", version)
    info = client.ok("model", "get-model-info", "--model-version", version, "-r", "guest")
    assert info[0]["f_model_id"] == MODEL_ID
    kept = [
        client.flow("model", "get-predict-dsl", *child, "-o", tmp_path),
        client.flow("model", "get-predict-conf", *child, "-o", tmp_path),
    ]
    assert [answer["retcode"] for answer in kept] == [0, 0], kept
    conf = predict_conf(MODEL_ID, version)
    answer = client.flow("job", "submit", "-c", client.file("predict.json", conf))
    assert answer["retcode"] == 0, answer
    assert deployment.wait(client, answer["jobId"])["f_status"] == "success"
    out = tmp_path / "predicted"
    got = client.flow("tracking", "output-data", *share(answer["jobId"], "hetero_lr_0"), "-o", out)
    assert got["retcode"] == 0, got
    one = {"model_id": MODEL_ID, "model_version": version, "role": "guest", "party_id": 9999}
    exported = client.flow(
        "model", "export", "-c", client.file("export.json", {**one, "output_path": str(tmp_path)})
    )
    assert exported["retcode"] == 0, exported
    archive = next(tmp_path.glob("*.zip"))
    again = {**one, "file": str(archive)}
    refused = client.flow("model", "import", "-c", client.file("import.json", again))
    assert refused["retcode"] == 409
    forced = client.flow(
        "model", "import", "-c", client.file("import.json", {**again, "force_update": 1})
    )
    assert forced["retcode"] == 0, forced


def predict_conf(model_id: str, version: str) -> dict[str, Any]:
    def reads(name: str) -> dict[str, Any]:
        return {"0": {"reader_0": {"table": {"name": name, "namespace": "experiment"}}}}

    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000], "arbiter": [10000]},
        "job_parameters": {
            "common": {"job_type": "predict", "model_id": model_id, "model_version": version}
        },
        "component_parameters": {
            "role": {"guest": reads("breast_hetero_guest"), "host": reads("breast_hetero_host")}
        },
    }


# --- tests that the client brings -----------------------------------------------------------------


def test_the_toy_test_succeeds_for_both_parties(deployment: Deployment) -> None:
    printed = deployment.guest.run("flow", "test", "toy", "-gid", 9999, "-hid", 10000)
    assert "is success" in printed, printed
    assert "secure_add_guest" in printed, printed


def test_a_stopped_job_is_canceled_and_can_be_run_again(deployment: Deployment) -> None:
    client = deployment.guest
    job_id = deployment.submit(*empty_job({"sleep_s": 30}))
    assert client.flow("job", "stop", "-j", job_id)["retcode"] == 0
    assert deployment.wait(client, job_id)["f_status"] == "canceled"
    change = {"component_parameters": {"common": {"empty_0": {"sleep_s": 0}}}}
    words = ("-j", job_id, "-c", client.file("change.json", change))
    assert client.flow("job", "parameter-update", *words)["retcode"] == 0
    assert client.flow("job", "rerun", "-j", job_id)["retcode"] == 0
    assert deployment.wait(client, job_id)["f_status"] == "success"


def test_a_model_is_deployed_by_dsl_and_with_a_checkpoint(deployment: Deployment) -> None:
    client = deployment.guest
    dsl, conf = example(iterations=2)
    learner = conf["component_parameters"]["common"]["hetero_lr_0"]
    learner["callback_param"] = {"callbacks": ["ModelCheckpoint"], "save_freq": 1}
    trained = deployment.trained(dsl, conf)
    which = ("--model-id", MODEL_ID, "--model-version", trained)
    steps = client.ok("checkpoint", "list", *which, *SHARE)
    assert [s["step_index"] for s in steps] == [0, 1]
    found = client.ok("checkpoint", "get", *which, *SHARE, "--step-name", "round_0")
    assert found["models"]
    listed = ",".join(COMPONENTS[:4])
    words = ("--cpn-list", listed, "--cpn-step-index", "hetero_lr_0:0")
    deployed = client.ok("model", "deploy", *which, *words)
    assert deployed["model_version"] != trained
    words = ("--train-dsl-path", client.file("d.json", dsl), "--cpn-list", listed)
    predict = client.ok("job", "dsl", *words)
    by_dsl = client.ok("model", "deploy", *which, "--dsl-path", client.file("p.json", predict))
    assert by_dsl["model_version"] not in {trained, deployed["model_version"]}
    unknown = client.flow("model", "deploy", *which, "--cpn-list", "nothing_0")
    assert unknown["retcode"] == 101
    assert "nothing_0" in unknown["retmsg"]


def test_models_are_stored_restored_and_migrated(deployment: Deployment, job_id: str) -> None:
    client = deployment.guest
    one = {"model_id": MODEL_ID, "model_version": job_id, "role": "guest", "party_id": 9999}
    path = client.file("one.json", one)
    stored = client.flow("model", "export", "-c", path, "--to-database")
    assert stored["retcode"] == 0, stored
    assert deployment.wait(client, stored["jobId"], role="local")["f_status"] == "success"
    restored = client.flow("model", "import", "-c", path, "--from-database")
    assert restored["retcode"] == 0, restored
    assert deployment.wait(client, restored["jobId"], role="local")["f_status"] == "success"
    roles = {"guest": [9999], "host": [10000], "arbiter": [10000]}
    change = {
        "job_parameters": {"federated_mode": "MULTIPLE"}, "role": roles,
        "migrate_initiator": {"role": "guest", "party_id": 99},
        "migrate_role": {"guest": [99], "host": [100], "arbiter": [100]},
        "execute_party": {"guest": [9999], "host": [10000], "arbiter": [10000]},
        "model_id": MODEL_ID, "model_version": job_id,
    }  # fmt: skip
    migrated = client.flow("model", "migrate", "-c", client.file("migrate.json", change))
    assert migrated["retcode"] == 0, migrated
    assert migrated["data"]["guest"] == {"9999": 0}, migrated


def test_what_comes_later_says_so(deployment: Deployment, job_id: str) -> None:
    client = deployment.guest
    one = {"model_id": MODEL_ID, "model_version": job_id, "role": "guest", "party_id": 9999}
    serving = {
        "service_id": "s", "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999]},
        "job_parameters": {"model_id": MODEL_ID, "model_version": job_id},
    }  # fmt: skip
    conf = client.file("serving.json", serving)
    homo = {
        **one, "service_id": "s", "component_name": "hetero_lr_0", "deployment_type": "kfserving",
        "deployment_parameters": {},
    }  # fmt: skip
    provider = {"name": "fate", "version": "9", "path": str(client.cwd)}
    merge = ("--model-id", MODEL_ID, "--model-version", job_id)
    woe = (*merge, "-cpn", "hetero_lr_0", "-r", "guest", "-p", 9999)
    no_binning = [
        client.flow("component", "woe-array-extract", *woe, "-o", client.cwd / "w"),
        client.flow("component", "woe-array-merge", *woe, "-i", client.file("w.json", {"a": {}})),
    ]
    assert {answer["error"]["name"] for answer in no_binning} == {"WrongWoeArrays"}
    not_deployed = [
        client.flow("model", "load", "-j", job_id),
        client.flow("model", "load", "-c", conf),
        client.flow("model", "bind", "-c", conf),
    ]
    assert {answer["error"]["name"] for answer in not_deployed} == {"ModelNotDeployed"}
    not_allowed = client.flow("provider", "register", "-c", client.file("provider.json", provider))
    assert not_allowed["error"]["name"] == "ProviderRefused"
    assert "provider.allowed_folders" in not_allowed["retmsg"] + not_allowed["error"]["hint"]
    answers = [
        client.flow("model", "homo-convert", "-c", client.file("homo.json", one)),
        client.flow("model", "homo-deploy", "-c", client.file("deploy.json", homo)),
        client.flow("component", "hetero-model-merge", *merge, "-gid", 9999, "-hids", 10000,
                    "-cpn", "hetero_lr_0", "--model-type", "hetero_lr", "--output-format", "pmml",
                    "-o", client.cwd / "merged"),
    ]  # fmt: skip
    refusals = {answer["error"]["name"]: answer["retmsg"] for answer in answers}
    assert list(refusals) == ["NotSupportedYet"], refusals
    assert all(answer["retcode"] != 0 for answer in answers)


def test_a_table_is_added_and_deleted(deployment: Deployment) -> None:
    client = deployment.guest
    address = {"path": str(DATA / "breast_hetero_guest.csv")}
    conf = {"namespace": "added", "name": "t", "engine": "PATH", "address": address}
    assert client.flow("table", "add", "-c", client.file("add.json", conf))["retcode"] == 0
    assert client.flow("table", "delete", *table("t", "added"))["retcode"] == 0


def test_the_settings_file_of_a_server_can_be_named(deployment: Deployment) -> None:
    place = deployment.pair.guest.place
    conf = deployment.client.cwd / "service_conf.yaml"
    conf.write_text(
        f"fateflow:\n  host: 127.0.0.1\n  http_port: {place.http_port}\n", encoding="utf-8"
    )
    client = deployment.guest
    assert client.flow("init", "-c", conf)["retcode"] == 0
    assert client.ok("server", "versions")["API"] == "v1"
    client.forget()


def test_every_command_is_tried_here(deployment: Deployment) -> None:
    script = """
import json
from flow_client.flow import flow_cli
found = [[noun, verb] for noun, group in flow_cli.commands.items() if hasattr(group, "commands")
         for verb in group.commands]
print()
print(json.dumps(found))
"""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    commands = deployment.client.python(script)
    assert len(commands) > 70
    by_noun = {"tracking", "component"}
    missing = [
        f"{noun} {verb}"
        for noun, verb in commands
        if f'"{noun}", "{verb}"' not in text and not (noun in by_noun and f'noun, "{verb}"' in text)
    ]
    assert not missing
