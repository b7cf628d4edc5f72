"""A server with a Spark cluster beside its own machine: each job takes cores where it computes."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.errors.executors import EngineMissing
from fedflow.base.errors.jobs import NotEnoughResources
from fedflow.domain.job.engines import SPARK, STANDALONE
from fedflow.domain.records import JobKey
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import CORES, GUEST, HOST, OneServer, conf, dsl

KEY = JobKey(job_id="1", site=HOST)


def on(engine: str | None = None, cores: int = 2, **role: Any) -> dict[str, Any]:
    """Return a conf whose job parameters name an engine, for all or by role."""
    asks = conf(cores=cores)
    if engine is not None:
        asks["job_parameters"]["common"]["computing_engine"] = engine
    asks["job_parameters"]["role"] = {
        name: {"0": {"computing_engine": of}} for name, of in role.items()
    }
    return asks


# --- a participant --------------------------------------------------------------------------------


def test_a_share_takes_its_cores_from_the_engine_that_was_chosen_when_it_came(
    host: OneServer,
) -> None:
    host.get_a_cluster(5)
    host.create("1", conf_=on("SPARK"))
    host.create("2", conf_=on())
    for job_id in "12":
        assert host.ask("job_apply", JobKey(job_id=job_id, site=HOST)).retcode == 0
    assert [host.job(job_id).engine for job_id in "12"] == [SPARK, STANDALONE]
    assert (host.free_cores(SPARK), host.free_cores()) == (3, CORES - 2)
    host.get_a_cluster(5, default=SPARK)  # what was chosen stays
    host.ask("job_start", KEY)
    host.ask("job_stop", KEY, status="success")
    assert (host.free_cores(SPARK), host.free_cores()) == (5, CORES - 2)


def test_the_partys_default_is_used_for_jobs_that_do_not_say(host: OneServer) -> None:
    host.get_a_cluster(default=SPARK)
    host.create("1", conf_=on())
    host.create("2", conf_=on("STANDALONE"))
    host.create("3", conf_=on("EGGROLL"))
    assert [host.job(job_id).engine for job_id in "123"] == [SPARK, STANDALONE, SPARK]


def test_a_full_cluster_is_told_with_its_numbers_and_keeps_nobody_from_the_machine(
    host: OneServer,
) -> None:
    host.get_a_cluster(4)
    for job_id, asks in (("1", on("SPARK", 3)), ("2", on("SPARK", 2)), ("3", on(cores=CORES))):
        host.create(job_id, conf_=asks)
    host.ask("job_apply", KEY)
    reply = host.ask("job_apply", JobKey(job_id="2", site=HOST))
    assert (reply.retcode, reply.error) == (103, "NotEnoughResources")
    assert reply.retmsg == "waits for 2 cores on Spark at host 10000: 1 of 4 free on Spark"
    assert host.ask("job_apply", JobKey(job_id="3", site=HOST)).retcode == 0


def test_who_starves_for_the_cluster_has_a_reservation_there_only(host: OneServer) -> None:
    host.get_a_cluster(4)
    host.create("1", conf_=on("SPARK", 2))
    host.ask("job_apply", KEY)
    big = host.create("big", conf_=on("SPARK", 4))
    host.clock.ms += host.timing.starving_after_ms + 1
    assert host.ask("job_apply", big).error == "NotEnoughResources"
    reply = host.ask("job_apply", host.create("late", conf_=on("SPARK", 1)))
    assert reply.retmsg.startswith(
        "waits for 1 cores on Spark at host 10000: what is free there is kept for job big"
    )
    assert host.ask("job_apply", host.create("here", conf_=on(cores=1))).retcode == 0
    host.ask("job_stop", KEY, status="canceled")
    assert host.ask("job_apply", big).retcode == 0


def test_a_party_without_a_cluster_refuses_the_job(host: OneServer) -> None:
    with pytest.raises(EngineMissing, match=r"common\.computing_engine: SPARK is not an engine of"):
        host.create("1", conf_=on("SPARK"))
    with pytest.raises(EngineMissing, match=r'role\.host\["0"\]\.computing_engine'):
        host.create("1", conf_=on("STANDALONE", host="SPARK"))
    host.create("1", conf_=on("SPARK", host="STANDALONE"))
    assert host.job("1").engine == STANDALONE


def test_a_job_that_the_cluster_never_holds_is_refused(host: OneServer) -> None:
    host.get_a_cluster(4)
    with pytest.raises(NotEnoughResources, match=r"fate_on_spark\.spark\.cores_per_node"):
        host.create("1", conf_=on("SPARK", 5))
    host.create("1", conf_=on(cores=5))


def test_a_job_whose_cluster_was_taken_away_waits_and_says_so(host: OneServer) -> None:
    host.get_a_cluster(4)
    host.create("1", conf_=on("SPARK", 2))
    with host.store.transaction() as tx:
        tx.engines.put(SPARK, 0, now_ms=1)
    reply = host.ask("job_apply", KEY)
    assert reply.retmsg == "waits for 2 cores on Spark at host 10000: 0 of 0 free on Spark"


# --- the initiator --------------------------------------------------------------------------------


def test_a_guest_on_spark_with_a_host_on_the_machine_of_the_same_server(alone: OneServer) -> None:
    alone.get_a_cluster(4)
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), on(guest="SPARK")).job_id
    assert alone.job(job_id, GUEST).engine == SPARK
    assert alone.job(job_id, HOST).engine == STANDALONE
    assert alone.scheduled(job_id).status is JobStatus.RUNNING
    assert (alone.free_cores(SPARK), alone.free_cores()) == (2, CORES - 2)


def test_a_submit_for_a_cluster_that_is_not_there_is_refused(guest: OneServer) -> None:
    with pytest.raises(EngineMissing, match="SPARK is not an engine of guest 9999"):
        guest.core.submissions.begin(dsl(), on("SPARK"))
    assert guest.waiting() == []


def test_the_initiator_does_not_judge_other_parties_engines(guest: OneServer) -> None:
    guest.core.submissions.begin(dsl(), on(host="SPARK"))
    assert guest.waiting() == ["10000", "9999"]


def test_the_queue_lets_jobs_for_the_machine_pass_those_that_wait_for_the_cluster(
    alone: OneServer,
) -> None:
    alone.get_a_cluster(4)
    alone.live()
    submit = alone.core.submissions.submit
    first = submit(dsl(), on("SPARK", 2)).job_id  # guest and host: all four cores
    second = submit(dsl(), on("SPARK", 1)).job_id
    third = submit(dsl(), on(cores=2)).job_id
    statuses = [alone.scheduled(job_id).status for job_id in (first, second, third)]
    assert statuses == [JobStatus.RUNNING, JobStatus.WAITING, JobStatus.RUNNING]
    (place,), count = alone.core.queue.page(limit=9)
    assert (place.job.job_id, count, place.job.need.spark) == (second, 1, 2)
    message = "waits for 2 cores on Spark at guest 9999: 0 of 4 free on Spark"
    assert place.reason.message == message
    with alone.store.read() as tx:
        reason = alone.core.queue.reason(tx, second)
    assert reason is not None
    assert reason.message == message
    alone.core.jobs.stop(first)
    alone.work()
    assert alone.scheduled(second).status is JobStatus.RUNNING


def test_a_rerun_stays_on_the_engine(alone: OneServer) -> None:
    alone.get_a_cluster(4)
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), on("SPARK", 2)).job_id
    alone.core.jobs.stop(job_id)
    alone.work()
    assert alone.free_cores(SPARK) == 4
    alone.core.reruns.rerun(job_id, force=True)
    alone.work()
    assert alone.job(job_id, GUEST).engine == SPARK
    assert alone.free_cores(SPARK) == 0
