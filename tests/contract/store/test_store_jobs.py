"""Jobs, engines and cores, over every store."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from fedflow.base.errors.jobs import IllegalMove
from fedflow.base.ids import PartyId
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.engines import SPARK
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.job.figures import Figure
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import JobFilter, Moved, Stale
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobEvent, JobStatus

WARNINGS = tuple(
    JobWarning(code=f"c{n}", path="$.conf", message="odd", hint="mend it") for n in range(3)
)


LOSS = Figure(component="lr_0", name="loss", value=0.25)
AUC = Figure(component="evaluation_0", name="auc", value=0.98, model="lr_0", part="validate")


def test_figures_of_a_component_replace_its_earlier_ones(store, make):
    better = replace(AUC, value=0.99)
    with store.transaction() as tx:
        tx.jobs.add(make.job(figures=(AUC,)))
        tx.jobs.set_figures(make.job_key(), "lr_0", [LOSS], now_ms=7)
        tx.jobs.set_figures(make.job_key(), "evaluation_0", [better], now_ms=8)
        tx.jobs.set_figures(make.job_key("no"), "lr_0", [LOSS], now_ms=9)
    with store.read() as tx:
        job = tx.jobs.get(make.job_key())
        (line,) = tx.job_lists.page(JobFilter(job_id="j1"))
    assert (job.figures, job.updated_ms) == ((LOSS, better), 8)
    assert line.figures == job.figures


def test_a_job_is_found_by_its_name_whatever_it_was_called_before(store, make):
    with store.transaction() as tx:
        tx.jobs.add(make.job(name="HeteroLR · breast"))
        tx.jobs.add(make.job("j2", name="Empty"))
        tx.jobs.set_name(make.job_key("j2"), "with a 名", now_ms=7)
    with store.read() as tx:
        names = {part: [line.name for line in tx.job_lists.page(JobFilter(any_part=part))]
                 for part in ("LR · b", "Empty", "名")}  # fmt: skip
    assert names == {"LR · b": ["HeteroLR · breast"], "Empty": [], "名": ["with a 名"]}


def test_warnings_are_added_once_each(store, make):
    with store.transaction() as tx:
        tx.jobs.add(make.job(warnings=WARNINGS[:1]))
        tx.jobs.add_warnings(make.job_key(), WARNINGS[:2], now_ms=7)
        tx.jobs.add_warnings(make.job_key(), WARNINGS[1:], now_ms=8)
        tx.jobs.add_warnings(make.job_key("no"), WARNINGS, now_ms=9)
    with store.read() as tx:
        job = tx.jobs.get(make.job_key())
    assert (job.warnings, job.updated_ms) == (WARNINGS, 8)


def test_a_full_record_comes_back_equal(store, make):
    job = make.job(
        reason=make.reason(), progress=7, applied_ms=4, returned_ms=5, started_ms=2, ended_ms=9,
        description="d", user="u", tag="t", warnings=WARNINGS[:1], epoch=3, cores=0,
        train_conf={"role": {"guest": [1]}}, name="HeteroLR · breast", figures=(LOSS, AUC),
    )  # fmt: skip
    with store.transaction() as tx:
        tx.jobs.add(job)
    with store.read() as tx:
        assert tx.jobs.get(job.key) == job
        assert tx.jobs.get(make.job_key("j1", make.host)) is None


def test_adding_a_job_again_keeps_the_first(store, make):
    with store.transaction() as tx:
        tx.jobs.add(make.job())
        tx.jobs.add(make.job(epoch=9))
        assert tx.jobs.get(make.job_key()).epoch == 0
    with store.transaction() as tx:
        tx.jobs.add(make.job(epoch=9))
        assert tx.jobs.get(make.job_key()).epoch == 0


def test_a_move_is_a_compare_and_set(store, make):
    key = make.job_key()
    with store.transaction() as tx:
        tx.jobs.add(make.job(reason=make.reason()))
        started = tx.jobs.move(key, JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=2000)
        again = tx.jobs.move(key, JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=2001)
        nobody = tx.jobs.move(
            make.job_key("no"), JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=2001
        )
    assert (started, again, nobody) == (Moved(JobStatus.RUNNING), Stale(), Stale())
    with store.read() as tx:
        job = tx.jobs.get(key)
    assert (job.status, job.started_ms, job.ended_ms) == (JobStatus.RUNNING, 2000, None)
    assert (job.updated_ms, job.reason) == (2000, None)


def test_an_end_sets_its_time_and_reason_and_being_overruled_keeps_the_time(store, make):
    key = make.job_key()
    with store.transaction() as tx:
        tx.jobs.add(make.job(status=JobStatus.RUNNING, started_ms=1500))
        tx.jobs.move(
            key, JobEvent.FAILED, seen=JobStatus.RUNNING, now_ms=3000, reason=make.reason("lost")
        )
        failed = tx.jobs.get(key)
        tx.jobs.move(key, JobEvent.OVERRULED_SUCCESS, seen=JobStatus.FAILED, now_ms=4000)
        overruled = tx.jobs.get(key)
    assert (failed.status, failed.ended_ms, failed.reason) == (
        JobStatus.FAILED, 3000, make.reason("lost"),
    )  # fmt: skip
    assert (overruled.status, overruled.ended_ms, overruled.reason) == (
        JobStatus.SUCCESS, 3000, None,
    )  # fmt: skip
    assert overruled.started_ms == 1500


def test_an_impossible_move_is_an_error_even_without_a_row(store, make):
    with pytest.raises(IllegalMove), store.transaction() as tx:
        tx.jobs.move(make.job_key(), JobEvent.QUEUED, seen=JobStatus.RUNNING, now_ms=1)


def test_progress_only_grows(store, make):
    key = make.job_key()
    with store.transaction() as tx:
        tx.jobs.add(make.job())
        tx.jobs.set_progress(key, 50, now_ms=2000)
        tx.jobs.set_progress(key, 20, now_ms=3000)
        assert (tx.jobs.get(key).progress, tx.jobs.get(key).updated_ms) == (50, 2000)
        tx.jobs.set_description(key, "notes", now_ms=4000)
        assert tx.jobs.get(key).description == "notes"


def test_what_a_partys_jobs_take_grows_with_new_confs_and_is_counted_for_it_alone(store, make):
    with store.transaction() as tx:
        for number, (status, size) in enumerate([("waiting", 10), ("success", 5), ("running", 1)]):
            key = make.job_key(job_id=f"j{number}")
            tx.jobs.add(make.job(key=key, status=JobStatus(status), size_bytes=size))
        assert tx.jobs.taken_by("9999") == (2, 16)
        tx.jobs.set_conf(make.job_key(job_id="j0"), {}, {}, now_ms=5, more_bytes=100)
        tx.jobs.reopen(
            make.job_key(job_id="j1"), seen=JobStatus.SUCCESS, epoch=1, conf={}, parameters={},
            cores=0, now_ms=6, more_bytes=1000,
        )  # fmt: skip
    with store.read() as tx:
        assert tx.jobs.taken_by("9999") == (3, 1116)
    with store.transaction() as tx:
        tx.jobs.grow(make.job_key(job_id="j2"), 20)
        assert tx.jobs.taken_by("9999") == (3, 1136)
        assert tx.jobs.taken_by("1") == (0, 0)
        assert tx.jobs.get(make.job_key(job_id="j1")).size_bytes == 1005


def test_jobs_are_found_newest_first_and_counted_whatever_the_page(store, make):
    with store.transaction() as tx:
        for i in range(6):
            status = JobStatus.RUNNING if i % 2 else JobStatus.WAITING
            tx.jobs.add(make.job(f"j{i}", created_ms=100 + i // 2, status=status))
            tx.jobs.add(make.job(f"j{i}", make.host, created_ms=100 + i // 2, status=status))
    with store.read() as tx:
        find, count = tx.jobs.find, tx.jobs.count
        every = [(j.key.job_id, j.key.site.role.value) for j in find(JobFilter())]
        assert every == [(f"j{i}", role) for i in (5, 4, 3, 2, 1, 0) for role in ("guest", "host")]
        guests = JobFilter(roles=(Role.GUEST,), limit=2, offset=1)
        assert [j.key.job_id for j in find(guests)] == ["j4", "j3"]
        assert count(guests) == 6
        assert count(JobFilter(roles=(Role.GUEST, Role.HOST))) == 12
        assert count(JobFilter(roles=())) == 0
        assert count(JobFilter(party_id="10000")) == 6
        assert count(JobFilter(job_id="j3")) == 2
        assert count(JobFilter(job_id="j3", party_id="1")) == 0
        assert count(JobFilter(statuses=(JobStatus.RUNNING,))) == 6
        assert find(JobFilter(job_id="none")) == []
        assert find(JobFilter(offset=100)) == []


def test_unfinished_jobs_are_those_that_run_or_hold_cores(store, make):
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 8, now_ms=1)
        tx.jobs.add(make.job("late", created_ms=5))
        tx.jobs.add(make.job("early", created_ms=1, status=JobStatus.RUNNING))
        tx.jobs.add(make.job("done", status=JobStatus.SUCCESS))
        tx.jobs.add(make.job("holds", created_ms=3, status=JobStatus.FAILED))
        tx.jobs.take_cores(make.job_key("holds"), now_ms=2)
    with store.read() as tx:
        assert [j.key.job_id for j in tx.jobs.open_jobs()] == ["early", "holds", "late"]
    with store.transaction() as tx:
        tx.jobs.return_cores(make.job_key("holds"), now_ms=2)
        assert [j.key.job_id for j in tx.jobs.open_jobs()] == ["early", "late"]


# --- engines and cores ---------------------------------------------------------------------------


def test_cores_are_taken_and_returned_once(store, make):
    key = make.job_key()
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 3, now_ms=1)
        tx.jobs.add(make.job(cores=2))
        tx.jobs.add(make.job("j2", cores=2))
        assert not tx.jobs.return_cores(key, now_ms=5)
        assert tx.jobs.take_cores(key, now_ms=10)
        assert tx.jobs.take_cores(key, now_ms=11)
        assert tx.engines.get(ENGINE).remaining_cores == 1
        assert (tx.jobs.get(key).in_use, tx.jobs.get(key).applied_ms) == (True, 10)
        assert not tx.jobs.take_cores(make.job_key("j2"), now_ms=12)
        assert not tx.jobs.get(make.job_key("j2")).in_use
        assert tx.jobs.return_cores(key, now_ms=13)
        assert not tx.jobs.return_cores(key, now_ms=14)
        assert tx.engines.get(ENGINE).remaining_cores == 3
        assert (tx.jobs.get(key).in_use, tx.jobs.get(key).returned_ms) == (False, 13)
        assert tx.jobs.take_cores(make.job_key("j2"), now_ms=15)


def test_cores_of_an_unknown_job_or_engine_cannot_be_taken(store, make):
    with store.transaction() as tx:
        tx.jobs.add(make.job(cores=1))
        tx.jobs.add(make.job("free", cores=0))
        assert not tx.jobs.take_cores(make.job_key(), now_ms=1)
        assert not tx.jobs.take_cores(make.job_key("none"), now_ms=1)
        assert tx.jobs.take_cores(make.job_key("free"), now_ms=1)
        assert tx.jobs.return_cores(make.job_key("free"), now_ms=1)


def test_a_new_total_changes_what_is_free_by_the_difference(store, make):
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 4, now_ms=1)
        tx.jobs.add(make.job(cores=3))
        tx.jobs.take_cores(make.job_key(), now_ms=1)
        tx.engines.put(ENGINE, 6, now_ms=2)
        assert tx.engines.get(ENGINE).remaining_cores == 3
        tx.engines.put(ENGINE, 6, now_ms=2)
        tx.engines.put(ENGINE, 2, now_ms=2)
        assert (tx.engines.get(ENGINE).cores, tx.engines.get(ENGINE).remaining_cores) == (2, -1)
        tx.jobs.return_cores(make.job_key(), now_ms=3)
        assert tx.engines.get(ENGINE).remaining_cores == 2


def test_cores_are_taken_from_the_engine_of_the_share_and_go_back_to_it(store, make):
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 4, now_ms=1)
        tx.engines.put(SPARK, 4, now_ms=1)
        tx.jobs.add(make.job(cores=3, engine=SPARK))
        assert tx.jobs.get(make.job_key()).engine == SPARK
        assert tx.jobs.take_cores(make.job_key(), now_ms=1)
        assert tx.engines.get(SPARK).remaining_cores == 1
        assert tx.engines.get(ENGINE).remaining_cores == 4
        assert tx.jobs.return_cores(make.job_key(), now_ms=2)
        assert tx.engines.get(SPARK).remaining_cores == 4
        assert tx.engines.get(ENGINE).remaining_cores == 4


@pytest.mark.parametrize("lacking", [ENGINE, SPARK])
def test_a_job_takes_nothing_of_one_engine_while_it_lacks_another_here(store, make, lacking):
    """Else two jobs with shares on both could each hold one, and wait for the other for ever."""
    shares = {make.guest: SPARK, make.host: ENGINE}
    with store.transaction() as tx:
        for engine in (ENGINE, SPARK):
            tx.engines.put(engine, 1 if engine == lacking else 2, now_ms=1)
        for site, engine in shares.items():
            tx.jobs.add(make.job(site=site, cores=2, engine=engine))
        assert not any(tx.jobs.take_cores(make.job_key(site=s), now_ms=1) for s in shares)
        tx.engines.put(lacking, 2, now_ms=1)
        assert all(tx.jobs.take_cores(make.job_key(site=s), now_ms=1) for s in shares)


def test_threads_with_shares_on_two_engines_never_hold_one_each(store, make):
    """Six jobs, each with one share on either engine, which hold one job at a time."""
    shares = [(make.guest, SPARK), (make.host, ENGINE)]
    done = []
    with store.transaction() as tx:
        for engine in (ENGINE, SPARK):
            tx.engines.put(engine, 2, now_ms=1)
        for i in range(6):
            for site, engine in shares if i % 2 else [(make.guest, ENGINE), (make.host, SPARK)]:
                tx.jobs.add(make.job(f"j{i}", site=site, cores=2, engine=engine))

    def work(i):
        keys = [make.job_key(f"j{i}", site) for site in (make.guest, make.host)]
        for _ in range(60):
            with store.transaction() as tx:
                if not tx.jobs.take_cores(keys[0], now_ms=1):
                    continue
            with store.transaction() as tx:  # nobody else has got the other one meanwhile
                assert tx.jobs.take_cores(keys[1], now_ms=1)
            for key in keys:
                with store.transaction() as tx:
                    assert tx.jobs.return_cores(key, now_ms=1)
            done.append(i)
            return

    _race(6, work)
    assert done
    with store.read() as tx:
        assert [tx.engines.get(e).remaining_cores for e in (ENGINE, SPARK)] == [2, 2]


def test_only_shares_on_the_same_engine_must_fit_into_it_together(store, make):
    """Guest on Spark, two hosts here: the hosts need 4 of 4 cores together, the guest 4 of 4."""
    sites = {make.guest: SPARK, make.host: ENGINE, Site(Role.HOST, PartyId("7")): ENGINE}
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 4, now_ms=1)
        tx.engines.put(SPARK, 4, now_ms=1)
        for site, engine in sites.items():
            cores = 4 if engine == SPARK else 2
            tx.jobs.add(make.job(site=site, cores=cores, engine=engine))
        assert all(tx.jobs.take_cores(make.job_key(site=site), now_ms=1) for site in sites)
        assert tx.engines.get(SPARK).remaining_cores == 0
        assert tx.engines.get(ENGINE).remaining_cores == 0


def test_a_rerun_may_go_to_another_engine(store, make):
    ended = make.job(status=JobStatus.FAILED, engine=SPARK)
    again = {"seen": JobStatus.FAILED, "conf": {}, "parameters": {}, "cores": 1, "now_ms": 2}
    with store.transaction() as tx:
        tx.jobs.add(ended)
        tx.jobs.reopen(ended.key, epoch=1, **again)
        assert tx.jobs.get(ended.key).engine == SPARK
        tx.jobs.move(ended.key, JobEvent.FAILED, seen=JobStatus.WAITING, now_ms=3)
        tx.jobs.reopen(ended.key, epoch=2, engine=ENGINE, **again)
        assert tx.jobs.get(ended.key).engine == ENGINE


def test_the_queue_counts_each_engine_for_itself(store, make):
    with store.transaction() as tx:
        for job_id, need in (
            ("here", ComputeResources(cores=2)),
            ("there", ComputeResources(spark=2)),
            ("both", ComputeResources(cores=2, spark=2)),
        ):
            tx.schedules.add(make.schedule(job_id, status=JobStatus.WAITING))
            tx.queue.enter(job_id, need, queued_ms=1, deadline_ms=9, look_ms=9)

        def fitting(**free):
            return {job.job_id for job in tx.queue.first(ComputeResources(**free), 5, limit=9)}

        assert tx.queue.get("both").need == ComputeResources(cores=2, spark=2)
        assert fitting(cores=2) == {"here"}
        assert fitting(spark=2) == {"there"}
        assert fitting(cores=2, spark=2) == {"here", "there", "both"}
        assert fitting(cores=9, spark=1) == {"here"}


def test_a_claim_and_a_grant_tell_the_engine(store, make):
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 4, now_ms=1)
        tx.engines.put(SPARK, 4, now_ms=1)
        tx.schedules.add(make.schedule(status=JobStatus.WAITING))
        site = tx.schedules.get("j1").sites[0]
        tx.schedules.set_site(
            "j1", replace(site, phase=SitePhase.APPLYING), seen=site.phase, now_ms=1
        )
        tx.queue.enter(
            "j1", ComputeResources(cores=2, spark=3), queued_ms=1, deadline_ms=9, look_ms=9
        )
        tx.jobs.add(make.job(site=make.guest, cores=3, memory=5, engine=SPARK, queued_ms=1))
        tx.jobs.add(make.job(site=make.host, cores=2, memory=5, queued_ms=1))
        tx.queue.deny(make.job_key(), now_ms=5)
        (claim,) = tx.queue.claims(asked_since_ms=5, queued_before_ms=2)
        assert claim.need == ComputeResources(cores=2, memory=5, spark=3)
        tx.jobs.take_cores(make.job_key(site=make.guest), now_ms=6)
        (asking,) = tx.queue.under_way()
        assert asking.need == ComputeResources(cores=2)


def _race(workers, work):
    """Run `work(i)` in threads that start together; raise what any of them raised."""
    barrier, failed = threading.Barrier(workers), []

    def run(i):
        try:
            barrier.wait(5)
            work(i)
        except BaseException as exc:
            failed.append(exc)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(t.is_alive() for t in threads)
    if failed:
        raise failed[0]


def test_threads_that_race_for_cores_never_take_more_than_there_are(store, make):
    jobs, rounds = 6, 8
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 5, now_ms=1)
        for i in range(jobs):
            tx.jobs.add(make.job(f"j{i}", cores=2))
    held, free = [], []

    def work(i):
        key = make.job_key(f"j{i}")
        for _ in range(rounds):
            with store.transaction() as tx:
                if tx.jobs.take_cores(key, now_ms=1):
                    held.append(i)
            with store.read() as tx:
                free.append(tx.engines.get(ENGINE).remaining_cores)
            with store.transaction() as tx:
                tx.jobs.return_cores(key, now_ms=1)

    _race(jobs, work)
    assert held
    assert set(free) <= {1, 3, 5}
    with store.read() as tx:
        assert tx.engines.get(ENGINE).remaining_cores == 5
        assert not any(tx.jobs.get(make.job_key(f"j{i}")).in_use for i in range(jobs))


def test_of_threads_that_race_to_take_the_same_jobs_cores_the_engine_pays_once(store, make):
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 9, now_ms=1)
        tx.jobs.add(make.job(cores=2))
    answers = []

    def work(i):
        with store.transaction() as tx:
            answers.append(tx.jobs.take_cores(make.job_key(), now_ms=i))

    _race(6, work)
    assert answers == [True] * 6
    with store.read() as tx:
        assert tx.engines.get(ENGINE).remaining_cores == 7


def test_of_threads_that_race_to_move_a_job_exactly_one_wins(store, make):
    ids = [f"j{i}" for i in range(5)]
    with store.transaction() as tx:
        for job_id in ids:
            tx.jobs.add(make.job(job_id, status=JobStatus.RUNNING))
    events = [JobEvent.SUCCEEDED, JobEvent.FAILED, JobEvent.CANCELED, JobEvent.TIMED_OUT]
    moved = {job_id: [] for job_id in ids}

    def work(i):
        for job_id in ids:
            with store.transaction() as tx:
                key = make.job_key(job_id)
                result = tx.jobs.move(key, events[i], seen=JobStatus.RUNNING, now_ms=2000 + i)
            if isinstance(result, Moved):
                moved[job_id].append(result.status)

    _race(len(events), work)
    with store.read() as tx:
        for job_id in ids:
            assert moved[job_id] == [tx.jobs.get(make.job_key(job_id)).status]


# --- reruns ---------------------------------------------------------------------------------------


def test_an_ended_job_is_reopened_as_new_but_keeps_what_people_wrote(store, make):
    with store.transaction() as tx:
        tx.jobs.add(
            make.job(
                status=JobStatus.FAILED, reason=make.reason(), progress=40, started_ms=5,
                ended_ms=9, tag="job_end", description="notes", user="ann",
            )
        )  # fmt: skip
        key = make.job_key()
        moved = tx.jobs.reopen(
            key, seen=JobStatus.FAILED, epoch=1, conf={"new": 1}, parameters={"timeout": 7},
            cores=3, now_ms=20,
        )  # fmt: skip
        assert moved == Moved(JobStatus.WAITING)
        job = tx.jobs.get(key)
        assert (job.status, job.epoch, job.conf, job.cores) == (
            JobStatus.WAITING, 1, {"new": 1}, 3,
        )  # fmt: skip
        assert (job.progress, job.reason, job.started_ms, job.ended_ms, job.tag) == (
            0, None, None, None, "",
        )  # fmt: skip
        assert (job.description, job.user, job.parameters) == ("notes", "ann", {"timeout": 7})
        tx.jobs.move(key, JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=25)
        assert tx.jobs.get(key).started_ms == 25


def test_a_job_that_holds_cores_or_has_moved_on_is_not_reopened(store, make):
    again = {"epoch": 1, "conf": {}, "parameters": {}, "cores": 1, "now_ms": 9}
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 8, now_ms=1)
        tx.jobs.add(make.job(status=JobStatus.FAILED))
        key = make.job_key()
        assert tx.jobs.reopen(key, seen=JobStatus.SUCCESS, **again) == Stale()
        tx.jobs.take_cores(key, now_ms=2)
        assert tx.jobs.reopen(key, seen=JobStatus.FAILED, **again) == Stale()
        with pytest.raises(IllegalMove):
            tx.jobs.reopen(key, seen=JobStatus.RUNNING, **again)


def test_a_refused_submit_is_hidden_from_those_who_ask_so(store, make):
    with store.transaction() as tx:
        tx.jobs.add(make.job("j1"))
        tx.jobs.add(make.job("j2"))
        tx.jobs.set_tag(make.job_key("j2"), "submit_failed", now_ms=2)
        assert tx.jobs.count(JobFilter()) == 2
        assert [j.key.job_id for j in tx.jobs.find(JobFilter(refused=False))] == ["j1"]
        assert tx.jobs.count(JobFilter(refused=False)) == 1


def test_a_changed_conf_replaces_the_old_one(store, make):
    with store.transaction() as tx:
        tx.jobs.add(make.job(parameters={"timeout": 1}))
        tx.jobs.set_conf(make.job_key(), {"a": [1]}, {"timeout": 2}, now_ms=5)
        job = tx.jobs.get(make.job_key())
        assert (job.conf, job.parameters, job.updated_ms) == ({"a": [1]}, {"timeout": 2}, 5)
