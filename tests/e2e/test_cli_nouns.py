"""The nouns and verbs of `fedflow` against a real server: text, JSON, exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli_place import COMPONENTS, MODEL_ID, Place, trained_place
from tests.e2e.jobs import empty_job
from tests.e2e.servers import DATA

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

GUEST = ("-r", "guest", "-p", "9999")
TABLE = ("-n", "experiment", "-t", "breast_hetero_guest")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with trained_place(tmp_path_factory.mktemp("nouns")) as one:
        yield one


@pytest.fixture
def ended(place: Place) -> str:
    """Return a job of one empty component that has ended."""
    job_id = place.party.client.submit(*empty_job({"sleep_s": 0})).job_id
    assert place.wait(job_id) == "success"
    return job_id


def test_a_job_is_submitted_waited_for_changed_rerun_and_cleaned(place: Place) -> None:
    dsl, conf = empty_job({"sleep_s": 0})
    words = ("-c", place.file("c.json", conf), "-d", place.file("d.json", dsl))
    job_id = place.json("job", "submit", *words)["job_id"]
    assert "success" in place.fedflow("job", "wait", "-j", job_id, "--timeout", 40)
    change = {"component_parameters": {"common": {"empty_0": {"sleep_s": 0.01}}}}
    words = ("-c", place.file("u.json", change), "--notes", "a note")
    assert place.json("job", "update", "-j", job_id, *words)["components"] == ["empty_0"]
    place.fedflow("job", "rerun", "-j", job_id, "--force", "--wait")
    config = json.loads(place.fedflow("job", "config", "-j", job_id))
    assert config["runtime_conf"]["component_parameters"]["common"]["empty_0"]["sleep_s"] == 0.01
    (row,) = (
        r for r in place.json("job", "list", "-l", 50)["jobs"]
        if r["job_id"] == job_id and r["role"] == "guest"
    )  # fmt: skip
    assert row["description"] == "a note"
    assert place.json("job", "clean", "-j", job_id)["metrics"] == 0


def test_events_are_printed_with_their_causes(place: Place, ended: str) -> None:
    lines = place.fedflow("job", "events", "-j", ended, "--json").splitlines()
    events = [json.loads(line) for line in lines]
    told = {(e["component"], e["site"], e["new"]) for e in events}
    assert {(None, None, "success"), ("empty_0", "guest-9999", "running"),
            ("empty_0", "host-10000", "success")} <= told  # fmt: skip
    followed = place.fedflow("job", "events", "-j", ended, "--follow")
    assert "empty_0 at guest 9999: running -> success" in followed


def test_a_log_is_followed_until_the_job_has_ended(place: Place, ended: str) -> None:
    words = ("job", "log", "-j", ended, "--follow")
    assert "empty_0" in place.fedflow(*words)
    of_guest = place.fedflow(*words, "-c", "empty_0", *GUEST, "--json").splitlines()
    assert [json.loads(line)["line_num"] for line in of_guest] == [
        number + 1 for number in range(len(of_guest))
    ]
    assert "info log only" in place.fedflow(*words, "-c", "a", "--level", "error", code=2)


def test_documents_of_a_job_are_shown_and_saved(place: Place, tmp_path: Path) -> None:
    job = ("-j", place.job_id)
    assert "hetero_lr_0" in place.fedflow("job", "view", *job, *GUEST)
    needs = {row.split()[0]: row for row in place.fedflow("job", "dag", *job).splitlines()}
    assert "data_transform_0" in needs["intersection_0"]
    files = place.json("job", "config", *job, "-o", tmp_path)
    dsl = json.loads(Path(files[0]).read_text())
    chosen = [word for name in COMPONENTS for word in ("-c", name)]
    found = json.loads(place.fedflow("job", "dsl", "-d", place.file("t.json", dsl), *chosen))
    assert set(found["components"]) == set(COMPONENTS)


def test_tasks_and_their_results_are_shown(place: Place, ended: str) -> None:
    page = place.json("task", "list", "-j", place.job_id, "-c", "hetero_lr_0", *GUEST)
    assert [t["status"] for t in page["tasks"]] == ["success"]
    assert "hetero_lr_0" in place.fedflow("task", "list", "-j", place.job_id, "-l", 0)
    assert "; --page or --limit shows more" in place.fedflow("task", "list", "-l", 1)
    words = ("-j", place.job_id, "-c", "hetero_lr_0", *GUEST)
    assert json.loads(place.fedflow("tracking", "parameters", *words))["module"] == "HeteroLR"
    assert set(place.json("tracking", "components", "-j", place.job_id)) > set(COMPONENTS)
    place.fedflow("tracking", "delete-metrics", "-j", ended, "--yes")


def test_tables_are_bound_disabled_saved_traced_and_deleted(place: Place, tmp_path: Path) -> None:
    conf = {"namespace": "nouns", "name": "t", "engine": "PATH", "head": 1,
            "address": {"path": str(DATA / "breast_hetero_guest.csv")}}  # fmt: skip
    path = place.file("bind.json", conf)
    place.fedflow("table", "bind", "-c", path)
    refused = place.fedflow("table", "bind", "-c", path, code=1)
    assert re.match(r"Error: .*nouns\.t exists already\.\nHint: ", refused)
    place.fedflow("table", "bind", "-c", path, "--drop")
    own = ("-n", "nouns", "-t", "t")
    place.fedflow("table", "disable", *own)
    assert place.json("table", "info", *own)["enabled"] is False
    place.fedflow("table", "enable", *own)
    place.fedflow("table", "disable", *own)
    assert place.json("table", "delete-disabled") == {"deleted": 1}
    files = place.json("table", "download", *TABLE, "-o", tmp_path)
    assert [Path(file).name for file in files] == ["table.csv", "table.meta"]
    assert place.job_id in place.json("table", "jobs", *TABLE)
    output = place.party.client.outputs(place.job_id, component="reader_0")[0]
    words = ("-n", output.table_namespace, "-t", output.table_name)
    assert "not created from a table" in place.fedflow("table", "source", *words)
    assert place.fedflow("table", "preview", *TABLE, "-l", 2).count("\n") == 3


def test_data_are_copied_and_written_to_the_server(place: Place) -> None:
    words = ("--to-namespace", "nouns", "--to-table", "copy", "--wait")
    place.fedflow("data", "writer", *TABLE, *words)
    assert place.json("table", "info", "-n", "nouns", "-t", "copy")["count"] == 569
    target = place.party.home / "downloads" / "n.csv"
    place.fedflow("data", "download", *TABLE, "--to", target, "--wait")
    assert target.is_file()
    outside = place.fedflow("data", "download", *TABLE, "--to", "/etc/passwd", code=1)
    assert outside.startswith("Error: ")


def test_the_outputs_of_a_job_are_deleted(place: Place) -> None:
    dsl, conf = empty_job({})
    job_id = place.party.client.submit(dsl, conf).job_id
    place.wait(job_id)
    found = place.fedflow("table", "delete-outputs", "-j", job_id, "--yes", code=1)
    assert "Error: " in found  # an empty component makes no table


def test_a_connector_is_shown_without_its_password(place: Place) -> None:
    conf = {"connector_name": "w", "engine": "MYSQL",
            "connector_info": {"user": "u", "passwd": "hidden", "host": "127.0.0.1"}}  # fmt: skip
    place.fedflow("table", "connector-create", "-c", place.file("w.json", conf))
    assert "hidden" not in place.fedflow("table", "connector-show", "w")


def test_a_model_is_listed_deployed_and_predicts(place: Place) -> None:
    trained = ("-m", MODEL_ID, "-v", place.job_id)
    rows = place.json("model", "list", *trained, *GUEST)
    assert [(r["model_version"], r["parent"]) for r in rows] == [(place.job_id, True)]
    assert MODEL_ID in place.fedflow("model", "list")
    assert place.fedflow("model", "list", "-v", "never") == "No models.\n"
    chosen = [word for name in COMPONENTS for word in ("-c", name)]
    version = place.json("model", "deploy", *trained, *chosen)["model_version"]
    deployed = ("-m", MODEL_ID, "-v", version)
    assert "hetero_lr_0" in place.fedflow("model", "info", *deployed)
    assert set(json.loads(place.fedflow("model", "predict-dsl", *deployed))["components"]) == set(
        COMPONENTS
    )
    conf = json.loads(place.fedflow("model", "predict-conf", *deployed))
    assert conf["job_parameters"]["common"]["model_version"] == version
    tables = ("-t", "guest", "experiment", "breast_hetero_guest",
              "-t", "host:10000", "experiment", "breast_hetero_host")  # fmt: skip
    assert "success" in place.fedflow("model", "predict", *deployed, *tables, "--wait")
    missing = place.fedflow("model", "predict", *deployed, *tables[:4], code=2)
    assert "no table is named for host 10000" in missing
    refused = place.fedflow("model", "predict", *trained, *tables, code=1)
    assert "not deployed" in refused


def test_a_model_goes_out_and_comes_back(place: Place, tmp_path: Path) -> None:
    share = ("-m", MODEL_ID, "-v", place.version, *GUEST)
    file = place.json("model", "export", *share, "-o", tmp_path)["file"]
    assert "exists already" in place.fedflow("model", "import", *share, "-f", file, code=1)
    place.fedflow("model", "import", *share, "-f", file, "--replace")
    wrong = ("--replace", "--sha256", "0" * 64)
    assert "Error: " in place.fedflow("model", "import", *share, "-f", file, *wrong, code=1)
    assert "success" in place.fedflow("model", "store", *share, "--wait")
    assert "success" in place.fedflow("model", "restore", *share, "--wait")
    assert "loaded at all parties" in place.fedflow("model", "load", "-v", place.version)
    place.fedflow("model", "bind", "-v", place.version, "-s", "nouns")
    assert "nouns" in place.serving.bound
    place.fedflow("model", "unbind", "-s", "nouns")
    place.fedflow("model", "unload", "-v", place.version)
    assert (place.serving.loaded, place.serving.bound) == ({}, {})


def test_a_tag_is_created_given_renamed_and_deleted(place: Place) -> None:
    place.fedflow("tag", "create", "good", "-d", "works well")
    place.fedflow("model", "tag", "-v", place.version, "good")
    assert "works well" in place.fedflow("model", "tag", "-v", place.version)
    assert len(place.json("tag", "models", "good")) == 3
    place.fedflow("tag", "update", "good", "--name", "better")
    assert [t["name"] for t in place.json("tag", "query", "bett")] == ["better"]
    place.fedflow("model", "tag", "-v", place.version, "better", "--remove")
    assert [t["model_count"] for t in place.json("tag", "list") if t["name"] == "better"] == [0]
    place.fedflow("tag", "delete", "better", "--yes")


def test_checkpoints_are_listed_and_bad_choices_refused(place: Place) -> None:
    words = ("-m", MODEL_ID, "-v", place.job_id, *GUEST, "-c", "hetero_lr_0")
    steps = place.json("checkpoint", "list", *words)
    assert isinstance(steps, list)
    assert "Error: " in place.fedflow("checkpoint", "get", *words, "--step-name", "x", code=1)
    assert "give either" in place.fedflow("checkpoint", "get", *words, code=2)


def test_keys_permissions_and_services_are_administered(place: Place, tmp_path: Path) -> None:
    from tests.e2e.test_cli_flow import public_key

    pem = tmp_path / "key.pem"
    pem.write_text(public_key())
    place.fedflow("key", "save", "-p", 77, "-f", pem)
    assert place.json("key", "show", "-p", 77)["key"] == pem.read_text()
    place.fedflow("key", "delete", "-p", 77, "--yes")
    (tmp_path / "bad.pem").write_text("no key")
    bad = place.fedflow("key", "save", "-p", 77, "-f", tmp_path / "bad.pem", code=1)
    assert bad.startswith("Error: ")
    place.fedflow("permission", "grant", "-p", 88, "-c", "reader", "-t", "n", "t")
    assert place.json("permission", "query", "-p", 88) == {
        "component": ["reader"], "dataset": [{"namespace": "n", "name": "t"}]
    }  # fmt: skip
    place.fedflow("permission", "revoke", "-p", 88, "-c", "reader", "--all-tables")
    assert place.fedflow("permission", "query", "-p", 88) == "Nothing was granted.\n"
    assert "fate" in place.fedflow("provider", "list")
    assert "provider    fedflow" in place.fedflow("component", "describe", "heterolr")
    assert "cores are free" in place.fedflow("resource", "query")
    assert len(place.json("resource", "return", "-j", place.job_id)) == 3
    place.fedflow("service", "register-server", "board", "--host", "127.0.0.1", "--port", 8080)
    assert place.json("service", "list")["BOARD"]["port"] == 8080
    api = {"server_name": "board", "service_name": "look", "uri": "/x"}
    place.fedflow("service", "register", "-c", place.file("api.json", api))
    assert "http://127.0.0.1:8080/x" in place.fedflow("service", "query", "look")
    assert place.fedflow("queue", "list") == "No job waits.\n"
    assert place.json("queue", "clean") == {"canceled": []}
    place.fedflow("server", "reload")
    assert place.json("server", "job-defaults")["task_cores"]
    assert "version" in place.fedflow("party", "own")
    assert place.json("party", "check", "10000")["version"]
    assert place.fedflow("party", "list") == "This server knows no other party.\n"
    assert place.json("party", "ping", "10000")["broken"] == []


def test_templates_openapi_and_the_toy_test_are_within_reach(place: Place, tmp_path: Path) -> None:
    assert place.json("template", "download", "-o", tmp_path)
    place.fedflow("openapi", "-o", tmp_path / "api.json")
    assert json.loads((tmp_path / "api.json").read_text())["openapi"].startswith("3.1")
    words = ("test", "toy", "--guest", 9999, "--host", 10000, "--cores", 1)
    assert place.json(*words)["success"] is True
