"""Histories as people look at them: log, one commit, differences, names of versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.models.model_history import HistoryRequest, ModelHistory
from fedflow.base.errors.models import BranchNotFound, ModelDamaged, ModelNotFound
from fedflow.domain.models.history import (
    Author,
    CommitNote,
    share_digest,
)
from fedflow.domain.models.model import ModelComponent, ModelKey, canonical_json, part_of
from fedflow.domain.records import OutputTable, TaskKey
from tests.unit.app.fakes import GUEST, HOST, NOW_MS, OneServer
from tests.unit.app.models_world import (
    CONF,
    DSL,
    MODEL_ID,
    TRAINED,
    make_pair,
    put_branch,
    put_model,
    trained_share,
)

WARM, CHILD = "20261120100000000001", "20261120100000000002"


@pytest.fixture
def server(tmp_path: Path) -> OneServer:
    """A guest with a training, a warm start of it, and a deploy of that."""
    server = make_pair(tmp_path).guest
    components = {**DSL["components"], "load_0": {"module": "ModelLoader"}}
    parameters = {
        "load_0": {"model_id": MODEL_ID, "model_version": TRAINED},
        "step_0": {"depth": 4},
    }
    of_all = {**CONF["component_parameters"], "common": parameters}
    warm = trained_share(
        GUEST,
        key=key(WARM),
        job_id=WARM,
        created_ms=NOW_MS + 1,
        train_dsl={"components": components},
        train_conf={**CONF, "component_parameters": of_all},
    )
    descent = {"parent_model_id": MODEL_ID, "parent_model_version": WARM}
    child = replace(
        warm,
        key=key(CHILD),
        job_id=CHILD,
        created_ms=NOW_MS + 2,
        parent=False,
        parent_info=descent,
    )
    for version in (warm, child):
        put_model(server, version)
    return server


def key(version: str = TRAINED) -> ModelKey:
    return ModelKey(site=GUEST, model_id=MODEL_ID, model_version=version)


def history(server: OneServer) -> ModelHistory:
    return ModelHistory(store=server.store, repository=server.core.models)


def names(page: Any) -> list[str]:
    return [c.key.model_version for c in page.commits]


def test_a_log_has_all_versions_or_what_leads_to_one(server: OneServer) -> None:
    look = history(server)
    assert names(look.log(HistoryRequest(model_id=MODEL_ID))) == [CHILD, WARM, TRAINED]
    assert names(look.log(HistoryRequest(model_id=MODEL_ID, start=CHILD))) == [CHILD, WARM, TRAINED]
    put_branch(server, "release", WARM)
    assert names(look.log(HistoryRequest(model_id=MODEL_ID, start="branch:release"))) == [
        WARM,
        TRAINED,
    ]
    assert look.key(MODEL_ID, "branch:release") == key(WARM)
    assert look.key(MODEL_ID, WARM, GUEST) == key(WARM)


def test_both_logs_come_in_pages(server: OneServer) -> None:
    look = history(server)
    first = look.log(HistoryRequest(model_id=MODEL_ID, limit=2))
    assert names(first) == [CHILD, WARM]
    last = look.log(HistoryRequest(model_id=MODEL_ID, limit=2, before=first.before))
    assert (names(last), last.before, list(last.rest)) == ([TRAINED], None, [])
    first = look.log(HistoryRequest(model_id=MODEL_ID, start=CHILD, limit=2))
    last = look.log(HistoryRequest(model_id=MODEL_ID, rest=first.rest, limit=2))
    assert (names(first), names(last), list(last.rest)) == ([CHILD, WARM], [TRAINED], [])
    exact = look.log(HistoryRequest(model_id=MODEL_ID, limit=3))
    assert exact.before is None


def test_commits_have_branches_tags_and_notes(server: OneServer) -> None:
    put_branch(server, "release", TRAINED)
    put_branch(server, "a/b", TRAINED)
    with server.store.transaction() as tx:
        tx.model_tags.create("good", "", now_ms=1)
        tx.model_tags.attach("good", WARM, now_ms=1)
        tx.model_history.put_note(
            CommitNote(
                key=key(),
                id="c",
                message="first",
                author=Author(party_id="9999", person="ana"),
                shares={"x": "y"},
                made_with={"fedflow": "0"},
                created_ms=3,
            )
        )
    child, warm, trained = history(server).log(HistoryRequest(model_id=MODEL_ID)).commits
    assert (trained.branches, warm.tags, child.note) == (("a/b", "release"), ("good",), None)
    assert (trained.note.message, trained.author.person) == ("first", "ana")
    assert child.author == Author(party_id="9999")
    shown = history(server).show(MODEL_ID, "branch:release")
    assert (shown.shares, shown.made_with) == ({"x": "y"}, {"fedflow": "0"})


def test_without_a_note_one_commit_shows_what_the_rows_say(server: OneServer) -> None:
    task = TaskKey(job_id=TRAINED, component="reader_0", version=0, site=GUEST)
    with server.store.transaction() as tx:
        table = tx.tables.get("n", "t")
        assert table is not None
        tx.tracking.put_output(
            OutputTable(
                key=task,
                data_name="data",
                position=0,
                namespace="n",
                name="t",
                address=table.address,
            ),
            now_ms=1,
        )
        tx.tracking.put_summary(
            replace(task, component="step_0"), {"coef": {"x0": 1}, "loss_history": [2, 1]}, now_ms=1
        )
    shown = history(server).show(MODEL_ID, TRAINED)
    with server.store.read() as tx:
        digest = share_digest(tx.models.components(key()))
    assert shown.shares == {GUEST.key: digest}
    assert shown.metrics == {"step_0": {"loss_history": [2, 1]}}
    assert shown.made_with["tables"] == [
        {
            "component": "reader_0",
            "namespace": "n",
            "name": "t",
            "rows_id": table.address,
            "rows": table.count,
        }
    ]
    with server.store.transaction() as tx:
        tx.tables.drop("n", "t")
    assert history(server).show(MODEL_ID, TRAINED).made_with["tables"][0]["rows"] is None


def put_linear(server: OneServer, version: str, weights: dict[str, float]) -> None:
    meta, param = canonical_json({}), canonical_json({"weight": weights, "intercept": 0.5})
    for content in (meta, param):
        server.blobs.put(content)
    with server.store.transaction() as tx:
        tx.models.put_component(
            ModelComponent(
                key=key(version),
                component="lr_0",
                module="HeteroLR",
                alias="model",
                meta=part_of("LRMeta", meta),
                param=part_of("LRParam", param),
                run_parameters={},
                created_ms=1,
            )
        )


def test_two_versions_differ_in_documents_and_weights(server: OneServer) -> None:
    put_linear(server, TRAINED, {"x0": 1.0, "x1": 2.0})
    put_linear(server, WARM, {"x0": 1.5, "x1": 2.0})
    found = history(server).diff(MODEL_ID, TRAINED, WARM)
    assert found.dsl.added == ("load_0",)
    assert found.parameters["common.step_0.depth"] == (3, 4)
    assert found.models["lr_0.model"].weights == {"x0": (1.0, 1.5)}
    assert list(found.models) == ["lr_0.model"]  # the steps' contents are the same
    same = history(server).diff(MODEL_ID, WARM, CHILD)
    assert (same.parameters, same.dsl.changed) == ({}, {})


def test_a_damaged_model_is_not_compared(server: OneServer) -> None:
    put_linear(server, TRAINED, {"x0": 1.0})
    put_linear(server, WARM, {"x0": 1.5})
    with server.store.read() as tx:
        lr = next(c for c in tx.models.components(key()) if c.component == "lr_0")
    server.blobs.damage(lr.param.sha256)
    with pytest.raises(ModelDamaged):
        history(server).diff(MODEL_ID, TRAINED, WARM)


def test_what_is_not_here_is_said(server: OneServer) -> None:
    look = history(server)
    with pytest.raises(ModelNotFound):
        look.log(HistoryRequest(model_id="guest-1#model"))
    with pytest.raises(ModelNotFound):
        look.log(HistoryRequest(model_id=MODEL_ID, site=HOST))
    with pytest.raises(ModelNotFound):
        look.log(HistoryRequest(model_id=MODEL_ID, start="1"))
    with pytest.raises(ModelNotFound):
        look.show(MODEL_ID, "1")
    with pytest.raises(BranchNotFound):
        look.moves(MODEL_ID, "release")
    with pytest.raises(BranchNotFound):
        look.diff(MODEL_ID, "branch:release", TRAINED)
    assert look.branches(MODEL_ID) == []
