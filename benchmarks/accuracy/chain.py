"""Components one after the other, each at all its parties, in threads of this process.

Nothing but the network is left out: keys, ciphertexts and messages are those of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.accuracy.data import Floats, Vertical
from fedflow.base.ids import PartyId
from fedflow.components.features.data_transform import DataTransform
from fedflow.components.intersection.intersection import Intersection
from fedflow.sdk import Inputs, Model, Outputs, Role, Site, Table, TableKind, TableSchema, spec_of
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component
from fedflow.testing.tracker import RecordedMetric

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("10002"))
KEY: dict[str, Any] = {
    "encrypt_param": {"key_length": 1024}
}  #: Paillier, quick enough for a report
TIMEOUT_S = 600.0

Tables = Mapping[Site, Table | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What a component left behind at every party."""

    results: Mapping[Site, RunResult]

    @property
    def outputs(self) -> Mapping[Site, Outputs]:
        return outputs_of(self.results)

    def tables(self, position: int = 0) -> Tables:
        """Return the output of one data port by party, None where there is none."""
        return {
            site: out.data[position] if len(out.data) > position else None
            for site, out in self.outputs.items()
        }

    def models(self) -> dict[Site, Model]:
        return {site: out.model for site, out in self.outputs.items() if out.model is not None}

    def param(self, site: Site) -> Mapping[str, Any]:
        """Return a party's model. Raises: KeyError: it has none."""
        return self.models()[site].param

    def summary(self, site: Site) -> Mapping[str, Any]:
        return self.outputs[site].summary

    def metric(self, site: Site, namespace: str, name: str) -> RecordedMetric:
        return self.results[site].metrics[namespace, name]

    def frame(self, site: Site, position: int = 0) -> pd.DataFrame:
        """Return a party's output rows by id."""
        table = self.tables(position)[site]
        assert table is not None
        return table.read().to_pandas().set_index(table.schema.id)

    def column(self, name: str, ids: pd.Index) -> Floats:
        """Return a column of the guest's output in the order of `ids`."""
        return np.asarray(self.frame(GUEST)[name].loc[ids], dtype=np.float64)


class Chain:
    """Runs components in a folder; the tables of all steps stay in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps = 0
        self._stores = {site: MemoryTableStore() for site in (GUEST, HOST, ARBITER)}

    def raw(self, rows: Mapping[Site, pd.DataFrame]) -> Tables:
        """Return tables as a Reader gives them: text, the first column is the id."""
        return {site: self._add(site, frame, TableKind.RAW) for site, frame in rows.items()}

    def instances(self, rows: Mapping[Site, pd.DataFrame], label: str | None = None) -> Tables:
        """Return tables as DataTransform gives them; cells have their types."""
        return {
            site: self._add(site, frame, TableKind.INSTANCES, label=label)
            for site, frame in rows.items()
        }

    def _add(
        self, site: Site, frame: pd.DataFrame, kind: TableKind, *, label: str | None = None
    ) -> Table:
        first, *others = frame.columns
        own = label if label in others else None
        names = [first, *([own] if own else []), *(n for n in others if n != own)]
        schema = TableSchema(
            kind=kind, id=first, label=own, columns=tuple(n for n in others if n != own)
        )
        rows = pa.Table.from_pandas(frame[names], preserve_index=False).replace_schema_metadata()
        return self._stores[site].add(rows, schema=schema)

    def run(
        self,
        cls: type[Any],
        ports: Mapping[str, Tables | list[Tables]],
        *,
        models: Mapping[str, Mapping[Site, Model]] | None = None,
        own: Mapping[Site, Mapping[str, Any]] | None = None,
        sites: tuple[Site, ...] | None = None,
        **params: Any,
    ) -> Step:
        """Return what `cls` does with these tables; `own` are parameters of one party, over all.

        `models` are by upstream component. The arbiter takes part if the component has one. Raises:
        what the component raised.
        """
        roles = spec_of(cls).roles
        several = {p: t if isinstance(t, list) else [t] for p, t in ports.items()}
        if sites is None:
            sites = tuple(s for s in (GUEST, HOST, ARBITER) if s.role in roles)
        inputs = {
            site: Inputs(
                data={
                    port: [(f"{port}_{i}", tables.get(site)) for i, tables in enumerate(given)]
                    for port, given in several.items()
                },
                model={name: of[site] for name, of in (models or {}).items() if site in of},
            )
            for site in sites
        }
        self._steps += 1
        results = run_component(
            cls,
            sites=sites,
            work_dir=self._folder / f"step_{self._steps}",
            params={site: {**params, **(own or {}).get(site, {})} for site in sites},
            inputs=inputs,
            tables=self._stores,
            timeout_s=TIMEOUT_S,
        )
        outputs_of(results)
        return Step(results=results)

    def aligned(self, data: Vertical) -> Tables:
        """Return both parties' instances, by DataTransform and Intersection (ecdh)."""
        raw = self.raw({GUEST: data.guest, HOST: data.host})
        whole = all(float(value).is_integer() for value in np.unique(data.labels))
        label = {
            "with_label": True,
            "label_name": data.label,
            "label_type": "int" if whole else "float",
        }
        typed = self.run(DataTransform, {"data": raw}, own={GUEST: label, HOST: {}}).tables()
        return self.run(Intersection, {"data": typed}, intersect_method="ecdh").tables()
