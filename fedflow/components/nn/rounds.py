"""The rounds of HomoNN: federated averaging (McMahan et al. 2017). Nothing here imports PyTorch.

| round | what a member contributes, masked | what the arbiter makes of the sums |
|---|---|---|
| 0 | its first numbers, the same at all | the mean: the network to begin with |
| 1 ... | its numbers after `epochs` passes, and its loss | their means |

With `weighted_aggregation` a member's part is weighted by its rows. The arbiter knows names and
shapes of the arrays, and not what the network is. A state has the arrays as `state.<name>`, those
of the best round as `best.<name>`, and what the strategy remembers as `memory.<name>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.horizontal.best import follow_best
from fedflow.components.horizontal.labels import CLASSES, common_classes
from fedflow.components.horizontal.packing import Arrays, Floats, Layout, length_of, unpack
from fedflow.components.horizontal.privacy import DpParam, private, spent
from fedflow.components.horizontal.rounds import Newcomer, RoundState, Total
from fedflow.components.horizontal.strategies import StrategyParam, strategy_of
from fedflow.components.samples.agreement import agreed, plan_in, refusal
from fedflow.sdk import BadParameter, Diverged, Site
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError

LOSS: Final = "loss"  #: the array of the sum of losses
WEIGHT: Final = "weight"  #: of the sum of weights
VALIDATED: Final = "validated"  #: validation rows, and the sum of their losses
_PREFIX: Final = "state."  #: before the names of the network's arrays
_BEST: Final = "best."  #: of those of the best round
_MEMORY: Final = "memory."  #: of the strategy's

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
    learnt: list[str] = []  #: names of the arrays that are trained
    strategy: StrategyParam = msgspec.field(default_factory=StrategyParam)
    dp_param: DpParam = msgspec.field(default_factory=DpParam)
    follows_best: bool = False
    patience: int | None = None  #: rounds without a better one, then training stops

    @property
    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Return the network's arrays in a state."""
        return {f"{_PREFIX}{name}": tuple(shape) for name, shape in self.shapes.items()}

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """Return what members contribute to a round."""
        validated = {VALIDATED: (2,)} if self.follows_best else {}
        return {**self.arrays, LOSS: (), WEIGHT: (), **validated}

    @property
    def moved(self) -> dict[str, tuple[int, ...]]:
        """Return the arrays that the strategy makes; of others the mean is taken.

        A strategy that bears lies makes all of them. One that takes the update as a gradient makes
        those that are trained: means and counts of rows have no gradient.
        """
        if strategy_of(self.strategy).needs_singles or not self.learnt:
            return self.arrays
        learnt = {f"{_PREFIX}{name}" for name in self.learnt}
        return {name: shape for name, shape in self.arrays.items() if name in learnt}

    @property
    def state_layout(self) -> dict[str, tuple[int, ...]]:
        """Return the arrays of a state after the first round."""
        best = {_best(name): shape for name, shape in self.arrays.items()}
        size = length_of(self.moved)
        memory = strategy_of(self.strategy).memory(size)
        kept = {f"{_MEMORY}{name}": (size,) for name in memory}
        return {**self.arrays, **(best if self.follows_best else {}), **kept}

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
        validate: Callable[[Mapping[str, Floats]], tuple[int, float]] = lambda _: (0, 0.0),
        classes: Sequence[Any] = (),
    ) -> None:
        """`first` gives the first numbers, `train` takes numbers and a round and gives new ones and
        a loss; `validate` takes numbers and gives the validation rows and their mean loss; `took`
        sees every state. `classes` are the labels of a classification.
        """
        self._plan = plan
        self._rows = rows
        self._first = first
        self._train = train
        self._took = took
        self._validate = validate
        self._classes = list(classes)

    @property
    def newcomer(self) -> Newcomer:
        """Return the plan, the labels and the number of rows."""
        about = {**msgspec.to_builtins(self._plan), CLASSES: self._classes}
        return Newcomer(rows=self._rows, about=about)

    def work(self, state: RoundState, counted: Sequence[Site]) -> Mapping[str, NDArray[Any]]:
        """Return this party's part of the sums. Raises: CodecError, and what `train` raises."""
        plan, more = self._plan, {}
        if state.round == 0:
            states, loss = self._first(), 0.0
            validated = (0, 0.0)
        else:
            before = numbers_in(state, plan)
            validated = self._validate(before) if plan.follows_best else (0, 0.0)
            states, loss = self._train(before, state.round)
            if plan.dp_param.need_dp:
                states = {**states, **_private(before, states, plan, members=len(counted))}
        if plan.follows_best:
            more[VALIDATED] = np.array([validated[0], validated[0] * validated[1]])
        weight = float(self._rows if self._plan.weighted else 1)
        parts = {f"{_PREFIX}{name}": array * weight for name, array in states.items()}
        return {**parts, LOSS: np.array(loss * weight), WEIGHT: np.array(weight), **more}

    def took(self, state: RoundState) -> None:
        """Show a state."""
        self._took(state)


