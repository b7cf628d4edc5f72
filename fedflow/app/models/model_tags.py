"""Tags: names that people give to versions of models.

A tag is of a version as a whole, not of one site's share. Source: `docs/reference/rest.md#models`.
"""

from __future__ import annotations

from typing import Final

from fedflow.app.ports.store import Store, Tx
from fedflow.base.clock import Clock
from fedflow.base.errors.models import ModelNotFound, TagExists, TagNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.model import ModelFilter, ModelTag, ModelVersion

MAX_NAME: Final = 100
MAX_DESCRIPTION: Final = 10_000


class ModelTags:
    """The use cases of the tag routes."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def create(self, name: str, description: str) -> None:
        """Make a tag. Raises: BadRequest, TagExists."""
        _check(name, description)
        with self._store.transaction() as tx:
            if not tx.model_tags.create(name, description, now_ms=self._clock.now_ms()):
                raise TagExists(tag_name=name)

    def newest(self, limit: int) -> list[ModelTag]:
        """Return tags, newest first, each with how many versions have it."""
        with self._store.read() as tx:
            return tx.model_tags.find(limit=limit)

    def find(self, part: str) -> list[ModelTag]:
        """Return the tags whose name has this part. Raises: TagNotFound: none has."""
        with self._store.read() as tx:
            found = tx.model_tags.find(part)
        if not found:
            raise TagNotFound(tag_name=part)
        return found

    def models(self, name: str) -> list[ModelVersion]:
        """Return the shares of the versions that have a tag. Raises: TagNotFound."""
        with self._store.read() as tx:
            if tx.model_tags.get(name) is None:
                raise TagNotFound(tag_name=name)
            return [
                share
                for version in tx.model_tags.versions(name)
                for share in tx.models.find(ModelFilter(model_version=version))
            ]

    def update(self, name: str, *, new_name: str | None, description: str | None) -> None:
        """Rename or describe a tag. Raises: BadRequest, TagNotFound, TagExists."""
        _check(new_name or name, description or "")
        with self._store.transaction() as tx:
            known = tx.model_tags.get(name)
            if known is None:
                raise TagNotFound(tag_name=name)
            changed = tx.model_tags.update(
                name,
                new_name=new_name or name,
                description=known.description if description is None else description,
                now_ms=self._clock.now_ms(),
            )
            if not changed:
                raise TagExists(tag_name=new_name)

    def drop(self, name: str) -> None:
        """Delete a tag, also from its versions. Raises: TagNotFound."""
        with self._store.transaction() as tx:
            if not tx.model_tags.drop(name):
                raise TagNotFound(tag_name=name)

    def attach(self, name: str, model_version: str) -> None:
        """Give a tag to a version; it is made if there is none of this name.

        Raises: BadRequest, ModelNotFound, TagExists: the version has it.
        """
        _check(name, "")
        now_ms = self._clock.now_ms()
        with self._store.transaction() as tx:
            tx.models.lock(model_version)
            _check_version(tx, model_version)
            tx.model_tags.create(name, "", now_ms=now_ms)
            if not tx.model_tags.attach(name, model_version, now_ms=now_ms):
                raise TagExists(tag_name=name)

    def detach(self, name: str, model_version: str) -> None:
        """Take a tag from a version. Raises: ModelNotFound, TagNotFound."""
        with self._store.transaction() as tx:
            _check_version(tx, model_version)
            if not tx.model_tags.detach(name, model_version):
                raise TagNotFound(tag_name=name)

    def of_version(self, model_version: str) -> list[ModelTag]:
        """Return a version's tags, by name. Raises: ModelNotFound."""
        with self._store.read() as tx:
            _check_version(tx, model_version)
            return tx.model_tags.of_version(model_version)


def _check(name: str, description: str) -> None:
    if not 1 <= len(name) <= MAX_NAME or any(ord(c) < 32 for c in name):
        raise BadRequest(reason=f"`tag_name` must have 1 to {MAX_NAME} printable characters")
    if len(description) > MAX_DESCRIPTION:
        raise BadRequest(reason=f"`tag_desc` has more than {MAX_DESCRIPTION} characters")


def _check_version(tx: Tx, model_version: str) -> None:
    if not tx.models.find(ModelFilter(model_version=model_version, limit=1)):
        raise ModelNotFound(model=f"model version {model_version}")
