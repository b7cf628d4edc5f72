"""Commits and moves of branches: at all sites or at none, whatever is lost on the way."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from fedflow.app.models.deployment import DeployRequest
from fedflow.app.models.history_changes import CommitRequest, HistoryChanges, MoveRequest
from fedflow.app.models.model_changes import COMMIT_ALLOW_MS, ChangedModel
from fedflow.base.errors.models import (
    BranchExists,
    BranchNotFound,
    ModelIsCommitted,
    ModelIsDeployed,
    ModelNotFound,
    NoEarlierTarget,
    NotModelInitiator,
    TagNotFound,
    TagNotUnique,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.history import Author, Branch, BranchKey, CommitNote, MoveKind
from fedflow.domain.site import Site
from tests.unit.app.fakes import GUEST, HOST
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

OTHER = "2026112010000000000001"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Two servers with two versions of a model, whose threads do their work at once."""
    pair = make_pair(tmp_path)
    for site in (GUEST, HOST):
        key = trained_share(site).key
        other = type(key)(site=site, model_id=MODEL_ID, model_version=OTHER)
        put_model(pair.server(site), trained_share(site, key=other, job_id=OTHER))
    pair.live()
    return pair


def changes(pair: Pair, site: Site = GUEST) -> HistoryChanges:
    core = pair.server(site).core
    return HistoryChanges(core.kernel, model_changes=core.model_changes)


def commit(pair: Pair, version: str = TRAINED, **more: Any) -> ChangedModel:
    asked = {"model_id": MODEL_ID, "model_version": version, "message": "better", **more}
    return changes(pair).commit(CommitRequest(**asked))


def move(pair: Pair, kind: MoveKind, to: str = "", **more: Any) -> ChangedModel:
    asked = {"model_id": MODEL_ID, "branch": "release", "kind": kind, "to": to, **more}
    return changes(pair).move(MoveRequest(**asked))


def branch(pair: Pair, site: Site, name: str = "release") -> Branch:
    with pair.server(site).store.read() as tx:
        return tx.model_history.branch(BranchKey(site=site, model_id=MODEL_ID, name=name))


def note(pair: Pair, site: Site, version: str = TRAINED) -> CommitNote | None:
    with pair.server(site).store.read() as tx:
        return tx.model_history.notes(site, MODEL_ID, [version]).get(version)


def targets(pair: Pair) -> tuple[str | None, str | None]:
    """Return what the branch names at both sites, which have the same moves."""
    moves = [[(m.id, m.kind, m.number) for m in branch(pair, s).moves] for s in (GUEST, HOST)]
    assert moves[0] == moves[1]
    return branch(pair, GUEST).target, branch(pair, HOST).target


CREATE, MOVE, ROLLBACK, DELETE = MoveKind


# --- what happens ---------------------------------------------------------------------------------


def test_a_commit_is_noted_at_every_site_with_the_digests_of_all_shares(pair: Pair) -> None:
    done = commit(pair, approval="review 7", person="ana")
    assert done.outcome.done
    at_guest, at_host = note(pair, GUEST), note(pair, HOST)
    assert at_guest is not None
    assert at_host is not None
    assert at_guest.author == Author(party_id="9999", person="ana")
    assert at_host.author == Author(party_id="9999")
    for one in (at_guest, at_host):
        assert (one.message, one.approval) == ("better", "review 7")
        assert sorted(one.shares) == sorted([GUEST.key, HOST.key])
        assert one.made_with["fate"] == "1.11.4"
    assert at_guest.shares == at_host.shares
    assert (at_guest.id, at_guest.created_ms) == (at_host.id, at_host.created_ms)


def test_a_branch_is_created_moved_rolled_back_and_deleted_at_every_site(pair: Pair) -> None:
    assert move(pair, CREATE, TRAINED).outcome.done
    assert targets(pair) == (TRAINED, TRAINED)
    assert move(pair, MOVE, OTHER, message="smaller loss", person="ana").outcome.done
    assert targets(pair) == (OTHER, OTHER)
    assert [m.author.person for m in (branch(pair, s).moves[-1] for s in (GUEST, HOST))] == [
        "ana", "",
    ]  # fmt: skip
    back = move(pair, ROLLBACK)
    assert (back.outcome.done, back.model_version) == (True, TRAINED)
    assert targets(pair) == (TRAINED, TRAINED)
    assert move(pair, DELETE).outcome.done
    assert targets(pair) == (None, None)
    assert move(pair, CREATE, OTHER).outcome.done
    assert targets(pair) == (OTHER, OTHER)
    assert [m.kind for m in branch(pair, HOST).moves] == [CREATE, MOVE, ROLLBACK, DELETE, CREATE]


