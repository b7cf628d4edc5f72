"""Deleting a job: what goes, what stays, what is refused, and what a crash leaves."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.models.models import ModelRepository
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.parsed_jobs import ParsedJobs
from fedflow.app.queries.deleting import NOTE, Deletions
from fedflow.base.errors.jobs import DeleteRefused, JobFilesNotDeleted, JobNotFound
from fedflow.base.ids import PartyId
from fedflow.blobs.files import LocalBlobs
from fedflow.domain.data.caches import CacheFilter, StoredCache, TableName
from fedflow.domain.job_lines import EndedJobs
from fedflow.domain.models.history import Author, BranchKey, Move, MoveKind
from fedflow.domain.models.model import (
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelVersion,
    part_of,
)
from fedflow.domain.records import (
    Command,
    CommandKind,
    Handle,
    JobFilter,
    JobKey,
    JobRecord,
    Metric,
    OutputTable,
    Reply,
    ScheduledJob,
    TableRecord,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.scheduling.submits import SubmitKey
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.store.connect import open_sqlite
from tests.unit.app.fakes import FakeCatalog, FakeClock, conf, dsl

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
JOB, OTHER = "202611201000000000001", "202611201000000000002"


class World:
    """A store and a home with jobs that have run."""

    def __init__(self, store: Any, home: Path) -> None:
        self.store = store
        self.folders = Folders(home)
        self.specs = ParsedJobs(FakeCatalog())
        self.deletions = Deletions(store=store, folders=self.folders, specs=self.specs)
        self.blobs = LocalBlobs(home / "blobs")
        self.repository = ModelRepository(store=store, blobs=self.blobs, clock=FakeClock())
        self.content = ""

    def job(self, job_id: str = JOB, site: Site = GUEST, **changes: Any) -> JobRecord:
        made = {
            "key": JobKey(job_id=job_id, site=site), "initiator": GUEST,
            "status": JobStatus.SUCCESS, "epoch": 0, "dsl": {"components": {}}, "conf": {},
            "roles": {"guest": ["9999"], "host": ["10000"]}, "cores": 1, "created_ms": 1,
            "updated_ms": 2,
        }  # fmt: skip
        record = JobRecord(**{**made, **changes})
        with self.store.transaction() as tx:
            tx.jobs.add(record)
        return record

    def task(self, job: JobRecord, version: int = 0, **changes: Any) -> TaskRecord:
        key = TaskKey(job_id=job.key.job_id, component="step_0", version=version, site=job.key.site)
        made = {
            "key": key, "module": "Step", "initiator": GUEST, "status": TaskStatus.SUCCESS,
            "party_status": TaskStatus.SUCCESS, "parameters": {}, "created_ms": 1, "updated_ms": 2,
        }  # fmt: skip
        record = TaskRecord(**{**made, **changes})
        with self.store.transaction() as tx:
            tx.tasks.add([record])
        return record

    def table(self, name: str, origin: str = "output") -> TableRecord:
        address = f"address-{name}"
        record = TableRecord(
            namespace="out", name=name, address=address, schema={}, count=3, partitions=1,
            origin=origin, created_ms=1,
        )  # fmt: skip
        with self.store.transaction() as tx:
            tx.tables.put(record)
        folder = self.folders.tables / address
        folder.mkdir(parents=True)
        (folder / "0.arrow").write_bytes(b"x" * 100)
        return record

    def output(self, task: TaskRecord, table: TableRecord) -> None:
        output = OutputTable(
            key=task.key, data_name="data", position=0, namespace=table.namespace, name=table.name
        )
        with self.store.transaction() as tx:
            tx.tracking.put_output(output, now_ms=1)

    def ran(self, job_id: str = JOB, *sites: Site) -> None:
        """Put a job of one or more sites that left something of every kind."""
        for site in sites or (GUEST,):
            job = self.job(job_id, site)
            task = self.task(job)
            again = self.task(job, 1)
            self.output(task, self.table(f"{job_id}-{site.role.value}-old"))
            self.output(again, self.table(f"{job_id}-{site.role.value}-new"))
            with self.store.transaction() as tx:
                tx.tracking.add_metric(task.key, Metric(namespace="n", name="m"), now_ms=1)
                tx.tracking.put_summary(task.key, {"a": 1}, now_ms=1)
                tx.models.put(self.version(job_id, site))
                tx.models.put_component(self.component(job_id, site))
        with self.store.transaction() as tx:
            tx.schedules.add(
                ScheduledJob(
                    job_id=job_id, initiator=GUEST, status=JobStatus.SUCCESS, epoch=0, dsl={},
                    conf={}, priority=0, created_ms=1, updated_ms=2, sites=(), tasks=(),
                )
            )  # fmt: skip
            tx.job_tags.add(job_id, "red", now_ms=1)
            tx.reply_cache.put(f"{job_id}/9999/r", Reply(retcode=0), now_ms=1)
            tx.submits.put(
                SubmitKey(key=f"key-{job_id}", digest="d", job_id=job_id, warnings=(), created_ms=1)
            )
        self.specs.keep(job_id, self.specs.parse(dsl(), conf()))
        log = self.folders.job_logs(job_id) / "guest" / "9999" / "INFO.log"
        log.parent.mkdir(parents=True)
        log.write_text("a line\n")
        files = self.folders.job_files(job_id)
        files.mkdir(parents=True)
        (files / "job_dsl.json").write_text("{}")

    def version(self, job_id: str, site: Site = GUEST, **changes: Any) -> ModelVersion:
        made = {
            "key": ModelKey(
                site=site, model_id="guest-9999#host-10000#model", model_version=job_id
            ),
            "job_id": job_id, "roles": {"guest": ["9999"]}, "initiator": GUEST, "train_dsl": {},
            "train_conf": {}, "conf_on_party": {}, "fate_version": "1.11", "size_bytes": 7,
            "created_ms": 1, "updated_ms": 1,
        }  # fmt: skip
        return ModelVersion(**{**made, **changes})

    def component(self, job_id: str, site: Site) -> ModelComponent:
        """Return a component's model, whose contents are stored."""
        part = part_of("Param", b"[1]")
        self.content = self.blobs.put(b"[1]")
        return ModelComponent(
            key=self.version(job_id, site).key, component="step_0", module="Step", alias="model",
            meta=part, param=part, run_parameters={}, created_ms=1,
        )  # fmt: skip

    def move(self, number: int, version: str, kind: MoveKind = MoveKind.MOVE) -> None:
        """Let the branch release name a version."""
        model_id = self.version(version).key.model_id
        where = BranchKey(site=GUEST, model_id=model_id, name="release")
        move = Move(
            key=where, number=number, id=f"change{number}", model_version=version,
            kind=MoveKind.CREATE if number == 1 else kind, author=Author(party_id="9999"),
            created_ms=number,
        )  # fmt: skip
        with self.store.transaction() as tx:
            assert tx.model_history.add_move(move)

    def left(self, job_id: str = JOB) -> list[str]:
        """Return what is left of a job."""
        found = []
        with self.store.read() as tx:
            if tx.jobs.find(JobFilter(job_id=job_id)):
                found.append("job")
            if tx.schedules.get(job_id):
                found.append("schedule")
            if tx.tasks.count(TaskFilter(job_id=job_id, all_versions=True)):
                found.append("tasks")
            if tx.tracking.count_metrics(job_id):
                found.append("metrics")
            if tx.tracking.every_output(job_id):
                found.append("outputs")
            if tx.tracking.summary(job_id, "step_0", GUEST):
                found.append("summary")
            if tx.models.find(ModelFilter(model_version=job_id, with_unready=True)):
                found.append("model")
            if tx.job_tags.of([job_id]):
                found.append("tags")
            if tx.submits.get(f"key-{job_id}") is not None:
                found.append("key")
            if tx.reply_cache.get(f"{job_id}/9999/r") is not None:
                found.append("replies")
            found += ["parsed job"] if self.specs.kept(job_id) is not None else []
            found += [t.name for t in tx.tables.find() if t.name.startswith(job_id)]
        found += [p.name for p in self.folders.tables.glob(f"address-{job_id}*")]
        found += ["logs"] if self.folders.job_logs(job_id).exists() else []
        found += ["files"] if self.folders.job_files(job_id).exists() else []
        return found


