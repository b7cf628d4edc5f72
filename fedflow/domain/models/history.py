"""The history of a model: every version is a commit, branches name commits, parents lead back.

What a version's rows say already (time, parents, where it comes from) is derived from them. A
`CommitNote` holds the rest. A branch is the list of its moves (`Move`): the last one says which
version it names, and a rollback takes the one before. Both are the same at all sites of a model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.domain.job.own_conf import own_conf
from fedflow.domain.models.lists import ModelKind, kind_of, parent_version
from fedflow.domain.models.model import ModelComponent, ModelKey, canonical_json
from fedflow.domain.records import Json
from fedflow.domain.site import Site

MAX_BRANCH: Final = 64  #: characters of a branch's name
MAX_MESSAGE: Final = 2000
MAX_PERSON: Final = 64
MAX_APPROVAL: Final = 200
MAX_WALK: Final = 100_000  #: commits of one log, over all its pages
KNOWN_BRANCHES: Final = ("experiment", "product", "release")
"""Names with a meaning: what is tried, what is offered, what answers requests. Others are free."""

_BRANCH: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*(/[0-9A-Za-z][0-9A-Za-z._-]*)*", re.ASCII)
_LOADER: Final = "modelloader"


# --- names ----------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True, slots=True)
class VersionId:
    """A version of a model, whichever site's share."""

    model_id: str
    model_version: str


class NameKind(StrEnum):
    """What a name of a version is."""

    BRANCH = "branch"
    TAG = "tag"
    ID = "id"  #: the version itself


@dataclass(frozen=True, slots=True)
class VersionName:
    """How a request names a version: `branch:NAME`, `tag:NAME`, or the version itself."""

    kind: NameKind
    text: str

    @staticmethod
    def of(given: str) -> VersionName:
        """Return what a text means; no id of a version has a colon."""
        for kind in (NameKind.BRANCH, NameKind.TAG):
            if given.startswith(f"{kind.value}:"):
                return VersionName(kind, given.removeprefix(f"{kind.value}:"))
        return VersionName(NameKind.ID, given)


def branch_fault(name: str) -> str | None:
    """Return why a text cannot name a branch, None if it can."""
    if len(name) > MAX_BRANCH:
        return f"it has more than {MAX_BRANCH} characters"
    if not _BRANCH.fullmatch(name):
        return "its parts, with `/` between, begin with a letter or digit; then also `.`, `_`, `-`"
    return None


# --- branches -------------------------------------------------------------------------------------


class MoveKind(StrEnum):
    """What happened to a branch."""

    CREATE = "create"
    MOVE = "move"
    ROLLBACK = "rollback"
    DELETE = "delete"


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """Who made a commit or moved a branch; other parties do not learn the person."""

    party_id: str
    person: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchKey:
    """A branch of a model at one site."""

    site: Site
    model_id: str
    name: str

    def __str__(self) -> str:
        return f"branch {self.name} of model {self.model_id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One change of a branch; `id` is the same at all sites."""

    key: BranchKey
    number: int  #: 1, 2, ... at this site
    id: str
    kind: MoveKind
    model_version: str  #: what it names from now on, or named until it was deleted
    author: Author
    message: str = ""
    created_ms: int

    @property
    def is_there(self) -> bool:
        """Tell whether the branch exists after this."""
        return self.kind is not MoveKind.DELETE


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """A branch with all its moves, oldest first."""

    key: BranchKey
    moves: Sequence[Move] = ()

    @property
    def last(self) -> Move | None:
        return self.moves[-1] if self.moves else None

    @property
    def last_id(self) -> str:
        """Return the id of the last move, "" if there was none."""
        return self.moves[-1].id if self.moves else ""

    @property
    def target(self) -> str | None:
        """Return the version that the branch names, None if there is no such branch."""
        last = self.last
        return last.model_version if last is not None and last.is_there else None

    @property
    def previous(self) -> str | None:
        """Return where a rollback leads: one target back, and by the next one further back."""
        targets: list[str] = []
        for move in self.moves:
            if move.kind in (MoveKind.CREATE, MoveKind.DELETE):
                targets = []
            if move.kind is MoveKind.ROLLBACK:
                targets = targets[:-1]
            elif move.is_there:
                targets.append(move.model_version)
        return targets[-2] if len(targets) > 1 else None


