"""The history of a model between two real servers, with the commands: commits and branches at both
parties or at none, and what predicts by the name of a branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fedflow.base.errors.models import (
    ModelChangeRefused,
    ModelIsCommitted,
    NoEarlierTarget,
    NotModelInitiator,
)
from fedflow.client.model_history import CommitCalls
from tests.e2e.commands import fedflow
from tests.e2e.servers import GUEST, HOST, Pair, Party, two_parties, wait_for
from tests.e2e.test_models import MODEL_ID, TRAIN, conf, run, upload

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Trained:
    """Two servers that have trained a model twice."""

    pair: Pair
    first: str
    second: str

    @property
    def guest(self) -> CommitCalls:
        return self.pair.guest.client.commits

    @property
    def host(self) -> CommitCalls:
        return self.pair.host.client.commits


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("history")
    with two_parties(folder) as pair:
        upload(pair, folder)
        first = run(pair, TRAIN, conf())
        changed = conf(data_transform_0={"with_label": False, "missing_fill": True})
        yield Trained(pair, first, run(pair, TRAIN, changed))


def model(party: Party, *words: str, code: int = 0) -> Any:
    """Return what a command of `fedflow model` prints as JSON."""
    verb = 2 if words[0] == "branch" else 1
    words = (*words[:verb], "-m", MODEL_ID, *words[verb:], "--json")
    printed = fedflow(party, "model", *words, code=code)
    return json.loads(printed) if code == 0 else printed


def heads(trained: Trained) -> list[dict[str, str]]:
    """Return what the branches name at the guest and at the host."""
    return [{b.branch: b.model_version for b in at.branches(MODEL_ID)}
            for at in (trained.guest, trained.host)]  # fmt: skip


def test_a_commit_is_the_same_at_both_parties(trained: Trained) -> None:
    guest = trained.pair.guest
    model(guest, "commit", "-v", trained.first, "--message", "the first", "--person", "ana")
    shown = [at.show(MODEL_ID, trained.first) for at in (trained.guest, trained.host)]
    assert [(s.message, s.author_party, s.person) for s in shown] == [
        ("the first", "9999", "ana"), ("the first", "9999", ""),
    ]  # fmt: skip
    assert shown[0].shares == shown[1].shares
    assert set(shown[0].shares) == {GUEST.key, HOST.key}
    for one in shown:
        [table] = one.tables
        assert (table.namespace, table.name, table.rows) == ("experiment", "numbers", 30)
    with pytest.raises(ModelIsCommitted):
        trained.guest.commit(MODEL_ID, trained.first, "other")
    text = fedflow(guest, "model", "log", "-m", MODEL_ID)
    assert "the first" in text
    assert text.index(trained.second) < text.index(trained.first)


def test_a_branch_moves_at_both_parties_and_comes_back(trained: Trained) -> None:
    guest = trained.pair.guest
    model(guest, "branch", "create", "product", "--to", trained.first)
    model(guest, "branch", "move", "product", "--to", trained.second, "--message", "newer")
    assert heads(trained) == [{"product": trained.second}] * 2
    fedflow(guest, "model", "rollback", "-m", MODEL_ID, "product")
    assert heads(trained) == [{"product": trained.first}] * 2
    with pytest.raises(NoEarlierTarget):
        trained.guest.rollback(MODEL_ID, "product")
    kinds = [m["kind"] for m in model(guest, "branch", "moves", "product")]
    assert kinds == ["rollback", "move", "create"]
    assert [m.kind for m in trained.host.moves(MODEL_ID, "product")] == kinds
    model(guest, "branch", "delete", "product", "--yes")
    assert heads(trained) == [{}, {}]


def test_differences_are_shown(trained: Trained) -> None:
    found = trained.guest.diff(MODEL_ID, trained.first, trained.second)
    assert found.parameters["common.data_transform_0.missing_fill"] == (None, True)
    text = fedflow(
        trained.pair.guest, "model", "diff", "-m", MODEL_ID, trained.first, trained.second
    )
    assert "parameter common.data_transform_0.missing_fill" in text


def test_a_branch_is_deployed_and_predicts(trained: Trained) -> None:
    guest = trained.pair.guest
    trained.guest.create_branch(MODEL_ID, "experiment/a", trained.second)
    child = model(guest, "deploy", "-v", "branch:experiment/a")["model_version"]
    [parent] = trained.host.show(MODEL_ID, child).parents
    assert parent.model_version == trained.second
    assert [c.model_version for c in trained.host.log(MODEL_ID, child)] == [child, trained.second]
    trained.guest.create_branch(MODEL_ID, "release", child)
    table = ("experiment", "numbers")
    printed = fedflow(
        guest, "model", "predict", "-m", MODEL_ID, "-v", "branch:release", "-t", "guest", *table,
        "-t", "host", *table, "--wait",
    )  # fmt: skip
    assert "success" in printed
    by_conf = guest.client.models.predict_conf(MODEL_ID, child)
    by_conf["job_parameters"]["common"]["model_version"] = "branch:release"
    for role in ("guest", "host"):
        by_conf["component_parameters"]["role"][role]["0"]["reader_0"]["table"] = {
            "namespace": table[0], "name": table[1],
        }  # fmt: skip
    assert run(trained.pair, {}, by_conf)


def test_only_the_initiator_changes_the_history(trained: Trained) -> None:
    before = heads(trained)
    with pytest.raises(NotModelInitiator):
        trained.host.create_branch(MODEL_ID, "mine", trained.first)
    with pytest.raises(NotModelInitiator):
        trained.host.commit(MODEL_ID, trained.second, "mine")
    wrong = fedflow(
        trained.pair.guest, "model", "branch", "create", "-m", MODEL_ID, "a b", "--to",
        trained.first, code=1,
    )  # fmt: skip
    assert "is no name of a branch" in wrong
    assert heads(trained) == before


def test_an_absent_party_is_named_and_nothing_changes(trained: Trained) -> None:
    trained.guest.create_branch(MODEL_ID, "product", trained.first)
    before = heads(trained)
    trained.pair.host.kill()
    try:
        with pytest.raises(ModelChangeRefused, match="10000"):
            trained.guest.move_branch(MODEL_ID, "product", trained.second)
        with pytest.raises(ModelChangeRefused, match="10000"):
            trained.guest.commit(MODEL_ID, trained.second, "the second")
    finally:
        trained.pair.host.start().wait_ready()
    assert heads(trained) == before
    assert trained.guest.show(MODEL_ID, trained.second).commit_time is None
    assert trained.host.show(MODEL_ID, trained.second).commit_time is None


def test_after_it_came_back_the_history_goes_on(trained: Trained) -> None:

    def moved() -> bool:
        try:
            trained.guest.move_branch(MODEL_ID, "product", trained.second)
        except ModelChangeRefused:  # the guest has not called the host since
            return False
        return True

    wait_for(moved, "the host to be called again", within_s=60.0)
    found = heads(trained)
    assert found[0] == found[1]
    assert found[0]["product"] == trained.second
