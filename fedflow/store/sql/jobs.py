"""The party half of jobs, and the engines whose cores they hold."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fedflow.domain.job.amounts import NOTHING, UNCOUNTED, ComputeResources
from fedflow.domain.job.engines import STANDALONE
from fedflow.domain.job.figures import Figure, with_figures
from fedflow.domain.job.warning import JobWarning, merged
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    SUBMIT_FAILED,
    Engine,
    JobFilter,
    JobKey,
    JobRecord,
    Json,
    Moved,
    Order,
    Sort,
    Stale,
)
from fedflow.domain.states import JOB_FINAL, JobEvent, JobStatus, next_job_status
from fedflow.store import recording
from fedflow.store.codec import (
    JOB_STATUSES,
    OPEN_JOB,
    figures_from_text,
    figures_to_text,
    from_json,
    reason_to_text,
    short_text,
    site_of,
    to_json,
)
from fedflow.store.job_tables import JOB
from fedflow.store.mapper import (
    DOCUMENT,
    FIGURES,
    FLAG,
    JOB_KEY,
    JSON,
    REASON,
    SITE,
    WARNINGS,
    Mapper,
    elapsed,
    single,
    word,
)
from fedflow.store.recording import PARAMETERS_CHANGED
from fedflow.store.session import Session, Value, one_of
from fedflow.store.tables import ENGINE


def _partners(job: JobRecord) -> str:
    return ",".join(sorted(job.partners))


_ENGINE_TYPE: Final = "computing"
_ANY: Final = 2**60  #: whoever needs none of a thing may go however little is left
_DOCUMENT_OR_EMPTY: Final = single(lambda text: {} if text is None else from_json(text), to_json)
_ENGINE: Final = single(lambda name: name or STANDALONE, lambda name: name)
JOBS: Final = Mapper(
    JOB,
    JobRecord,
    {
        "key": JOB_KEY("f_job_id", "f_role", "f_party_id"),
        "initiator": SITE("f_initiator_role", "f_initiator_party_id"),
        "status": word(JobStatus)("f_status"),
        "epoch": "f_epoch",
        "dsl": DOCUMENT("f_dsl"),
        "conf": DOCUMENT("f_runtime_conf"),
        "roles": JSON("f_roles"),
        "cores": "f_cores",
        "created_ms": "f_create_time",
        "updated_ms": "f_update_time",
        "reason": REASON("f_reason"),
        "progress": "f_progress",
        "in_use": FLAG("f_resource_in_use"),
        "applied_ms": "f_apply_resource_time",
        "returned_ms": "f_return_resource_time",
        "started_ms": "f_start_time",
        "ended_ms": "f_end_time",
        "memory": "f_memory",
        "engine": _ENGINE("f_engine_name"),
        "queued_ms": "f_queue_time",
        "name": "f_name",
        "figures": FIGURES("f_figures"),
        "description": "f_description",
        "user": "f_user_id",
        "tag": "f_tag",
        "warnings": WARNINGS("f_warnings"),
        "parameters": _DOCUMENT_OR_EMPTY("f_job_parameters"),
        "train_conf": _DOCUMENT_OR_EMPTY("f_train_runtime_conf"),
        "size_bytes": "f_bytes",
    },
    also={
        "f_is_initiator": lambda job: int(job.is_initiator),
        "f_denied_time": None,
        "f_partners": _partners,
        "f_partners_short": lambda job: short_text(_partners(job)),
        "f_description_short": lambda job: short_text(job.description),
        "f_elapsed": elapsed,
    },
)
_NEWEST_FIRST: Final = "f_create_time DESC, f_job_id DESC, f_role, f_party_id"
_OLDEST_FIRST: Final = "f_create_time, f_job_id, f_role DESC, f_party_id DESC"
_ORDERS: Final = {
    Sort.JOB_ID: "f_job_id {direction}, ",
    Sort.STARTED: "f_start_time IS NULL, f_start_time {direction}, ",
    Sort.ENDED: "f_end_time IS NULL, f_end_time {direction}, ",
    Sort.ELAPSED: "f_elapsed IS NULL, f_elapsed {direction}, ",
    Sort.ACTIVITY: "f_end_time IS NULL {direction}, f_end_time {direction}, ",
}
_TIMES: Final = {
    Sort.CREATED: "f_create_time",
    Sort.STARTED: "f_start_time",
    Sort.ENDED: "f_end_time",
    Sort.ELAPSED: "f_elapsed",
}
_ONE: Final = "WHERE f_job_id = ? AND f_role = ? AND f_party_id = ?"


class SqlJobs:
    """See `app.ports.jobs.JobStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, record: JobRecord) -> None:
        if self._session.insert(JOB, JOBS.row(record)):
            self._session.tell(recording.job_added(record))

    def get(self, key: JobKey) -> JobRecord | None:
        return JOBS.one(self._session.row(f"{JOBS.select} {_ONE}", _key(key)))

    def find(self, which: JobFilter) -> list[JobRecord]:
        # The keys first, from an index alone: rows are long, as DSL and conf are in them. SQLite
        # takes the tables of a CROSS JOIN in the order in which they are written
        conditions, values = job_conditions(which)
        order = job_order(which.order)
        found = self._session.rows(
            f"SELECT {JOBS.columns} FROM (SELECT f_job_id, f_role, f_party_id FROM t_job "
            f"WHERE {conditions} ORDER BY {order} LIMIT ? OFFSET ?) AS page "
            f"CROSS JOIN t_job USING (f_job_id, f_role, f_party_id) ORDER BY {order}",
            [*values, which.limit, which.offset],
        )
        return JOBS.all(found)

    def count(self, which: JobFilter) -> int:
        conditions, values = job_conditions(which)
        found = self._session.row(f"SELECT COUNT(*) FROM t_job WHERE {conditions}", values)
        return int(found[0]) if found else 0

    def move(
        self,
        key: JobKey,
        event: JobEvent,
        *,
        seen: JobStatus,
        now_ms: int,
        reason: Reason | None = None,
    ) -> Moved | Stale:
        status = next_job_status(seen, event)
        matched = self._session.write(
            "UPDATE t_job SET f_status = ?, f_reason = ?, f_update_time = ?, "
            "f_start_time = COALESCE(f_start_time, ?), f_end_time = COALESCE(f_end_time, ?), "
            f"f_elapsed = COALESCE(f_elapsed, ? - f_start_time) {_ONE} AND f_status = ?",
            (
                status.value,
                reason_to_text(reason),
                now_ms,
                *job_times(status, now_ms),
                *_key(key),
                seen.value,
            ),
        )
        if not matched:
            return Stale()
        self._session.tell(recording.job_moved(key, seen, status, reason=reason, now_ms=now_ms))
        return Moved(status)

    def status(self, key: JobKey) -> JobStatus | None:
        found = self._session.row(f"SELECT f_status FROM t_job {_ONE}", _key(key))
        return None if found is None else JOB_STATUSES[found[0]]

    def set_progress(self, key: JobKey, progress: int, *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_job SET f_progress = ?, f_update_time = ? {_ONE} AND f_progress < ?",
            (progress, now_ms, *_key(key), progress),
        )

    def set_description(self, key: JobKey, text: str, *, now_ms: int) -> None:
        self._session.write(
            "UPDATE t_job SET f_description = ?, f_description_short = ?, f_update_time = ? "
            f"{_ONE}",
            (text, short_text(text), now_ms, *_key(key)),
        )

    def set_name(self, key: JobKey, name: str, *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_job SET f_name = ?, f_update_time = ? {_ONE}", (name, now_ms, *_key(key))
        )

    def set_figures(
        self, key: JobKey, component: str, figures: Sequence[Figure], *, now_ms: int
    ) -> None:
        found = self._session.row(f"SELECT f_figures FROM t_job {_ONE}", _key(key), lock=True)
        if found is not None:
            changed = with_figures(figures_from_text(found[0]), component, figures)
            self._session.write(
                f"UPDATE t_job SET f_figures = ?, f_update_time = ? {_ONE}",
                (figures_to_text(changed), now_ms, *_key(key)),
            )

    def set_tag(self, key: JobKey, tag: str, *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_job SET f_tag = ?, f_update_time = ? {_ONE}", (tag, now_ms, *_key(key))
        )

    def add_warnings(self, key: JobKey, warnings: Sequence[JobWarning], *, now_ms: int) -> None:
        job = self.get(key)
        if job is not None:
            self.set_warnings(key, merged(job.warnings, warnings), now_ms=now_ms)

    def set_warnings(self, key: JobKey, warnings: Sequence[JobWarning], *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_job SET f_warnings = ?, f_update_time = ? {_ONE}",
            (to_json(tuple(warnings)), now_ms, *_key(key)),
        )

    def taken_by(self, initiator: str) -> tuple[int, int]:
        found = self._session.row(
            f"SELECT COUNT(CASE WHEN f_status IN {OPEN_JOB} THEN 1 END), COALESCE(SUM(f_bytes), 0) "
            "FROM t_job WHERE f_initiator_party_id = ?",
            (initiator,),
        )
        return (0, 0) if found is None else (int(found[0]), int(found[1]))

    def grow(self, key: JobKey, more_bytes: int) -> None:
        self._session.write(
            f"UPDATE t_job SET f_bytes = f_bytes + ? {_ONE}", (more_bytes, *_key(key))
        )

    def set_conf(
        self, key: JobKey, conf: Json, parameters: Json, *, now_ms: int, more_bytes: int = 0
    ) -> None:
        matched = self._session.write(
            "UPDATE t_job SET f_runtime_conf = ?, f_job_parameters = ?, f_bytes = f_bytes + ?, "
            f"f_update_time = ? {_ONE}",
            (to_json(conf), to_json(parameters), more_bytes, now_ms, *_key(key)),
        )
        if matched:
            self._session.tell(recording.job_told(key, PARAMETERS_CHANGED, now_ms=now_ms))

    def reopen(
        self, key: JobKey, *, seen: JobStatus, epoch: int, conf: Json, parameters: Json,
        cores: int, now_ms: int, memory: int = 0, engine: str | None = None, more_bytes: int = 0,
    ) -> Moved | Stale:  # fmt: skip
        status = next_job_status(seen, JobEvent.REOPENED)
        matched = self._session.write(
            "UPDATE t_job SET f_status = ?, f_epoch = ?, f_runtime_conf = ?, f_job_parameters = ?, "
            "f_cores = ?, f_memory = ?, f_engine_name = COALESCE(?, f_engine_name), "
            "f_queue_time = ?, f_denied_time = NULL, f_progress = 0, "
            "f_reason = NULL, f_tag = '', f_start_time = NULL, f_end_time = NULL, "
            "f_elapsed = NULL, f_bytes = f_bytes + ?, f_update_time = ? "
            f"{_ONE} AND f_status = ? AND f_resource_in_use = 0",
            (
                status.value,
                epoch,
                to_json(conf),
                to_json(parameters),
                cores,
                memory,
                engine,
                now_ms,
                more_bytes,
                now_ms,
                *_key(key),
                seen.value,
            ),
        )
        if not matched:
            return Stale()
        self._session.tell(recording.job_moved(key, seen, status, now_ms=now_ms, epoch=epoch))
        return Moved(status)

    def take_cores(self, key: JobKey, *, now_ms: int) -> bool:
        # always the job's rows before the engine's: so no two transactions wait for each other
        shares = self._session.rows(
            "SELECT f_role, f_party_id, f_cores, f_memory, f_resource_in_use, f_status, "
            "COALESCE(f_engine_name, ?) FROM t_job WHERE f_job_id = ?",
            (STANDALONE, key.job_id),
            lock=True,
        )
        own = [s for s in shares if (s[0], s[1]) == (key.site.role.value, key.site.party_id)]
        if not own:
            return False
        _, _, cores, memory, in_use, _, engine = own[0]
        if in_use:
            return True
        # all that the job will take here must be there, so that no two jobs hold a part each
        needs: dict[str, ComputeResources] = {}
        for s in shares:
            if s is own[0] or not (s[4] or JOB_STATUSES[s[5]] in JOB_FINAL):
                needs[s[6]] = needs.get(s[6], NOTHING) + ComputeResources(cores=s[2], memory=s[3])
        share, need = ComputeResources(cores=cores, memory=memory), needs.pop(engine)
        if share != NOTHING and not (
            self._have(engine, needs) and self._take(engine, share, need, now_ms=now_ms)
        ):
            return False
        self._session.write(
            "UPDATE t_job SET f_resource_in_use = 1, f_apply_resource_time = ?, "
            "f_return_resource_time = NULL, f_denied_time = NULL, f_update_time = ? "
            f"{_ONE}",
            (now_ms, now_ms, *_key(key)),
        )
        self._session.tell(recording.cores_moved(key, held=True, now_ms=now_ms))
        return True

    def _have(self, engine: str, needs: Mapping[str, ComputeResources]) -> bool:
        """Tell whether engines other than `engine` have free what the job needs of them; all are
        locked then, in the order of their names.
        """
        needs = {name: need for name, need in needs.items() if need != NOTHING}
        if not needs:
            return True
        names = sorted((engine, *needs))
        found = self._session.rows(
            "SELECT f_engine_name, f_remaining_cores, f_memory, f_remaining_memory "
            f"FROM t_engine_registry WHERE {one_of('f_engine_name', len(names))} "
            "AND f_engine_type = ? ORDER BY f_engine_name",
            (*names, _ENGINE_TYPE),
            lock=True,
        )
        free = {
            name: ComputeResources(cores=cores, memory=left if memory else UNCOUNTED)
            for name, cores, memory, left in found
        }
        return all(need.fits(free.get(name, NOTHING)) for name, need in needs.items())

    def _take(
        self, engine: str, share: ComputeResources, need: ComputeResources, *, now_ms: int
    ) -> bool:
        """Take a share; False if less than `need` is free of what it takes."""
        taken = self._session.write(
            "UPDATE t_engine_registry SET f_remaining_cores = f_remaining_cores - ?, "
            "f_remaining_memory = f_remaining_memory - ?, f_update_time = ? "
            "WHERE f_engine_name = ? AND f_engine_type = ? AND f_remaining_cores >= ? "
            "AND (f_memory = 0 OR f_remaining_memory >= ?)",
            (
                share.cores, share.memory, now_ms, engine, _ENGINE_TYPE,
                need.cores if share.cores else -_ANY, need.memory if share.memory else -_ANY,
            ),
        )  # fmt: skip
        return bool(taken)

    def return_cores(self, key: JobKey, *, now_ms: int) -> bool:
        found = self._session.row(
            f"SELECT f_cores, f_memory, f_resource_in_use, f_engine_name FROM t_job {_ONE}",
            _key(key),
            lock=True,
        )
        if found is None or not found[2]:
            return False
        cores, memory, _, engine = found
        self._session.write(
            "UPDATE t_job SET f_resource_in_use = 0, f_return_resource_time = ?, f_update_time = ? "
            f"{_ONE}",
            (now_ms, now_ms, *_key(key)),
        )
        self._session.write(
            "UPDATE t_engine_registry SET f_remaining_cores = f_remaining_cores + ?, "
            "f_remaining_memory = f_remaining_memory + ?, f_update_time = ? "
            "WHERE f_engine_name = ? AND f_engine_type = ?",
            (cores, memory, now_ms, engine or STANDALONE, _ENGINE_TYPE),
        )
        self._session.tell(recording.cores_moved(key, held=False, now_ms=now_ms))
        return True

    def shares(self, job_id: str) -> list[JobRecord]:
        found = self._session.rows(
            f"{JOBS.select} WHERE f_job_id = ? ORDER BY f_role, f_party_id", (job_id,)
        )
        return JOBS.all(found)

    def etag(self, job_id: str) -> str:
        found = self._session.rows(
            "SELECT f_role, f_party_id, f_status, f_epoch, f_progress, f_resource_in_use, f_reason,"
            " f_update_time FROM t_job WHERE f_job_id = ? ORDER BY f_role, f_party_id",
            (job_id,),
        )
        return ";".join("-".join(str(value or 0) for value in row) for row in found)

    def engines(self, job_ids: Collection[str]) -> dict[JobKey, str]:
        found = self._session.rows(
            "SELECT f_job_id, f_role, f_party_id, COALESCE(f_engine_name, ?) FROM t_job "
            f"WHERE {one_of('f_job_id', len(job_ids))}",
            (STANDALONE, *job_ids),
        )
        return {
            JobKey(job_id=job_id, site=site_of(role, party_id)): engine
            for job_id, role, party_id, engine in found
        }

    def open_jobs(self) -> list[JobRecord]:
        found = self._session.rows(
            f"{JOBS.select} WHERE f_status IN {OPEN_JOB} OR f_resource_in_use = 1 "
            "ORDER BY f_create_time, f_job_id, f_role, f_party_id"
        )
        return JOBS.all(found)

    def drop(self, job_id: str) -> int:
        return self._session.write("DELETE FROM t_job WHERE f_job_id = ?", (job_id,))


class SqlEngines:
    """See `app.ports.jobs.EngineStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(
        self, name: str, cores: int, *, now_ms: int, memory: int = 0, cores_percent: float = 1.0
    ) -> None:
        # MySQL assigns from left to right: the difference must be taken before the new total is set
        known = self._session.write(
            "UPDATE t_engine_registry SET f_remaining_cores = f_remaining_cores + (? - f_cores), "
            "f_cores = ?, f_remaining_memory = f_remaining_memory + (? - f_memory), f_memory = ?, "
            "f_cores_percent = ?, f_update_time = ? WHERE f_engine_name = ? AND f_engine_type = ?",
            (cores, cores, memory, memory, cores_percent, now_ms, name, _ENGINE_TYPE),
        )
        if not known:
            self._session.insert(
                ENGINE,
                {
                    "f_engine_name": name,
                    "f_engine_type": _ENGINE_TYPE,
                    "f_cores": cores,
                    "f_remaining_cores": cores,
                    "f_memory": memory,
                    "f_remaining_memory": memory,
                    "f_cores_percent": cores_percent,
                    "f_create_time": now_ms,
                    "f_update_time": now_ms,
                },
            )

    def get(self, name: str) -> Engine | None:
        found = self._session.row(
            "SELECT f_cores, f_remaining_cores, f_memory, f_remaining_memory, f_cores_percent "
            "FROM t_engine_registry WHERE f_engine_name = ? AND f_engine_type = ?",
            (name, _ENGINE_TYPE),
        )
        if found is None:
            return None
        cores, remaining_cores, memory, remaining_memory, cores_percent = found
        return Engine(
            name=name,
            cores=cores,
            remaining_cores=remaining_cores,
            memory=memory,
            remaining_memory=remaining_memory,
            cores_percent=cores_percent,
        )


