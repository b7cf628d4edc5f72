"""A component of rounds for tests: every round adds the mean of the members' numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedflow.components.horizontal.driving import run_aggregator, run_member
from fedflow.components.horizontal.packing import Layout
from fedflow.components.horizontal.rounds import (
    Newcomer,
    RoundRules,
    RoundState,
    Total,
    means,
    weighted,
)
from fedflow.sdk import Context, Outputs, Params, Role, Site, component
from tests.unit.components.secure_aggregation.identities import NamedIdentity


class Mean:
    """Satisfies `Combiner`."""

    needs_singles = False

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        return None if newcomer.about == {"kind": "number"} else "it is of another kind"

    def mistake(self, state: RoundState) -> str | None:
        return None

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        return RoundState(round=0, arrays={"mean": np.zeros(3)}, ended=self._rounds == 0)

    def layout(self, state: RoundState) -> Layout:
        return {"number": (3,)}

    def combine(self, state: RoundState, total: Total) -> RoundState:
        number = state.round + 1
        mean = state.arrays["mean"] + means(total)["number"]
        return RoundState(round=number, arrays={"mean": mean}, ended=number == self._rounds)


class Number:
    """Satisfies `Worker`: contributes its number, and the round's."""

    def __init__(self, number: float, *, rows: int) -> None:
        self.newcomer = Newcomer(rows=rows, about={"kind": "number"})
        self.states: list[RoundState] = []
        self._number = number

    def work(self, state: RoundState, members: Sequence[Site]) -> Mapping[str, Any]:
        numbers = np.array([self._number, state.round, len(members)], dtype=np.float64)
        return weighted({"number": numbers}, self.newcomer.rows)

    def took(self, state: RoundState) -> None:
        self.states.append(state)


class MeanParams(Params, frozen=True, kw_only=True):
    """Parameters."""

    number: float = 0.0
    rows: int = 1
    rounds: int = 3
    secure: bool = True
    signed: bool = False
    identity: bool = True  #: there is TLS


@component("MeanRounds", roles=("guest", "host", "arbiter"), params=MeanParams, outputs=("data",))
class MeanRounds:
    """A training as short as can be."""

    def run(self, ctx: Context) -> Outputs:
        rules = RoundRules(secure=ctx.params.secure, signed=ctx.params.signed)
        if ctx.params.identity:
            ctx = replace(ctx, identity=NamedIdentity(ctx.site.key))
        if ctx.site.role is Role.ARBITER:
            state = run_aggregator(ctx, Mean(ctx.params.rounds), rules=rules)
            return Outputs(summary={"mean": state.arrays["mean"].tolist(), **state.notes})
        worker = Number(ctx.params.number, rows=ctx.params.rows)
        state = run_member(ctx, worker, rules=rules)
        rounds = [one.round for one in worker.states]
        return Outputs(summary={"mean": state.arrays["mean"].tolist(), "states": rounds})
