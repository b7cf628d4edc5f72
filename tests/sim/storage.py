"""A store whose server may die, and which may fail itself, at every transaction and commit."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any

from fedflow.app.ports.store import Tx
from fedflow.base.errors.store import StoreUnavailable
from fedflow.store.memory.schedules import _Parts
from fedflow.store.memory.store import MemoryStore
from fedflow.store.recording import Recent
from tests.sim.trace import Trace


class Crashed(BaseException):
    """The server ends here: nothing of its code may handle this."""


@dataclass
class Life:
    """One run of a server, from its boot to its crash."""

    alive: bool = True


@dataclass
class Disk:
    """What is wrong with a server's database and its home folder; it survives the server."""

    outage: bool = False  #: no transaction can begin
    full: bool = False  #: nothing can be written to the database
    home_full: bool = False  #: nothing can be written below the home folder
    crashes: float = 0.0  #: probability per commit that wrote something
    errors: float = 0.0  #: probability per commit that wrote something


class FaultyStore:
    """The store port of one run of a server, over what survives it."""

    def __init__(
        self, inner: MemoryStore, disk: Disk, life: Life, rng: Random, trace: Trace
    ) -> None:
        self.inner = inner
        self.disk = disk
        self.life = life
        self.rng = rng
        self.trace = trace

    def transaction(self) -> AbstractContextManager[Tx]:
        return _Transaction(self, write=True)

    def read(self) -> AbstractContextManager[Tx]:
        return _Transaction(self, write=False)

    def close(self) -> None:
        """Leave what is stored to the next run."""

    def crash(self) -> Crashed:
        """Return the end of the server, to be raised."""
        self.life.alive = False
        return Crashed()


class Backup:
    """What a store holds at one time; `restore` puts it back to that."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._held = [(table, _copied(table)) for table in self._tables()]

    def restore(self) -> None:
        """Let the store hold what it held then; numbers that were given are not given again."""
        store, held = self._store, {id(table): copy for table, copy in self._held}
        for table in self._tables():
            copy = held.get(id(table), {})
            table.clear()
            table.update(_copied(copy))
        store._recent = Recent()
        store._journal.writes += 1
        for forget in store._journal._after_undo:
            forget()

    def _tables(self) -> list[dict[Any, Any]]:
        parts = vars(self._store._tx).values()
        found = (value for p in parts if hasattr(p, "__dict__") for value in vars(p).values())
        return list({id(one): one for one in found if isinstance(one, dict)}.values())


def _copied(value: Any) -> Any:
    """Return a copy of all that the store changes in place; records are shared."""
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if isinstance(value, _Parts):
        return _Parts(_copied(value.sites), _copied(value.tasks), _copied(value.shares))
    return value


class _Transaction:
    """One transaction: may be refused at its begin, and may end badly at its commit."""

    __slots__ = ("_inner", "_store", "_write", "_writes")

    def __init__(self, store: FaultyStore, *, write: bool) -> None:
        self._store = store
        self._write = write

    def __enter__(self) -> Tx:
        store = self._store
        if not store.life.alive:
            raise Crashed
        if store.disk.outage:
            raise StoreUnavailable(reason="simulated: no database answers")
        inner = store.inner
        self._writes = inner.writes
        self._inner = inner.transaction() if self._write else inner.read()
        return self._inner.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        store, disk = self._store, self._store.disk
        if kind is not None or not self._write or store.inner.writes == self._writes:
            return self._inner.__exit__(kind, error, traceback)
        if disk.full:
            self._undo(StoreUnavailable(reason="simulated: the disk is full"))
        if disk.crashes and store.rng.random() < disk.crashes:
            store.trace.count("crashes at commits")
            self._end(store.crash())
        if disk.errors and store.rng.random() < disk.errors:
            store.trace.count("commits failed")
            self._end(StoreUnavailable(reason="simulated: the connection was lost at the commit"))
        return self._inner.__exit__(None, None, None)

    def _end(self, error: BaseException) -> None:
        """Raise an error at the commit, which took place or did not."""
        if self._store.rng.random() < 0.5:
            self._inner.__exit__(None, None, None)
            raise error
        self._undo(error)

    def _undo(self, error: BaseException) -> None:
        self._inner.__exit__(type(error), error, None)
        raise error
