"""The short version of `bin/attack`: each attack once, on servers that do honest work meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedflow.base.clock import SystemClock
from tests.attack.attacks import Attack
from tests.attack.every import ALL, KNOWN_GAPS
from tests.attack.report import to_text
from tests.attack.run import quiet_per_task, run_all, run_attack
from tests.attack.scene import Scene, scene

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SEED = 14


@pytest.fixture(scope="module")
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("attack"), servers=request.param) as running:
        yield running


def attacks(servers: int) -> pytest.MarkDecorator:
    """Return a mark that runs a test for each attack on a scene in which 9999 has `servers`."""
    chosen = [attack for attack in ALL if attack.servers == servers]
    return pytest.mark.parametrize("attack", chosen, ids=lambda attack: attack.name)


@attacks(servers=1)
@pytest.mark.parametrize("stage", [1], indirect=True)
def test_no_attack_achieves_anything(stage: Scene, attack: Attack) -> None:
    check(stage, attack)


@attacks(servers=2)
@pytest.mark.parametrize("stage", [2], indirect=True)
def test_no_attack_on_one_of_two_servers_achieves_anything(stage: Scene, attack: Attack) -> None:
    check(stage, attack)


def check(stage: Scene, attack: Attack) -> None:
    """Run an attack. Raises: AssertionError: it did something that it may not."""
    result = run_attack(stage, attack, seed=SEED)
    print(f"{result.tries} tries in {result.seconds:.1f} s: {dict(result.answers.most_common())}")
    if attack.name in KNOWN_GAPS:
        gap = KNOWN_GAPS[attack.name]
        assert result.violations, f"mended, remove it from KNOWN_GAPS: {gap}"
    else:
        assert not result.violations, "\n".join(result.violations)
        assert result.per_task, "no honest chain ran beside it"


@pytest.mark.heavy
@pytest.mark.timeout(45 * 60)
def test_half_an_hour_of_attacks_achieves_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for servers, minutes in ((1, 25), (2, 5)):
        chosen = [attack for attack in ALL if attack.servers == servers]
        with scene(tmp_path_factory.mktemp("heavy-attack"), servers=servers) as running:
            quiet = quiet_per_task(running)
            until_s = SystemClock().monotonic_s() + minutes * 60
            results = list(
                run_all(running, chosen, seed=SEED, scale=3.0, until_s=until_s, say=print)
            )
        print(to_text(results, seed=SEED, quiet=quiet))
        assert {one.attack for one in results if one.violations} <= KNOWN_GAPS.keys()


def test_each_known_gap_is_an_attack_with_a_reason() -> None:
    assert KNOWN_GAPS.keys() <= {attack.name for attack in ALL}
    assert all(len(reason.split()) > 4 for reason in KNOWN_GAPS.values())
