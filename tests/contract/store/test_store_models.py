"""Versions of models, their components, checkpoints and tags, over every store."""

# ruff: noqa: PT012  # the transaction is what is undone
from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.models.lists import ModelKind, ModelList, line_of
from fedflow.domain.models.model import (
    Checkpoint,
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelTag,
    ModelVersion,
    part_of,
)
from fedflow.domain.site import Role, Site

MODEL_ID = "arbiter-10000#guest-9999#host-10000#model"


@pytest.fixture
def key(make):
    return ModelKey(site=make.guest, model_id=MODEL_ID, model_version="j1")


@pytest.fixture
def version(make, key):
    return ModelVersion(
        key=key,
        job_id="j1",
        roles={"guest": ["9999"], "host": ["10000"]},
        initiator=make.guest,
        train_dsl={"components": {"a": {"module": "Empty"}}},
        train_conf={"dsl_version": 2},
        conf_on_party={"role": {}},
        fate_version="1.11.4",
        created_ms=10,
        updated_ms=10,
        size_bytes=2**40,
    )


def component(key, name="a", content=b"{}", **fields):
    values = {
        "key": key, "component": name, "module": "HeteroLR", "alias": "model",
        "meta": part_of("LRMeta", b"meta" + content), "param": part_of("LRParam", content),
        "run_parameters": {"max_iter": 3}, "created_ms": 5,
    }  # fmt: skip
    return ModelComponent(**{**values, **fields})


def checkpoint(key, index, *, attempt=0, name="a", content=b"{}"):
    return Checkpoint(
        key=key, component=name, attempt=attempt, alias="model", step_index=index,
        step_name=f"round_{index}", meta=part_of("LRMeta", b"meta" + content),
        param=part_of("LRParam", content), created_ms=index,
    )  # fmt: skip


def test_a_version_comes_back_as_it_was_stored(store, key, version):
    full = replace(
        version, inference_dsl={"x": [1]}, parent=False, parent_info={"parent_model_id": "m"},
        loaded_times=2, imported=True, archive_sha256="ab", archive_from_ip="::1", ready=False,
    )  # fmt: skip
    with store.transaction() as tx:
        tx.models.put(version)
        tx.models.put(full)
    with store.read() as tx:
        assert tx.models.get(key) == full
        assert tx.models.get(replace(key, model_version="none")) is None


def test_a_version_that_is_put_again_keeps_when_it_was_created(store, key, version):
    with store.transaction() as tx:
        tx.models.put(version)
        tx.models.put(replace(version, created_ms=99, updated_ms=99))
    with store.read() as tx:
        found = tx.models.get(key)
    assert (found.created_ms, found.updated_ms) == (10, 99)


@pytest.fixture
def others(make, version):
    """What may have the key of a version that job `j1` trains, and is not that job's own."""
    return [
        replace(version, job_id="j2"),
        replace(version, initiator=make.host),
        replace(version, parent=False),
        replace(version, imported=True),
        replace(version, ready=False),
    ]


def test_a_job_writes_over_nothing_but_what_it_trained(store, key, version, others):
    new = replace(version, train_dsl={"components": {}}, created_ms=50, updated_ms=50)
    for other in others:
        with store.transaction() as tx:
            tx.models.put(other)
            assert not tx.models.put_trained(new)
            assert not tx.models.is_own(key, job_id="j1", initiator=version.initiator)
        with store.read() as tx:
            assert tx.models.get(key) == other
    with store.transaction() as tx:
        tx.models.put(replace(version, loaded_times=3))
        assert tx.models.is_own(key, job_id="j1", initiator=version.initiator)
        assert tx.models.put_trained(new)
    with store.read() as tx:
        assert tx.models.get(key) == replace(new, created_ms=10, loaded_times=3)


def test_a_key_that_no_version_has_is_free_to_the_job(store, key, version):
    with store.transaction() as tx:
        assert tx.models.is_own(key, job_id="j1", initiator=version.initiator)
        assert not tx.models.has_version("j1")
        assert tx.models.put_trained(version)
        assert tx.models.has_version("j1")
        assert not tx.models.has_version("j")
    with store.read() as tx:
        assert tx.models.get(key) == version


