"""The state tables: every pair is a move, late, or a defect; and the page printed of them."""

from __future__ import annotations

import itertools
import runpy
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.jobs import IllegalMove
from fedflow.domain.states import (
    JOB_END_EVENT,
    JOB_FINAL,
    JOB_INTERRUPTED,
    JOB_LATE,
    JOB_MOVES,
    OVERRULE_EVENT,
    TASK_END_EVENT,
    TASK_FINAL,
    TASK_LATE,
    TASK_MOVES,
    TASK_SEVERITY,
    TASK_STATUS_OF_JOB_END,
    TASK_SUCCEEDED,
    JobEvent,
    JobStatus,
    TaskEvent,
    TaskStatus,
    federated_status,
    next_job_status,
    next_task_status,
)

ROOT = Path(__file__).parents[3]
JOB_PAIRS = tuple(itertools.product(JobStatus, JobEvent))
TASK_PAIRS = tuple(itertools.product(TaskStatus, TaskEvent))
W, R, S, P = TaskStatus.WAITING, TaskStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.PASS
F, T, C = TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED


@pytest.mark.parametrize(("status", "event"), JOB_PAIRS)
def test_every_pair_of_a_job_is_a_move_or_raises(status: JobStatus, event: JobEvent) -> None:
    if (status, event) in JOB_MOVES:
        assert (status, event) not in JOB_LATE
        assert next_job_status(status, event) is JOB_MOVES[status, event] is not status
    else:
        with pytest.raises(IllegalMove) as caught:
            next_job_status(status, event)
        assert caught.value.fields["status"] == status.value


@pytest.mark.parametrize(("status", "event"), TASK_PAIRS)
def test_every_pair_of_a_task_is_a_move_or_raises(status: TaskStatus, event: TaskEvent) -> None:
    if (status, event) in TASK_MOVES:
        assert (status, event) not in TASK_LATE
        assert next_task_status(status, event) is TASK_MOVES[status, event] is not status
    else:
        assert (status, event) in TASK_LATE
        with pytest.raises(IllegalMove):
            next_task_status(status, event)


def test_a_job_event_that_is_neither_a_move_nor_late_is_one_of_few_known_defects() -> None:
    defects = {p for p in JOB_PAIRS if p not in JOB_MOVES and p not in JOB_LATE}
    overruled = {e for e in JobEvent if e.value.startswith("overruled")}
    assert {event for _, event in defects} - overruled == {
        JobEvent.STARTED, JobEvent.SUCCEEDED, JobEvent.HELD,
    }  # fmt: skip
    assert {p for p in defects if p[1] not in overruled} == {
        (JobStatus.READY, JobEvent.STARTED),
        (JobStatus.READY, JobEvent.SUCCEEDED),
        (JobStatus.READY, JobEvent.HELD),
    }


def test_a_final_task_moves_only_in_elastic_jobs_and_never_from_success() -> None:
    elastic = {TaskEvent.EXCUSED: P, TaskEvent.RELAUNCHED: W}
    moves = {p: new for p, new in TASK_MOVES.items() if p[0] in TASK_FINAL}
    assert all(new is elastic[event] for (_, event), new in moves.items())
    assert {status for status, _ in moves} == TASK_FINAL - {S}


def test_a_final_job_moves_only_by_a_rerun_or_if_it_was_given_up() -> None:
    again = {JobEvent.RERUN, JobEvent.REOPENED}
    for status in JOB_FINAL:
        events = {e for s, e in JOB_MOVES if s is status}
        given_up = set(OVERRULE_EVENT.values()) if status is JobStatus.FAILED else set()
        assert events == again | given_up


def test_every_status_has_a_way_out_to_a_final_one() -> None:
    def ends(moves: dict[tuple[StrEnum, StrEnum], StrEnum], status: StrEnum) -> set[StrEnum]:
        return {new for (old, _), new in moves.items() if old is status}

    for job_status in set(JobStatus) - JOB_FINAL:
        assert ends(dict(JOB_MOVES), job_status) & JOB_FINAL
    for task_status in set(TaskStatus) - TASK_FINAL:
        assert ends(dict(TASK_MOVES), task_status) >= TASK_FINAL


def test_the_named_sets_and_maps_fit_each_other() -> None:
    assert set(JobStatus) - JOB_FINAL == {JobStatus.READY, JobStatus.WAITING, JobStatus.RUNNING}
    assert set(TaskStatus) - TASK_FINAL == {W, R}
    assert {JobStatus.SUCCESS} == JOB_FINAL - JOB_INTERRUPTED
    assert set(TASK_SEVERITY) == TASK_FINAL - TASK_SUCCEEDED
    assert JOB_END_EVENT.keys() == JOB_FINAL == TASK_STATUS_OF_JOB_END.keys()
    assert TASK_END_EVENT.keys() == TASK_FINAL
    assert set(TASK_STATUS_OF_JOB_END.values()) <= set(TASK_SEVERITY)
    for status, event in {**JOB_END_EVENT}.items():
        assert next_job_status(JobStatus.RUNNING, event) is status
    for task_status, task_event in TASK_END_EVENT.items():
        assert next_task_status(R, task_event) is task_status
    for status, event in OVERRULE_EVENT.items():
        assert next_job_status(JobStatus.FAILED, event) is status


@pytest.mark.parametrize(
    ("parties", "expected"),
    [
        ((W, W), W),
        ((W, R), R),
        ((S, W), R),
        ((P, W), R),
        ((R, S), R),
        ((S, S), S),
        ((P, P), S),
        ((S, P), S),
        ((P,), S),
        ((C, T), T),
        ((C, F), F),
        ((T, F, R), F),
        ((S, C), C),
        ((W, C), C),
        ((C, C), C),
        ((T, S), T),
    ],
)
def test_the_federated_status_is_as_in_flow_semantics_3_4(
    parties: tuple[TaskStatus, ...], expected: TaskStatus
) -> None:
    assert federated_status(parties) is expected
    assert federated_status(reversed(parties)) is expected


@given(st.lists(st.sampled_from(TaskStatus), min_size=1, max_size=6))
def test_the_federated_status_is_never_pass_and_succeeds_only_if_all_did(
    parties: list[TaskStatus],
) -> None:
    status = federated_status(parties)
    assert status is not P
    assert (status is S) == (set(parties) <= TASK_SUCCEEDED)
    if set(parties) & set(TASK_SEVERITY):
        assert status is next(s for s in TASK_SEVERITY if s in parties)


def test_a_task_without_parties_has_no_federated_status() -> None:
    with pytest.raises(ValueError, match="without parties"):
        federated_status(())


def test_the_page_of_diagrams_is_printed_from_these_tables() -> None:
    page = runpy.run_path(str(ROOT / "bin" / "print-states"))["page"]()
    written = (ROOT / "docs" / "states.md").read_text(encoding="utf-8")
    assert written == page, "run bin/print-states > docs/states.md"
    assert "running --> success: succeeded" in page
