"""Lists of jobs without their documents, tags of jobs, and forgetting jobs, over every store."""

from __future__ import annotations

from dataclasses import replace

from fedflow.domain.job.control import FREE, Control
from fedflow.domain.job_lines import MAX_TAG, EndedJob, EndedJobs, StatusCount, tag_problem
from fedflow.domain.reason import Reason
from fedflow.domain.records import SUBMIT_FAILED, JobFilter, Metric, Order, Sort, TaskFilter
from fedflow.domain.scheduling.history import EventFilter
from fedflow.domain.states import JobEvent, JobStatus, TaskStatus


def fill(store, make):
    with store.transaction() as tx:
        for n in range(1, 6):
            for site in (make.guest, make.host):
                tx.jobs.add(make.job(f"j{n}", site, created_ms=1000 * n))
        tx.jobs.move(make.job_key("j1"), JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=6000)
        tx.jobs.set_description(make.job_key("j2"), "a <script> of notes", now_ms=6000)
        tx.jobs.set_description(make.job_key("j3"), "x" * 400 + "needle", now_ms=6000)
        tx.job_tags.add("j2", "red", now_ms=1)
        tx.job_tags.add("j4", "red", now_ms=2)
        tx.job_tags.add("j4", "blue", now_ms=3)


def ids(store, **which):
    with store.read() as tx:
        lines = tx.job_lists.page(JobFilter(**which))
        assert len(lines) == tx.jobs.count(JobFilter(**which))
        assert [line.key for line in lines] == [job.key for job in tx.jobs.find(JobFilter(**which))]
    return [line.key.job_id for line in lines]


def test_a_line_has_what_a_list_shows(store, make):
    fill(store, make)
    with store.read() as tx:
        (line,) = tx.job_lists.page(JobFilter(job_id="j2", party_id="9999"))
        job = tx.jobs.get(line.key)
    assert (line.key, line.initiator, line.status) == (job.key, job.initiator, job.status)
    assert (line.roles, line.created_ms, line.updated_ms) == (job.roles, 2000, 6000)
    assert (line.description, line.tags, line.refused) == ("a <script> of notes", ("red",), False)
    assert line.is_initiator


def test_lines_of_some_jobs_are_those_of_their_sites(store, make):
    fill(store, make)
    with store.read() as tx:
        found = {line.key: line for line in tx.job_lists.of({"j2", "j4", "no"})}
        pages = [tx.job_lists.page(JobFilter(job_id=job_id)) for job_id in ("j2", "j4")]
        assert found == {line.key: line for page in pages for line in page}
        assert tx.job_lists.of(()) == []


def test_jobs_are_found_by_tag(store, make):
    fill(store, make)
    assert ids(store, tag="red") == ["j4", "j4", "j2", "j2"]
    assert ids(store, tag="re") == []


def test_a_text_is_looked_for_in_ids_notes_parties_and_tags(store, make):
    fill(store, make)
    assert ids(store, any_part="<script>") == ["j2"]
    assert ids(store, any_part="needle") == ["j3"]
    assert ids(store, any_part="blu") == ["j4", "j4"]
    assert ids(store, any_part="j5") == ["j5", "j5"]
    assert len(ids(store, any_part="10000")) == 10
    assert ids(store, any_part="9999,") == []
    assert ids(store, any_part="%") == []


def test_lines_come_in_the_order_that_is_asked_for(store, make):
    fill(store, make)
    found = ids(store, order=Order(by=Sort.STARTED), limit=1000)
    assert found[0] == "j1"
    assert ids(store, order=Order(by=Sort.JOB_ID, descending=False))[:2] == ["j1", "j1"]


def test_what_has_not_ended_comes_first_then_what_ended_last(store, make):
    fill(store, make)
    with store.transaction() as tx:
        for job_id, event, now_ms in (
            ("j3", JobEvent.CANCELED, 9000), ("j5", JobEvent.CANCELED, 7000),
        ):  # fmt: skip
            tx.jobs.move(make.job_key(job_id), event, seen=JobStatus.WAITING, now_ms=now_ms)
            tx.jobs.move(
                make.job_key(job_id, make.host), event, seen=JobStatus.WAITING, now_ms=now_ms
            )
    by = Order(by=Sort.ACTIVITY)
    assert ids(store, order=by)[::2] == ["j4", "j2", "j1", "j3", "j5"]
    assert ids(store, order=Order(by=Sort.ACTIVITY, descending=False))[::2] == [
        "j5", "j3", "j1", "j2", "j4",
    ]  # fmt: skip


def test_refused_jobs_are_counted_and_found_apart(store, make):
    fill(store, make)
    with store.transaction() as tx:
        for job_id in ("j4", "j5"):
            tx.jobs.set_tag(make.job_key(job_id), SUBMIT_FAILED, now_ms=1)
    which = JobFilter(roles=(make.guest.role,), statuses=(JobStatus.RUNNING,), limit=1)
    running = StatusCount(status=JobStatus.RUNNING, count=1)
    waiting = StatusCount(status=JobStatus.WAITING, count=2)
    refused = StatusCount(status=JobStatus.WAITING, count=2, refused=True)
    with store.read() as tx:
        assert sorted(tx.job_lists.counted(which), key=repr) == [running, waiting, refused]
    guests = {"roles": (make.guest.role,)}
    assert ids(store, statuses=(), or_refused=True, **guests) == ["j5", "j4"]
    both = {"statuses": (JobStatus.RUNNING,), "refused": False, "or_refused": True}
    assert ids(store, **both, **guests) == ["j5", "j4", "j1"]
    assert ids(store, refused=False, **guests) == ["j3", "j2", "j1"]


