"""The history of a model: names, branches, parents, pages of a log."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.models.history import (
    KNOWN_BRANCHES,
    Author,
    Branch,
    BranchKey,
    Commit,
    Move,
    MoveKind,
    NameKind,
    VersionId,
    VersionLine,
    VersionName,
    branch_fault,
    commit_of,
    parents_of,
    share_digest,
    walk,
)
from fedflow.domain.models.lists import ModelKind
from fedflow.domain.models.model import ModelComponent, ModelKey, part_of
from fedflow.domain.site import Role, Site

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ID = "guest-9999#host-10000#model"


def key(version: str, site: Site = GUEST) -> ModelKey:
    return ModelKey(site=site, model_id=ID, model_version=version)


def line(version: str = "v1", site: Site = GUEST, **changes: Any) -> VersionLine:
    members: dict[str, Any] = {
        "key": key(version, site), "roles": {"guest": ["9999"], "host": ["10000"]},
        "initiator": GUEST, "parent": True, "parent_info": {}, "imported": False,
        "created_ms": 1, "train_dsl": {}, "train_conf": {},
    }  # fmt: skip
    return VersionLine(**{**members, **changes})


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*KNOWN_BRANCHES, "a", "experiment/lr-2", "1.0_x", "a" * 64])
def test_names_of_branches(name: str) -> None:
    assert branch_fault(name) is None


@pytest.mark.parametrize(
    "name", ["", "a" * 65, "a b", "/a", "a/", "a//b", "-a", ".", "a/../b", "é", "a\n", "branch:a"]
)
def test_what_is_no_name_of_a_branch_says_why(name: str) -> None:
    assert branch_fault(name)


def test_a_version_is_named_by_branch_by_tag_or_by_itself() -> None:
    assert VersionName.of("branch:release") == VersionName(NameKind.BRANCH, "release")
    assert VersionName.of("tag:good one") == VersionName(NameKind.TAG, "good one")
    assert VersionName.of("2026") == VersionName(NameKind.ID, "2026")
    assert VersionName.of("branch") == VersionName(NameKind.ID, "branch")


# --- branches -------------------------------------------------------------------------------------


def branch(*moves: tuple[MoveKind, str]) -> Branch:
    where = BranchKey(site=GUEST, model_id=ID, name="release")
    return Branch(
        key=where,
        moves=[
            Move(
                key=where, number=number, id=f"m{number}", kind=kind, model_version=version,
                author=Author(party_id="9999"), created_ms=number,
            )
            for number, (kind, version) in enumerate(moves, 1)
        ],
    )  # fmt: skip


C, M, R, D = MoveKind.CREATE, MoveKind.MOVE, MoveKind.ROLLBACK, MoveKind.DELETE


@pytest.mark.parametrize(
    ("moves", "target", "previous"),
    [
        ([], None, None),
        ([(C, "a")], "a", None),
        ([(C, "a"), (M, "b")], "b", "a"),
        ([(C, "a"), (M, "b"), (M, "c"), (R, "b")], "b", "a"),
        ([(C, "a"), (M, "b"), (M, "c"), (R, "b"), (R, "a")], "a", None),
        ([(C, "a"), (M, "b"), (R, "a"), (M, "d")], "d", "a"),
        ([(C, "a"), (M, "b"), (D, "b")], None, None),
        ([(C, "a"), (M, "b"), (D, "b"), (C, "z")], "z", None),
    ],
)
def test_a_rollback_leads_one_target_back(
    moves: list[tuple[MoveKind, str]], target: str | None, previous: str | None
) -> None:
    found = branch(*moves)
    assert (found.target, found.previous) == (target, previous)
    assert found.last_id == (f"m{len(moves)}" if moves else "")


# --- parents --------------------------------------------------------------------------------------

LOADER = {"module": "modelLoader", "output": {"model": ["model"]}}


def test_a_deploys_parent_is_its_training() -> None:
    info = {"parent_model_id": "other#model", "parent_model_version": "t"}
    child = line(parent=False, parent_info=info, train_dsl={"components": {"l": LOADER}})
    assert parents_of(child) == (VersionId("other#model", "t"),)
    assert commit_of(child).kind is ModelKind.DEPLOYED
    assert commit_of(line(parent=False, parent_info=info, imported=True)).parents


def test_a_warm_starts_parent_is_what_this_site_loaded() -> None:
    conf = {
        "component_parameters": {
            "common": {"load_0": {"model_id": ID, "model_version": "common"}},
            "role": {
                "guest": {"0": {"load_1": {"model_id": ID, "model_version": "g"}}},
                "host": {"0": {"load_0": {"model_version": "h"}}},
            },
        }
    }
    dsl = {"components": {"load_0": LOADER, "load_1": LOADER, "lr_0": {"module": "HeteroLR"}}}
    trained = line(train_dsl=dsl, train_conf=conf)
    assert parents_of(trained) == (VersionId(ID, "common"), VersionId(ID, "g"))
    at_host = line(site=HOST, train_dsl=dsl, train_conf=conf)
    assert parents_of(at_host) == (VersionId(ID, "h"),)


@pytest.mark.parametrize(
    "conf",
    [
        {},
        None,
        {"component_parameters": {"common": {"load_0": {"model_id": ID}}}},
        {"component_parameters": {"common": {"load_0": 3}, "role": []}},
        {
            "component_parameters": {
                "common": {"load_0": {"model_id": 1, "model_version": 2, "need_run": False}}
            }
        },
    ],
)
def test_a_loader_that_names_nothing_is_no_parent(conf: Any) -> None:
    dsl = {"components": {"load_0": LOADER, "odd": 3}}
    assert parents_of(line(train_dsl=dsl, train_conf=conf)) == ()
    assert parents_of(line(train_dsl=[], train_conf=conf)) == ()


# --- log ------------------------------------------------------------------------------------------


def history(**parents: list[str]) -> dict[VersionId, Commit]:
    """Return commits by id, in the order of their time."""
    found = {}
    for number, (version, names) in enumerate(parents.items()):
        commit = Commit(
            key=key(version), kind=ModelKind.TRAINED, initiator=GUEST, created_ms=number,
            parents=[VersionId(ID, name) for name in names],
        )  # fmt: skip
        found[commit.id] = commit
    return found


def pages(commits: dict[VersionId, Commit], start: str, limit: int) -> list[list[str]]:
    rest: Any = [VersionId(ID, start)]
    found = []
    while rest:
        page = walk(rest, commits.get, limit=limit)
        found.append([c.key.model_version for c in page.commits])
        rest = page.rest
    return found


def test_a_log_goes_by_parents_newest_first_in_pages() -> None:
    commits = history(a=[], b=["a"], x=[], c=["b"], d=["b", "x"], e=["c", "d"])
    assert pages(commits, "e", 100) == [["e", "d", "c", "x", "b", "a"]]
    assert pages(commits, "e", 2) == [["e", "d"], ["c", "x"], ["b", "a"]]
    assert pages(commits, "c", 1) == [["c"], ["b"], ["a"]]


def test_a_parent_that_is_not_here_ends_its_line() -> None:
    assert pages(history(b=["gone"]), "b", 10) == [["b"]]
    assert pages({}, "b", 10) == [[]]


def test_a_page_ends_also_if_parents_lead_in_a_circle() -> None:
    assert pages(history(a=["b"], b=["a"]), "b", 10) == [["b", "a"]]


def test_a_shares_digest_is_of_its_contents_only() -> None:
    def component(name: str, content: bytes, **changes: Any) -> ModelComponent:
        members: dict[str, Any] = {
            "key": key("v"), "component": name, "module": "M", "alias": "model",
            "meta": part_of("Meta", b"{}"), "param": part_of("Param", content),
            "run_parameters": {}, "created_ms": 1,
        }  # fmt: skip
        return ModelComponent(**{**members, **changes})

    a, b = component("a", b"1"), component("b", b"2")
    assert share_digest([a, b]) == share_digest([b, a])
    assert share_digest([a, b]) == share_digest([component("a", b"1", created_ms=9), b])
    assert share_digest([a]) != share_digest([component("a", b"2")]) != share_digest([])