def test_a_branch_can_be_moved_to_where_another_one_or_a_tag_is(pair: Pair) -> None:
    move(pair, CREATE, OTHER, branch="experiment/a")
    assert move(pair, CREATE, "branch:experiment/a").outcome.done
    assert targets(pair) == (OTHER, OTHER)
    with pair.guest.store.transaction() as tx:
        tx.model_tags.create("good", "", now_ms=1)
        tx.model_tags.attach("good", TRAINED, now_ms=1)
    assert move(pair, MOVE, "tag:good").outcome.done
    assert targets(pair) == (TRAINED, TRAINED)
    with pair.guest.store.transaction() as tx:
        tx.model_tags.attach("good", OTHER, now_ms=1)
    with pytest.raises(TagNotUnique, match=TRAINED):
        move(pair, MOVE, "tag:good")
    with pytest.raises(TagNotFound):
        move(pair, MOVE, "tag:bad")


def test_a_deploy_takes_a_branch_or_a_tag(pair: Pair) -> None:
    move(pair, CREATE, OTHER)
    asked = DeployRequest(model_id=MODEL_ID, model_version="branch:release")
    done = pair.guest.core.deployment.deploy(asked)
    assert done.outcome.done
    child = pair.share(HOST, done.model_version)
    assert child.parent_info["parent_model_version"] == OTHER
    move(pair, MOVE, done.model_version)
    with pytest.raises(ModelIsDeployed, match=OTHER):
        pair.guest.core.deployment.deploy(asked)
    with pytest.raises(BranchNotFound, match="nothing"):
        pair.guest.core.deployment.deploy(
            DeployRequest(model_id=MODEL_ID, model_version="branch:nothing")
        )


