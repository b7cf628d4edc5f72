"""What only a SQL database has: a schema with a history, connections, ways to be out of order."""
# ruff: noqa: PT012  # the transaction is what raises, at its end too

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedflow.base.errors.requests import BadRequest
from fedflow.base.errors.store import DatabaseFileLost, SchemaTooNew, StoreUnavailable
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.outside import outside
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import JobFilter, ScheduledSite
from fedflow.store import sqlite
from fedflow.store.connect import open_mysql, open_sqlite, open_store
from fedflow.store.job_tables import SCHEDULED_TASK
from fedflow.store.migrate import STEPS, Step, migrate
from fedflow.store.mysql import MySqlServer
from fedflow.store.sqlite import SqliteFile
from fedflow.store.table import Table
from fedflow.store.tables import SCHEMA_VERSION, TABLES


class Clock:
    def now_ms(self):
        return 1234

    def monotonic_s(self):
        return 0.0


@pytest.fixture(params=["sqlite", pytest.param("mysql", marks=pytest.mark.mysql)])
def database(request, tmp_path):
    """A database without tables."""
    if request.param == "sqlite":
        database = SqliteFile(tmp_path / "empty.db")
        yield database
    else:
        server = request.getfixturevalue("mysql")
        name = f"{server.database}_empty"
        database = MySqlServer(
            host=server.host, port=server.port, user=server.user, password=server.password,
            database=name,
        )  # fmt: skip
        yield database
        server.run(f"DROP DATABASE IF EXISTS {name}")
    database.close()


# --- the schema and its history ------------------------------------------------------------------


def test_the_steps_make_exactly_the_declared_tables(database):
    with database.schema() as schema:
        migrate(schema, Clock())
        for table in (*TABLES, SCHEMA_VERSION):
            columns = {*table.columns, *([table.numbered] if table.numbered else [])}
            assert set(schema.columns(table.name)) == columns, table
            assert schema.key(table.name) == list(table.key), table


def test_a_database_of_schema_1_gets_launches_and_rendezvous(database):
    def of_before(schema):
        for table in TABLES:
            if table.name != "t_rendezvous":
                lacks = "f_launch" in table.columns
                schema.table(_older(table, lacks="f_launch") if lacks else table)

    with database.schema() as schema:
        migrate(schema, Clock(), steps=(Step(number=1, name="tables", up=of_before),))
        assert "f_launch" not in schema.columns("t_task")
        migrate(schema, Clock())
        for table in TABLES:
            assert set(table.columns) <= set(schema.columns(table.name)), table


def test_a_step_that_is_done_twice_changes_nothing(database):
    with database.schema() as schema:
        for _ in range(2):
            for step in STEPS:
                step.up(schema)


def _with_priority(schema):
    schema.add_column("t_job", "f_priority", "INTEGER NOT NULL DEFAULT 7")
    schema.add_column("t_job", "f_priority", "INTEGER NOT NULL DEFAULT 7")
    schema.run("UPDATE t_job SET f_tag = ?", ("moved on",))


def test_a_later_step_runs_on_old_data_once(database, make):
    later = Step(number=len(STEPS) + 1, name="priority", up=_with_priority)
    with database.schema() as schema:
        assert migrate(schema, Clock()) == len(STEPS)
    from fedflow.store.sql.store import SqlTx

    with database.session(write=True) as session:
        SqlTx(session).jobs.add(make.job())
    for _ in range(2):
        with database.schema() as schema:
            assert migrate(schema, Clock(), steps=(*STEPS, later)) == later.number
            found = schema.run("SELECT f_tag, f_priority FROM t_job", ())
            assert [tuple(r) for r in found] == [("moved on", 7)]
            done = schema.run("SELECT f_version, f_name, f_apply_time FROM t_schema_version", ())
            assert [tuple(r) for r in done][-1] == (later.number, "priority", 1234)


def _older(table, *, lacks):
    """Return a table as it was before a column and the indexes on it were declared."""
    columns = {name: kind for name, kind in table.columns.items() if name != lacks}
    return replace(
        table, columns=columns, indexes=[index for index in table.indexes if lacks not in index]
    )


def _with_cache_keys(schema):
    column = "f_cache_key"
    schema.add_column("t_schedule_task", column, SCHEDULED_TASK.columns[column])
    schema.add_index("t_schedule_task", "f_cache_key, f_job_id")
    schema.drop_index("t_schedule_task", "f_component_name, f_status")
    with schema.at_once():
        schema.run("UPDATE t_schedule_task SET f_cache_key = f_job_id", ())


