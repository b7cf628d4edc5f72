"""What every writer of a table does at its end: the table is complete, or nothing is left of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Generic, Self, TypeVar

from fedflow.sdk.table import Table

T = TypeVar("T", bound=Table)


class StagedTable(ABC, Generic[T]):
    """A table that is being written. Nothing of it can be seen before `close`.

    Leaving the `with` block by an error, or a storage or catalog that fails, removes what was
    written; without a `with` block `discard` does.
    """

    def __init__(self) -> None:
        self._gone = False
        self._table: T | None = None

    def close(self) -> T:
        """Finish and return the table; a second call returns it again.

        Raises: TableExists: another writer took the name meanwhile. DiskFull. ValueError: it was
            discarded.
        """
        if self._table is None:
            self._require_open()
            with self._cleanly():
                self._table = self._finish()
        return self._table

    def discard(self) -> None:
        """Remove what was written, unless the table is complete."""
        if self._table is not None or self._gone:
            return
        self._gone = True
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None and not self._gone:
            self.close()
        else:
            self.discard()

    @abstractmethod
    def _finish(self) -> T:
        """Return the complete table; what was written is removed if this fails."""

    @abstractmethod
    def _remove(self) -> None:
        """Remove what was written, at any point of it."""

    def _require_open(self) -> None:
        if self._gone or self._table is not None:
            raise ValueError("the table is closed")

    @contextmanager
    def _cleanly(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.discard()
            raise
