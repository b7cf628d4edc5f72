"""What each schedule policy waits for, and when it gives a component up."""

from __future__ import annotations

import pytest

from fedflow.domain.policies import Policy, UpstreamEnd, Verdict, verdict

O, S, F, K = UpstreamEnd.OPEN, UpstreamEnd.SUCCEEDED, UpstreamEnd.FAILED, UpstreamEnd.SKIPPED  # noqa: E741
START, WAIT, SKIP = Verdict.START, Verdict.WAIT, Verdict.SKIP
TABLE = {
    #            all_success none_failed one_success all_done
    (): (START, START, START, START),
    (S, S): (START, START, START, START),
    (S, O): (WAIT, WAIT, WAIT, WAIT),
    (S, F): (SKIP, SKIP, START, START),
    (S, K): (SKIP, START, START, START),
    (F, O): (SKIP, SKIP, WAIT, WAIT),
    (K, O): (SKIP, WAIT, WAIT, WAIT),
    (F, F): (SKIP, SKIP, SKIP, START),
    (K, K): (SKIP, START, SKIP, START),
    (F, K): (SKIP, SKIP, SKIP, START),
    (S, F, K): (SKIP, SKIP, START, START),
}
COLUMNS = (Policy.ALL_SUCCESS, Policy.NONE_FAILED, Policy.ONE_SUCCESS, Policy.ALL_DONE)


@pytest.mark.parametrize("ends", TABLE)
def test_a_policy_gives_the_same_verdict_in_any_order_of_the_upstream_components(
    ends: tuple[UpstreamEnd, ...],
) -> None:
    for policy, expected in zip(COLUMNS, TABLE[ends], strict=True):
        assert verdict(policy, ends) is expected
        assert verdict(policy, reversed(ends)) is expected


def test_one_success_does_not_start_at_the_first_success() -> None:
    assert verdict(Policy.ONE_SUCCESS, (S, O)) is WAIT
