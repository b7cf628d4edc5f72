"""Uploads: which parameters are good, which files may be read, what is swept away."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.local_jobs.uploads import Uploads
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.data import BadTableName, FileNotAllowed, TableExists
from fedflow.base.errors.requests import BadRequest, MissingArgument, NotSupportedYet
from fedflow.base.ids import PartyId
from fedflow.domain.records import OutputTable, TaskKey
from fedflow.domain.site import Role, Site
from tests.unit.app.fakes import OneServer, table

LOCAL = Site(Role.LOCAL, PartyId("0"))
Uploaded = Callable[..., str]
GOOD = {"namespace": "n", "table_name": "t", "head": 1, "partition": 4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    return allowed


@pytest.fixture
def uploads(alone: OneServer, folder: Path) -> Uploads:
    folders = Folders(alone.home)
    folders.uploads.mkdir()
    return Uploads(
        store=alone.store,
        submissions=alone.core.submissions,
        folders=folders,
        allowed_folders=(folder,),
    )


def test_good_parameters_come_back_as_the_component_wants_them(uploads: Uploads) -> None:
    given = {**GOOD, "head": "1", "partition": "4", "id_delimiter": ";", "file": "/etc/passwd"}
    assert uploads.check(given) == {**GOOD, "id_delimiter": ";", "drop": 0}


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_parameter_is_named(uploads: Uploads, name: str) -> None:
    for given in ({**GOOD, name: None}, {k: v for k, v in GOOD.items() if k != name}):
        with pytest.raises(MissingArgument) as caught:
            uploads.check(given)
        assert caught.value.fields == {"names": name}


def test_all_missing_parameters_are_named_at_once(uploads: Uploads) -> None:
    with pytest.raises(MissingArgument, match="namespace,table_name,head,partition"):
        uploads.check({})


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("head", 2, BadRequest),
        ("head", "yes", BadRequest),
        ("partition", 0, BadRequest),
        ("partition", 1024, BadRequest),
        ("partition", "4.5", BadRequest),
        ("partition", [4], BadRequest),
        ("drop", "no", BadRequest),
        ("extend_sid", "x", BadRequest),
        ("namespace", "", BadTableName),
        ("namespace", "x" * 101, BadTableName),
        ("table_name", "a\nb", BadTableName),
        ("table_name", "\x00", BadTableName),
        ("namespace", "__replaced__", BadTableName),
        ("id_delimiter", 7, BadRequest),
        ("head", "1" * 5000, BadRequest),
    ],
)
def test_a_wrong_parameter_is_refused(
    uploads: Uploads, name: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        uploads.check({**GOOD, name: value})


def test_a_table_is_replaced_only_on_demand(alone: OneServer, uploads: Uploads) -> None:
    alone.put_table("n", "t")
    for drop in (None, 0, 2, "0"):  # FATE's client says 2 for no
        with pytest.raises(TableExists):
            uploads.check({**GOOD, "drop": drop})
    for drop in (1, "1", True):
        assert uploads.check({**GOOD, "drop": drop})["drop"] == 1
    for destroy in (1, True, "true"):
        assert uploads.check({**GOOD, "destroy": destroy})["drop"] == 1


def test_an_upload_is_a_local_job_that_reads_the_file(
    alone: OneServer, uploads: Uploads, folder: Path
) -> None:
    alone.live()
    submitted = uploads.submit(GOOD, folder / "x.csv", keep_file=True)
    alone.work()
    (launch,) = alone.executor.started
    assert launch.task == TaskKey(
        job_id=submitted.job_id, component="upload_0", version=0, site=LOCAL
    )
    parameters = alone.task(launch.task).parameters
    assert parameters["file"] == str(folder / "x.csv")
    assert parameters["delete_file"] is False
    assert alone.job(submitted.job_id, LOCAL).dsl["components"]["upload_0"]["module"] == "Upload"


def test_cores_and_party_of_an_upload_are_taken(
    alone: OneServer, uploads: Uploads, folder: Path
) -> None:
    alone.live()
    given = {**GOOD, "task_cores": "2", "party_id": 9999}
    submitted = uploads.submit(given, folder / "x.csv", keep_file=True)
    job = alone.job(submitted.job_id, Site(Role.LOCAL, PartyId("9999")))
    assert job.cores == 2


def test_a_member_that_nothing_reads_is_a_warning(
    alone: OneServer, uploads: Uploads, folder: Path
) -> None:
    alone.live()
    sent = {  # what FATE's clients send always, and FATE's own settings
        "file": "/x.csv", "use_local_data": 1, "verbose": 0, "conf_path": "/u.json", "drop": 2,
        "work_mode": 0, "backend": 0, "storage_engine": "STANDALONE", "block_size": 1,
    }  # fmt: skip
    assert uploads.submit({**GOOD, **sent}, folder / "x.csv").warnings == ()
    made = uploads.submit({**GOOD, **sent, "colour": 3, "a b": 1}, folder / "x.csv")
    assert [(one.code, one.path) for one in made.warnings] == [
        ("UnknownMember", "$.colour"),
        ("UnknownMember", '$["a b"]'),
    ]
    assert alone.core.jobs.status_view(made.job_id).warnings == made.warnings


@pytest.mark.parametrize(
    "wrong",
    [{"task_cores": 0}, {"task_cores": "many"}, {"task_cores": 10**6}, {"party_id": "../x"},
     {"party_id": ""}, {"party_id": "9" * 40}],
)  # fmt: skip
def test_wrong_cores_and_parties_are_refused(
    uploads: Uploads, folder: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(BadRequest):
        uploads.submit({**GOOD, **wrong}, folder / "x.csv")


def test_meta_and_schema_may_be_json_text(uploads: Uploads) -> None:
    given = {**GOOD, "with_meta": "true", "meta": '{"with_label": true}', "schema": {"sid": "id"}}
    checked = uploads.check(given)
    assert (checked["with_meta"], checked["meta"]) == (1, {"with_label": True})
    assert checked["schema"] == {"sid": "id"}
    for wrong in ("{", "[]", 7, [1]):
        with pytest.raises(BadRequest):
            uploads.check({**GOOD, "meta": wrong})


def test_the_own_storage_has_many_names_and_others_are_not_there_yet(uploads: Uploads) -> None:
    for engine in ("", "STANDALONE", "eggroll", "LOCALFS", None):
        assert "storage_engine" not in uploads.check({**GOOD, "storage_engine": engine})
    for engine in ("MYSQL", "HIVE", "PATH", "x" * 1000):
        with pytest.raises(NotSupportedYet, match=engine.upper()[:50]):
            uploads.check({**GOOD, "storage_engine": engine})


def test_only_files_in_allowed_folders_may_be_read(
    uploads: Uploads, folder: Path, tmp_path: Path
) -> None:
    inside, outside = folder / "in.csv", tmp_path / "out.csv"
    for path in (inside, outside):
        path.write_text("id\n1\n", encoding="utf-8")
    (folder / "link.csv").symlink_to(outside)
    (tmp_path / "allowed-not").mkdir()
    (tmp_path / "allowed-not" / "x.csv").write_text("id\n", encoding="utf-8")
    assert uploads.check_local(str(inside)) == inside
    refused = (
        outside,
        folder / "link.csv",
        folder / ".." / "out.csv",
        folder,
        folder / "missing.csv",
        tmp_path / "allowed-not" / "x.csv",
    )
    for path in refused:
        with pytest.raises(FileNotAllowed):
            uploads.check_local(str(path))


def test_files_of_interrupted_uploads_are_swept_away(uploads: Uploads) -> None:
    old, new = uploads.spool_dir / "old", uploads.spool_dir / "new"
    for folder, age_s in ((old, 100), (new, 10)):
        folder.mkdir()
        (folder / "data.csv").write_bytes(b"x")
        os.utime(folder, (1_000 - age_s, 1_000 - age_s))
    uploads.sweep(950_000)
    assert [p.name for p in uploads.spool_dir.iterdir()] == ["new"]


# --- history --------------------------------------------------------------------------------------


@pytest.fixture
def uploaded(alone: OneServer, uploads: Uploads, folder: Path) -> Uploaded:
    """Let a job upload a number of rows as table `n.t`; returns its id."""
    alone.live()

    def upload(*, count: int, address: str) -> str:
        alone.clock.ms += 1_000
        given = {**GOOD, "drop": 1}
        job_id = uploads.submit(given, folder / "x.csv", keep_file=True).job_id
        key = TaskKey(job_id=job_id, component="upload_0", version=0, site=LOCAL)
        output = OutputTable(
            key=key, data_name="data", position=0, namespace="n", name="t", address=address
        )
        with alone.store.transaction() as tx:
            tx.tables.drop("n", "t")
            tx.tables.put(table("n", "t", address=address))
            tx.tracking.put_output(output, now_ms=1)
            tx.tracking.put_summary(key, {"count": count}, now_ms=1)
        return job_id

    return upload


def test_each_upload_of_a_name_has_its_own_rows_and_time(
    uploads: Uploads, uploaded: Uploaded
) -> None:
    first = uploaded(count=569, address="a1")
    second = uploaded(count=5, address="a2")
    found = uploads.history(0, None)
    assert [(u.job.key.job_id, u.count) for u in found] == [(second, 5), (first, 569)]
    assert found[0].job.created_ms - found[1].job.created_ms == 1_000
    assert [u.table is None for u in found] == [False, True]  # the first one's rows are gone
    (latest,) = uploads.history(1, None)
    assert latest.job.key.job_id == second
    (only,) = uploads.history(10, first)
    assert (only.namespace, only.name, only.partitions, only.count) == ("n", "t", 4, 569)


def test_an_upload_stays_in_the_history_when_its_table_is_deleted(
    alone: OneServer, uploads: Uploads, uploaded: Uploaded
) -> None:
    uploaded(count=569, address="a1")
    with alone.store.transaction() as tx:
        tx.tables.drop("n", "t")
    (past,) = uploads.history(1, None)
    assert (past.count, past.table) == (569, None)


def test_an_upload_that_made_no_table_is_not_in_the_history(
    alone: OneServer, uploads: Uploads, folder: Path
) -> None:
    alone.live()
    uploads.submit(GOOD, folder / "x.csv", keep_file=True)
    alone.put_table("n", "t")  # of somebody else
    assert uploads.history(0, None) == []
