"""Tests of the example provider: `python -m pytest examples/provider`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from columns import CompareMeans, clip_values

from fedflow.sdk import BadData, BadParameter, Inputs, Role, Site, Table, TableKind, TableSchema
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of, run_component

GUEST, HOST = Site(Role.GUEST, "9999"), Site(Role.HOST, "10000")  # type: ignore[arg-type]


def table(**columns: list[float | None]) -> Table:
    """Return instances with these features."""
    rows = len(next(iter(columns.values())))
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=tuple(columns))
    with MemoryTableStore().create(schema) as writer:
        writer.write(pa.table({"id": [str(n) for n in range(rows)], **columns}))
        return writer.close()


def run(component: Any, tables: dict[Site, Table], folder: Path, **params: Any) -> Any:
    return run_component(
        component,
        sites=tables,
        work_dir=folder,
        inputs={s: Inputs(data={"data": [("a", t)]}, model={}) for s, t in tables.items()},
        params=dict.fromkeys(tables, params),
    )


def test_values_beyond_the_bounds_are_clipped(tmp_path: Path) -> None:
    given = {GUEST: table(x0=[-5.0, 1.0, None, 5.0], x1=[9.0, 9.0, 9.0, 9.0])}
    outputs = outputs_of(run(clip_values, given, tmp_path, columns=["x0"], upper=2.0))
    clipped = outputs[GUEST].data[0].read().to_pydict()
    assert clipped["x1"] == [9.0] * 4
    assert clipped["x0"][0::3] == [-3.0, 2.0]


def test_an_unknown_column_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="no columns x7"):
        outputs_of(run(clip_values, {GUEST: table(x0=[1.0])}, tmp_path, columns=["x7"]))


def test_the_guest_sees_all_means_and_hosts_see_none(tmp_path: Path) -> None:
    given = {GUEST: table(x0=[1.0, 2.0]), HOST: table(x0=[3.0, 5.0])}
    outputs = outputs_of(run(CompareMeans, given, tmp_path))
    assert outputs[GUEST].summary == {"means": {"guest 9999": 1.5, "host 10000": 4.0}}
    assert outputs[HOST].summary == {}


def test_without_a_host_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="a host to compare with is needed"):
        outputs_of(run(CompareMeans, {GUEST: table(x0=[1.0])}, tmp_path))