def test_a_deletion_and_a_new_reference_of_a_version_do_not_pass_each_other(
    store, make, key, version
):
    """Both lock the version first, so that whoever is second sees what the other one did."""
    with store.transaction() as tx:
        tx.models.put(version)
        tx.models.put(replace(version, key=replace(key, site=make.host), ready=False))
        tx.models.put(replace(version, key=replace(key, model_version="j2")))
        assert tx.models.lock("j1") == [key, replace(key, site=make.host)]
        assert tx.models.lock("j3") == []
    seen = []

    def refers():
        with store.transaction() as tx:
            seen.append(tx.models.lock("j1"))

    with store.transaction() as tx:
        tx.models.lock("j1")
        thread = threading.Thread(target=refers)
        thread.start()
        thread.join(0.3)
        assert seen == []
        for one in tx.models.lock("j1"):
            tx.models.drop(one)
    thread.join(30)
    assert seen == [[]]


def test_versions_are_found_by_their_columns_newest_first(store, make, key, version):
    other = replace(key, model_version="j2")
    with store.transaction() as tx:
        tx.models.put(version)
        tx.models.put(replace(version, key=replace(key, site=make.host), created_ms=11))
        tx.models.put(replace(version, key=other, job_id="j2", created_ms=12))

    def found(**which):
        with store.read() as tx:
            versions = tx.models.find(ModelFilter(**which))
        return [(v.key.model_version, str(v.key.site)) for v in versions]

    assert found() == [("j2", "guest 9999"), ("j1", "host 10000"), ("j1", "guest 9999")]
    assert found(model_version="j1", role=Role.HOST) == [("j1", "host 10000")]
    assert found(job_id="j2", party_id="9999", model_id=MODEL_ID) == [("j2", "guest 9999")]
    assert found(model_id="guest-9999#model") == []
    assert found(limit=1) == [("j2", "guest 9999")]


def test_versions_that_were_prepared_long_ago_can_be_found(store, key, version):
    with store.transaction() as tx:
        for number, ready in (("1", False), ("2", False), ("3", True)):
            one = replace(key, model_version=number)
            tx.models.put(replace(version, key=one, ready=ready, created_ms=int(number)))
    with store.read() as tx:
        assert tx.models.unready(1) == []
        assert tx.models.unready(2) == [replace(key, model_version="1")]
        assert len(tx.models.unready(10)) == 2


def test_a_version_that_is_being_prepared_is_not_listed_until_it_is_ready(store, key, version):
    with store.transaction() as tx:
        tx.models.put(replace(version, ready=False))
        assert tx.models.find(ModelFilter()) == []
        assert len(tx.models.find(ModelFilter(with_unready=True))) == 1
        assert tx.models.set_ready(key, now_ms=20)
        assert not tx.models.set_ready(replace(key, model_version="none"), now_ms=20)
    with store.read() as tx:
        assert [(v.ready, v.updated_ms) for v in tx.models.find(ModelFilter())] == [(True, 20)]


def test_the_models_of_a_version_are_kept_by_component(store, make, key):
    host = replace(key, site=make.host)
    first, again = component(key, "b"), component(key, "b", b"[1]", created_ms=6)
    with store.transaction() as tx:
        for one in (first, component(key, "a"), component(host, "a"), again):
            tx.models.put_component(one)
    with store.read() as tx:
        assert tx.models.components(key) == [component(key, "a"), again]
        assert tx.models.components(host) == [component(host, "a")]
        assert tx.models.components(replace(key, model_version="none")) == []


def test_a_dropped_version_takes_its_parts_along_and_no_other(store, make, key, version):
    host = replace(key, site=make.host)
    with store.transaction() as tx:
        for one in (key, host):
            tx.models.put(replace(version, key=one))
            tx.models.put_component(component(one))
            tx.models.put_checkpoint(checkpoint(one, 0))
        assert tx.models.drop(key)
        assert not tx.models.drop(key)
    with store.read() as tx:
        assert (tx.models.get(key), tx.models.components(key)) == (None, [])
        assert tx.models.checkpoints(key) == []
        assert len(tx.models.components(host)) == len(tx.models.checkpoints(host)) == 1


