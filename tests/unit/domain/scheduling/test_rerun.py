"""Which components a rerun repeats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.ids import PartyId
from fedflow.domain.job.dag import Dag
from fedflow.domain.records import ScheduledTask
from fedflow.domain.scheduling.rerun import choose, next_attempt
from fedflow.domain.site import Role, Site
from fedflow.domain.states import TASK_SUCCEEDED, TaskStatus

W, S, P = TaskStatus.WAITING, TaskStatus.SUCCESS, TaskStatus.PASS
F, C = TaskStatus.FAILED, TaskStatus.CANCELED
CHAIN = Dag(names=("a", "b", "c", "d"), edges=(("a", "b"), ("b", "c"), ("c", "d")))
DIAMOND = Dag(names=("a", "b", "c", "d"), edges=(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")))


def again(
    dag: Dag, *statuses: TaskStatus, components: list[str] | None = None, force: bool = False
) -> tuple[str, ...]:
    return choose(dag, dict(zip(dag.names, statuses)), components=components, force=force)


def test_what_did_not_succeed_runs_again_and_what_succeeded_is_kept() -> None:
    assert again(CHAIN, S, P, F, C) == ("c", "d")
    assert again(CHAIN, S, S, S, S) == ()


def test_with_force_everything_runs_again() -> None:
    assert again(CHAIN, S, S, S, S, force=True) == CHAIN.order


def test_the_word_pipeline_means_the_whole_job() -> None:
    assert again(CHAIN, S, F, C, C, components=["pipeline"]) == ("b", "c", "d")
    assert again(CHAIN, S, F, C, C, components=[]) == ("b", "c", "d")


def test_a_list_limits_the_rerun_but_everything_downstream_comes_along() -> None:
    assert again(DIAMOND, S, F, F, C, components=["b"]) == ("b", "d")
    assert again(CHAIN, S, S, S, S, components=["b"], force=True) == ("b", "c", "d")
    assert again(CHAIN, S, S, F, C, components=["b"]) == ()


def test_a_named_component_brings_what_it_still_needs_from_upstream() -> None:
    assert again(CHAIN, S, F, C, C, components=["d"]) == ("b", "c", "d")


def test_an_unknown_component_is_named() -> None:
    with pytest.raises(KeyError, match="zzz"):
        again(CHAIN, S, S, F, C, components=["a", "zzz"])


def test_what_run_to_leaves_out_runs_again_only_if_its_result_would_be_stale() -> None:
    def limited(*statuses: TaskStatus, force: bool = False) -> tuple[str, ...]:
        named = dict(zip(CHAIN.names, statuses))
        return choose(CHAIN, named, components=None, force=force, selected={"a", "b"})

    assert limited(S, F, C, C) == ("b",)
    assert limited(S, S, C, C) == ()
    assert limited(S, S, S, C, force=True) == ("a", "b", "c")


@given(
    st.lists(st.sampled_from([W, S, P, F, C]), min_size=4, max_size=4),
    st.none() | st.lists(st.sampled_from("abcd"), max_size=4),
    st.booleans(),
    st.sampled_from([CHAIN, DIAMOND]),
)
def test_a_rerun_leaves_no_stale_result_and_never_waits_for_a_kept_failure(
    statuses: list[TaskStatus], components: list[str] | None, force: bool, dag: Dag
) -> None:
    before = dict(zip(dag.names, statuses))
    chosen = choose(dag, before, components=components, force=force)
    assert list(chosen) == [name for name in dag.order if name in chosen]
    for name in chosen:
        assert set(dag.downstream(name)) <= set(chosen)
    first = [n for n in chosen if not set(dag.upstream(n)) & set(chosen)]
    for name in first:
        assert all(before[up] in TASK_SUCCEEDED for up in dag.upstream(name))


def test_a_further_attempt_starts_from_nothing_at_the_given_sites() -> None:
    site = Site(Role.GUEST, PartyId("9999"))
    task = ScheduledTask(component="a", version=3, status=F, parties=(), ended_ms=5, epoch=1)
    attempt = next_attempt(task, [site], epoch=2, retries=1)
    assert (attempt.version, attempt.status, attempt.epoch, attempt.retries) == (4, W, 2, 1)
    assert attempt.ended_ms is None
    assert [(p.site, p.status) for p in attempt.parties] == [(site, W)]
