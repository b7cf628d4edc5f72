"""Deploying: a child version at all sites or at none, whatever is lost on the way."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from fedflow.app.models.deployment import DeployRequest
from fedflow.app.models.model_changes import COMMIT_ALLOW_MS, STALE_MS, ChangedModel
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.models import (
    ModelIsDeployed,
    ModelNotFound,
    ModelNotReady,
    NotModelInitiator,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.model import (
    Checkpoint,
    StepChoice,
    canonical_json,
    common_digest,
    part_of,
)
from fedflow.domain.site import Site
from tests.unit.app.fakes import GUEST, HOST, NOW_MS
from tests.unit.app.models_world import (
    DSL,
    MODEL_ID,
    TRAINED,
    Pair,
    answer,
    make_pair,
    put_model,
    trained_share,
)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Two servers whose threads do their work at once."""
    pair = make_pair(tmp_path)
    pair.live()
    return pair


def ask(pair: Pair, **changes: Any) -> ChangedModel:
    asked: dict[str, Any] = {"model_id": MODEL_ID, "model_version": TRAINED, **changes}
    return pair.guest.core.deployment.deploy(DeployRequest(**asked))


def no_half(pair: Pair) -> None:
    """Both sites have the same usable versions, and nothing that is being prepared."""
    assert pair.versions(GUEST) == pair.versions(HOST)
    for site in (GUEST, HOST):
        assert pair.versions(site, unready=True) == pair.versions(site)


# --- what a deploy makes --------------------------------------------------------------------------


def test_a_deploy_makes_a_child_at_every_site(pair: Pair) -> None:
    done = ask(pair, components=["reader_0", "step_0"])
    assert done.outcome.done
    assert {site: reply.retcode for site, reply in done.outcome.replies.items()} == {
        GUEST: 0,
        HOST: 0,
    }
    for site in (GUEST, HOST):
        child, parent = pair.share(site, done.model_version), pair.share(site, TRAINED)
        assert (child.parent, child.ready, child.is_deployed) == (False, True, True)
        assert child.parent_info == {
            "parent_model_id": MODEL_ID,
            "parent_model_version": TRAINED,
        }
        assert list(child.inference_dsl["components"]) == ["reader_0", "step_0"]
        named = child.train_conf["job_parameters"]["common"]
        assert (named["model_id"], named["model_version"]) == (MODEL_ID, done.model_version)
        assert child.conf_on_party["job_parameters"]["model_version"] == done.model_version
        assert [c.component for c in pair.components(site, done.model_version)] == ["step_0"]
        assert parent.parent
        assert not parent.inference_dsl
        own, old = pair.components(site, done.model_version), pair.components(site, TRAINED)
        assert (own[0].meta, own[0].param) == (old[0].meta, old[0].param)
    digests = {common_digest(pair.share(site, done.model_version)) for site in (GUEST, HOST)}
    assert len(digests) == 1


def test_without_a_list_every_component_stays(pair: Pair) -> None:
    done = ask(pair)
    child = pair.share(HOST, done.model_version)
    assert set(child.inference_dsl["components"]) == set(DSL["components"])


def test_a_parent_is_deployed_as_often_as_one_likes(pair: Pair) -> None:
    first, second = ask(pair), ask(pair, components=["reader_0", "step_0"])
    assert first.model_version != second.model_version
    assert pair.versions(HOST) == [TRAINED, first.model_version, second.model_version]
    no_half(pair)


def test_a_child_cannot_be_deployed(pair: Pair) -> None:
    child = ask(pair).model_version
    with pytest.raises(ModelIsDeployed, match=TRAINED):
        ask(pair, model_version=child)


def test_a_predict_dsl_of_ones_own_may_have_new_components(pair: Pair) -> None:
    predict_dsl = {
        "components": {
            "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
            "step_0": {
                "module": "Step",
                "input": {"data": {"data": ["reader_0.data"]}, "model": ["pipeline.step_0.model"]},
                "output": {"data": ["data"]},
            },
            "more_0": {"module": "Step", "input": {"data": {"data": ["step_0.data"]}}},
        }
    }
    done = ask(pair, predict_dsl=predict_dsl)
    assert pair.share(HOST, done.model_version).inference_dsl == predict_dsl
    assert [c.component for c in pair.components(HOST, done.model_version)] == ["step_0"]


