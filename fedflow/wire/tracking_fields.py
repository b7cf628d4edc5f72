"""What components gave, as `tracking` answers it. Source: `docs/reference/rest.md#tracking`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedflow.domain.records import Metric, OutputTable
from fedflow.wire.api import tracking


def output_place(output: OutputTable) -> tracking.OutputAddress:
    """Return an output as `output/data/table` shows it."""
    return tracking.OutputAddress(
        table_name=output.name,
        table_namespace=output.namespace,
        namespace=output.namespace,
        data_name=output.data_name,
    )


def metric_names(metrics: Sequence[Metric]) -> dict[str, list[str]]:
    """Return the names of metrics by namespace, in the order in which they were written."""
    names: dict[str, list[str]] = {}
    for metric in metrics:
        names.setdefault(metric.namespace, []).append(metric.name)
    return names


def metric_tree(metrics: Sequence[Metric]) -> dict[str, dict[str, tracking.Metric]]:
    """Return namespace -> name -> points and meta, as `metric/all` shows metrics."""
    tree: dict[str, dict[str, tracking.Metric]] = {}
    for metric in metrics:
        shown = tracking.Metric(points=metric_points(metric), meta=metric.meta)
        tree.setdefault(metric.namespace, {})[metric.name] = shown
    return tree


def metric_points(metric: Metric) -> tuple[tuple[Any, Any], ...]:
    """Return the points as (key, value), in order of their keys if these can be compared."""
    keys = [key for key, _ in metric.points]
    for kinds in ((int, float), str):
        if all(isinstance(key, kinds) for key in keys):
            return tuple(sorted(metric.points, key=lambda point: point[0]))
    return tuple(metric.points)
