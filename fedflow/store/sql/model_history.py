"""Histories of models: descent of versions, what is said of them, and moves of branches."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fedflow.domain.models.history import (
    Author,
    Branch,
    BranchKey,
    CommitNote,
    Move,
    MoveKind,
    VersionLine,
)
from fedflow.domain.models.model import ModelKey
from fedflow.domain.site import Site
from fedflow.store.codec import site_of
from fedflow.store.mapper import FLAG, JSON, MODEL_KEY, SITE, Kind, Mapper, made, site_columns, word
from fedflow.store.session import Session, Value, one_of
from fedflow.store.tables import MODEL_BRANCH, MODEL_COMMIT, MODEL_VERSION

_OF_SITE: Final = "f_role = ? AND f_party_id = ? AND f_model_id = ?"
_ONE: Final = f"{_OF_SITE} AND f_model_version = ?"
_BRANCH: Final = f"{_OF_SITE} AND f_branch = ?"
_KEY: Final = MODEL_KEY("f_role", "f_party_id", "f_model_id", "f_model_version")
_AUTHOR: Final = made(Author, party_id="party_id", person="person")("f_author", "f_person")
_BRANCH_KEY: Final = Kind(
    lambda role, party_id, model_id, name: BranchKey(
        site=site_of(role, party_id), model_id=model_id, name=name
    ),
    lambda key: (*site_columns(key.site), key.model_id, key.name),
)
_LOADS: Final = (
    "CASE WHEN f_parent = 1 AND INSTR(LOWER(f_train_dsl), 'modelloader') > 0 "
    "THEN {} ELSE '{{}}' END"
)
_LINES: Final = Mapper(
    MODEL_VERSION,
    VersionLine,
    {
        "key": _KEY,
        "roles": JSON("f_roles"),
        "initiator": SITE("f_initiator_role", "f_initiator_party_id"),
        "parent": FLAG("f_parent"),
        "parent_info": JSON("f_parent_info"),
        "imported": FLAG("f_imported"),
        "created_ms": "f_create_time",
        "train_dsl": JSON(_LOADS.format("f_train_dsl")),
        "train_conf": JSON(_LOADS.format("f_train_runtime_conf")),
    },
)
_NOTES: Final = Mapper(
    MODEL_COMMIT,
    CommitNote,
    {
        "key": _KEY,
        "id": "f_change_id",
        "message": "f_message",
        "author": _AUTHOR,
        "approval": "f_approval",
        "shares": JSON("f_shares"),
        "made_with": JSON("f_made_with"),
        "created_ms": "f_create_time",
    },
)
_MOVES: Final = Mapper(
    MODEL_BRANCH,
    Move,
    {
        "key": _BRANCH_KEY("f_role", "f_party_id", "f_model_id", "f_branch"),
        "number": "f_number",
        "id": "f_change_id",
        "kind": word(MoveKind)("f_kind"),
        "model_version": "f_model_version",
        "author": _AUTHOR,
        "message": "f_message",
        "created_ms": "f_create_time",
    },
)


class SqlModelHistory:
    """See `app.ports.models.ModelHistoryStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    # --- versions ---

    def sites(self, model_id: str) -> list[Site]:
        found = self._session.rows(
            "SELECT DISTINCT f_role, f_party_id FROM t_machine_learning_model_info "
            "WHERE f_model_id = ? ORDER BY f_role, f_party_id",
            (model_id,),
        )
        return [site_of(role, party_id) for role, party_id in found]

    def line(self, key: ModelKey) -> VersionLine | None:
        return _LINES.one(
            self._session.row(
                f"{_LINES.select} WHERE {_ONE} AND f_ready = 1",
                (*_model(key.site, key.model_id), key.model_version),
            )
        )

    def page(
        self, site: Site, model_id: str, *, before: tuple[int, str] | None, limit: int
    ) -> list[VersionLine]:
        older = "" if before is None else "AND (f_create_time, f_model_version) < (?, ?) "
        since = before or ()
        found = self._session.rows(
            f"{_LINES.select} WHERE {_OF_SITE} AND f_ready = 1 {older}"
            "ORDER BY f_create_time DESC, f_model_version DESC LIMIT ?",
            (*_model(site, model_id), *since, limit),
        )
        return _LINES.all(found)

    # --- notes ---

    def put_note(self, note: CommitNote) -> bool:
        return self._session.insert(MODEL_COMMIT, _NOTES.row(note))

    def drop_note(self, key: ModelKey, change_id: str) -> None:
        self._session.write(
            f"DELETE FROM t_model_commit WHERE {_ONE} AND f_change_id = ?",
            (*_model(key.site, key.model_id), key.model_version, change_id),
        )

    def notes(self, site: Site, model_id: str, versions: Collection[str]) -> dict[str, CommitNote]:
        asked = sorted(set(versions))
        found = self._session.rows(
            f"{_NOTES.select} WHERE {_OF_SITE} AND {one_of('f_model_version', len(asked))}",
            (*_model(site, model_id), *asked),
        )
        return {note.key.model_version: note for note in _NOTES.all(found)}

    # --- branches ---

    def add_move(self, move: Move) -> bool:
        return self._session.insert(MODEL_BRANCH, _MOVES.row(move))

    def drop_move(self, key: BranchKey, change_id: str) -> None:
        self._session.write(
            f"DELETE FROM t_model_branch WHERE {_BRANCH} AND f_change_id = ?",
            (*_model(key.site, key.model_id), key.name, change_id),
        )

    def branch(self, key: BranchKey, *, last_only: bool = False) -> Branch:
        order = "ORDER BY f_number DESC LIMIT 1" if last_only else "ORDER BY f_number"
        found = self._session.rows(
            f"{_MOVES.select} WHERE {_BRANCH} {order}",
            (*_model(key.site, key.model_id), key.name),
        )
        return Branch(key=key, moves=_MOVES.all(found))

    def heads(self, site: Site, model_id: str) -> list[Move]:
        model = _model(site, model_id)
        found = self._session.rows(
            f"{_MOVES.select} WHERE {_OF_SITE} AND f_kind <> ? AND (f_branch, f_number) IN "
            f"(SELECT f_branch, MAX(f_number) FROM t_model_branch WHERE {_OF_SITE} "
            "GROUP BY f_branch) ORDER BY f_branch",
            (*model, MoveKind.DELETE.value, *model),
        )
        return _MOVES.all(found)


def _model(site: Site, model_id: str) -> tuple[Value, ...]:
    """Return the values of `_OF_SITE`."""
    return (*site_columns(site), model_id)
