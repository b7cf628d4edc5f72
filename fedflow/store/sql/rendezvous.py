"""Runs of rendezvous (`t_rendezvous`): compare-and-set by the token of the last write."""

from __future__ import annotations

from typing import Final

from fedflow.domain.administration.rendezvous import Run, RunKey
from fedflow.store.mapper import Mapper, made
from fedflow.store.session import Session
from fedflow.store.tables import RENDEZVOUS

_ROWS: Final = Mapper(
    RENDEZVOUS,
    Run,
    {
        "key": made(RunKey, scope="scope", run_id="run_id")("f_scope", "f_run_id"),
        "caller": "f_caller",
        "token": "f_token",
        "text": "f_state",
        "created_ms": "f_create_time",
        "updated_ms": "f_update_time",
    },
)
_WITHOUT_TEXT: Final = Mapper(
    RENDEZVOUS,
    Run,
    {
        "key": made(RunKey, scope="scope", run_id="run_id")("f_scope", "f_run_id"),
        "caller": "f_caller",
        "token": "f_token",
        "created_ms": "f_create_time",
        "updated_ms": "f_update_time",
    },
    joined=("text",),
)


class SqlRendezvous:
    """See `app.ports.administration.RendezvousStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, key: RunKey) -> Run | None:
        query = f"{_ROWS.select} WHERE f_scope = ? AND f_run_id = ?"
        return _ROWS.one(self._session.row(query, (key.scope, key.run_id)))

    def add(self, run: Run) -> bool:
        return self._session.insert(RENDEZVOUS, _ROWS.row(run))

    def replace(self, key: RunKey, text: str, *, seen: str, token: str, now_ms: int) -> bool:
        written = self._session.write(
            "UPDATE t_rendezvous SET f_token = ?, f_state = ?, f_update_time = ? "
            "WHERE f_scope = ? AND f_run_id = ? AND f_token = ?",
            (token, text, now_ms, key.scope, key.run_id, seen),
        )
        return written > 0

    def count(self, caller: str | None = None) -> int:
        query, values = "SELECT COUNT(*) FROM t_rendezvous", ()
        if caller is not None:
            found = self._session.row(f"{query} WHERE f_caller = ?", (caller,))
        else:
            found = self._session.row(query, values)
        return int(found[0]) if found else 0

    def all(self, *, limit: int) -> list[Run]:
        query = f"{_WITHOUT_TEXT.select} ORDER BY f_update_time DESC, f_run_id, f_scope LIMIT ?"
        return [_WITHOUT_TEXT.read(row, "") for row in self._session.rows(query, (limit,))]

    def drop(self, key: RunKey) -> bool:
        gone = self._session.write(
            "DELETE FROM t_rendezvous WHERE f_scope = ? AND f_run_id = ?", (key.scope, key.run_id)
        )
        return gone > 0

    def drop_older(self, before_ms: int) -> int:
        return self._session.write("DELETE FROM t_rendezvous WHERE f_update_time < ?", (before_ms,))
