"""What holds for every store: all or nothing, one transaction per thread, values stay equal."""
# ruff: noqa: PT012  # the transaction is what raises, at its end too

from __future__ import annotations

import threading

import pytest

from fedflow.base.errors.jobs import IllegalMove
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.records import Metric, Reply
from fedflow.domain.states import JobEvent, JobStatus, TaskStatus


class Oops(Exception):
    pass


def test_an_exception_undoes_every_kind_of_write(store, make):
    key = make.task_key()
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 8, now_ms=1)
        tx.jobs.add(make.job())
        tx.tasks.add([make.task(key)])
        tx.schedules.add(make.schedule())
        tx.outbox.put([make.command(), make.command("j2")])
        tx.reply_cache.put("r1", Reply(retcode=0), now_ms=1)
        tx.leases.renew("l", "me", expires_ms=100, now_ms=1)
        tx.tracking.add_metric(key, Metric(namespace="n", name="m", points=((1, 2),)), now_ms=1)
        tx.tracking.put_summary(key, {"a": 1}, now_ms=1)
        tx.tables.put(make.table())
    before = _everything(store, make)
    with pytest.raises(Oops), store.transaction() as tx:
        tx.engines.put(ENGINE, 4, now_ms=2)
        tx.engines.put("other", 4, now_ms=2)
        tx.jobs.take_cores(make.job_key(), now_ms=2)
        tx.jobs.move(make.job_key(), JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=2)
        tx.jobs.add(make.job("j9"))
        tx.tasks.set_launch(key, "launch", "token", seen=None, now_ms=2)
        tx.tasks.add([make.task(make.task_key("b"))])
        tx.schedules.start_task("j1", "a", 0, now_ms=2)
        tx.schedules.move("j1", JobEvent.CANCELED, seen=JobStatus.READY, now_ms=2)
        tx.schedules.add(make.schedule("j2"))
        assert tx.schedules.get("j1").status is JobStatus.CANCELED
        number = tx.outbox.heads("10000", now_ms=5000, skip=frozenset(), limit=1)[0].number
        tx.outbox.retry(number, due_ms=7777, error="x")
        tx.outbox.remove(number)
        tx.outbox.put([make.command("j3")])
        tx.reply_cache.put("r2", Reply(retcode=1), now_ms=2)
        tx.reply_cache.prune(10**15)
        tx.leases.release("l", "me")
        tx.leases.renew("k", "me", expires_ms=100, now_ms=1)
        tx.tracking.add_metric(key, Metric(namespace="n", name="m", points=((3, 4),)), now_ms=2)
        tx.tracking.add_metric(key, Metric(namespace="n", name="z"), now_ms=2)
        tx.tracking.put_summary(key, {"a": 2}, now_ms=2)
        tx.tracking.put_output(make.output(key), now_ms=2)
        tx.tracking.put_model(make.model(key), now_ms=2)
        tx.tables.drop("ns", "t")
        tx.tables.put(make.table("ns", "u"))
        raise Oops
    assert _everything(store, make) == before


def _everything(store, make):
    with store.read() as tx:
        site = make.guest
        return (
            tx.engines.get(ENGINE), tx.engines.get("other"), tx.jobs.get(make.job_key()),
            tx.jobs.open_jobs(), tx.tasks.get(make.task_key()), tx.tasks.live(),
            tx.schedules.get("j1"), tx.schedules.get("j2"), tx.schedules.active(),
            tx.outbox.heads("10000", now_ms=9999, skip=frozenset(), limit=9), tx.outbox.size(),
            tx.reply_cache.get("r1"), tx.reply_cache.get("r2"),
            tx.leases.get("l"), tx.leases.get("k"),
            tx.tracking.metrics("j1", "a", site), tx.tracking.summary("j1", "a", site),
            tx.tracking.outputs("j1", None, site), tx.tracking.model("j1", "a", site),
            tx.tables.find(),
        )  # fmt: skip


def test_what_a_refused_move_wrote_before_is_undone_too(store, make):
    with pytest.raises(IllegalMove), store.transaction() as tx:
        tx.jobs.add(make.job(status=JobStatus.SUCCESS))
        tx.jobs.move(make.job_key(), JobEvent.STARTED, seen=JobStatus.SUCCESS, now_ms=2)
    with store.read() as tx:
        assert tx.jobs.get(make.job_key()) is None


def test_a_transaction_sees_its_own_writes_and_others_only_after_the_commit(store, make):
    seen = []
    inside = threading.Event()

    def look():
        inside.wait(5)
        with store.read() as tx:
            seen.append(tx.jobs.get(make.job_key()))

    thread = threading.Thread(target=look)
    thread.start()
    with store.transaction() as tx:
        tx.jobs.add(make.job())
        assert tx.jobs.get(make.job_key()) is not None
        inside.set()
        thread.join(0.05)  # memory lets readers wait; databases let them see the old state
    thread.join(5)
    assert seen in ([None], [make.job()])
    with store.read() as tx:
        assert tx.jobs.get(make.job_key()) == make.job()


