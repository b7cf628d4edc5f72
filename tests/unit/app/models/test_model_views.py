"""Versions of models as people look at them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.models.deployment import DeployRequest
from fedflow.app.models.model_views import MAX_CONTENT, ModelViews, used_version
from fedflow.base.errors.models import ModelNotFound
from fedflow.domain.models.lists import ModelKind, ModelList
from fedflow.domain.models.model import ModelKey
from fedflow.domain.records import JobKey
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import GUEST, HOST, OneServer
from tests.unit.app.models_world import MODEL_ID, TRAINED, Pair, make_pair, trained_share
from tests.unit.web.conftest import make_job

KEY = ModelKey(site=GUEST, model_id=MODEL_ID, model_version=TRAINED)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = make_pair(tmp_path)
    pair.live()
    return pair


def views(server: OneServer) -> ModelViews:
    return ModelViews(store=server.store, repository=server.core.models, blobs=server.blobs)


def deploy(pair: Pair) -> str:
    asked = DeployRequest(model_id=MODEL_ID, model_version=TRAINED)
    done = pair.guest.core.deployment.deploy(asked)
    assert done.outcome.done
    return done.model_version


def predict_job(server: OneServer, job_id: str, version: str, **changes: Any) -> None:
    common = {"job_type": "predict", "model_id": MODEL_ID, "model_version": version}
    job = make_job(
        key=JobKey(job_id=job_id, site=GUEST), conf={"job_parameters": {"common": common}},
        **{"created_ms": server.clock.ms + 5, **changes},
    )  # fmt: skip
    with server.store.transaction() as tx:
        tx.jobs.add(job)


def test_the_story_of_a_version_has_its_children_and_the_jobs_that_used_them(pair: Pair) -> None:
    child = deploy(pair)
    predict_job(pair.guest, "p1", child)
    predict_job(pair.guest, "p2", "another")
    predict_job(pair.guest, "p0", child, created_ms=1)
    story = views(pair.guest).story(MODEL_ID, TRAINED)
    assert (story.key, story.own_sites) == (KEY, [GUEST])
    assert [line.key.model_version for line in story.children] == [child]
    assert [job.key.job_id for job in story.users] == ["p1"]
    assert [c.component for c in story.components] == ["step_0", "step_1"]
    below = views(pair.guest).story(MODEL_ID, child)
    assert below.parent is not None
    assert below.parent.key == KEY
    assert below.parent.kind is ModelKind.TRAINED
    assert [job.key.job_id for job in below.users] == ["p1"]


def test_a_version_that_is_being_deployed_is_in_no_list(pair: Pair) -> None:
    with pair.guest.store.transaction() as tx:
        key = replace(KEY, model_version="n")
        tx.models.put(replace(trained_share(GUEST), key=key, ready=False))
    page = views(pair.guest).page(ModelList(model_id=MODEL_ID))
    assert [line.key.model_version for line in page.lines] == [TRAINED]
    with pytest.raises(ModelNotFound):
        views(pair.guest).story(MODEL_ID, "n")


def test_a_page_knows_how_many_there_are_and_their_tags(pair: Pair) -> None:
    with pair.guest.store.transaction() as tx:
        for number in range(5):
            key = replace(KEY, model_version=f"v{number}")
            tx.models.put(replace(trained_share(GUEST), key=key))
        tx.model_tags.create("good", "", now_ms=1)
        tx.model_tags.attach("good", "v0", now_ms=1)
    look = views(pair.guest)
    for offset, shown in ((0, 4), (4, 2), (8, 0)):
        page = look.page(ModelList(text="v" if offset == 0 else "", limit=4, offset=offset))
        assert (len(page.lines), page.count) == (shown, 5 if offset == 0 else 6)
    assert look.page(ModelList(tag="good")).tags == {"v0": ("good",)}
    assert look.choices().tags == ["good"]
    assert look.choices().modules == ["Step"]


def test_a_share_of_another_site_is_not_found(pair: Pair) -> None:
    look = views(pair.guest)
    assert look.story(MODEL_ID, TRAINED, GUEST).key == KEY
    for model_id, version, site in (
        (MODEL_ID, TRAINED, HOST),
        ("other", TRAINED, None),
        (MODEL_ID, "no", None),
    ):
        with pytest.raises(ModelNotFound):
            look.story(model_id, version, site)


def test_a_job_that_trains_has_a_story_before_its_version_is_there(pair: Pair) -> None:
    running = make_job(key=JobKey(job_id="9", site=GUEST), conf={"job_parameters": {}})
    with pair.guest.store.transaction() as tx:
        tx.jobs.add(running)
    story = views(pair.guest).story(MODEL_ID, "9")
    assert story.version is None
    assert story.job is not None
    with pair.guest.store.transaction() as tx:
        tx.jobs.add(
            replace(running, key=JobKey(job_id="8", site=GUEST), status=JobStatus.FAILED)
        )  # fmt: skip
    with pytest.raises(ModelNotFound):
        views(pair.guest).story(MODEL_ID, "8")


def test_damaged_contents_are_named_and_missing_ones_seen_at_once(pair: Pair) -> None:
    look = views(pair.guest)
    first, second = look.story(MODEL_ID, TRAINED).components
    assert look.damages(KEY) == {}
    pair.guest.blobs.contents[first.param.sha256] = b"{}"
    del pair.guest.blobs.contents[second.meta.sha256]
    assert set(look.damages(KEY)) == {"step_0", "step_1"}
    assert look.story(MODEL_ID, TRAINED).gone == {"step_1"}


def test_a_model_too_large_for_a_view_is_not_read(pair: Pair) -> None:
    look = views(pair.guest)
    small = look.story(MODEL_ID, TRAINED).components[0]
    content = look.content(small)
    assert content is not None
    assert content.param["step"] == 0
    large = replace(small, param=replace(small.param, size_bytes=MAX_CONTENT + 1, sha256="none"))
    assert look.content(large) is None


PREDICTS_NOTHING = {"job_parameters": {"common": {"job_type": "predict"}}}


@pytest.mark.parametrize("conf", [None, {}, PREDICTS_NOTHING])
def test_a_job_without_a_model_uses_none(conf: Any) -> None:
    assert used_version(make_job(conf=conf)) == ""
