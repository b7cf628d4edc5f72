"""Metrics, outputs, summaries, models and tables, over every store."""

from __future__ import annotations

import pytest

from fedflow.base.errors.data import TableExists
from fedflow.domain.records import Metric


def test_metric_points_are_appended_and_meta_is_merged(store, make):
    key = make.task_key()
    with store.transaction() as tx:
        add = tx.tracking.add_metric
        add(
            key,
            Metric(namespace="train", name="loss", points=((0, 0.7), (1, 0.6)), meta={"a": 1}),
            now_ms=1,
        )
        add(key, Metric(namespace="train", name="auc", points=(("x", None),)), now_ms=1)
        add(key, Metric(namespace="train", name="empty"), now_ms=1)
    with store.transaction() as tx:
        loss = Metric(namespace="train", name="loss", points=((2, 0.5),), meta={"b": [2], "a": 3})
        tx.tracking.add_metric(key, loss, now_ms=2)
        tx.tracking.add_metric(key, Metric(namespace="other", name="loss"), now_ms=2)
    with store.read() as tx:
        assert tx.tracking.metrics("j1", "a", make.guest) == [
            Metric(
                namespace="train", name="loss", points=((0, 0.7), (1, 0.6), (2, 0.5)),
                meta={"a": 3, "b": [2]},
            ),
            Metric(namespace="train", name="auc", points=(("x", None),)),
            Metric(namespace="train", name="empty"),
            Metric(namespace="other", name="loss"),
        ]  # fmt: skip


def test_metrics_are_those_of_the_latest_attempt_at_that_site(store, make):
    with store.transaction() as tx:
        for version in (1, 0, 2):
            for site in (make.guest, make.host):
                key = make.task_key("a", version, site=site)
                metric = Metric(namespace="n", name=f"{version} {site}", points=((1, 1),))
                tx.tracking.add_metric(key, metric, now_ms=1)
        tx.tracking.add_metric(make.task_key("b", 9), Metric(namespace="n", name="b"), now_ms=1)
        tx.tracking.add_metric(
            make.task_key("a", 9, job_id="j2"), Metric(namespace="n", name="j2"), now_ms=1
        )
    with store.read() as tx:
        assert [m.name for m in tx.tracking.metrics("j1", "a", make.guest)] == ["2 guest 9999"]
        assert [m.name for m in tx.tracking.metrics("j1", "a", make.host)] == ["2 host 10000"]
        assert tx.tracking.metrics("j1", "none", make.guest) == []


def test_ten_thousand_points_keep_their_order(store, make):
    points = tuple((i, i * 0.5) for i in range(10_000))
    with store.transaction() as tx:
        tx.tracking.add_metric(
            make.task_key(), Metric(namespace="n", name="m", points=points), now_ms=1
        )
    with store.read() as tx:
        assert tx.tracking.metrics("j1", "a", make.guest)[0].points == points


def test_outputs_are_those_of_the_latest_attempts_by_component_and_position(store, make):
    with store.transaction() as tx:
        put = tx.tracking.put_output
        for key in (make.task_key("b"), make.task_key("a", 0), make.task_key("a", 1)):
            put(make.output(key, "second", 1), now_ms=1)
            put(make.output(key, "first", 0), now_ms=1)
        put(make.output(make.task_key("a", 5, site=make.host)), now_ms=1)
        outputs = tx.tracking.outputs("j1", None, make.guest)
        assert [(o.key.component, o.key.version, o.data_name) for o in outputs] == [
            ("a", 1, "first"), ("a", 1, "second"), ("b", 0, "first"), ("b", 0, "second"),
        ]  # fmt: skip
        assert outputs[0] == make.output(make.task_key("a", 1), "first", 0)
        assert [o.data_name for o in tx.tracking.outputs("j1", "b", make.guest)] == [
            "first", "second",
        ]  # fmt: skip
        assert tx.tracking.outputs("j2", None, make.guest) == []


def test_an_output_that_is_put_again_replaces_the_first(store, make):
    key = make.task_key()
    with store.transaction() as tx:
        tx.tracking.put_output(make.output(key), now_ms=1)
        tx.tracking.put_output(make.output(key, position=4), now_ms=2)
        assert [o.position for o in tx.tracking.outputs("j1", "a", make.guest)] == [4]


