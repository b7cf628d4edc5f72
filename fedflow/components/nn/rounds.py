"""The rounds of HomoNN: federated averaging (McMahan et al. 2017). Nothing here imports PyTorch.

| round | what a member contributes, masked | what the arbiter makes of the sums |
|---|---|---|
| 0 | its first numbers, the same at all | the mean: the network to begin with |
| 1 ... | its numbers after `epochs` passes, and its loss | their means |

With `weighted_aggregation` a member's part is weighted by its rows. The arbiter knows names and
shapes of the arrays, and not what the network is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.horizontal.packing import Floats, Layout
from fedflow.components.horizontal.rounds import Newcomer, RoundState, Total
from fedflow.components.samples.agreement import agreed, plan_in, refusal
from fedflow.sdk import Site
from fedflow.sdk.errors import CodecError

LOSS: Final = "loss"  #: the array of the sum of losses
WEIGHT: Final = "weight"  #: of the sum of weights
_PREFIX: Final = "state."  #: before the names of the network's arrays

Side = Annotated[int, Meta(ge=0)]


class TrainingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What all parties must agree on; a member says it when it comes."""

    shapes: dict[str, list[Side]]  #: of the network's arrays
    definition: str  #: digest of layers, loss and optimizer
    columns: str  #: digest of the columns' names, in order
    rounds: Annotated[int, Meta(ge=1)]  #: of training
    begun: Annotated[int, Meta(ge=0)]  #: epochs that the model has had before
    every: Annotated[int, Meta(ge=1)]  #: epochs of a round
    epochs: Annotated[int, Meta(ge=1)]
    weighted: bool
    early_stop: str | None
    tol: float

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """Return what members contribute to a round."""
        arrays = {f"{_PREFIX}{name}": tuple(shape) for name, shape in self.shapes.items()}
        return {**arrays, LOSS: (), WEIGHT: ()}

    def epochs_of(self, round_: int) -> int:
        """Return how many epochs a round of training, from 1, has."""
        return min(self.every, self.epochs - (round_ - 1) * self.every)


class AveragingMember:
    """A party's half: it trains between the rounds."""

    def __init__(
        self,
        plan: TrainingPlan,
        *,
        rows: int,
        first: Callable[[], Mapping[str, Floats]],
        train: Callable[[Mapping[str, Floats], int], tuple[Mapping[str, Floats], float]],
        took: Callable[[RoundState], None],
    ) -> None:
        """`first` gives the first numbers, `train` takes numbers and a round and gives new ones and
        a loss; `took` sees every state.
        """
        self._plan = plan
        self._rows = rows
        self._first = first
        self._train = train
        self._took = took

    @property
    def newcomer(self) -> Newcomer:
        """Return the plan and the number of rows."""
        return Newcomer(rows=self._rows, about=msgspec.to_builtins(self._plan))

    def work(self, state: RoundState, counted: Sequence[Site]) -> Mapping[str, NDArray[Any]]:
        """Return this party's part of the sums. Raises: CodecError, and what `train` raises."""
        if state.round == 0:
            states, loss = self._first(), 0.0
        else:
            states, loss = self._train(numbers_in(state, self._plan), state.round)
        weight = float(self._rows if self._plan.weighted else 1)
        parts = {f"{_PREFIX}{name}": array * weight for name, array in states.items()}
        return {**parts, LOSS: np.array(loss * weight), WEIGHT: np.array(weight)}

    def took(self, state: RoundState) -> None:
        """Show a state."""
        self._took(state)


class AveragingCombiner:
    """The arbiter's half: it sees sums alone."""

    needs_singles = False

    def __init__(self, took: Callable[[RoundState], None] | None = None) -> None:
        self._took = took

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        """Return state 0. Raises: GroupDiffers: the members' networks or parameters differ."""
        plan = agreed(newcomers, TrainingPlan)
        return RoundState(round=0, arrays={}, notes=_notes(plan, losses=[], converged=False))

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        """Return what of a late member's plan is not that of the others."""
        return refusal(newcomer, plan_in(state.notes["plan"], TrainingPlan))

    def mistake(self, state: RoundState) -> str | None:
        """Return why what a member calls the state is none of this training."""
        try:
            plan = plan_in(state.notes.get("plan"), TrainingPlan)
            losses_in(state)
            if state.round:
                numbers_in(state, plan)
        except (CodecError, ValueError):
            return "its state is of another training"
        return None

    def layout(self, state: RoundState) -> Layout:
        """Return the shapes of the network's arrays, and two numbers."""
        return plan_in(state.notes["plan"], TrainingPlan).layout

    def combine(self, state: RoundState, total: Total) -> RoundState:
        """Return the means. Raises: ValueError: the weights are none."""
        plan = plan_in(state.notes["plan"], TrainingPlan)
        weight = float(total.arrays[WEIGHT])
        most = total.rows if plan.weighted else len(total.counted)
        if abs(weight - most) > 1e-3:
            raise ValueError(f"the weights add up to {weight}, not to {most}")
        arrays = {name: total.arrays[name] / most for name in plan.layout if name not in _NO_STATE}
        losses: list[float] = list(state.notes["losses"])
        if state.round:
            losses.append(float(total.arrays[LOSS]) / most)
        converged = _converged(plan, losses)
        after = RoundState(
            round=state.round + 1,
            arrays=arrays,
            notes=_notes(plan, losses=losses, converged=converged),
            ended=converged or state.round == plan.rounds,
        )
        if self._took is not None:
            self._took(after)
        return after


_NO_STATE: Final = frozenset({LOSS, WEIGHT})


def numbers_in(state: RoundState, plan: TrainingPlan) -> dict[str, Floats]:
    """Return the network's arrays. Raises: CodecError: the state has others."""
    due = {name: shape for name, shape in plan.layout.items() if name not in _NO_STATE}
    if {name: array.shape for name, array in state.arrays.items()} != due:
        raise CodecError(reason="the arbiter's state is of another network")
    return {name.removeprefix(_PREFIX): array for name, array in state.arrays.items()}


def losses_in(state: RoundState) -> list[float]:
    """Return the mean loss of every round of training. Raises: CodecError: they are none."""
    losses = state.notes.get("losses")
    if not isinstance(losses, list) or not all(type(one) in {int, float} for one in losses):
        raise CodecError(reason="the arbiter's losses are no numbers")
    return [float(one) for one in losses]


def _notes(plan: TrainingPlan, *, losses: list[float], converged: bool) -> dict[str, Any]:
    return {"plan": msgspec.to_builtins(plan), "losses": losses, "converged": converged}


def _converged(plan: TrainingPlan, losses: Sequence[float]) -> bool:
    """Tell whether training may stop, as `early_stop` says. Source: FATE's convergence rules."""
    if not losses or plan.early_stop is None:
        return False
    if plan.early_stop == "abs":
        return losses[-1] <= plan.tol
    return len(losses) > 1 and abs(losses[-1] - losses[-2]) < plan.tol
