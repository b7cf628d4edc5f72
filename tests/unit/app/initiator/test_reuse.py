"""Taking over finished components of earlier jobs that have the same cache key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedflow.app.participant.party_reuse import identity
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import WrongSite
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.records import JobKey, OutputTable, Reply, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus
from fedflow.wire import paths
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl, incoming, table
from tests.unit.app.initiator.test_reruns import run

STEP = {"module": "Step", "output": {"data": ["data"]}}


def document(*, host_bins: int = 3, reuse: bool = True, **common: Any) -> dict[str, Any]:
    """Return a conf of `r` (Reader) -> `a` -> `b`; `host_bins` is of `a` at the host."""
    value = conf(
        parameters={
            "common": {"b": {"rate": 0.1}},
            "role": {
                role: {"0": {"r": {"table": {"namespace": "n", "name": role}}, **more}}
                for role, more in (("guest", {}), ("host", {"a": {"bins": host_bins}}))
            },
        }
    )
    value["job_parameters"]["common"].update(reuse=reuse, **common)
    return value


def components() -> dict[str, Any]:
    return dsl(
        r={"module": "Reader", "output": {"data": ["data"]}},
        a={**STEP, "input": {"data": {"data": ["r.data"]}}},
        b={**STEP, "input": {"data": {"data": ["a.data"]}}},
    )


@pytest.fixture
def server(alone: OneServer) -> OneServer:
    """A standalone server whose parties answer as parties do, with the tables of both."""
    alone.live()
    alone.put_table("n", "guest", address="guest-1")
    alone.put_table("n", "host", address="host-1")
    alone.parties.answer = lambda path, body: answered(alone, path, body)
    return alone


def answered(server: OneServer, path: str, body: Any, source: str = "9999") -> Reply:
    match = paths.parse_party_path(paths.PREFIX + path)
    assert match is not None
    site = paths.site_of(match.params)
    assert site is not None
    key = JobKey(job_id=match.params["job_id"], site=site)
    return server.core.commands.answer(incoming(match.name, key, body=body, source=source))


def submit(server: OneServer, **more: Any) -> Any:
    return server.core.submissions.submit(components(), document(**more))


def finished(server: OneServer, **more: Any) -> tuple[str, list[str]]:
    """Submit a job and let it succeed, with its outputs; return its id and what ran."""
    server.executor.started.clear()
    job = submit(server, **more)
    done: list[str] = []
    while some := run(server):
        done += [one.removesuffix("/0") for one in some]
    assert server.scheduled(job.job_id).status is JobStatus.SUCCESS
    for site in (GUEST, HOST):
        for component in done:
            keep_output(
                server, TaskKey(job_id=job.job_id, component=component, version=0, site=site)
            )
    return job.job_id, done


def keep_output(server: OneServer, key: TaskKey) -> None:
    names = ("n", key.site.role.value)
    if key.component != "r":
        names = ("out", f"{key.session}-{key.site.key}")
        server.put_table(*names, address=names[1])
    output = OutputTable(key=key, data_name="data", position=0, namespace=names[0], name=names[1])
    with server.store.transaction() as tx:
        tx.tracking.put_output(output, now_ms=1)


def drop(server: OneServer, namespace: str, name: str) -> None:
    with server.store.transaction() as tx:
        assert tx.tables.drop(namespace, name) is not None


def test_the_same_job_takes_everything_over_and_runs_nothing(server: OneServer) -> None:
    first, done = finished(server)
    assert done == ["r", "a", "b"]
    again = submit(server)
    assert again.reused == {"r": first, "a": first, "b": first}
    assert run(server) == []
    assert server.scheduled(again.job_id).status is JobStatus.SUCCESS
    assert server.core.jobs.status_view(again.job_id).reused == again.reused
    third = submit(server)  # of the second one's results, which are the first one's
    assert third.reused == again.reused


def test_without_the_parameter_all_runs_and_nothing_is_asked(server: OneServer) -> None:
    finished(server)
    server.parties.calls.clear()
    _, done = finished(server, reuse=False)
    assert done == ["r", "a", "b"]
    assert not [path for _, path, _ in server.parties.calls if path.endswith("/reuse")]


def test_a_parameter_of_one_site_changes_that_component_and_what_follows(server: OneServer) -> None:
    first, _ = finished(server)
    job = submit(server, host_bins=4)
    assert job.reused == {"r": first}
    assert run(server) == ["a/0"]
    assert run(server) == ["b/0"]


@pytest.mark.parametrize("role", ["guest", "host"])
def test_a_table_that_was_replaced_under_its_name_is_read_again(
    server: OneServer, role: str
) -> None:
    finished(server)
    drop(server, "n", role)
    server.put_table("n", role, address="other")
    job = submit(server)
    assert job.reused == {}
    assert run(server) == ["r/0"]


def test_a_result_that_one_site_has_lost_is_made_again_with_what_follows(
    server: OneServer,
) -> None:
    first, _ = finished(server)
    drop(server, "out", f"{first}_a_0-{HOST.key}")
    job = submit(server)
    assert job.reused == {"r": first}
    assert run(server) == ["a/0"]


def test_a_result_that_goes_between_question_and_create_is_made_again(server: OneServer) -> None:
    first, _ = finished(server)
    ask = server.parties.answer

    def answer(path: str, body: Any) -> Reply:
        reply = ask(path, body)
        if "earlier_job" in body and "/host/" in path:
            server.parties.answer = ask
            drop(server, "out", f"{first}_a_0-{HOST.key}")
        return reply

    server.parties.answer = answer
    job = server.core.submissions.submit(components(), document(), keys=("k",))
    assert job.reused == {"r": first}
    assert run(server) == ["a/0"]
    assert server.core.submissions.submit(components(), document(), keys=("k",)) == job


def test_a_component_may_opt_out(server: OneServer) -> None:
    first, _ = finished(server)
    job = submit(server, task_conf={"a": {"reuse": False}})
    assert job.reused == {"r": first}
    assert run(server) == ["a/0"]


def test_what_run_to_leaves_out_is_not_taken_over(server: OneServer) -> None:
    first, _ = finished(server)
    assert submit(server, run_to="a").reused == {"r": first, "a": first}


def test_a_job_that_failed_gives_what_it_made(server: OneServer) -> None:
    job = submit(server)
    assert run(server) == ["r/0"]
    for site in (GUEST, HOST):
        keep_output(server, TaskKey(job_id=job.job_id, component="r", version=0, site=site))
    run(server, "failed")
    assert server.scheduled(job.job_id).status is JobStatus.FAILED
    assert submit(server).reused == {"r": job.job_id}


def test_results_of_a_job_that_still_runs_are_not_taken(server: OneServer) -> None:
    submit(server)
    run(server)
    assert submit(server).reused == {}


def test_an_attempt_of_a_rerun_is_not_found_as_its_parameters_may_be_others(
    server: OneServer,
) -> None:
    first, _ = finished(server)
    server.core.reruns.begin(first, components=["b"], force=True)
    while run(server):
        pass
    assert submit(server).reused == {"r": first, "a": first}


def test_with_a_silent_site_all_runs_and_the_answer_says_why(server: OneServer) -> None:
    finished(server)

    def answer(path: str, body: Any) -> Reply:
        if "/host/" in path:
            raise PartyUnreachable(party_id="10000", address="x", reason="no answer")
        return answered(server, path, body)

    server.parties.answer = answer
    job = submit(server)
    assert job.reused == {}
    (note,) = [w for w in job.warnings if "reuse" in w.path]
    assert str(HOST) in note.message


def test_a_bound_file_has_no_identity_as_its_rows_may_change(server: OneServer) -> None:
    drop(server, "n", "host")
    with server.store.transaction() as tx:
        tx.tables.put(replace(table("n", "host"), engine="PATH", source="/data/host.csv"))
    finished(server)
    assert submit(server).reused == {}


def test_inheritance_info_counts_before_reuse(server: OneServer) -> None:
    first, _ = finished(server)
    taken = {"job_id": first, "component_list": ["r"]}
    job = submit(server, inheritance_info=taken)
    assert job.reused == {"r": first}
    assert any("inheritance_info" in w.message for w in job.warnings)


# --- what a site tells ----------------------------------------------------------------------------


def ask(server: OneServer, *, source: str = "9999", site: Site = HOST, **body: Any) -> Any:
    whole = {"initiator_role": "guest", "initiator_party_id": "9999", "tables": {}, **body}
    key = JobKey(job_id="new", site=site)
    return server.core.commands.handle(incoming("job_reuse", key, body=whole, source=source)).data


def test_a_site_tells_no_more_of_a_table_than_a_digest(server: OneServer) -> None:
    named = {"r": {"namespace": "n", "name": "host"}, "x": {"namespace": "n", "name": "none"}}
    told = ask(server, tables=named)
    assert told == {
        "tables": {"r": identity(HOST, table("n", "host", address="host-1")), "x": None}
    }
    assert identity(HOST, table("n", "host")) != identity(GUEST, table("n", "host"))


def test_results_of_another_initiators_job_are_not_told_of(server: OneServer) -> None:
    first, _ = finished(server)
    assert ask(server, earlier_job=first, components=["a"]) == {"there": {"a": True}}
    other = ask(
        server, source="10000", initiator_role="host", initiator_party_id="10000",
        earlier_job=first, components=["a"],
    )  # fmt: skip
    assert other == {"there": {"a": False}}
    assert ask(server, earlier_job="none", components=["a"]) == {"there": {"a": False}}


@pytest.mark.parametrize(
    ("error", "more"),
    [
        (WrongSite, {"source": "10000"}),
        (BadRequest, {"initiator_role": "king"}),
        (BadRequest, {"tables": []}),
        (BadRequest, {"earlier_job": 3, "components": ["a"]}),
        (BadRequest, {"earlier_job": "1", "components": "a"}),
        (BadRequest, {"earlier_job": "1", "components": [3]}),
    ],
)
def test_what_it_cannot_answer_is_refused(
    server: OneServer, error: type[FedflowError], more: dict[str, Any]
) -> None:
    with pytest.raises(error) as refused:
        ask(server, **more)
    assert refused.value.hint