def test_a_strip_has_the_latest_status_of_each_component_in_order(store, make):
    with store.transaction() as tx:
        for site in (make.guest, make.host):
            tx.jobs.add(make.job("j1", site))
        tx.tasks.add([make.task(make.task_key("b")), make.task(make.task_key("a"))])
        tx.tasks.add([make.task(make.task_key("b", 1), party_status=TaskStatus.RUNNING)])
        ended = {"status": TaskStatus.FAILED, "party_status": TaskStatus.SUCCESS}
        tx.tasks.add([make.task(make.task_key("c"), **ended)])
        found = tx.job_lists.strips({"j1", "no"})
        assert list(found[make.job_key("j1")].items()) == [
            ("b", TaskStatus.RUNNING), ("a", TaskStatus.WAITING), ("c", TaskStatus.FAILED),
        ]  # fmt: skip
        assert tx.job_lists.strips(()) == {}


def test_counts_are_of_jobs_not_of_shares(store, make):
    fill(store, make)
    with store.transaction() as tx:
        tx.jobs.set_tag(make.job_key("j5"), SUBMIT_FAILED, now_ms=1)
        tx.jobs.set_tag(make.job_key("j5", make.host), SUBMIT_FAILED, now_ms=1)
        assert tx.job_lists.counts(2000) == [StatusCount(status=JobStatus.WAITING, count=3)]
        assert tx.job_lists.counts(0) == [
            StatusCount(status=JobStatus.RUNNING, count=1),
            StatusCount(status=JobStatus.WAITING, count=4),
        ]