def job_times(status: JobStatus, now_ms: int) -> tuple[int | None, int | None, int | None]:
    """Return what a move to `status` may set: started, ended, and ended once more for the span."""
    started = now_ms if status is JobStatus.RUNNING else None
    ended = now_ms if status in JOB_FINAL else None
    return started, ended, ended


def _key(key: JobKey) -> tuple[str, str, str]:
    return key.job_id, key.site.role.value, key.site.party_id


def job_conditions(which: JobFilter) -> tuple[str, list[Value]]:
    conditions = ["1 = 1"]
    values: list[Value] = []
    if which.job_id is not None:
        conditions.append("f_job_id = ?")
        values.append(which.job_id)
    if which.roles is not None:
        conditions.append(one_of("f_role", len(which.roles)))
        values += [r.value for r in which.roles]
    if which.party_id is not None:
        conditions.append("f_party_id = ?")
        values.append(which.party_id)
    asked, words = _statuses(which)
    conditions += asked
    values += words
    parts = (
        ("f_job_id", which.job_id_part),
        ("f_party_id", which.party_id_part),
        (_long("f_description"), which.description_part),
        (_long("f_partners"), which.partner_part),
    )
    for text, part in parts:
        if part is not None:
            conditions.append(f"INSTR({text}, ?) > 0")
            values.append(part)
    if which.partner_part is not None:
        # they lie between commas: none of them contains one, and no partner contains nothing
        conditions.append("1 = 0" if "," in which.partner_part else f"{_long('f_partners')} <> ''")
    if which.tag is not None:
        conditions.append("f_job_id IN (SELECT f_job_id FROM t_job_tag WHERE f_name = ?)")
        values.append(which.tag)
    if which.any_part is not None:
        anywhere = ("f_job_id", "f_party_id", _long("f_description"), _long("f_partners"))
        places = [f"INSTR({text}, ?) > 0" for text in anywhere]
        places.append("f_job_id IN (SELECT f_job_id FROM t_job WHERE INSTR(f_name, ?) > 0)")
        places.append("f_job_id IN (SELECT f_job_id FROM t_job_tag WHERE INSTR(f_name, ?) > 0)")
        if "," in which.any_part:  # it is in none of the partners, which lie between commas
            del places[3]
        conditions.append(f"({' OR '.join(places)})")
        values += [which.any_part] * len(places)
    for one in which.between:
        conditions.append(f"{_TIMES[one.by]} BETWEEN ? AND ?")
        values += [one.low, one.high]
    return " AND ".join(conditions), values


def _statuses(which: JobFilter) -> tuple[list[str], list[Value]]:
    """Return the same as `domain.lists.fits_status`."""
    found: list[str] = []
    values: list[Value] = []
    if which.statuses is not None:
        found.append(one_of("f_status", len(which.statuses)) if which.statuses else "1 = 0")
        values += [s.value for s in which.statuses]
    if which.or_refused and found:
        return [f"({found[0]} OR f_tag = ?)"], [*values, SUBMIT_FAILED]
    if not which.refused and not which.or_refused:
        found.append("f_tag <> ?")
        values.append(SUBMIT_FAILED)
    return found, values


def _long(column: str) -> str:
    """Return what a column of long texts has, read from the row only if it really is long."""
    return (
        f"COALESCE({column}_short, (SELECT whole.{column} FROM t_job AS whole "
        "WHERE whole.f_job_id = t_job.f_job_id AND whole.f_role = t_job.f_role "
        "AND whole.f_party_id = t_job.f_party_id))"
    )


def job_order(order: Order) -> str:
    first = _ORDERS.get(order.by, "").format(direction="DESC" if order.descending else "ASC")
    return first + (_NEWEST_FIRST if order.descending else _OLDEST_FIRST)
