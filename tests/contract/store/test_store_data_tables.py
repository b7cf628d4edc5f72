"""Bound and disabled tables, who uses a table, connectors."""

from __future__ import annotations

from dataclasses import replace

from fedflow.domain.data.table_lists import TableFilter, TableOrder
from fedflow.domain.data.table_names import REPLACED
from fedflow.domain.records import Connector


def test_a_bound_table_comes_back_as_it_was(store, make):
    bound = make.table(
        engine="PATH", source="/data/ä.csv", disabled=True, extra={"meta": {"with_label": True}}
    )
    with store.transaction() as tx:
        tx.tables.put(bound)
    with store.read() as tx:
        assert tx.tables.get("ns", "t") == bound
        assert tx.tables.find() == [bound]


def test_tables_are_disabled_and_enabled(store, make):
    with store.transaction() as tx:
        for name in ("b", "a", "c"):
            tx.tables.put(make.table("ns", name))
        assert tx.tables.disabled() == []
        assert tx.tables.set_disabled("ns", "b", disabled=True)
        assert tx.tables.set_disabled("ns", "b", disabled=True)
        assert tx.tables.set_disabled("ns", "a", disabled=True)
        assert not tx.tables.set_disabled("ns", "none", disabled=True)
        assert [t.name for t in tx.tables.disabled()] == ["a", "b"]
        assert tx.tables.set_disabled("ns", "a", disabled=False)
        assert tx.tables.disabled() == [make.table("ns", "b", disabled=True)]


def test_more_of_a_schema_is_stored(store, make):
    with store.transaction() as tx:
        tx.tables.put(make.table())
        assert tx.tables.get("ns", "t").extra is None
        for extra in ({"meta": {"id_list": [None, "ä"]}}, {}, None):
            assert tx.tables.set_extra("ns", "t", extra)
            assert tx.tables.get("ns", "t").extra == extra
        assert not tx.tables.set_extra("t", "ns", {})


def test_tables_of_one_address_are_found(store, make):
    with store.transaction() as tx:
        for name, address in (("b", "one"), ("a", "one"), ("c", "two")):
            tx.tables.put(make.table("ns", name, address=address))
        assert tx.tables.at_address("one") == [("ns", "a"), ("ns", "b")]
        assert tx.tables.at_address("none") == []


def test_all_uses_of_a_table_are_found_in_the_order_of_their_writing(store, make):
    keys = [
        make.task_key("z", job_id="j1"),
        make.task_key("a", version=1, job_id="j1"),
        make.task_key("a", version=0, job_id="j1"),
        make.task_key("a", job_id="j2", site=make.host),
    ]
    outputs = [replace(make.output(key), namespace="ns", name="t") for key in keys]
    with store.transaction() as tx:
        for now_ms, output in zip((1, 3, 2, 4), outputs, strict=True):
            tx.tracking.put_output(output, now_ms=now_ms)
        tx.tracking.put_output(make.output(keys[0], "other", 1), now_ms=5)
        found = [outputs[i] for i in (0, 2, 1, 3)]
        assert tx.tracking.uses_of_table("ns", "t") == found
        assert tx.tracking.uses_of_table("t", "ns") == []


def test_outputs_of_one_job_are_moved_to_another_table(store, make):
    keys = [make.task_key("a"), make.task_key("a", job_id="j2")]
    outputs = [replace(make.output(key), namespace="ns", name="t") for key in keys]
    with store.transaction() as tx:
        for output in outputs:
            tx.tracking.put_output(output, now_ms=1)
    with store.transaction() as tx:
        tx.tracking.move_table("j1", old=("ns", "t"), new=("old", "t1"))
        tx.tracking.move_table("j1", old=("ns", "none"), new=("old", "t2"))
    with store.read() as tx:
        assert tx.tracking.uses_of_table("ns", "t") == [outputs[1]]
        (moved,) = tx.tracking.outputs("j1", None, make.guest)
        assert moved == replace(outputs[0], namespace="old", name="t1")


def test_a_connector_replaces_the_one_of_its_name(store):
    first = Connector(name="c", engine="MYSQL", info={"host": "h", "passwd": "ü"}, created_ms=1)
    with store.transaction() as tx:
        assert tx.connectors.get("c") is None
        tx.connectors.put(first)
        assert tx.connectors.get("c") == first
        second = replace(first, engine="HIVE", info={}, created_ms=2)
        tx.connectors.put(second)
        assert tx.connectors.get("c") == second


