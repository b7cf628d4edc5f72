"""What may be done with ended and waiting jobs: new parameters, cleaning, cores, reports, files."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.tables import Tables
from fedflow.app.protocol.folders import Folders
from fedflow.app.queries.cleaning import Cleaning
from fedflow.app.queries.resources import ResourceQueries
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import (
    CleaningRefused,
    JobFilesNotWritten,
    JobNotFound,
    ParametersRefused,
)
from fedflow.base.errors.parties import NoRoute
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job.engines import SPARK
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.records import (
    SUBMIT_FAILED,
    Command,
    CommandKind,
    JobFilter,
    Metric,
    OutputTable,
    Reply,
    TaskKey,
)
from fedflow.domain.scheduling.history import EventFilter
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus
from fedflow.tables.archives import LocalArchives
from tests.unit.app.fakes import CORES, GUEST, HOST, OneServer, conf, dsl, incoming_of, table
from tests.unit.app.initiator.test_reruns import run
from tests.unit.app.test_inheritance import document, finished


def connect(server: OneServer) -> None:
    """Let calls to a party reach the server's own commands, as the loopback does."""

    def answer(path: str, body: Any) -> Reply:
        _, _, job_id, role, party_id, *_ = path.split("/")
        command = Command(
            kind=CommandKind.ASK_STOP,  # of no matter here
            job_id=job_id,
            source=GUEST,
            destination=Site.from_key(f"{role}-{party_id}"),
            path=path,
            body=body,
            request_id=f"r{len(server.parties.calls)}",
            created_ms=0,
            deadline_ms=0,
        )
        return server.core.commands.answer(incoming_of(command))

    server.parties.answer = answer


# --- parameters -----------------------------------------------------------------------------------


def test_new_parameters_count_at_all_sites_for_the_next_rerun(alone: OneServer) -> None:
    job_id = finished(alone, common={"a": {"x": 1}})
    connect(alone)
    changed = alone.core.parameter_updates.update(
        job_id,
        job_parameters={"common": {"task_cores": 1}},
        component_parameters={"common": {"b": {"y": 2}}, "role": {"host": {"0": {"a": {"x": 3}}}}},
    )
    assert changed.components == ("a", "b")
    assert changed.job_parameters["common"]["task_cores"] == 1
    assert alone.job(job_id, HOST).parameters["task_cores"] == 1
    assert alone.job(job_id, HOST).conf == alone.scheduled(job_id).conf
    alone.core.reruns.rerun(job_id, force=True)
    assert CORES - alone.free_cores() == 2
    again = {
        site: alone.task(TaskKey(job_id=job_id, component="a", version=1, site=site)).parameters
        for site in (GUEST, HOST)
    }
    assert again == {GUEST: {"x": 1}, HOST: {"x": 3}}


def test_a_rerun_with_other_parameters_may_go_to_the_other_engine(alone: OneServer) -> None:
    alone.get_a_cluster()
    job_id = finished(alone)
    assert alone.job(job_id, HOST).engine == ENGINE
    connect(alone)
    changes: dict[str, Any] = {"role": {"host": {"0": {"computing_engine": "SPARK"}}}}
    alone.core.parameter_updates.update(job_id, job_parameters=changes, component_parameters={})
    assert alone.job(job_id, HOST).engine == ENGINE  # until it runs again
    alone.core.reruns.rerun(job_id, force=True)
    assert alone.job(job_id, HOST).engine == SPARK
    assert alone.job(job_id, GUEST).engine == ENGINE
    assert (CORES - alone.free_cores(), CORES - alone.free_cores(SPARK)) == (2, 2)


def test_what_a_job_is_stays_whatever_parameters_say(alone: OneServer) -> None:
    job_id = finished(alone)
    connect(alone)
    changed = alone.core.parameter_updates.update(
        job_id,
        job_parameters={"common": {"model_id": "x", "job_type": "predict", "timeout": 9}},
        component_parameters={},
    )
    common = changed.job_parameters["common"]
    assert common["timeout"] == 9
    assert not {"model_id", "job_type"} & common.keys()


def test_wrong_parameters_change_nothing_and_every_sites_answer_is_told(alone: OneServer) -> None:
    job_id = finished(alone)
    before = alone.scheduled(job_id).conf
    connect(alone)
    with pytest.raises(ParametersRefused, match=r"guest 9999: .*is bad") as caught:
        alone.core.parameter_updates.update(
            job_id, job_parameters={}, component_parameters={"common": {"a": {"bad": 1}}}
        )
    assert caught.value.data == {"guest": {"9999": 101}, "host": {"10000": 101}}
    assert alone.scheduled(job_id).conf == alone.job(job_id, HOST).conf == before
    with pytest.raises(InvalidJobSpec):
        alone.core.parameter_updates.update(
            job_id, job_parameters={"common": {"task_cores": "many"}}, component_parameters={}
        )
    alone.core.reruns.rerun(job_id, force=True)  # with the parameters that it had


