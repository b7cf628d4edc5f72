"""HomoLR as rounds: what the state holds, what the arbiter makes of sums, what a party contributes.

Arrays of a state: `weights`, classes x columns (one row for two classes), the intercept last;
`best`, the same of the round with the least loss, if that is wanted; `memory.<name>` of the
strategy. A contribution has `weights` and `loss` times the rows, and `validated`: validation rows,
and their summed loss.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.horizontal.best import follow_best
from fedflow.components.horizontal.labels import common_classes
from fedflow.components.horizontal.local_sgd import LocalTraining, fits_intercept, log_odds
from fedflow.components.horizontal.lr_params import HomoLRParams
from fedflow.components.horizontal.packing import Floats, Layout
from fedflow.components.horizontal.privacy import private, spent
from fedflow.components.horizontal.rounds import Newcomer, RoundState, Total, means, weighted
from fedflow.components.horizontal.strategies import Strategy, strategy_of
from fedflow.components.linear.optimizer import initial_weights
from fedflow.components.training.plan import Plan
from fedflow.sdk import BadData, CodecError, Diverged, GroupDiffers, Role, Site
from fedflow.sdk.decoding import read_as

MOST_COLUMNS: Final = 10_000_000
_ALIKE: Final = {
    "columns": "the names or the order of the columns",
    "model": "the model to go on from",
}  #: what a newcomer says of itself that must be equal at all, and in words

Record = Callable[[int, Sequence[float | None]], None]


def digest_of(value: Any) -> str:
    """Return a name of plain JSON (SHA-256)."""
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def first_state(
    params: HomoLRParams,
    *,
    weights: Floats,
    classes: Sequence[Any],
    columns: str,
    model: str = "",
    start: int = 0,
) -> RoundState:
    """Return the state before the first round.

    Args:
        columns: digest of the columns' names in order.
        model: digest of the model that training goes on from; empty: none.
        start: epochs that it has had.
    """
    arrays = {"weights": weights}
    if keeps_best(params):
        arrays["best"] = weights.copy()
    memory = strategy_of(params.strategy).memory(weights.size)
    arrays |= {f"memory.{name}": value for name, value in memory.items()}
    notes = {
        "classes": list(classes),
        "columns": columns,
        "model": model,
        "start": start,
        "losses": [],
        "converged": [False] * len(weights),
        "validated": [],
        "best_round": -1,
        "best_loss": None,
    }
    return RoundState(round=0, arrays=arrays, notes=notes)


class _Notes(msgspec.Struct, frozen=True, kw_only=True):
    """The notes of a state, as they must be."""

    classes: list[int | float | str | bool]
    columns: str
    model: str
    start: Annotated[int, msgspec.Meta(ge=0)]
    losses: list[list[float | None]]
    converged: list[bool]
    validated: list[float | None]
    best_round: int
    best_loss: float | None


def _told(newcomer: Newcomer, name: str) -> str:
    """Return in short what a newcomer said; it may have said anything."""
    digest = str(newcomer.about.get(name))[:8] or "none"
    count = newcomer.about.get("count")
    if name != "columns" or type(count) is not int or not 1 <= count <= MOST_COLUMNS:
        return digest
    return f"{count} columns ({digest})"


def keeps_best(params: HomoLRParams) -> bool:
    """Tell whether the weights of the best round are kept."""
    return params.keep_best or params.callbacks.early_stopping_rounds is not None


class Averaging:
    """The arbiter's half. Satisfies `rounds.Combiner`."""

    def __init__(self, params: HomoLRParams, plan: Plan, *, record: Record) -> None:
        """`record` is given the mean loss of each class after every round (None: it has ended)."""
        self._params = params
        self._plan = plan
        self._strategy: Strategy = strategy_of(params.strategy)
        self._record = record
        self.needs_singles = self._strategy.needs_singles

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        """Return why a member does not fit to the training."""
        about, notes = newcomer.about, state.notes
        if about.get("columns") != notes["columns"]:
            return "it has other columns, or in another order"
        if about.get("model", "") != notes["model"]:
            return "it goes on from another model"
        found = about.get("classes")
        if not isinstance(found, list) or any(one not in notes["classes"] for one in found):
            return "it has labels that the training does not know"
        if self._params.dp_param.need_dp and newcomer.rows != 1:
            return "it does not want differential privacy"
        return None

    def mistake(self, state: RoundState) -> str | None:
        """Return why a state is none of this training."""
        known = first_state(self._params, weights=np.zeros((1, 1)), classes=(), columns="")
        if set(known.arrays) != set(state.arrays):
            return "its state is of another training"
        try:
            notes = read_as(dict(state.notes), _Notes)
        except msgspec.ValidationError as exc:
            return f"its state is of another training ({exc})"
        rows = _rows_for(notes.classes)
        shape = state.arrays["weights"].shape
        same = all(a.shape == shape for n, a in state.arrays.items() if n in {"weights", "best"})
        if len(shape) != 2 or shape[0] != rows or not same:
            return "its state has weights of another shape"
        if any(a.size != math.prod(shape) for a in state.arrays.values()):
            return "its state has a memory of another size"
        if len(notes.converged) != rows or any(len(one) != rows for one in notes.losses):
            return "its state has losses of other classes"
        return None

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        """Return the first weights.

        Raises: BadData: a member has no possible number of columns.
            GroupDiffers: columns, models or labels differ; the guest's are the right ones.
        """
        first_site, first = min(newcomers.items(), key=lambda item: item[0].role is not Role.GUEST)
        for site, one in newcomers.items():
            for name, meant in _ALIKE.items():
                if one.about.get(name) != first.about.get(name):
                    raise GroupDiffers(
                        site=site,
                        first=first_site,
                        path=meant,
                        value=_told(one, name),
                        other=_told(first, name),
                    )
        classes = common_classes(newcomers)
        count = first.about.get("count")
        if type(count) is not int or not 1 <= count <= MOST_COLUMNS:
            raise BadData(where=f"{first_site}'s data", reason="has no possible number of columns")
        size = count + fits_intercept(self._params)
        rows = _rows_for(classes)
        weights = np.stack([initial_weights(self._params.init_param, size) for _ in range(rows)])
        columns = str(first.about.get("columns"))
        return first_state(self._params, weights=weights, classes=classes, columns=columns)

    def layout(self, state: RoundState) -> Layout:
        """Return what a party contributes."""
        shape = state.arrays["weights"].shape
        return {"weights": shape, "loss": (shape[0],), "validated": (2,)}

    def combine(self, state: RoundState, total: Total) -> RoundState:
        """Return the next weights. Raises: Diverged; ValueError: the sum cannot be right."""
        before = state.arrays["weights"]
        after, memory = self._following(state, total)
        if not np.isfinite(after).all():
            raise Diverged(iteration=state.round, reason="the mean of the weights is not finite")
        losses = total.arrays["loss"] / total.rows
        if (losses < 0).any():
            raise ValueError("the losses in the sum are below 0")
        done = np.array(state.notes["converged"], dtype=bool)
        after = np.where(done[:, None], before, after)
        known = [None if ended else float(loss) for ended, loss in zip(done, losses, strict=True)]
        self._record(state.round, known)
        notes = {
            **state.notes,
            "losses": [*state.notes["losses"], known],
            "converged": self._converged(state.notes, known),
        }
        arrays = {"weights": after, **memory}
        stops = self._follow_best(state, total, known, arrays, notes)
        if self._params.dp_param.need_dp:
            notes["epsilon"] = self._spent(state, total)
        number = state.round + 1
        ended = stops or number >= self._params.rounds or all(notes["converged"])
        if ended and "best" in arrays and notes["best_round"] >= 0:
            arrays["weights"] = arrays["best"]
        return RoundState(round=number, arrays=arrays, notes=notes, ended=ended)

    def _following(self, state: RoundState, total: Total) -> tuple[Floats, dict[str, Floats]]:
        before = state.arrays["weights"]
        singles = []
        if self.needs_singles:
            for site, rows in total.counted.items():
                singles.append(total.singles[site]["weights"].reshape(-1) / rows)
        memory = {
            name.removeprefix("memory."): value
            for name, value in state.arrays.items()
            if name.startswith("memory.")
        }
        mean = means(total)["weights"].reshape(-1)
        after, kept = self._strategy.following(before.reshape(-1), mean, memory, singles)
        named = {f"memory.{name}": value for name, value in kept.items()}
        return after.reshape(before.shape), named

    def _converged(self, notes: Mapping[str, Any], losses: Sequence[float | None]) -> list[bool]:
        previous = notes["losses"][-1] if notes["losses"] else [None] * len(losses)
        found = []
        for was, loss, before in zip(notes["converged"], losses, previous, strict=True):
            now = False
            if loss is not None and self._params.stop_kind == "abs":
                now = loss <= self._params.tol
            elif loss is not None and before is not None and self._params.stop_kind == "diff":
                now = abs(loss - before) < self._params.tol
            found.append(bool(was or now))
        return found

    def _follow_best(
        self,
        state: RoundState,
        total: Total,
        losses: Sequence[float | None],
        arrays: dict[str, Floats],
        notes: dict[str, Any],
    ) -> bool:
        """Keep the weights of the best round so far; tell whether nothing gets better any more.

        Losses are those of the weights before the round, which are those of the round before.
        """
        rows, summed = total.arrays["validated"]
        validated = float(summed / rows) if rows > 0 else None
        notes["validated"] = [*state.notes["validated"], validated]
        if "best" not in state.arrays:
            return False
        known = [loss for loss in losses if loss is not None]
        patience = self._plan.patience
        kept, told, stops = follow_best(
            state,
            current={"best": state.arrays["weights"]},
            measured=validated if validated is not None else math.fsum(known),
            number=state.round - 1,
            patience=None if patience is None else patience * (self._plan.every or 1),
        )
        arrays |= kept
        notes |= told
        return stops

    def _spent(self, state: RoundState, total: Total) -> float:
        return spent(state.round + 1, self._params.dp_param, members=len(total.counted))


