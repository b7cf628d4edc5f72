"""The short version of `bin/chaos --elastic`: three faults of three parties that train."""

from __future__ import annotations

import pytest

from tests.chaos.elastic import Blow, Scenario, Stage, run_elastic

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SHORT = (
    Scenario(stage=Stage.UNMASKING, blows=(Blow.HOST_WORKER_KILL,), heals_early=True),
    Scenario(
        stage=Stage.SHARES,
        blows=(Blow.ARBITER_WORKER_KILL, Blow.GUEST_LINK_CUT),
        heals_early=True,
    ),
    Scenario(stage=Stage.INPUTS, blows=(Blow.ALL_HOSTS_KILL,), heals_early=True),
)

MANY = (
    Scenario(stage=Stage.INPUTS, blows=(Blow.HOST_WORKER_KILL,), heals_early=True),
    Scenario(stage=Stage.SHARES, blows=(Blow.HOST_SERVER_KILL,), heals_early=True),
)


def test_a_training_ends_with_one_model_or_with_a_cause(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    results = run_elastic(
        SHORT, tmp_path_factory.mktemp("elastic"), parties=3, minutes=5, say=print
    )
    assert not [one for result in results for one in result.anomalies]
    assert [result.status for result in results] == ["success", "success", "failed"]


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("parties", [10, 20])
def test_many_parties_train_on_while_one_is_killed(
    parties: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    results = run_elastic(
        MANY, tmp_path_factory.mktemp("many"), parties=parties, minutes=40, say=print
    )
    assert not [one for result in results for one in result.anomalies]
    assert [result.status for result in results] == ["success"] * len(MANY)