def test_a_checkpoint_takes_the_place_of_a_component(pair: Pair) -> None:
    for site in (GUEST, HOST):
        server = pair.server(site)
        meta, param = canonical_json({"step": 0}), canonical_json({"at": 4, "site": site.key})
        for content in (meta, param):
            server.blobs.put(content)
        key = pair.share(site, TRAINED).key
        with server.store.transaction() as tx:
            tx.models.put_checkpoint(
                Checkpoint(
                    key=key,
                    component="step_0",
                    attempt=0,
                    alias="model",
                    step_index=4,
                    step_name="round",
                    meta=part_of("StepMeta", meta),
                    param=part_of("StepParam", param),
                    created_ms=NOW_MS,
                )
            )
    done = ask(pair, checkpoints={"step_0": StepChoice(step_index=4)})
    content = canonical_json({"at": 4, "site": HOST.key})
    (first, second) = pair.components(HOST, done.model_version)
    assert first.param == part_of("StepParam", content)
    assert second.param == pair.components(HOST, TRAINED)[1].param


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"model_version": "1"}, ModelNotFound, "version 1"),
        ({"model_id": "guest-1#model"}, ModelNotFound, "guest-1#model"),
        ({"components": ["step_0"], "predict_dsl": DSL}, BadRequest, "either"),
        ({"components": ["step_9"]}, InvalidJobSpec, "DeployComponentNotExistError"),
        ({"components": []}, InvalidJobSpec, "DeployComponentNotExistError"),
        ({"predict_dsl": {}}, InvalidJobSpec, "DSLNotExistError"),
        ({"predict_dsl": {"components": {"a": {"module": "Nope"}}}}, InvalidJobSpec, "Nope"),
        (
            {
                "predict_dsl": {
                    "components": {
                        "a": {"module": "Step", "input": {"model": ["pipeline.step_0.other"]}}
                    }
                }
            },
            InvalidJobSpec,
            "step_0.other",
        ),
        ({"checkpoints": {"reader_0": StepChoice(step_index=1)}}, InvalidJobSpec, "reader_0"),
    ],
)
def test_what_cannot_be_deployed_is_refused_before_anybody_is_asked(
    pair: Pair, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ask(pair, **changes)
    assert pair.network().calls == []
    no_half(pair)


def test_only_the_server_of_the_initiator_coordinates(pair: Pair) -> None:
    asked = DeployRequest(model_id=MODEL_ID, model_version=TRAINED)
    with pytest.raises(NotModelInitiator):
        pair.host.core.deployment.deploy(asked)


def test_a_model_whose_training_goes_on_is_not_ready(pair: Pair) -> None:
    pair.host.create("202611209")
    asked = DeployRequest(model_id=MODEL_ID, model_version="202611209")
    with pytest.raises(ModelNotReady):
        pair.host.core.deployment.deploy(asked)


def refused(pair: Pair, done: ChangedModel, site: Site, word: str) -> None:
    """The deploy failed because of one site, and nothing of it is left."""
    assert not done.outcome.done
    reply = done.outcome.replies[site]
    assert reply.retcode != 0
    assert word in f"{reply.error} {reply.retmsg}"
    pair.work()
    assert pair.versions(GUEST, unready=True) == [TRAINED]
    no_half(pair)


def test_a_damaged_model_at_one_site_stops_the_deploy_at_all(pair: Pair) -> None:
    pair.host.blobs.damage(pair.components(HOST, TRAINED)[1].param.sha256)
    refused(pair, ask(pair), HOST, "ModelDamaged")


def test_a_site_without_its_share_stops_the_deploy_at_all(pair: Pair) -> None:
    key = pair.share(HOST, TRAINED).key
    with pair.host.store.transaction() as tx:
        tx.models.drop(key)
    done = ask(pair)
    assert done.outcome.replies[HOST].error == "ModelNotFound"
    assert pair.versions(GUEST, unready=True) == [TRAINED]


def test_a_site_where_the_training_is_just_ending_is_asked_again(pair: Pair) -> None:
    share = pair.share(HOST, TRAINED)
    with pair.host.store.transaction() as tx:
        tx.models.drop(share.key)
    pair.host.create(TRAINED)  # the job goes on at the host, and has ended at the guest
    replies: list[str] = []

    def end_it() -> None:
        replies.append(pair.host.job(TRAINED).status.value)
        put_model(pair.host, share)

    pair.guest.clock.looked = end_it
    assert ask(pair).outcome.done
    assert replies
    no_half(pair)


def test_a_training_that_does_not_end_in_time_stops_the_deploy(pair: Pair) -> None:
    key = pair.share(HOST, TRAINED).key
    with pair.host.store.transaction() as tx:
        tx.models.drop(key)
    pair.host.create(TRAINED)
    pair.guest.clock.looked = lambda: pair.pass_time(5_000)
    done = ask(pair)
    assert done.outcome.replies[HOST].error == "ModelNotReady"
    assert pair.versions(GUEST, unready=True) == [TRAINED]


def test_sites_whose_shares_do_not_belong_together_do_not_deploy(pair: Pair) -> None:
    other = {"components": {**DSL["components"], "step_2": {"module": "Step"}}}
    put_model(pair.host, trained_share(HOST, train_dsl=other))
    refused(pair, ask(pair), HOST, "ModelsDiffer")


def test_a_checkpoint_that_one_site_lacks_stops_the_deploy(pair: Pair) -> None:
    refused(pair, ask(pair, checkpoints={"step_0": StepChoice(step_index=7)}), GUEST, "Checkpoint")


def test_a_site_that_cannot_be_reached_stops_the_deploy(pair: Pair) -> None:
    pair.network().loses_call = lambda party, _path: party == "10000"
    done = ask(pair)
    assert done.outcome.replies[HOST].error == "PartyUnreachable"
    assert pair.versions(GUEST, unready=True) == [TRAINED]
    pair.network().loses_call = lambda _party, _path: False
    pair.pass_time(60_000)
    pair.work()
    no_half(pair)


def test_one_lost_message_is_no_reason(pair: Pair) -> None:
    lost: list[str] = []

    def first(party: str, path: str) -> bool:
        lost.append(path)
        return party == "10000" and len(lost) == 2

    pair.network().loses_reply = first
    assert ask(pair).outcome.done
    no_half(pair)


@pytest.mark.parametrize("operation", ["deploy", "commit", "undo"])
def test_another_party_cannot_change_a_version(pair: Pair, operation: str) -> None:
    done = ask(pair)
    calls = pair.network().calls
    body = next(body for to, path, body in calls if to == "10000" and path.endswith("deploy"))
    version = "1" if operation == "deploy" else done.model_version
    path = f"/party/{version}/host/10000/model/{operation}"
    assert body["change"]
    reply = answer(pair.host, path, body, source="10001")
    assert reply.error == "WrongModelSource"
    assert pair.versions(HOST) == [TRAINED, done.model_version]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"model_id": 1}, "BadRequest"),
        ({"parent_version": None}, "BadRequest"),
        ({"parent_version": "1"}, "ModelNotFound"),
        ({"parent_digest": "0"}, "ModelsDiffer"),
        ({"inference_dsl": []}, "BadRequest"),
        ({"inference_dsl": {}}, "InvalidJobSpec"),
        ({"inference_dsl": {"components": {"a": {"module": float("nan")}}}}, "InvalidJobSpec"),
        ({"inference_dsl": {"components": {"a": {"module": "Nope"}}}}, "InvalidJobSpec"),
        ({"components_checkpoint": []}, "BadRequest"),
        ({"components_checkpoint": {"step_0": 1}}, "BadRequest"),
        ({"change": None}, "BadRequest"),
        ({"change": "a/b"}, "BadRequest"),
    ],
)
def test_a_malformed_command_changes_nothing(
    pair: Pair, changes: dict[str, Any], error: str
) -> None:
    ask(pair)
    before = pair.versions(HOST, unready=True)
    calls = pair.network().calls
    body = next(body for to, path, body in calls if to == "10000" and path.endswith("deploy"))
    given = {**body, "change": "1", **changes}
    reply = answer(pair.host, "/party/1/host/10000/model/deploy", given, source="9999")
    assert (reply.retcode != 0, reply.error) == (True, error)
    assert pair.versions(HOST, unready=True) == before


