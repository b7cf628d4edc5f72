"""What scores and features were like in the job of a version: what drift is measured against.

Features are counted in the table that the first DataTransform of the predict DSL read at this site,
scores in what the model predicted in the training: of validation rows if there are any. At most
`ROWS` rows are looked at, and counts alone are passed on.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isfinite
from typing import Any, Final

import msgspec

from fedflow.app.ports.data import TableWindows
from fedflow.app.ports.store import Store
from fedflow.base.errors.error import FedflowError
from fedflow.domain.models.model import ModelVersion
from fedflow.domain.records import TableRecord
from fedflow.wire.deployed_model import ColumnHistogram, ReferenceHistograms

logger = logging.getLogger(__name__)

ROWS: Final = 5_000
COLUMNS: Final = 300  #: features that are counted
BINS: Final = 10

_READS_ROWS: Final = "datatransform"
_SCORE, _DETAIL, _TYPE, _VALIDATE = "predict_score", "predict_detail", "type", "validate"
_details: Final = msgspec.json.Decoder(dict[str, float])
_MISSING: Final = frozenset({"", "None", "NULL", "null", "NA", "nan", "NaN"})


class DriftReferences:
    """Reads the outputs of training jobs at this server."""

    def __init__(self, *, store: Store, windows: TableWindows) -> None:
        self._store = store
        self._windows = windows

    def of(
        self, version: ModelVersion, predict_dsl: Mapping[str, Any]
    ) -> ReferenceHistograms | None:
        """Return the reference of a deployed version; None: its job's outputs are gone."""
        job_id, components = _trained_by(version), predict_dsl.get("components") or {}
        try:
            features = self._features(version, job_id, components)
            scores, what = self._scores(version, job_id, components)
        except FedflowError as exc:
            logger.warning(
                "no reference for drift: %s", exc.message, extra={"action": "drift_reference"}
            )
            return None
        if not features and not scores:
            return None
        source = f"job {job_id}: {what}" if scores else f"job {job_id}"
        return ReferenceHistograms(source=source, features=features, scores=scores)

    def sample(
        self, version: ModelVersion, predict_dsl: Mapping[str, Any]
    ) -> dict[str, str] | None:
        """Return a row that the training read at this site; None: its job's outputs are gone."""
        components = predict_dsl.get("components") or {}
        try:
            table = self._rows_read(version, _trained_by(version), components)
            if table is None or not table.count:
                return None
            names = _features_of(table)
            row = self._rows(table, names, most=1)[0]
        except FedflowError as exc:
            logger.warning("no sample: %s", exc.message, extra={"action": "load_sample"})
            return None
        return {name: cell for name, cell in zip(names, row, strict=True) if cell not in _MISSING}

    def _features(
        self, version: ModelVersion, job_id: str, components: Mapping[str, Any]
    ) -> dict[str, ColumnHistogram]:
        """Return what each column of numbers was like before any step. Raises: BadData."""
        table = self._rows_read(version, job_id, components)
        if table is None:
            return {}
        names = _features_of(table)[:COLUMNS]
        return _numbers(names, self._rows(table, names))

    def _rows_read(
        self, version: ModelVersion, job_id: str, components: Mapping[str, Any]
    ) -> TableRecord | None:
        """Return the table that the first DataTransform read; None: it is gone."""
        for one in components.values():
            if str(one.get("module", "")).lower() != _READS_ROWS:
                continue
            for reference in _data_inputs(one):
                for table in self._tables(version, job_id, reference.partition(".")[0]):
                    return table
        return None

    def _scores(
        self, version: ModelVersion, job_id: str, components: Mapping[str, Any]
    ) -> tuple[dict[str, ColumnHistogram], str]:
        """Return what the predictions of the last component that has some were like, and of which
        rows they are. Raises: BadData.
        """
        for name in reversed(list(components)):
            rows: list[Sequence[str]] = []
            for table in self._tables(version, job_id, name):
                if _SCORE in _features_of(table):
                    rows += self._rows(table, [_SCORE, _DETAIL, _TYPE])
            if rows:
                validated = [row for row in rows if row[2] == _VALIDATE]
                what = "validation" if validated else "training"
                return _score_histograms(validated or rows), what
        return {}, ""

    def _tables(self, version: ModelVersion, job_id: str, component: str) -> list[TableRecord]:
        """Return the outputs of a component's latest attempt that are as they were written."""
        with self._store.read() as tx:
            found = tx.tracking.outputs(job_id, component, version.key.site)
            tables = [(one, tx.tables.get(one.namespace, one.name)) for one in found]
        return [
            table for one, table in tables if table is not None and table.address == one.address
        ]

    def _rows(
        self, table: TableRecord, names: Sequence[str], *, most: int = ROWS
    ) -> Sequence[Sequence[str]]:
        places = {name: place for place, name in enumerate(_all_columns(table))}
        columns = [places[name] for name in names]
        limit = min(most, table.count)
        return self._windows.read(table, offset=0, limit=limit, columns=columns)


