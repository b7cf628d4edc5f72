"""Rounds in which the aggregator may lie: keys and the set of inputs are signed."""

from __future__ import annotations

import numpy as np
import pytest

from fedflow.components.secure_aggregation.member import SecureMember
from fedflow.components.secure_aggregation.messages import Message
from fedflow.components.secure_aggregation.plan import SumStage
from fedflow.components.secure_aggregation.signatures import SiteSignatures
from fedflow.sdk import Site
from fedflow.sdk.errors import DishonestParty, TooFewMembers
from tests.unit.components.secure_aggregation.identities import NamedIdentity
from tests.unit.components.secure_aggregation.rounds import (
    Round,
    answer_of,
    names,
    plan_of,
    run,
    start,
)


def signatures(count: int) -> dict[str, SiteSignatures]:
    sites = [Site.from_key(name) for name in names(count)]
    return {name: SiteSignatures(NamedIdentity(name), sites) for name in names(count)}


def signed(count: int, *, stages: int = 0) -> tuple[Round, dict[str, Message]]:
    """Return a signed round, and the questions after so many stages."""
    plan = plan_of(count, aggregator_may_lie=True)
    one, questions = start(plan, signatures=signatures(count)), dict[str, Message]()
    for stage in plan.stages[:stages]:
        for name in one.aggregator.due:
            one.aggregator.receive(name, answer_of(one, name, stage, questions.get(name)))
        questions = one.aggregator.close_stage()
    return one, questions


@pytest.mark.parametrize("stage", list(SumStage))
def test_sum_is_exact_though_a_member_is_lost(stage: SumStage) -> None:
    plan = plan_of(7, aggregator_may_lie=True)
    one = run(plan, signatures=signatures(7), lost={names(7)[3]: stage})
    np.testing.assert_array_equal(one.aggregator.sum(), one.plain_sum())
    assert one.aggregator.lost == {names(7)[3]: stage}


def test_more_than_two_thirds_are_needed() -> None:
    plan = plan_of(6, aggregator_may_lie=True)
    lost = dict.fromkeys(names(6)[:2], SumStage.CONFIRMATIONS)
    with pytest.raises(TooFewMembers, match="4 of 5"):
        run(plan, signatures=signatures(6), lost=lost)


def test_keys_that_the_aggregator_made_are_not_signed() -> None:
    one, questions = signed(4, stages=1)
    name, victim = names(4)[:2]
    own = SecureMember(one.plan, victim, signatures=signatures(4)[names(4)[2]]).keys()
    question = questions[name]
    joined = question["keys"][:64] + own["keys"] + question["keys"][128:]
    given = [question["signatures"][0], own["signature"], *question["signatures"][2:]]
    for keys, texts in ((joined, question["signatures"]), (joined, given)):
        one.members[name]._due = SumStage.SHARES
        with pytest.raises(DishonestParty, match=f"keys of {victim} are not signed by it"):
            one.members[name].shares({**question, "keys": keys, "signatures": texts})


def test_keys_of_another_round_are_not_taken() -> None:
    both = signatures(4)
    rounds = [
        start(plan_of(4, round=i, aggregator_may_lie=True), signatures=both) for i in range(2)
    ]
    old = rounds[0].members[names(4)[1]].keys()
    for name in names(4):
        answer = rounds[1].members[name].keys()
        if name == names(4)[1]:
            answer |= {"keys": old["keys"], "signature": old["signature"]}
        rounds[1].aggregator.receive(name, answer)
    question = rounds[1].aggregator.close_stage()[names(4)[0]]
    with pytest.raises(DishonestParty, match="not signed by it"):
        rounds[1].members[names(4)[0]].shares(question)


def test_an_aggregator_that_tells_two_sets_gets_no_shares() -> None:
    """It wants the seed of one member from some, and its key from the others."""
    one, questions = signed(7, stages=3)
    victim, rest = names(7)[6], names(7)[:6]
    answers = {}
    for i, name in enumerate(names(7)):
        told = rest if i < 3 else [*rest, victim]
        answers[name] = one.members[name].confirm({**questions[name], "members": told})
    for name in rest[:3]:
        told = {**questions[name], "stage": "unmasking", "members": rest}
        pairs = [(n, answers[n]["signature"]) for n in rest]
        told |= {"signers": [n for n, _ in pairs], "signatures": [s for _, s in pairs]}
        with pytest.raises(DishonestParty, match="did not confirm this set"):
            one.members[name].unmask(told)
    for name in rest[3:]:
        told = {**questions[name], "stage": "unmasking", "members": [*rest, victim]}
        told |= {
            "signers": names(7)[3:],
            "signatures": [answers[n]["signature"] for n in names(7)[3:]],
        }
        with pytest.raises(TooFewMembers, match="4 of 5 members confirmed"):
            one.members[name].unmask(told)


def test_a_set_that_was_confirmed_in_a_round_of_this_number_before_is_not_confirmed() -> None:
    """The round begins again, as after a restart: old signatures are of older keys."""
    both = signatures(4)
    runs = [start(plan_of(4, aggregator_may_lie=True), signatures=both) for _ in range(2)]
    texts: list[list[bytes]] = []
    questions: dict[str, Message] = {}
    for one in runs:
        for stage in one.plan.stages[:4]:
            for name in one.aggregator.due:
                one.aggregator.receive(name, answer_of(one, name, stage, questions.get(name)))
            questions = one.aggregator.close_stage()
        texts.append(questions[names(4)[0]]["signatures"])
    with pytest.raises(DishonestParty, match="did not confirm this set"):
        runs[1].members[names(4)[0]].unmask({**questions[names(4)[0]], "signatures": texts[0]})


def test_a_set_is_not_exchanged_after_it_was_confirmed() -> None:
    one, questions = signed(4, stages=4)
    name = names(4)[0]
    with pytest.raises(DishonestParty, match="another set of inputs than before"):
        one.members[name].unmask({**questions[name], "members": names(4)[:3]})


@pytest.mark.parametrize("value", [None, b"", b"x" * 20_000, "text", 5])
def test_a_signature_that_is_none_names_its_sender(value: object) -> None:
    one, _ = signed(4)
    answer = {**one.members[names(4)[0]].keys(), "signature": value}
    with pytest.raises(DishonestParty, match=f"{names(4)[0]} .*signature is none"):
        one.aggregator.receive(names(4)[0], answer)


@pytest.mark.parametrize("value", [None, [], [b"x"] * 3, [b"x"] * 5, [5] * 4])
def test_signatures_that_are_none_are_refused(value: object) -> None:
    one, questions = signed(4, stages=1)
    name = names(4)[0]
    with pytest.raises(DishonestParty, match=r"signatures is no list|signature is none"):
        one.members[name].shares({**questions[name], "signatures": value})


def test_who_is_not_of_the_job_has_no_signature_that_counts() -> None:
    job = [Site.from_key(name) for name in names(2)]
    stranger = NamedIdentity("host-1")
    own = SiteSignatures(NamedIdentity(names(1)[0]), job)
    assert own.wrong({"host-1": (b"keys", stranger.sign(b"keys"))}) == ("host-1",)


def test_a_signed_round_needs_signatures() -> None:
    with pytest.raises(ValueError, match="needs signatures"):
        SecureMember(plan_of(4, aggregator_may_lie=True), names(4)[0])


def test_a_plain_round_has_no_confirmations() -> None:
    one = start(plan_of(4))
    with pytest.raises(DishonestParty, match="confirmations was asked for, keys is due"):
        one.members[names(4)[0]].confirm({})
