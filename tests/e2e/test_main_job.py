"""The main job between real servers: what it computes, what each party has of it and what not."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedflow.base.errors.data import NoData
from fedflow.base.errors.error import FedflowError
from fedflow.domain.site import Role, Site
from fedflow.testing.oracle import OracleRun, OracleSettings, train_in_clear
from tests.e2e.jobs import NAMES, example, upload_data
from tests.e2e.servers import (
    ARBITER,
    DATA,
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    Pair,
    environment,
    mysql_database,
    refusal_of,
    standalone,
    two_parties,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ITERATIONS = 10
ROWS = 569
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Done:
    """A finished main job and the servers that ran it."""

    pair: Pair
    job_id: str

    @property
    def federated(self) -> bool:
        return self.pair.guest is not self.pair.host


@pytest.fixture(
    scope="module",
    params=[
        "federated",
        "standalone",
        pytest.param("mysql at both", marks=[pytest.mark.mysql, pytest.mark.heavy]),
        pytest.param("mysql at the host", marks=pytest.mark.mysql),
    ],
)
def done(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Done]:
    """The main job, run once per way to deploy."""
    folder = tmp_path_factory.mktemp("main")
    with ExitStack() as stack:
        if request.param == "standalone":
            pair = stack.enter_context(standalone(folder))
        else:
            host = stack.enter_context(mysql_database()) if "mysql" in request.param else {}
            both = request.param == "mysql at both"
            guest = stack.enter_context(mysql_database()) if both else {}
            pair = stack.enter_context(
                two_parties(folder, guest_settings=guest, host_settings=host)
            )
        upload_data(pair)
        job_id = pair.guest.client.submit(*example(iterations=ITERATIONS)).job_id
        statuses = pair.ends(job_id)
        view = pair.guest.client.job(job_id)
        assert set(statuses.values()) == {"success"}, (view, view.reason)
        assert sorted(statuses) == ["arbiter-10000", "guest-9999", "host-10000"]
        yield Done(pair, job_id)
        pair.wait_idle()


# --- what it computes -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clear(done: Done, tmp_path_factory: pytest.TempPathFactory) -> OracleRun:
    """The same training in the clear on the joined rows, in the order in which the job had them."""
    features, labels = joined(done, tmp_path_factory.mktemp("rows"))
    return train_in_clear(features, labels, OracleSettings(iterations=ITERATIONS))


def joined(done: Done, folder: Path) -> tuple[Floats, Floats]:
    """Return the columns of both parties side by side, and the labels as -1 and 1."""
    table = download(done, GUEST, "intersection_0", folder)
    ids = [row[0] for row in table[1:]]
    guest, host = (read_csv(DATA / f"{NAMES[party]}.csv") for party in (GUEST_ID, HOST_ID))
    rows = [[float(cell) for cell in guest[i] + host[i]] for i in ids]
    matrix = np.array(rows)
    return matrix[:, 1:], np.where(matrix[:, 0] == 1, 1.0, -1.0)


def read_csv(path: Path) -> dict[str, list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return {row[0]: row[1:] for row in list(csv.reader(file))[1:]}


def download(done: Done, site: Site, component: str, folder: Path) -> list[list[str]]:
    """Return the rows of a component's output at a site, the header first."""
    client = done.pair.of(site).client
    files = client.download_output(done.job_id, component, folder, site=site)
    (path,) = [file for file in files if file.suffix == ".csv"]
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_loss_of_every_iteration_equals_that_in_the_clear(done: Done, clear: OracleRun) -> None:
    metrics = done.pair.host.client.metrics(done.job_id, "hetero_lr_0", site=ARBITER)
    (loss,) = [m for m in metrics if m.kind == "LOSS"]
    assert [iteration for iteration, _ in loss.points] == list(range(ITERATIONS))
    np.testing.assert_allclose([value for _, value in loss.points], clear.losses, rtol=1e-6)