# --- commits --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitNote:
    """What people and sites said of a version, beyond its rows."""

    key: ModelKey
    id: str  #: of the change that stored it at all sites
    message: str
    author: Author
    approval: str = ""  #: what allowed it: a review, a report, a ticket
    shares: Mapping[str, str]  #: key of each site -> `share_digest` of its share
    made_with: Json = field(default_factory=dict)  #: code and data of this site, as they were
    created_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionLine:
    """What a site's rows say of a version's descent.

    `train_dsl` and `train_conf` are empty unless the training may have loaded a model.
    """

    key: ModelKey
    roles: Mapping[str, Sequence[str]]
    initiator: Site
    parent: bool
    parent_info: Json
    imported: bool
    created_ms: int
    train_dsl: Json
    train_conf: Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """A version in the history of its model, at one site."""

    key: ModelKey
    kind: ModelKind
    initiator: Site
    parents: Sequence[VersionId]
    created_ms: int
    note: CommitNote | None = None
    branches: Sequence[str] = ()
    tags: Sequence[str] = ()

    @property
    def id(self) -> VersionId:
        return VersionId(self.key.model_id, self.key.model_version)

    @property
    def author(self) -> Author:
        """Return who made it; of one without a note, the party that trained it."""
        return self.note.author if self.note else Author(party_id=self.initiator.party_id)


def commit_of(
    line: VersionLine,
    *,
    note: CommitNote | None = None,
    branches: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> Commit:
    """Return a version as a commit."""
    return Commit(
        key=line.key,
        kind=kind_of(parent=line.parent, imported=line.imported),
        initiator=line.initiator,
        parents=parents_of(line),
        created_ms=line.created_ms,
        note=note,
        branches=tuple(branches),
        tags=tuple(tags),
    )


def parents_of(line: VersionLine) -> tuple[VersionId, ...]:
    """Return what a version was made from: a deploy's training, what a training began with.

    What is imported or migrated has the parents of the version that it is a copy of.
    """
    deployed_from = parent_version(line.parent_info)
    if deployed_from:
        model_id = line.parent_info.get("parent_model_id")
        return (VersionId(str(model_id or line.key.model_id), deployed_from),)
    return tuple(dict.fromkeys(_loaded(line)))


def _loaded(line: VersionLine) -> list[VersionId]:
    """Return the versions that the loaders of a training name for this site, in their order."""
    site = line.key.site
    conf = own_conf(line.train_conf, site, line.roles, is_initiator=False)
    given = _object(_object(conf).get("component_parameters"))
    layers = [_object(given.get("common"))]
    layers += map(_object, _object(_object(given.get("role")).get(site.role.value)).values())
    found = []
    for name, one in _object(_object(line.train_dsl).get("components")).items():
        if str(_object(one).get("module", "")).lower() != _LOADER:
            continue
        merged: dict[str, Any] = {}
        for layer in layers:
            merged.update(_object(layer.get(name)))
        model_id, version = merged.get("model_id"), merged.get("model_version")
        if model_id and version and merged.get("need_run") is not False:
            found.append(VersionId(str(model_id), str(version)))
    return found


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def share_digest(components: Iterable[ModelComponent]) -> str:
    """Return the sha256 of one site's share: of the digests of all its components' objects."""
    parts = {f"{c.component}.{c.alias}": [c.meta.sha256, c.param.sha256] for c in components}
    return hashlib.sha256(canonical_json(parts)).hexdigest()


# --- the way back ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """A page of a log: its commits, newest first, and what the next page begins with."""

    commits: Sequence[Commit]
    rest: Sequence[VersionId]


def walk(
    start: Iterable[VersionId], read: Callable[[VersionId], Commit | None], *, limit: int
) -> Walk:
    """Return the commits that lead to `start` by their parents, those first.

    Each comes once, newest first as far as no parent is newer than its child. A version that is
    not here (`read` gives None) ends its line.
    """
    found: list[Commit] = []
    seen: set[VersionId] = set()
    heap: list[tuple[int, VersionId, Commit]] = []

    def push(ids: Iterable[VersionId]) -> None:
        for one in ids:
            if one not in seen:
                seen.add(one)
                commit = read(one)
                if commit is not None:
                    heappush(heap, (-commit.created_ms, one, commit))

    push(start)
    while heap and len(found) < limit:
        commit = heappop(heap)[2]
        found.append(commit)
        push(commit.parents)
    return Walk(commits=found, rest=[one for _, one, _ in sorted(heap, key=lambda e: e[:2])])
