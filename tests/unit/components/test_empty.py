"""The component Empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.base.ids import PartyId
from fedflow.components.empty import Empty, EmptyParams
from fedflow.sdk import BadParameter, ComponentFailed, Inputs, Role, Site, check_params
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of, run_component

SITES = (
    Site(Role.GUEST, PartyId("9999")),
    Site(Role.HOST, PartyId("10000")),
    Site(Role.ARBITER, PartyId("10000")),
    Site(Role.LOCAL, PartyId("0")),
)


def test_without_parameters_nothing_comes_out(tmp_path: Path) -> None:
    outputs = outputs_of(run_component(Empty, sites=SITES, work_dir=tmp_path))
    assert all(o.data == () for o in outputs.values())


@pytest.mark.parametrize("rows", [0, 3, 70_000])
def test_it_makes_the_rows_asked_for(rows: int, tmp_path: Path) -> None:
    site = SITES[0]
    results = run_component(Empty, sites=(site,), params={site: {"rows": rows}}, work_dir=tmp_path)
    table = outputs_of(results)[site].data[0]
    assert table is not None
    assert table.count == rows
    assert table.read().column("id").to_pylist() == [str(i) for i in range(rows)]


def test_it_passes_its_input_on(tmp_path: Path) -> None:
    site = SITES[1]
    table = MemoryTableStore().add({"id": ["1"]})
    inputs = Inputs(data={"data": [("reader_0", table)]}, model={})
    results = run_component(Empty, sites=(site,), inputs={site: inputs}, work_dir=tmp_path)
    assert outputs_of(results)[site].data == (table,)


@pytest.mark.parametrize(
    ("fail", "failing"),
    [(True, set(SITES)), ("host", {SITES[1]}), ("arbiter-10000", {SITES[2]}), (False, set())],
)
def test_it_fails_where_it_is_told_to(fail: bool | str, failing: set[Site], tmp_path: Path) -> None:
    params = {site: {"fail": fail, "sleep_s": 0.01} for site in SITES}
    results = run_component(Empty, sites=SITES, params=params, work_dir=tmp_path)
    assert {s for s, r in results.items() if isinstance(r.error, ComponentFailed)} == failing
    assert all(r.progress[-1] == 1.0 for r in results.values())


@pytest.mark.parametrize(
    "params", [{"sleep_s": -1}, {"rows": -1}, {"fail": "nobody"}, {"fail": "host-"}, {"sleep": 1}]
)
def test_wrong_parameters_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(BadParameter):
        check_params(EmptyParams, params, path="$")