def test_the_weights_of_both_parties_equal_those_in_the_clear(done: Done, clear: OracleRun) -> None:
    shares = {
        site: done.pair.of(site).client.model(done.job_id, "hetero_lr_0", site=site)
        for site in (GUEST, HOST)
    }
    weights: list[float] = []
    intercepts: list[float] = []
    for share in shares.values():
        assert share is not None
        weights += [share.param["weight"][name] for name in share.param["header"]]
        intercepts.append(share.param["intercept"])
    np.testing.assert_allclose(weights, clear.coef, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(sum(intercepts), clear.intercept, rtol=1e-6, atol=2e-6)


def test_the_auc_equals_that_in_the_clear(
    done: Done, clear: OracleRun, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, labels = joined(done, tmp_path_factory.mktemp("rows"))
    scores = clear.scores_per_iteration[-1]
    positive, negative = scores[labels > 0], scores[labels < 0]
    expected = (positive[:, None] > negative).mean()
    found: dict[Any, Any] = {}
    for metric in done.pair.guest.client.metrics(done.job_id, "evaluation_0", site=GUEST):
        found |= dict(metric.points) if metric.is_summary else {}
    assert found["auc"] == pytest.approx(expected, abs=1e-4)
    assert 0.7 < found["ks"] < 1


def test_the_predictions_are_those_of_the_model(
    done: Done, clear: OracleRun, tmp_path: Path
) -> None:
    rows = download(done, GUEST, "hetero_lr_0", tmp_path)
    assert len(rows) == ROWS + 1
    at = rows[0].index("predict_score")
    expected = 1 / (1 + np.exp(-clear.scores_per_iteration[-1]))
    np.testing.assert_allclose([float(row[at]) for row in rows[1:]], expected, atol=2e-6)


# --- what each party has --------------------------------------------------------------------------


def test_every_party_sees_its_tasks_with_times_and_full_progress(done: Done) -> None:
    seen = {}
    for view in done.pair.views(done.job_id):
        assert (view.status, view.progress, view.reason) == ("success", 100, None)
        assert view.created_ms <= view.ended_ms
        for task in view.tasks:
            assert (task.status, task.progress) == ("success", 1.0), task
            assert task.started_ms <= task.ended_ms
            seen.setdefault(task.site, []).append(task.component)
    assert sorted(set(seen["guest-9999"])) == sorted(set(seen["host-10000"]))
    assert "hetero_lr_0" in seen["arbiter-10000"]
    assert "intersection_0" not in seen["arbiter-10000"]


def test_each_party_has_the_figures_that_it_may_see(done: Done) -> None:
    if not done.federated:
        pytest.skip("one server has everything")
    found = {}
    for site in (GUEST, HOST):
        view = done.pair.of(site).client.job(done.job_id)
        found[site.role] = {f.name: f.value for f in view.figures}
        assert view.name == f"HeteroLR · breast_hetero_{site.role.value}"
    assert found[Role.GUEST].keys() >= {"auc", "ks", "rows", "converged"}
    assert found[Role.GUEST]["rows"] == found[Role.HOST]["rows"] == ROWS
    assert not found[Role.HOST].keys() & {"auc", "ks"}


def test_the_ledger_says_what_each_message_shows(done: Done) -> None:
    for site in (GUEST, HOST):
        ledger = done.pair.of(site).client.job_ledgers.of(done.job_id)
        found = {(task.component, m.name): m.content for task, _, m in ledger.lines()}
        assert all(found.values()), found
        assert found["intersection_0", "doubly_encrypted_id"] == "blinded ids"
        assert found["hetero_lr_0", "host_forward_dict"] == "ciphertext"
        assert found["hetero_lr_0", f"{site.role.value}_gradient"] == "sealed"


def test_metrics_summaries_and_outputs_exist_at_both_parties(done: Done, tmp_path: Path) -> None:
    for site in (GUEST, HOST):
        client = done.pair.of(site).client
        names = {m.name for m in client.metrics(done.job_id, "intersection_0", site=site)}
        assert "intersection" in names
        summary = client.summary(done.job_id, "intersection_0", site=site)
        assert summary["intersect_num"] == ROWS
        assert client.summary(done.job_id, "hetero_lr_0", site=site)
        rows = download(done, site, "intersection_0", tmp_path / site.key)
        assert len(rows) == ROWS + 1
        (preview,) = client.output_data(done.job_id, "intersection_0", site=site)
        assert preview.total == ROWS
        assert len(preview.rows) == 100
    guest, host = (
        [row[0] for row in download(done, site, "intersection_0", tmp_path / f"{site.key}-ids")[1:]]
        for site in (GUEST, HOST)
    )
    assert guest == host


def test_every_attempt_has_its_logs_at_its_own_party(done: Done, tmp_path: Path) -> None:
    for party in done.pair.all:
        target = tmp_path / party.home.name
        files = party.client.log_download(done.job_id, target)
        found = {str(file.relative_to(target)) for file in files}
        for view in [party.client.job(done.job_id)]:
            own = {site.key for site in party.client.own_sites(done.job_id)}
            for task in view.tasks:
                role, party_id = task.site.split("-")
                path = f"{role}/{party_id}/{task.component}/{task.version}/INFO.log"
                assert (path in found) == (task.site in own), path
        errors = [f for f in found if f.endswith("ERROR.log")]
        assert {len(Path(f).parts) for f in errors} == {3}, "one for each site, none for a task"
        assert not any((target / f).read_text() for f in errors)


def test_a_party_has_nothing_of_the_other_one(done: Done) -> None:
    if not done.federated:
        pytest.skip("one server has everything")
    for server, other in ((done.pair.guest, HOST), (done.pair.host, GUEST)):
        client = server.client
        assert client.metrics(done.job_id, "hetero_lr_0", site=other) == []
        assert client.model(done.job_id, "hetero_lr_0", site=other) is None
        assert isinstance(
            refusal_of(lambda c=client, o=other: c.summary(done.job_id, "intersection_0", site=o)),
            NoData,
        )
        refused = refusal_of(
            lambda c=client, o=other: c.output_data(done.job_id, "hetero_lr_0", site=o)
        )
        assert isinstance(refused, FedflowError)
        assert not (server.home / "logs" / done.job_id / other.role.value).exists()


def test_no_cell_of_a_party_is_in_a_file_of_the_other_one(done: Done) -> None:
    if not done.federated:
        pytest.skip("one server has everything")
    for owner, other in ((done.pair.guest, done.pair.host), (done.pair.host, done.pair.guest)):
        cells = read_csv(DATA / f"{NAMES[str(owner.place.party_id)]}.csv")
        wanted = [row[3] for row in list(cells.values())[:20]]
        patterns = [cell.encode() for cell in wanted]
        patterns += [np.float64(cell).tobytes() for cell in wanted]
        assert found_below(owner.home, patterns), "the search finds nothing, so it proves nothing"
        assert not found_below(other.home, patterns)


def found_below(folder: Path, patterns: list[bytes]) -> set[bytes]:
    """Return which of the patterns are in some file below a folder."""
    found: set[bytes] = set()
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            found |= {p for p in patterns if p in content}
    return found


def test_the_command_line_shows_the_job_at_every_party(done: Done) -> None:
    for party in done.pair.all:
        run = subprocess.run(
            [sys.executable, "-m", "fedflow.cli.main", "job", "query", "-j", done.job_id, "--json",
             "--server", party.url],
            check=False, capture_output=True, text=True, env=environment({}), timeout=120,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        shown = json.loads(run.stdout)
        assert shown["status"] == "success"
        assert {t["component"] for t in shown["tasks"]} >= {"reader_0", "hetero_lr_0"}
