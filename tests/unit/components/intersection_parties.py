"""Parties, tables and runs for the tests of Intersection, all in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import PartyId
from fedflow.components.intersection.intersection import Intersection
from fedflow.sdk import Inputs, PeerFailed, Role, Site, Table, TableKind, TableSchema
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
HOST_2 = Site(Role.HOST, PartyId("10001"))

SMALL_KEYS = {"rsa_params": {"key_length": 1024}}  #: quick to make


def intersect(
    ids: Mapping[Site, list[str]],
    work_dir: Path,
    *,
    params: Mapping[str, Any] | Mapping[Site, Mapping[str, Any]] | None = None,
    **options: Any,
) -> dict[Site, RunResult]:
    """Run Intersection over tables with these ids and a column `at` with the row number.

    `params` are those of all sites, or by site.
    """
    tables = {}
    for site, own in ids.items():
        columns = {"id": pa.array(own, pa.string()), "at": np.arange(len(own), dtype=float)}
        tables[site] = MemoryTableStore().add(columns)
    return intersect_tables(tables, work_dir, params=params, **options)


def intersect_tables(
    given: Mapping[Site, Table],
    work_dir: Path,
    *,
    params: Mapping[str, Any] | Mapping[Site, Mapping[str, Any]] | None = None,
    **options: Any,
) -> dict[Site, RunResult]:
    """Run Intersection over these tables."""
    per_site: Any = params or {}
    if not any(site in per_site for site in given):
        per_site = dict.fromkeys(given, per_site)
    return run_component(
        Intersection,
        sites=tuple(given),
        params=per_site,
        inputs={
            site: Inputs(data={"data": [("reader_0", table)]}, model={})
            for site, table in given.items()
        },
        work_dir=work_dir,
        **options,
    )


def one_side(
    site: Site, federation: LocalFederation, ids: Sequence[str], work_dir: Path, **params: Any
) -> Exception | None:
    """Run the component at one of two sites, the test plays the other; return its error."""
    table = MemoryTableStore().add({"id": pa.array(ids, pa.string())})
    results = run_component(
        Intersection,
        sites=(GUEST, HOST),
        only=(site,),
        params={site: params},
        inputs={site: Inputs(data={"data": [("reader_0", table)]}, model={})},
        work_dir=work_dir,
        federation=federation,
    )
    return results[site].error


def hello_of(site: Site, ids: Sequence[str], work_dir: Path, **params: Any) -> dict[str, Any]:
    """Return what an honest party with these ids says first."""
    other = HOST if site is GUEST else GUEST
    federation = LocalFederation((GUEST, HOST))
    federation.finish(other)
    one_side(site, federation, ids, work_dir, **params)
    said: dict[str, Any] = federation.at(other).recv("psi_hello", from_=site)
    return said


def with_match_ids(
    sids: Sequence[str], match_ids: Sequence[str], *, store: MemoryTableStore | None = None
) -> Table:
    """Return a table with sample ids, match ids and a column `at` with the row number."""
    schema = TableSchema(kind=TableKind.INSTANCES, id="sid", match_id="id", columns=("at",))
    columns = {
        "sid": pa.array(sids, pa.string()),
        "id": pa.array(match_ids, pa.string()),
        "at": np.arange(len(sids), dtype=float),
    }
    return (store or MemoryTableStore()).add(columns, schema=schema)


def table_out(results: Mapping[Site, RunResult], site: Site) -> dict[str, list[Any]]:
    """Return the output table of a site."""
    table = outputs_of(results)[site].data[0]
    assert table is not None
    return table.read().to_pydict()  # type: ignore[no-any-return]


def ids_out(results: Mapping[Site, RunResult], site: Site) -> list[str]:
    """Return the sample ids of a site's output."""
    return next(iter(table_out(results, site).values()))


def errors_of(results: Mapping[Site, RunResult]) -> list[FedflowError]:
    """Return the errors of all sites but what others' failures caused."""
    found = [r.error for r in results.values() if not isinstance(r.error, PeerFailed)]
    return [error for error in found if isinstance(error, FedflowError)]
