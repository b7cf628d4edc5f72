"""What runs produced: metrics, output tables, summaries, model shares."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from fedflow.domain.records import Metric, OutputTable, StoredModel, TaskKey
from fedflow.domain.site import Site
from fedflow.store.codec import from_json, to_json
from fedflow.store.job_tables import METRIC, MODEL_SHARE, OUTPUT, SUMMARY
from fedflow.store.mapper import JSON, TASK_KEY, Mapper
from fedflow.store.session import Session, Value, one_of

_TABLES: Final = (
    "t_tracking_metric", "t_tracking_output_data_info", "t_component_summary", "t_model_share",
)  # fmt: skip
_AT_ONCE: Final = 256  #: values of a list that one statement names
_META: Final = 0
_POINT: Final = 1
_ATTEMPT: Final = (
    "f_job_id = ? AND f_task_id = ? AND f_task_version = ? AND f_role = ? AND f_party_id = ?"
)
_LATEST_OUTPUT: Final = (
    "NOT EXISTS (SELECT 1 FROM t_tracking_output_data_info AS newer "
    "WHERE newer.f_job_id = o.f_job_id AND newer.f_task_id = o.f_task_id "
    "AND newer.f_role = o.f_role AND newer.f_party_id = o.f_party_id "
    "AND newer.f_task_version > o.f_task_version)"
)
_SHARE: Final = "f_job_id = ? AND f_task_id = ? AND f_role = ? AND f_party_id = ?"

_KEY: Final = TASK_KEY("f_job_id", "f_component_name", "f_task_version", "f_role", "f_party_id")
_ALSO: Final[Mapping[str, Callable[..., Value]]] = {
    "f_task_id": lambda value, _now_ms: value.key.task_id,
    "f_create_time": lambda _value, now_ms: now_ms,
}
_OUTPUTS: Final = Mapper(
    OUTPUT,
    OutputTable,
    {
        "key": _KEY,
        "data_name": "f_data_name",
        "position": "f_position",
        "namespace": "f_table_namespace",
        "name": "f_table_name",
        "address": "f_table_address",
    },
    also=_ALSO,
)
_MODELS: Final = Mapper(
    MODEL_SHARE,
    StoredModel,
    {
        "key": _KEY,
        "alias": "f_model_alias",
        "meta_name": "f_meta_name",
        "param_name": "f_param_name",
        "meta": JSON("f_meta"),
        "param": JSON("f_param"),
    },
    also=_ALSO,
)

_Metric = tuple[TaskKey, str, str]  #: of which attempt, its namespace, its name


class SqlTracking:
    """See `app.ports.jobs.TrackingStore`. The latest attempt is the latest one that produced such a
    thing.
    """

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add_metric(self, key: TaskKey, metric: Metric, *, now_ms: int) -> None:
        base = {
            **_attempt_row(key, now_ms),
            "f_metric_namespace": metric.namespace,
            "f_metric_name": metric.name,
        }
        # every metric has one row of meta; it is the first, so it tells the order of the metrics
        known = self._session.row(
            f"SELECT f_id, f_value FROM t_tracking_metric WHERE {_ATTEMPT} AND f_type = ? "
            "AND f_metric_namespace = ? AND f_metric_name = ?",
            (*_attempt(key), _META, metric.namespace, metric.name),
        )
        if known is None:
            meta = to_json(metric.meta)
            row = {**base, "f_key": "null", "f_value": meta, "f_type": _META}
            self._session.insert(METRIC, row)
        elif metric.meta:
            self._session.write(
                "UPDATE t_tracking_metric SET f_value = ? WHERE f_id = ?",
                (to_json({**from_json(known[1]), **metric.meta}), known[0]),
            )
        self._session.insert_many(
            METRIC,
            (
                {**base, "f_key": to_json(x), "f_value": to_json(y), "f_type": _POINT}
                for x, y in metric.points
            ),
        )

    def metrics(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> list[Metric]:
        share = _share(job_id, component, site)
        latest = f"(SELECT MAX(f_task_version) FROM t_tracking_metric WHERE {_SHARE})"
        found = self._session.rows(
            "SELECT f_metric_namespace, f_metric_name, f_type, f_key, f_value "
            f"FROM t_tracking_metric WHERE {_SHARE} AND f_task_version = "
            f"{latest if version is None else '?'} ORDER BY f_id",
            (*share, *share) if version is None else (*share, version),
        )
        metas: dict[tuple[str, str], dict[str, Any]] = {}
        points: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
        for namespace, name, kind, x, y in found:
            metric = (namespace, name)
            if kind == _META:
                metas.setdefault(metric, {}).update(from_json(y))
            else:
                points.setdefault(metric, []).append((from_json(x), from_json(y)))
        return [
            Metric(namespace=m[0], name=m[1], points=tuple(points.get(m, ())), meta=meta)
            for m, meta in metas.items()
        ]

    def metric_types(self, keys: Collection[TaskKey]) -> dict[TaskKey, set[str]]:
        found: dict[TaskKey, set[str]] = {}
        for (key, _, _), meta in self._metas(keys):
            kind = meta.get("metric_type")
            if isinstance(kind, str):
                found.setdefault(key, set()).add(kind)
        return found

    def metrics_of(
        self, keys: Collection[TaskKey], types: Collection[str]
    ) -> dict[TaskKey, list[Metric]]:
        wanted = tuple(types)  # a stored type may be anything, also what no set can look for
        metas = {m: meta for m, meta in self._metas(keys) if meta.get("metric_type") in wanted}
        points: dict[_Metric, list[tuple[Any, Any]]] = {m: [] for m in metas}
        having = {key for key, _, _ in metas}
        for names in _slices(sorted({name for _, _, name in metas})):
            named = f"AND {one_of('f_metric_name', len(names))} "
            for metric, x, y in self._metric_rows(having, _POINT, named, names):
                if metric in points:
                    points[metric].append((from_json(x), from_json(y)))
        found: dict[TaskKey, list[Metric]] = {}
        for (key, namespace, name), meta in metas.items():
            written = tuple(points[key, namespace, name])
            found.setdefault(key, []).append(
                Metric(namespace=namespace, name=name, points=written, meta=meta)
            )
        return found

    def _metas(self, keys: Collection[TaskKey]) -> Iterator[tuple[_Metric, dict[str, Any]]]:
        """Return the metrics of some attempts, each with its meta."""
        for metric, _, meta in self._metric_rows(keys, _META):
            yield metric, from_json(meta)

    def _metric_rows(
        self, keys: Collection[TaskKey], kind: int, more: str = "", values: Sequence[Value] = ()
    ) -> Iterator[tuple[_Metric, str, str]]:
        """Return key and value of rows of one `f_type`, those of an attempt in the order of their
        writing.
        """
        runs: dict[tuple[str, int, Site], dict[str, TaskKey]] = {}
        for key in keys:
            runs.setdefault((key.job_id, key.version, key.site), {})[key.task_id] = key
        for (job_id, version, site), tasks in runs.items():
            for ids in _slices(list(tasks)):
                found = self._session.rows(
                    "SELECT f_task_id, f_metric_namespace, f_metric_name, f_key, f_value "
                    f"FROM t_tracking_metric WHERE {one_of('f_task_id', len(ids))} "
                    "AND f_job_id = ? AND f_task_version = ? AND f_role = ? AND f_party_id = ? "
                    f"AND f_type = ? {more}ORDER BY f_id",
                    (*ids, job_id, version, site.role.value, site.party_id, kind, *values),
                )
                for task_id, namespace, name, x, y in found:
                    yield (tasks[task_id], namespace, name), x, y

    def metrics_etag(self, key: TaskKey) -> int:
        found = self._session.row(
            f"SELECT f_id FROM t_tracking_metric WHERE {_ATTEMPT} AND f_type = ? "
            "ORDER BY f_id DESC LIMIT 1",
            (*_attempt(key), _POINT),
        )
        return 0 if found is None else int(found[0])

    def drop_metrics(self, job_id: str, component: str | None, site: Site) -> int:
        one = "" if component is None else " AND f_component_name = ?"
        values: list[Value] = [job_id, site.role.value, site.party_id]
        if component is not None:
            values.append(component)
        where = f"WHERE f_job_id = ? AND f_role = ? AND f_party_id = ?{one}"
        found = self._session.row(
            f"SELECT COUNT(*) FROM t_tracking_metric {where} AND f_type = ?", [*values, _META]
        )
        self._session.write(f"DELETE FROM t_tracking_metric {where}", values)
        return int(found[0]) if found else 0

    def count_metrics(self, job_id: str) -> int:
        found = self._session.row(
            "SELECT COUNT(*) FROM t_tracking_metric WHERE f_job_id = ? AND f_type = ?",
            (job_id, _META),
        )
        return int(found[0]) if found else 0

    def drop(self, job_id: str) -> None:
        for table in _TABLES:
            self._session.write(f"DELETE FROM {table} WHERE f_job_id = ?", (job_id,))

    def put_output(self, output: OutputTable, *, now_ms: int) -> None:
        self._session.replace(OUTPUT, _OUTPUTS.row(output, now_ms))

    def outputs(
        self, job_id: str, component: str | None, site: Site, *, version: int | None = None
    ) -> list[OutputTable]:
        one = "" if component is None else "AND o.f_component_name = ? "
        values: list[Value] = [job_id, site.role.value, site.party_id]
        if component is not None:
            values.append(component)
        if version is not None:
            values.append(version)
        found = self._session.rows(
            f"{_OUTPUTS.select} AS o WHERE f_job_id = ? AND f_role = ? AND f_party_id = ? {one}"
            f"AND {_LATEST_OUTPUT if version is None else 'f_task_version = ?'} "
            "ORDER BY f_component_name, f_position, f_data_name",
            values,
        )
        return _OUTPUTS.all(found)

    def output_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        return self._versions("t_tracking_output_data_info", job_id, component, site)

    def every_output(self, job_id: str) -> list[OutputTable]:
        return self._outputs_where("f_job_id = ?", (job_id,))

    def uses_of_table(self, namespace: str, name: str) -> list[OutputTable]:
        return self._outputs_where("f_table_name = ? AND f_table_namespace = ?", (name, namespace))

    def _outputs_where(self, condition: str, values: tuple[Value, ...]) -> list[OutputTable]:
        """Return outputs of all attempts in the order of their writing."""
        found = self._session.rows(
            f"{_OUTPUTS.select} WHERE {condition} ORDER BY f_create_time, f_job_id, "
            "f_component_name, f_task_version, f_data_name, f_role, f_party_id",
            values,
        )
        return _OUTPUTS.all(found)

    def move_table(self, job_id: str, *, old: tuple[str, str], new: tuple[str, str]) -> None:
        self._session.write(
            "UPDATE t_tracking_output_data_info SET f_table_namespace = ?, f_table_name = ? "
            "WHERE f_job_id = ? AND f_table_namespace = ? AND f_table_name = ?",
            (*new, job_id, *old),
        )

    def put_summary(self, key: TaskKey, summary: Any, *, now_ms: int) -> None:
        self._session.replace(SUMMARY, {**_attempt_row(key, now_ms), "f_summary": to_json(summary)})

    def summary(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> Any | None:
        share = _share(job_id, component, site)
        one = "" if version is None else "AND f_task_version = ? "
        found = self._session.row(
            f"SELECT f_summary FROM t_component_summary WHERE {_SHARE} {one}"
            "ORDER BY f_task_version DESC LIMIT 1",
            share if version is None else (*share, version),
        )
        return None if found is None else from_json(found[0])

    def put_model(self, model: StoredModel, *, now_ms: int) -> None:
        self._session.replace(MODEL_SHARE, _MODELS.row(model, now_ms))

    def model(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> StoredModel | None:
        share = _share(job_id, component, site)
        one = "" if version is None else "AND f_task_version = ? "
        found = self._session.row(
            f"{_MODELS.select} WHERE {_SHARE} {one}ORDER BY f_task_version DESC LIMIT 1",
            share if version is None else (*share, version),
        )
        return _MODELS.one(found)

    def model_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        return self._versions("t_model_share", job_id, component, site)

    def _versions(self, table: str, job_id: str, component: str, site: Site) -> list[int]:
        """Return the attempts of a share that have rows in a table, the latest one last."""
        found = self._session.rows(
            f"SELECT DISTINCT f_task_version FROM {table} WHERE {_SHARE} ORDER BY f_task_version",
            _share(job_id, component, site),
        )
        return [int(version) for (version,) in found]


def _slices(values: Sequence[str]) -> Iterator[list[str]]:
    """Return values in lists of at most `_AT_ONCE`. The last one of a list is repeated: so there
    are few lengths, and few texts of statements.
    """
    for start in range(0, len(values), _AT_ONCE):
        some = list(values[start : start + _AT_ONCE])
        length = 1 << (len(some) - 1).bit_length()
        yield some + some[-1:] * (length - len(some))


def _share(job_id: str, component: str, site: Site) -> tuple[str, str, str, str]:
    """Return the values of `_SHARE`."""
    key = TaskKey(job_id=job_id, component=component, version=0, site=site)
    return job_id, key.task_id, site.role.value, site.party_id


def _attempt(key: TaskKey) -> tuple[str, str, int, str, str]:
    """Return the values of `_ATTEMPT`."""
    return key.job_id, key.task_id, key.version, key.site.role.value, key.site.party_id


def _attempt_row(key: TaskKey, now_ms: int) -> dict[str, Value]:
    return {
        "f_job_id": key.job_id,
        "f_task_id": key.task_id,
        "f_task_version": key.version,
        "f_role": key.site.role.value,
        "f_party_id": key.site.party_id,
        "f_component_name": key.component,
        "f_create_time": now_ms,
    }