@pytest.fixture
def world(tmp_path: Path) -> Any:
    store = open_sqlite(tmp_path / "store.db")
    yield World(store, tmp_path / "home")
    store.close()


def test_all_that_a_job_left_goes_and_another_job_keeps_its_own(world: World) -> None:
    world.ran(JOB, GUEST, HOST)
    world.ran(OTHER)
    before = world.left(OTHER)
    done = world.deletions.delete(JOB)
    assert world.left(JOB) == []
    assert world.left(OTHER) == before
    assert (done.tasks, done.metrics, done.tags) == (4, 2, ("red",))
    assert len(done.tables) == 4
    assert done.log_files == 1
    with pytest.raises(JobNotFound):
        world.deletions.preview(JOB)


def test_a_preview_says_what_goes_and_changes_nothing(world: World) -> None:
    world.ran()
    before = world.left()
    found = world.deletions.preview(JOB)
    assert world.left() == before
    assert {(t.rows, t.size_bytes) for t in found.tables} == {(3, 100)}
    assert (found.log_files, found.log_bytes, found.file_bytes) == (1, 7, 2)
    assert found.partners == ("10000",)
    assert [(m.size_bytes, m.kept) for m in found.models] == [(7, "")]
    assert not found.left_over


@pytest.mark.parametrize("job_id", ["", "nowhere", "../../etc", "a" * 500, "\x00"])
def test_what_is_no_job_is_not_found(world: World, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        world.deletions.delete(job_id)


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.WAITING, JobStatus.READY])
def test_a_job_that_has_not_ended_stays(world: World, status: JobStatus) -> None:
    world.job(status=status)
    with pytest.raises(DeleteRefused, match="stop it first"):
        world.deletions.delete(JOB)
    assert world.left() == ["job"]


