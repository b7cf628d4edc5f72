"""Storing a change of a model's history at one site, and taking it back.

A change is kept as plain JSON between prepare and commit, see `change_here`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedflow import __version__
from fedflow.app.ports.store import Tx
from fedflow.domain.job.own_conf import own_conf
from fedflow.domain.models.history import Author, BranchKey, CommitNote, Move, MoveKind
from fedflow.domain.models.model import ModelKey, ModelVersion
from fedflow.domain.site import Site
from fedflow.wire.commands import ChangeHistory, plain

COMMIT: Final = "commit"  #: the action that is no move of a branch

_READER: Final = "reader"


def change_here(body: ChangeHistory, key: ModelKey) -> dict[str, Any]:
    """Return a change as it is kept until it is committed."""
    return {**plain(body), "site": key.site.key, "model_version": key.model_version}


def add(tx: Tx, change: Mapping[str, Any]) -> bool:
    """Store a change; twice has no second effect. False: the history went on meanwhile."""
    key = _key(change)
    author = Author(party_id=change["author_party"], person=change.get("person", ""))
    message = change.get("message", "")
    if change["action"] == COMMIT:
        note = CommitNote(
            key=key,
            id=change["change"],
            message=message,
            author=author,
            approval=change.get("approval", ""),
            shares=change.get("shares", {}),
            made_with=made_with(tx, key),
            created_ms=change["created_ms"],
        )
        return tx.model_history.put_note(note) or _note_id(tx, key) == change["change"]
    kind = MoveKind(change["action"])
    if kind is not MoveKind.DELETE and key not in tx.models.lock(key.model_version):
        return False  # its version was deleted since this was prepared
    branch = tx.model_history.branch(_branch_key(change), last_only=True)
    if branch.last_id == change["change"]:
        return True
    if kind is not MoveKind.DELETE and branch.last_id != change.get("after", ""):
        return False
    move = Move(
        key=branch.key,
        number=branch.last.number + 1 if branch.last else 1,
        id=change["change"],
        kind=kind,
        model_version=key.model_version,
        author=author,
        message=message,
        created_ms=change["created_ms"],
    )
    return tx.model_history.add_move(move)


def remove(tx: Tx, change: Mapping[str, Any]) -> None:
    """Take a change back, if it was stored."""
    if change["action"] == COMMIT:
        tx.model_history.drop_note(_key(change), change["change"])
    else:
        tx.model_history.drop_move(_branch_key(change), change["change"])


def made_with(tx: Tx, key: ModelKey) -> dict[str, Any]:
    """Return which code and which rows of this site a version was made with, as far as is known.

    Tables are those that readers of the training read here; `rows` is None if the table was
    dropped or replaced since.
    """
    version = tx.models.get(key)
    if version is None:
        return {}
    conf = own_conf(version.train_conf, key.site, version.roles, is_initiator=False)
    provider = conf.get("provider") if isinstance(conf, dict) else None
    return {
        "fedflow": __version__,
        "fate": version.fate_version,
        "provider": provider or {},
        "tables": _tables(tx, version),
    }


def _tables(tx: Tx, version: ModelVersion) -> list[dict[str, Any]]:
    info = version.parent_info if isinstance(version.parent_info, dict) else {}
    job_id = str(info.get("parent_model_version") or version.job_id)
    given = version.train_dsl.get("components") if isinstance(version.train_dsl, dict) else None
    components = given if isinstance(given, dict) else {}
    readers = [
        name
        for name, one in components.items()
        if isinstance(one, dict) and str(one.get("module", "")).lower() == _READER
    ]
    tables = []
    for name in readers:
        for output in tx.tracking.outputs(job_id, name, version.key.site):
            table = tx.tables.get(output.namespace, output.name)
            same = table is not None and table.address == output.address
            tables.append(
                {
                    "component": name,
                    "namespace": output.namespace,
                    "name": output.name,
                    "rows_id": output.address,
                    "rows": table.count if table is not None and same else None,
                }
            )
    return tables


def _note_id(tx: Tx, key: ModelKey) -> str:
    note = tx.model_history.notes(key.site, key.model_id, [key.model_version]).get(
        key.model_version
    )
    return note.id if note else ""


def _key(change: Mapping[str, Any]) -> ModelKey:
    return ModelKey(
        site=Site.from_key(change["site"]),
        model_id=change["model_id"],
        model_version=change["model_version"],
    )


def _branch_key(change: Mapping[str, Any]) -> BranchKey:
    return BranchKey(
        site=Site.from_key(change["site"]), model_id=change["model_id"], name=change["branch"]
    )
