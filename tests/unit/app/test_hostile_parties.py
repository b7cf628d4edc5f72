"""What another party with a valid certificate tries, and does not get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.models.deployment import DeployRequest
from fedflow.app.models.migration import MigrateRequest
from fedflow.app.participant.party_heartbeats import MAX_SITES
from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import JobNotFound, StaleCommand, SubmitRefused, WrongSite
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.model import ModelFilter
from fedflow.domain.records import JobKey, Reply
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, create_body, dsl
from tests.unit.app.models_world import MODEL_ID, TRAINED, Pair, make_pair, put_model, trained_share

KEY = JobKey(job_id="1", site=HOST)
STRANGER = "77"


# --- request ids ----------------------------------------------------------------------------------


def test_a_reply_is_given_again_to_the_party_that_asked_only(host: OneServer) -> None:
    host.create()  # by party 9999, with the request id `create-1`
    with pytest.raises(WrongSite):
        host.ask("job_start", KEY, request_id="create-1", source=STRANGER)


def test_no_party_answers_in_advance_what_another_will_ask(host: OneServer) -> None:
    host.ask("heartbeat", body={"jobs": {}}, request_id="create-1", source=STRANGER)
    host.create()
    assert host.job("1").status is JobStatus.WAITING


def test_no_request_id_looks_like_the_end_of_a_job(host: OneServer) -> None:
    for name in ("end-1-host-10000", "end-1-host.10000"):
        host.ask("heartbeat", body={"jobs": {}}, request_id=name, source=STRANGER)
    host.create()
    assert host.job("1").status is JobStatus.WAITING


def test_an_end_before_the_create_counts_if_it_is_of_the_initiator(host: OneServer) -> None:
    host.ask("job_stop", KEY, status="failed", source=STRANGER)
    host.create()
    assert host.job("1").status is JobStatus.WAITING


# --- other contents under a known id --------------------------------------------------------------


def bad_dsl() -> dict[str, Any]:
    return dsl(z="Step")


def test_a_refused_job_of_a_known_id_does_not_replace_what_was_accepted(host: OneServer) -> None:
    host.create()
    bad = create_body(dsl_=bad_dsl(), parameters={"common": {"z": {"bad": 1}}})
    with pytest.raises(BadParameter):
        host.ask("job_create", KEY, body=bad, request_id="r2")
    host.ask("job_apply", KEY)
    host.run_task(component="a")
    assert host.executor.started[-1].task.component == "a"


def test_a_stale_rerun_does_not_replace_the_conf_of_a_running_job(host: OneServer) -> None:
    host.create(cores=2)
    body = {"epoch": 0, "runtime_conf": conf(cores=5), "tasks": {"a": 0}}
    with pytest.raises(StaleCommand):
        host.ask("job_rerun", KEY, body=body)
    host.ask("job_apply", KEY)
    host.run_task(component="a")
    assert '"cores":2' in host.executor.started[-1].spec_path.read_text()


def test_a_job_that_is_refused_is_not_kept_in_memory(host: OneServer) -> None:
    bad = create_body(parameters={"common": {"a": {"bad": 1}}})
    seen: list[str] = []
    for number in range(3):
        key = JobKey(job_id=f"x{number}", site=HOST)
        with pytest.raises(BadParameter):
            host.ask("job_create", key, body=bad)
        seen += [k for k in _kept(host) if k.startswith("x")]
    assert seen == []


def _kept(server: OneServer) -> list[str]:
    specs = server.core.parameter_updates._specs
    return list(specs._kept)


# --- reruns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"role": {"guest": [9999], "host": [10000, 77]}},
        {"role": {"guest": [9999, 77], "host": [10000]}},
        {"role": {"guest": [9999], "host": [77]}},
        {"initiator": {"role": "host", "party_id": 10000}},
    ],
)
@pytest.mark.parametrize("name", ["job_rerun", "job_parameters"])
def test_a_rerun_brings_no_other_party_into_a_job(
    host: OneServer, name: str, changes: dict[str, Any]
) -> None:
    host.create()
    host.ask("job_stop", KEY, status="failed")
    epoch = 1 if name == "job_rerun" else 0
    body = {"epoch": epoch, "runtime_conf": {**conf(), **changes}, "tasks": {"a": 1}}
    with pytest.raises(BadRequest, match="parameters only"):
        host.ask(name, KEY, body=body)
    assert (host.job("1").status, host.job("1").epoch) == (JobStatus.FAILED, 0)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = make_pair(tmp_path)
    pair.live()
    return pair


@pytest.mark.parametrize("name", ["job_rerun", "job_parameters"])
def test_a_rerun_predicts_with_no_other_model(pair: Pair, name: str) -> None:
    asked = DeployRequest(
        model_id=MODEL_ID, model_version=TRAINED, components=["reader_0", "step_0"]
    )
    version, other = (pair.guest.core.deployment.deploy(asked).model_version for _ in range(2))
    common = {"job_type": "predict", "model_id": MODEL_ID, "model_version": version}
    job_id = pair.guest.core.submissions.submit(
        None, {**conf(), "job_parameters": {"common": common}}
    ).job_id
    pair.guest.core.jobs.stop(job_id)
    key = JobKey(job_id=job_id, site=HOST)
    mine = pair.host.job(job_id).conf
    for changed in ({"model_version": other}, {"job_type": "train"}):
        changed = {**mine["job_parameters"]["common"], **changed}
        given = {**mine, "job_parameters": {**mine["job_parameters"], "common": changed}}
        epoch = 1 if name == "job_rerun" else 0
        body = {"epoch": epoch, "runtime_conf": given, "tasks": {"reader_0": 1}}
        with pytest.raises(FedflowError):
            pair.host.ask(name, key, body=body)
    assert pair.host.job(job_id).conf == mine


# --- stored models --------------------------------------------------------------------------------


def test_a_party_without_a_share_takes_no_part_in_a_job_that_loads_a_model(pair: Pair) -> None:
    put_model(pair.host, trained_share(HOST))
    named = {"model_id": MODEL_ID, "model_version": TRAINED, "component_name": "step_0"}
    loader = dsl(a={"module": "ModelLoader", "output": {"model": ["model"]}})
    for roles in (
        {"guest": [77], "host": [10000]},
        {"guest": [9999], "host": [10000], "arbiter": [77]},
    ):
        guest = roles["guest"][0]
        given = conf(parameters={"role": {"host": {"0": {"a": named}}}}, **roles)
        given["component_parameters"]["role"]["guest"] = {"0": {"a": {**named, "need_run": False}}}
        given["initiator"] = {"role": "guest", "party_id": guest}
        body = create_body(dsl_=loader, conf_=given, initiator_party_id=str(guest))
        pair.network(HOST).known = frozenset({"9999", "77"})
        key = JobKey(job_id=f"by-{len(roles)}", site=HOST)
        with pytest.raises(BadParameter, match="77 takes part in the job"):
            pair.host.ask("job_create", key, body=body, source=str(guest))


def test_no_model_is_put_under_the_id_of_another_partys_job(pair: Pair) -> None:
    """The end of that job would make its version of it."""
    theirs = create_body(initiator_party_id="77", guest=[77], host=[10000])
    theirs["runtime_conf"]["initiator"]["party_id"] = 77
    pair.network(HOST).known = frozenset({"9999", "77"})
    key = JobKey(job_id="20261121", site=HOST)
    pair.host.ask("job_create", key, body=theirs, source="77")
    asked = MigrateRequest(
        model_id=MODEL_ID,
        model_version=TRAINED,
        roles={"guest": ["9999"], "host": ["10000"]},
        new_roles={"guest": ["77"], "host": ["10000"]},
        new_initiator=Site.from_key("guest-77"),
        execute={"host": ["10000"]},
        new_version=key.job_id,
    )
    done = pair.guest.core.migrations.migrate(asked)
    assert "another party's job" in done.outcome.replies[HOST].retmsg
    mine = pair.host.core.migrations.migrate(asked).outcome.replies[HOST]
    assert "a job here trains" in mine.retmsg  # its end would replace what its own server makes
    beside = replace(
        asked,
        new_roles={"guest": ["78"], "host": ["10000"]},
        new_initiator=Site.from_key("guest-78"),
    )
    assert pair.host.core.migrations.migrate(beside).outcome.done  # its own server may


def stored_models(pair: Pair) -> Any:
    """Return all versions and component models of the guest."""
    with pair.guest.store.read() as tx:
        versions = tx.models.find(ModelFilter(with_unready=True))
        return [(v, tx.models.components(v.key)) for v in versions]


@pytest.mark.parametrize("kind", ["deployed", "imported", "trained", "unready"])
def test_no_job_takes_the_id_of_a_model(pair: Pair, kind: str) -> None:
    """Who is of a model knows the ids of its versions, which are no ids of jobs at other sites."""
    version = TRAINED  # the job itself is not known here any more
    if kind == "deployed":
        parts = ["reader_0", "step_0"]
        asked = DeployRequest(model_id=MODEL_ID, model_version=TRAINED, components=parts)
        version = pair.guest.core.deployment.deploy(asked).model_version
    elif kind in ("imported", "unready"):
        version = "2026112010000000000009"
        key = replace(trained_share(GUEST).key, model_version=version)
        changes = {"imported": True} if kind == "imported" else {"ready": False}
        put_model(pair.guest, trained_share(GUEST, key=key, job_id=version, **changes))
    before = stored_models(pair)
    theirs = create_body()
    theirs |= {"initiator_role": "host", "initiator_party_id": "10000"}
    theirs["runtime_conf"]["initiator"] = {"role": "host", "party_id": 10000}
    key = JobKey(job_id=version, site=GUEST)
    with pytest.raises(SubmitRefused, match=f"a model has the version {version} here"):
        pair.guest.ask("job_create", key, body=theirs, source="10000")
    with pytest.raises(JobNotFound):
        pair.guest.ask("job_apply", key, body={"epoch": 0}, source="10000")
    assert pair.guest.ask("job_stop", key, status="canceled", source="10000").retcode == 0
    assert stored_models(pair) == before


# --- how much one call may ask for ----------------------------------------------------------------


def test_a_heartbeat_names_a_bounded_number_of_sites(host: OneServer) -> None:
    many = {f"host-{n}": "granted" for n in range(MAX_SITES + 1)}
    with pytest.raises(BadRequest, match=f"{MAX_SITES} sites"):
        host.ask("heartbeat", body={"jobs": {"1": {"sites": many}}})
    with pytest.raises(BadRequest, match=f"{MAX_SITES} sites"):
        host.ask("heartbeat", body={"jobs": {str(n): {} for n in range(MAX_SITES + 1)}})


@pytest.mark.parametrize("told", [None, 1, [], {"sites": 7}, {"sites": ["host-10000"]}])
def test_a_heartbeat_that_names_no_sites_is_answered_with_none(host: OneServer, told: Any) -> None:
    assert host.ask("heartbeat", body={"jobs": {"1": told}}).data["jobs"] == {"1": {}}


def test_the_answer_to_a_heartbeat_is_read_for_the_tasks_of_the_job_only(
    guest: OneServer,
) -> None:
    job_id, _ = guest.core.submissions.begin(dsl(), conf())
    guest.live()
    guest.work()
    looked: list[str] = []
    take_told = guest.core.heartbeats._initiator.take_told

    def counted(tx: Any, job: str, site: Any, component: str, told: Any) -> bool:
        looked.append(component)
        return take_told(tx, job, site, component, told)

    guest.core.heartbeats._initiator.take_told = counted  # type: ignore[method-assign]
    told = {"version": 0, "party_status": "running", "progress": 1e300}
    tasks = {**{f"c{n}": told for n in range(1000)}, "a": told}
    answer = {"status": "running", "epoch": 0, "tasks": tasks}
    guest.parties.answer = lambda _path, _body: Reply(
        retcode=0, data={"jobs": {job_id: {HOST.key: answer}}}
    )
    assert guest.core.heartbeats.send("10000")
    assert looked == ["a"]
    [task] = [t for t in guest.scheduled(job_id).tasks if t.component == "a"]
    assert [p.progress for p in task.parties if p.site == HOST] == [1.0]


def test_nobody_takes_the_id_of_a_job_that_this_server_submitted(guest: OneServer) -> None:
    job_id, _ = guest.core.submissions.begin(dsl(), conf())
    body = create_body(initiator_party_id="10000")
    with pytest.raises(SubmitRefused, match="another job has the id"):
        guest.ask("job_create", JobKey(job_id=job_id, site=GUEST), body=body, source="10000")


@pytest.mark.parametrize("names", [["c"] * 5_001, ["a", 1], "a", None])
def test_a_job_takes_over_a_bounded_number_of_components(host: OneServer, names: Any) -> None:
    host.create()
    body = {**create_body(), "inherited": {"job_id": "1", "components": names}}
    with pytest.raises(BadRequest, match="a job and components"):
        host.ask("job_create", JobKey(job_id="2", site=HOST), body=body)
