"""Models: parts of the store, blobs, archives and external stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Protocol

from fedflow.domain.models.lists import ModelLine, ModelList
from fedflow.domain.models.model import (
    Checkpoint,
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelTag,
    ModelVersion,
)
from fedflow.domain.site import Site

if TYPE_CHECKING:
    from fedflow.domain.models.history import Branch, BranchKey, CommitNote, Move, VersionLine


class ModelVersionStore(Protocol):
    """Versions of models, one share per site (`t_machine_learning_model_info` and its parts)."""

    def put(self, version: ModelVersion) -> None:
        """Store a version; it replaces the one with its key, but keeps when that was created."""

    def put_trained(self, version: ModelVersion) -> bool:
        """Store what a job trained, with the time and the loads of an earlier end of that job.

        False, and nothing is written, if its key is not the job's own (`is_own`).
        """

    def is_own(self, key: ModelKey, *, job_id: str, initiator: Site) -> bool:
        """Tell whether a job may write parts under a key: no version has it, or the one that this
        job trained, which is not deployed or imported. Holds until the transaction ends.
        """

    def has_version(self, model_version: str) -> bool:
        """Tell whether a share of any model has this version, also one that is not ready."""

    def lock(self, model_version: str) -> list[ModelKey]:
        """Return the shares of a version, also those that are not ready. Until the transaction ends
        nobody else who locks it drops them or begins to refer to them.
        """

    def get(self, key: ModelKey) -> ModelVersion | None:
        """Return a version, also one that is not ready."""

    def find(self, which: ModelFilter) -> list[ModelVersion]:
        """Return matching versions, newest first."""

    def unready(self, older_than_ms: int) -> list[ModelKey]:
        """Return the versions that were prepared before a moment and cannot be used yet."""

    def set_ready(self, key: ModelKey, *, now_ms: int) -> bool:
        """Make a prepared version usable; False if there is none."""

    def drop(self, key: ModelKey) -> bool:
        """Forget a version with its components and checkpoints; False if there is none."""

    def put_component(self, component: ModelComponent) -> None:
        """Store a component's model; it replaces the one with its key and component."""

    def components(self, key: ModelKey) -> list[ModelComponent]:
        """Return the component models, by component name."""

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a step in place of the same step, and of what older attempts had from it on."""

    def checkpoints(self, key: ModelKey, component: str | None = None) -> list[Checkpoint]:
        """Return checkpoints by component and step."""

    def referenced(self, digests: Collection[str]) -> set[str]:
        """Return those of some blobs (sha256) that a component or checkpoint needs."""


class ModelListStore(Protocol):
    """What lists of model versions show, without their documents. Newest first."""

    def page(self, which: ModelList) -> list[ModelLine]:
        """Return a page of the versions that fit and can be used."""

    def count(self, which: ModelList) -> int:
        """Return how many fit, on all pages."""

    def tags(self, versions: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the tags of those of some versions that have any, in the order of their names."""

    def modules(self) -> list[str]:
        """Return the modules that wrote models which are here."""


class ModelTagStore(Protocol):
    """Names that people give to model versions (`t_tags`, `t_model_tag`)."""

    def create(self, name: str, description: str, *, now_ms: int) -> bool:
        """Make a tag; False if there is one of this name."""

    def get(self, name: str) -> ModelTag | None: ...

    def find(self, part: str = "", *, limit: int = 1000) -> list[ModelTag]:
        """Return the tags whose name has this part, newest first."""

    def update(self, name: str, *, new_name: str, description: str, now_ms: int) -> bool:
        """Rename and describe a tag; False if there is none, or another has the new name."""

    def drop(self, name: str) -> bool:
        """Forget a tag, also at its versions; False if there is none."""

    def attach(self, name: str, model_version: str, *, now_ms: int) -> bool:
        """Give an existing tag to a version; False if it has it, or there is no such tag."""

    def detach(self, name: str, model_version: str) -> bool:
        """Take a tag from a version; False if it does not have it."""

    def of_version(self, model_version: str) -> list[ModelTag]:
        """Return a version's tags, by name."""

    def versions(self, name: str) -> list[str]:
        """Return the versions that have a tag, oldest attachment first."""