def test_a_job_whose_process_still_ends_stays(world: World) -> None:
    world.task(world.job(), handle=Handle(pid=5, start_time=6, host="h"), launch_id="l")
    with pytest.raises(DeleteRefused, match="still being stopped"):
        world.deletions.delete(JOB)


def test_a_job_stays_until_its_parties_know_of_its_end(world: World) -> None:
    world.ran()
    command = Command(
        kind=CommandKind.END_JOB, job_id=JOB, source=GUEST, destination=HOST, path="/x", body={},
        request_id="r", created_ms=1, deadline_ms=9, due_ms=1,
    )  # fmt: skip
    with world.store.transaction() as tx:
        tx.outbox.put([command])
    with pytest.raises(DeleteRefused, match="host 10000"):
        world.deletions.delete(JOB)


def test_a_table_that_another_job_took_over_stays(world: World) -> None:
    world.ran()
    with world.store.read() as tx:
        table = tx.tables.get("out", f"{JOB}-guest-new")
    world.output(world.task(world.job(OTHER)), table)
    done = world.deletions.delete(JOB)
    assert [(t.name, t.jobs) for t in done.kept_tables] == [(table.name, (OTHER,))]
    assert world.left() == [table.name, table.address]


def test_a_table_that_an_open_job_is_told_to_read_stays(world: World) -> None:
    world.ran()
    name = f"{JOB}-guest-new"
    reads = {"table": {"namespace": "out", "name": name}}
    open_job = world.job(OTHER, status=JobStatus.WAITING)
    world.task(
        open_job, module="Reader", parameters=reads, status=TaskStatus.WAITING,
        party_status=TaskStatus.WAITING,
    )  # fmt: skip
    done = world.deletions.delete(JOB)
    assert [t.jobs for t in done.kept_tables] == [(OTHER,)]


