"""A party's database is put back to an earlier time, as from a backup, while jobs have gone on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fedflow.domain.site import Site
from tests.e2e.jobs import empty_job
from tests.e2e.servers import GUEST, HOST, QUICK, Pair, Party, two_parties, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("put_back"), settings=QUICK) as pair:
        yield pair


def backed_up(party: Party, folder: Path) -> None:
    """Copy the database of a server that is killed for it and goes on."""
    party.kill()
    folder.mkdir()
    for path in party.home.glob("fedflow.sqlite*"):
        shutil.copy(path, folder)
    party.start().wait_ready()


def put_back(party: Party, folder: Path) -> None:
    """Start a server over an earlier copy of its database."""
    party.kill()
    for path in party.home.glob("fedflow.sqlite*"):
        path.unlink()
    for path in folder.iterdir():
        shutil.copy(path, party.home)
    party.start().wait_ready()


def knows_process(party: Party, job_id: str, site: Site) -> bool:
    """Tell whether a server has stored that its executor runs: else it is launched again."""
    body = {"job_id": job_id, "role": site.role.value, "party_id": site.party_id}
    rows = party.post("/v1/job/task/query", body)["data"]
    return [row["f_party_status"] for row in rows] == ["running"]


def run_over_a_backup(pair: Pair, party: Party, folder: Path) -> str:
    """Run a job to its success, and copy a party's database while it runs; return its id."""
    pair.wait_connected()
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 4.0})).job_id
    for site in (GUEST, HOST):
        pair.of(site).wait_executor(job_id, component="empty_0", site=site)
        wait_for(partial(knows_process, pair.of(site), job_id, site), f"{site} to know its process")
    backed_up(party, folder)
    assert set(pair.ends(job_id).values()) == {"success"}
    return job_id


def codes(party: Party, job_id: str) -> list[str]:
    return [one.code for one in party.client.job(job_id).warnings]


def test_a_host_that_was_put_back_learns_the_end_at_the_next_heartbeat(
    pair: Pair, tmp_path: Path
) -> None:
    job_id = run_over_a_backup(pair, pair.host, tmp_path / "backup")
    put_back(pair.host, tmp_path / "backup")
    assert pair.host.shares(job_id) == {HOST.key: "running"}
    pair.wait_connected()
    beats = [pair.guest.client.submit(*empty_job({"sleep_s": 3.0})).job_id]

    def is_told() -> bool:
        if pair.guest.client.job(beats[-1]).status not in ("waiting", "running"):
            beats.append(pair.guest.client.submit(*empty_job({"sleep_s": 3.0})).job_id)
        return pair.host.shares(job_id) != {HOST.key: "running"}

    wait_for(is_told, "the end at the host")  # while a job runs there are heartbeats
    assert pair.host.shares(job_id) == {HOST.key: "success"}  # its lease would end it as failed
    assert codes(pair.guest, job_id) == codes(pair.host, job_id) == []


def test_both_sides_say_that_they_differ_where_a_guest_that_was_put_back_cannot_end_as_the_host(
    pair: Pair, tmp_path: Path
) -> None:
    job_id = run_over_a_backup(pair, pair.guest, tmp_path / "backup")
    put_back(pair.guest, tmp_path / "backup")
    wait_for(lambda: pair.guest.shares(job_id) == {GUEST.key: "failed"}, "the end at the guest")
    for party, other, ours, theirs in (
        (pair.guest, HOST, "failed", "success"),
        (pair.host, GUEST, "success", "failed"),
    ):
        wait_for(
            lambda party=party: codes(party, job_id) == ["PartiesDisagree"],
            f"{party.home.name} to say that the parties disagree",
        )
        sentence = f"{other} has this job as {theirs}, while here it ended as {ours}"
        assert [w.message for w in party.client.job(job_id).warnings] == [sentence]
        told = [(w.code, w.message) for w in party.client.explain(job_id).waits]
        assert ("PartiesDisagree", sentence) in [(code, str(text)) for code, text in told]


def test_a_host_ends_a_job_that_a_guest_that_was_put_back_has_lost(
    pair: Pair, tmp_path: Path
) -> None:
    pair.wait_connected()
    backed_up(pair.guest, tmp_path / "backup")
    pair.wait_connected()
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 600.0})).job_id
    for site in (GUEST, HOST):
        pair.of(site).wait_executor(job_id, component="empty_0", site=site)
    put_back(pair.guest, tmp_path / "backup")
    wait_for(lambda: pair.host.shares(job_id) == {HOST.key: "failed"}, "the end at the host")
    sentence = f"{GUEST} has lost the job"
    end = pair.host.client.explain(job_id).end
    assert end is not None
    assert sentence in str(end.message)
    wait_for(lambda: not pair.host.executors(job_id), "the end of the process at the host")
    wait_for(lambda: not pair.guest.executors(job_id), "the end of the process at the guest")