class AveragingCombiner:
    """The arbiter's half: it sees sums alone."""

    def __init__(
        self,
        took: Callable[[RoundState], None] | None = None,
        *,
        strategy: StrategyParam | None = None,
        dp_param: DpParam | None = None,
    ) -> None:
        self._took = took
        self._strategy = strategy or StrategyParam()
        self._dp_param = dp_param or DpParam()
        self.needs_singles = strategy_of(self._strategy).needs_singles

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        """Return state 0.

        Raises: GroupDiffers: the members' networks, parameters or labels differ. BadParameter: they
            have other strategies than the arbiter.
        """
        plan = agreed(newcomers, TrainingPlan)
        if not self._is_own(plan):
            reason = "the arbiter's are others than those of the parties"
            raise BadParameter(path="strategy, dp_param", reason=reason)
        labelled = any(one.about.get(CLASSES) for one in newcomers.values())
        classes = common_classes(newcomers) if labelled else []
        return RoundState(round=0, arrays={}, notes={**_first_notes(plan), CLASSES: classes})

    def _is_own(self, plan: TrainingPlan) -> bool:
        return plan.strategy == self._strategy and plan.dp_param == self._dp_param

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        """Return what of a late member is not as at the others."""
        found = newcomer.about.get(CLASSES, [])
        if not isinstance(found, list) or any(one not in state.notes[CLASSES] for one in found):
            return "it has labels that the training does not know"
        plan = plan_in(state.notes["plan"], TrainingPlan)
        if plan.dp_param.need_dp and newcomer.rows != 1:
            return "it does not want differential privacy"
        return refusal(newcomer, plan)

    def mistake(self, state: RoundState) -> str | None:
        """Return why what a member calls the state is none of this training."""
        try:
            notes = read_as(dict(state.notes), _Notes)
            arrays = {name: array.shape for name, array in state.arrays.items()}
            if not self._is_own(notes.plan) or arrays != (
                notes.plan.state_layout if state.round else {}
            ):
                return "its state is of another training"
        except msgspec.ValidationError:
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
        means = {name: total.arrays[name] / most for name in plan.arrays}
        notes = dict(state.notes)
        stops = False
        if state.round == 0:
            arrays = {**means, **self._begun(plan, means)}
        else:
            arrays = self._following(plan, state, total, means)
            notes["losses"] = [*notes["losses"], float(total.arrays[LOSS]) / most]
            if plan.follows_best:
                stops = _follow_best(plan, state, total, arrays, notes)
            if plan.dp_param.need_dp:
                count = len(total.counted)
                notes["epsilon"] = spent(state.round, plan.dp_param, members=count)
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise Diverged(iteration=state.round, reason="a mean of the weights is not finite")
        notes["converged"] = _converged(plan, notes["losses"])
        ended = stops or notes["converged"] or state.round == plan.rounds
        if ended and notes["best_loss"] is not None:
            arrays |= {name: arrays[_best(name)] for name in plan.arrays}
        after = RoundState(round=state.round + 1, arrays=arrays, notes=notes, ended=ended)
        if self._took is not None:
            self._took(after)
        return after

    def _begun(self, plan: TrainingPlan, means: Arrays) -> dict[str, Floats]:
        """Return what a state has beside the network, before the first training."""
        best = {_best(name): array.copy() for name, array in means.items()}
        memory = strategy_of(plan.strategy).memory(length_of(plan.moved))
        kept = {f"{_MEMORY}{name}": value for name, value in memory.items()}
        return {**(best if plan.follows_best else {}), **kept}

    def _following(
        self, plan: TrainingPlan, state: RoundState, total: Total, means: Arrays
    ) -> dict[str, Floats]:
        """Return the next network, and what the strategy remembers."""
        moved = plan.moved
        singles = []
        if self.needs_singles:
            for site, rows in total.counted.items():
                weight = rows if plan.weighted else 1
                singles.append(_vector(total.singles[site], moved) / weight)
        memory = {
            name.removeprefix(_MEMORY): array
            for name, array in state.arrays.items()
            if name.startswith(_MEMORY)
        }
        strategy = strategy_of(plan.strategy)
        before, mean = _vector(state.arrays, moved), _vector(means, moved)
        after, kept = strategy.following(before, mean, memory, singles)
        remembered = {f"{_MEMORY}{name}": value for name, value in kept.items()}
        return {**means, **unpack(after, moved), **remembered}


