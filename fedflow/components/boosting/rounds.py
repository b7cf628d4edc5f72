"""The training of boosted trees at one party: round by round, a tree for each class or for all.

MESSAGES

`guest_tree` and `walking` list what is exchanged within a round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.bins import BinnedColumns
from fedflow.components.boosting.criterion import Gradients
from fedflow.components.boosting.guest_tree import GuestTree, TreeRows
from fedflow.components.boosting.host_grown import HostGrownTree
from fedflow.components.boosting.host_tree import HostTreeBuilder
from fedflow.components.boosting.losses import Loss
from fedflow.components.boosting.params import MIX, HeteroSecureBoostParams
from fedflow.components.boosting.tree_clock import TreeClock
from fedflow.components.boosting.trees import OWN, BoostedTree, HostTree
from fedflow.components.boosting.walking import add_scores, answer_guest, leaves_of
from fedflow.components.boosting.zeros import EncryptedZeros
from fedflow.components.evaluation.recorder import Recorder
from fedflow.components.training.measures import (
    record_loss,
    record_measures,
    record_seconds,
)
from fedflow.components.training.params import CallbackParam
from fedflow.components.training.part_seconds import PartSeconds
from fedflow.components.training.plan import Plan
from fedflow.components.training.watch import WatchState, watch_of
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, BadParameter, Context, Diverged, Role, Site
from fedflow.sdk.clock import monotonic_s
from fedflow.sdk.crypto.schemes import PrivateScheme, PublicScheme
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
stop_flag | settings | guest -> hosts | {converged, stop, best}: whether training ends; tag = round
""")

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

_LARGEST: Final = 1e140  #: gradient: gains have squares of sums
_GOSS: Final = 0  #: which rows a round draws; columns are drawn under the numbers from 1 on


@dataclass(frozen=True, kw_only=True, slots=True)
class BoostingProgress:
    """How far a training has come, without its trees."""

    rounds: int = 0
    converged: bool = False
    ended: bool = False
    losses: tuple[float, ...] = ()
    best: int = -1  #: the round whose trees are the last to keep; -1: all
    watch: WatchState = field(default_factory=WatchState)
    history: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class GuestRows:
    """One data set at the guest."""

    kind: str  #: train or validate
    features: Floats
    labels: Floats | None  #: numbers of classes, or numbers
    classes: NDArray[Any] | None = None  #: label values of the rows, of several classes
    weights: Floats | None = None