def test_checkpoints_come_by_step_and_the_same_step_replaces_itself(store, key):
    with store.transaction() as tx:
        for index in (2, 0, 1, 10):
            tx.models.put_checkpoint(checkpoint(key, index))
        tx.models.put_checkpoint(checkpoint(key, 1, content=b"[1]"))
        tx.models.put_checkpoint(checkpoint(key, 0, name="b"))
    with store.read() as tx:
        steps = tx.models.checkpoints(key, "a")
        assert [c.step_index for c in steps] == [0, 1, 2, 10]
        assert steps[1] == checkpoint(key, 1, content=b"[1]")
        assert [c.component for c in tx.models.checkpoints(key)] == ["a"] * 4 + ["b"]
        assert tx.models.checkpoints(key, "c") == []


def test_a_later_attempt_replaces_the_steps_from_where_it_goes_on(store, key):
    with store.transaction() as tx:
        for index in range(4):
            tx.models.put_checkpoint(checkpoint(key, index))
            tx.models.put_checkpoint(checkpoint(key, index, name="b"))
        tx.models.put_checkpoint(checkpoint(key, 2, attempt=1))
    with store.read() as tx:
        steps = [(c.step_index, c.attempt) for c in tx.models.checkpoints(key, "a")]
        assert steps == [(0, 0), (1, 0), (2, 1)]
        assert len(tx.models.checkpoints(key, "b")) == 4


def test_blobs_that_something_needs_are_named(store, key):
    with store.transaction() as tx:
        tx.models.put_component(component(key, content=b"one"))
        tx.models.put_checkpoint(checkpoint(key, 0, content=b"two"))
    needed = {part_of("", c).sha256 for c in (b"one", b"metaone", b"two", b"metatwo")}
    asked = [*needed, *(part_of("", str(i).encode()).sha256 for i in range(450))]
    with store.read() as tx:
        assert tx.models.referenced(asked) == needed
        assert tx.models.referenced([]) == set()


def test_tags_are_made_renamed_found_and_dropped(store):
    with store.transaction() as tx:
        tags = tx.model_tags
        assert tags.create("release", "good", now_ms=1)
        assert not tags.create("release", "again", now_ms=2)
        assert tags.create("test_%", "", now_ms=3)
        assert tags.update("test_%", new_name="test", description="d", now_ms=4)
        assert not tags.update("test", new_name="release", description="", now_ms=5)
        assert not tags.update("none", new_name="x", description="", now_ms=5)
        assert tags.update("release", new_name="release", description="better", now_ms=6)
    with store.transaction() as tx:
        tags = tx.model_tags
        assert [t.name for t in tags.find()] == ["test", "release"]
        assert [t.name for t in tags.find("eleas")] == ["release"]
        assert [t.name for t in tags.find("E")] == []
        assert [t.name for t in tags.find("_")] == []
        assert [t.name for t in tags.find(limit=1)] == ["test"]
        assert tags.get("release") == ModelTag(name="release", description="better")
        assert tags.get("none") is None
        assert tags.drop("test")
        assert not tags.drop("test")
        assert tags.get("test") is None


def test_versions_have_tags_until_these_are_taken_or_dropped(store):
    with store.transaction() as tx:
        tags = tx.model_tags
        tags.create("b", "", now_ms=1)
        tags.create("a", "", now_ms=1)
        assert not tags.attach("none", "j1", now_ms=2)
        assert tags.attach("a", "j2", now_ms=2)
        assert tags.attach("a", "j1", now_ms=3)
        assert not tags.attach("a", "j1", now_ms=3)
        assert tags.attach("b", "j1", now_ms=3)
        assert [t.name for t in tags.of_version("j1")] == ["a", "b"]
        assert tags.versions("a") == ["j2", "j1"]
        assert tags.get("a").model_count == 2
        assert tags.detach("a", "j2")
        assert not tags.detach("a", "j2")
        assert not tags.detach("none", "j2")
        assert tags.drop("b")
    with store.read() as tx:
        assert [t.name for t in tx.model_tags.of_version("j1")] == ["a"]
        assert tx.model_tags.versions("a") == ["j1"]
        assert tx.model_tags.versions("b") == []


def test_an_error_undoes_models_and_tags(store, key, version):
    with store.transaction() as tx:
        tx.models.put_checkpoint(checkpoint(key, 1))
        tx.model_tags.create("a", "", now_ms=1)
    with pytest.raises(KeyError), store.transaction() as tx:
        tx.models.put(version)
        tx.models.put_checkpoint(checkpoint(key, 0, attempt=1))
        tx.model_tags.attach("a", "j1", now_ms=1)
        tx.model_tags.update("a", new_name="b", description="", now_ms=1)
        raise KeyError
    with store.read() as tx:
        assert tx.models.get(key) is None
        assert [c.step_index for c in tx.models.checkpoints(key)] == [1]
        assert [t.name for t in tx.model_tags.find()] == ["a"]
        assert tx.model_tags.versions("a") == []