def _shape(schema, table):
    return sorted(schema.columns(table.name)), schema.key(table.name)


def test_an_older_schema_becomes_the_declared_one_step_by_step(database, make):
    """The next release: a column and an index are declared, and a step adds them."""
    from fedflow.store.sql.store import SqlTx

    def of_before(schema):
        for table in TABLES:
            schema.table(_older(table, lacks="f_cache_key") if table is SCHEDULED_TASK else table)
        schema.add_index("t_schedule_task", "f_component_name, f_status")

    first = Step(number=1, name="tables", up=of_before)
    later = Step(number=len(STEPS) + 1, name="cache keys", up=_with_cache_keys)
    with database.schema() as schema:
        assert migrate(schema, Clock(), steps=(first,)) == 1
        assert "f_cache_key" not in schema.columns("t_schedule_task")
        schema.run(
            "INSERT INTO t_schedule_task (f_job_id, f_component_name, f_task_version, f_position, "
            "f_status, f_epoch, f_retries, f_infrastructure_retries, f_inherited_from) "
            "VALUES ('j0', 'a', 0, 0, 'success', 0, 0, 0, '')",
            (),
        )
        assert migrate(schema, Clock(), steps=(*STEPS, later)) == later.number
        assert schema.run("SELECT f_cache_key FROM t_schedule_task", ())[0][0] == "j0"
        shapes = [_shape(schema, table) for table in TABLES]
        schema.run("DELETE FROM t_schema_version", ())
        for table in TABLES:
            schema.run(f"DROP TABLE {table.name}", ())
        assert migrate(schema, Clock(), steps=(*STEPS, later)) == later.number
        assert [_shape(schema, table) for table in TABLES] == shapes
    with database.session(write=True) as session:
        tx = SqlTx(session)
        tx.schedules.add(make.schedule())
        assert tx.schedules.reusable(["j1"], limit=9) == []


def test_a_newer_schema_is_refused(database):
    later = Step(number=99, name="future", up=_with_priority)
    with database.schema() as schema:
        migrate(schema, Clock(), steps=(*STEPS, later))
    with pytest.raises(SchemaTooNew, match="99") as info, database.schema() as schema:
        migrate(schema, Clock())
    assert info.value.fields == {"found": 99, "known": len(STEPS)}


def test_a_step_that_fails_on_sqlite_leaves_nothing_behind(tmp_path):
    def broken(schema):
        schema.table(Table("t_new", {"f_a": "INTEGER NOT NULL"}, key=("f_a",)))
        raise ZeroDivisionError

    database = SqliteFile(tmp_path / "x.db")
    with database.schema() as schema:
        migrate(schema, Clock())
        with pytest.raises(ZeroDivisionError):
            next_step = Step(number=len(STEPS) + 1, name="broken", up=broken)
            migrate(schema, Clock(), steps=(*STEPS, next_step))
        assert schema.columns("t_new") == []
        assert migrate(schema, Clock()) == len(STEPS)
    database.close()


def test_servers_that_start_at_once_migrate_once(database):
    failed, barrier = [], threading.Barrier(4)

    def start():
        barrier.wait(5)
        try:
            with database.schema() as schema:
                migrate(schema, Clock())
        except BaseException as exc:
            failed.append(exc)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failed == []
    with database.schema() as schema:
        assert len(schema.run("SELECT f_version FROM t_schema_version", ())) == len(STEPS)


def test_a_job_without_an_engine_is_of_the_servers_machine(tmp_path, make):
    path = tmp_path / "x.db"
    store = open_sqlite(path)
    with store.transaction() as tx:
        tx.jobs.add(make.job())
        tx.engines.put(ENGINE, 8, now_ms=9000)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE t_job SET f_engine_name = NULL")
    connection.close()
    with store.transaction() as tx:
        job = tx.jobs.get(make.job_key())
        assert job.engine == ENGINE
        assert tx.jobs.take_cores(job.key, now_ms=9000)
        assert tx.engines.get(ENGINE).remaining_cores == 8 - job.cores
        assert tx.jobs.return_cores(job.key, now_ms=9001)
        assert tx.engines.get(ENGINE).remaining_cores == 8
    store.close()


# --- SQLite --------------------------------------------------------------------------------------


def test_a_store_keeps_its_content_when_it_is_opened_again(tmp_path, make):
    for synchronous in ("NORMAL", "FULL"):
        path = tmp_path / f"{synchronous}.db"
        store = open_sqlite(path, synchronous=synchronous)
        with store.transaction() as tx:
            tx.jobs.add(make.job())
        store.close()
        store = open_store(f"sqlite://{path}")
        with store.read() as tx:
            assert tx.jobs.get(make.job_key()) == make.job()
        store.close()