def test_the_storage_of_a_table_comes_back_as_it_was(store, make):
    address = {"engine": "MYSQL", "host": "hö", "query": None}
    bound = make.table(engine="MYSQL", storage={"address": address, "feature_columns": ["a"]})
    with store.transaction() as tx:
        tx.tables.put(bound)
    with store.read() as tx:
        assert tx.tables.get("ns", "t") == bound


def test_the_tables_of_a_connector_are_found(store, make):
    with store.transaction() as tx:
        for name, connector in (("b", "one"), ("a", "one"), ("c", "two"), ("d", None)):
            tx.tables.put(make.table("ns", name, storage={"address": {}, "connector": connector}))
        tx.tables.put(make.table("ns", "e"))
        tx.tables.put(make.table("ns", "f", storage={"parts": "one"}))
        assert tx.tables.of_connector("one") == [("ns", "a"), ("ns", "b")]
        assert tx.tables.of_connector("none") == []


def test_connectors_are_listed_by_name_and_dropped(store):
    some = [Connector(name=n, engine="S3", info={"n": n}, created_ms=1) for n in ("b", "a", ".1")]
    with store.transaction() as tx:
        assert tx.connectors.all() == []
        for one in some:
            tx.connectors.put(one)
        assert [c.name for c in tx.connectors.all()] == [".1", "a", "b"]
        assert sorted(tx.connectors.all(), key=lambda c: c.name) == sorted(
            some, key=lambda c: c.name
        )
        assert tx.connectors.drop("a")
        assert not tx.connectors.drop("a")
        assert [c.name for c in tx.connectors.all()] == [".1", "b"]


# --- lists ----------------------------------------------------------------------------------------


def _listed(store, **which):
    with store.read() as tx:
        found = tx.tables.listed(TableFilter(**which))
        assert tx.tables.count(TableFilter(**{**which, "limit": 1, "offset": 0})) >= len(found)
        return [(t.namespace, t.name) for t in found]


def test_tables_are_listed_in_the_order_asked_for(store, make):
    with store.transaction() as tx:
        for name, created_ms, count in (("b", 1, 5), ("a", 3, 5), ("c", 2, 9)):
            tx.tables.put(make.table("ns", name, created_ms=created_ms, count=count))
    by = TableOrder
    assert [n for _, n in _listed(store)] == ["a", "c", "b"]
    assert [n for _, n in _listed(store, descending=False)] == ["b", "c", "a"]
    assert [n for _, n in _listed(store, order=by.NAME)] == ["c", "b", "a"]
    assert [n for _, n in _listed(store, order=by.ROWS, descending=False)] == ["a", "b", "c"]
    assert [n for _, n in _listed(store, limit=1, offset=1)] == ["c"]
    assert _listed(store, offset=3) == []


def test_listed_tables_are_those_that_fit_all_that_is_asked(store, make):
    with store.transaction() as tx:
        tx.tables.put(make.table("exp%", "guest_train", created_ms=3))
        tx.tables.put(make.table("exp", "ho'st", origin="output", created_ms=2))
        tx.tables.put(make.table("x_y", "guest", disabled=True, created_ms=1))
        tx.tables.put(make.table(REPLACED, "guest", created_ms=4))
    assert len(_listed(store)) == 3
    assert _listed(store, part="guest") == [("exp%", "guest_train"), ("x_y", "guest")]
    assert _listed(store, part="%") == [("exp%", "guest_train")]
    assert _listed(store, part="'") == [("exp", "ho'st")]
    assert _listed(store, namespace="exp") == [("exp", "ho'st")]
    assert _listed(store, origins=("output",)) == [("exp", "ho'st")]
    assert _listed(store, origins=()) == []
    assert _listed(store, disabled=True) == [("x_y", "guest")]
    assert _listed(store, part="guest", disabled=False) == [("exp%", "guest_train")]
    with store.read() as tx:
        assert tx.tables.count(TableFilter(part="guest", limit=1)) == 2


def test_a_listed_table_is_whole_but_for_its_preview(store, make):
    one = make.table(preview=(("1", "2"),), extra={"meta": {}}, disabled=True)
    with store.transaction() as tx:
        tx.tables.put(one)
    with store.read() as tx:
        assert tx.tables.listed(TableFilter()) == [replace(one, preview=())]
