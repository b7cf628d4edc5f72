"""Who meets at a rendezvous: the names and addresses of members."""

from __future__ import annotations

import re
from typing import Final

from fedflow.base.values import dataclass

NAME_LENGTH: Final = 64  #: characters of a name, at most
ADDRESS_LENGTH: Final = 64  #: characters of an address, at most
NAME: Final = r"^[A-Za-z0-9._-]{1,64}\Z"
ADDRESS: Final = r"^[A-Za-z0-9.:_%\[\]-]{0,64}\Z"
_HOST_LENGTH: Final = NAME_LENGTH - 16


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberIdentity:
    """One member: its name, which no other has, and where others reach it."""

    name: str  #: sorted names give the ranks
    address: str = ""  #: `host:port`, empty if nobody needs to reach it

    def __post_init__(self) -> None:
        """Raises: ValueError: a name or address that a state cannot hold."""
        if not re.fullmatch(NAME, self.name):
            raise ValueError(f"{self.name!r} is no name of a member")
        if not re.fullmatch(ADDRESS, self.address):
            raise ValueError(f"{self.address!r} is no address of a member")


def member_name(host: str, *, process: int, number: int) -> str:
    """Return the name of a member: two of one machine, and of one process, differ.

    `number` counts the members that a process has been. Characters of `host` that a name cannot
    have become `-`; its last 48 count.
    """
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", host)[-_HOST_LENGTH:] or "-"
    return f"{plain}_{process % 10**10}_{number % 10**4}"
