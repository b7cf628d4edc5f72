"""The short version of `bin/attack`: each attack once, on servers that do honest work meanwhile.

Floods and large values come one by one, of what takes no time a few are compared with before at
once: the comparison takes longer than they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pytest

from fedflow.base.clock import SystemClock
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.every import ALL, KNOWN_GAPS
from tests.attack.floods import FLOODS
from tests.attack.report import to_text
from tests.attack.run import quiet_per_task, run_all, run_attack
from tests.attack.scene import Scene, scene
from tests.attack.servers import SERVERS
from tests.attack.values import VALUES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SEED = 14
QUICK = [attack for attack in ALL if attack not in (*FLOODS, *VALUES, *SERVERS)]
TOGETHER = 6  #: so many tests they share


@pytest.fixture(scope="module")
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("attack"), servers=request.param) as running:
        yield running


def one_by_one(attacks: Iterable[Attack]) -> pytest.MarkDecorator:
    """Return a mark that runs a test for each attack."""
    return pytest.mark.parametrize("attack", attacks, ids=lambda attack: attack.name)


@one_by_one((*FLOODS, *VALUES))
@pytest.mark.parametrize("stage", [1], indirect=True)
def test_no_flood_achieves_anything(stage: Scene, attack: Attack) -> None:
    check(stage, attack)


@pytest.mark.parametrize("number", range(TOGETHER))
@pytest.mark.parametrize("stage", [1], indirect=True)
def test_no_attack_achieves_anything(stage: Scene, number: int) -> None:
    check(stage, in_turn(QUICK[number::TOGETHER]))


@one_by_one(SERVERS)
@pytest.mark.parametrize("stage", [2], indirect=True)
def test_no_attack_on_one_of_two_servers_achieves_anything(stage: Scene, attack: Attack) -> None:
    check(stage, attack)


@pytest.mark.parametrize("stage", [1], indirect=True)
def test_an_attack_that_fails_itself_says_where(stage: Scene) -> None:
    async def plays_badly(_: Attempt) -> Violations:
        raise LookupError("no such thing")

    attack = Attack(name="bad", who=Who.OUTSIDER, play=plays_badly)
    (found,) = run_attack(stage, attack, seed=SEED).violations
    assert "LookupError: no such thing" in found
    assert "in plays_badly" in found


def in_turn(attacks: Sequence[Attack]) -> Attack:
    """Return an attack that is all of these, one after the other."""

    async def play(attempt: Attempt) -> Violations:
        found = []
        for one in attacks:
            found += [f"{one.name}: {text}" for text in await one.play(attempt)]
        return found

    name = ", ".join(one.name for one in attacks)
    return Attack(name=name, who=attacks[0].who, play=play, servers=attacks[0].servers)


def check(stage: Scene, attack: Attack) -> None:
    """Run an attack. Raises: AssertionError: it did something that it may not."""
    result = run_attack(stage, attack, seed=SEED)
    print(f"{result.tries} tries in {result.seconds:.1f} s: {dict(result.answers.most_common())}")
    gaps = {name: KNOWN_GAPS[name] for name in attack.name.split(", ") if name in KNOWN_GAPS}
    if gaps:
        assert result.violations, f"mended, remove it from KNOWN_GAPS: {gaps}"
    else:
        assert not result.violations, f"{attack.name}:\n" + "\n".join(result.violations)
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