def test_the_file_is_readable_by_its_owner_only(tmp_path):
    open_sqlite(tmp_path / "x.db").close()
    assert stat.S_IMODE((tmp_path / "x.db").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "reason"), [(b"x" * 4096, "not a SQLite database"), (None, "directory")]
)
def test_a_file_that_is_no_database_is_refused_with_its_name(tmp_path, content, reason):
    path = tmp_path / "x.db"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match=reason) as info:
        open_sqlite(path)
    assert str(path) in info.value.message
    with pytest.raises(StoreUnavailable, match="No such file"):
        open_sqlite(tmp_path / "none" / "x.db")


def test_a_full_disk_undoes_the_transaction_and_says_so(tmp_path, make):
    database = SqliteFile(tmp_path / "x.db")
    from fedflow.store.sql.store import SqlStore

    store = SqlStore(database)
    with database.schema() as schema:  # the same connection, since it is the only one
        pages = schema.run("PRAGMA page_count", ())[0][0]
        schema.run(f"PRAGMA max_page_count = {pages + 5}", ())
    with pytest.raises(StoreUnavailable, match="disk is full"), store.transaction() as tx:
        tx.engines.put(ENGINE, 1, now_ms=1)
        tx.jobs.add(make.job(dsl="x" * 1_000_000))
    with store.transaction() as tx:
        assert tx.engines.get(ENGINE) is None
        tx.engines.put(ENGINE, 2, now_ms=1)
    store.close()


def test_a_database_that_may_not_be_written_says_so_and_can_still_be_read(tmp_path, make):
    database = SqliteFile(tmp_path / "x.db")
    from fedflow.store.sql.store import SqlStore

    store = SqlStore(database)
    with database.schema() as schema:
        schema.run("PRAGMA query_only = 1", ())
    with pytest.raises(StoreUnavailable, match="may not be written"), store.transaction() as tx:
        tx.jobs.add(make.job())
    with store.read() as tx:
        assert tx.jobs.find(JobFilter()) == []
    store.close()


def test_there_are_as_many_connections_as_transactions_at_once(tmp_path, monkeypatch):
    made = []
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: made.append(1) or connect(*a, **k))
    store = open_sqlite(tmp_path / "x.db")

    def read():
        with store.read() as tx:
            tx.jobs.find(JobFilter())

    def read_in_a_thread():
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

    for _ in range(3):
        read_in_a_thread()
    assert len(made) == 1
    with store.read():
        read_in_a_thread()
    assert len(made) == 2
    store.close()


def test_a_closed_store_says_so(tmp_path):
    store = open_sqlite(tmp_path / "x.db")
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"), store.read():
        raise AssertionError("not reached")


def test_damaged_json_is_told_as_such(tmp_path, make):
    store = open_sqlite(tmp_path / "x.db")
    with store.transaction() as tx:
        tx.jobs.add(make.job())
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("UPDATE t_job SET f_dsl = '{\"a\":'")
    connection.close()
    with pytest.raises(StoreUnavailable, match="damaged"), store.read() as tx:
        tx.jobs.get(make.job_key())
    store.close()


def test_half_a_character_is_a_bad_request(tmp_path, make):
    store = open_sqlite(tmp_path / "x.db")
    for job in (make.job(description="\ud800"), make.job(dsl={"x": "\udfff"})):
        with pytest.raises(BadRequest, match="surrogate"), store.transaction() as tx:
            tx.jobs.add(job)
    store.close()


def test_a_connection_that_nobody_has_needed_for_a_minute_is_closed(tmp_path, monkeypatch):
    clock = SimpleNamespace(now_s=0.0, monotonic_s=lambda: clock.now_s)
    monkeypatch.setattr(sqlite, "_CLOCK", clock)
    path = tmp_path / "x.db"
    store = open_sqlite(path)

    def open_at_once(count):
        with ExitStack() as stack:
            for _ in range(count):
                thread = threading.Thread(target=lambda: stack.enter_context(store.read()))
                thread.start()
                thread.join(5)

    def connections():  # SQLite keeps descriptors of the file itself for its next connections
        return sum(_target(fd) == f"{path}-wal" for fd in os.listdir("/proc/self/fd"))

    open_at_once(8)
    assert connections() == 8
    for second in range(59):
        clock.now_s = second
        open_at_once(2)
    assert connections() == 8  # a burst now and then finds them
    for second in range(59, 80):
        clock.now_s = second
        open_at_once(2)
    assert connections() == 2
    store.close()


