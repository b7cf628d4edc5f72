"""Data that a component cannot use end its job at every party: with the whole sentence at home,
elsewhere with its code and no cell, row or name of a column.

The tables are small and made here. Every cell has nine digits that stand nowhere else, and some ids
are in one party's table only: none of them may stand in what the other party is told or logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from fedflow.domain.site import Site
from tests.e2e.jobs import Json
from tests.e2e.pipelines import Step, pipeline
from tests.e2e.servers import GUEST, HOST, QUICK, Pair, Party, two_parties

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROWS = 40
KEY = {"encrypt_param": {"method": "Paillier", "key_length": 1024}}
LEARNS: Json = {
    "max_iter": 2,
    "batch_size": -1,
    "learning_rate": 0.1,
    "init_param": {"init_method": "zeros"},
    **KEY,
}
TABLES = "data_errors"
UPLOADED: dict[str, dict[str, list[str]]] = {}  #: by name, of this module's servers

Cells = dict[str, list[str]]


def cells(seed: int, ids: list[str], *names: str) -> Cells:
    """Return the columns of a table, of cells that occur nowhere else."""
    draw = Random(seed)
    table: Cells = {"id": ids}
    for name in names:
        table[name] = [f"{draw.uniform(-2, 2):.9f}" for _ in ids]
    return table


def of_guest() -> Cells:
    ids = [f"r{i}" for i in range(ROWS)] + [f"guest-only-{i}" for i in range(5)]
    table = cells(1, ids, "pay_x0", "pay_x1")
    return {"id": ids, "y": [str(i % 2) for i in range(len(ids))], **table}


def of_host() -> Cells:
    ids = [f"r{i}" for i in range(ROWS)] + [f"host-only-{i}" for i in range(5)]
    return cells(2, ids, "hiv_z0", "hiv_z1", "hiv_z2")


def with_cells(table: Cells, column: str, changes: Mapping[int, str]) -> Cells:
    """Return a table with other cells in some rows of a column."""
    new = [changes.get(row, cell) for row, cell in enumerate(table[column])]
    return {**table, column: new}


def constant(table: Cells, column: str, value: str) -> Cells:
    return {**table, column: [value] * len(table["id"])}


def without(table: Cells, column: str) -> Cells:
    return {name: cells for name, cells in table.items() if name != column}


def read(guest: str, host: str, *, label: bool = True, suffix: int = 0) -> dict[str, Step]:
    """Return the steps from two tables to the rows that both have."""
    reader, made = f"reader_{suffix}", f"data_transform_{suffix}"
    tables = [{"table": {"name": n, "namespace": TABLES}} for n in (guest, host)]
    missing = {"missing_fill": False}
    labelled = {"with_label": True, "label_name": "y", "label_type": "int"} if label else {}
    return {
        reader: Step(module="Reader", guest=tables[0], host=tables[1]),
        made: Step(
            module="DataTransform",
            data={"data": [f"{reader}.data"]},
            guest={**missing, **labelled},
            host=missing,
        ),
        f"intersection_{suffix}": Step(
            module="Intersection",
            data={"data": [f"{made}.data"]},
            params={"intersect_method": "rsa", "rsa_params": {"key_length": 1024}},
        ),
    }


def learner(module: str, data: str = "intersection_0.data", **params: object) -> Step:
    return Step(module=module, data={"train_data": [data]}, params={**LEARNS, **params})


def follows(module: str, data: str = "intersection_0.data", **params: object) -> Step:
    return Step(module=module, data={"data": [data]}, params=dict(params))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job that fails, and what all parties are told."""

    steps: dict[str, Step]
    component: str
    says: tuple[str, ...]
    guest: Cells = field(default_factory=of_guest)
    host: Cells = field(default_factory=of_host)
    second: Cells = field(default_factory=of_host)  #: a further table of the host
    code: str = "BadData"
    at: Site | None = None  #: None: more than one site finds it out
    arbiter: bool = False


START = read("guest", "host")
NO_LABEL = {**read("guest", "host", label=False)}
ONE_CLASS = constant(of_guest(), "y", "1")
HOLES = with_cells(of_host(), "hiv_z1", {3: "", 7: "", 40: ""})

