"""Publishing a model: loaded at the serving processes of all its parties, or of none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from fedflow.app.models.deployment import DeployRequest
from fedflow.app.models.publishing import Publishing
from fedflow.app.ports.serving import BindOptions, ServingReply
from fedflow.base.errors.models import (
    BadServiceId,
    ModelNotDeployed,
    ModelNotFound,
    NoServings,
    NotModelInitiator,
)
from fedflow.client.serving_servers import HttpServingServers
from fedflow.domain.models.model import common_digest
from fedflow.domain.site import Site
from fedflow.serving.scoring.registry import ALONE
from fedflow.wire.deployed_model import HORIZONTAL_MODELS
from tests.support.serving_admin import ServingAdmin, serving_admin
from tests.unit.app.fakes import GUEST, HOST
from tests.unit.app.models_world import MODEL_ID, TRAINED, Pair, make_pair, put_branch

Servings = dict[Site, list[ServingAdmin]]


@pytest.fixture
def servings() -> Iterator[Servings]:
    """Give two serving processes of the guest and one of the host."""
    with ExitStack() as stack:
        yield {
            site: [stack.enter_context(serving_admin()) for _ in range(count)]
            for site, count in ((GUEST, 2), (HOST, 1))
        }


@pytest.fixture
def pair(tmp_path: Path, servings: Servings) -> Pair:
    pair = make_pair(tmp_path)
    for site, own in servings.items():
        server = pair.server(site)
        server.servings = HttpServingServers([one.address for one in own], token=None)
        server.boot()
    pair.live()
    return pair


def deploy(pair: Pair) -> str:
    asked = DeployRequest(model_id=MODEL_ID, model_version=TRAINED, components=["step_1"])
    done = pair.guest.core.deployment.deploy(asked)
    assert done.outcome.done
    return done.model_version


def deploy_horizontal(pair: Pair) -> str:
    """Return a version whose model each party has whole."""
    version = deploy(pair)
    for site in (GUEST, HOST):
        share = pair.share(site, version)
        components = {
            name: {**one, "module": "HomoLR" if name == "step_1" else one["module"]}
            for name, one in share.inference_dsl["components"].items()
        }
        with pair.server(site).store.transaction() as tx:
            tx.models.put(replace(share, inference_dsl={"components": components}))
    return version


def publishing(pair: Pair, site: Site = GUEST) -> Publishing:
    return pair.server(site).core.publishing()


def every(servings: Servings) -> list[ServingAdmin]:
    return [one for own in servings.values() for one in own]


def test_a_version_is_loaded_everywhere_with_each_partys_own_share(
    pair: Pair, servings: Servings
) -> None:
    version = deploy(pair)
    done = publishing(pair).load(None, version)
    assert done.done
    for site, own in servings.items():
        for one in own:
            assert one.steps == ["prepare", "commit"]
            share = one.loaded[MODEL_ID, version]
            assert (share["role"], share["party_id"]) == (site.role.value, site.party_id)
            assert share["digest"] == common_digest(pair.share(site, version))
            assert list(share["components"]) == ["step_1"]
            assert share["components"]["step_1"]["param"]["site"] == site.key
            assert share["parameters"] == {"step_1": {"depth": 3}}
            assert share["dsl"] == pair.share(site, version).inference_dsl
        assert pair.share(site, version).loaded_times == 1
    assert publishing(pair).load(MODEL_ID, version).done
    assert pair.share(GUEST, version).loaded_times == 2


def test_a_version_that_is_dropped_meanwhile_stays_dropped(pair: Pair, servings: Servings) -> None:
    version = deploy(pair)
    key = pair.share(HOST, version).key

    class DropsFirst(HttpServingServers):
        def commit(self, load_id: str) -> list[ServingReply]:
            with pair.host.store.transaction() as tx:
                tx.models.drop(key)
            return super().commit(load_id)

    pair.host.servings = DropsFirst([servings[HOST][0].address], token=None)
    pair.host.boot()
    pair.live()
    assert publishing(pair).load(None, version).done
    with pair.host.store.read() as tx:
        assert tx.models.get(key) is None


@pytest.mark.parametrize("fault", ["refuses", "garbage"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_that_is_not_ready_makes_it_none(
    pair: Pair, servings: Servings, number: int, fault: str
) -> None:
    version, bad = deploy(pair), every(servings)[number]
    getattr(bad, fault).add("prepare")
    done = publishing(pair).load(None, version)
    assert not done.done
    said = [reply.retmsg for reply in done.replies.values() if reply.retcode]
    assert len(said) == 1
    assert said[0].startswith(f"serving {bad.address}: ")
    for one in every(servings):
        assert (one.loaded, one.prepared) == ({}, {})
    assert pair.share(GUEST, version).loaded_times == 0


def test_a_party_that_cannot_be_reached_makes_it_none(pair: Pair, servings: Servings) -> None:
    version = deploy(pair)
    pair.network().loses_call = lambda destination, _path: destination == "10000"
    done = publishing(pair).load(None, version)
    assert done.replies[HOST].retcode == 100
    assert not any(one.loaded or one.prepared for one in every(servings))


def test_what_hosts_have_not_committed_no_guest_commits(pair: Pair, servings: Servings) -> None:
    version = deploy(pair)
    servings[HOST][0].refuses.add("commit")
    done = publishing(pair).load(None, version)
    assert {site: one.retcode for site, one in done.replies.items()} == {GUEST: 107, HOST: 107}
    assert not any(one.loaded or one.prepared for one in servings[GUEST])
    replies = publishing(pair).bind("credit", None, version)
    assert [reply.retcode for reply in replies] == [104, 104]
    servings[HOST][0].refuses.clear()
    assert publishing(pair).load(None, version).done


def test_a_model_whose_content_is_damaged_at_one_party_is_loaded_nowhere(
    pair: Pair, servings: Servings
) -> None:
    version = deploy(pair)
    (component, *_) = pair.components(HOST, version)
    pair.host.blobs.damage(component.param.sha256)
    done = publishing(pair).load(None, version)
    assert done.replies[HOST].error == "ModelDamaged"
    assert not any(one.loaded or one.prepared for one in every(servings))


def test_hosts_unload_when_all_guests_have(pair: Pair, servings: Servings) -> None:
    version = deploy(pair)
    assert publishing(pair).load(None, version).done
    second = servings[GUEST][1]
    second.refuses.add("unload")
    done = publishing(pair).unload(None, version)
    assert done.replies[HOST].retcode == 107
    assert servings[HOST][0].loaded
    assert not servings[GUEST][0].loaded
    second.refuses.clear()
    assert publishing(pair).unload(None, version).done  # the first one has not got it any more
    assert not any(one.loaded for one in every(servings))
    again = publishing(pair).unload(None, version)
    assert {one.retcode for one in again.replies.values()} == {104}


def test_a_lost_answer_is_asked_for_again(pair: Pair, servings: Servings) -> None:
    version, lost = deploy(pair), set[str]()

    def once(destination: str, path: str) -> bool:
        is_new = destination == "10000" and path not in lost
        lost.add(path)
        return is_new

    pair.network().loses_reply = once
    assert publishing(pair).load(None, version).done
    assert servings[HOST][0].loaded


def test_only_the_deployed_version_of_this_servers_training_is_loaded(pair: Pair) -> None:
    version = deploy(pair)
    with pytest.raises(ModelNotDeployed):
        publishing(pair).load(MODEL_ID, TRAINED)
    with pytest.raises(ModelNotFound):
        publishing(pair).load(None, "1")
    with pytest.raises(NotModelInitiator):
        publishing(pair, HOST).load(MODEL_ID, version)


def test_shares_that_do_not_belong_together_are_not_loaded(pair: Pair, servings: Servings) -> None:
    version = deploy(pair)
    share = pair.share(HOST, version)
    with pair.host.store.transaction() as tx:
        tx.models.put(replace(share, inference_dsl={}))
    done = publishing(pair).load(None, version)
    assert done.replies[HOST].error == "ModelsDiffer"
    assert not any(one.loaded or one.prepared for one in every(servings))


def test_services_are_bound_at_the_initiators_servings_alone(
    pair: Pair, servings: Servings
) -> None:
    version = deploy(pair)
    replies = publishing(pair).bind("credit", None, version)
    assert [reply.retcode for reply in replies] == [104, 104]  # it is not loaded
    publishing(pair).load(None, version)
    assert not any(reply.retcode for reply in publishing(pair).bind("credit", None, version))
    assert [one.bound for one in every(servings)] == [{"credit": (MODEL_ID, version)}] * 2 + [{}]
    publishing(pair).unbind("credit")
    assert not any(one.bound for one in every(servings))
    assert publishing(pair).unload(None, version).done
    assert not any(one.loaded for one in every(servings))


def test_weights_rules_and_options_go_to_all_processes_with_one_salt(
    pair: Pair, servings: Servings
) -> None:
    version, first, second = deploy(pair), *servings[GUEST]
    first.salt, second.salt = "1" * 32, "2" * 32
    publishing(pair).load(None, version)
    rule = {"header": "X-Channel", "values": ["beta"]}
    how = BindOptions(weight=10, rules=[rule], options={"on_fault": "guest_only"})
    replies = publishing(pair).bind("credit", None, version, how)
    assert not any(reply.retcode for reply in replies)
    named = {"model_id": MODEL_ID, "model_version": version}
    wanted = {
        "service_id": "credit", **named, "weight": 10, "shadow": False,
        "rules": [{**rule, **named}], "options": {"on_fault": "guest_only"},
    }  # fmt: skip
    assert first.binds == [wanted]
    assert second.binds == [{**wanted, "salt": "1" * 32}]


def test_a_branch_names_the_newest_version_that_was_deployed_from_its_head(
    pair: Pair, servings: Servings
) -> None:
    deploy(pair)
    newest = deploy(pair)
    put_branch(pair.guest, "product", TRAINED)
    assert publishing(pair).load(MODEL_ID, "branch:product").version.key.model_version == newest
    assert not any(
        reply.retcode for reply in publishing(pair).bind("credit", MODEL_ID, "branch:product")
    )
    assert servings[GUEST][0].bound == {"credit": (MODEL_ID, newest)}


@pytest.mark.parametrize("service", ["", "a/b", "a?b", "a:b", "a&b", "a\nb", "a" * 201])
def test_a_service_id_is_checked(pair: Pair, service: str) -> None:
    with pytest.raises(BadServiceId):
        publishing(pair).bind(service, None, deploy(pair))
    with pytest.raises(BadServiceId):
        publishing(pair).unbind(service)


def test_without_serving_processes_it_is_said(tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    pair.live()
    with pytest.raises(NoServings):
        publishing(pair).load(None, deploy(pair))


def test_a_host_without_serving_processes_makes_it_none(pair: Pair, servings: Servings) -> None:
    version = deploy(pair)
    pair.host.servings = None
    pair.host.boot()
    pair.live()
    done = publishing(pair).load(None, version)
    assert done.replies[HOST].error == "NoServings"
    assert not any(one.loaded or one.prepared for one in servings[GUEST])


# --- horizontal models ----------------------------------------------------------------------------


def test_a_horizontal_model_is_loaded_at_each_party_by_itself(
    pair: Pair, servings: Servings
) -> None:
    version = deploy_horizontal(pair)
    assert publishing(pair).load(None, version).done
    assert all(one.steps == ["prepare", "commit"] for one in every(servings))
    servings[HOST][0].refuses.add("prepare")
    again = deploy_horizontal(pair)
    done = publishing(pair).load(None, again)
    assert {site: one.retcode for site, one in done.replies.items()} == {GUEST: 0, HOST: 107}
    assert all((MODEL_ID, again) in one.loaded for one in servings[GUEST])
    assert not servings[HOST][0].prepared
    pair.network().loses_call = lambda destination, _path: destination == "10000"
    assert publishing(pair).load(None, version).replies[GUEST].retcode == 0
    assert publishing(pair).unload(None, again).replies[HOST].retcode == 100
    assert not any((MODEL_ID, again) in one.loaded for one in servings[GUEST])


def test_a_host_loads_and_binds_a_horizontal_model_at_its_own_processes(
    pair: Pair, servings: Servings
) -> None:
    version = deploy_horizontal(pair)
    at_host = publishing(pair, HOST)
    done = at_host.load(None, version)
    assert done.done
    assert list(done.replies) == [HOST]
    assert not any(one.loaded or one.steps for one in servings[GUEST])
    assert [one.retcode for one in at_host.bind("credit", None, version)] == [0]
    assert servings[HOST][0].bound == {"credit": (MODEL_ID, version)}
    assert at_host.unload(None, version).done
    assert not servings[HOST][0].loaded


@pytest.mark.parametrize("absent", [GUEST, HOST])
def test_a_party_without_serving_processes_is_left_out_of_a_horizontal_load(
    pair: Pair, servings: Servings, absent: Site
) -> None:
    version = deploy_horizontal(pair)
    other = HOST if absent == GUEST else GUEST
    server = pair.server(absent)
    server.servings = None
    server.boot()
    pair.live()
    done = publishing(pair, other).load(None, version)
    assert done.done
    assert all(one.loaded for one in servings[other])
    if absent == HOST:
        assert done.replies[HOST].retmsg == "left out, as it names no serving processes"
        assert publishing(pair).unload(None, version).done
    with pytest.raises(NoServings):
        publishing(pair, absent).load(None, version)


def test_what_can_be_served_alone_is_known_at_both_ends() -> None:
    assert set(ALONE) == HORIZONTAL_MODELS


def test_one_process_of_all_parties_gets_the_share_of_each(pair: Pair, servings: Servings) -> None:
    version, only = deploy_horizontal(pair), servings[GUEST][0]
    for server in (pair.guest, pair.host):
        server.servings = HttpServingServers([only.address], token=None)
        server.boot()
    pair.live()
    assert publishing(pair).load(None, version).done
    assert only.steps == ["prepare", "prepare", "commit", "commit"]
