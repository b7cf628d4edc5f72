"""A member's machine: what it does about an aggregator that comes and goes."""

from __future__ import annotations

import pytest

from fedflow.components.horizontal.member import MemberSettings, RoundMember, SendToAggregator
from fedflow.components.horizontal.messages import Ready
from fedflow.components.horizontal.rounds import Newcomer
from fedflow.sdk import PeerFailed, Role, Site


def member() -> RoundMember:
    settings = MemberSettings(
        me=Site(Role.HOST, "2"), aggregator=Site(Role.ARBITER, "1"), session="s", secure=False,
        silence_s=60.0,
    )  # fmt: skip
    machine = RoundMember(Newcomer(rows=1, about={}), settings)
    machine.begin(0.0)
    return machine


def test_an_aggregator_that_was_launched_again_is_told_at_once_that_a_member_is_there() -> None:
    """What it was told before may have been for its earlier launch, and so be lost."""
    (action,) = member().departed("it was launched again", 1.0, elastic=True)
    assert isinstance(action, SendToAggregator)
    assert isinstance(action.message, Ready)


def test_without_elastic_settings_the_end_of_the_aggregator_ends_the_run() -> None:
    with pytest.raises(PeerFailed, match="killed"):
        member().departed("killed", 1.0, elastic=False)
