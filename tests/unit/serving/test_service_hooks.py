"""The hooks of a service: what they may change, and that their faults harm nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.serving_process import HookNotUsable
from fedflow.serving.codes import Degraded, ItemAnswer, failed
from fedflow.serving.hooks.hook import HookAnswer, HookRow
from fedflow.serving.hooks.limited_calls import HANGS, PAUSE_S, THREADS
from fedflow.serving.hooks.service_hooks import NO_HOOKS, Hooks, hooks_of
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.services.service_options import HookUse, ServiceOptions
from tests.support.hooks import CHANGE, RELEASE, offered


@pytest.fixture(autouse=True)
def _offered(tmp_path: Path) -> Iterator[None]:
    with offered(tmp_path / "hooks"):
        yield


class Clock:
    """A clock that a test sets."""

    now_s = 1_000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)


def use(hook: str, limit_ms: int = 2_000, **options: Any) -> HookUse:
    return HookUse(hook=hook, options=options, limit_ms=limit_ms)


def row(features: Mapping[str, Any] | None = None, **ids: Any) -> OnlineRow:
    return OnlineRow(request_id="r", features=dict(features or {}), ids=ids)


def before(hooks: Hooks, *rows: OnlineRow, **options: Any) -> list[Any]:
    """Return the features that come to the model, or codes."""
    found = hooks.before(rows, **options)
    return [one.features if isinstance(one, OnlineRow) else one.retcode for one in found]


def changing(place: str, change: Any, hook: str = "changes") -> Hooks:
    CHANGE["change"] = change
    uses = (use(hook, do="change"),)
    options = ServiceOptions(before=uses) if place == "before" else ServiceOptions(after=uses)
    return hooks_of(options)


# --- order, copies, rights ------------------------------------------------------------------------


def test_hooks_run_in_order_and_each_gets_what_the_one_before_gave() -> None:
    options = ServiceOptions(
        before=(use("rename", names={"age": "x0"}), use("adds", x1=2.0), use("defaults", values={
            "x1": 5, "x2": 3})),
        after=(use("threshold", cuts=[0.5], names=["no", "yes"]),
               use("labels", labels={"yes": "ja"}, member="word"),
               use("adds", more=[1, {"a": None}])),
    )  # fmt: skip
    with closing(hooks_of(options)) as hooks:
        assert before(hooks, row({"age": 1.0})) == [{"x0": 1.0, "x1": 2.0, "x2": 3}]
        (answer,) = hooks.after([row()], [ItemAnswer(score=0.9, label=1)])
    assert (answer.label, answer.score) == ("yes", 0.9)
    assert answer.more == {"word": "ja", "more": [1, {"a": None}]}


def test_a_service_without_hooks_has_none() -> None:
    hooks = hooks_of(ServiceOptions())
    assert hooks is NO_HOOKS
    rows = [row({"x": 1})]
    assert hooks.before(rows)[0] is rows[0]


def test_what_a_hook_does_to_its_input_is_seen_by_nobody_else() -> None:
    def mutate(one: Any) -> Any:
        one.features["x"] = "changed"
        one.ids["device_id"] = "changed"
        raise RuntimeError

    given = row({"x": 1}, device_id="u1")
    with closing(changing("before", mutate)) as hooks:
        assert before(hooks, given) == [140]
    assert (given.features, given.ids) == ({"x": 1}, {"device_id": "u1"})


def test_what_a_hook_keeps_and_changes_later_is_not_what_was_taken() -> None:
    uses = (use("leaks"),)
    with closing(hooks_of(ServiceOptions(before=uses, after=uses))) as hooks:
        (taken,) = hooks.before([row({"x": 1})])
        CHANGE["leaked"]("later")
        assert isinstance(taken, OnlineRow)
        assert taken.features == {"x": 1}
        (answer,) = hooks.after([taken], [ItemAnswer(score=0.5, more={"a": 1})])
        CHANGE["leaked"]("later")
        assert answer.more == {"a": 1}


def test_ids_for_the_partners_change_by_right_only() -> None:
    def change(one: HookRow) -> HookRow:
        return replace(one, ids={"device_id": str(one.ids["device_id"]).lower()})

    rows = [row(device_id="U1"), row(device_id="u2")]
    with closing(changing("before", change)) as hooks:
        assert before(hooks, *rows) == [140, {}]
    with closing(changing("before", change, "may_change_ids")) as hooks:
        changed = hooks.before(rows, partner_ids=("device_id",))
        assert [one.ids for one in changed if isinstance(one, OnlineRow)] == [
            {"device_id": "u1"}, {"device_id": "u2"},
        ]  # fmt: skip
        (refused, _) = hooks.before(rows, partner_ids=("phone",))
        assert isinstance(refused, ItemAnswer)
        assert refused.message == ("the hook may_change_ids added ids that may not leave this site")
    with closing(changing("before", lambda one: replace(one, ids={"n": True}))) as hooks:
        assert before(hooks, row(n=1)) == [140]


# --- what is wrong with a hook --------------------------------------------------------------------


@pytest.mark.parametrize("change", [
    lambda one: None, lambda one: 7, lambda one: one.features,
    lambda one: replace(one, features=None), lambda one: replace(one, features={1: 2}),
    lambda one: replace(one, features={"x": [1]}),
    lambda one: replace(one, features={"x": object()}),
    lambda one: replace(one, features={str(n): n for n in range(10_001)}),
    lambda one: replace(one, ids={"device_id": 2**80}), lambda one: replace(one, ids=[1]),
    lambda one: failed(0, ""),
])  # fmt: skip
def test_a_row_that_is_none_fails_alone(change: Any) -> None:
    def some(one: HookRow) -> Any:
        return change(one) if one.features.get("bad") else one

    with closing(changing("before", some, "may_change_ids")) as hooks:
        assert before(hooks, row({"x": 1}), row({"bad": 1}), row({"x": 2})) == [
            {"x": 1}, 140, {"x": 2},
        ]  # fmt: skip


@pytest.mark.parametrize("change", [
    lambda one: None, lambda one: replace(one, score=float("nan")),
    lambda one: replace(one, score=None),
    lambda one: replace(one, score="0.5"), lambda one: replace(one, score=[0.5, True]),
    lambda one: replace(one, credit_score=float("inf")), lambda one: replace(one, label=[1]),
    lambda one: replace(one, label="\ud800"),
    lambda one: replace(one, more={"score": 1}), lambda one: replace(one, more={"modelId": ""}),
    lambda one: replace(one, more={"a": object()}), lambda one: replace(one, more={1: 1}),
    lambda one: replace(one, more={"a": "b" * 70_000}),
    lambda one: replace(one, more={"a": "\udc00"}),
    lambda one: ItemAnswer(score=0.1),
])  # fmt: skip
def test_an_answer_that_is_none_fails_alone(change: Any) -> None:
    def some(one: HookAnswer) -> Any:
        return change(one) if one.score == 0.5 else one

    with closing(changing("after", some)) as hooks:
        items = [ItemAnswer(score=0.1), ItemAnswer(score=0.5), ItemAnswer(score=0.2)]
        found = hooks.after([row()] * 3, items)
    assert [one.retcode for one in found] == [0, 140, 0]


@pytest.mark.parametrize("gives", [None, 3, "ab", [], [1], {}, iter([]), [None] * 3])
def test_something_that_is_no_list_of_the_rows_fails_them(gives: Any) -> None:
    with closing(changing("before", lambda rows: gives, "gives")) as hooks:
        assert before(hooks, row(), row()) == [140, 140]
    with closing(changing("after", lambda rows: gives, "gives")) as hooks:
        found = hooks.after([row()] * 2, [ItemAnswer(score=0.5)] * 2)
        assert [one.retcode for one in found] == [140, 140]


def test_a_hook_that_raises_for_a_row_fails_it_alone_and_tells_no_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with closing(
        hooks_of(ServiceOptions(before=(use("raises"),), after=(use("adds", a=1),)))
    ) as hooks:
        found = hooks.before([row({"x": 1}), row({"bad": 1}), row({"x": 2})])
        assert [isinstance(one, OnlineRow) for one in found] == [True, False, True]
        assert isinstance(found[1], ItemAnswer)
        assert (found[1].retcode, found[1].message) == (140, "the hook raises failed")
    assert "raises raised ValueError at" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError])
def test_a_hook_that_would_end_its_thread_does_not(error: type[BaseException]) -> None:
    def stop(one: Any) -> Any:
        raise error

    with closing(changing("before", stop)) as hooks:
        for _ in range(2 * THREADS):
            assert before(hooks, row()) == [140]


def test_a_hook_may_refuse_a_row_with_its_sentence() -> None:
    uses = (use("refuses"), use("adds", a=1))
    with closing(hooks_of(ServiceOptions(before=uses, after=uses))) as hooks:
        (refused,) = hooks.before([row()])
        assert refused == failed(140, "the hook refuses: too young")
        assert hooks.after([row()], [ItemAnswer(score=1.0)]) == [refused]


def test_rows_without_a_score_do_not_come_to_hooks() -> None:
    fault = failed(113, "no features")
    with closing(hooks_of(ServiceOptions(after=(use("adds", a=1),)))) as hooks:
        found = hooks.after([row()] * 2, [fault, ItemAnswer(
            score=0.5, degraded=Degraded(how="guest_only", why="x"))])  # fmt: skip
    assert found[0] is fault
    assert (found[1].more, found[1].degraded is not None) == ({"a": 1}, True)


def test_the_log_has_few_lines_about_one_hook(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with closing(hooks_of(ServiceOptions(before=(use("raises"),)), clock=clock)) as hooks:
        for _ in range(50):
            before(hooks, row({"bad": 1}))
        assert len(caplog.records) == 1
        clock.now_s += 60
        before(hooks, row({"bad": 1}))
        assert len(caplog.records) == 2


# --- hooks that hang ------------------------------------------------------------------------------


def test_a_hook_that_hangs_costs_its_time_limit(caplog: pytest.LogCaptureFixture) -> None:
    with closing(hooks_of(ServiceOptions(before=(use("hangs", 60),)))) as hooks:
        begun = time.monotonic()
        found = hooks.before([row({"hang": 1})])
        assert time.monotonic() - begun < 2
        assert found == [failed(141, "the hook hangs took longer than 60 ms")]
        assert before(hooks, row({"x": 1})) == [{"x": 1}]
    assert "took longer" in caplog.text


def test_after_some_hangs_a_hook_is_off_until_a_call_succeeds() -> None:
    clock = Clock()
    with closing(hooks_of(ServiceOptions(before=(use("hangs", 60),)), clock=clock)) as hooks:
        for _ in range(HANGS):
            assert before(hooks, row({"hang": 1})) == [141]
        begun = time.monotonic()
        found = [hooks.before([row({"x": 1})])[0] for _ in range(50)]
        assert time.monotonic() - begun < 0.06 * 50
        assert found == [failed(141, "the hook hangs is off, as it hung several times")] * 50
        clock.now_s += PAUSE_S + 1
        assert before(hooks, row({"x": 1})) == [{"x": 1}]
        assert before(hooks, row({"x": 2})) == [{"x": 2}]


def test_a_hook_never_holds_more_threads_than_its_own() -> None:
    clock = Clock()
    with closing(hooks_of(ServiceOptions(before=(use("hangs", 60),)), clock=clock)) as hooks:
        for _ in range(3 * THREADS):
            assert before(hooks, row({"hang": 1})) == [141]
            clock.now_s += PAUSE_S + 1
        names = [one.name for one in threading.enumerate()]
        assert names.count("fedflow-hook-hangs") == THREADS
        assert before(hooks, row({"x": 1})) == [141]  # all its threads hang
        RELEASE.set()
        deadline = time.monotonic() + 10
        while before(hooks, row({"x": 1})) != [{"x": 1}]:
            assert time.monotonic() < deadline
            clock.now_s += PAUSE_S + 1
            time.sleep(0.01)


def test_a_hook_that_hangs_leaves_other_hooks_and_services_alone() -> None:
    with (
        closing(hooks_of(ServiceOptions(before=(use("hangs", 300),)))) as bad,
        closing(hooks_of(ServiceOptions(before=(use("hangs", 300),)))) as good,
        ThreadPoolExecutor(4) as pool,
    ):
        hanging = [pool.submit(before, bad, row({"hang": 1})) for _ in range(4)]
        assert before(good, row({"x": 1})) == [{"x": 1}]
        assert [one.result() for one in hanging] == [[141]] * 4


def test_many_calls_at_once_share_the_threads_of_a_hook() -> None:
    with closing(hooks_of(ServiceOptions(before=(use("adds", a=1),)))) as hooks:
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda n: before(hooks, row({"x": n})), range(400)))
    assert found == [[{"x": n, "a": 1}] for n in range(400)]


def test_closed_hooks_leave_no_threads() -> None:
    hooks = hooks_of(ServiceOptions(before=(use("adds", a=1),)))
    before(hooks, row())
    hooks.close()
    _wait_for_no_threads("fedflow-hook-adds")


def test_a_request_that_began_before_hooks_were_closed_is_answered() -> None:
    hooks = hooks_of(ServiceOptions(before=(use("adds", a=1),)))
    before(hooks, row())
    hooks.close()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: before(hooks, row({"x": n})), range(100)))
    assert found == [[{"x": n, "a": 1}] for n in range(100)]
    _wait_for_no_threads("fedflow-hook-adds")


def _wait_for_no_threads(name: str) -> None:
    deadline = time.monotonic() + 10
    while any(one.name == name for one in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- what a service may name ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uses", "path", "reason"),
    [
        ([use("none")], "before[0].hook", "known are adds"),
        ([use("labels", labels={})], "before[0].hook", "there is no 'labels'"),
        ([use("gone")], "before[0].hook", "gone"),
        ([use("nothing")], "before[0].hook", "no method before"),
        ([use("adds"), use("changes")], "before[1].options", "KeyError"),
        ([use("adds"), use("rename")], "before[1].options", "names"),
        ([use("rename", names={"a": 1})], "before[0].options.names[...]", "expected `str`"),
        ([use("rename", names={"a": "x", "b": "x"})], "before[0].options.names", "two names"),
        ([use("defaults", values={"a": []})], "before[0].options.values[...]", "expected"),
        ([use("defaults", value={})], "before[0].options", "value"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(uses: Any, path: str, reason: str) -> None:
    with pytest.raises(HookNotUsable) as caught:
        hooks_of(ServiceOptions(before=tuple(uses)))
    assert caught.value.fields["path"] == path
    assert reason in str(caught.value.fields["reason"])


def test_hooks_that_were_opened_before_a_mistake_are_closed() -> None:
    closed: list[str] = []
    CHANGE["closed"] = closed.append
    uses = (use("closes"), use("none"))
    with pytest.raises(HookNotUsable) as caught:
        hooks_of(ServiceOptions(before=(use("closes"),), after=uses))
    assert caught.value.fields["path"] == "after[1].hook"
    assert closed == ["closed", "closed"]
