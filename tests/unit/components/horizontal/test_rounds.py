"""Rounds over a federation, all members there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.components.horizontal.rounds import HISTORY
from fedflow.sdk import DishonestParty, Role, Site
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.unit.components.horizontal.mean_rounds import MeanRounds

ARBITER = Site(Role.ARBITER, "10000")
MEMBERS = [Site(Role.GUEST, "9999"), Site(Role.HOST, "10001"), Site(Role.HOST, "10002")]


def run(
    tmp_path: Path, *, rounds: int = 3, secure: bool = True, **more: bool
) -> dict[Site, RunResult]:
    params = {
        site: {"number": float(i), "rows": i + 1, "rounds": rounds, "secure": secure, **more}
        for i, site in enumerate([*MEMBERS, ARBITER])
    }
    return run_component(
        MeanRounds, sites=[*MEMBERS, ARBITER], params=params, work_dir=tmp_path, timeout_s=20
    )


@pytest.mark.parametrize("secure", [True, False], ids=["masked", "plain"])
def test_every_member_ends_with_the_mean_of_all_rounds(tmp_path: Path, secure: bool) -> None:
    outputs = outputs_of(run(tmp_path, secure=secure))
    expected = pytest.approx([3 * 8 / 6, 0 + 1 + 2, 9.0], abs=1e-6)
    for site in [*MEMBERS, ARBITER]:
        assert outputs[site].summary["mean"] == expected
    assert outputs[MEMBERS[0]].summary["states"] == [0, 1, 2, 3]
    assert outputs[ARBITER].summary[HISTORY] == [
        {
            "first": 0,
            "last": 2,
            "counted": {"guest-9999": 1, "host-10001": 2, "host-10002": 3},
            "left_out": {},
        }
    ]


def test_masked_and_plain_sums_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    masked, plain = (
        outputs_of(run(tmp_path / str(secure), secure=secure))[ARBITER].summary["mean"]
        for secure in (True, False)
    )
    assert masked == plain


@pytest.mark.parametrize("identity", [True, False], ids=["tls", "no_tls"])
def test_signed_sums_are_the_same_and_need_certificates(tmp_path: Path, identity: bool) -> None:
    plain = outputs_of(run(tmp_path / "plain"))[ARBITER].summary["mean"]
    results = run(tmp_path / "signed", signed=True, identity=identity)
    assert outputs_of(results)[ARBITER].summary["mean"] == plain
    warned = [warning.code for site in MEMBERS for warning in results[site].warnings]
    assert warned == ([] if identity else ["KeysNotSigned"] * 3)


def test_a_run_without_rounds_ends_with_the_first_state(tmp_path: Path) -> None:
    outputs = outputs_of(run(tmp_path, rounds=0))
    assert outputs[MEMBERS[1]].summary == {"mean": [0.0, 0.0, 0.0], "states": [0]}


def test_a_member_that_wants_masks_does_not_take_part_without(tmp_path: Path) -> None:
    params = {site: {"secure": site != MEMBERS[2]} for site in MEMBERS}
    results = run_component(
        MeanRounds, sites=[*MEMBERS, ARBITER], params=params, work_dir=tmp_path, timeout_s=20
    )
    with pytest.raises(DishonestParty, match="masks"):
        outputs_of(results)
