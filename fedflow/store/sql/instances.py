"""The servers of one party, and the database's time."""
# only constants of this module are put into statements; values are parameters

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fedflow.domain.administration.servers import Instance, InstanceState
from fedflow.store.mapper import Mapper, word
from fedflow.store.session import Session
from fedflow.store.tables import INSTANCE

_INSTANCES: Final = Mapper(
    INSTANCE,
    Instance,
    {
        "instance_id": "f_instance_id",
        "host": "f_host",
        "http": "f_http_address",
        "grpc": "f_grpc_address",
        "version": "f_version",
        "shared_mark": "f_shared_mark",
        "secret": "f_secret",
        "state": word(InstanceState)("f_state"),
        "started_ms": "f_start_time",
        "beat_ms": "f_beat_time",
    },
)


class SqlInstances:
    """See `app.ports.scheduling.InstanceStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def now_ms(self) -> int:
        return self._session.now_ms()

    def renew(self, instance: Instance) -> int:
        now_ms = self.now_ms()
        beaten = replace(instance, started_ms=instance.started_ms or now_ms, beat_ms=now_ms)
        self._session.replace(INSTANCE, _INSTANCES.row(beaten))
        return now_ms

    def all(self) -> list[Instance]:
        return _INSTANCES.all(
            self._session.rows(f"{_INSTANCES.select} ORDER BY f_start_time, f_instance_id")
        )

    def prune(self, older_than_ms: int) -> int:
        return self._session.write(
            "DELETE FROM t_server_instance WHERE f_beat_time < ?", (older_than_ms,)
        )
