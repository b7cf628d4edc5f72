"""Every command of `flow` against a real server, with FATE's own spellings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.cli.flow.commands import COMMANDS
from tests.e2e.cli_place import COMPONENTS, MODEL_ID, Json, Place, trained_place
from tests.e2e.jobs import empty_job, example
from tests.e2e.servers import DATA, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

EXPERIMENT = ("-n", "experiment", "-t", "breast_hetero_guest")
NEVER = "NotSupportedYet"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with trained_place(tmp_path_factory.mktemp("flow")) as one:
        yield one


def of(place: Place, component: str = "hetero_lr_0") -> tuple[str, ...]:
    return ("-j", place.job_id, "-r", "guest", "-p", "9999", "-cpn", component)


def share(place: Place, **more: Any) -> Json:
    one = {"model_id": MODEL_ID, "model_version": place.version}
    return {**one, "role": "guest", "party_id": 9999, **more}


def version(place: Place) -> tuple[str, ...]:
    return ("--model-id", MODEL_ID, "--model-version", place.version)


# --- one check per command ------------------------------------------------------------------------


def job_submit(place: Place) -> None:
    dsl, conf = empty_job({})
    words = ("-c", place.file("c.json", conf), "-d", place.file("d.json", dsl))
    answer = place.flow("job", "submit", *words)
    assert place.wait(answer["jobId"]) == "success"


def job_list(place: Place) -> None:
    assert len(place.ok("job", "list", "-l", 2)["jobs"]) == 2


def job_query(place: Place) -> None:
    words = ("-j", place.job_id, "-r", "guest", "-p", 9999, "-s", "success")
    (row,) = place.ok("job", "query", *words)
    assert row["f_job_id"] == place.job_id
    assert not {"f_dsl", "f_runtime_conf"} & set(row)


def job_stop(place: Place) -> None:
    job_id = place.party.client.submit(*empty_job({"sleep_s": 60})).job_id
    place.ok("job", "stop", "-j", job_id)
    assert place.wait(job_id) == "canceled"


def job_rerun(place: Place) -> None:
    job_id = place.party.client.submit(*empty_job({})).job_id
    place.wait(job_id)
    assert place.ok("job", "rerun", "-j", job_id, "--force", "-cpn", "empty_0")["retcode"] == 0
    assert place.wait(job_id) == "success"


def job_config(place: Place) -> None:
    words = ("-j", place.job_id, "-r", "guest", "-p", 9999, "-o", place.folder / "conf")
    answer = place.flow("job", "config", *words)
    assert answer["data"]["model_info"]["model_id"] == MODEL_ID
    folder = Path(answer["directory"])
    assert folder.name == f"job_{place.job_id}_config"
    assert set(json.loads((folder / "dsl.json").read_text())["components"]) >= set(COMPONENTS)


def job_log(place: Place) -> None:
    answer = place.ok("job", "log", "-j", place.job_id, "-o", place.folder / "logs")
    assert (Path(answer["directory"]) / "guest" / "9999" / "INFO.log").is_file()


def job_view(place: Place) -> None:
    rows = place.ok("job", "view", "-j", place.job_id, "-r", "guest", "-p", 9999)
    assert "hetero_lr_0" in {row["f_component_name"] for row in rows}


def job_dsl(place: Place) -> None:
    words = ("--train-dsl-path", place.file("dsl.json", example()[0]))
    found = place.ok("job", "dsl", *words, "--cpn-list", ",".join(COMPONENTS))
    assert list(found["components"]) == list(COMPONENTS)
    listed = place.folder / "listed.txt"
    listed.write_text("\n".join(COMPONENTS))
    answer = place.ok("job", "dsl", *words, "--cpn-path", listed, "-o", place.folder / "dsls")
    assert json.loads(Path(answer["file"]).read_text()) == found


def job_parameter_update(place: Place) -> None:
    job_id = place.party.client.submit(*empty_job({"sleep_s": 0})).job_id
    place.wait(job_id)
    change = {"component_parameters": {"common": {"empty_0": {"sleep_s": 0.01}}}}
    words = ("-j", job_id, "-c", place.file("change.json", change))
    assert place.ok("job", "parameter-update", *words)["components"] == ["empty_0"]


def task_list(place: Place) -> None:
    assert len(place.ok("task", "list", "-l", 3)["tasks"]) == 3


def task_query(place: Place) -> None:
    (row,) = place.ok("task", "query", *of(place), "-s", "success")
    assert row["f_component_module"] == "HeteroLR"
    assert place.flow("task", "query", "-j", "nothing")["retcode"] == 101


def upload(place: Place, name: str, *words: str, **more: Any) -> Json:
    conf = {
        "file": str(DATA / "breast_hetero_guest.csv"), "head": 1, "partition": 4,
        "namespace": "flow", "table_name": name, **more,
    }  # fmt: skip
    return place.flow("data", "upload", "-c", place.file("upload.json", conf), *words)


def data_upload(place: Place) -> None:
    assert place.wait(upload(place, "sent")["jobId"]) == "success"
    assert upload(place, "sent", drop=1)["retcode"] == 100  # only the option counts, as in FATE
    assert place.wait(upload(place, "sent", "--drop", "--verbose")["jobId"]) == "success"
    assert place.wait(upload(place, "read", use_local_data=0)["jobId"]) == "success"


def data_upload_history(place: Place) -> None:
    assert len(place.ok("data", "upload-history", "-l", 1)) == 1


def data_download(place: Place) -> None:
    conf = {
        "namespace": "experiment", "table_name": "breast_hetero_guest",
        "output_path": str(place.party.home / "downloads" / "g.csv"),
    }  # fmt: skip
    answer = place.flow("data", "download", "-c", place.file("download.json", conf))
    assert place.wait(answer["jobId"]) == "success"


def data_writer(place: Place) -> None:
    conf = {"namespace": "experiment", "table_name": "breast_hetero_guest",
            "output_namespace": "flow", "output_name": "written"}  # fmt: skip
    answer = place.flow("data", "writer", "-c", place.file("writer.json", conf))
    assert place.wait(answer["jobId"]) == "success"


def bound(place: Place, name: str, verb: str = "bind", *words: str) -> tuple[str, ...]:
    conf = {"namespace": "flow", "name": name, "engine": "PATH", "head": 1,
            "address": {"path": str(DATA / "breast_hetero_guest.csv")}}  # fmt: skip
    place.ok("table", verb, "-c", place.file("bind.json", conf), *words)
    return ("-n", "flow", "-t", name)


def table_info(place: Place) -> None:
    assert place.ok("table", "info", *EXPERIMENT)["count"] == 569


def table_add(place: Place) -> None:
    assert place.ok("table", "info", *bound(place, "added", "add"))["exist"] == 1


def table_bind(place: Place) -> None:
    bound(place, "bound")
    bound(place, "bound", "bind", "--drop")


def table_delete(place: Place) -> None:
    words = bound(place, "deleted")
    place.ok("table", "delete", *words)
    answer = place.flow("table", "delete", *words)
    assert (answer["retcode"], answer["retmsg"]) == (101, "no find table")


def table_disable(place: Place) -> None:
    words = bound(place, "disabled")
    place.ok("table", "disable", *words)
    assert place.ok("table", "info", *words)["enable"] is False


def table_enable(place: Place) -> None:
    words = bound(place, "enabled")
    place.ok("table", "disable", *words)
    place.ok("table", "enable", *words)
    assert place.ok("table", "info", *words)["enable"] is True


def table_disable_delete(place: Place) -> None:
    words = bound(place, "gone")
    place.ok("table", "disable", *words)
    place.ok("table", "disable-delete")
    assert place.ok("table", "info", *words)["exist"] == 0


CONNECTOR = {
    "connector_name": "warehouse", "engine": "MYSQL",
    "connector_info": {"user": "u", "passwd": "hidden", "host": "127.0.0.1", "port": 3306},
}  # fmt: skip


def table_connector_create(place: Place) -> None:
    place.ok("table", "connector-create", "-c", place.file("connector.json", CONNECTOR))


def table_connector_query(place: Place) -> None:
    table_connector_create(place)
    found = place.ok("table", "connector-query", "--connector-name", "warehouse")
    assert found["connector_info"]["host"] == "127.0.0.1"


def table_tracking_source(place: Place) -> None:
    (table,) = place.ok("tracking", "output-data-table", *of(place, "reader_0"))
    words = ("-n", table["table_namespace"], "-t", table["table_name"])
    (row,) = place.ok("table", "tracking-source", *words)
    assert row["parent_table_name"] == "breast_hetero_guest"


def table_tracking_job(place: Place) -> None:
    assert place.job_id in place.ok("table", "tracking-job", *EXPERIMENT)["job"]


def metrics(place: Place, noun: str) -> None:
    assert "hetero_lr_0" in place.ok(noun, "metrics", *of(place, "evaluation_0"))["train"]


def metric_all(place: Place, noun: str) -> None:
    found = place.ok(noun, "metric-all", *of(place, "evaluation_0"))["train"]
    assert "auc" in dict(found["hetero_lr_0"]["data"])


def parameters(place: Place, noun: str) -> None:
    assert place.ok(noun, "parameters", *of(place))["module"] == "HeteroLR"


def output_model(place: Place, noun: str) -> None:
    assert len(place.ok(noun, "output-model", *of(place))["weight"]) == 10


def output_data_table(place: Place, noun: str) -> None:
    assert len(place.ok(noun, "output-data-table", *of(place))) == 1


def output_data(place: Place, noun: str) -> None:
    words = (*of(place), "-o", place.folder / noun, "-l", 5)
    folder = Path(place.ok(noun, "output-data", *words)["directory"])
    assert folder.name == f"job_{place.job_id}_hetero_lr_0_guest_9999_output_data"
    (csv,) = folder.glob("*.csv")
    assert len(csv.read_text().splitlines()) == 6
    nothing = place.flow(noun, "output-data", *of(place, "evaluation_0"), "-o", place.folder)
    assert nothing["retcode"] == 210


def get_summary(place: Place, noun: str) -> None:
    summary = place.ok(noun, "get-summary", *of(place))
    saved = place.ok(noun, "get-summary", *of(place), "-o", place.folder / noun)["file"]
    assert json.loads(Path(saved).read_text()) == summary


def component_list(place: Place) -> None:
    found = place.ok("component", "list", "-j", place.job_id)["components"]
    assert set(found) == {*COMPONENTS, "evaluation_0"}


def component_metric_delete(place: Place) -> None:
    job_id = place.party.client.submit(*empty_job({})).job_id
    place.wait(job_id)
    place.ok("component", "metric-delete", "-j", job_id)


def model_tag_model(place: Place) -> None:
    place.ok("model", "tag-model", "-j", place.job_id, "-t", "best")
    place.ok("model", "tag-model", "-j", place.job_id, "-t", "best", "--remove")
    assert place.ok("model", "tag-list", "-j", place.job_id)["count"] == 0


def model_tag_list(place: Place) -> None:
    place.ok("model", "tag-model", "-j", place.version, "-t", "listed")
    assert place.ok("model", "tag-list", "-j", place.version)["count"] == 1


def exported(place: Place) -> Path:
    conf = share(place, output_path=str(place.folder / "models"))
    answer = place.ok("model", "export", "-c", place.file("export.json", conf))
    assert Path(answer["file"]).name.startswith("guest#9999#arbiter-10000#")
    return Path(answer["file"])


def model_export(place: Place) -> None:
    exported(place)
    stored = place.flow(
        "model", "export", "-c", place.file("s.json", share(place)), "--to-database"
    )
    assert place.wait(stored["jobId"]) == "success"


def model_import(place: Place) -> None:
    conf = share(place, file=str(exported(place)))
    again = place.flow("model", "import", "-c", place.file("import.json", conf))
    assert again["retcode"] == 409
    conf["force_update"] = 1
    place.ok("model", "import", "-c", place.file("import.json", conf))
    model_export(place)
    restored = place.flow(
        "model", "import", "-c", place.file("r.json", share(place)), "--from-database"
    )
    assert place.wait(restored["jobId"]) == "success"


def model_migrate(place: Place) -> None:
    conf = {
        "job_parameters": {"federated_mode": "MULTIPLE"},
        "migrate_initiator": {"role": "guest", "party_id": 99},
        "role": {"guest": [9999], "arbiter": [10000], "host": [10000]},
        "migrate_role": {"guest": [99], "arbiter": [100], "host": [100]},
        "execute_party": {"guest": [9999], "arbiter": [10000], "host": [10000]},
        "model_id": MODEL_ID, "model_version": place.version,
    }  # fmt: skip
    found = place.ok("model", "migrate", "-c", place.file("migrate.json", conf))
    assert found["guest"] == {"9999": 0}


def model_load(place: Place) -> None:
    data = place.ok("model", "load", "-j", place.version)
    assert data["guest"] == {"9999": 0}
    assert set(data["detail"]) == {"guest", "host"}
    assert (MODEL_ID, place.version) in place.serving.loaded


def model_bind(place: Place) -> None:
    place.ok("model", "load", "-j", place.version)
    conf = {**share(place), "service_id": "credit", "role": None}
    place.ok("model", "bind", "-j", place.version, "-c", place.file("bind.json", conf))
    assert place.serving.bound["credit"] == (MODEL_ID, place.version)


def model_deploy(place: Place) -> None:
    words = ("--model-id", MODEL_ID, "--model-version", place.job_id)
    made = place.ok("model", "deploy", *words, "--cpn-list", ",".join(COMPONENTS))
    assert made["model_version"] != place.job_id
    dsl = place.party.client.models.predict_dsl(MODEL_ID, made["model_version"])
    place.ok("model", "deploy", *words, "--dsl-path", place.file("p.json", dsl))
    bad = place.flow("model", "deploy", *words, "--cpn-step-index", "hetero_lr_0:x")
    assert "hetero_lr_0:x" in bad["retmsg"]


def model_get_predict_dsl(place: Place) -> None:
    saved = place.ok("model", "get-predict-dsl", *version(place), "-o", place.folder)["file"]
    assert set(json.loads(Path(saved).read_text())["components"]) == set(COMPONENTS)


def model_get_predict_conf(place: Place) -> None:
    saved = place.ok("model", "get-predict-conf", *version(place), "-o", place.folder)["file"]
    common = json.loads(Path(saved).read_text())["job_parameters"]["common"]
    assert common["job_type"] == "predict"


def model_get_model_info(place: Place) -> None:
    (row,) = place.ok("model", "get-model-info", *version(place), "-r", "guest", "-p", "9999")
    assert "f_train_dsl" not in row
    (row,) = place.ok(
        "model", "get-model-info", *version(place), "-r", "guest", "-p", "9999", "--detail"
    )
    assert "f_train_dsl" in row


def tag_create(place: Place) -> None:
    place.ok("tag", "create", "-t", "made", "-d", "a description of it")
    assert place.flow("tag", "create", "-t", "made")["retcode"] == 100


def tag_query(place: Place) -> None:
    place.ok("model", "tag-model", "-j", place.version, "-t", "asked")
    assert place.ok("tag", "query", "-t", "aske")["tags"][0]["name"] == "asked"
    assert place.ok("tag", "query", "-t", "asked", "--with-model")["count"] == 3


def tag_update(place: Place) -> None:
    place.ok("tag", "create", "-t", "old")
    place.ok("tag", "update", "-t", "old", "--new-tag-name", "new", "--new-tag-desc", "d")


def tag_delete(place: Place) -> None:
    place.ok("tag", "create", "-t", "short")
    place.ok("tag", "delete", "-t", "short")


def tag_list(place: Place) -> None:
    place.ok("tag", "create", "-t", "one more")
    assert place.ok("tag", "list", "-l", 1)["tags"][0]["name"] == "one more"


def site_of_model(place: Place) -> tuple[str, ...]:
    which = ("--model-id", MODEL_ID, "--model-version", place.job_id)
    return (*which, "-r", "guest", "-p", "9999", "-cpn", "hetero_lr_0")


def checkpoint_list(place: Place) -> None:
    found = place.flow("checkpoint", "list", *site_of_model(place))
    assert (found["retcode"], isinstance(found["data"], list)) == (0, True)


def checkpoint_get(place: Place) -> None:
    steps = place.ok("checkpoint", "list", *site_of_model(place))
    if steps:
        words = ("--step-index", steps[0]["step_index"])
        assert place.ok("checkpoint", "get", *site_of_model(place), *words)["models"]
    missing = place.flow("checkpoint", "get", *site_of_model(place), "--step-name", "never")
    assert missing["retcode"] == 404


def public_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()


def key_save(place: Place) -> str:
    conf: dict[str, str] = {"party_id": "77", "key": public_key()}
    place.ok("key", "save", "-c", place.file("key.json", conf))
    return conf["key"]


def key_query(place: Place) -> None:
    assert key_save(place) == place.ok("key", "query", "-p", 77)


def key_delete(place: Place) -> None:
    key = key_save(place)
    place.ok("key", "delete", "-p", 77)
    assert key != place.ok("key", "query", "-p", 77)  # a standalone server is every party itself


GRANT = {"party_id": 88, "component": "reader", "dataset": {"name": "t", "namespace": "n"}}


def privilege_grant(place: Place) -> None:
    place.ok("privilege", "grant", "-c", place.file("grant.json", GRANT))


def privilege_query(place: Place) -> None:
    privilege_grant(place)
    assert place.ok("privilege", "query", "-p", 88)["component"] == ["reader"]


def privilege_delete(place: Place) -> None:
    privilege_grant(place)
    place.ok("privilege", "delete", "-c", place.file("grant.json", GRANT))
    assert place.ok("privilege", "query", "-p", 88)["component"] == []


def provider_list(place: Place) -> None:
    assert "fate" in place.ok("provider", "list")
    assert "fate" in place.ok("provider", "list", "-n", "fate")


def provider_register(place: Place) -> None:
    folder = place.party.home / "providers" / "examples"
    shutil.copytree(ROOT / "examples" / "provider", folder)
    conf = {"name": "examples", "version": "1.0", "path": str(folder)}
    added = place.ok("provider", "register", "-c", place.file("provider.json", conf))
    assert added["components"] == [
        "clipvalues", "comparemeans", "ridgeregression", "sharedregression",
    ]  # fmt: skip
    refused = place.flow(
        "provider", "register", "-c", place.file("provider.json", {**conf, "path": "/nowhere"})
    )
    assert refused["error"]["name"] == "ProviderRefused"
    place.party.client.providers.delete("examples", "1.0")


def provider_list_components(place: Place) -> None:
    assert place.ok("provider", "list-components")


def queue_clean(place: Place) -> None:
    place.ok("queue", "clean")


def resource_query(place: Place) -> None:
    assert place.ok("resource", "query")["computing_engine_resource"]["f_cores"] > 0


def resource_return(place: Place) -> None:
    assert place.ok("resource", "return", "-j", place.job_id)


def service_registry(place: Place) -> None:
    assert place.flow("service", "registry")["retcode"] == 0


def server_versions(place: Place) -> None:
    assert place.ok("server", "versions")["API"] == "v1"


def server_reload(place: Place) -> None:
    assert "job_default_config" in place.ok("server", "reload")


def template_download(place: Place) -> None:
    place.ok("template", "download", "--min-data", 1, "--output-path", place.folder / "t")
    assert any((place.folder / "t").rglob("*.json"))


def later(*words: str, conf: Json | None = None) -> Callable[[Place], None]:
    """Return a check that a command sends its request and hands on that this comes later."""

    def check(place: Place) -> None:
        more: tuple[object, ...] = ()
        if conf is not None:
            more = ("-c", place.file("later.json", {**share(place), **conf}))
        filled = [place.version if word == "VERSION" else word for word in words]
        answer = place.flow(*filled, *more)
        assert (answer["retcode"] != 0, answer["error"]["name"]) == (True, NEVER)

    return check


def woe_array(verb: str, role: str, party: str, *file: str) -> Callable[[Place], None]:
    """Return a check that the server reads which model is meant, and refuses one of no binning."""

    def check(place: Place) -> None:
        words = ("component", f"woe-array-{verb}", *version(place), "-r", role, "-p", party)
        answer = place.flow(*words, "-cpn", "hetero_lr_0", *file)
        assert answer["error"]["name"] == "WrongWoeArrays", answer

    return check


MODEL = ("--model-id", MODEL_ID, "--model-version", "VERSION")


CHECKS: dict[str, Callable[[Place], Any]] = {
    **{name.replace("_", " ", 1).replace("_", "-"): check for name, check in globals().items()
       if callable(check) and name.split("_")[0] in {c.noun for c in COMMANDS} and "_" in name},
    **{f"{noun} {check.__name__.replace('_', '-')}": lambda p, c=check, n=noun: c(p, n)
       for noun in ("tracking", "component")
       for check in (metrics, metric_all, parameters, output_model, output_data_table,
                     output_data, get_summary)},
    "component hetero-model-merge": later(
        "component", "hetero-model-merge", *MODEL, "-gid", "9999", "-hids", "10000,10001",
        "-cpn", "hetero_lr_0", "--model-type", "lr", "--output-format", "pmml", "-o", "m.pmml"),
    "component woe-array-extract": woe_array("extract", "guest", "9999", "-o", "w.json"),
    "component woe-array-merge": woe_array(
        "merge", "host", "10000", "-i", str(DATA.parent / "hetero_lr" / "dsl.json")),
    "model homo-convert": later("model", "homo-convert", conf={}),
    "model homo-deploy": later("model", "homo-deploy", conf={
        "service_id": "s", "component_name": "lr_0", "deployment_type": "kfserving",
        "deployment_parameters": {"config_file": str(DATA.parent / "hetero_lr" / "conf.json")}}),
}  # fmt: skip


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_the_command_does_what_its_check_says(place: Place, name: str) -> None:
    CHECKS[name](place)


def test_the_toy_test_prints_what_came_out(place: Place) -> None:
    from fedflow.cli.flow.main import cli

    result = place.run(cli, "test", "toy", "-gid", 9999, "-hid", 10000, "--task-cores", 1)
    assert result.exit_code == 0, result.output
    assert "is success" in result.output
    assert "secure_add_guest" in result.output