def test_progress_counts_the_latest_attempts(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        tx.schedules.start_task("j1", "a", 0, now_ms=1)
        tx.schedules.end_task("j1", "a", 0, TaskStatus.SUCCESS, reason=None, now_ms=2)
        assert tx.job_lists.progress(["j1", "j9"]) == {"j1": 50}
        tx.schedules.add_attempt("j1", make.scheduled_task("a", 1), now_ms=3)
        assert tx.job_lists.progress({"j1"}) == {"j1": 0}
        assert tx.job_lists.progress([]) == {}


def test_jobs_that_are_paused_or_rest_are_on_hold(store, make):
    paused = Control(paused=Reason(code="Paused", message="x"))
    with store.transaction() as tx:
        for number, control in enumerate((FREE, paused, Control(held_ms=5), Control(allowed=2))):
            tx.schedules.add(make.schedule(f"j{number}", created_ms=number))
            tx.schedules.set_control(f"j{number}", control, seen=FREE, now_ms=1)
        assert tx.job_lists.on_hold({"j0", "j1", "j2", "j3", "j9"}) == {"j1", "j2"}
        assert tx.job_lists.on_hold([]) == set()


def test_a_component_that_runs_counts_by_its_own_progress(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        tx.schedules.start_task("j1", "a", 0, now_ms=1)
        tx.schedules.report(
            "j1", "a", 0, make.guest, TaskStatus.RUNNING, reason=None, progress=0.9, now_ms=2
        )
        job = tx.schedules.get("j1")
        sites = len(next(t for t in job.tasks if t.component == "a").parties)
        assert tx.job_lists.progress(["j1"]) == {"j1": int(100 * 0.9 / sites / len(job.tasks))}


def test_tags_are_given_and_taken_once(store):
    with store.transaction() as tx:
        assert tx.job_tags.add("j1", "b", now_ms=1)
        assert not tx.job_tags.add("j1", "b", now_ms=2)
        assert tx.job_tags.add("j1", "B", now_ms=2)
        assert tx.job_tags.add("j2", "b", now_ms=2)
        assert tx.job_tags.of(["j1", "j2", "j3"]) == {"j1": ("B", "b"), "j2": ("b",)}
        assert tx.job_tags.all(limit=10) == [("b", 2), ("B", 1)]
        assert tx.job_tags.all(limit=1) == [("b", 2)]
        assert tx.job_tags.remove("j1", "b")
        assert not tx.job_tags.remove("j1", "b")
        assert tx.job_tags.drop("j1") == 1
        assert tx.job_tags.of(["j1"]) == {}


def test_the_longest_tag_fits_into_every_store(store):
    longest = "\U0001d11e" * MAX_TAG
    assert tag_problem(longest) is None
    with store.transaction() as tx:
        tx.job_tags.add("j1", longest, now_ms=1)
        assert tx.job_tags.of(["j1"]) == {"j1": (longest,)}


def whole_job(store, make, job_id):
    with store.transaction() as tx:
        for site in (make.guest, make.host):
            key = make.task_key(job_id=job_id, site=site)
            tx.jobs.add(make.job(job_id, site))
            tx.tasks.add([make.task(key), make.task(replace(key, version=1))])
            tx.tracking.add_metric(key, Metric(namespace="n", name="m", points=((1, 2),)), now_ms=1)
            tx.tracking.put_output(make.output(key), now_ms=2)
            tx.tracking.put_output(make.output(replace(key, version=1)), now_ms=3)
            tx.tracking.put_summary(key, {"a": 1}, now_ms=4)
            tx.tracking.put_model(make.model(key), now_ms=5)
        tx.schedules.add(make.schedule(job_id))
        tx.job_tags.add(job_id, "t", now_ms=6)


def test_the_outputs_of_all_attempts_at_all_sites_are_known(store, make):
    whole_job(store, make, "j1")
    with store.read() as tx:
        found = tx.tracking.every_output("j1")
        assert {(o.key.site, o.key.version) for o in found} == {
            (site, version) for site in (make.guest, make.host) for version in (0, 1)
        }
        assert tx.tracking.count_metrics("j1") == 2
        assert tx.tracking.every_output("j2") == []


def forget(tx, job_id):
    tx.tracking.drop(job_id)
    tx.events.drop(job_id)
    tx.job_tags.drop(job_id)
    assert tx.tasks.drop(job_id) == 4
    assert tx.schedules.drop(job_id)
    assert tx.jobs.drop(job_id) == 2


def known(tx, make, job_id):
    key = make.task_key(job_id=job_id)
    return [
        tx.jobs.count(JobFilter(job_id=job_id)),
        len(tx.jobs.shares(job_id)),
        len(tx.tasks.find(TaskFilter(job_id=job_id, all_versions=True))),
        tx.tasks.count(TaskFilter(job_id=job_id)),
        tx.schedules.get(job_id) is not None,
        job_id in tx.schedules.active(),
        tx.tracking.count_metrics(job_id),
        len(tx.tracking.every_output(job_id)),
        len(tx.tracking.uses_of_table("out", make.output(key).name)),
        tx.tracking.summary(job_id, "a", make.guest) is not None,
        tx.tracking.model(job_id, "a", make.guest) is not None,
        len(tx.job_tags.of([job_id])),
        len(tx.events.find(EventFilter(job_id=job_id))) > 0,
    ]


def test_a_job_is_forgotten_with_all_that_it_left_and_no_other_is(store, make):
    for job_id in ("j1", "j2"):
        whole_job(store, make, job_id)
    with store.read() as tx:
        before = known(tx, make, "j2")
    with store.transaction() as tx:
        forget(tx, "j1")
    with store.transaction() as tx:
        assert not any(known(tx, make, "j1"))
        assert known(tx, make, "j2") == before
        assert tx.tasks.count(TaskFilter()) == len(tx.tasks.find(TaskFilter())) == 2
        assert not tx.schedules.drop("j1")
        assert tx.jobs.drop("j1") == tx.tasks.drop("j1") == 0


def test_a_transaction_that_fails_forgets_nothing(store, make):
    whole_job(store, make, "j1")
    with store.read() as tx:
        before = known(tx, make, "j1")
    try:
        with store.transaction() as tx:
            forget(tx, "j1")
            raise KeyError
    except KeyError:
        pass
    with store.read() as tx:
        assert known(tx, make, "j1") == before


def test_an_id_that_was_forgotten_may_be_used_again(store, make):
    whole_job(store, make, "j1")
    with store.transaction() as tx:
        forget(tx, "j1")
    whole_job(store, make, "j1")
    with store.read() as tx:
        assert len(tx.tasks.find(TaskFilter(job_id="j1", all_versions=True))) == 4


def test_ended_jobs_are_listed_oldest_first_in_pages(store, make):
    ended = {"status": JobStatus.SUCCESS}
    with store.transaction() as tx:
        for n in (3, 1, 2):
            for site in (make.guest, make.host):
                tx.jobs.add(
                    make.job(f"j{n}", site, created_ms=10 * n, ended_ms=10 * n + 5, **ended)
                )
        tx.jobs.add(make.job("j4", created_ms=40, ended_ms=200, **ended))
        tx.jobs.add(make.job("j5", created_ms=50, status=JobStatus.RUNNING))
        tx.jobs.add(make.job("j6", created_ms=60, status=JobStatus.FAILED))
        tx.schedules.add(make.schedule("j7", created_ms=15, status=JobStatus.FAILED))
        tx.schedules.add(make.schedule("j3", created_ms=30, status=JobStatus.SUCCESS))

    def listed(limit=10, after=None, **which):
        with store.read() as tx:
            found = tx.job_lists.ended(EndedJobs(before_ms=100, **which), after=after, limit=limit)
        return [one.job_id for one in found]

    assert listed() == ["j1", "j7", "j2", "j3", "j6"]
    assert listed(statuses=frozenset({JobStatus.FAILED})) == ["j7", "j6"]
    assert listed(2) == ["j1", "j7"]
    assert listed(2, EndedJob(job_id="j7", created_ms=15)) == ["j2", "j3"]
    assert listed(2, EndedJob(job_id="j6", created_ms=60)) == []
