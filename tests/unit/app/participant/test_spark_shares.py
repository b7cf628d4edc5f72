"""A site's share of a job on Spark: its application, what is refused, and when the former ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedflow.base.errors.executors import EngineMissing, SparkOptionRefused
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.states import TaskStatus
from tests.unit.app.fakes import HOST, OneServer, conf, dsl

KEY = JobKey(job_id="1", site=HOST)


def on_spark(**spark_run: Any) -> dict[str, Any]:
    given = conf()
    common = given["job_parameters"]["common"]
    common.update(computing_engine="SPARK", spark_run=spark_run)
    return given


def spec_of(server: OneServer, key: TaskKey) -> dict[str, Any]:
    (launch,) = [found for found in server.executor.started if found.task == key]
    read: dict[str, Any] = json.loads(launch.spec_path.read_bytes())
    return read


def begin(server: OneServer, **more: Any) -> TaskKey:
    server.create(**more)
    server.ask("job_apply", KEY)
    server.ask("job_start", KEY)
    return server.run_task()


def test_the_tasks_of_a_share_get_one_application(host: OneServer) -> None:
    host.get_a_cluster()
    first = begin(host, conf_=on_spark())
    second = host.run_task(component="b")
    for key in (first, second):
        spec = spec_of(host, key)
        assert spec["spark"] == {
            "application": "/spark/1",
            "tables_uri": "/tables",
            "cores": 2,
            "partitions": 2,
            "small_rows": 65_536,
            "small_work_s": 1.5,
            "wait_s": 60,
        }
        assert spec["cores"] == 1  # the work is done elsewhere
    assert list(host.applications.planned) == [KEY]


def test_a_share_on_this_machine_gets_none(host: OneServer) -> None:
    host.get_a_cluster()
    key = begin(host)
    assert spec_of(host, key)["spark"] is None
    assert host.applications.planned == {}


def test_a_task_that_reads_no_rows_does_without(host: OneServer) -> None:
    host.get_a_cluster()
    given = on_spark()
    given["component_parameters"] = {"common": {"c": {"need_run": False}}}
    begin(host, dsl_=dsl(a="Step", c="ModelLoader"), conf_=given)
    assert spec_of(host, host.run_task(component="c"))["spark"] is None


def test_the_end_of_a_job_ends_its_application(host: OneServer) -> None:
    host.get_a_cluster()
    begin(host, conf_=on_spark())
    host.ask("job_stop", KEY, status="canceled")
    assert host.applications.planned == {}


def test_a_job_that_is_held_keeps_no_application(host: OneServer) -> None:
    host.get_a_cluster()
    key = begin(host, conf_=on_spark())
    host.report(key, "success", outputs=[], model=None, summary={}, metrics=[])
    host.ask("job_return", KEY)
    assert host.applications.planned == {}


def test_the_detector_ends_what_belongs_to_no_running_job(host: OneServer) -> None:
    host.get_a_cluster()
    key = begin(host, conf_=on_spark())
    plan = host.applications.planned[KEY]
    unknown = JobKey(job_id="99", site=HOST)
    host.applications.planned[unknown] = plan
    host.core.detector.tick()
    assert list(host.applications.planned) == [KEY]
    host.ask("job_stop", KEY, status="canceled")
    host.applications.planned[KEY] = plan  # its end was lost with the server
    assert host.task(key).party_status is TaskStatus.CANCELED
    host.core.detector.tick()
    assert host.applications.planned == {}


def test_an_application_that_cannot_be_ended_keeps_no_other_job_waiting(
    host: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.get_a_cluster()
    begin(host, conf_=on_spark())
    plan, end = host.applications.planned[KEY], host.applications.end
    bad, good = (JobKey(job_id=job_id, site=HOST) for job_id in ("98", "99"))
    host.applications.planned.update({bad: plan, good: plan})

    def refuse(job: JobKey) -> None:
        if job == bad:
            raise OSError("the disk is gone")
        end(job)

    monkeypatch.setattr(host.applications, "end", refuse)
    host.core.detector.tick()
    assert list(host.applications.planned) == [KEY, bad]


def test_a_party_without_a_cluster_refuses_with_the_path(host: OneServer) -> None:
    with pytest.raises(EngineMissing, match=r"\$\.conf\.job_parameters\.common\.computing_engine"):
        host.create(conf_=on_spark())


def test_options_that_a_party_does_not_take_are_refused_with_their_paths(host: OneServer) -> None:
    host.get_a_cluster()
    given = on_spark(**{"jars": "evil.jar", "total-executor-cores": 9})
    with pytest.raises(SparkOptionRefused) as caught:
        host.create(conf_=given)
    path = "$.conf.job_parameters.common.spark_run"
    assert caught.value.message.startswith(f"{path}.jars: this option of spark-submit is the party")
    more = "total-executor-cores: 9 cores are more than the job has at host 10000, which are 2."
    assert caught.value.message.endswith(f"; {path}.{more}")


def test_options_for_spark_mean_nothing_on_this_machine(host: OneServer) -> None:
    host.get_a_cluster()
    given = conf()
    given["job_parameters"]["common"]["spark_run"] = {"jars": "evil.jar"}
    host.create(conf_=given)
