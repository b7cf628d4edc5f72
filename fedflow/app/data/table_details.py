"""All that is known of one table without opening it."""

from __future__ import annotations

from collections.abc import Sequence

from fedflow.app.data.provenance import Provenance
from fedflow.app.ports.data import TableFacts
from fedflow.app.ports.store import Store
from fedflow.base.values import dataclass
from fedflow.domain.records import ColumnFacts, OutputTable, TableRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Details:
    """A table, the task that made it if one is known, and facts of its columns."""

    table: TableRecord
    maker: OutputTable | None
    columns: Sequence[ColumnFacts]


class TableDetails:
    """The use case of `table/table_info`."""

    def __init__(self, *, store: Store, provenance: Provenance, facts: TableFacts) -> None:
        self._store = store
        self._provenance = provenance
        self._facts = facts

    def get(self, namespace: str, name: str) -> Details | None:
        """Return what is known of a table, None if there is none."""
        with self._store.read() as tx:
            table = tx.tables.get(namespace, name)
        if table is None:
            return None
        maker = self._provenance.maker(namespace, name)
        return Details(table=table, maker=maker, columns=self._facts.read(table))