def test_summaries_and_models_are_replaced_and_the_latest_attempt_counts(store, make):
    with store.transaction() as tx:
        for version in (1, 0):
            key = make.task_key("a", version)
            tx.tracking.put_summary(key, {"v": -1}, now_ms=1)
            tx.tracking.put_summary(key, {"v": version}, now_ms=2)
            tx.tracking.put_model(make.model(key), now_ms=1)
            tx.tracking.put_model(make.model(key, alias=f"m{version}"), now_ms=2)
    with store.read() as tx:
        assert tx.tracking.summary("j1", "a", make.guest) == {"v": 1}
        assert tx.tracking.model("j1", "a", make.guest) == make.model(
            make.task_key("a", 1), alias="m1"
        )
        assert tx.tracking.summary("j1", "a", make.host) is None
        assert tx.tracking.model("j1", "b", make.guest) is None


def test_a_component_whose_name_continues_anothers_is_not_mixed_up(store, make):
    with store.transaction() as tx:
        tx.tracking.put_summary(make.task_key("b", job_id="x_a"), 1, now_ms=1)
        tx.tracking.put_summary(make.task_key("a_b", job_id="x"), 2, now_ms=1)
        assert tx.tracking.summary("x_a", "b", make.guest) == 1
        assert tx.tracking.summary("x", "a_b", make.guest) == 2


def test_a_table_is_stored_once_and_dropped_once(store, make):
    table = make.table(id_delimiter="\t", have_head=False, count=2**40)
    with store.transaction() as tx:
        tx.tables.put(table)
    with pytest.raises(TableExists), store.transaction() as tx:
        tx.tables.put(make.table(address="other"))
    with store.transaction() as tx:
        assert tx.tables.get("ns", "t") == table
        assert tx.tables.get("t", "ns") is None
        assert tx.tables.drop("ns", "t") == table
        assert tx.tables.drop("ns", "t") is None
        tx.tables.put(make.table(address="other"))
        assert tx.tables.get("ns", "t").address == "other"


def test_a_refused_table_leaves_the_transaction_usable(store, make):
    with store.transaction() as tx:
        tx.tables.put(make.table())
        with pytest.raises(TableExists):
            tx.tables.put(make.table())
        tx.tables.put(make.table("ns", "u"))
    with store.read() as tx:
        assert [t.name for t in tx.tables.find()] == ["t", "u"]