def test_a_job_whose_output_an_open_job_names_by_its_id_stays(world: World) -> None:
    world.ran()
    reads = {"table": {"job_id": JOB, "component_name": "step_0", "data_name": "data"}}
    open_job = world.job(OTHER, status=JobStatus.WAITING)
    world.task(
        open_job, module="reader", parameters=reads, status=TaskStatus.WAITING,
        party_status=TaskStatus.WAITING,
    )  # fmt: skip
    with pytest.raises(DeleteRefused, match=OTHER):
        world.deletions.delete(JOB)


def test_a_table_that_the_job_only_read_stays(world: World) -> None:
    world.ran()
    uploaded = world.table("uploaded", origin="upload")
    world.output(world.task(world.job(JOB, HOST)), uploaded)
    done = world.deletions.delete(JOB)
    assert "uploaded" not in {t.name for t in (*done.tables, *done.kept_tables)}
    assert (world.folders.tables / uploaded.address).exists()


@pytest.mark.parametrize(
    ("why", "part"),
    [
        ("child", "was deployed from it"),
        ("loaded", "was loaded"),
        ("tagged", "has the tag best"),
        ("predicts", "predicts with it"),
        ("loads", f"job {OTHER}"),
        ("stores", f"job {OTHER}"),
        ("branch", "the branch release names it"),
        ("rollback", "a rollback of the branch release leads to it"),
    ],
)
def test_a_model_that_is_used_stays(world: World, why: str, part: str) -> None:
    world.ran()
    if why in ("loads", "stores"):
        module = {"loads": "ModelLoader", "stores": "ModelStore"}[why]
        world.task(
            world.job(OTHER, status=JobStatus.WAITING), module=module,
            parameters={"model_version": JOB}, status=TaskStatus.WAITING,
            party_status=TaskStatus.WAITING,
        )  # fmt: skip
    if why in ("branch", "rollback"):
        world.move(1, JOB)
    if why == "rollback":
        world.move(2, OTHER)
    with world.store.transaction() as tx:
        if why == "child":
            child = replace(world.version(JOB).key, model_version="child")
            descent = {"parent_model_version": JOB}
            tx.models.put(world.version("child", key=child, parent=False, parent_info=descent))
        if why == "loaded":
            tx.models.put(world.version(JOB, loaded_times=1))
        if why == "tagged":
            tx.model_tags.create("best", "", now_ms=1)
            tx.model_tags.attach("best", JOB, now_ms=1)
    if why == "predicts":
        world.job(OTHER, status=JobStatus.RUNNING, parameters={"model_version": JOB})
    done = world.deletions.delete(JOB)
    assert [part in m.kept for m in done.models] == [True]
    assert world.left() == ["model"]
    sha256 = world.blobs.put(b"{}")
    world.repository.sweep(2**60)
    assert world.blobs.has(world.content)
    assert not world.blobs.has(sha256)


@pytest.mark.parametrize("last", [MoveKind.MOVE, MoveKind.DELETE])
def test_a_model_that_branches_named_once_goes(world: World, last: MoveKind) -> None:
    world.ran()
    world.move(1, JOB)
    world.move(2, OTHER)
    world.move(3, OTHER, last)  # a rollback leads to OTHER, or nowhere
    done = world.deletions.delete(JOB)
    assert [m.kept for m in done.models] == [""]
    assert world.left() == []
    world.repository.sweep(2**60)
    assert not world.blobs.has(world.content)


def test_a_child_among_thousands_of_versions_is_found(world: World) -> None:
    world.ran()
    with world.store.transaction() as tx:
        for number in range(1_001):
            key = replace(world.version(JOB).key, model_version=f"v{number}")
            tx.models.put(world.version(f"v{number}", key=key, created_ms=9))
        key = replace(world.version(JOB).key, model_version="child")
        descent = {"parent_model_version": JOB}
        tx.models.put(world.version("c", key=key, parent_info=descent, created_ms=2))
    assert [m.kept for m in world.deletions.delete(JOB).models] == [
        "version child was deployed from it"
    ]


