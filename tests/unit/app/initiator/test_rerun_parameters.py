"""Reruns with new parameters, of what failed only, and asked for at another site."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.app.initiator.parameter_updates import Sections
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import (
    ChangeNotAllowed,
    JobNotFound,
    ParametersRefused,
    RerunRefused,
    WrongSite,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey, Reply
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl, incoming
from tests.unit.app.initiator.test_reruns import attempts, run, submit
from tests.unit.app.initiator.test_reuse import answered

RATE = Sections(component_parameters={"common": {"a": {"rate": 0.5}}})
OF_HOST = Sections(component_parameters={"role": {"host": {"0": {"a": {"rate": 0.5}}}}})
"""What the host may ask for: parameters of its own site."""
KEY = JobKey(job_id="1", site=HOST)
STEP = {"module": "Step", "output": {"data": ["data"]}}


@pytest.fixture
def server(alone: OneServer) -> OneServer:
    alone.parties.answer = lambda path, body: answered(alone, path, body)
    return alone


def failed(server: OneServer) -> str:
    """Return a job whose `a` failed at both sites."""
    job_id = submit(server)
    run(server, "failed")
    assert server.scheduled(job_id).status is JobStatus.FAILED
    return job_id


def stored(server: OneServer, job_id: str) -> Any:
    """Return all that a rerun would change."""
    with server.store.read() as tx:
        return (
            tx.schedules.get(job_id),
            [tx.jobs.get(JobKey(job_id=job_id, site=site)) for site in (GUEST, HOST)],
            tx.outbox.size(),
        )


def test_parameters_change_at_all_sites_with_the_rerun(server: OneServer) -> None:
    job_id = failed(server)
    more = Sections(
        job_parameters={"common": {"task_cores": 1}},
        component_parameters=RATE.component_parameters,
    )
    server.core.reruns.rerun(job_id, sections=more)
    assert server.scheduled(job_id).epoch == 1
    for site in (GUEST, HOST):
        job = server.job(job_id, site)
        assert job.conf == server.scheduled(job_id).conf
        assert job.conf["component_parameters"]["common"]["a"] == {"rate": 0.5}
        assert (job.parameters["task_cores"], job.cores) == (1, 1)
    run(server)
    run(server)
    assert server.scheduled(job_id).status is JobStatus.SUCCESS


@pytest.mark.parametrize(
    ("sections", "error"),
    [
        (Sections(component_parameters={"common": {"a": {"bad": 1}}}), ParametersRefused),
        (Sections(component_parameters={"common": {"zzz": {}}}), InvalidJobSpec),
        (Sections(job_parameters={"common": {"auto_retry_delay": -1}}), InvalidJobSpec),
        (Sections(job_parameters={"common": {"task_cores": 9_999}}), ParametersRefused),
    ],
)
def test_parameters_that_are_refused_change_nothing_anywhere(
    server: OneServer, sections: Sections, error: type[Exception]
) -> None:
    job_id = failed(server)
    before = stored(server, job_id)
    with pytest.raises(error) as refused:
        server.core.reruns.rerun(job_id, sections=sections)
    assert getattr(refused.value, "hint", "")
    assert stored(server, job_id) == before
    server.core.reruns.rerun(job_id)  # with the old ones it may


def test_a_refusal_of_one_site_changes_nothing_at_the_others(server: OneServer) -> None:
    job_id = failed(server)
    before = stored(server, job_id)

    def answer(path: str, body: Any) -> Reply:
        if path.endswith("/host/10000/parameter/update"):
            return Reply(retcode=101, retmsg="not here.", error="BadParameter")
        return answered(server, path, body)

    server.parties.answer = answer
    with pytest.raises(ParametersRefused, match="host 10000: not here") as refused:
        server.core.reruns.rerun(job_id, sections=RATE)
    assert refused.value.data == {"guest": {"9999": 0}, "host": {"10000": 101}}
    assert stored(server, job_id) == before


def test_only_what_failed_runs_again_and_not_what_never_ran(server: OneServer) -> None:
    server.live()
    document = conf()
    both = dsl(a=STEP, b={**STEP, "input": {"data": {"data": ["a.data"]}}}, c=STEP)
    job_id = server.core.submissions.submit(both, document).job_id
    run(server, "failed")  # `a`; `c` was to run after it
    assert server.scheduled(job_id).status is JobStatus.FAILED
    with pytest.raises(RerunRefused, match="none of these components has failed"):
        server.core.reruns.rerun(job_id, components=["c"], failed_only=True)
    with pytest.raises(RerunRefused, match="no component 'zzz'"):
        server.core.reruns.rerun(job_id, components=["zzz"], failed_only=True)
    server.core.reruns.rerun(job_id, failed_only=True)
    assert [attempts(server, job_id, name) for name in "abc"] == [[0, 1], [0, 1], [0]]


def test_force_and_failed_only_exclude_each_other(server: OneServer) -> None:
    with pytest.raises(BadRequest, match="give one"):
        server.core.reruns.rerun("1", force=True, failed_only=True)


# --- asked for at another site --------------------------------------------------------------------


def ask(server: OneServer, name: str, job_id: str, body: Any, source: str = "10000") -> Reply:
    key = JobKey(job_id=job_id, site=HOST)
    return server.core.commands.handle(incoming(name, key, body=body, source=source))


def test_the_initiator_is_asked_for_a_rerun_with_all_that_was_given(host: OneServer) -> None:
    host.create()
    host.ask("job_stop", KEY, status="failed")
    host.parties.answer = lambda path, body: Reply(retcode=0)
    with pytest.raises(BadRequest):
        host.core.reruns.rerun("1", force=True, failed_only=True)
    host.changes.wait_until = lambda *_, **__: True  # type: ignore[method-assign]
    host.core.reruns.rerun("1", components=["a"], failed_only=True, sections=OF_HOST)
    destination, path, body = host.parties.calls[-1]
    assert (destination, path) == ("9999", "/initiator/1/host/10000/rerun")
    assert body == {
        "component_name": ["a"], "force": False, "failed_only": True, "job_parameters": {},
        "component_parameters": OF_HOST.component_parameters,
    }  # fmt: skip


def test_the_initiator_checks_what_another_site_asks_before_it_changes_anything(
    server: OneServer,
) -> None:
    job_id = failed(server)
    before = stored(server, job_id)
    wrong = {"role": {"host": {"0": {"a": {"bad": 1}}}}}
    with pytest.raises(ParametersRefused):
        ask(server, "initiator_rerun", job_id, {"component_parameters": wrong})
    for body in ({"component_parameters": [1]}, {"component_name": 3}):
        with pytest.raises(BadRequest):
            ask(server, "initiator_rerun", job_id, body)
    with pytest.raises(WrongSite):
        ask(server, "initiator_rerun", job_id, {}, source="9999")
    assert stored(server, job_id) == before
    ask(server, "initiator_rerun", job_id, OF_HOST.as_json())
    assert server.scheduled(job_id).epoch == 1
    own = OF_HOST.component_parameters["role"]
    assert server.job(job_id).conf["component_parameters"]["role"] == own


def test_an_unreachable_party_refuses_a_rerun_that_another_site_asks_for(
    guest: OneServer,
) -> None:
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.core.jobs.stop(job_id)

    def answer(path: str, _: Any) -> Reply:
        if path.endswith("/parameter/update"):
            return Reply(retcode=104, retmsg="cannot be reached.", error="PartyUnreachable")
        return Reply(retcode=0)

    guest.parties.answer = answer
    with pytest.raises(ParametersRefused, match="cannot be reached"):
        ask(guest, "initiator_rerun", job_id, OF_HOST.as_json())
    assert guest.scheduled(job_id).epoch == 0


def test_a_change_of_parameters_is_passed_on_to_the_initiator(host: OneServer) -> None:
    host.create()
    host.ask("job_stop", KEY, status="failed")
    told = {"job_parameters": {}, "component_parameters": {"common": {}}, "components": ["a"]}
    host.parties.answer = lambda path, body: Reply(retcode=0, data=told)
    given = OF_HOST.as_json()
    changed = host.core.parameter_updates.update("1", **given)
    assert host.parties.calls[-1] == ("9999", "/initiator/1/host/10000/parameter/update", given)
    assert (changed.components, changed.component_parameters) == (("a",), {"common": {}})
    codes = {"host": {"10000": 101}}
    host.parties.answer = lambda path, body: Reply(retcode=103, retmsg="no.", data=codes)
    with pytest.raises(ParametersRefused, match="guest 9999: no") as refused:
        host.core.parameter_updates.update("1", **given)
    assert refused.value.data == codes


def test_the_initiator_changes_parameters_for_another_site_of_the_job(server: OneServer) -> None:
    job_id = failed(server)
    reply = ask(server, "initiator_parameters", job_id, OF_HOST.as_json())
    assert reply.data["components"] == ["a"]
    for job in (server.scheduled(job_id), server.job(job_id), server.job(job_id, GUEST)):
        assert job.conf["component_parameters"]["role"] == OF_HOST.component_parameters["role"]
        assert job.epoch == 0
    before = stored(server, job_id)
    with pytest.raises(WrongSite):
        ask(server, "initiator_parameters", job_id, OF_HOST.as_json(), source="1")
    with pytest.raises(JobNotFound):
        ask(server, "initiator_parameters", "none", OF_HOST.as_json())
    assert stored(server, job_id) == before


@pytest.mark.parametrize(
    "body",
    [
        RATE.as_json(),
        {"job_parameters": {"common": {"task_cores": 1}}},
        {"job_parameters": {"role": {"host": {"0": {"task_cores": 1}}}}},
        {"component_parameters": {"role": {"guest": {"0": {"a": {"rate": 0.5}}}}}},
        {"component_parameters": {"role": {"host": {"0|1": {"a": {"rate": 0.5}}}}}},
        {"component_parameters": {"role": {"host": {"all": {"a": {"rate": 0.5}}}}}},
        {"component_parameters": {"role": {"host": {"0": {"a": {"table": {"name": "t"}}}}}}},
        {"component_parameters": {"role": {"host": {"0": {"a": {"x": {"tables": []}}}}}}},
        {"component_parameters": {"role": {"host": {"0": {}}}}},
        {"component_parameters": {"role": {"host": {"0": None}}}},
        {"component_parameters": {"role": {"guest": {}}}},
        {"component_parameters": {"common": {}}},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["initiator_rerun", "initiator_parameters"])
def test_another_site_may_not_change_what_is_not_its_own(
    server: OneServer, name: str, body: Any
) -> None:
    job_id = failed(server)
    before = stored(server, job_id)
    with pytest.raises(ChangeNotAllowed, match="no more than parameters of its own components"):
        ask(server, name, job_id, body)
    assert stored(server, job_id) == before


def test_a_site_of_the_initiators_party_changes_what_it_likes(server: OneServer) -> None:
    server.live()
    document = conf(guest=[9999], host=[9999])
    job_id = server.core.submissions.submit(dsl(), document).job_id
    run(server, "failed")
    key = JobKey(job_id=job_id, site=Site(Role.HOST, PartyId("9999")))
    body = RATE.as_json()
    server.core.commands.handle(incoming("initiator_rerun", key, body=body, source="9999"))
    assert server.scheduled(job_id).epoch == 1


def test_a_wish_beyond_its_own_parameters_is_refused_before_the_initiator_is_called(
    host: OneServer,
) -> None:
    host.create()
    host.ask("job_stop", KEY, status="failed")
    with pytest.raises(ChangeNotAllowed) as refused:
        host.core.reruns.rerun("1", sections=RATE)
    assert "a person at the initiator" in refused.value.hint
    with pytest.raises(ChangeNotAllowed, match=r"component_parameters\.common\.a\.rate"):
        host.core.parameter_updates.update("1", **RATE.as_json())
    assert not host.parties.calls


def test_every_site_learns_who_wants_a_rerun(server: OneServer) -> None:
    job_id = failed(server)
    bodies: list[Any] = []

    def answer(path: str, body: Any) -> Reply:
        bodies.append(body)
        return answered(server, path, body)

    server.parties.answer = answer
    server.wakeup.then = lambda: None
    ask(server, "initiator_rerun", job_id, OF_HOST.as_json())
    told = [b["requested_by"] for b in bodies if "runs" in b]
    assert told == [HOST.key] * 2
    commands = [*server.outbox("9999"), *server.outbox("10000")]
    assert [c.body["requested_by"] for c in commands] == [HOST.key] * 2