def _vector(arrays: Arrays, layout: Layout) -> Floats:
    """Return the arrays of a layout as one vector."""
    return np.concatenate([*(arrays[name].reshape(-1) for name in layout), np.empty(0)])


def _private(
    before: Arrays, after: Arrays, plan: TrainingPlan, *, members: int
) -> dict[str, Floats]:
    """Return arrays whose update from `before` is clipped and has noise."""
    layout = {name.removeprefix(_PREFIX): shape for name, shape in plan.moved.items()}
    vectors = (_vector(before, layout), _vector(after, layout))
    return unpack(private(*vectors, plan.dp_param, members=members), layout)


def _follow_best(
    plan: TrainingPlan,
    state: RoundState,
    total: Total,
    arrays: dict[str, Floats],
    notes: dict[str, Any],
) -> bool:
    """Keep the best network so far; tell whether nothing gets better any more.

    Losses are those of the network before the round. Without validation rows nothing is measured.
    """
    rows, summed = total.arrays[VALIDATED]
    validated = float(summed / rows) if rows > 0 else None
    notes["validated"] = [*notes["validated"], validated]
    if validated is None:
        arrays |= {_best(name): state.arrays[_best(name)] for name in plan.arrays}
        return False
    kept, told, stops = follow_best(
        state,
        current={_best(name): state.arrays[name] for name in plan.arrays},
        measured=validated,
        number=state.round - 2,
        patience=plan.patience,
    )
    arrays |= kept
    notes |= told
    return stops


def _best(name: str) -> str:
    """Return the name of the best round's array, for one of the network."""
    return f"{_BEST}{name.removeprefix(_PREFIX)}"


class _Notes(msgspec.Struct, frozen=True, kw_only=True):
    """The notes of a state, as they must be."""

    plan: TrainingPlan
    classes: list[int | float | str | bool]
    losses: list[float]
    converged: bool
    validated: list[float | None]
    best_round: int
    best_loss: float | None


def _first_notes(plan: TrainingPlan) -> dict[str, Any]:
    return {
        "plan": msgspec.to_builtins(plan),
        "losses": [],
        "converged": False,
        "validated": [],
        "best_round": -1,
        "best_loss": None,
    }


def numbers_in(state: RoundState, plan: TrainingPlan) -> dict[str, Floats]:
    """Return the network's arrays. Raises: CodecError: the state has others."""
    found = {name: one for name, one in state.arrays.items() if name.startswith(_PREFIX)}
    if {name: array.shape for name, array in found.items()} != plan.arrays:
        raise CodecError(reason="the arbiter's state is of another network")
    return {name.removeprefix(_PREFIX): array for name, array in found.items()}


def losses_in(state: RoundState) -> list[float]:
    """Return the mean loss of every round of training. Raises: CodecError: they are none."""
    losses = state.notes.get("losses")
    if not isinstance(losses, list) or not all(type(one) in {int, float} for one in losses):
        raise CodecError(reason="the arbiter's losses are no numbers")
    return [float(one) for one in losses]


def _converged(plan: TrainingPlan, losses: Sequence[float]) -> bool:
    """Tell whether training may stop, as `early_stop` says. Source: FATE's convergence rules."""
    if not losses or plan.early_stop is None:
        return False
    if plan.early_stop == "abs":
        return losses[-1] <= plan.tol
    return len(losses) > 1 and abs(losses[-1] - losses[-2]) < plan.tol
