"""Which roles and connected ports a training or prediction can have, and the tables on them.

Source: docs/reference/components.md#stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedflow.sdk import BadData, Context, PlannedRun, Role, Table

VALIDATION_PORTS: Final = ("validate_data", "eval_data")


def check_roles(run: PlannedRun, module: str, *, single: Sequence[Role], hosts: int | None) -> None:
    """Do nothing if each role of `single` is there once, and hosts, at most `hosts` (None: any).

    Raises: ValueError: a role is missing, or has too many parties.
    """
    for role in single:
        if len(run.sites_of(role)) != 1:
            raise ValueError(f"role: {module} needs exactly one {role.value}")
    found = len(run.sites_of(Role.HOST))
    if not found:
        raise ValueError(f"role: {module} needs at least one host")
    if hosts is not None and found > hosts:
        raise ValueError(f"role: {module} works with {hosts} host, not with {found}")


def check_ports(run: PlannedRun, *, alone: str | None) -> None:
    """Do nothing if the connected ports say what to do.

    Args:
        alone: the parameter with which `train_data` is the only input.

    Raises: ValueError: they do not.
    """
    ports = set(run.data_ports)
    if "train_data" in ports:
        if "test_data" in ports:
            raise ValueError("input.data: train_data together with test_data")
        if alone and (ports != {"train_data"} or run.has_model):
            raise ValueError(f"{alone}: takes train_data alone, no other data and no model")
    elif "validate_data" in ports:
        raise ValueError("input.data: validate_data without train_data")
    elif not run.has_model:
        raise ValueError("input.model: test_data needs a trained model")
    if "eval_data" in ports and ports & {"validate_data", "test_data"}:
        raise ValueError("input.data: eval_data together with validate_data or test_data")


def input_table(ctx: Context, *ports: str) -> Table:
    """Return the first table of the first of `ports` that has one. Raises: BadData: none has."""
    table = ctx.inputs.first(*ports)
    if table is None:
        raise BadData(where=f"{ctx.component} at {ctx.site}", reason=f"no table on {ports[0]}")
    return table


def check_no_more_columns(table: Table, *, known: int) -> None:
    """Do nothing if a table has no more than the `known` columns of a model to start from.

    Raises: BadData: it has.
    """
    if more := len(table.schema.columns) - known:
        raise BadData(
            where=f"table {table.namespace}.{table.name}",
            reason=f"has {more} columns that the model to start from does not know",
        )