class ModelHistoryStore(Protocol):
    """Descent of versions, notes and moves of branches (`t_model_commit`, `t_model_branch`).

    Only versions that can be used count.
    """

    def sites(self, model_id: str) -> list[Site]:
        """Return the sites of this server that have versions of a model."""

    def line(self, key: ModelKey) -> VersionLine | None: ...

    def page(
        self, site: Site, model_id: str, *, before: tuple[int, str] | None, limit: int
    ) -> list[VersionLine]:
        """Return versions, newest first; `before`: those after this time and version in a list."""

    def put_note(self, note: CommitNote) -> bool:
        """Store a note; False if the version has one."""

    def drop_note(self, key: ModelKey, change_id: str) -> None:
        """Forget a version's note if this change stored it."""

    def notes(self, site: Site, model_id: str, versions: Collection[str]) -> dict[str, CommitNote]:
        """Return the notes of those of some versions that have one."""

    def add_move(self, move: Move) -> bool:
        """Store a move; False if the branch has one of this number."""

    def drop_move(self, key: BranchKey, change_id: str) -> None:
        """Forget the move of a branch that this change stored."""

    def branch(self, key: BranchKey, *, last_only: bool = False) -> Branch:
        """Return a branch with its moves, all or the last one, also if it is deleted or never was.

        The last one says what it names.
        """

    def heads(self, site: Site, model_id: str) -> list[Move]:
        """Return the last move of each branch that exists, by name."""


class ModelBlobs(Protocol):
    """Contents of models, by their sha256 (hex)."""

    def put(self, content: bytes) -> str:
        """Store contents durably and return their digest; twice has no effect. Raises: DiskFull."""

    def get(self, sha256: str) -> bytes:
        """Return contents that were checked. Raises: BlobDamaged: they are gone or changed."""

    def has(self, sha256: str) -> bool:
        """Tell whether there are contents, without reading them."""

    def old(self, older_than_ms: int) -> Iterator[str]:
        """Yield the digests of what was last put before a moment."""

    def remove(self, sha256: str, *, older_than_ms: int) -> bool:
        """Delete contents unless they were put again since; False if they were, or are gone."""


class ArchiveFiles(Protocol):
    """What a model archive holds."""

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths of all files."""

    def read(self, path: str, *, limit: int = ...) -> bytes:
        """Return a file of at most `limit` bytes. Raises: BadModelArchive."""


class ModelArchives(Protocol):
    """Files in one archive, from and for other servers."""

    def write(
        self, target: IO[bytes], files: Iterable[tuple[str, bytes]], *, modified_ms: int
    ) -> None:
        """Write files by path; the same files give the same bytes."""

    def open(self, source: IO[bytes]) -> AbstractContextManager[ArchiveFiles]:
        """Return an archive's files. Raises: BadModelArchive: it is not to be trusted."""


class ExternalModels(Protocol):
    """A store of model archives that several servers may share."""

    def put(
        self, party_model_id: str, model_version: str, source: IO[bytes], *, sha256: str
    ) -> None:
        """Store an archive, in place of an older one. Raises: ModelStoreUnavailable."""

    def digest(self, party_model_id: str, model_version: str) -> str | None:
        """Return the sha256 of a stored archive, None if there is none."""

    def get(self, party_model_id: str, model_version: str, target: IO[bytes]) -> bool:
        """Write an archive to `target`; False if there is none. Raises: ModelStoreUnavailable."""

    def sweep(self, *, older_than_ms: int) -> int:
        """Remove what was stored before a moment and no model version has any more; return how
        much. Never what `get` would give. Raises: ModelStoreUnavailable.
        """