class Contributing:
    """A party's half. Satisfies `rounds.Worker`."""

    def __init__(
        self,
        params: HomoLRParams,
        training: LocalTraining,
        *,
        newcomer: Newcomer,
        validated: LocalTraining | None,
        targets_for: Callable[[Sequence[Any]], None],
        took: Callable[[RoundState], None],
        record: Callable[[int, Floats], None],
    ) -> None:
        """Take the party's rows.

        Args:
            targets_for: gives the trainings the targets of the classes of all parties.
            took: what happens with every state.
            record: is given the losses of each epoch, by class.
        """
        self.newcomer = newcomer
        self._params = params
        self._training = training
        self._validated = validated
        self._targets_for = targets_for
        self._took = took
        self._record = record
        self._strategy = strategy_of(params.strategy)
        self._knows_classes = False

    def took(self, state: RoundState) -> None:
        """See a state. Raises: CodecError: it does not fit to this party's columns."""
        weights, classes = state.arrays.get("weights"), state.notes.get("classes")
        count = int(self.newcomer.about["count"]) + fits_intercept(self._params)
        if not isinstance(classes, list) or len(classes) < 2:
            raise CodecError(reason="the state names no classes")
        if weights is None or weights.shape != (_rows_for(classes), count):
            raise CodecError(reason="the state has weights of another shape")
        if not self._knows_classes:
            self._targets_for(classes)
            self._knows_classes = True
        self._took(state)

    def work(self, state: RoundState, members: Sequence[Site]) -> Mapping[str, NDArray[Any]]:
        """Return the weights and the loss after the epochs of a round."""
        params, before = self._params, state.arrays["weights"]
        start = before
        warm = bool(state.notes["model"])
        zeros = params.init_param.init_method.lower() == "zeros"
        if state.round == 0 and zeros and not warm and fits_intercept(params):
            start = before.copy()
            start[:, -1] = log_odds(self._training.targets)
        after, history = self._training.train(
            start,
            epochs=params.epochs_of(state.round),
            done=state.round * params.aggregate_iters,
            proximal=self._strategy.proximal,
        )
        for number, losses in enumerate(history):
            self._record(state.round * params.aggregate_iters + number, losses)
        if params.dp_param.need_dp:
            after = private(before, after, params.dp_param, members=len(members))
        loss = np.mean(history, axis=0)
        found = weighted({"weights": after, "loss": loss}, self.newcomer.rows)
        return {**found, "validated": self._validate(before)}

    def _validate(self, weights: Floats) -> Floats:
        """Return the validation rows, and the sum of their losses, for the weights given."""
        if self._validated is None:
            return np.zeros(2)
        rows = self._validated.targets.shape[1]
        return np.array([rows, rows * float(self._validated.losses(weights).sum())])


def _rows_for(classes: Sequence[Any]) -> int:
    """Return how many models there are."""
    return len(classes) if len(classes) > 2 else 1
