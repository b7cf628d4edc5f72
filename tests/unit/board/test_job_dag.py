"""The graph of a job: boxes, ports, edges, and how its components stand at each site."""

from __future__ import annotations

from typing import Any

from fedflow.base.errors.data_plane import PeerFailed
from fedflow.base.ids import PartyId
from fedflow.base.messages import Message
from fedflow.board.presenters import dag
from fedflow.domain.reason import Reason
from fedflow.domain.records import TaskKey, TaskRecord
from fedflow.domain.scheduling.explain import SILENT
from fedflow.domain.site import Role, Site
from fedflow.domain.states import TaskStatus
from fedflow.wire.api.job_history import Wait
from tests.board.seeds import GUEST, HOST, HOSTILE

ARBITER = Site(Role.ARBITER, PartyId("1"))
DSL: dict[str, Any] = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "bin_0": {
            "module": "HeteroFeatureBinning",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "lr_0": {
            "module": "HeteroLR",
            "input": {
                "data": {"train_data": ["bin_0.data"], "validate_data": ["reader_0.data"]},
                "isometric_model": ["bin_0.model"],
            },
            "output": {"data": ["data"], "model": ["model"]},
        },
    }
}
ORDER = ("reader_0", "bin_0", "lr_0")


def task(
    component: str, site: Site, status: TaskStatus, *, progress: float = 0.0, version: int = 0,
    **more: Any,
) -> TaskRecord:  # fmt: skip
    made: dict[str, Any] = {
        "module": "Empty", "initiator": GUEST, "status": status, "party_status": status,
        "parameters": {}, "created_ms": 0, "updated_ms": 0, "progress": progress,
    }  # fmt: skip
    key = TaskKey(job_id="1", component=component, version=version, site=site)
    return TaskRecord(key=key, **{**made, **more})


def test_boxes_have_their_ports_and_edges_name_them_by_position() -> None:
    found = dag.graph(DSL, {"dsl_version": 2}, order=ORDER, here={"reader_0", "lr_0"})
    assert [(n["name"], n["module"], n["here"]) for n in found["nodes"]] == [
        ("reader_0", "Reader", True), ("bin_0", "HeteroFeatureBinning", False),
        ("lr_0", "HeteroLR", True),
    ]  # fmt: skip
    lr = found["nodes"][2]
    assert lr["inputs"] == [
        ("data", "train_data"), ("data", "validate_data"), ("model", "isometric_model")
    ]  # fmt: skip
    assert lr["outputs"] == [("data", "data"), ("model", "model")]
    edges = [(e["source"], e["output"], e["target"], e["input"], e["kind"]) for e in found["edges"]]
    assert edges == [
        ("reader_0", 0, "bin_0", 0, "data"), ("bin_0", 0, "lr_0", 0, "data"),
        ("reader_0", 0, "lr_0", 1, "data"), ("bin_0", 1, "lr_0", 2, "model"),
    ]  # fmt: skip


def test_a_dsl_that_cannot_be_read_any_more_still_has_its_boxes() -> None:
    odd = {"components": {"a b": {"module": 7}, "c": None, "d": {"module": "Empty"}}}
    found = dag.graph(odd, {}, order=("a b", "c", "d"), here=())
    assert [n["name"] for n in found["nodes"]] == ["a b", "c", "d"]
    assert found["edges"] == []


def test_at_the_initiator_a_component_stands_as_all_its_sites_together() -> None:
    tasks = [
        task("bin_0", GUEST, TaskStatus.SUCCESS, started_ms=5, ended_ms=9),
        task("bin_0", HOST, TaskStatus.RUNNING, progress=0.25, started_ms=6),
    ]
    (reader, row, _) = dag.rows(ORDER, {}, tasks, site=GUEST, is_initiator=True)
    assert (reader.status, reader.here, reader.parts) == ("", False, ())
    assert (row.status, row.progress, row.started_ms, row.ended_ms) == ("running", 0.25, 5, None)
    assert row.held_by == (HOST,)
    assert [(p.site, p.status, p.is_own) for p in row.parts] == [
        (GUEST, "success", True), (HOST, "running", False)
    ]  # fmt: skip


def test_nobody_holds_up_what_failed_or_has_not_begun() -> None:
    failed = [task("a", GUEST, TaskStatus.FAILED), task("a", HOST, TaskStatus.RUNNING)]
    waiting = [task("a", GUEST, TaskStatus.WAITING), task("a", HOST, TaskStatus.RUNNING)]
    for tasks in (failed, waiting):
        (row,) = dag.rows(("a",), {}, tasks, site=GUEST, is_initiator=True)
        assert row.held_by == ()


def test_a_silent_party_holds_up_what_runs_there() -> None:
    tasks = [task("a", GUEST, TaskStatus.RUNNING), task("a", HOST, TaskStatus.RUNNING)]
    wait = Wait(code=SILENT, message="", remedy="", site=HOST.key)
    (row,) = dag.rows(("a",), {}, tasks, site=GUEST, is_initiator=True, waits=[wait])
    assert row.held_by == (HOST,)