def test_connections_of_ended_threads_are_closed(tmp_path, make):
    store = open_sqlite(tmp_path / "x.db")

    def look():
        with store.read() as tx:
            tx.jobs.get(make.job_key())

    for _ in range(30):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(5)
    links = (_target(fd) for fd in os.listdir("/proc/self/fd"))
    assert sum(link == str(tmp_path / "x.db") for link in links) <= 3
    store.close()
    assert not (tmp_path / "x.db-wal").exists()


def _target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def test_two_stores_on_one_file_wait_for_each_other(tmp_path, make):
    stores = [open_sqlite(tmp_path / "x.db") for _ in range(2)]
    with stores[0].transaction() as tx:
        tx.engines.put(ENGINE, 3, now_ms=1)
        for i in range(20):
            tx.jobs.add(make.job(f"j{i}", cores=1))
    taken = []

    def work(store):
        for i in range(20):
            with store.transaction() as tx:
                if tx.jobs.take_cores(make.job_key(f"j{i}"), now_ms=1):
                    taken.append(i)
                    tx.jobs.return_cores(make.job_key(f"j{i}"), now_ms=1)

    threads = [threading.Thread(target=work, args=(s,)) for s in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(taken) == 40
    with stores[0].read() as tx:
        assert tx.engines.get(ENGINE).remaining_cores == 3
    for store in stores:
        store.close()


def test_a_schedule_of_a_thousand_tasks_takes_four_statements(tmp_path, make):
    database = SqliteFile(tmp_path / "x.db")
    from fedflow.store.sql.store import SqlStore

    store = SqlStore(database)
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(components=tuple(f"c_{i}" for i in range(1000))))
    statements = []
    connection = database._borrow()
    connection.set_trace_callback(statements.append)
    database._give_back(connection)  # it is lent first
    with store.read() as tx:
        tx.schedules.get("j1")
        tx.schedules.get("j1")
    assert sum(s.startswith("SELECT") for s in statements) == 4
    store.close()


@pytest.mark.parametrize(
    "url", ["", "postgres://h/x", "sqlite://", "mysql://h", "sqlite://host/x", "mysql:///x"]
)
def test_a_url_of_another_form_is_refused(url):
    with pytest.raises(StoreUnavailable, match="URL must be"):
        open_store(url)


# --- MySQL ---------------------------------------------------------------------------------------


def test_a_server_that_does_not_answer_is_named_without_its_password():
    with pytest.raises(StoreUnavailable, match="no database server answers") as info:
        open_mysql(host="127.0.0.1", port=1, user="u", password="pa55", database="d")
    assert "127.0.0.1:1/d" in info.value.message
    assert "pa55" not in str(info.value)


def test_a_name_that_is_no_database_name_is_refused():
    with pytest.raises(StoreUnavailable, match="not a name"):
        open_mysql(host="127.0.0.1", port=1, user="u", password="", database="a`; DROP")


@pytest.mark.mysql
def test_a_wrong_password_is_told_without_it(mysql):
    with pytest.raises(StoreUnavailable, match="user or the password is wrong") as info:
        mysql.open(user="nobody_here", password="pa55")
    assert "pa55" not in str(info.value)
    assert "nobody_here" not in str(info.value)


@pytest.mark.mysql
def test_a_connection_that_the_server_closed_is_replaced(mysql, mysql_store, make):
    with mysql_store.transaction() as tx:
        tx.engines.put(ENGINE, 1, now_ms=1)
    _kill_all(mysql)
    with mysql_store.read() as tx:
        assert tx.engines.get(ENGINE) is not None


@pytest.mark.mysql
def test_a_connection_that_breaks_inside_a_transaction_undoes_it(mysql, mysql_store, make):
    with pytest.raises(StoreUnavailable, match="lost"), mysql_store.transaction() as tx:
        tx.jobs.add(make.job("broken"))
        _kill_all(mysql)
        tx.jobs.get(make.job_key("broken"))
    with mysql_store.read() as tx:
        assert tx.jobs.get(make.job_key("broken")) is None


def _kill_all(mysql):
    with mysql.connect() as connection, connection.cursor() as cursor:
        query = "SELECT id FROM information_schema.processlist WHERE db = %s"
        cursor.execute(query, (mysql.database,))
        for (number,) in cursor.fetchall():
            cursor.execute(f"KILL {number}")


