"""A round of a secure sum in this process: members that are lost, or that lie, in any stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.secure_aggregation.aggregator import SecureSum
from fedflow.components.secure_aggregation.member import SecureMember
from fedflow.components.secure_aggregation.messages import Message
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage, choose_plan
from fedflow.components.secure_aggregation.signatures import Signatures

Change = Callable[[str, SumStage, Message], Message | None]
"""Member, stage, message -> what arrives instead of it; None: nothing."""


@dataclass
class Round:
    """What happened in a round."""

    plan: SumPlan
    vectors: Mapping[str, NDArray[Any]]
    aggregator: SecureSum
    members: dict[str, SecureMember]
    answers: list[tuple[str, SumStage, Message]] = field(default_factory=list)
    questions: list[tuple[str, SumStage, Message]] = field(default_factory=list)

    def plain_sum(self) -> NDArray[Any]:
        """Return the sum of the vectors that the secure sum says it has."""
        total = np.zeros_like(next(iter(self.vectors.values())))
        for name in self.aggregator.inputs:
            total += self.vectors[name]
        return total


def names(count: int) -> list[str]:
    """Return the names of `count` members."""
    return [f"host-{10_000 + i}" for i in range(count)]


def plan_of(count: int, *, length: int = 8, round: int = 0, **more: Any) -> SumPlan:
    """Return a plan of `count` members."""
    return choose_plan(names(count), length, session="job/attempt", round=round, **more)


def random_vectors(plan: SumPlan, *, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return a vector per member, as large as the ring allows."""
    rng = np.random.default_rng(seed)
    most = (1 << plan.ring_bits - 2) // len(plan.members)
    kind = np.int64 if plan.ring_bits == 64 else np.int32
    return {
        name: rng.integers(-most, most, plan.length, dtype=kind, endpoint=True)
        for name in plan.members
    }


def start(
    plan: SumPlan,
    *,
    vectors: Mapping[str, NDArray[Any]] | None = None,
    signatures: Mapping[str, Signatures] | None = None,
) -> Round:
    """Return a round before its first stage."""
    given = signatures or {}
    return Round(
        plan,
        vectors or random_vectors(plan),
        SecureSum(plan),
        {name: SecureMember(plan, name, signatures=given.get(name)) for name in plan.members},
    )


def run(
    plan: SumPlan,
    *,
    lost: Mapping[str, SumStage] | None = None,
    change: Change = lambda _name, _stage, answer: answer,
    **more: Any,
) -> Round:
    """Return a whole round, in which members are lost at the stage that `lost` names."""
    return go_on(start(plan, **more), lost=lost, change=change)


def go_on(
    one: Round,
    *,
    lost: Mapping[str, SumStage] | None = None,
    change: Change = lambda _name, _stage, answer: answer,
) -> Round:
    """Take a round from its start to its end; see `run`."""
    questions: dict[str, Message] = {}
    for stage in one.plan.stages:
        for name in one.aggregator.due:
            if (lost or {}).get(name) is stage:
                continue
            answer = answer_of(one, name, stage, questions.get(name))
            one.answers.append((name, stage, answer))
            changed = change(name, stage, answer)
            if changed is not None:
                one.aggregator.receive(name, changed)
        questions = one.aggregator.close_stage()
        one.questions += [(name, stage, question) for name, question in questions.items()]
    return one


def answer_of(one: Round, name: str, stage: SumStage, question: Message | None) -> Message:
    """Return a member's answer to the question of a stage."""
    member = one.members[name]
    match stage:
        case SumStage.KEYS:
            return member.keys()
        case SumStage.SHARES:
            return member.shares(question)
        case SumStage.INPUTS:
            return member.masked(question, one.vectors[name].copy())
        case SumStage.CONFIRMATIONS:
            return member.confirm(question)
        case SumStage.UNMASKING:
            return member.unmask(question)
