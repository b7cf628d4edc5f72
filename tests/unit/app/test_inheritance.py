"""Taking over results of an earlier job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedflow.app.models.models import trained_key
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import InheritanceRefused, SubmitRefused
from fedflow.domain.data.caches import CacheFilter, StoredCache
from fedflow.domain.records import JobKey, Metric, OutputTable, StoredModel, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, create_body, dsl
from tests.unit.app.initiator.test_reruns import run


def document(job_id: str | None = None, *components: str, **parameters: Any) -> dict[str, Any]:
    value = conf(parameters=parameters or None)
    if job_id is not None:
        taken = {"job_id": job_id, "component_list": list(components)}
        value["job_parameters"]["common"]["inheritance_info"] = taken
    return value


def finished(server: OneServer, **parameters: Any) -> str:
    """Run a job of `a` and `b` to its end; its results are a table, a metric, a summary, a
    model.
    """
    server.live()
    job_id = server.core.submissions.submit(dsl(), document(**parameters)).job_id
    run(server)
    for site in (GUEST, HOST):
        keep_results(server, TaskKey(job_id=job_id, component="a", version=0, site=site))
    run(server)
    assert server.scheduled(job_id).status is JobStatus.SUCCESS
    return job_id


def keep_results(server: OneServer, key: TaskKey) -> None:
    name = f"out-{key.site.key}"
    server.put_table("n", name, address=name)
    output = OutputTable(key=key, data_name="data", position=0, namespace="n", name=name)
    model = StoredModel(
        key=key, alias="model", meta_name="M", param_name="P", meta={}, param={"w": 1}
    )
    with server.store.transaction() as tx:
        tx.tracking.put_output(output, now_ms=1)
        tx.tracking.add_metric(key, Metric(namespace="train", name="loss", points=((0, 0.5),)),
                               now_ms=1)  # fmt: skip
        tx.tracking.put_summary(key, {"rows": 3}, now_ms=1)
        tx.tracking.put_model(model, now_ms=1)


def task(server: OneServer, job_id: str, component: str, site: Site = GUEST) -> Any:
    return server.task(TaskKey(job_id=job_id, component=component, version=0, site=site))


def test_an_inherited_component_has_succeeded_at_once_without_a_process(alone: OneServer) -> None:
    old = finished(alone)
    alone.executor.started.clear()
    new = alone.core.submissions.submit(dsl(), document(old, "a")).job_id
    started = {launch.task.component for launch in alone.executor.started}
    assert started == {"b"}
    for site in (GUEST, HOST):
        taken = task(alone, new, "a", site)
        assert (taken.status, taken.party_status) == (TaskStatus.SUCCESS, TaskStatus.SUCCESS)
        assert taken.inherited_from == old
        assert (taken.launch_id, taken.token, taken.handle) == (None, None, None)
    assert run(alone) == ["b/0"]
    assert alone.scheduled(new).status is JobStatus.SUCCESS


def test_its_results_are_the_new_jobs_too_and_nothing_is_copied(alone: OneServer) -> None:
    old = finished(alone)
    new = alone.core.submissions.submit(dsl(), document(old, "a")).job_id
    with alone.store.read() as tx:
        outputs = tx.tracking.outputs(new, "a", GUEST)
        assert [(o.namespace, o.name) for o in outputs] == [("n", "out-guest-9999")]
        assert [m.points for m in tx.tracking.metrics(new, "a", GUEST)] == [((0, 0.5),)]
        assert tx.tracking.summary(new, "a", HOST) == {"rows": 3}
        model = tx.tracking.model(new, "a", HOST)
        assert len(tx.tables.find("n")) == 2
    assert model is not None
    assert (model.key.job_id, model.param) == (new, {"w": 1})
    spec = msgspec.json.decode(alone.executor.started[-1].spec_path.read_bytes())
    assert spec["inputs"]["data"]["data"][0][1]["name"].startswith("out-")


def test_its_cache_is_found_under_the_new_job_and_points_to_the_old_one(alone: OneServer) -> None:
    old = finished(alone)
    key = TaskKey(job_id=old, component="a", version=0, site=HOST)
    with alone.store.transaction() as tx:
        tx.caches.put(StoredCache(cache_key="k1", key=key, name="cache", private={"secret": 1}))
    new = alone.core.submissions.submit(dsl(), document(old, "a")).job_id
    with alone.store.read() as tx:
        found = tx.caches.find(CacheFilter(site=HOST, job_id=new, component="a"))
    assert [(c.name, c.same_as, c.private) for c in found] == [("cache", "k1", {})]


def test_its_model_is_part_of_the_version_that_the_new_job_trains(alone: OneServer) -> None:
    alone.live()
    old = alone.core.submissions.submit(dsl(), document()).job_id
    model = {"alias": "model", "meta_name": "M", "param_name": "P", "meta": {}, "param": {"w": 1}}
    for launch in list(alone.executor.started):
        alone.report(launch.task, "running")
        alone.report(launch.task, "success", model=model, summary={"iters": 3})
    run(alone)
    new = alone.core.submissions.submit(dsl(), document(old, "a")).job_id
    run(alone)
    assert [(f.component, f.value) for f in alone.job(new, HOST).figures] == [("a", 3.0)]
    versions = {}
    for job_id in (old, new):
        key = trained_key(alone.job(job_id, HOST))
        assert key is not None
        with alone.store.read() as tx:
            versions[job_id] = [m for m in tx.models.components(key) if m.component == "a"]
    (before,), (after,) = versions[old], versions[new]
    assert after.key.model_version == new
    assert (after.param, after.alias, after.module) == (before.param, before.alias, before.module)


def test_a_job_that_inherits_everything_succeeds_at_once(alone: OneServer) -> None:
    old = finished(alone)
    new = alone.core.submissions.submit(dsl(), document(old, "a", "b")).job_id
    assert alone.scheduled(new).status is JobStatus.SUCCESS
    assert alone.job(new, HOST).status is JobStatus.SUCCESS
    assert alone.job(new).progress == 100


def test_what_was_inherited_once_can_be_inherited_again(alone: OneServer) -> None:
    old = finished(alone)
    second = alone.core.submissions.submit(dsl(), document(old, "a", "b")).job_id
    third = alone.core.submissions.submit(dsl(), document(second, "a", "b")).job_id
    assert task(alone, third, "a").inherited_from == old


def test_a_component_that_did_not_succeed_runs_and_so_does_what_follows(alone: OneServer) -> None:
    alone.live()
    old = alone.core.submissions.submit(dsl(), document()).job_id
    run(alone, "failed")
    submitted = alone.core.submissions.submit(dsl(), document(old, "a", "b"))
    assert sum("did not succeed" in w.message for w in submitted.warnings) == 2
    assert run(alone) == ["a/0"]


@pytest.mark.parametrize(
    ("components", "parameters", "part"),
    [
        (("b",), {}, "takes from a"),
        (("a",), {"common": {"a": {"x": 2}}}, "parameters at guest 9999 differ"),
        (("zzz",), {}, "no component of this name"),
    ],
)
def test_what_differs_cannot_be_inherited(
    alone: OneServer, components: tuple[str, ...], parameters: Any, part: str
) -> None:
    old = finished(alone)
    with pytest.raises(InvalidJobSpec, match=part):
        alone.core.submissions.submit(dsl(), document(old, *components, **parameters))


def test_only_an_ended_job_of_the_same_initiator_gives_results(alone: OneServer) -> None:
    alone.live()
    with pytest.raises(InheritanceRefused, match=r"job nope .* has not initiated it") as caught:
        alone.core.submissions.submit(dsl(), document("nope", "a"))
    assert caught.value.fields["job_id"] != "nope"  # the id of the refused job, as always
    running = alone.core.submissions.submit(dsl(), document()).job_id
    with pytest.raises(InheritanceRefused, match="it is running"):
        alone.core.submissions.submit(dsl(), document(running, "a"))


def test_a_site_whose_table_is_gone_refuses_the_job(alone: OneServer) -> None:
    old = finished(alone)
    with alone.store.transaction() as tx:
        tx.tables.drop("n", "out-host-10000")
    with pytest.raises(SubmitRefused, match=r"host 10000.*the output a\.data is gone"):
        alone.core.submissions.submit(dsl(), document(old, "a"))


def test_a_site_gives_no_results_of_another_initiators_job(host: OneServer) -> None:
    host.create("old")
    key = TaskKey(job_id="old", component="a", version=0, site=HOST)
    host.ask("task_start", key, body={"epoch": 0})
    host.report(key, "running")
    host.report(key, "success")
    host.ask("job_stop", JobKey(job_id="old", site=HOST), status="success")
    host.parties.known = frozenset({"9999", "8888"})
    stranger = create_body(initiator_party_id="8888", guest=[8888], host=[10000])
    stranger["runtime_conf"]["initiator"]["party_id"] = 8888
    stranger["inherited"] = {"job_id": "old", "components": ["a"]}
    with pytest.raises(InheritanceRefused, match="not known at host 10000"):
        host.ask(
            "job_create", JobKey(job_id="new", site=HOST), body=stranger, source="8888",
            request_id="r9",
        )  # fmt: skip
    with host.store.read() as tx:
        assert tx.jobs.get(JobKey(job_id="new", site=HOST)) is None
