"""The table catalog of a worker: the attempt's own tables here, all others at the server."""

from __future__ import annotations

from fedflow.base.errors.data import TableExists
from fedflow.base.errors.executors import ServerRefused
from fedflow.domain.data.storages import Connection
from fedflow.domain.records import TableRecord
from fedflow.wire.worker_commands import AddTable, ConnectTable, ConnectTarget, FindTable
from fedflow.worker.report import ServerLink, meant

_ARGUMENT_ERROR = 101  #: FATE's return code for a table that does not exist


class WorkerCatalog:
    """Satisfies `fedflow.tables.catalog.TableCatalog`.

    Tables of the attempt's output namespace stay here until the end report names those that are
    outputs; the others never become known. Inputs are known from the start.
    """

    def __init__(self, link: ServerLink, *, output_namespace: str) -> None:
        self._link = link
        self._output_namespace = output_namespace
        self._own: dict[tuple[str, str], TableRecord] = {}
        self._known: dict[tuple[str, str], TableRecord] = {}
        self._replaced: set[tuple[str, str]] = set()

    def know(self, table: TableRecord) -> TableRecord:
        """Return a table that the server described, and find it without asking from now on."""
        self._known[table.namespace, table.name] = table
        return table

    def register(self, entry: TableRecord) -> None:
        """Add a table. Raises: TableExists: the name is taken."""
        key = (entry.namespace, entry.name)
        if entry.namespace == self._output_namespace:
            if key in self._own:
                raise TableExists(namespace=entry.namespace, name=entry.name)
            self._own[key] = entry
            return
        drop = key in self._replaced
        self._replaced.discard(key)
        if not drop and self.find(*key) is not None:
            raise TableExists(namespace=entry.namespace, name=entry.name)
        self._link.call(AddTable(table=entry, drop=drop))
        self._known[key] = entry

    def find(self, namespace: str, name: str) -> TableRecord | None:
        """Return a table, or None."""
        key = (namespace, name)
        found = self._own.get(key) or self._known.get(key)
        if found is not None or namespace == self._output_namespace:
            return found
        return self._ask(FindTable(namespace=namespace, table_name=name))

    def find_output(self, job_id: str, component: str, data_name: str) -> TableRecord | None:
        """Return an output of an earlier job of this party, or None."""
        return self._ask(FindTable(job_id=job_id, component_name=component, data_name=data_name))

    def _ask(self, which: FindTable) -> TableRecord | None:
        try:
            return self._link.call(which)
        except ServerRefused as exc:
            if exc.fields["retcode"] == _ARGUMENT_ERROR:
                return None
            raise

    def drop(self, namespace: str, name: str) -> TableRecord | None:
        """Forget a table, and return what was known of one of this run.

        Another one is replaced at the server when its successor is registered; the server knows who
        uses it, so its files are not for this process to delete.
        """
        key = (namespace, name)
        if namespace == self._output_namespace:
            return self._own.pop(key, None)
        self._known.pop(key, None)
        self._replaced.add(key)
        return None

    def connection(self, entry: TableRecord) -> Connection:
        """Return how the rows of a bound table are reached, with credentials.

        Raises: NotAuthenticated: the table is not what the task was told to read.
            BoundTableRefused: the server may not reach the storage any more. TableNotFound,
            TableDisabled.
        """
        which = ConnectTable(namespace=entry.namespace, table_name=entry.name)
        return self._connection(which)

    def target(self) -> Connection:
        """Return how the place is reached that the task was told to write to, with credentials.

        Raises: NotAuthenticated: it was not told so. What `app.data.writing_targets` raises: the
            server may not write there any more.
        """
        return self._connection(ConnectTarget())

    def _connection(self, command: ConnectTable | ConnectTarget) -> Connection:
        """Raises: the server's own errors; ServerRefused: one that is not known here."""
        try:
            return self._link.call(command)
        except ServerRefused as exc:
            raise meant(exc) from exc

    def own(self) -> list[TableRecord]:
        """Return the tables of the output namespace that this run made."""
        return list(self._own.values())
