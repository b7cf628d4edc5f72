"""A program that cleans up removes the sockets of `run/`: they come back, and tasks run again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from fedflow.base.home import HomeLock
from tests.e2e.jobs import empty_job, example, upload_data
from tests.e2e.servers import QUICK, Pair, Party, two_parties, wait_for, zygote_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("sockets"), settings=QUICK) as pair:
        yield pair


def test_tasks_run_again_after_the_sockets_were_removed(pair: Pair) -> None:
    upload_data(pair)
    run = pair.guest.home / "run"
    for name in ("server.sock", "federation.sock"):
        (run / name).unlink()
    job_id = pair.guest.client.submit(*example(iterations=1)).job_id  # its sites exchange values
    assert set(pair.ends(job_id).values()) == {"success"}
    assert "run/server.sock was removed, and was made anew" in pair.guest.log.read_text()


def test_tasks_run_again_after_the_folder_was_removed(pair: Pair) -> None:
    run = pair.guest.home / "run"
    kept = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert {path.name for path in kept} >= {"lock", "server.json", "instance"}
    shutil.rmtree(run)
    wait_for((run / "server.json").exists, "the last of its files")
    assert run.stat().st_mode & 0o777 == 0o700
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == kept
    job_id = pair.guest.client.submit(*empty_job({})).job_id
    assert set(pair.ends(job_id).values()) == {"success"}


def test_a_server_whose_home_was_taken_touches_nothing_and_says_so(pair: Pair) -> None:
    guest, run = pair.guest, pair.guest.home / "run"
    assert guest.process is not None
    server = psutil.Process(guest.process.pid)
    names = {path.name for path in run.iterdir()}
    server.suspend()
    try:
        shutil.rmtree(run)
        other = HomeLock(guest.home)
    finally:
        server.resume()
    with closing(other):
        refused = "files: run/lock was removed, and cannot be made anew: Another fedflow"
        wait_for(lambda: any(one.startswith(refused) for one in reasons(guest)), "the reason")
        assert [path.name for path in run.iterdir()] == ["lock"]
    wait_for(lambda: {path.name for path in run.iterdir()} >= names, "the files to come back")
    wait_for(lambda: not reasons(guest), "the server to be ready")


def reasons(party: Party) -> list[str]:
    return [str(one) for one in party.readiness().get("reasons", ["no answer"])]


def test_a_zygote_that_stands_still_is_a_reason_not_to_be_ready(pair: Pair) -> None:
    zygote = zygote_of(pair.guest)
    zygote.suspend()
    try:
        wait_for(
            lambda: any("executor: no answer for" in one for one in reasons(pair.guest)),
            "the reason",
        )
    finally:
        zygote.resume()
    wait_for(lambda: not reasons(pair.guest), "the server to be ready")