def test_tables_are_found_newest_first(store, make):
    with store.transaction() as tx:
        for i, (namespace, name) in enumerate([("x", "b"), ("x", "a"), ("y", "c"), ("x", "d")]):
            tx.tables.put(make.table(namespace, name, created_ms=100 + i // 2))
        assert [t.name for t in tx.tables.find()] == ["d", "c", "a", "b"]
        assert [t.name for t in tx.tables.find("x")] == ["d", "a", "b"]
        assert [t.name for t in tx.tables.find("x", limit=1)] == ["d"]
        assert tx.tables.find("none") == []


def test_metrics_of_an_older_attempt_can_be_asked_for_and_all_be_dropped(store, make):
    with store.transaction() as tx:
        for version in (0, 1):
            key = make.task_key(version=version)
            tx.tracking.add_metric(
                key, Metric(namespace="n", name="m", points=((version, 1),)), now_ms=1
            )
        tx.tracking.add_metric(
            make.task_key("b"), Metric(namespace="n", name="m", points=((7, 1),)), now_ms=1
        )
        old = tx.tracking.metrics("j1", "a", make.guest, version=0)
        assert [m.points for m in old] == [((0, 1),)]
        assert tx.tracking.metrics("j1", "a", make.guest, version=5) == []
        assert tx.tracking.drop_metrics("j1", "a", make.guest) == 2
        assert tx.tracking.metrics("j1", "a", make.guest) == []
        assert tx.tracking.drop_metrics("j1", None, make.host) == 0
        assert tx.tracking.drop_metrics("j1", None, make.guest) == 1


def test_the_mark_of_an_attempts_metrics_grows_with_every_point_and_is_its_own(store, make):
    key, other = make.task_key(version=1), make.task_key(version=2)
    with store.transaction() as tx:
        assert tx.tracking.metrics_etag(key) == 0
        tx.tracking.add_metric(key, Metric(namespace="n", name="m", points=((0, 1),)), now_ms=1)
        first = tx.tracking.metrics_etag(key)
        assert first > 0
        tx.tracking.add_metric(key, Metric(namespace="n", name="m", points=((1, 1),)), now_ms=2)
        second = tx.tracking.metrics_etag(key)
        assert second > first
        tx.tracking.add_metric(other, Metric(namespace="n", name="m", points=((0, 1),)), now_ms=3)
        assert tx.tracking.metrics_etag(key) == second
        assert tx.tracking.metrics_etag(make.task_key(version=3)) == 0


def test_the_summary_of_an_older_attempt_can_be_asked_for(store, make):
    with store.transaction() as tx:
        assert tx.tracking.summary("j1", "a", make.guest) is None
        for version in (1, 0):
            tx.tracking.put_summary(make.task_key(version=version), {"of": version}, now_ms=1)
        assert tx.tracking.summary("j1", "a", make.guest) == {"of": 1}
        assert tx.tracking.summary("j1", "a", make.guest, version=0) == {"of": 0}
        assert tx.tracking.summary("j1", "a", make.guest, version=7) is None


def test_metrics_of_some_types_are_those_of_the_attempts_that_are_asked_for(store, make):
    def put(tx, key, name, kind, *points):
        metric = Metric(namespace="n", name=name, points=points, meta={"metric_type": kind})
        tx.tracking.add_metric(key, metric, now_ms=1)

    first, again = make.task_key("a", 0), make.task_key("a", 1)
    other, hosts = make.task_key("b", 0), make.task_key("a", 1, site=make.host)
    elsewhere = make.task_key("a", 1, job_id="j2")
    with store.transaction() as tx:
        put(tx, first, "loss", "LOSS", (0, 0.9))
        put(tx, again, "score", "SUMMARY", ("auc", 0.7))
        put(tx, again, "loss", "LOSS", (0, 0.8))
        put(tx, other, "roc", "ROC", (0, 0))
        put(tx, other, "untyped", ["no", "type"])
        put(tx, hosts, "loss", "LOSS", (0, 0.6))
        put(tx, elsewhere, "score", "SUMMARY", ("auc", 0.5))
        put(tx, again, "loss", "LOSS", (1, 0.7))
        put(tx, again, "late", "SUMMARY", ("ks", 0.3))
    asked = [again, other, elsewhere, make.task_key("none")]
    with store.read() as tx:
        assert tx.tracking.metric_types(asked) == {
            again: {"SUMMARY", "LOSS"}, other: {"ROC"}, elsewhere: {"SUMMARY"},
        }  # fmt: skip
        found = tx.tracking.metrics_of(asked, ("SUMMARY",))
        assert {key: [(m.name, m.points) for m in of] for key, of in found.items()} == {
            again: [("score", (("auc", 0.7),)), ("late", (("ks", 0.3),))],
            elsewhere: [("score", (("auc", 0.5),))],
        }
        losses = tx.tracking.metrics_of([again], {"LOSS"})
        assert losses == {again: [tx.tracking.metrics("j1", "a", make.guest)[1]]}
        assert losses[again][0].points == ((0, 0.8), (1, 0.7))
        assert tx.tracking.metrics_of(asked, ()) == {}
        assert tx.tracking.metrics_of([], ("LOSS",)) == tx.tracking.metric_types([]) == {}


def test_metrics_of_many_attempts_with_many_names_are_found(store, make):
    keys = [make.task_key(f"c{i}") for i in range(450)]
    with store.transaction() as tx:
        for i, key in enumerate(keys):
            metric = Metric(
                namespace="n", name=f"m{i}", points=((0, i),), meta={"metric_type": "LOSS"}
            )
            tx.tracking.add_metric(key, metric, now_ms=1)
    with store.read() as tx:
        found = tx.tracking.metrics_of(keys, ("LOSS",))
        assert {key: [m.points for m in of] for key, of in found.items()} == {
            key: [((0, i),)] for i, key in enumerate(keys)
        }


def test_outputs_and_models_of_an_older_attempt_can_be_asked_for(store, make):
    with store.transaction() as tx:
        for version in (2, 0):
            key = make.task_key(version=version)
            tx.tracking.put_output(make.output(key, f"data{version}", 0), now_ms=1)
            tx.tracking.put_model(make.model(key, param={"of": version}), now_ms=1)
        tx.tracking.put_output(make.output(make.task_key("b", 7), "data", 0), now_ms=1)
        tx.tracking.put_model(make.model(make.task_key(version=7, site=make.host)), now_ms=1)
    with store.read() as tx:
        tracking = tx.tracking
        assert tracking.output_versions("j1", "a", make.guest) == [0, 2]
        assert tracking.model_versions("j1", "a", make.guest) == [0, 2]
        assert tracking.output_versions("j1", "none", make.guest) == []
        assert tracking.model_versions("j1", "none", make.guest) == []
        for version, name in ((None, "data2"), (0, "data0"), (2, "data2")):
            found = tracking.outputs("j1", "a", make.guest, version=version)
            assert [o.data_name for o in found] == [name]
        assert tracking.outputs("j1", "a", make.guest, version=1) == []
        for version, of in ((None, 2), (0, 0), (2, 2)):
            assert tracking.model("j1", "a", make.guest, version=version).param == {"of": of}
        assert tracking.model("j1", "a", make.guest, version=1) is None
