"""Which version a request means: `branch:NAME`, `tag:NAME`, or the version's own id."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fedflow.app.ports.store import Tx
from fedflow.base.errors.models import BranchNotFound, ModelNotFound, TagNotFound, TagNotUnique
from fedflow.domain.models.history import BranchKey, NameKind, VersionName
from fedflow.domain.models.model import ModelKey
from fedflow.domain.site import Site

_SHOWN: Final = 5  #: versions that a sentence names


def named_version(tx: Tx, key: ModelKey) -> ModelKey:
    """Return the key whose version a site's branch or tag names; an id stays as it is.

    Raises: BranchNotFound, TagNotFound. TagNotUnique: several versions of the model have the tag.
    """
    name = VersionName.of(key.model_version)
    if name.kind is NameKind.ID:
        return key
    if name.kind is NameKind.BRANCH:
        where = BranchKey(site=key.site, model_id=key.model_id, name=name.text)
        target = tx.model_history.branch(where, last_only=True).target
        if target is None:
            raise BranchNotFound(branch=name.text[:100], model=f"model {key.model_id}"[:300])
        return replace(key, model_version=target)
    found = [
        version
        for version in tx.model_tags.versions(name.text)
        if tx.model_history.line(replace(key, model_version=version)) is not None
    ]
    if not found:
        raise TagNotFound(tag_name=name.text[:100])
    if len(found) > 1:
        more = ", ..." if len(found) > _SHOWN else ""
        raise TagNotUnique(
            tag_name=name.text[:100],
            model=f"model {key.model_id}"[:300],
            versions=", ".join(found[:_SHOWN]) + more,
        )
    return replace(key, model_version=found[0])


def site_here(tx: Tx, model_id: str, asked: Site | None = None) -> Site:
    """Return whose history of a model is meant: the site asked for, else the initiator's, else any.

    Raises: ModelNotFound: this server has no version of it there.
    """
    sites = tx.model_history.sites(model_id)
    if asked is not None:
        sites = [site for site in sites if site == asked]
    if not sites:
        raise ModelNotFound(model=f"model {model_id}"[:300])
    if len(sites) == 1:
        return sites[0]
    newest = tx.model_history.page(sites[0], model_id, before=None, limit=1)
    initiators = {line.initiator for line in newest}
    return next((site for site in sites if site in initiators), sites[0])
