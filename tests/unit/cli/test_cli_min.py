"""`flow test min`: what it asks for, what it says, and its exit status."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fedflow.cli.flow.main import cli
from fedflow.cli.flow.minimal import HETERO_LR, SECUREBOOST, MinParties, min_job
from fedflow.components.registry import load_registry
from fedflow.sdk import check_params
from tests.support.rest import Answer, RestServer

PARTIES = MinParties(guest="9999", host="10000", arbiter="10000")
WORDS = ("test", "min", "-gid", "9999", "-hid", "10000", "-aid", "10000")
SUBMIT, STATUS, INFO = "/v1/job/submit", "/v1/job/status", "/v1/table/table_info"
SUMMARY = "/v1/tracking/component/summary/download"


@pytest.fixture
def server(make_view):
    """Give a server at which all goes well."""
    model = {"model_id": "m", "model_version": "7"}
    measured = {"data": [["auc", 0.99], ["ks", 0.9]], "meta": {"name": "x"}}
    reads = {"0": {"reader_0": {"table": {"name": "", "namespace": ""}}}}
    conf = {
        "dsl_version": 2, "role": {"guest": ["9999"], "host": ["10000"]},
        "initiator": {"role": "guest", "party_id": "9999"},
        "component_parameters": {"role": {"guest": reads, "host": reads}},
    }  # fmt: skip
    answers = {
        INFO: table(exist=1),
        SUBMIT: Answer(data={"job_id": "7", "model_info": model}, members={"jobId": "7"}),
        STATUS: Answer(data=make_view()),
        SUMMARY: summary(0.97, 0.99),
        "/v1/model/deploy": Answer(data={**model, "model_version": "8", "detail": {}}),
        "/v1/model/get/predict/conf": Answer(data=conf),
        "/v1/tracking/component/metric/all": Answer(data={"test": {"hetero_lr_0": measured}}),
    }
    with RestServer(answers) as one:
        yield one


def table(*, exist):
    return Answer(data={"table_name": "t", "namespace": "n", "exist": exist, "count": 0})


def summary(*aucs):
    return Answer(raw=b'{"validation_metrics": {"train": {"auc": %s}}}' % str([*aucs]).encode())


def run(server, *more):
    keys = {"FEDFLOW_APP_KEY": "", "FEDFLOW_SECRET_KEY": "", "FEDFLOW_FLOW_EXIT_ZERO": None}
    return CliRunner(env={"FEDFLOW_SERVER": server.url, **keys}).invoke(cli, [*WORDS, *more])


def modules(server):
    """Return the learners of the jobs that were submitted, None for a prediction."""
    found = []
    for body in server.bodies(SUBMIT):
        steps = body["job_dsl"].get("components", {}).values()
        found.append(next((s["module"] for s in steps if s["module"].startswith("Het")), None))
    return found


# --- the jobs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [HETERO_LR, SECUREBOOST])
def test_a_learner_asks_for_nothing_that_is_missing_or_doubtful(learner):
    spec = load_registry(found=[]).find(learner.module)
    params = check_params(spec.params, learner.parameters, path="$")
    assert {one.code for one in params.doubts()} <= {"ShortKey"}  # HeteroLR's has 1024 bits
    assert params.callbacks.measures == ["auc", "ks"]


@pytest.mark.parametrize("learner", [HETERO_LR, SECUREBOOST])
def test_a_training_reads_aligns_learns_and_evaluates(learner):
    dsl, conf = min_job(learner, PARTIES, "fast")
    names = ["reader_0", "data_transform_0", "intersection_0", learner.name, "evaluation_0"]
    assert list(dsl["components"]) == names
    assert dsl["components"][learner.name] == {
        "module": learner.module,
        "input": {"data": {"train_data": ["intersection_0.data"]}},
        "output": {"data": ["data"], "model": ["model"]},
    }
    assert dsl["components"]["evaluation_0"]["input"] == {
        "data": {"data": [f"{learner.name}.data"]}
    }
    arbiter = {"arbiter": ["10000"]} if learner is HETERO_LR else {}
    assert conf["role"] == {"guest": ["9999"], "host": ["10000"], **arbiter}
    own = conf["component_parameters"]["role"]
    assert own["guest"]["0"]["data_transform_0"]["with_label"] is True
    assert own["host"]["0"]["data_transform_0"]["with_label"] is False


@pytest.mark.parametrize(
    ("data_type", "name"), [("fast", "breast_hetero"), ("normal", "default_credit_hetero")]
)
def test_each_data_type_has_its_tables(data_type, name):
    _, conf = min_job(HETERO_LR, PARTIES, data_type)
    for role in ("guest", "host"):
        reader = conf["component_parameters"]["role"][role]["0"]["reader_0"]
        assert reader == {"table": {"namespace": "experiment", "name": f"{name}_{role}"}}


# --- the trial ------------------------------------------------------------------------------------


def test_both_models_are_trained_and_predict(server):
    result = run(server)
    assert result.exit_code == 0, result.output
    assert modules(server) == ["HeteroLR", None, "HeteroSecureBoost", None]
    predict = server.bodies(SUBMIT)[1]["job_runtime_conf"]["component_parameters"]["role"]
    assert predict["host"]["0"]["reader_0"]["table"]["name"] == "breast_hetero_host"
    assert result.stdout.splitlines()[-4:] == [
        "HeteroSecureBoost prediction job 7 is success",
        "HeteroSecureBoost prediction job 7 is success",
        "HeteroSecureBoost prediction auc: 0.990000",
        "HeteroSecureBoost prediction ks: 0.900000",
    ]
    assert "HeteroLR auc: 0.990000, as expected: at least 0.98" in result.stdout


def test_trees_can_be_left_out(server):
    assert run(server, "--no-sbt").exit_code == 0
    assert modules(server) == ["HeteroLR", None]


def test_a_model_that_is_worse_than_expected_ends_with_3(server):
    server.answers[SUMMARY] = summary(0.99, 0.7)
    result = run(server)
    assert result.exit_code == 3
    assert "HeteroLR auc: 0.700000, lower than expected: at least 0.98" in result.stdout
    assert len(modules(server)) == 4
    assert run(server, "-t", "normal").exit_code == 0


def test_a_missing_table_is_named_and_nothing_is_submitted(server):
    server.answers[INFO] = table(exist=0)
    result = run(server)
    assert result.exit_code == 1
    assert "No table experiment.breast_hetero_guest at party 9999." in result.stdout
    assert not modules(server)


def test_a_failed_job_says_why_and_ends_the_trial_with_3(server, make_view, make_task):
    reason = {"code": "TableNotFound", "message": "No table at party 10000.", "site": "host-10000"}
    tasks = [make_task("host-10000", "failed", reason=reason)]
    server.answers[STATUS] = Answer(data=make_view("failed", tasks=tasks))
    result = run(server)
    assert result.exit_code == 3
    assert result.stdout.splitlines()[-1] == "reader_0 at host-10000: No table at party 10000."
    assert modules(server) == ["HeteroLR"]