def test_caches_go_with_their_tables(world: World) -> None:
    world.ran()
    task = TaskKey(job_id=JOB, component="step_0", version=0, site=GUEST)
    table = world.table(f"{JOB}-cache", origin="cache")
    cache = StoredCache(
        cache_key="k", key=task, name="c",
        tables={"t": TableName(namespace=table.namespace, name=table.name)}, meta={}, private={},
        same_as=None, created_ms=1,
    )  # fmt: skip
    with world.store.transaction() as tx:
        tx.caches.put(cache)
    assert world.deletions.delete(JOB).caches == 1
    assert world.left() == []
    with world.store.read() as tx:
        assert tx.caches.find(CacheFilter(site=GUEST, job_id=JOB)) == []


def test_rows_that_another_table_has_too_stay(world: World) -> None:
    world.ran()
    with world.store.transaction() as tx:
        table = tx.tables.get("out", f"{JOB}-guest-new")
        tx.tables.put(replace(table, namespace="mine", name="second name"))
    world.deletions.delete(JOB)
    assert world.left() == [table.address]


def test_a_delete_that_breaks_off_before_its_commit_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ran()
    before = world.left()

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Deletions, "_write_note", die)
    with pytest.raises(KeyboardInterrupt):
        world.deletions.delete(JOB)
    assert world.left() == before


