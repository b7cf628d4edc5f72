"""What a server knows of itself as one of several, and the threads that keep that up to date."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from fedflow.app.protocol.folders import Folders
from fedflow.app.queries.deleting import NOTE
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.start import BadSetting, HomeInUse, HomeNotUsable
from fedflow.base.home import HomeLock
from fedflow.base.settings import parse_settings
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.server.servers import (
    LeadThread,
    WakeLeader,
    address_for_others,
    compare_files,
    own_instance,
    warn_of_missing_files,
)
from fedflow.wire.servers import Wake
from tests.board import seeds
from tests.memory_store import MemoryStore

KEY = TaskKey(job_id="1", component="a", version=0, site=Site(Role.GUEST, "9999"))


def test_a_server_has_the_same_id_whenever_it_runs_and_a_new_secret(tmp_path):
    folders = Folders(tmp_path / "home")
    first, second = own_instance(folders), own_instance(folders)
    assert first.instance_id == second.instance_id
    assert first.shared_mark == second.shared_mark
    assert first.secret != second.secret
    assert [p.name for p in folders.run.iterdir()] == ["instance"]


def test_servers_with_one_shared_folder_have_one_mark_and_ids_of_their_own(tmp_path):
    one = own_instance(Folders(tmp_path / "a", tmp_path / "shared"))
    two = own_instance(Folders(tmp_path / "b", tmp_path / "shared"))
    apart = own_instance(Folders(tmp_path / "c", tmp_path / "other"))
    assert one.instance_id != two.instance_id
    assert one.shared_mark == two.shared_mark != apart.shared_mark


def test_an_empty_id_counts_as_none_and_all_servers_get_the_same_new_one(tmp_path):
    """The machine stopped before the content of the file was on its disk."""
    shared = Folders(tmp_path / "0", tmp_path / "shared").shared_mark
    shared.parent.mkdir(parents=True)
    shared.touch()
    homes = [Folders(tmp_path / str(n), tmp_path / "shared") for n in range(8)]
    for folders in homes:
        folders.run.mkdir(parents=True)
        folders.instance.touch()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(own_instance, homes))
    assert len({one.instance_id for one in found}) == 8
    assert len({one.shared_mark for one in found}) == 1
    assert shared.read_text() == found[0].shared_mark
    assert [own_instance(f).instance_id for f in homes] == [one.instance_id for one in found]


@pytest.mark.parametrize("text", ["../x", "a b", "x" * 65])
def test_an_id_that_was_damaged_stops_the_start(tmp_path, text):
    folders = Folders(tmp_path)
    folders.run.mkdir()
    folders.instance.write_text(text)
    with pytest.raises(HomeNotUsable, match="delete it"):
        own_instance(folders)
    assert folders.instance.read_text() == text


def test_shared_folders_are_apart_from_what_is_a_servers_own(tmp_path):
    home, shared = tmp_path / "home", tmp_path / "shared"
    folders = Folders(home, shared)
    own = [folders.run, folders.spool, folders.server_logs]
    common = [
        folders.tables, folders.uploads, folders.downloads, folders.model_blobs,
        folders.model_archives, folders.site_key, folders.job_logs("1"), folders.job_files("1"),
        folders.work(KEY), folders.logs(KEY), folders.party_logs(JobKey(job_id="1", site=KEY.site)),
    ]  # fmt: skip
    assert all(path.is_relative_to(home) for path in own)
    assert not Folders(home).server_logs.is_relative_to(Folders(home).job_logs("1").parent)
    assert all(path.is_relative_to(shared) for path in common)
    assert {home, shared} <= set(folders.all())
    assert Folders(home).tables == home / "tables"


def settings(**fateflow):
    return parse_settings({"fateflow": fateflow})


def test_other_servers_reach_this_one_where_it_listens_unless_the_conf_says_otherwise():
    assert address_for_others(settings(host="10.0.0.1"), 9360) == "10.0.0.1:9360"
    assert address_for_others(settings(grpc_host="::1"), 1) == "[::1]:1"
    assert address_for_others(settings(address="a.example"), 2) == "a.example:2"
    anywhere = address_for_others(settings(grpc_host="0.0.0.0"), 3)
    assert anywhere.endswith(":3")
    assert not anywhere.startswith("0.0.0.0")


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"shared_home": "relative/folder"}, "shared_home"),
        ({"fateflow": {"address": "a b"}}, "fateflow.address"),
        ({"fateflow": {"address": "host:9360"}}, "fateflow.address"),
        ({"routes": {"1": "a:1,"}}, "routes.1"),
        ({"routes": {"1": "a:1;b:2"}}, "routes.1"),
    ],
)
def test_wrong_settings_are_named(values, path):
    with pytest.raises(BadSetting) as refused:
        parse_settings(values)
    assert refused.value.fields["path"] == path


def test_a_route_may_name_several_servers():
    assert parse_settings({"routes": {"1": "a:1, b:2"}}).routes == {"1": "a:1, b:2"}


class Servers:
    """Leads or not, as a test says."""

    def __init__(self) -> None:
        self.leads = False

    def leader(self):
        return "the leader"


def test_what_only_the_leader_runs_is_started_and_stopped_with_its_lead():
    servers, done = Servers(), []
    moved = threading.Event()

    def note(what):
        done.append(what)
        moved.set()

    thread = LeadThread(servers, start=lambda: note("start"), cease=lambda: note("cease"))
    thread.start()
    for leads, what in ((True, "start"), (False, "cease"), (True, "start")):
        servers.leads = leads
        thread.changed()
        assert moved.wait(10)
        moved.clear()
        assert done[-1] == what
        thread.changed()  # nothing new
    thread.stop()
    thread.join()
    assert done == ["start", "cease", "start", "cease"]


class Links:
    """Remembers what the leader was told; the first call fails."""

    def __init__(self) -> None:
        self.told: list[Wake] = []
        self.called = threading.Event()
        self.fails = True

    def wake(self, to, what):
        self.told.append(what)
        self.called.set()
        if self.fails:
            raise PartyUnreachable(party_id="own", address=to, reason="refused")


def test_the_leader_is_told_of_everything_at_once_and_a_failure_is_no_end():
    links = Links()
    thread = WakeLeader(Servers(), links)
    thread.tell(jobs=["2", "1"], queue=True)
    thread.tell(jobs=["1"], destinations=["10000"])
    thread.start()
    assert links.called.wait(10)
    links.called.clear()
    links.fails = False
    thread.tell(destinations=["9"])
    assert links.called.wait(10)
    thread.stop()
    thread.join()
    assert links.told == [
        Wake(jobs=["1", "2"], queue=True, destinations=["10000"]),
        Wake(destinations=["9"]),
    ]


def test_a_server_that_leads_tells_nobody():
    links, servers = Links(), Servers()
    servers.leads = True
    thread = WakeLeader(servers, links)
    thread.tell(jobs=["1"])
    thread.start()
    thread.stop()
    thread.join()
    assert links.told == []


def test_an_instance_file_of_another_server_is_not_shared(tmp_path: Path):
    assert Folders(tmp_path / "a", tmp_path / "s").instance.is_relative_to(tmp_path / "a")


def test_a_new_folder_beside_a_database_with_jobs_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders, store = Folders(tmp_path), MemoryStore()
    warn_of_missing_files(store, folders)
    assert caplog.text == ""  # a new server
    with store.transaction() as tx:
        tx.jobs.add(seeds.job())
    warn_of_missing_files(store, folders)
    assert f"{tmp_path} was never used" in caplog.text
    caplog.clear()
    folders.shared_mark.write_text("mark")
    warn_of_missing_files(store, folders)
    assert caplog.text == ""


def test_a_home_in_use_is_told_with_what_to_do(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    with closing(HomeLock(folders.home)), pytest.raises(HomeInUse) as caught:
        HomeLock(folders.home)
    assert "fedflow server stop" in caught.value.hint
    HomeLock(folders.home).close()


def put_job(folders: Folders, job_id: str, *, logs: bool = True) -> None:
    folders.job_files(job_id).mkdir(parents=True)
    if logs:
        folders.job_logs(job_id).mkdir(parents=True)


def test_a_database_that_does_not_know_the_newest_jobs_of_its_home_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders, store = Folders(tmp_path), MemoryStore()
    assert compare_files(store, folders) == []
    with store.transaction() as tx:
        tx.jobs.add(seeds.job(1))
    put_job(folders, seeds.job_id(1))
    put_job(folders, seeds.job_id(2), logs=False)  # its submit was killed
    put_job(folders, seeds.job_id(3))
    (folders.job_files(seeds.job_id(3)) / NOTE).touch()  # it is being deleted
    assert compare_files(store, folders) == []
    assert "old_database" not in [getattr(r, "action", "") for r in caplog.records]

    put_job(folders, seeds.job_id(4))
    (told,) = compare_files(store, folders)
    assert "does not know 1 of the 2 newest jobs" in told
    assert str(tmp_path) not in told
    assert seeds.job_id(4) in caplog.text
    with store.transaction() as tx:
        tx.jobs.add(seeds.job(4))
    assert compare_files(store, folders) == []


def test_an_empty_database_in_a_home_with_tables_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders = Folders(tmp_path)
    (folders.tables / "experiment").mkdir(parents=True)
    (told,) = compare_files(MemoryStore(), folders)
    assert "The database is empty" in told
    assert "The database is empty" in caplog.text