class GuestRounds:
    """Trains at the guest."""

    def __init__(
        self,
        ctx: Context,
        plan: Plan,
        *,
        parts: Sequence[GuestRows],
        loss: Loss,
        class_values: NDArray[Any] | None,
        key: PrivateScheme,
    ) -> None:
        """`parts` are the rows to train on, then others to measure."""
        params: HeteroSecureBoostParams = ctx.params
        self._ctx = ctx
        self._params = params
        self._plan = plan
        self._parts = parts
        self._loss = loss
        self._zeros = EncryptedZeros(key, ctx.workers)
        self._binned = BinnedColumns.of(parts[0].features, bins=params.bin_num)
        self._measures = _Measures(ctx, plan, loss=loss, class_values=class_values)
        self._scores: list[Floats] = []
        self._seconds = PartSeconds()
        self.trees: list[BoostedTree] = []
        self.init_score = np.zeros(loss.width)
        self._classes = params.classes_of_trees(loss.width)
        self.progress = BoostingProgress()

    @property
    def per_round(self) -> int:
        """Return how many trees a round has."""
        return len(self._classes)

    @property
    def scores(self) -> Sequence[Floats]:
        """Return the scores of all parts, rows x width."""
        return self._scores

    def begin(
        self, trees: Sequence[BoostedTree], progress: BoostingProgress, *, init_score: Floats | None
    ) -> None:
        """Begin, or go on from earlier trees and their first scores."""
        labels = self._labels
        self.init_score = self._loss.start(labels) if init_score is None else init_score
        self.trees = list(trees)
        self.progress = progress
        self._measures.restore(progress)
        self._score_anew("start")

    def run(self, save: Callable[[int], None]) -> None:
        """Train all rounds; `save` is called with those after which a checkpoint is due.

        Raises: Diverged, CodecError, PeerFailed, BadData.
        """
        try:
            self._run(save)
        finally:
            self._zeros.end()

    @property
    def _until(self) -> int:
        return self._plan.start + self._params.num_trees

    def _run(self, save: Callable[[int], None]) -> None:
        first, most, until = self.progress.rounds, self._params.num_trees, self._until
        for number in range(first, until):
            if self.progress.ended:
                break
            start_s = monotonic_s()
            self._round(number)
            with np.errstate(over="ignore", invalid="ignore"):
                loss = self._loss.value(self._labels, self._scores[0])
            if not np.isfinite(loss):
                raise Diverged(iteration=number, reason="the loss is not a finite number")
            record_loss(self._ctx, number, loss)
            converged = self._converged(loss)
            stop = self._measures.after(number, self._parts, self._scores) or converged
            self._tell(number, converged=converged, stop=stop or number + 1 == until)
            self.progress = replace(
                self._measures.into(self.progress),
                rounds=number + 1,
                converged=converged,
                ended=stop,
                losses=(*self.progress.losses, loss),
            )
            if self._plan.saves_after(number):
                save(number)
            self._ctx.tracker.progress((number + 1 - self._plan.start) / most)
            self._ctx.log.info("round %s of at most %s is done, loss %.6g", number + 1, until, loss)
            record_seconds(self._ctx, number, monotonic_s() - start_s, of=until)
            self._seconds.record(self._ctx, number)

    def keep_best(self) -> None:
        """Drop the trees after the best round, and compute the scores without them."""
        best = self.progress.best
        if best < 0 or (best + 1) * self.per_round >= len(self.trees):
            return
        self.trees = self.trees[: (best + 1) * self.per_round]
        self._score_anew("best")

    @property
    def _labels(self) -> Floats:
        labels = self._parts[0].labels
        assert labels is not None  # noqa: S101  # training rows have labels
        return labels

    def _round(self, number: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            first, second = self._loss.gradients(self._labels, self._scores[0])
            weights = self._parts[0].weights
            if weights is not None:
                first, second = first * weights[:, None], second * weights[:, None]
        if not all((np.abs(values) <= _LARGEST).all() for values in (first, second)):
            raise Diverged(iteration=number, reason="a gradient is too large, or no number")
        rows, factors = self._drawn_rows(number, first)
        first, second = first[rows] * factors, second[rows] * factors
        grown = []
        for place, own in enumerate(self._classes):
            of_tree = slice(own.start, own.stop)
            gradients = Gradients.of(first[:, of_tree], second[:, of_tree])
            tree, leaves = self._grow(number, place, gradients, rows)
            grown.append(tree)
            add_scores(self._scores[0], [tree], [leaves], learning_rate=self._params.learning_rate)
        self.trees += grown
        for place in range(1, len(self._parts)):
            self._add(place, grown, tag=f"{number}.{self._parts[place].kind}")

    def _grow(
        self, number: int, klass: int, gradients: Gradients, rows: Rows
    ) -> tuple[BoostedTree, NDArray[np.int32]]:
        columns = drawn_columns(self._ctx, self._binned, number=number, klass=klass)
        tag = f"{number}.{klass}"
        levels, grower = self._params.levels_of(number), OWN
        if self._params.strategy == MIX:
            grower = self._params.grower_of(number, hosts=len(self._hosts))
            hosts = range(levels.depth if grower else 0)
            guest = range(0 if grower else levels.depth)
            levels = replace(levels, hosts=hosts, guest=guest, host=grower)
        is_last = number + 1 == self._until and klass + 1 == self.per_round
        idle = [
            host
            for owner, host in enumerate(self._hosts, start=1)
            if not len(levels.hosts) or grower not in (OWN, owner)
        ]
        nothing = {"rows": 0, "bits": 0}
        self._ctx.federation.send("tree_plan", nothing, to=idle, tag=tag)
        clock = _clock_of(self._ctx, self._plan, number, klass, per_round=self.per_round)
        tree = (HostGrownTree if grower else GuestTree)(
            self._ctx,
            tag,
            binned=self._binned,
            given=TreeRows(
                gradients=gradients, rows=rows, columns=columns, is_followed=not is_last
            ),
            zeros=self._zeros,
            levels=levels,
            clock=clock,
        )
        with clock.tree():
            grown = tree.grow(klass)
        self._seconds.add(clock.parts)
        return grown

    def _drawn_rows(self, number: int, first: Floats) -> tuple[Rows, Floats]:
        """Return the rows that train the trees of a round, and what their gradients count (n x 1).

        Source: Ke et al. 2017 (LightGBM), gradient-based one-side sampling.
        """
        params, count = self._params, len(first)
        if not params.run_goss:
            return np.arange(count), np.ones((1, 1))
        top, other = int(count * params.top_rate), int(count * params.other_rate)
        if not top or not other:
            name = "top_rate" if not top else "other_rate"
            raise BadParameter(path=f"{self._ctx.component}.{name}", reason="no row is left")
        order = np.argsort(-np.abs(first).sum(axis=1), kind="stable")
        drawn = _draws(self._ctx, number, _GOSS).choice(order[top:], other, replace=False)
        factors = np.ones(count)
        factors[drawn] = (1.0 - params.top_rate) / params.other_rate
        rows = np.sort(np.concatenate((order[:top], drawn)))
        return rows, factors[rows, None]

    def _score_anew(self, tag: str) -> None:
        """Compute the scores of all parts from all trees."""
        self._scores = [np.tile(self.init_score, (len(part.features), 1)) for part in self._parts]
        if self.trees:
            for place, part in enumerate(self._parts):
                self._add(place, self.trees, tag=f"{tag}.{part.kind}")

    def _add(self, place: int, trees: Sequence[BoostedTree], *, tag: str) -> None:
        """Add some trees to the scores of a part."""
        features = self._parts[place].features
        leaves = leaves_of(self._ctx, trees, features, tag=tag)
        rate = self._params.learning_rate
        add_scores(self._scores[place], trees, leaves, learning_rate=rate)

    def _converged(self, loss: float) -> bool:
        losses = self.progress.losses
        return (
            self._params.n_iter_no_change
            and bool(losses)
            and abs(losses[-1] - loss) < self._params.tol
        )

    @property
    def _hosts(self) -> tuple[Site, ...]:
        return self._ctx.sites_of(Role.HOST)

    def _tell(self, number: int, *, converged: bool, stop: bool) -> None:
        flag = {"converged": converged, "stop": stop, "best": self._measures.best}
        self._ctx.federation.send("stop_flag", flag, to=self._hosts, tag=str(number))


class HostRounds:
    """Takes part in a training at a host."""

    def __init__(
        self,
        ctx: Context,
        plan: Plan,
        *,
        parts: Sequence[tuple[str, Floats]],
        classes: int,
        key: PublicScheme,
        depth: int,
    ) -> None:
        """`parts` are kinds and features of the rows to train on, then of others to measure.

        `depth` is that of the deepest tree, earlier ones with them.
        """
        params: HeteroSecureBoostParams = ctx.params
        self._ctx = ctx
        self._params = params
        self._plan = plan
        self._parts = parts
        self._classes = params.classes_of_trees(classes if classes > 2 else 1)
        self._key = key
        self._depth = depth
        self._binned = BinnedColumns.of(parts[0][1], bins=params.bin_num)
        self.trees: list[HostTree] = []
        self.progress = BoostingProgress()
        self._seconds = PartSeconds()

    @property
    def per_round(self) -> int:
        """Return how many trees a round has."""
        return len(self._classes)

    def begin(self, trees: Sequence[HostTree], progress: BoostingProgress) -> None:
        """Begin, or go on from earlier trees."""
        self.trees, self.progress = list(trees), progress
        if self.trees:
            for kind, part in self._parts:
                self._walk(self.trees, part, tag=f"start.{kind}")

    def run(self, save: Callable[[int], None]) -> None:
        """Take part in all rounds; as `GuestRounds.run`. Raises: CodecError, PeerFailed."""
        until = self._plan.start + self._params.num_trees
        for number in range(self.progress.rounds, until):
            if self.progress.ended:
                break
            start_s = monotonic_s()
            grown = [self._grow(number, place) for place in range(self.per_round)]
            self.trees += grown
            for kind, part in self._parts[1:]:
                self._walk(grown, part, tag=f"{number}.{kind}")
            converged, stop, best = self._flag(number, is_last=number + 1 == until)
            self.progress = replace(
                self.progress, rounds=number + 1, converged=converged, ended=stop, best=best
            )
            if self._plan.saves_after(number):
                save(number)
            self._ctx.tracker.progress((number + 1 - self._plan.start) / self._params.num_trees)
            record_seconds(
                self._ctx, number, monotonic_s() - start_s, of=until,
                loss_at=self._ctx.only(Role.GUEST),
            )  # fmt: skip
            self._seconds.record(self._ctx, number)

    def keep_best(self) -> None:
        """Drop the trees after the best round."""
        best = self.progress.best
        if best < 0 or (best + 1) * self.per_round >= len(self.trees):
            return
        self.trees = self.trees[: (best + 1) * self.per_round]
        for kind, part in self._parts:
            self._walk(self.trees, part, tag=f"best.{kind}")

    def _grow(self, number: int, klass: int) -> HostTree:
        columns = drawn_columns(self._ctx, self._binned, number=number, klass=klass)
        clock = _clock_of(self._ctx, self._plan, number, klass, per_round=self.per_round)
        builder = HostTreeBuilder(
            self._ctx,
            f"{number}.{klass}",
            binned=self._binned,
            columns=columns,
            key=self._key,
            classes=len(self._classes[klass]),
            clock=clock,
        )
        with clock.tree():
            tree = builder.build(klass)
        self._seconds.add(clock.parts)
        return tree

    def _walk(self, trees: Sequence[HostTree], features: Floats, *, tag: str) -> None:
        answer_guest(self._ctx, trees, features, depth=self._depth, tag=tag)

    def _flag(self, number: int, *, is_last: bool) -> tuple[bool, bool, int]:
        """Return whether training has converged, whether it stops, and the best round so far."""
        value = wait_for(self._ctx, "stop_flag", self._ctx.only(Role.GUEST), tag=str(number))
        flags = value if isinstance(value, dict) else {}
        converged, stop, best = flags.get("converged"), flags.get("stop"), flags.get("best")
        if type(converged) is not bool or type(stop) is not bool or type(best) is not int:
            raise CodecError(reason="stop_flag: not two flags and a round")
        if not -1 <= best <= number:
            raise CodecError(reason="stop_flag: no such round")
        if not stop and is_last:
            raise CodecError(reason="stop_flag: the guest goes on past num_trees")
        return converged, stop, best


class _Measures:
    """Measures the guest's scores between rounds, and decides when to stop early."""

    def __init__(
        self, ctx: Context, plan: Plan, *, loss: Loss, class_values: NDArray[Any] | None
    ) -> None:
        params: HeteroSecureBoostParams = ctx.params
        asked: CallbackParam = params.callbacks
        self._ctx = ctx
        self._plan = plan
        self._loss = loss
        self._class_values = class_values
        self.kind = "regression"
        if params.task != "regression":
            self.kind = "multi" if loss.width > 1 else "binary"
        chosen = asked.measures_of(self.kind) if plan.validates else []
        self._chosen = set(chosen)
        self._watch = watch_of(asked, chosen, self.kind, stops=plan.patience is not None)
        self._history: dict[str, dict[str, list[float]]] = {}

    @property
    def best(self) -> int:
        """Return the best round so far, -1 without early stopping."""
        return self._watch.best if self._plan.patience is not None else -1

    def restore(self, progress: BoostingProgress) -> None:
        """Go on from what a checkpoint kept."""
        self._watch.restore(progress.watch, best=progress.best)
        self._history = {
            part: {name: list(values) for name, values in measured.items()}
            for part, measured in progress.history.items()
        }

    def into(self, progress: BoostingProgress) -> BoostingProgress:
        """Return `progress` with what was measured."""
        return replace(progress, best=self.best, watch=self._watch.state(), history=self._history)

    def after(self, number: int, parts: Sequence[GuestRows], scores: Sequence[Floats]) -> bool:
        """Measure if it is due after round `number`; tell whether training stops early."""
        if not self._plan.validates_after(number):
            return False
        for part, own in zip(parts, scores, strict=True):
            if part.labels is not None:
                self._measure(number, part, own)
        if self._plan.patience is None:
            return False
        last = {n: values[-1] for n, values in self._history.get("validate", {}).items()}
        if not last:
            raise BadData(
                where=f"validate data of {self._ctx.component}",
                reason="the labels are missing or of one class, so EarlyStopping has nothing to"
                " look at",
            )
        stop = self._watch.stops(last, number, patience=self._plan.patience)
        if stop:
            self._ctx.log.info(
                "no better value in %s validations: training stops", self._plan.patience
            )
        return stop

    def _measure(self, number: int, part: GuestRows, scores: Floats) -> None:
        predicted: NDArray[Any] = self._loss.mean(scores)
        assert part.labels is not None  # noqa: S101  # only parts with labels are measured
        true: NDArray[Any] = part.labels
        if self.kind == "binary":
            true = true == 1.0
        elif part.classes is not None and self._class_values is not None:
            true, predicted = part.classes, self._class_values[predicted.argmax(axis=1)]
        recorder = Recorder(self._ctx, f"iteration_{number}", part.kind)
        values = record_measures(recorder, self.kind, self._chosen, true=true, predicted=predicted)
        if values:
            recorder.scalars(values)
        measured = self._history.setdefault(part.kind, {})
        for name, value in values.items():
            measured.setdefault(name, []).append(value)


def _clock_of(ctx: Context, plan: Plan, number: int, klass: int, *, per_round: int) -> TreeClock:
    """Return the clock of a tree."""
    return TreeClock(
        ctx,
        number * per_round + klass,
        first=plan.start * per_round,
        trees=ctx.params.num_trees * per_round,
        levels=ctx.params.levels.depth,
    )


def drawn_columns(ctx: Context, binned: BinnedColumns, *, number: int, klass: int) -> Sequence[int]:
    """Return the columns of this party that a tree may split, ascending."""
    count = len(binned.points)
    rate = ctx.params.subsample_feature_rate
    if rate >= 1.0 or not count:
        return range(count)
    chosen = max(1, int(count * rate))
    drawn = _draws(ctx, number, 1 + klass).choice(count, chosen, replace=False)
    return [int(column) for column in np.sort(drawn)]


def _draws(ctx: Context, number: int, what: int) -> np.random.Generator:
    """Return random numbers that depend on the seed, the party, the round and their use only."""
    if ctx.params.random_seed is None:
        return np.random.default_rng()
    party = int.from_bytes(ctx.site.key.encode(), "little")
    return np.random.default_rng([ctx.params.random_seed, party, number, what])
