"""Histories of models: pages of versions, notes, moves of branches, over every database."""

from __future__ import annotations

from dataclasses import replace

from fedflow.domain.models.history import (
    Author,
    BranchKey,
    CommitNote,
    Move,
    MoveKind,
    VersionId,
    parents_of,
)
from fedflow.domain.models.model import ModelKey, ModelVersion

MODEL_ID = "arbiter-10000#guest-9999#host-10000#model"
AUTHOR = Author(party_id="9999", person="ana")


def version(make, name="v1", site=None, created_ms=10, **fields):
    values = {
        "key": ModelKey(site=site or make.guest, model_id=MODEL_ID, model_version=name),
        "job_id": name, "roles": {"guest": ["9999"], "host": ["10000"]},
        "initiator": make.guest, "train_dsl": {"components": {"a": {"module": "Empty"}}},
        "train_conf": {"dsl_version": 2}, "conf_on_party": {}, "fate_version": "1.11.4",
        "created_ms": created_ms, "updated_ms": created_ms,
    }  # fmt: skip
    return ModelVersion(**{**values, **fields})


def note(make, name="v1", **fields):
    values = {
        "key": ModelKey(site=make.guest, model_id=MODEL_ID, model_version=name), "id": "c1",
        "message": "better\nby é", "author": AUTHOR, "approval": "review 7",
        "shares": {"guest_9999": "ab"}, "made_with": {"fedflow": "0.1"}, "created_ms": 5,
    }  # fmt: skip
    return CommitNote(**{**values, **fields})


def move(make, number=1, name="release", kind=MoveKind.MOVE, version="v1", **fields):
    values = {
        "key": BranchKey(site=make.guest, model_id=MODEL_ID, name=name), "number": number,
        "id": f"m{number}", "kind": kind, "model_version": version, "author": AUTHOR,
        "message": "", "created_ms": number,
    }  # fmt: skip
    return Move(**{**values, **fields})


def names(lines):
    return [line.key.model_version for line in lines]


def test_versions_come_in_pages_newest_first(store, make):
    with store.transaction() as tx:
        for name, created_ms in (("a", 1), ("b", 3), ("c", 3), ("d", 2)):
            tx.models.put(version(make, name, created_ms=created_ms))
        tx.models.put(version(make, "e", created_ms=9, ready=False))
        tx.models.put(version(make, "f", make.host, created_ms=9))
    with store.read() as tx:
        history, site = tx.model_history, make.guest
        assert names(history.page(site, MODEL_ID, before=None, limit=9)) == ["c", "b", "d", "a"]
        assert names(history.page(site, MODEL_ID, before=None, limit=2)) == ["c", "b"]
        assert names(history.page(site, MODEL_ID, before=(3, "c"), limit=2)) == ["b", "d"]
        assert names(history.page(site, MODEL_ID, before=(2, "d"), limit=2)) == ["a"]
        assert history.page(site, MODEL_ID, before=(1, "a"), limit=2) == []
        assert history.page(site, "other", before=None, limit=2) == []
        assert history.sites(MODEL_ID) == [make.guest, make.host]
        assert history.sites("other") == []


def test_a_line_has_the_documents_only_if_the_training_may_have_loaded_a_model(store, make):
    loader = {"components": {"l": {"module": "modelLOADER"}}}
    conf = {
        "component_parameters": {"common": {"l": {"model_id": MODEL_ID, "model_version": "v0"}}}
    }
    plain, warm = version(make), version(make, "v2", train_dsl=loader, train_conf=conf)
    with store.transaction() as tx:
        tx.models.put(plain)
        tx.models.put(warm)
        tx.models.put(version(make, "v3", ready=False))
    with store.read() as tx:
        line = tx.model_history.line(plain.key)
        assert (line.train_dsl, line.train_conf, line.initiator) == ({}, {}, make.guest)
        assert parents_of(line) == ()
        assert parents_of(tx.model_history.line(warm.key)) == (VersionId(MODEL_ID, "v0"),)
        assert tx.model_history.line(replace(plain.key, model_version="v3")) is None
        assert tx.model_history.line(replace(plain.key, model_version="v9")) is None


def test_a_version_has_one_note(store, make):
    first = note(make)
    with store.transaction() as tx:
        assert tx.model_history.put_note(first)
        assert not tx.model_history.put_note(note(make, id="c2", message="other"))
        assert tx.model_history.put_note(note(make, "v2", id="c3"))
    with store.read() as tx:
        found = tx.model_history.notes(make.guest, MODEL_ID, ["v1", "v9"])
        assert found == {"v1": first}
        assert tx.model_history.notes(make.host, MODEL_ID, ["v1"]) == {}
        assert tx.model_history.notes(make.guest, MODEL_ID, []) == {}
    with store.transaction() as tx:
        tx.model_history.drop_note(first.key, "c2")
        assert tx.model_history.notes(make.guest, MODEL_ID, ["v1"]) == {"v1": first}
        tx.model_history.drop_note(first.key, "c1")
        assert list(tx.model_history.notes(make.guest, MODEL_ID, ["v1", "v2"])) == ["v2"]


def test_a_branch_is_its_moves(store, make):
    moves = [
        move(make, 1, kind=MoveKind.CREATE),
        move(make, 2, version="v2", message="because"),
        move(make, 3, kind=MoveKind.ROLLBACK),
    ]
    with store.transaction() as tx:
        for one in reversed(moves):
            assert tx.model_history.add_move(one)
        assert not tx.model_history.add_move(move(make, 3, id="other"))
    with store.read() as tx:
        branch = tx.model_history.branch(moves[0].key)
        assert (branch.key, list(branch.moves)) == (moves[0].key, moves)
        last = tx.model_history.branch(moves[0].key, last_only=True)
        assert (list(last.moves), last.target) == (moves[2:], "v1")
        none = replace(moves[0].key, name="Release")
        assert list(tx.model_history.branch(none).moves) == []
    with store.transaction() as tx:
        tx.model_history.drop_move(moves[0].key, "other")
        tx.model_history.drop_move(moves[0].key, "m3")
        assert tx.model_history.branch(moves[0].key).target == "v2"


def test_the_heads_are_of_branches_that_exist(store, make):
    with store.transaction() as tx:
        history = tx.model_history
        history.add_move(move(make, 1, "b", MoveKind.CREATE))
        history.add_move(move(make, 2, "b", version="v2"))
        history.add_move(move(make, 1, "gone", MoveKind.CREATE))
        history.add_move(move(make, 2, "gone", MoveKind.DELETE))
        history.add_move(move(make, 1, "a", MoveKind.CREATE, "v3"))
        other = BranchKey(site=make.host, model_id=MODEL_ID, name="a")
        history.add_move(move(make, 1, kind=MoveKind.CREATE, key=other))
    with store.read() as tx:
        heads = tx.model_history.heads(make.guest, MODEL_ID)
        assert [(h.key.name, h.model_version) for h in heads] == [("a", "v3"), ("b", "v2")]
        assert tx.model_history.heads(make.guest, "other") == []