@pytest.mark.parametrize("removed", range(4))
def test_a_delete_that_breaks_off_is_finished_by_a_second_one(
    world: World, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    world.ran()
    rmtree, calls = shutil.rmtree, []

    def die(path: Path, **options: Any) -> None:
        calls.append(path)
        if len(calls) > removed:
            raise KeyboardInterrupt
        rmtree(path, **options)

    monkeypatch.setattr(shutil, "rmtree", die)
    with pytest.raises(KeyboardInterrupt):
        world.deletions.delete(JOB)
    monkeypatch.undo()
    assert "job" not in world.left()
    assert "files" in world.left()
    assert world.deletions.preview(JOB).left_over
    assert world.deletions.delete(JOB).left_over
    assert world.left() == []


def test_files_that_cannot_be_deleted_are_told_and_go_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ran()

    def refuse(path: Path, *, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(JobFilesNotDeleted, match="Permission denied"):
        world.deletions.delete(JOB)
    monkeypatch.undo()
    assert world.deletions.delete(JOB).left_over
    assert world.left() == []


def test_a_note_names_only_what_may_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ran()
    seen = []
    monkeypatch.setattr(
        Deletions, "_remove_rest",
        lambda self, job_id: seen.append(
            json.loads((self._folders.job_files(job_id) / NOTE).read_text())
        ),
    )  # fmt: skip
    world.deletions.delete(JOB)
    assert sorted(one["address"] for one in seen[0]) == [
        f"address-{JOB}-guest-new",
        f"address-{JOB}-guest-old",
    ]
    with world.store.transaction() as tx:  # the same rows got a name before the second attempt
        tx.tables.put(
            TableRecord(
                namespace="n", name="t", address=f"address-{JOB}-guest-new", schema={}, count=1,
                partitions=1, origin="upload", created_ms=1,
            )
        )  # fmt: skip
    monkeypatch.undo()
    world.deletions.delete(JOB)
    assert world.left() == [f"address-{JOB}-guest-new"]


# --- old jobs -------------------------------------------------------------------------------------

THIRD = "202611201000000000003"


def old(before_ms: int = 100, *statuses: JobStatus) -> EndedJobs:
    return (
        EndedJobs(before_ms=before_ms, statuses=frozenset(statuses))
        if statuses
        else EndedJobs(before_ms=before_ms)
    )


def ids(found: Any) -> list[str]:
    return [one.job_id for one in found.deleted]


def test_old_jobs_go_and_newer_or_other_ones_stay(world: World) -> None:
    world.ran(JOB, GUEST, HOST)
    world.job(OTHER, status=JobStatus.FAILED, created_ms=2)
    world.job(THIRD, created_ms=90, ended_ms=100)
    before = world.left(THIRD)
    assert ids(world.deletions.preview_old(old(), limit=9)) == [JOB, OTHER]
    assert ids(world.deletions.preview_old(old(100, JobStatus.FAILED), limit=9)) == [OTHER]
    done = world.deletions.delete_old(old(), limit=9)
    assert ids(done) == [JOB, OTHER]
    assert done.last is None
    assert [t.size_bytes for t in done.deleted[0].tables] == [100] * 4
    assert world.left(JOB) == world.left(OTHER) == []
    assert world.left(THIRD) == before == ["job"]


def test_a_preview_of_old_jobs_meets_each_once_and_changes_nothing(world: World) -> None:
    world.ran(JOB, GUEST, HOST)
    world.job(OTHER, GUEST, created_ms=5)
    world.job(OTHER, HOST, created_ms=7)
    seen, after, looks = [], None, 0
    while True:
        found = world.deletions.preview_old(old(), limit=1, after=after)
        seen += ids(found)
        after, looks = found.last, looks + 1
        if after is None:
            break
    assert seen == [JOB, OTHER]
    assert looks <= 5
    assert "job" in world.left(JOB)


def test_a_job_stays_while_one_of_its_sites_has_not_been_over_for_so_long(world: World) -> None:
    world.job(JOB, GUEST, ended_ms=50)
    world.job(JOB, HOST, ended_ms=150)
    assert ids(world.deletions.delete_old(old(), limit=9)) == []
    assert world.left(JOB) == ["job"]


def test_an_old_job_that_is_needed_is_named_and_does_not_stop_the_others(world: World) -> None:
    world.ran(JOB)
    world.ran(OTHER)
    reads = {"table": {"job_id": JOB, "component_name": "step_0", "data_name": "data"}}
    world.task(
        world.job(THIRD, status=JobStatus.WAITING), module="reader", parameters=reads,
        status=TaskStatus.WAITING, party_status=TaskStatus.WAITING,
    )  # fmt: skip
    done = world.deletions.delete_old(old(), limit=9)
    assert [(one.job_id, THIRD in one.reason) for one in done.refused] == [(JOB, True)]
    assert ids(done) == [OTHER]


def test_a_job_that_runs_again_meanwhile_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.job(JOB)
    found = world.deletions.preview_old(old(), limit=9)
    assert ids(found) == [JOB]
    with world.store.transaction() as tx:
        tx.jobs.reopen(
            JobKey(job_id=JOB, site=GUEST), seen=JobStatus.SUCCESS, epoch=1, conf={},
            parameters={}, cores=1, now_ms=3,
        )  # fmt: skip
    assert ids(world.deletions.delete_old(old(), limit=9)) == []
    assert world.left(JOB) == ["job"]


def test_a_job_that_was_refused_at_its_own_site_goes_too(world: World) -> None:
    with world.store.transaction() as tx:
        tx.schedules.add(
            ScheduledJob(
                job_id=JOB, initiator=GUEST, status=JobStatus.FAILED, epoch=0, dsl={}, conf={},
                priority=0, created_ms=1, updated_ms=2, sites=(), tasks=(),
            )
        )  # fmt: skip
    assert ids(world.deletions.delete_old(old(), limit=9)) == [JOB]
    assert world.left(JOB) == []


def test_what_a_crash_left_is_finished(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ran(JOB)
    world.ran(OTHER)
    monkeypatch.setattr(Deletions, "_remove_rest", lambda *_: None)
    world.deletions.delete(JOB)
    monkeypatch.undo()
    assert "files" in world.left(JOB)
    before = world.left(OTHER)
    assert world.deletions.finish() == 1
    assert world.left(JOB) == []
    assert world.left(OTHER) == before


def test_many_open_jobs_are_looked_at_once_for_all_old_ones(world: World) -> None:
    for n in range(5):
        world.job(f"20261120100000000001{n}")
    seen: list[Any] = []
    store = world.store
    with store.read() as tx:
        tasks = type(tx.tasks)
    find = tasks.find

    def counted(self: Any, which: TaskFilter) -> Any:
        seen.append(which)
        return find(self, which)

    tasks.find = counted
    try:
        assert len(world.deletions.delete_old(old(), limit=9).deleted) == 5
    finally:
        tasks.find = find
    assert len([which for which in seen if which.job_id is None]) == 1