def test_a_second_transaction_inside_one_is_refused(store):
    for outer in (store.transaction, store.read):
        for inner in (store.transaction, store.read):
            with outer(), pytest.raises(RuntimeError, match="open already"), inner():
                pass
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 1, now_ms=1)


def test_a_reading_transaction_refuses_to_write(store):
    with store.read() as tx, pytest.raises(RuntimeError, match="only reads"):
        tx.engines.put(ENGINE, 1, now_ms=1)


def test_a_transaction_is_of_no_use_after_its_end(store):
    with store.transaction() as tx:
        pass
    with pytest.raises(RuntimeError, match="ended"):
        tx.engines.put(ENGINE, 1, now_ms=1)


def test_a_closed_store_says_so(tmp_path):
    from fedflow.store.connect import open_sqlite
    from fedflow.store.memory.store import MemoryStore

    for store in (MemoryStore(), open_sqlite(tmp_path / "x.db")):
        store.close()
        with pytest.raises(StoreUnavailable, match="closed"), store.read():
            pass


TEXTS = [
    "Grüße", "数据表", "𝔘𝔫𝔦 👩‍👩‍👧 🦊", "a\x00b\x01\x7f", "'; DROP TABLE t_job; --",
    "%s ? {x} \\ \\' \"",
    "  blanks  ", "line\r\nend\t", "", "\u202e\ufeff",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_comes_back_as_it_was(store, make, text):
    key = make.task_key()
    dsl = {text: [text, {"k": text}]}
    job = make.job(dsl=dsl, description=text, user=text, reason=make.reason(text))
    task = make.task(key, parameters={"p": text}, traceback=text, status=TaskStatus.FAILED)
    table = make.table("n" + text, text, schema={text: text}, preview=((text, "x"), (text,)))
    with store.transaction() as tx:
        tx.jobs.add(job)
        tx.tasks.add([task])
        tx.tables.put(table)
        tx.reply_cache.put("r" + text, Reply(retcode=1, retmsg=text, data=text), now_ms=1)
        tx.tracking.add_metric(
            key, Metric(namespace=text, name=text, points=((text, 1),)), now_ms=1
        )
    with store.read() as tx:
        assert tx.jobs.get(job.key) == job
        assert tx.tasks.get(key) == task
        assert tx.tables.get("n" + text, text) == table
        assert tx.reply_cache.get("r" + text) == Reply(retcode=1, retmsg=text, data=text)
        assert tx.tracking.metrics("j1", "a", make.guest)[0].points == ((text, 1),)


def test_names_are_compared_exactly(store, make):
    names = ["a", "A", "a ", " a", "á", "ａ", "ß", "ss"]
    with store.transaction() as tx:
        for name in names:
            tx.tables.put(make.table("ns", name))
    with store.read() as tx:
        assert [tx.tables.get("ns", n).name for n in names] == names
        assert [t.name for t in tx.tables.find("ns")] == sorted(names)
        assert tx.tables.get("NS", "a") is None


def test_a_megabyte_of_json_comes_back(store, make):
    big = {"rows": [{"id": i, "text": "é🦊" * 20, "value": i / 7} for i in range(8000)]}
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(dsl=big))
        tx.outbox.put([make.command(body=big)])
        tx.tracking.put_model(make.model(make.task_key(), param=big), now_ms=1)
    with store.read() as tx:
        assert tx.schedules.get("j1").dsl == big
        assert tx.outbox.heads("10000", now_ms=5000, skip=frozenset(), limit=1)[0].body == big
        assert tx.tracking.model("j1", "a", make.guest).param == big


def test_json_is_copied_when_it_is_stored(store, make):
    dsl, body = {"list": (1, 2), 3: None}, {"deep": {"x": [1]}}
    with store.transaction() as tx:
        tx.jobs.add(make.job(dsl=dsl))
        tx.outbox.put([make.command(body=body)])
    body["deep"]["x"].append(2)
    with store.read() as tx:
        assert tx.jobs.get(make.job_key()).dsl == {"list": [1, 2], "3": None}
        head = tx.outbox.heads("10000", now_ms=5000, skip=frozenset(), limit=1)[0]
        assert head.body == {"deep": {"x": [1]}}


def test_json_numbers_keep_their_value(store, make):
    numbers = [0, -1, 2**53 + 1, 2**64, -(2**70), 0.1, 1e300, -0.0, 5e-324, True, None]
    with store.transaction() as tx:
        tx.jobs.add(make.job(conf=numbers))
    with store.read() as tx:
        conf = tx.jobs.get(make.job_key()).conf
    assert conf == numbers
    assert [type(x) for x in conf] == [type(x) for x in numbers]


def test_what_is_not_json_is_refused_and_nothing_is_stored(store, make):
    with pytest.raises(TypeError), store.transaction() as tx:
        tx.engines.put(ENGINE, 1, now_ms=1)
        tx.jobs.add(make.job(dsl={"x": object()}))
    with store.read() as tx:
        assert tx.engines.get(ENGINE) is None
