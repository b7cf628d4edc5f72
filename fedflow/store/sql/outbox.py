"""Commands on their way to other sites, and the replies to those that came in."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from fedflow.domain.records import Command, CommandKind, Reply
from fedflow.store.codec import message_to_text
from fedflow.store.mapper import JSON, MESSAGE, SITE, Mapper, word
from fedflow.store.rules import answered_twice
from fedflow.store.session import Session, one_of
from fedflow.store.tables import OUTBOX, RECEIVED

_IS_HEAD: Final = (
    "NOT EXISTS (SELECT 1 FROM t_outbox AS older "
    "WHERE older.f_destination_party_id = o.f_destination_party_id "
    "AND older.f_job_id = o.f_job_id AND older.f_id < o.f_id)"
)
_COMMANDS: Final = Mapper(
    OUTBOX,
    Command,
    {
        "number": "f_id",
        "kind": word(CommandKind)("f_kind"),
        "job_id": "f_job_id",
        "source": SITE("f_source_role", "f_source_party_id"),
        "destination": SITE("f_destination_role", "f_destination_party_id"),
        "path": "f_path",
        "body": JSON("f_body"),
        "request_id": "f_request_id",
        "created_ms": "f_create_time",
        "deadline_ms": "f_deadline_time",
        "attempts": "f_attempts",
        "due_ms": "f_due_time",
        "error": MESSAGE("f_error"),
    },
)
_REPLIES: Final = Mapper(
    RECEIVED,
    Reply,
    {"retcode": "f_retcode", "retmsg": MESSAGE("f_retmsg"), "data": JSON("f_data")},
    also={
        "f_request_id": lambda _reply, request_id, _now_ms: request_id,
        "f_create_time": lambda _reply, _request_id, now_ms: now_ms,
    },
)


class SqlOutbox:
    """See `app.ports.scheduling.Outbox`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, commands: Sequence[Command]) -> None:
        self._session.insert_many(OUTBOX, map(_COMMANDS.row, commands))

    def heads(
        self, destination: str, *, now_ms: int, skip: frozenset[str], limit: int
    ) -> list[Command]:
        return self._heads("f_due_time", destination, now_ms, skip, limit)

    def overdue(
        self, destination: str, *, now_ms: int, create_within_ms: int, skip: frozenset[str],
        limit: int,
    ) -> list[Command]:  # fmt: skip
        deadline = _deadline(create_within_ms)
        return self._heads(deadline, destination, now_ms, skip, limit)

    def _heads(
        self, column: str, destination: str, now_ms: int, skip: frozenset[str], limit: int
    ) -> list[Command]:
        found = self._session.rows(
            f"{_COMMANDS.select} AS o WHERE f_destination_party_id = ? AND {column} <= ? "
            f"{_without(skip)}AND {_IS_HEAD} ORDER BY f_id LIMIT ?",
            [destination, now_ms, *skip, limit],
        )
        return _COMMANDS.all(found)

    def destinations(self) -> list[str]:
        found = self._session.rows(
            "SELECT DISTINCT f_destination_party_id FROM t_outbox ORDER BY f_destination_party_id"
        )
        return [party_id for (party_id,) in found]

    def next_due_ms(self, destination: str, *, skip: frozenset[str] = frozenset()) -> int | None:
        return self._first("f_due_time", destination, skip)

    def next_deadline_ms(
        self, destination: str, *, create_within_ms: int, skip: frozenset[str] = frozenset()
    ) -> int | None:  # fmt: skip
        return self._first(_deadline(create_within_ms), destination, skip)

    def _first(self, column: str, destination: str, skip: frozenset[str]) -> int | None:
        found = self._session.row(
            f"SELECT MIN({column}) FROM t_outbox AS o "
            f"WHERE f_destination_party_id = ? {_without(skip)}AND {_IS_HEAD}",
            [destination, *skip],
        )
        return None if found is None else found[0]

    def of_job(self, job_id: str, parties: Collection[str]) -> list[Command]:
        found = self._session.rows(
            f"{_COMMANDS.select} WHERE {one_of('f_destination_party_id', len(parties))} "
            "AND f_job_id = ? ORDER BY f_id",
            [*parties, job_id],
        )
        return _COMMANDS.all(found)

    def remove(self, number: int) -> None:
        self._session.write("DELETE FROM t_outbox WHERE f_id = ?", (number,))

    def retry(self, number: int, *, due_ms: int, error: str) -> None:
        self._session.write(
            "UPDATE t_outbox SET f_attempts = f_attempts + 1, f_due_time = ?, f_error = ? "
            "WHERE f_id = ?",
            (due_ms, message_to_text(error), number),
        )

    def release(self, destination: str | None, *, now_ms: int) -> None:
        where, parameters = ("", []) if destination is None else (
            " AND f_destination_party_id = ?", [destination]
        )  # fmt: skip
        self._session.write(
            f"UPDATE t_outbox SET f_due_time = ? WHERE f_due_time > ?{where}",
            (now_ms, now_ms, *parameters),
        )

    def size(self) -> int:
        found = self._session.row("SELECT COUNT(*) FROM t_outbox")
        return int(found[0]) if found else 0

    def sizes(self) -> dict[str, int]:
        found = self._session.rows(
            "SELECT f_destination_party_id, COUNT(*) FROM t_outbox GROUP BY f_destination_party_id"
        )
        return {party_id: int(count) for party_id, count in found}


def _deadline(create_within_ms: int) -> str:
    """Return the expression for when a command is overdue."""
    within = f"f_create_time + {int(create_within_ms)}"
    return (
        f"(CASE WHEN f_kind = '{CommandKind.CREATE_JOB.value}' AND {within} < f_deadline_time "
        f"THEN {within} ELSE f_deadline_time END)"
    )


def _without(jobs: frozenset[str]) -> str:
    """Return the condition that leaves out some jobs, whose ids are its parameters."""
    return f"AND f_job_id NOT IN ({', '.join('?' * len(jobs))}) " if jobs else ""


class SqlReplyCache:
    """See `app.ports.scheduling.Received`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, request_id: str) -> Reply | None:
        return _REPLIES.one(
            self._session.row(f"{_REPLIES.select} WHERE f_request_id = ?", (request_id,))
        )

    def put(self, request_id: str, reply: Reply, *, now_ms: int) -> None:
        if not self._session.insert(RECEIVED, _REPLIES.row(reply, request_id, now_ms)):
            raise answered_twice(request_id)

    def prune(self, older_than_ms: int) -> int:
        return self._session.write(
            "DELETE FROM t_received_request WHERE f_create_time < ?", (older_than_ms,)
        )

    def forget(self, request_ids: Sequence[str]) -> None:
        if request_ids:
            which = one_of("f_request_id", len(request_ids))
            self._session.write(f"DELETE FROM t_received_request WHERE {which}", request_ids)

    def drop(self, job_id: str) -> None:
        self._session.write(  # "0" is the character after "/"
            "DELETE FROM t_received_request WHERE f_request_id > ? AND f_request_id < ?",
            (f"{job_id}/", f"{job_id}0"),
        )
