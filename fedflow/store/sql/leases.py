"""Claims with an end. A new owner gets a new row, whose number is its fencing token."""

from __future__ import annotations

from fedflow.domain.records import Lease
from fedflow.store.session import Session, Value
from fedflow.store.tables import LEASE


class SqlLeases:
    """See `app.ports.scheduling.LeaseStore`. Tokens grow over all claims, so a released one loses
    nothing.
    """

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def renew(self, name: str, owner: str, *, expires_ms: int, now_ms: int) -> Lease | None:
        held = self.get(name)
        if held is not None and held.owner == owner:
            extended = self._session.write(
                "UPDATE t_lease SET f_expire_time = ? WHERE f_name = ? AND f_token = ?",
                (expires_ms, name, held.token),
            )
            if not extended:
                return None
            return Lease(name=name, owner=owner, token=held.token, expires_ms=expires_ms)
        if held is not None:
            if held.expires_ms > now_ms:
                return None
            # whoever deletes the row may take over; its owner may have extended it meanwhile
            if not self._session.write(
                "DELETE FROM t_lease WHERE f_name = ? AND f_token = ? AND f_expire_time <= ?",
                (name, held.token, now_ms),
            ):
                return None
        row: dict[str, Value] = {"f_name": name, "f_owner": owner, "f_expire_time": expires_ms}
        return self.get(name) if self._session.insert(LEASE, row) else None

    def extend(self, name: str, owner: str, *, expires_ms: int) -> bool:
        return bool(
            self._session.write(
                "UPDATE t_lease SET f_expire_time = ? WHERE f_name = ? AND f_owner = ?",
                (expires_ms, name, owner),
            )
        )

    def get(self, name: str, *, lock: bool = False) -> Lease | None:
        query = "SELECT f_owner, f_token, f_expire_time FROM t_lease WHERE f_name = ?"
        found = self._session.row(query, (name,), lock=lock)
        if found is None:
            return None
        return Lease(name=name, owner=found[0], token=found[1], expires_ms=found[2])

    def holds(self, name: str, token: int) -> bool:
        found = self._session.row(
            "SELECT 1 FROM t_lease WHERE f_name = ? AND f_token = ?", (name, token), share=True
        )
        return found is not None

    def release(self, name: str, owner: str) -> None:
        self._session.write("DELETE FROM t_lease WHERE f_name = ? AND f_owner = ?", (name, owner))
