"""Parts of the store that administrators change: permissions, keys, addresses, accounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from fedflow.domain.administration.accounts import Account, AccountRole, AccountSession
from fedflow.domain.administration.records import (
    Grant,
    RegisteredServer,
    RegisteredService,
    SiteKey,
)

if TYPE_CHECKING:
    from fedflow.domain.administration.rendezvous import Run, RunKey


class PermissionStore(Protocol):
    """What other parties may use here (`t_permission`)."""

    def add(self, grants: Sequence[Grant], *, now_ms: int) -> None:
        """Store grants; those that exist are left as they are."""

    def remove(self, grants: Sequence[Grant]) -> int:
        """Forget grants; return how many there were."""

    def of(self, party_id: str) -> list[Grant]:
        """Return what a party may use, sorted."""

    def parties(self) -> list[str]:
        """Return the parties that may use anything, sorted."""


class RendezvousStore(Protocol):
    """Runs of rendezvous (`t_rendezvous`)."""

    def get(self, key: RunKey) -> Run | None: ...

    def add(self, run: Run) -> bool:
        """Store a new run; False if its key exists."""

    def replace(self, key: RunKey, text: str, *, seen: str, token: str, now_ms: int) -> bool:
        """Write the text if the run's token is `seen`; tell whether it was."""

    def count(self, caller: str | None = None) -> int:
        """Return how many runs a caller began, None: how many there are."""

    def all(self, *, limit: int) -> list[Run]:
        """Return the runs that were written to last, without their texts."""

    def drop(self, key: RunKey) -> bool:
        """Delete a run; False if there is none."""

    def drop_older(self, before_ms: int) -> int:
        """Delete the runs that nobody wrote to since; return how many."""


class SiteKeyStore(Protocol):
    """Public keys of other parties (`t_site_key_info`)."""

    def put(self, key: SiteKey) -> None:
        """Store a key; it replaces the party's former one."""

    def get(self, party_id: str) -> SiteKey | None: ...

    def drop(self, party_id: str) -> bool:
        """Forget a key; False if there is none."""


class RegistryStore(Protocol):
    """Other programs of this party (`t_server_registry_info`, `t_service_registry_info`)."""

    def put_server(self, server: RegisteredServer, *, now_ms: int) -> None:
        """Store where a server listens; it replaces the one with its name."""

    def servers(self) -> list[RegisteredServer]:
        """Return all servers by name."""

    def put_service(self, service: RegisteredService, *, now_ms: int) -> None:
        """Store a service; it replaces the one with its server and name."""

    def services(self, name: str) -> list[RegisteredService]:
        """Return the services of this name, by server."""


class AccountStore(Protocol):
    """Accounts of the board (`t_account`) and sessions of browsers (`t_account_session`)."""

    def add(self, account: Account) -> bool:
        """Store a new account; False if the name is taken."""

    def get(self, name: str) -> Account | None: ...

    def all(self) -> list[Account]:
        """Return all accounts by name."""

    def set_role(self, name: str, role: AccountRole, *, now_ms: int) -> bool:
        """Give an account another role; False if there is no such account."""

    def set_password(self, name: str, password: str, *, now_ms: int) -> bool:
        """Store the hash of another password; False if there is no such account."""

    def drop(self, name: str) -> bool:
        """Forget an account and its sessions; False if there is none."""

    def put_session(self, session: AccountSession) -> None: ...

    def session(self, digest: str) -> AccountSession | None: ...

    def sessions(self, name: str) -> list[AccountSession]:
        """Return the sessions of an account, oldest first, those that have ended too."""

    def seen(self, digest: str, *, now_ms: int) -> None:
        """Note when a session was used last, if it is still there."""

    def end_session(self, digest: str) -> bool:
        """Forget a session; False if there is none."""

    def end_sessions(self, name: str) -> int:
        """Forget all sessions of an account; return how many there were."""

    def prune_sessions(self, *, seen_before_ms: int, created_before_ms: int) -> int:
        """Forget sessions that were last used, or began, before a moment; return how many."""
