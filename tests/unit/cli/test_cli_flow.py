"""The program `flow`: what it sends and prints, its exit status, its stored settings."""

from __future__ import annotations

import json
import stat
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from fedflow.base.errors.jobs import JobNotFound
from fedflow.cli.flow.commands import COMMANDS, NOUNS
from fedflow.cli.flow.main import cli
from fedflow.cli.main import cli as fedflow_cli
from fedflow.wire import headers
from fedflow.wire.envelope import failure
from tests.support.rest import Answer, RestServer

FATE = {
    "job": "config dsl list log parameter-update query rerun stop submit view",
    "task": "list query",
    "data": "download upload upload-history writer",
    "table": "add bind connector-create connector-query delete disable disable-delete enable info"
    " tracking-job tracking-source",
    "tracking": "get-summary metric-all metrics output-data output-data-table output-model"
    " parameters",
    "component": "get-summary hetero-model-merge list metric-all metric-delete metrics output-data"
    " output-data-table output-model parameters woe-array-extract woe-array-merge",
    "model": "bind deploy export get-model-info get-predict-conf get-predict-dsl homo-convert"
    " homo-deploy import load migrate tag-list tag-model",
    "tag": "create delete list query update",
    "checkpoint": "get list",
    "key": "delete query save",
    "privilege": "delete grant query",
    "provider": "list list-components register",
    "queue": "clean",
    "resource": "query return",
    "service": "registry",
    "server": "reload versions",
    "template": "download",
    "test": "min toy",
}
"""The commands of fate_client 1.11.3. Source: docs/reference/rest.md#the-flow-command."""


class Flow:
    """Runs `flow` in a folder of its own, against `server`."""

    def __init__(self, server, folder):
        self.server = server
        self.folder = folder
        self.config = folder / "config" / "fedflow" / "client.json"

    def run(self, *words, program=cli, **env):
        settings = {
            "FEDFLOW_SERVER": None, "FEDFLOW_APP_KEY": None, "FEDFLOW_SECRET_KEY": None,
            "FEDFLOW_FLOW_EXIT_ZERO": None, "XDG_CONFIG_HOME": str(self.folder / "config"),
        }  # fmt: skip
        return CliRunner(env={**settings, **env}).invoke(program, [str(word) for word in words])

    def __call__(self, *words, code=0, **env):
        result = self.run(*words, **{"FEDFLOW_SERVER": self.server.url, **env})
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def file(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def sent(self):
        return self.server.received[-1]


@pytest.fixture
def flow(tmp_path):
    with RestServer() as server:
        yield Flow(server, tmp_path)


# --- the table ------------------------------------------------------------------------------------


def test_there_is_every_command_of_fates_client_and_no_other():
    assert {
        name: sorted(group.commands) for name, group in cli.commands.items() if name != "init"
    } == {noun: verbs.split() for noun, verbs in FATE.items()}
    assert set(NOUNS) == set(FATE)
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)


def test_a_command_sends_the_conf_file_and_the_options_over_it(flow):
    flow.server.answers["/v1/job/parameter/update"] = Answer(data={})
    conf = flow.file("c.json", {"job_id": "old", "component_parameters": {"common": {}}})
    flow("job", "parameter-update", "-j", "7", "-c", conf)
    assert flow.sent().json == {"job_id": "7", "component_parameters": {"common": {}}}


def test_a_submit_sends_both_files_and_an_empty_dsl_without_one(flow):
    flow.server.answers["/v1/job/submit"] = Answer(data={}, members={"jobId": "7"})
    conf, dsl = flow.file("c.json", {"dsl_version": 2}), flow.file("d.json", {"components": {}})
    assert flow("job", "submit", "-c", conf, "-d", dsl)["jobId"] == "7"
    assert flow.sent().json == {
        "job_dsl": {"components": {}},
        "job_runtime_conf": {"dsl_version": 2},
    }
    flow("job", "submit", "-c", conf)
    assert flow.sent().json == {"job_dsl": {}, "job_runtime_conf": {"dsl_version": 2}}


@pytest.mark.parametrize(
    ("in_conf", "words", "sent"), [(1, (), 0), (0, ("--drop",), 1), (2, (), 0)]
)
def test_only_the_option_decides_whether_an_upload_replaces(flow, in_conf, words, sent):
    flow.server.answers["/v1/data/upload"] = Answer(members={"jobId": "7"})
    csv = flow.file("d.csv", "id,x\n1,2\n")
    conf = flow.file("c.json", {"file": str(csv), "drop": in_conf, "table_name": "a+b&c"})
    flow("data", "upload", "-c", conf, *words)
    query = json.loads(unquote(flow.sent().target.partition("?")[2]))
    assert (query["drop"], query["table_name"]) == (sent, "a+b&c")
    assert b"id,x\n1,2\n" in flow.sent().body


