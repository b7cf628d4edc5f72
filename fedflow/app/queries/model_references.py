"""What refers to a version of a model, so that it stays when the job that trained it is deleted."""

from __future__ import annotations

from typing import Any, Final

from fedflow.app.ports.store import Tx
from fedflow.domain.models.model import ModelVersion
from fedflow.domain.records import TaskRecord

_USERS: Final = ("modelloader", "modelstore")  #: modules whose parameters name a version
_PAGE: Final = 1_000  #: versions that are looked at together


def reference_to(tx: Tx, version: ModelVersion, *, user: str | None) -> str:
    """Return why a site's part of a version stays; empty: nothing refers to it.

    `user` is a job that has not ended and uses the version.
    """
    child = _child_of(tx, version)
    if child is not None:
        return f"version {child} was deployed from it"
    if version.loaded_times:
        return "it was loaded for serving"
    tags = tx.model_tags.of_version(version.key.model_version)
    if tags:
        return f"it has the tag {tags[0].name}"
    branch = _branch_of(tx, version)
    if branch:
        return branch
    return "" if user is None else f"job {user} predicts with it, or loads it"


def loaded_version(task: TaskRecord) -> str | None:
    """Return the version of a model that a task loads or stores; None: it does neither."""
    if task.module.lower() not in _USERS:
        return None
    version = task.parameters.get("model_version")
    return None if version is None else str(version)


def _child_of(tx: Tx, version: ModelVersion) -> str | None:
    """Return a version that was deployed from this one at its site."""
    key, before = version.key, None
    while True:
        lines = tx.model_history.page(key.site, key.model_id, before=before, limit=_PAGE)
        for line in lines:
            if _object(line.parent_info).get("parent_model_version") == key.model_version:
                return line.key.model_version
        if len(lines) < _PAGE:
            return None
        before = (lines[-1].created_ms, lines[-1].key.model_version)


def _branch_of(tx: Tx, version: ModelVersion) -> str:
    """Return which branch names a version, or would after a rollback; empty: none."""
    key = version.key
    for head in tx.model_history.heads(key.site, key.model_id):
        if head.model_version == key.model_version:
            return f"the branch {head.key.name} names it"
        if tx.model_history.branch(head.key).previous == key.model_version:
            return f"a rollback of the branch {head.key.name} leads to it"
    return ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
