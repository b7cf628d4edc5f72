"""Models to and from other servers: archives, and their contents for serving systems.

An archive is a zip with `fedflow_model.json` (the rows of one site's share of one version, with the
digests of all contents), the contents as canonical JSON in FATE's folders, and `import_model.json`,
the request that would import it. What is imported was compared with its digests first; it is there
as a whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

import msgspec

from fedflow.app.models.model_document import (
    DOCUMENT,
    REQUEST,
    Document,
    check_list,
    content_of,
    path_of,
    read_document,
)
from fedflow.app.models.models import ModelRepository, version_in
from fedflow.app.ports.models import ModelArchives, ModelBlobs
from fedflow.app.ports.parties import PartyClient
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.errors.models import BadModelArchive, ModelExists
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.model import ARCHIVE_FORMAT, ModelKey, ModelVersion, canonical_json

_IN_MEMORY: Final = 8 * 1024 * 1024  #: an archive that is larger goes to disk
_CHUNK: Final = 1024 * 1024


class ModelExchange:
    """Export and import, and what serving systems ask for."""

    def __init__(
        self,
        *,
        store: Store,
        repository: ModelRepository,
        blobs: ModelBlobs,
        archives: ModelArchives,
        parties: PartyClient,
        clock: Clock,
        folder: Path,
    ) -> None:
        """`folder` is where archives for other programs of this machine are put."""
        self._store = store
        self._repository = repository
        self._blobs = blobs
        self._archives = archives
        self._parties = parties
        self._clock = clock
        self._folder = folder

    # --- out ------------------------------------------------------------------------------------

    def export(self, key: ModelKey) -> IO[bytes]:
        """Return an open archive of a site's share. Raises: ModelNotFound, ModelDamaged."""
        with self._store.read() as tx:
            version = version_in(tx, key)
            components = tx.models.components(key)
            checkpoints = tx.models.checkpoints(key)
        target = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # the caller's
        try:
            document = Document(
                format=ARCHIVE_FORMAT,
                version=version,
                components=components,
                checkpoints=checkpoints,
            )
            files = self._files(document)
            self._archives.write(target, files, modified_ms=version.created_ms)
        except BaseException:
            target.close()
            raise
        target.seek(0)
        return target

    def package(self, key: ModelKey) -> tuple[Path, str]:
        """Write an archive into this server's folder for archives; return its path and sha256.

        Raises: ModelNotFound, ModelDamaged.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = hashlib.sha256(f"{key.party_model_id} {key.model_version}".encode()).hexdigest()
        path = self._folder / f"{name}.zip"
        digest = hashlib.sha256()
        with self.export(key) as source:
            # for this user alone, and with a name of its own: others may pack the same share
            descriptor, partial = tempfile.mkstemp(prefix="new-", dir=self._folder)
            try:
                with os.fdopen(descriptor, "wb") as target:
                    while chunk := source.read(_CHUNK):
                        digest.update(chunk)
                        target.write(chunk)
                Path(partial).replace(path)
            except BaseException:
                Path(partial).unlink(missing_ok=True)
                raise
        return path, digest.hexdigest()

    def contents(self, key: ModelKey) -> dict[str, str]:
        """Return `<component>.<alias>:<model name>` -> base64 of the canonical JSON, for serving.

        Raises: ModelNotFound, ModelDamaged.
        """
        with self._store.read() as tx:
            version = version_in(tx, key)
            components = tx.models.components(key)
        answer = {
            f"{c.component}.{c.alias}:{part.name}": _base64(self._repository.raw(c, part))
            for c in components
            for part in (c.meta, c.param)
        }
        pipeline = canonical_json(msgspec.to_builtins(version))
        return {**answer, "pipeline.pipeline:Pipeline": _base64(pipeline)}

    def _files(self, document: Document) -> Iterator[tuple[str, bytes]]:
        key = document.version.key
        yield DOCUMENT, canonical_json(msgspec.to_builtins(document))
        yield REQUEST, canonical_json(_request(key))
        for stored in document.stored:
            for part in (stored.meta, stored.param):
                yield path_of(stored, part), self._repository.raw(stored, part)

    # --- in -------------------------------------------------------------------------------------

    def import_archive(
        self,
        key: ModelKey,
        source: IO[bytes],
        *,
        sha256: str | None = None,
        force: bool = False,
        from_ip: str | None = None,
    ) -> ModelVersion:
        """Store the share that an archive holds; it must be the one that `key` names.

        Raises: ModelExists: and `force` is not set. BadModelArchive: it is damaged, hostile, or
        of another model, version or site. BadRequest: this server does not host the party.
        NotSupportedYet: it is an archive of FATE itself.
        """
        if not self._parties.is_local(key.site.party_id):
            raise BadRequest(reason=f"this server does not host party {key.site.party_id}")
        self._refuse_existing(key, force=force)
        found = digest_of(source)
        if sha256 is not None and sha256.lower() != found:
            raise BadModelArchive(reason="it does not have the sha256 that was given for it")
        with self._archives.open(source) as files:
            document = read_document(files)
            check_list(document, key, files.paths)
            for stored in document.stored:
                for part in (stored.meta, stored.param):
                    self._blobs.put(content_of(files, path_of(stored, part), part))
        now_ms = self._clock.now_ms()
        version = replace(
            document.version,
            size_bytes=sum(c.size_bytes for c in document.components),
            loaded_times=0,
            imported=True,
            archive_sha256=found,
            archive_from_ip=from_ip,
            created_ms=now_ms,
            updated_ms=now_ms,
        )
        with self._store.transaction() as tx:
            if tx.models.get(key) is not None:
                if not force:
                    raise ModelExists(model=key)
                tx.models.drop(key)
            tx.models.put(version)
            for component in document.components:
                tx.models.put_component(component)
            for checkpoint in sorted(document.checkpoints, key=lambda c: (c.attempt, c.step_index)):
                tx.models.put_checkpoint(checkpoint)
        return version

    def _refuse_existing(self, key: ModelKey, *, force: bool) -> None:
        with self._store.read() as tx:
            known = tx.models.get(key)
        if known is not None and not force:
            raise ModelExists(model=key)


def digest_of(source: IO[bytes]) -> str:
    """Return the sha256 of a file from its beginning, where it is left."""
    source.seek(0)
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
    source.seek(0)
    return digest.hexdigest()


def _request(key: ModelKey) -> dict[str, str]:
    return {
        "role": key.site.role.value,
        "party_id": key.site.party_id,
        "model_id": key.model_id,
        "model_version": key.model_version,
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
