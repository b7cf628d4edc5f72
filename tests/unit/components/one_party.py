"""A party with a few small tables, for tests of components that work at one party alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedflow.base.errors.error import FedflowError
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Outputs, Table, TableKind, TableSchema
from fedflow.tables.local import LocalTableStore
from fedflow.testing.run import RunResult, run_component
from fedflow.testing.tables import local_store

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]


@dataclass
class Party:
    """One party's tables, and a way to run a component on them."""

    folder: Path
    site: Site = GUEST
    store: LocalTableStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = local_store(self.folder / f"tables of {self.site.key}")

    def table(self, rows_given: Mapping[str, Any], /, **schema: Any) -> Table:
        """Return instances; the first column is the id, `y` the label, `weight` the weight."""
        rows = pa.table(dict(rows_given))
        first, *others = rows.column_names
        roles = {"label": "y", "weight": "weight", "match_id": "match_id"}
        named = {role: name for role, name in roles.items() if name in others}
        given = {
            "kind": TableKind.INSTANCES,
            "id": first,
            "columns": tuple(c for c in others if c not in named.values()),
            **named,
            **schema,
        }
        return self.stored(rows, TableSchema(**given))

    def stored(self, rows: pa.Table, schema: TableSchema) -> Table:
        """Return a table of `rows`."""
        with self.store.create(schema) as writer:
            writer.write(rows)
            return writer.close()

    def predictions(self, columns: Mapping[str, Any]) -> Table:
        """Return a prediction table; the first column is the id, `label` the label."""
        columns_after = tuple(list(columns)[2:])
        return self.table(columns, kind=TableKind.PREDICTIONS, label="label", columns=columns_after)

    def result(
        self,
        module: type[Any],
        *tables: Table | None,
        model: Model | None = None,
        ports: Mapping[str, Sequence[tuple[str, Table | None]]] | None = None,
        output_names: tuple[str, ...] = (),
        **params: Any,
    ) -> RunResult:
        """Run it on tables of the port `data`, from reader_0, reader_1 ..., or on `ports`."""
        given = {"data": [(f"reader_{i}", table) for i, table in enumerate(tables)]}
        inputs = Inputs(data=ports or given, model={} if model is None else {"upstream_0": model})
        return run_component(
            module,
            sites=[self.site],
            work_dir=self.folder,
            params={self.site: params},
            inputs={self.site: inputs},
            tables={self.site: self.store},
            output_names=output_names,
        )[self.site]

    def run(self, module: type[Any], *tables: Table | None, **options: Any) -> Outputs:
        """Run it as `result` does and return its outputs. Raises: what it raised."""
        result = self.result(module, *tables, **options)
        if result.error is not None:
            raise result.error
        assert result.outputs is not None
        return result.outputs

    def fails(self, module: type[Any], *tables: Table | None, **options: Any) -> FedflowError:
        """Run it as `result` does and return its error, which must be one of ours."""
        error = self.result(module, *tables, **options).error
        assert isinstance(error, FedflowError), error
        return error


def rows_of(outputs: Outputs, position: int = 0) -> dict[str, list[Any]]:
    """Return an output table's columns."""
    table = outputs.data[position]
    assert table is not None
    columns: dict[str, list[Any]] = table.read().to_pydict()
    return columns


def schema_of(outputs: Outputs, position: int = 0) -> TableSchema:
    """Return an output table's schema."""
    table = outputs.data[position]
    assert table is not None
    return table.schema
