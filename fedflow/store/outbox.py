"""Commands on their way to other sites, and the replies to those that came in."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from fedflow.domain.records import Command, CommandKind, Reply
from fedflow.store.codec import from_json, site_of, to_json
from fedflow.store.rules import answered_twice
from fedflow.store.session import Found, Session, Value, one_of
from fedflow.store.tables import OUTBOX, RECEIVED

_KINDS: Final = {k.value: k for k in CommandKind}
_IS_HEAD: Final = (
    "NOT EXISTS (SELECT 1 FROM t_outbox AS older "
    "WHERE older.f_destination_party_id = o.f_destination_party_id "
    "AND older.f_job_id = o.f_job_id AND older.f_id < o.f_id)"
)
_SELECT: Final = (
    "SELECT f_id, f_kind, f_job_id, f_source_role, f_source_party_id, f_destination_role, "
    "f_destination_party_id, f_path, f_body, f_request_id, f_create_time, f_deadline_time, "
    "f_attempts, f_due_time, f_error FROM t_outbox AS o"
)


class SqlOutbox:
    """See `app.ports.Outbox`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, commands: Sequence[Command]) -> None:
        self._session.insert_many(OUTBOX, map(_row, commands))

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
            f"{_SELECT} WHERE f_destination_party_id = ? AND {column} <= ? {_without(skip)}"
            f"AND {_IS_HEAD} ORDER BY f_id LIMIT ?",
            [destination, now_ms, *skip, limit],
        )
        return [_command(r) for r in found]

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
            f"{_SELECT} WHERE {one_of('f_destination_party_id', len(parties))} AND f_job_id = ? "
            "ORDER BY f_id",
            [*parties, job_id],
        )
        return [_command(r) for r in found]

    def remove(self, number: int) -> None:
        self._session.write("DELETE FROM t_outbox WHERE f_id = ?", (number,))

    def retry(self, number: int, *, due_ms: int, error: str) -> None:
        self._session.write(
            "UPDATE t_outbox SET f_attempts = f_attempts + 1, f_due_time = ?, f_error = ? "
            "WHERE f_id = ?",
            (due_ms, error, number),
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


class SqlReceived:
    """See `app.ports.Received`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, request_id: str) -> Reply | None:
        found = self._session.row(
            "SELECT f_retcode, f_retmsg, f_data FROM t_received_request WHERE f_request_id = ?",
            (request_id,),
        )
        if found is None:
            return None
        return Reply(retcode=found[0], retmsg=found[1], data=from_json(found[2]))

    def put(self, request_id: str, reply: Reply, *, now_ms: int) -> None:
        row: dict[str, Value] = {
            "f_request_id": request_id,
            "f_retcode": reply.retcode,
            "f_retmsg": reply.retmsg,
            "f_data": to_json(reply.data),
            "f_create_time": now_ms,
        }
        if not self._session.insert(RECEIVED, row):
            raise answered_twice(request_id)

    def prune(self, older_than_ms: int) -> int:
        return self._session.write(
            "DELETE FROM t_received_request WHERE f_create_time < ?", (older_than_ms,)
        )


def _row(command: Command) -> dict[str, Value]:
    return {
        "f_kind": command.kind.value,
        "f_job_id": command.job_id,
        "f_source_role": command.source.role.value,
        "f_source_party_id": command.source.party_id,
        "f_destination_role": command.destination.role.value,
        "f_destination_party_id": command.destination.party_id,
        "f_path": command.path,
        "f_body": to_json(command.body),
        "f_request_id": command.request_id,
        "f_create_time": command.created_ms,
        "f_deadline_time": command.deadline_ms,
        "f_attempts": command.attempts,
        "f_due_time": command.due_ms,
        "f_error": command.error,
    }


def _command(found: Found) -> Command:
    (
        number, kind, job_id, source_role, source_party_id, role, party_id, path, body, request_id,
        created_ms, deadline_ms, attempts, due_ms, error,
    ) = found  # fmt: skip
    return Command(
        kind=_KINDS[kind],
        job_id=job_id,
        source=site_of(source_role, source_party_id),
        destination=site_of(role, party_id),
        path=path,
        body=from_json(body),
        request_id=request_id,
        created_ms=created_ms,
        deadline_ms=deadline_ms,
        number=number,
        attempts=attempts,
        due_ms=due_ms,
        error=error,
    )
