"""The servers of one party, and the database's time."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from typing import Final

from fedflow.domain.servers import Instance, InstanceState
from fedflow.store.session import Session, Value
from fedflow.store.tables import INSTANCE

_COLUMNS: Final = (
    "f_host, f_http_address, f_grpc_address, f_version, f_shared_mark, f_secret, f_state, "
    "f_start_time"
)
_SET: Final = ", ".join(f"{column.strip()} = ?" for column in _COLUMNS.split(","))


class SqlInstances:
    """See `app.ports.Instances`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def now_ms(self) -> int:
        return self._session.now_ms()

    def beat(self, instance: Instance) -> int:
        now_ms = self.now_ms()
        values: tuple[Value, ...] = (
            instance.host, instance.http, instance.grpc, instance.version, instance.shared_mark,
            instance.secret, instance.state.value, instance.started_ms or now_ms,
        )  # fmt: skip
        if not self._session.write(
            f"UPDATE t_server_instance SET {_SET}, f_beat_time = ? WHERE f_instance_id = ?",
            (*values, now_ms, instance.instance_id),
        ):
            names = (name.strip() for name in _COLUMNS.split(","))
            row = dict(zip(names, values, strict=True))
            self._session.insert(
                INSTANCE,
                {"f_instance_id": instance.instance_id, "f_beat_time": now_ms, **row},
            )
        return now_ms

    def all(self) -> list[Instance]:
        found = self._session.rows(
            f"SELECT f_instance_id, f_beat_time, {_COLUMNS} FROM t_server_instance "
            "ORDER BY f_start_time, f_instance_id"
        )
        return [
            Instance(
                instance_id=instance_id, beat_ms=beat_ms, host=host, http=http, grpc=grpc,
                version=version, shared_mark=shared_mark, secret=secret,
                state=InstanceState(state), started_ms=started_ms,
            )
            for instance_id, beat_ms, host, http, grpc, version, shared_mark, secret, state,
            started_ms in found
        ]  # fmt: skip

    def prune(self, older_than_ms: int) -> int:
        return self._session.write(
            "DELETE FROM t_server_instance WHERE f_beat_time < ?", (older_than_ms,)
        )
