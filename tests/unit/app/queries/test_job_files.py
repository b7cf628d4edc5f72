"""Reading a job's files by path: those that a submit wrote, and nothing else of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.app.protocol.folders import Folders
from fedflow.app.queries.job_files import READABLE, JobFiles
from fedflow.base.errors.data import FileNotAllowed
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl


@pytest.fixture
def files(host: OneServer) -> JobFiles:
    return JobFiles(store=host.store, folders=Folders(host.home))


def put(path: Path, content: str = '{"a": [1]}') -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return str(path)


def test_a_file_of_a_submit_is_given_and_one_that_is_gone_is_empty(
    host: OneServer, files: JobFiles
) -> None:
    for name in READABLE:
        assert files.load(put(host.home / "jobs" / "1" / "guest" / "9999" / name)) == {"a": [1]}
        assert files.load(str(host.home / "jobs" / "2" / name)) == {}


@pytest.mark.parametrize(
    "path",
    ["jobs/1/host-10000-a-0/spec-l1.json", "jobs/1/../../run/server.json", "fedflow.sqlite",
     "jobs/../job_dsl.json", "job_dsl.json", "jobs/1", "", "jobs/1/job_dsl.json\0"],
)  # fmt: skip
def test_no_other_file_is_given(host: OneServer, files: JobFiles, path: str) -> None:
    if "\0" not in path and Path(path).suffix == ".json":
        put((host.home / path).resolve())
    with pytest.raises(FileNotAllowed):
        files.load(f"{host.home}/{path}")
    with pytest.raises(FileNotAllowed):
        files.load("/etc/passwd")


def test_a_link_out_of_the_folder_is_not_followed(host: OneServer, files: JobFiles) -> None:
    secret = host.home / "secret" / "job_dsl.json"
    put(secret)
    link = host.home / "jobs" / "1" / "job_dsl.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    with pytest.raises(FileNotAllowed):
        files.load(str(link))


def test_a_file_that_is_no_json_is_a_clear_error(host: OneServer, files: JobFiles) -> None:
    with pytest.raises(BadRequest):
        files.load(put(host.home / "jobs" / "1" / "job_dsl.json", "{"))


def test_a_share_of_a_job_is_found_at_its_site_only(host: OneServer, files: JobFiles) -> None:
    host.create("1")
    assert files.job("1", HOST).key.site == HOST
    with pytest.raises(JobNotFound):
        files.job("2", HOST)


def test_a_job_is_given_as_it_was_submitted_or_as_it_was_stored(
    guest: OneServer,
) -> None:
    own = JobFiles(store=guest.store, folders=Folders(guest.home))
    job_id = guest.core.submissions.begin(dsl(), conf())[0]
    guest.work()
    job = own.job(job_id, GUEST)
    assert own.submitted(job) == (job.dsl, job.conf)
    folder = Folders(guest.home).job_files(job_id)
    put(folder / "submitted_dsl.json", '{"old": 1}')
    assert own.submitted(job) == (job.dsl, job.conf)
    put(folder / "submitted_runtime_conf.json", '{"form": 1}')
    assert own.submitted(job) == ({"old": 1}, {"form": 1})