# --- what is refused before anybody is asked ------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "error", "words"),
    [
        ({"version": "1"}, ModelNotFound, "version 1"),
        ({"model_id": "guest-1#model"}, ModelNotFound, "guest-1#model"),
        ({"version": "branch:x"}, BranchNotFound, "branch x"),
        ({"message": "x" * 2001}, BadRequest, "2000"),
        ({"message": "a\x00b"}, BadRequest, "printable"),
        ({"approval": "x" * 201}, BadRequest, "approval"),
        ({"person": "\ud800"}, BadRequest, "person"),
    ],
)
def test_what_cannot_be_committed(
    pair: Pair, members: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        commit(pair, **members)
    assert pair.network().calls == []


@pytest.mark.parametrize(
    ("kind", "members", "error"),
    [
        (CREATE, {"to": "1"}, ModelNotFound),
        (CREATE, {"to": ""}, ModelNotFound),
        (CREATE, {"to": TRAINED, "branch": "a b"}, BadRequest),
        (CREATE, {"to": TRAINED, "branch": "x" * 65}, BadRequest),
        (MOVE, {"to": TRAINED}, BranchNotFound),
        (ROLLBACK, {}, BranchNotFound),
        (DELETE, {}, BranchNotFound),
        (CREATE, {"to": TRAINED, "model_id": "guest-1#model"}, ModelNotFound),
    ],
)
def test_what_a_branch_cannot_do(
    pair: Pair, kind: MoveKind, members: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        move(pair, kind, **members)
    assert pair.network().calls == []


def test_a_branch_that_exists_is_not_created_and_one_that_named_one_version_not_rolled_back(
    pair: Pair,
) -> None:
    move(pair, CREATE, TRAINED)
    with pytest.raises(BranchExists):
        move(pair, CREATE, OTHER)
    with pytest.raises(NoEarlierTarget):
        move(pair, ROLLBACK)
    move(pair, MOVE, OTHER)
    move(pair, ROLLBACK)
    with pytest.raises(NoEarlierTarget):
        move(pair, ROLLBACK)


def test_a_commit_does_not_change(pair: Pair) -> None:
    commit(pair)
    with pytest.raises(ModelIsCommitted):
        commit(pair, message="other")


def test_only_the_server_of_the_initiator_changes_the_history(pair: Pair) -> None:
    asked = CommitRequest(model_id=MODEL_ID, model_version=TRAINED, message="mine")
    with pytest.raises(NotModelInitiator):
        changes(pair, HOST).commit(asked)
    create = MoveRequest(model_id=MODEL_ID, branch="b", kind=CREATE, to=TRAINED)
    with pytest.raises(NotModelInitiator):
        changes(pair, HOST).move(create)


# --- all or none ----------------------------------------------------------------------------------


def nothing(pair: Pair) -> None:
    pair.work()
    assert targets(pair) == (None, None)
    assert note(pair, GUEST) is None
    assert note(pair, HOST) is None


def test_an_absent_site_makes_it_fail_with_its_name(pair: Pair) -> None:
    pair.network().loses_call = lambda party, _path: party == "10000"
    for done in (commit(pair), move(pair, CREATE, TRAINED)):
        assert not done.outcome.done
        assert done.outcome.replies[HOST].error == "PartyUnreachable"
        assert "host 10000" in str(done.outcome.replies[HOST].said_by(HOST)).replace("_", " ")
    pair.network().loses_call = lambda _party, _path: False
    pair.pass_time(60_000)
    nothing(pair)
    assert move(pair, CREATE, TRAINED).outcome.done


def test_a_site_whose_branch_was_moved_otherwise_stops_it_until_the_branch_is_made_anew(
    pair: Pair,
) -> None:
    move(pair, CREATE, TRAINED)
    with pair.host.store.transaction() as tx:  # as a server that was restored from a backup
        (first,) = branch_of(tx).moves
        tx.model_history.drop_move(first.key, first.id)
    done = move(pair, MOVE, OTHER)
    assert not done.outcome.done
    assert "moved otherwise" in str(done.outcome.replies[HOST].retmsg)
    assert branch(pair, GUEST).target == TRAINED
    assert move(pair, DELETE).outcome.done
    done = move(pair, CREATE, OTHER)
    assert done.outcome.done
    assert {branch(pair, site).target for site in (GUEST, HOST)} == {OTHER}


def branch_of(tx: Any) -> Branch:
    found: Branch = tx.model_history.branch(BranchKey(site=HOST, model_id=MODEL_ID, name="release"))
    return found


def test_a_site_with_another_model_stops_it(pair: Pair) -> None:
    other = {"components": {**DSL["components"], "step_2": {"module": "Step"}}}
    put_model(pair.host, trained_share(HOST, train_dsl=other))
    done = move(pair, CREATE, TRAINED)
    assert "do not belong together" in str(done.outcome.replies[HOST].retmsg)
    nothing(pair)


def test_a_site_without_the_version_stops_it(pair: Pair) -> None:
    with pair.host.store.transaction() as tx:
        tx.models.drop(trained_share(HOST).key)
    for done in (commit(pair), move(pair, CREATE, TRAINED)):
        assert done.outcome.replies[HOST].error == "ModelNotFound"
    nothing(pair)


def test_a_commit_that_is_not_delivered_is_taken_back_everywhere(pair: Pair) -> None:
    move(pair, CREATE, TRAINED)
    pair.network().loses_call = lambda party, path: party == "10000" and path.endswith("commit")
    pair.guest.clock.looked = lambda: pair.pass_time(5_000)
    done = move(pair, MOVE, OTHER)
    assert not done.outcome.done
    pair.guest.clock.looked = lambda: None
    pair.network().loses_call = lambda _party, _path: False
    for _ in range(5):
        pair.pass_time(COMMIT_ALLOW_MS // 4)
        pair.work()
    assert targets(pair) == (TRAINED, TRAINED)
    assert move(pair, MOVE, OTHER).outcome.done
    assert targets(pair) == (OTHER, OTHER)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_lost_both_sites_end_with_the_same_history(pair: Pair, seed: int) -> None:
    rng = Random(seed)
    move(pair, CREATE, TRAINED)
    for site in (GUEST, HOST):
        pair.network(site).loses_call = lambda _party, _path: rng.random() < 0.3
        pair.network(site).loses_reply = lambda _party, _path: rng.random() < 0.3
    pair.guest.clock.looked = lambda: pair.pass_time(5_000)
    for number in range(3):
        move(pair, MOVE, (OTHER, TRAINED)[number % 2])
    for site in (GUEST, HOST):
        pair.network(site).loses_call = lambda _party, _path: False
        pair.network(site).loses_reply = lambda _party, _path: False
    for _ in range(8):
        pair.pass_time(COMMIT_ALLOW_MS // 4)
        pair.work()
    moves = [[m.id for m in branch(pair, site).moves] for site in (GUEST, HOST)]
    assert moves[0] == moves[1]


# --- what other parties send ----------------------------------------------------------------------


def body_of(pair: Pair) -> dict[str, Any]:
    """Return the body that the host got for a move."""
    calls = pair.network().calls
    found: dict[str, Any] = next(
        body for to, path, body in calls if to == "10000" and path.endswith("model/history")
    )
    return found


@pytest.mark.parametrize("operation", ["history", "commit", "undo", "share"])
def test_another_party_cannot_change_the_history(pair: Pair, operation: str) -> None:
    move(pair, CREATE, TRAINED)
    path = f"/party/{TRAINED}/host/10000/model/{operation}"
    reply = answer(pair.host, path, body_of(pair), source="10001")
    assert reply.error == "WrongModelSource"
    assert targets(pair) == (TRAINED, TRAINED)


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"model_id": 1}, "BadRequest"),
        ({"model_id": "x"}, "ModelNotFound"),
        ({"action": "destroy"}, "BadRequest"),
        ({"branch": "../x"}, "BadRequest"),
        ({"branch": None}, "BadRequest"),
        ({"after": "1"}, "ModelChangeRefused"),
        ({"author_party": "10000"}, "BadRequest"),
        ({"message": "x" * 2001}, "BadRequest"),
        ({"message": "\x00"}, "BadRequest"),
        ({"created_ms": -1}, "BadRequest"),
        ({"created_ms": 2**60}, "BadRequest"),
        ({"change": "a/b"}, "BadRequest"),
        ({"action": "commit", "shares": {"guest_9999": "x"}}, "BadRequest"),
        ({"action": "commit", "shares": {}}, "ModelChangeRefused"),
        ({"action": "commit", "shares": {HOST.key: "0" * 64}}, "ModelChangeRefused"),
        ({"action": "create"}, "ModelChangeRefused"),
    ],
)
def test_a_malformed_command_changes_nothing(
    pair: Pair, members: dict[str, Any], error: str
) -> None:
    move(pair, CREATE, TRAINED)
    move(pair, MOVE, OTHER)
    after = branch(pair, HOST).last_id
    given = {**body_of(pair), "action": "move", "change": "1", "after": after, **members}
    reply = answer(pair.host, f"/party/{TRAINED}/host/10000/model/history", given, source="9999")
    assert (reply.retcode != 0, reply.error) == (True, error)
    answer(pair.host, f"/party/{TRAINED}/host/10000/model/commit", {"change": "1"}, source="9999")
    assert targets(pair) == (OTHER, OTHER)


