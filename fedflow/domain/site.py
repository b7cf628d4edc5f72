"""Where something runs: a role and a party id."""

from __future__ import annotations

from enum import StrEnum

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass


class Role(StrEnum):
    """What a party is in a job."""

    GUEST = "guest"  #: owns the labels
    HOST = "host"  #: has features only
    ARBITER = "arbiter"  #: holds keys, has no data
    LOCAL = "local"  #: single-party tools such as upload


@dataclass(frozen=True, slots=True)
class Site:
    """One role of one party; a party with two roles in a job is two sites."""

    role: Role  #: what the party is in the job
    party_id: PartyId  #: its number, a text

    def __str__(self) -> str:
        return f"{self.role.value} {self.party_id}"

    @property
    def key(self) -> str:
        """Return `role-party_id`, for keys and file names."""
        return f"{self.role.value}-{self.party_id}"

    @staticmethod
    def from_key(key: str) -> Site:
        """Return the site that `key` names. Raises: ValueError: it is not `role-party_id`."""
        role, _, party_id = key.partition("-")
        if not party_id:
            raise ValueError(f"{key!r} is not a site key")
        return Site(Role(role), PartyId(party_id))

    @property
    def order(self) -> tuple[int, str, str]:
        """Return the sort key: by party number, then role."""
        number = int(self.party_id) if self.party_id.isdigit() else 0
        return (number, self.party_id, self.role.value)