def test_jobs_are_printed_without_their_documents(flow):
    row = {"f_job_id": "7", "f_dsl": {}, "f_runtime_conf": {}}
    flow.server.answers["/v1/job/query"] = Answer(data=[row])
    assert flow("job", "query", "-j", "7")["data"] == [{"f_job_id": "7"}]


def test_a_deploy_sends_steps_by_component(flow):
    flow.server.answers["/v1/model/deploy"] = Answer(data={})
    words = ("--model-id", "m", "--model-version", "1", "--cpn-list", "a,b")
    flow("model", "deploy", *words, "--cpn-step-index", "a:3", "--cpn-step-name", "b:round_1")
    assert flow.sent().json == {
        "model_id": "m", "model_version": "1", "cpn_list": ["a", "b"],
        "components_checkpoint": {"a": {"step_index": 3}, "b": {"step_name": "round_1"}},
    }  # fmt: skip


def test_a_refused_download_is_printed_and_nothing_is_kept(flow):
    flow.server.answers["/v1/model/export"] = Answer(raw=b'{"retcode": 100, "retmsg": "x"}')
    conf = flow.file("c.json", {"output_path": str(flow.folder / "out")})
    assert flow("model", "export", "-c", conf, code=1)["retmsg"] == "x"
    assert flow.sent().method == "GET"
    assert not (flow.folder / "out").exists()


def test_an_answer_that_is_no_json_is_shown_as_a_failure(flow):
    flow.server.answers["/v1/job/list/job"] = Answer(raw=b"<html>", content_type="text/html")
    assert flow("job", "list", code=1) == {"retcode": 100, "retmsg": "<html>"}


def test_control_characters_of_an_answer_do_not_reach_the_terminal(flow):
    flow.server.answers["/v1/job/list/job"] = Answer(retmsg="\x1b[2Jgone\u202e")
    result = flow.run("job", "list", FEDFLOW_SERVER=flow.server.url)
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout


# --- exit status ----------------------------------------------------------------------------------


def test_a_refusal_is_printed_and_ends_with_1(flow):
    flow.server.answers["/v1/job/stop"] = Answer(
        raw=json.dumps(failure(JobNotFound(job_id="7"))).encode()
    )
    answer = flow("job", "stop", "-j", "7", code=1)
    assert (answer["retcode"], answer["error"]["name"]) == (102, "JobNotFound")


def test_no_server_ends_with_4(flow):
    answer = flow("job", "list", code=4, FEDFLOW_SERVER="http://127.0.0.1:1")
    assert answer["retcode"] != 0
    assert "127.0.0.1:1" in answer["retmsg"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1, column 2"),
        ("[1]", "must hold a JSON object"),
        ('{"a": 1, "a": 2}', "occurs twice"),
        ('{"a": NaN}', "NaN is not JSON"),
    ],
)
def test_a_bad_file_ends_with_2_and_sends_nothing(flow, text, said):
    answer = flow("job", "submit", "-c", flow.file("c.json", text), code=2)
    assert said in answer["retmsg"]
    assert answer["error"]["name"] == "BadDocument"
    assert not flow.server.received


def test_a_missing_file_ends_with_2(flow):
    answer = flow("job", "submit", "-c", flow.folder / "no.json", code=2)
    assert "no such file" in answer["retmsg"].lower()