def test_another_site_sees_its_own_share_and_how_the_whole_task_stands() -> None:
    own = task("a", HOST, TaskStatus.RUNNING, party_status=TaskStatus.SUCCESS)
    (row,) = dag.rows(("a",), {}, [own], site=HOST, is_initiator=False)
    assert (row.status, row.whole) == ("success", "running")


def test_what_need_run_leaves_out_is_not_here() -> None:
    out = task("a", GUEST, TaskStatus.PASS, parameters={"need_run": False})
    (row,) = dag.rows(("a",), {}, [out], site=GUEST, is_initiator=True)
    assert (row.here, row.status) == (False, "success")


def test_a_failed_component_tells_its_own_error_and_a_waiting_one_what_it_waits_for() -> None:
    reason = Reason(code="BadData", message="no label" * 200, site=HOST)
    tasks = [
        task("a", GUEST, TaskStatus.CANCELED, reason=Reason(code="TaskStopped", message="x")),
        task("a", HOST, TaskStatus.FAILED, reason=reason),
        task("b", GUEST, TaskStatus.WAITING),
    ]
    message, remedy = Message("{component} waits", "b"), Message("none")
    waits = [Wait(component="b", code="Upstream", message=message, remedy=remedy)]
    first, second = dag.rows(("a", "b"), {}, tasks, site=GUEST, is_initiator=True, waits=waits)
    assert (first.status, first.code, len(first.message)) == ("failed", "BadData", dag.MESSAGE)
    assert (second.code, second.message, second.remedy) == ("Upstream", "b waits", "none")
    assert isinstance(second.message, Message)  # they can be translated
    assert isinstance(second.remedy, Message)


def test_who_only_followed_another_partys_failure_is_not_blamed() -> None:
    wrong = Reason(code="BadData", message="no label", site=GUEST)
    peer = PeerFailed(site=GUEST, reason="it failed")
    gone = Reason(code=peer.name, message=peer.message, site=HOST)
    for of_host in (wrong, gone):  # it was stopped, or saw the other end
        tasks = [
            task("a", GUEST, TaskStatus.FAILED, reason=wrong),
            task("a", HOST, TaskStatus.FAILED, reason=of_host),
        ]
        (row,) = dag.rows(("a",), {}, tasks, site=GUEST, is_initiator=True)
        assert (row.status, row.code, row.because) == ("failed", "BadData", "")
        assert [(p.status, p.because) for p in row.parts] == [
            ("failed", ""), ("stopped", "guest 9999")
        ]  # fmt: skip
        (seen,) = dag.rows(("a",), {}, tasks[1:], site=HOST, is_initiator=False)
        assert (seen.status, seen.because) == ("stopped", "guest 9999")
        assert dag.counts([seen]).ended == 1


def test_if_nobody_says_more_than_that_another_stopped_the_first_to_say_so_is_shown() -> None:
    peer = PeerFailed(site=HOST, reason="the way broke")
    why = Reason(code=peer.name, message=peer.message, site=GUEST)
    tasks = [task("a", site, TaskStatus.FAILED, reason=why) for site in (GUEST, HOST)]
    (row,) = dag.rows(("a",), {}, tasks, site=GUEST, is_initiator=True)
    assert [p.status for p in row.parts] == ["failed", "stopped"]


def test_states_name_the_sites_once_and_carry_hostile_texts_as_they_are() -> None:
    tasks = [
        task("a", GUEST, TaskStatus.SUCCESS, progress=1.0),
        task("a", HOST, TaskStatus.RUNNING, progress=0.5),
        task("b", HOST, TaskStatus.FAILED, version=2, reason=Reason(code="X", message=HOSTILE[0])),
    ]
    rows = dag.rows(("a", "b"), {}, tasks, site=GUEST, is_initiator=True)
    found = dag.states(rows)
    assert found["sites"] == ["guest 9999", "host 10000"]
    assert found["of"]["a"] == {
        "s": "running", "p": 0.5, "v": 0, "held": [1],
        "parts": [[0, "success", 1.0], [1, "running", 0.5]],
    }  # fmt: skip
    assert found["of"]["b"]["v"] == 2
    assert found["of"]["b"]["why"] == f"X: {HOSTILE[0]}"


def test_components_are_counted_by_how_they_stand() -> None:
    tasks = [
        task("a", GUEST, TaskStatus.SUCCESS), task("b", GUEST, TaskStatus.RUNNING),
        task("c", GUEST, TaskStatus.PASS), task("d", ARBITER, TaskStatus.WAITING),
    ]  # fmt: skip
    rows = dag.rows(("a", "b", "c", "d", "e"), {}, tasks, site=GUEST, is_initiator=True)
    found = dag.counts(rows)
    assert (found.total, found.ended) == (4, 2)
    assert dict(found.by_status) == {"success": 2, "running": 1, "waiting": 1}
