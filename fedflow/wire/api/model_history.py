"""The history of a model: commits, differences between two of them, branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

ValueChange = tuple[Any, Any]  #: old and new value; null where there is none


class VersionRef(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a model."""

    model_id: str
    model_version: str


class ModelCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A version in the history of its model, as one site has it."""

    SHOWN: ClassVar = "model_version kind create_time author_party message branches tags"

    model_id: str
    model_version: str
    role: str
    party_id: str
    kind: str  #: trained, deployed or imported
    parents: tuple[VersionRef, ...] = ()
    create_time: int  #: of the version; milliseconds since the epoch
    commit_time: int | None = None  #: when it got its message; null: it has none
    message: str = ""
    approval: str = ""  #: what allowed it
    author_party: str
    person: str = ""  #: of the author, as the request said; known to their party only
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<ModelCommit {self.model_version}>"


class ModelLog(msgspec.Struct, frozen=True, kw_only=True):
    """A page of commits, newest first."""

    commits: tuple[ModelCommit, ...] = ()
    next: str | None = None  #: what `after` of the next page must be; null: there is none


class TrainingTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a reader of the training read at this site."""

    component: str
    namespace: str
    name: str
    rows_id: str  #: which rows these were: another id, other rows
    rows: int | None = None  #: null: the table was dropped or replaced before it was counted


class ModelCommitDetail(ModelCommit, frozen=True, kw_only=True):
    """A commit with what it was made of, as far as this site knows."""

    shares: Mapping[str, str] = {}
    """Key of a site -> sha256 of its share; before the commit only of this site's."""
    parameters_sha256: str = ""  #: of the component parameters that this site may see
    metrics: Mapping[str, Any] = {}  #: component -> what it measured at this site
    fedflow: str = ""  #: version of fedflow
    fate: str = ""  #: version of FATE that the model is compatible with
    provider: Any = None  #: the conf's section, if it has one
    tables: tuple[TrainingTable, ...] = ()


class DslChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two training DSLs."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: Mapping[str, ValueChange] = {}


class ComponentChanges(msgspec.Struct, frozen=True, kw_only=True):
    """One component's model in two versions; of a linear model its weights by column."""

    digests: ValueChange
    weights: Mapping[str, ValueChange] | None = None


class ModelDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two versions at one site; what is equal is left out."""

    role: str
    party_id: str
    old: VersionRef
    new: VersionRef
    dsl: DslChanges
    parameters: Mapping[str, ValueChange] = {}
    metrics: Mapping[str, ValueChange] = {}
    models: Mapping[str, ComponentChanges] = {}


class BranchMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move of a branch: create, move, rollback or delete."""

    SHOWN: ClassVar = "branch kind model_version create_time author_party message"

    branch: str
    kind: str
    model_version: str  #: what it names since then, or named until it was deleted
    create_time: int  #: milliseconds since the epoch
    author_party: str
    person: str = ""
    message: str = ""


class ModelBranches(msgspec.Struct, frozen=True, kw_only=True):
    """Branches of a model with their last moves, or the moves of one, newest first."""

    branches: tuple[BranchMove, ...] = ()


class ChangedHistory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every site said of a commit or of a move."""

    model_id: str
    model_version: str
    branch: str | None = None
    detail: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """Role -> party id -> its `retcode` and `retmsg`."""