@pytest.mark.mysql
def test_of_two_transactions_that_wait_for_each_other_one_is_undone(mysql_store, make):
    with mysql_store.transaction() as tx:
        for job_id in ("x1", "x2"):
            tx.jobs.add(make.job(job_id))
    barrier, outcomes = threading.Barrier(2), []

    def work(first, second):
        try:
            with mysql_store.transaction() as tx:
                tx.jobs.set_description(make.job_key(first), first, now_ms=1)
                barrier.wait(5)
                tx.jobs.set_description(make.job_key(second), first, now_ms=1)
            outcomes.append(first)
        except StoreUnavailable as exc:
            outcomes.append(exc)

    threads = [threading.Thread(target=work, args=a) for a in (("x1", "x2"), ("x2", "x1"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    (lost,) = [o for o in outcomes if isinstance(o, StoreUnavailable)]
    (won,) = [o for o in outcomes if isinstance(o, str)]
    assert "try again" in lost.message
    with mysql_store.read() as tx:
        assert {tx.jobs.get(make.job_key(j)).description for j in ("x1", "x2")} == {won}


@pytest.mark.mysql
def test_a_value_that_does_not_fit_is_refused_and_not_cut(mysql_store, make):
    with pytest.raises(BadRequest, match="f_user_id") as refused, mysql_store.transaction() as tx:
        tx.jobs.add(make.job("long", user="x" * 300))
    told = outside(refused.value.message, code="BadRequest", site="host 10000")
    assert told == "Bad request: a value does not fit into the store (…)."  # MySQL may quote it
    with mysql_store.read() as tx:
        assert tx.jobs.get(make.job_key("long")) is None


@pytest.mark.mysql
def test_threads_share_few_connections(mysql, make):
    store = mysql.open(max_connections=2)
    done = []

    def look():
        with store.transaction() as tx:
            tx.jobs.set_progress(make.job_key("none"), 1, now_ms=1)
            done.append(1)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(done) == 8
    store.close()


@pytest.mark.mysql
def test_one_read_sees_one_moment(mysql_store, make):
    job = make.schedule("moment")
    with mysql_store.transaction() as tx:
        tx.schedules.add(job)
    with mysql_store.read() as tx:
        assert tx.schedules.active() is not None

        def write():
            with mysql_store.transaction() as other:
                site = ScheduledSite(site=make.host, phase=SitePhase.CREATED)
                other.schedules.set_site("moment", site, seen=SitePhase.CREATING, now_ms=9)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join(5)
        assert tx.schedules.get("moment") == job
    with mysql_store.read() as tx:
        assert tx.schedules.get("moment").sites[0].phase is SitePhase.CREATED


@pytest.mark.mysql
def test_a_lease_that_its_owner_extends_meanwhile_is_not_taken_over(mysql_store):
    with mysql_store.transaction() as tx:
        tx.leases.renew("held", "a", expires_ms=10, now_ms=0)
    answers = []

    def take_over():
        with mysql_store.transaction() as tx:
            answers.append(tx.leases.renew("held", "b", expires_ms=99, now_ms=20))

    thread = threading.Thread(target=take_over)
    with mysql_store.transaction() as tx:
        tx.leases.renew("held", "a", expires_ms=50, now_ms=20)
        thread.start()
        thread.join(0.2)  # it has read the expired claim by now and waits for the row
    thread.join(10)
    assert answers == [None]
    with mysql_store.read() as tx:
        assert tx.leases.get("held").owner == "a"


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_nothing_is_stored_in_a_file_that_is_not_there_any_more(tmp_path, monkeypatch, replaced):
    from fedflow.store.sql.store import SqlStore

    monkeypatch.setattr(sqlite, "_CHECK_S", 0.0)
    path = tmp_path / "x.db"
    store = SqlStore(SqliteFile(path))
    kept = path.with_name("kept.db")
    path.rename(kept)
    if replaced:
        path.write_bytes(kept.read_bytes())
    for _ in range(2):
        with (
            pytest.raises(DatabaseFileLost, match="was removed, or replaced"),
            store.transaction(),
        ):
            pass
    with store.read() as tx:  # what it has open can still be looked at
        assert tx.outbox.size() == 0
        with ThreadPoolExecutor(1) as pool:  # but a new connection would make a new file
            error = pool.submit(_read_size, store).exception()
    assert isinstance(error, DatabaseFileLost)
    assert path.exists() is replaced
    kept.rename(path)
    with store.transaction() as tx:  # the same file again: it goes on
        assert tx.outbox.size() == 0
    store.close()


def _read_size(store):
    with store.read() as tx:
        return tx.outbox.size()