def test_a_job_that_runs_takes_no_new_parameters(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    with pytest.raises(ParametersRefused, match="it is running"):
        alone.core.parameter_updates.update(
            job_id, job_parameters={"common": {}}, component_parameters={}
        )
    with pytest.raises(JobNotFound):
        alone.core.parameter_updates.update("no", job_parameters={}, component_parameters={})


# --- cleaning -------------------------------------------------------------------------------------


def cleaning(server: OneServer) -> Cleaning:
    tables = Tables(
        store=server.store,
        folders=Folders(server.home),
        archives=LocalArchives(server.home / "tables"),
        sources=AllowedFolders(()),
        clock=server.clock,
        own_party="0",
    )
    return Cleaning(store=server.store, tables=tables, wakeup=server.wakeup, clock=server.clock)


def put_output(server: OneServer, job_id: str, name: str, *, origin: str = "output") -> None:
    key = TaskKey(job_id=job_id, component="a", version=0, site=GUEST)
    with server.store.transaction() as tx:
        tx.tables.put(replace(table("out", name, address=name), origin=origin))
        output = OutputTable(key=key, data_name=name, position=0, namespace="out", name=name)
        tx.tracking.put_output(output, now_ms=1)
        tx.tracking.add_metric(key, Metric(namespace="train", name=name), now_ms=1)


def ended(server: OneServer) -> str:
    server.live()
    job_id = server.core.submissions.submit(dsl(), conf()).job_id
    run(server)
    put_output(server, job_id, "t1")
    put_output(server, job_id, "users", origin="upload")
    run(server)
    return job_id


def test_cleaning_deletes_what_the_job_made_and_keeps_what_people_uploaded(
    alone: OneServer,
) -> None:
    job_id = ended(alone)
    done = cleaning(alone).clean(job_id)
    assert done.tables == ("out.t1",)
    assert done.metrics == 2
    with alone.store.read() as tx:
        assert tx.tables.get("out", "t1") is None
        assert tx.tables.get("out", "users") is not None
        assert tx.tracking.metrics(job_id, "a", GUEST) == []
    assert cleaning(alone).clean(job_id).tables == ()


def test_cleaning_a_whole_job_forgets_its_history_and_cleaning_a_part_does_not(
    alone: OneServer,
) -> None:
    job_id = ended(alone)

    def has_history() -> bool:
        with alone.store.read() as tx:
            return bool(tx.events.find(EventFilter(job_id=job_id)))

    cleaning(alone).clean(job_id, component="a")
    assert has_history()
    cleaning(alone).clean(job_id)
    assert not has_history()


def test_an_output_that_another_job_took_over_is_kept_and_named(alone: OneServer) -> None:
    job_id = ended(alone)
    alone.core.submissions.submit(dsl(), document(job_id, "a", "b"))
    done = cleaning(alone).clean(job_id)
    assert done.tables == ()
    assert set(done.kept) == {"out.t1", "out.users"}


def test_metrics_are_deleted_alone_and_only_after_the_job_has_ended(alone: OneServer) -> None:
    job_id = ended(alone)
    assert cleaning(alone).drop_metrics(job_id) == 2
    with alone.store.read() as tx:
        assert tx.tracking.metrics(job_id, "a", GUEST) == []
        assert tx.tables.get("out", "t1") is not None
    assert cleaning(alone).drop_metrics(job_id) == 0
    running = alone.core.submissions.submit(dsl(), conf()).job_id
    with pytest.raises(CleaningRefused, match="it is running"):
        cleaning(alone).drop_metrics(running)
    with pytest.raises(JobNotFound):
        cleaning(alone).drop_metrics("no")


def test_a_running_job_is_not_cleaned(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    with pytest.raises(CleaningRefused, match="it is running"):
        cleaning(alone).clean(job_id)
    with pytest.raises(JobNotFound):
        cleaning(alone).clean("no")


def test_cleaning_the_queue_cancels_what_waits_and_nothing_else(alone: OneServer) -> None:
    alone.live()
    big = conf(cores=CORES // 2)
    running = alone.core.submissions.submit(dsl(), big).job_id
    waiting = alone.core.submissions.submit(dsl(), big).job_id
    assert cleaning(alone).clean_queue() == {waiting: 0}
    alone.work()
    assert alone.scheduled(waiting).status is JobStatus.CANCELED
    assert alone.scheduled(running).status is JobStatus.RUNNING
    assert cleaning(alone).clean_queue() == {}


# --- cores, report --------------------------------------------------------------------------------


def resources(server: OneServer) -> ResourceQueries:
    return ResourceQueries(
        store=server.store, wakeup=server.wakeup, clock=server.clock, engines=server.engines
    )


def test_the_engine_and_who_holds_its_cores(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf(cores=2)).job_id
    use = resources(alone).query()
    assert (use.engine.cores, use.engine.remaining_cores) == (CORES, CORES - 4)
    assert {(j.key.job_id, j.key.site) for j in use.jobs} == {(job_id, GUEST), (job_id, HOST)}
    assert resources(alone).query(in_use=False, engine_name="standalone").jobs == ()
    with pytest.raises(BadRequest, match="no engine 'EGGROLL'"):
        resources(alone).query(engine_name="eggroll")


def test_a_running_job_keeps_its_cores_an_ended_one_gives_them_back(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    assert [r.returned for r in resources(alone).give_back(job_id)] == [False, False]
    assert alone.job(job_id).in_use
    with pytest.raises(JobNotFound):
        resources(alone).give_back("no")


def test_the_report_tells_the_latest_attempts_in_topological_order(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    run(alone)
    alone.clock.ms += 1_000
    rows = alone.core.jobs.report(job_id)
    assert [(r.component_name, r.index, r.status) for r in rows] == [
        ("a", 0, "success"),
        ("b", 1, "running"),
    ]
    only = alone.core.jobs.report(job_id, role=HOST.role, party_id="10000", component="b")
    assert [r.component_name for r in only] == ["b"]
    assert alone.core.jobs.report(job_id, party_id="77") == []


# --- files, refused submits -----------------------------------------------------------------------


def test_a_submit_writes_its_files_and_names_them(alone: OneServer) -> None:
    alone.live()
    submitted = alone.core.submissions.submit(dsl(), conf())
    paths = {n: str(p) for n, p in dataclasses.asdict(submitted.files).items()}
    content = {n: msgspec.json.decode(Path(p).read_bytes()) for n, p in paths.items()}
    assert content["dsl_path"] == dsl()
    assert content["runtime_conf_path"] == conf()
    assert content["runtime_conf_on_party_path"]["job_parameters"]["task_cores"] == 2
    assert content["train_runtime_conf_path"] == content["pipeline_dsl_path"] == {}
    assert paths["runtime_conf_on_party_path"].endswith(
        f"jobs/{submitted.job_id}/guest/9999/job_runtime_on_party_conf.json"
    )


def test_a_submit_whose_files_cannot_be_written_starts_nothing(alone: OneServer) -> None:
    (alone.home / "jobs").write_text("in the way")
    with pytest.raises(JobFilesNotWritten):
        alone.core.submissions.submit(dsl(), conf())
    with alone.store.read() as tx:
        assert tx.schedules.active() == []


def test_a_refused_submit_has_an_id_and_leaves_a_note_that_lists_do_not_show(
    guest: OneServer,
) -> None:
    with pytest.raises(NoRoute) as caught:
        guest.core.submissions.submit(dsl(), conf(guest=[9999], host=[10777]))
    job_id = caught.value.fields["job_id"]
    noted = guest.job(job_id, GUEST)
    assert (noted.status, noted.tag) == (JobStatus.FAILED, SUBMIT_FAILED)
    assert noted.reason is not None
    assert noted.reason.code == "NoRoute"
    with guest.store.read() as tx:
        assert tx.jobs.find(JobFilter(refused=False)) == []


def test_a_job_that_one_site_refused_is_tagged_where_it_was_accepted(alone: OneServer) -> None:
    alone.live()
    reader = {"module": "Reader", "output": {"data": ["data"]}}
    tables = {"guest": {"0": {"r": {"table": {"namespace": "n", "name": "t"}}}}}
    tables["host"] = {"0": {"r": {"table": {"namespace": "n", "name": "absent"}}}}
    alone.put_table("n", "t")
    with pytest.raises(FedflowError) as caught:
        alone.core.submissions.submit(dsl(r=reader), conf(parameters={"role": tables}))
    job_id = caught.value.fields["job_id"]
    assert alone.job(job_id, GUEST).tag == SUBMIT_FAILED


def test_old_job_parameters_are_named(alone: OneServer) -> None:
    alone.live()
    value = conf()
    value["job_parameters"]["common"].update(work_mode=1, backend=0)
    assert alone.core.submissions.submit(dsl(), value).obsolete == ("work_mode", "backend")


def test_priority_is_a_job_parameter(alone: OneServer) -> None:
    value = conf()
    value["job_parameters"]["common"]["priority"] = 7
    job_id, _ = alone.core.submissions.begin(dsl(), value)
    assert alone.scheduled(job_id).priority == 7
