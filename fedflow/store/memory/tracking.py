"""What runs produced, and the data sets of this party, in memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from fedflow.base.errors.data import TableExists
from fedflow.domain.data.table_lists import TableFilter, fits_table, table_page
from fedflow.domain.records import Connector, Metric, OutputTable, StoredModel, TableRecord, TaskKey
from fedflow.domain.site import Site
from fedflow.store.codec import plain
from fedflow.store.memory.journal import Journal

_Share = tuple[str, str, Site]  #: job, component, site


class MemoryTracking:
    """See `app.ports.jobs.TrackingStore`. The latest attempt is the latest one that produced such a
    thing.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._metrics: dict[_Share, dict[int, dict[tuple[str, str], Metric]]] = {}
        self._outputs: dict[tuple[str, Site], dict[tuple[str, int, str], OutputTable]] = {}
        self._output_times: dict[tuple[TaskKey, str], int] = {}
        self._summaries: dict[_Share, dict[int, Any]] = {}
        self._models: dict[_Share, dict[int, StoredModel]] = {}

    def add_metric(self, key: TaskKey, metric: Metric, *, now_ms: int) -> None:
        attempts = self._metrics.setdefault(_share(key), {})
        if key.version not in attempts:
            self._journal.put(attempts, key.version, {})
        name = (metric.namespace, metric.name)
        points = tuple((x, y) for x, y in plain(metric.points))
        known = attempts[key.version].get(name)
        self._journal.put(
            attempts[key.version],
            name,
            replace(
                metric,
                points=(known.points if known else ()) + points,
                meta={**(known.meta if known else {}), **plain(metric.meta)},
            ),
        )

    def metrics(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> list[Metric]:
        attempts = self._metrics.get((job_id, component, site))
        if not attempts:
            return []
        return list(attempts.get(max(attempts) if version is None else version, {}).values())

    def metric_types(self, keys: Collection[TaskKey]) -> dict[TaskKey, set[str]]:
        found: dict[TaskKey, set[str]] = {}
        for key in keys:
            for metric in self._metrics.get(_share(key), {}).get(key.version, {}).values():
                kind = metric.meta.get("metric_type")
                if isinstance(kind, str):
                    found.setdefault(key, set()).add(kind)
        return found

    def metrics_of(
        self, keys: Collection[TaskKey], types: Collection[str]
    ) -> dict[TaskKey, list[Metric]]:
        found: dict[TaskKey, list[Metric]] = {}
        for key in keys:
            for metric in self._metrics.get(_share(key), {}).get(key.version, {}).values():
                if metric.meta.get("metric_type") in tuple(types):
                    found.setdefault(key, []).append(metric)
        return found

    def metrics_etag(self, key: TaskKey) -> int:
        found = self._metrics.get(_share(key), {}).get(key.version, {})
        return sum(len(metric.points) for metric in found.values())

    def drop_metrics(self, job_id: str, component: str | None, site: Site) -> int:
        dropped = 0
        for share in list(self._metrics):
            if share[0] == job_id and share[2] == site and component in (None, share[1]):
                attempts = self._metrics[share]
                for version in list(attempts):
                    dropped += len(attempts[version])
                    self._journal.drop(attempts, version)
        return dropped

    def count_metrics(self, job_id: str) -> int:
        found = (attempts for share, attempts in self._metrics.items() if share[0] == job_id)
        return sum(len(metrics) for attempts in found for metrics in attempts.values())

    def drop(self, job_id: str) -> None:
        stored: tuple[dict[_Share, Any], ...] = (self._metrics, self._summaries, self._models)
        for shares in stored:
            for share in [s for s in shares if s[0] == job_id]:
                self._journal.drop(shares, share)
        for place in [p for p in self._outputs if p[0] == job_id]:
            self._journal.drop(self._outputs, place)
        for written in [w for w in self._output_times if w[0].job_id == job_id]:
            self._journal.drop(self._output_times, written)

    def put_output(self, output: OutputTable, *, now_ms: int) -> None:
        key = output.key
        outputs = self._outputs.setdefault((key.job_id, key.site), {})
        self._journal.put(outputs, (key.component, key.version, output.data_name), output)
        self._journal.put(self._output_times, (key, output.data_name), now_ms)

    def outputs(
        self, job_id: str, component: str | None, site: Site, *, version: int | None = None
    ) -> list[OutputTable]:
        found = [
            o
            for o in self._outputs.get((job_id, site), {}).values()
            if component is None or o.key.component == component
        ]
        latest: dict[str, int] = {}
        for o in found:
            known = latest.get(o.key.component, o.key.version)
            latest[o.key.component] = max(o.key.version, known)
        current = [
            o
            for o in found
            if o.key.version == (latest[o.key.component] if version is None else version)
        ]
        return sorted(current, key=lambda o: (o.key.component, o.position, o.data_name))

    def output_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        outputs = self._outputs.get((job_id, site), {})
        return sorted({o.key.version for o in outputs.values() if o.key.component == component})

    def every_output(self, job_id: str) -> list[OutputTable]:
        found = [
            output
            for (job, _), outputs in self._outputs.items()
            if job == job_id
            for output in outputs.values()
        ]
        return sorted(found, key=self._written)

    def uses_of_table(self, namespace: str, name: str) -> list[OutputTable]:
        found = [
            output
            for outputs in self._outputs.values()
            for output in outputs.values()
            if (output.namespace, output.name) == (namespace, name)
        ]
        return sorted(found, key=self._written)

    def move_table(self, job_id: str, *, old: tuple[str, str], new: tuple[str, str]) -> None:
        for (job, _), outputs in self._outputs.items():
            for place, output in list(outputs.items()) if job == job_id else ():
                if (output.namespace, output.name) == old:
                    moved = replace(output, namespace=new[0], name=new[1])
                    self._journal.put(outputs, place, moved)

    def put_summary(self, key: TaskKey, summary: Any, *, now_ms: int) -> None:
        attempts = self._summaries.setdefault(_share(key), {})
        self._journal.put(attempts, key.version, plain(summary))

    def summary(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> Any | None:
        attempts = self._summaries.get((job_id, component, site), {})
        return attempts.get(max(attempts, default=0) if version is None else version)

    def put_model(self, model: StoredModel, *, now_ms: int) -> None:
        attempts = self._models.setdefault(_share(model.key), {})
        stored = replace(model, meta=plain(model.meta), param=plain(model.param))
        self._journal.put(attempts, model.key.version, stored)

    def model(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> StoredModel | None:
        attempts = self._models.get((job_id, component, site), {})
        return attempts.get(max(attempts, default=0) if version is None else version)

    def model_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        return sorted(self._models.get((job_id, component, site), {}))

    def _written(self, output: OutputTable) -> tuple[int, str, str, int, str, str, str]:
        key, name = output.key, output.data_name
        return (
            self._output_times[key, name], key.job_id, key.component, key.version, name,
            key.site.role.value, key.site.party_id,
        )  # fmt: skip


class MemoryTables:
    """See `app.ports.data.DataTableStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tables: dict[tuple[str, str], TableRecord] = {}

    def put(self, record: TableRecord) -> None:
        key = (record.namespace, record.name)
        if key in self._tables:
            raise TableExists(namespace=record.namespace, name=record.name)
        preview = tuple(tuple(row) for row in plain(record.preview))
        extra = plain(record.extra)
        schema, storage = plain(record.schema), plain(record.storage)
        stored = replace(record, schema=schema, preview=preview, extra=extra, storage=storage)
        self._journal.put(self._tables, key, stored)

    def get(self, namespace: str, name: str) -> TableRecord | None:
        return self._tables.get((namespace, name))

    def drop(self, namespace: str, name: str) -> TableRecord | None:
        known = self._tables.get((namespace, name))
        if known is not None:
            self._journal.drop(self._tables, (namespace, name))
        return known

    def find(self, namespace: str | None = None, *, limit: int = 1000) -> list[TableRecord]:
        found = [t for t in self._tables.values() if namespace in (None, t.namespace)]
        return sorted(found, key=lambda t: (-t.created_ms, t.namespace, t.name))[:limit]

    def listed(self, which: TableFilter) -> list[TableRecord]:
        return table_page((t for t in self._tables.values() if fits_table(which, t)), which)

    def count(self, which: TableFilter) -> int:
        return sum(1 for table in self._tables.values() if fits_table(which, table))

    def disabled(self) -> list[TableRecord]:
        found = [t for t in self._tables.values() if t.disabled]
        return sorted(found, key=lambda t: (t.namespace, t.name))

    def set_disabled(self, namespace: str, name: str, *, disabled: bool) -> bool:
        return self._change(namespace, name, disabled=disabled)

    def set_extra(self, namespace: str, name: str, extra: Any) -> bool:
        return self._change(namespace, name, extra=plain(extra))

    def at_address(self, address: str) -> list[tuple[str, str]]:
        return sorted(key for key, t in self._tables.items() if t.address == address)

    def of_connector(self, connector: str) -> list[tuple[str, str]]:
        return sorted(
            key
            for key, t in self._tables.items()
            if isinstance(t.storage, dict) and t.storage.get("connector") == connector
        )

    def _change(self, namespace: str, name: str, **changes: Any) -> bool:
        known = self._tables.get((namespace, name))
        if known is not None:
            self._journal.put(self._tables, (namespace, name), replace(known, **changes))
        return known is not None


class MemoryConnectors:
    """See `app.ports.data.ConnectorStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._connectors: dict[str, Connector] = {}

    def put(self, connector: Connector) -> None:
        stored = replace(connector, info=plain(connector.info))
        self._journal.put(self._connectors, connector.name, stored)

    def get(self, name: str) -> Connector | None:
        return self._connectors.get(name)

    def all(self) -> list[Connector]:
        return [self._connectors[name] for name in sorted(self._connectors)]

    def drop(self, name: str) -> bool:
        known = name in self._connectors
        if known:
            self._journal.drop(self._connectors, name)
        return known


def _share(key: TaskKey) -> _Share:
    return key.job_id, key.component, key.site