CASES: dict[str, Case] = {
    "no label column": Case(
        steps=START,
        guest=without(of_guest(), "y"),
        component="data_transform_0",
        says=("'y'",),
        at=GUEST,
    ),
    "rows without label": Case(
        steps=START,
        guest=with_cells(of_guest(), "y", {2: "", 5: "", 9: ""}),
        component="data_transform_0",
        says=("'y'", "3 of 45 cells"),
        at=GUEST,
    ),
    "no label to learn from": Case(
        steps={**NO_LABEL, "hetero_lr_0": learner("HeteroLR")},
        guest=without(of_guest(), "y"),
        component="hetero_lr_0",
        says=("label",),
        at=GUEST,
        arbiter=True,
    ),
    "no label to bin by": Case(
        steps={**NO_LABEL, "binning_0": follows("HeteroFeatureBinning", **KEY)},
        guest=without(of_guest(), "y"),
        component="binning_0",
        says=("label",),
        at=GUEST,
    ),
    "missing values to learn from": Case(
        steps={**START, "hetero_lr_0": learner("HeteroLR")},
        host=HOLES,
        component="hetero_lr_0",
        says=("'hiv_z1'", "2 missing"),
        at=HOST,
        arbiter=True,
    ),
    "missing values to learn from, two parties": Case(
        steps={**START, "hetero_sshe_lr_0": learner("HeteroSSHELR")},
        host=HOLES,
        component="hetero_sshe_lr_0",
        says=("'hiv_z1'", "2 missing"),
        at=HOST,
    ),
    "a constant column to correlate": Case(
        steps={
            **START,
            "statistic_0": follows("DataStatistics"),
            "pearson_0": follows("HeteroPearson", data="statistic_0.data", column_indexes=-1),
        },
        host=constant(of_host(), "hiv_z2", "0.271828182"),
        component="pearson_0",
        says=("hiv_z2", "40 rows"),
        at=HOST,
    ),
    "one class to learn from": Case(
        steps={**START, "hetero_lr_0": learner("HeteroLR")},
        guest=ONE_CLASS,
        component="hetero_lr_0",
        says=("class", "40"),
        at=GUEST,
        arbiter=True,
    ),
    "one class to learn from, two parties": Case(
        steps={**START, "hetero_sshe_lr_0": learner("HeteroSSHELR")},
        guest=ONE_CLASS,
        component="hetero_sshe_lr_0",
        says=("class", "40"),
        at=GUEST,
    ),
    "one class to bin by": Case(
        steps={**START, "binning_0": follows("HeteroFeatureBinning", **KEY)},
        guest=ONE_CLASS,
        component="binning_0",
        says=("class", "40"),
        at=GUEST,
    ),
    "no common ids": Case(
        steps=START,
        host={**of_host(), "id": [f"host-only-{i}" for i in range(ROWS + 5)]},
        component="intersection_0",
        says=("in common",),
        code="NoCommonIds",
    ),
    "another schema to transform": Case(
        steps={
            **START,
            **read("guest", "second", suffix=1),
            "binning_0": follows("HeteroFeatureBinning", **KEY),
            "binning_1": Step(
                module="HeteroFeatureBinning",
                data={"data": ["intersection_1.data"]},
                model=["binning_0.model"],
                params=KEY,
            ),
        },
        second=without(of_host(), "hiv_z1"),
        component="binning_1",
        says=("1 column", "hiv_z1"),
        at=HOST,
    ),
    "another schema to predict": Case(
        steps={
            **START,
            **read("guest", "second", suffix=1),
            "hetero_sshe_lr_0": learner("HeteroSSHELR"),
            "hetero_sshe_lr_1": Step(
                module="HeteroSSHELR",
                data={"test_data": ["intersection_1.data"]},
                model=["hetero_sshe_lr_0.model"],
            ),
        },
        second=without(of_host(), "hiv_z1"),
        component="hetero_sshe_lr_1",
        says=("hiv_z1",),
        at=HOST,
    ),
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    UPLOADED.clear()
    with two_parties(tmp_path_factory.mktemp("data_errors"), settings=QUICK) as pair:
        yield pair


def upload(party: Party, name: str, table: Cells, folder: Path) -> None:
    path = folder / f"{name}.csv"
    rows = zip(*table.values(), strict=True)
    path.write_text("\n".join(",".join(row) for row in (table, *rows)) + "\n")
    sent = party.client.upload(path, namespace=TABLES, table_name=name, drop=True)
    assert party.client.wait(sent.job_id, timeout_s=120).succeeded


def submitted(pair: Pair, case: Case, folder: Path) -> str:
    """Return the job of a case, over its tables; those that are there already are not sent."""
    tables = {"guest": case.guest, "host": case.host, "second": case.second}
    for name, table in tables.items():
        if UPLOADED.get(name) != table and any(name in str(step) for step in case.steps.values()):
            upload(pair.guest if name == "guest" else pair.host, name, table, folder)
            UPLOADED[name] = table
    dsl, conf = pipeline(case.steps, arbiter=case.arbiter)
    return pair.guest.client.submit(dsl, conf).job_id


def told(pair: Pair, site: Site, job_id: str, steps: dict[str, Step]) -> str:
    """Return all that a party can see of a job: its answers, its logs and its server's log."""
    party, share = pair.of(site), {"role": site.role.value, "party_id": site.party_id}
    answers: list[object] = [
        party.post(f"/v1/job/{path}", {"job_id": job_id})
        for path in ("query", "status", "events", "explain", "report", "task/query")
    ]
    for name in steps:
        where = {"job_id": job_id, "component_name": name, **share}
        answers += [
            party.post(f"/v1/tracking/component/{path}", where)
            for path in (
                "metric/all", "output/model", "output/data", "summary/download", "parameters",
            )
        ]  # fmt: skip
    logs = [p for p in (party.home / "logs").rglob("*") if p.is_file()]
    assert any(job_id in p.parts for p in logs)
    texts = [p.read_text(errors="replace") for p in (*logs, party.log)]
    return "\n".join((json.dumps(answers), *texts))


def secrets_of(table: Cells, other: Cells) -> set[str]:
    """Return cells of a table, and its ids that the other table has not."""
    shared = {cell for column in other.values() for cell in column}
    found = {cell for column in table.values() for cell in column if len(cell) > 3}
    return found - shared


def check_nothing_leaked(pair: Pair, job_id: str, case: Case) -> None:
    at_guest = told(pair, GUEST, job_id, case.steps)
    at_host = told(pair, HOST, job_id, case.steps)
    for table in (case.host, case.second):
        leaked = {s for s in secrets_of(table, case.guest) if s in at_guest}
        assert not leaked, "of the host's table, at the guest"
        names = {name for name in table if name.startswith("hiv_") and name in at_guest}
        assert not names, "of the host's columns, at the guest"
    leaked = {s for s in secrets_of(case.guest, case.host) if s in at_host}
    assert not leaked, "of the guest's table, at the host"
    names = {name for name in case.guest if name.startswith("pay_") and name in at_host}
    assert not names, "of the guest's columns, at the host"


@pytest.mark.parametrize("name", CASES)
def test_a_party_sees_its_own_sentence_and_the_others_its_code_and_no_name(
    pair: Pair, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    job_id = submitted(pair, case, tmp_path)
    assert set(pair.ends(job_id).values()) == {"failed"}
    for own, view in zip((GUEST, HOST), pair.views(job_id), strict=True):
        reason = view.reason
        assert reason.code == case.code, reason
        finders = (case.at,) if case.at else (GUEST, HOST)  # whoever of them was heard first
        (found_by,) = (site for site in finders if site.key == reason.site)
        assert reason.message.startswith(f"{case.component} at {found_by}: "), reason
        if own == case.at or case.at is None:
            assert all(part in reason.message for part in case.says), reason
        else:
            assert reason.message.endswith(f"BadData; the details stay at {case.at}"), reason
    check_nothing_leaked(pair, job_id, case)


def test_what_was_not_seen_in_training_is_no_error(pair: Pair, tmp_path: Path) -> None:
    """A category that the encoder does not know is zeros, a constant column has statistics."""
    category = constant(of_host(), "hiv_z0", "1")
    steps = {
        **START,
        **read("guest", "second", suffix=1),
        "statistic_0": follows("DataStatistics"),
        "one_hot_0": follows("OneHotEncoder", transform_col_indexes=[0]),
        "one_hot_1": Step(
            module="OneHotEncoder",
            data={"data": ["intersection_1.data"]},
            model=["one_hot_0.model"],
            params={"transform_col_indexes": [0]},
        ),
    }
    case = Case(
        steps=steps,
        guest=constant(of_guest(), "pay_x0", "1"),
        host=with_cells(category, "hiv_z0", dict.fromkeys(range(0, ROWS, 2), "2")),
        second=with_cells(category, "hiv_z0", dict.fromkeys(range(ROWS), "3")),
        component="",
        says=(),
    )
    job_id = submitted(pair, case, tmp_path)
    assert set(pair.ends(job_id).values()) == {"success"}
    own = told(pair, HOST, job_id, steps)
    assert any(cell in own for cell in case.host["hiv_z1"]), "the search finds what is there"
    [output] = pair.host.client.outputs(job_id, component="one_hot_1", site=HOST)
    shown = pair.host.client.tables.preview(output.table_namespace, output.table_name)
    encoded = [i for i, column in enumerate(shown.header) if column.startswith("hiv_z0_")]
    assert len(encoded) == 2
    assert {float(row[i]) for row in shown.rows for i in encoded} == {0.0}
    statistics = pair.guest.client.summary(job_id, "statistic_0", site=GUEST)
    assert "pay_x0" in json.dumps(statistics)
    check_nothing_leaked(pair, job_id, case)
