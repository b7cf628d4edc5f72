"""ColumnExpand online: columns that have one value in every row."""

from __future__ import annotations

from collections.abc import Mapping

from fedflow.components.features.column_expand import PARAM, ColumnExpandParams, stored_columns
from fedflow.serving.scoring.registry import StepSource


def column_expand(source: StepSource) -> Mapping[str, str]:
    """Return the values by column. Raises: ValueError, BadData: the stored model is none."""
    if not source.params(ColumnExpandParams).need_run:
        return {}
    names, values = stored_columns(source.stored(PARAM))
    return dict(zip(names, values, strict=True))
