"""The short version of `bin/chaos`: each kind of fault once, on two parties with a fault proxy."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from random import Random

import pytest

from tests.chaos import checks
from tests.chaos.faults import ALL, possible
from tests.chaos.load import Job
from tests.chaos.parties import may_mount, world
from tests.chaos.report import to_text
from tests.chaos.run import Options, run

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_no_fault_loses_doubles_or_freezes_a_job(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("chaos")
    kinds = dict.fromkeys(
        possible(ALL, mysql=False, small_disks=may_mount(folder), second_server=False), 1
    )
    options = Options(
        seed=4, minutes=10, users=3, kinds=kinds, faults=len(kinds), longest_s=8, offset_s=-300,
        say=print,
    )  # fmt: skip
    outcome = run(options, folder, evidence=folder / "evidence")
    print(to_text(outcome))
    assert not outcome.anomalies, "\n".join(map(str, outcome.anomalies))
    assert {done.fault.kind for done in outcome.faults} == kinds.keys()
    assert all(done.recovered_s is not None for done in outcome.faults)
    assert sum(job.status == "success" for job in outcome.jobs) >= len(kinds)


def test_what_is_lost_or_left_over_is_found(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "IDLE_S", 0.0)
    folder = tmp_path_factory.mktemp("left-over")
    with world(folder, parties=2, mysql=False, namespaces=False, rng=Random(1)) as running:
        party = running.parties["9999"]
        assert not list(checks.find_anomalies(running, [], {}))
        lost = Job(
            kind="chain", initiator="9999", sites=("guest-9999",), submitted_s=0.0, job_id="1"
        )
        work = party.home / "jobs" / "1" / "guest-9999-empty_0-0"
        work.mkdir(parents=True)
        (party.home / "spool" / "1.value").touch()
        with closing(sqlite3.connect(party.home / "fedflow.sqlite")) as database, database:
            database.execute("UPDATE t_engine_registry SET f_remaining_cores = 3")
        wait = [sys.executable, "-c", "input()"]
        with subprocess.Popen(wait, cwd=work, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL):
            found = {one.what for one in checks.find_anomalies(running, [lost], {})}
    assert found == {"lost job", "spool file", "cores not returned", "processes"}