def _trained_by(version: ModelVersion) -> str:
    """Return the job that trained a version."""
    info = version.parent_info if isinstance(version.parent_info, dict) else {}
    return str(info.get("parent_model_version") or version.job_id)


def histogram(values: Iterable[float | None]) -> ColumnHistogram | None:
    """Return bins of about the same number of values each; None: there is no value."""
    given = list(values)
    known = sorted(value for value in given if value is not None and isfinite(value))
    if not given:
        return None
    ends = (known[ceil(len(known) * k / BINS) - 1] for k in range(1, BINS)) if known else ()
    edges = sorted(set(ends))
    counts = Counter(bisect_left(edges, value) for value in known)
    return ColumnHistogram(
        edges=edges,
        counts=[counts[place] for place in range(len(edges) + 1)],
        missing=len(given) - len(known),
    )


def _numbers(names: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, ColumnHistogram]:
    """Return a histogram of each column that has numbers alone."""
    found = {}
    for place, name in enumerate(names):
        try:
            made = histogram(_number(row[place]) for row in rows)
        except ValueError:
            continue
        if made is not None and any(made.counts):
            found[name] = made
    return found


def _score_histograms(rows: Sequence[Sequence[str]]) -> dict[str, ColumnHistogram]:
    """Return those of `score`, or of each class if there are more than two."""
    details = [_classes(row[1]) for row in rows]
    classes = list(details[0])
    if len(classes) > 2:
        columns = {f"score:{name}": [one.get(name) for one in details] for name in classes}
    else:
        columns = {"score": [_number(row[0]) for row in rows]}
    made = {name: histogram(values) for name, values in columns.items()}
    return {name: one for name, one in made.items() if one is not None}


def _classes(detail: str) -> dict[str, float]:
    try:
        return _details.decode(detail)
    except msgspec.MsgspecError:
        return {}


def _number(text: str) -> float | None:
    """Raises: ValueError: it is none."""
    return None if text in _MISSING else float(text)


def _data_inputs(component: Mapping[str, Any]) -> list[str]:
    given = component.get("input")
    data = given.get("data") if isinstance(given, dict) else None
    found = data.values() if isinstance(data, dict) else ()
    return [str(one) for names in found for one in (names if isinstance(names, list) else [names])]


def _features_of(table: TableRecord) -> list[str]:
    schema = table.schema if isinstance(table.schema, Mapping) else {}
    columns = schema.get("columns")
    return [str(one) for one in columns] if isinstance(columns, list | tuple) else []


def _all_columns(table: TableRecord) -> list[str]:
    schema = table.schema if isinstance(table.schema, Mapping) else {}
    leading = (schema.get(name) for name in ("id", "match_id", "label", "weight"))
    return [*(str(name) for name in leading if name), *_features_of(table)]
