"""A component's own model among its inputs, and what it needs of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fedflow.sdk import BadData, Context, Model, Table


def own_model(ctx: Context, param_name: str) -> Model | None:
    """Return the input model whose param object is named `param_name`, or None.

    Raises: BadData: there are several, or the connected models are all of other components.
    """
    models = ctx.inputs.model
    found = [model for model in models.values() if model.param_name == param_name]
    if len(found) > 1:
        raise BadData(
            where="the model input", reason=f"{len(found)} of its models are {param_name}"
        )
    if models and not found:
        names = ", ".join(sorted(model.param_name for model in models.values()))
        raise BadData(where="the model input", reason=f"it holds {names}, not {param_name}")
    return found[0] if found else None


def need_columns(ctx: Context, table: Table, names: Iterable[str]) -> None:
    """Do nothing if `table` has the features `names` of a model. Raises: BadData: it has not."""
    known = set(table.schema.columns)
    if absent := [name for name in names if name not in known]:
        # They are for the log: there may be more of them than a sentence takes.
        ctx.log.error("columns of the table: %s", ", ".join(table.schema.columns))
        raise BadData(
            where=f"table {table.namespace}.{table.name}",
            reason=f"{len(absent)} columns of the model are missing: {', '.join(absent[:20])}",
        )


def stored_number(value: Any, *, what: str) -> float:
    """Return a number of a stored model. Raises: BadData: it is none, or not finite."""
    try:
        number = float(value)
    except (TypeError, ValueError) as exc:
        raise BadData(where="the model input", reason=f"its {what} is no number") from exc
    if not math.isfinite(number):
        raise BadData(where="the model input", reason=f"its {what} is not finite")
    return number