# --- lists ----------------------------------------------------------------------------------------


@pytest.fixture
def listed(store, key, version):
    """Three versions of one share, one of another site, and one that cannot be used yet."""
    child = replace(
        version,
        key=replace(key, model_version="j2"),
        parent=False,
        parent_info={"parent_model_id": MODEL_ID, "parent_model_version": "j1"},
        created_ms=20,
    )
    imported = replace(version, key=replace(key, model_version="j%3"), imported=True, created_ms=30)
    host = replace(version, key=replace(key, site=Site(Role.HOST, PartyId("10000"))), created_ms=5)
    unready = replace(child, key=replace(key, model_version="j4"), ready=False)
    with store.transaction() as tx:
        for one in (version, child, imported, host, unready):
            tx.models.put(one)
        tx.models.put_component(component(key))
        tx.models.put_component(component(child.key, "b", module="Step"))
        tx.model_tags.create("good", "", now_ms=1)
        tx.model_tags.create("best", "", now_ms=1)
        tx.model_tags.attach("good", "j1", now_ms=1)
        tx.model_tags.attach("best", "j1", now_ms=1)
        tx.model_tags.attach("good", "j%3", now_ms=1)
    return store


@pytest.mark.parametrize(
    ("filters", "versions"),
    [
        ({}, ["j%3", "j2", "j1", "j1"]),
        ({"text": "%"}, ["j%3"]),
        ({"text": "arbiter-10000#"}, ["j%3", "j2", "j1", "j1"]),
        ({"text": "nobody"}, []),
        ({"role": Role.HOST}, ["j1"]),
        ({"party_id": "9999"}, ["j%3", "j2", "j1"]),
        ({"kind": ModelKind.TRAINED}, ["j1", "j1"]),
        ({"kind": ModelKind.DEPLOYED}, ["j2"]),
        ({"kind": ModelKind.IMPORTED}, ["j%3"]),
        ({"module": "Step"}, ["j2"]),
        ({"module": "HeteroLR", "role": Role.GUEST}, ["j1"]),
        ({"tag": "good"}, ["j%3", "j1", "j1"]),
        ({"tag": "none"}, []),
        ({"model_id": "other"}, []),
        ({"child_of": "j1"}, ["j2"]),
        ({"child_of": "j"}, []),
    ],
)
def test_lists_of_versions_are_filtered_and_counted(listed, filters, versions):
    with listed.read() as tx:
        which = ModelList(**filters)
        assert [line.key.model_version for line in tx.model_lists.page(which)] == versions
        assert tx.model_lists.count(which) == len(versions)


def test_versions_without_contents_can_be_left_out(listed, key, version):
    empty = replace(version, key=replace(key, model_version="j5"), size_bytes=0)
    with listed.transaction() as tx:
        tx.models.put(empty)
        every, full = ModelList(), ModelList(with_empty=False)
        assert tx.model_lists.count(every) == tx.model_lists.count(full) + 1
        assert empty.key not in {line.key for line in tx.model_lists.page(full)}


def test_a_page_of_versions_is_a_part_of_the_list(listed):
    with listed.read() as tx:
        page = tx.model_lists.page(ModelList(limit=2, offset=1))
    assert [line.key.model_version for line in page] == ["j2", "j1"]
    assert page[0].parent_version == "j1"
    assert (page[0].kind, page[1].kind) == (ModelKind.DEPLOYED, ModelKind.TRAINED)
    assert page[1].size_bytes == 2**40
    assert page[1].roles == {"guest": ["9999"], "host": ["10000"]}


def test_a_row_of_a_list_says_what_the_version_says(listed, key):
    with listed.read() as tx:
        found = tx.models.get(key)
        assert line_of(found) in tx.model_lists.page(ModelList())


def test_tags_and_modules_of_lists_are_asked_for_at_once(listed):
    with listed.read() as tx:
        tags = tx.model_lists.tags(["j1", "j2", "j%3"])
        assert tags == {"j1": ("best", "good"), "j%3": ("good",)}
        assert tx.model_lists.tags([]) == {}
        assert tx.model_lists.modules() == ["HeteroLR", "Step"]