def test_nothing_but_what_was_prepared_can_be_undone(pair: Pair) -> None:
    path = f"/party/{TRAINED}/host/10000/model/undo"
    assert answer(pair.host, path, {"change": "1"}, source="9999").retcode == 0
    assert answer(pair.host, path, {"change": "../1"}, source="9999").error == "BadRequest"
    assert pair.versions(HOST) == [TRAINED]


# --- crashes and losses ---------------------------------------------------------------------------


def test_a_share_that_is_prepared_cannot_be_used_and_goes_after_a_day(tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    pair.live()
    dies = RuntimeError("the coordinator's process dies")

    def die(_party: str, path: str) -> bool:
        if path.startswith("/party") and "host" in path:
            raise dies
        return False

    pair.network().loses_reply = die
    with pytest.raises(RuntimeError):
        ask(pair)
    pair.network().loses_reply = lambda _party, _path: False
    for site in (GUEST, HOST):
        assert pair.versions(site) == [TRAINED]
        assert len(pair.versions(site, unready=True)) == 2
    pair.pass_time(STALE_MS + 1)
    done = ask(pair)
    assert pair.versions(HOST, unready=True) == [TRAINED, done.model_version]
    no_half(pair)


def test_a_coordinator_that_dies_after_its_decision_finishes_it_when_it_is_back(
    tmp_path: Path,
) -> None:
    pair = make_pair(tmp_path)
    dies = RuntimeError("the coordinator's process dies")

    def die() -> None:
        raise dies

    pair.guest.wakeup.then = die
    with pytest.raises(RuntimeError):
        ask(pair)
    assert pair.versions(GUEST) == pair.versions(HOST) == [TRAINED]
    pair.guest.boot()
    pair.live()
    pair.work()
    assert len(pair.versions(GUEST)) == 2
    no_half(pair)


def test_a_commit_that_cannot_be_delivered_is_undone_everywhere(tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    dies = RuntimeError("the coordinator's process dies")

    def die() -> None:
        raise dies

    pair.guest.wakeup.then = die
    with pytest.raises(RuntimeError):
        ask(pair)
    pair.guest.boot()
    pair.live()
    pair.network().loses_call = lambda party, _path: party == "10000"
    pair.work()
    assert len(pair.versions(GUEST)) == 2  # the initiator has it; no predict job can use it yet
    pair.pass_time(COMMIT_ALLOW_MS)
    pair.work()
    pair.network().loses_call = lambda _party, _path: False
    pair.pass_time(60_000)
    pair.work()
    assert pair.versions(GUEST) == [TRAINED]
    no_half(pair)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_lost_no_half_model_is_left(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    pair = make_pair(tmp_path)
    pair.live()
    pair.network().loses_call = lambda _party, _path: rng.random() < 0.3
    pair.network().loses_reply = lambda _party, _path: rng.random() < 0.3

    def wait() -> None:
        """A lost commit is sent again later: time passes whenever somebody waits for it."""
        pair.pass_time(500)
        pair.guest.work()

    pair.guest.clock.looked = wait
    done = ask(pair)
    pair.guest.clock.looked = lambda: None
    pair.network().loses_call = pair.network().loses_reply = lambda _party, _path: False
    for _ in range(3):
        pair.pass_time(10_000)
        pair.work()
    assert (done.model_version in pair.versions(GUEST)) == done.outcome.done
    no_half(pair)
