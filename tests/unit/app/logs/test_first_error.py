"""Which failure is shown first: the cause, not what followed from it."""

from __future__ import annotations

from dataclasses import replace

from fedflow.app.logs.first_error import first_failure, first_record, is_follow_on
from fedflow.base.errors.data_plane import PeerFailed, ValueTooLate
from fedflow.base.errors.jobs import InitiatorLost
from fedflow.domain.reason import Reason
from fedflow.domain.records import TaskRecord
from fedflow.domain.states import TaskStatus
from tests.board.seeds import job, task

OF = job()


def failed(component: str, code: str, ended_ms: int, version: int = 0) -> TaskRecord:
    made = task(
        OF, component, "Reader", party_status=TaskStatus.FAILED, ended_ms=ended_ms,
        reason=Reason(code=code, message=f"{component} says so"),
    )  # fmt: skip
    return replace(made, key=replace(made.key, version=version))


def good(component: str, version: int = 0) -> TaskRecord:
    made = task(OF, component, "Reader")
    return replace(made, key=replace(made.key, version=version))


def test_the_failure_that_no_other_site_caused_comes_first() -> None:
    first = first_failure(
        [failed("a", "PeerFailed", 1), failed("b", "BadData", 5), failed("c", "OutOfMemory", 3)]
    )
    assert first is not None
    assert (first.component, first.is_followed, first.is_past) == ("c", False, False)


def test_without_an_own_failure_the_first_that_followed_is_shown_as_that() -> None:
    first = first_failure([failed("a", "ValueTooLate", 9), failed("b", "PeerFailed", 5)])
    assert first is not None
    assert (first.component, first.is_followed) == ("b", True)


def test_a_failure_that_a_later_attempt_made_good_comes_last() -> None:
    old, now = failed("a", "BadData", 1), failed("b", "PeerFailed", 9)
    first = first_failure([old, good("a", 1), now])
    assert first is not None
    assert first.component == "b"
    first = first_failure([old, good("a", 1)])
    assert first is not None
    assert (first.component, first.is_past) == ("a", True)
    assert first_failure([good("a"), task(OF, "b", "R", party_status=TaskStatus.CANCELED)]) is None


def start(level: str, text: str) -> str:
    return f"[{level}] [2026-11-22 06:49:10,123] [1:2] - [run._failure] [line:9]: {text}"


def test_an_error_of_this_site_is_chosen_over_earlier_ones_that_followed_from_others() -> None:
    peer = PeerFailed(site="host 10000", reason="it was stopped")
    lines = [
        start("ERROR", f"lr_0 failed: {peer.message}"),
        "Traceback (most recent call last):",
        f"fedflow.base.errors.data_plane.PeerFailed: {peer}",
        start("INFO", "in between"),
        start("ERROR", "dataio_0 failed: a cell is no number"),
        "Traceback (most recent call last):",
        "ValueError: x",
        "",
        start("WARNING", "more"),
    ]
    record = first_record(lines)
    assert record is not None
    assert (record.line, record.lines) == (5, tuple(lines[4:7]))
    only = first_record(lines[:4])
    assert only is not None
    assert only.line == 1
    assert first_record([start("INFO", "fine"), "", "[ERROR in a text"]) is None
    assert first_record([]) is None


def test_sentences_of_follow_on_errors_are_known() -> None:
    for error in (
        PeerFailed(site="host 10000", reason="x"),
        InitiatorLost(site="guest 9999", seconds=60),
        ValueTooLate(seconds=30, name="loss", tag="1", site="host 10000"),
    ):
        assert is_follow_on([start("ERROR", f"lr_0 failed: {error.message}")]), error
    assert not is_follow_on([start("ERROR", "Waited for nothing")])
    assert not is_follow_on([start("ERROR", "x failed: ValueError"), "ValueError: PeerFailed"])