def test_a_commit_after_an_undo_does_not_count(pair: Pair) -> None:
    move(pair, CREATE, TRAINED)
    given = {**body_of(pair), "action": "move", "change": "1", "after": branch(pair, HOST).last_id}
    path = f"/party/{OTHER}/host/10000/model"
    assert answer(pair.host, f"{path}/history", given, source="9999").retcode == 0
    assert answer(pair.host, f"{path}/undo", {"change": "1"}, source="9999").retcode == 0
    late = answer(pair.host, f"{path}/commit", {"change": "1"}, source="9999")
    assert late.error == "ModelChangeRefused"
    assert targets(pair) == (TRAINED, TRAINED)


def test_a_branch_does_not_move_to_a_version_that_was_deleted_meanwhile(pair: Pair) -> None:
    move(pair, CREATE, TRAINED)
    given = {**body_of(pair), "action": "move", "change": "1", "after": branch(pair, HOST).last_id}
    path = f"/party/{OTHER}/host/10000/model"
    assert answer(pair.host, f"{path}/history", given, source="9999").retcode == 0
    with pair.host.store.transaction() as tx:
        for key in tx.models.lock(OTHER):
            tx.models.drop(key)
    late = answer(pair.host, f"{path}/commit", {"change": "1"}, source="9999")
    assert late.error == "ModelChangeRefused"
    assert targets(pair) == (TRAINED, TRAINED)
    move(pair, DELETE)
    assert targets(pair) == (None, None)