def test_a_place_that_cannot_be_written_is_named(flow):
    flow.server.answers["/v1/job/config"] = Answer(data={"job_id": "7", "dsl": {}})
    flow.server.answers["/v1/job/query"] = Answer(data=[{"f_role": "guest", "f_party_id": "1"}])
    flow.file("taken", "a file where a folder should be")
    words = ("job", "config", "-j", "7", "-r", "guest", "-p", "1", "-o", flow.folder / "taken")
    answer = flow(*words, code=1)
    assert "taken" in answer["retmsg"]
    flow.server.answers["/v1/job/config"] = Answer(
        data={"job_id": "7", "dsl": {}, "runtime_conf": {}}
    )
    own = ("job", "config", "-j", "7", "-o", flow.folder / "taken" / "x")
    result = flow.run(*own, program=fedflow_cli, FEDFLOW_SERVER=flow.server.url)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "internal error" not in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("job", "list", "-l", "x"), "is not a valid integer"),
        (("job", "stop"), "Missing option '-j'"),
        (("job", "submti"), "Did you mean 'submit'?"),
        (("jbo",), "Did you mean 'job'"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_sentence(flow, words, said):
    result = flow.run(*words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_fates_exit_status_can_be_had(flow):
    flow("job", "list", code=0, FEDFLOW_FLOW_EXIT_ZERO="1")
    assert flow.run("job", "submti", FEDFLOW_FLOW_EXIT_ZERO="1").exit_code == 0


# --- init -----------------------------------------------------------------------------------------


def init(flow, *words):
    port = flow.server.url.rpartition(":")[2]
    return flow.run("init", "--ip", "127.0.0.1", "--port", port, *words)


def test_init_stores_the_address_for_both_commands_and_for_the_owner_only(flow):
    flow.server.answers["/v1/job/list/job"] = Answer(data={"jobs": [], "count": 0})
    flow.server.answers["/v1/server/version/get"] = Answer(data={"API": "v1"})
    result = init(flow)
    assert (result.exit_code, json.loads(result.stdout)["retcode"]) == (0, 0)
    assert not flow.server.received
    assert stat.S_IMODE(flow.config.stat().st_mode) == 0o600
    assert flow.run("job", "list").exit_code == 0
    assert flow.run("version", program=fedflow_cli).exit_code == 0
    assert [one.path for one in flow.server.received] == [
        "/v1/job/list/job", "/v1/server/version/get"
    ]  # fmt: skip


def test_the_variable_and_the_option_come_before_what_was_stored(flow):
    flow.run("init", "--ip", "127.0.0.1", "--port", 1)
    flow.server.answers["/v1/server/version/get"] = Answer(data={"API": "v1"})
    assert flow.run("version", program=fedflow_cli).exit_code == 4
    assert flow.run("version", program=fedflow_cli, FEDFLOW_SERVER=flow.server.url).exit_code == 0
    own = ("version", "--server", flow.server.url)
    dead = "http://127.0.0.1:1"
    assert flow.run(*own, program=fedflow_cli, FEDFLOW_SERVER=dead).exit_code == 0


def test_stored_keys_sign_for_the_stored_server_only(flow):
    flow.server.answers["/v1/server/version/get"] = Answer(data={"API": "v1"})
    init(flow, "--app-key", "k", "--secret-key", "s3cret")
    flow.run("server", "versions")
    assert flow.sent().headers[headers.APP_KEY] == "k"
    other = flow.server.url.replace("127.0.0.1", "localhost")
    flow.run("server", "versions", FEDFLOW_SERVER=other)
    assert headers.APP_KEY not in flow.sent().headers
    flow.run("server", "versions", FEDFLOW_APP_KEY="mine", FEDFLOW_SECRET_KEY="x")
    assert flow.sent().headers[headers.APP_KEY] == "mine"


def test_reset_forgets(flow):
    init(flow, "--app-key", "k", "--secret-key", "s")
    assert flow.run("init", "--reset").exit_code == 0
    assert not flow.config.exists()
    assert flow.run("init", "--reset").exit_code == 0


CONF = """\
fateflow: {{host: 0.0.0.0, http_port: {port}, http_app_key: old, http_secret_key: old}}
authentication: {{client: {{switch: {switch}, http_app_key: k, http_secret_key: s}}}}
"""


@pytest.mark.parametrize(("switch", "key"), [("true", "k"), ("false", "old")])
def test_a_conf_is_read_by_every_command(flow, switch, key):
    flow.server.answers["/v1/server/version/get"] = Answer(data={"API": "v1"})
    port = flow.server.url.rpartition(":")[2]
    conf = flow.file("service_conf.yaml", CONF.format(port=1, switch=switch))
    assert flow.run("init", "-c", conf).exit_code == 0
    assert flow.run("server", "versions").exit_code == 4
    flow.file("service_conf.yaml", CONF.format(port=port, switch=switch))
    assert flow.run("server", "versions").exit_code == 0
    assert flow.sent().headers[headers.APP_KEY] == key
    flow.file("local.service_conf.yaml", "fateflow: {host: 127.0.0.1, http_port: 1}\n")
    assert flow.run("server", "versions").exit_code == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give --ip and --port"),
        (("--ip", "127.0.0.1"), "give --ip and --port"),
        (("--ip", "h", "--port", "1", "--app-key", "k"), "go together"),
        (("-c", "/no/conf.yaml"), "No such file"),
    ],
)
def test_init_with_wrong_options_ends_with_2_and_stores_nothing(flow, words, said):
    result = flow.run("init", *words)
    assert result.exit_code == 2
    assert said in json.loads(result.stdout)["retmsg"]
    assert not flow.config.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"port": "x"}'])
def test_damaged_settings_are_named(flow, text):
    flow.config.parent.mkdir(parents=True)
    flow.config.write_text(text)
    result = flow.run("server", "versions")
    assert result.exit_code == 2
    assert "client.json" in json.loads(result.stdout)["retmsg"]
    result = flow.run("version", program=fedflow_cli)
    assert result.exit_code == 2
    assert "Hint: `flow init --reset`" in result.stderr
