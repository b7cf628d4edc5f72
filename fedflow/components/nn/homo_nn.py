"""HomoNN: a neural network over rows of several parties."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.horizontal.driving import rules_of, run_aggregator, run_member
from fedflow.components.horizontal.labels import CLASSES, warn_of_missing
from fedflow.components.horizontal.messages import MESSAGES
from fedflow.components.horizontal.privacy import record_budget
from fedflow.components.horizontal.rounds import HISTORY, RoundRules, RoundState
from fedflow.components.horizontal.strategies import strategy_of
from fedflow.components.nn.folder import made, own_class
from fedflow.components.nn.params import HomoNNParams
from fedflow.components.nn.predicting import (
    OutputMeaning,
    Scored,
    measure,
    read_targets,
    write_scored,
)
from fedflow.components.nn.rounds import (
    AveragingCombiner,
    AveragingMember,
    TrainingPlan,
    losses_in,
    numbers_in,
)
from fedflow.components.nn.states import averaged
from fedflow.components.nn.stored import (
    TrainedNetwork,
    best_epoch,
    state_in,
    stored_network,
    with_state,
)
from fedflow.components.samples.agreement import digest_of
from fedflow.components.samples.decoding import Instances, read_instances
from fedflow.components.samples.labels import read_labels
from fedflow.components.training.measures import record_loss, record_start
from fedflow.components.training.plan import save_step
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    ExtraMissing,
    Outputs,
    Role,
    Table,
    component,
)
from fedflow.sdk.errors import CodecError

if TYPE_CHECKING:
    from fedflow.components.nn.learner import Examples, NetworkLearner

Floats = NDArray[np.float64]


@component(
    "HomoNN",
    roles=("guest", "host", "arbiter"),
    params=HomoNNParams,
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    absence="rounds",
    messages=MESSAGES,
)
class HomoNN:
    """Trains a PyTorch network on the rows of all parties by federated averaging, or predicts.

    Guest and hosts have the same columns and labels; they need the extra `nn` of fedflow. Each
    trains on its own rows for `aggregate_every_n_epoch` epochs, then the arbiter averages what all
    have, by rows, and all go on from the mean. What a party sends is masked: the arbiter learns the
    mean alone, and the mean loss. The optimizer's state stays at the party. After the last round
    all have the same network.

    Layers, losses and optimizers are those of PyTorch that `nn/definition.py` lists. Labels are 0
    and 1, class numbers from 0, or numbers; the loss, or `task_type`, tells which. Each party
    predicts its own rows. Outputs of a `Sigmoid` or `Softmax`, or of a network with `BCELoss`, are
    probabilities; others are made such. With a last layer and a loss of one's own, all outputs
    between 0 and 1 are.

    With a model beside `train_data` training goes on with its numbers, for `epochs` more, with a
    new optimizer. A repeated attempt goes on from a checkpoint, too. Own models, losses,
    data sets and trainers are classes in the folder `executor.nn_folder` of its server, see
    `nn/folder.py`. A party without it refuses a conf that names one.

    `strategy` and `dp_param` are HomoLR's, see docs/horizontal.md. With `keep_best` or
    `early_stopping_rounds` each round measures the network before it, by the loss of the
    `validate_data` of all parties.

    Model: `HomoNNMeta`, `HomoNNParam` (`model_bytes`: arrays, no pickle). Summary: `loss_history`,
    `best_epoch`, `need_stop`, `metrics_summary`, `rounds`, `validated`, `epsilon`. Metrics: `train`
    / `loss`, the mean of all; `train` or `validate` / `iteration_<n>` of the own rows with
    `validation_freqs`; `train` / `epsilon`. Elastic: a lost party is left out of a round, and joins
    the next one after its return.

    Unlike FATE: the last round may have fewer epochs, so no epoch is without aggregation.
    Convergence is of the mean loss. There are no CUDA, deepspeed and `server_init`.
    """

    def run(self, ctx: Context) -> Outputs:
        """Train if `train_data` is connected, else predict `test_data` with the model given.

        Raises: ExtraMissing: PyTorch is not installed at this party. BadData, BadParameter,
            CodecError, Diverged, PeerFailed, TooFewParties.
        """
        training = "train_data" in ctx.inputs.data
        if ctx.site.role is Role.ARBITER:
            return _lead(ctx) if training else Outputs()
        if importlib.util.find_spec("torch") is None:
            raise ExtraMissing(what="HomoNN", package="PyTorch")
        return _Run(ctx).train() if training else _predict(ctx)


def _lead(ctx: Context) -> Outputs:
    params: HomoNNParams = ctx.params
    recorded = 0

    def show(state: RoundState) -> None:
        nonlocal recorded
        losses = losses_in(state)
        for number in range(recorded, len(losses)):
            record_loss(ctx, number, losses[number])
        recorded = len(losses)
        if "epsilon" in state.notes:
            record_budget(ctx, state.round - 2, state.notes["epsilon"])
        ctx.tracker.progress(min(1.0, state.round / (params.trainer.fedavg.rounds + 1)))

    combiner = AveragingCombiner(show, strategy=params.strategy, dp_param=params.dp_param)
    if combiner.needs_singles:
        ctx.log.warning("the strategy looks at each party's weights: they are not masked")
    state = run_aggregator(ctx, combiner, rules=_rules(ctx))
    return Outputs(summary=_told(state))


def _told(state: RoundState) -> dict[str, Any]:
    """Return what summaries have of the rounds at all sites."""
    told = {"loss_history": losses_in(state), "rounds": state.notes.get(HISTORY, [])}
    for name in ("epsilon", "validated"):
        if state.notes.get(name):
            told[name] = state.notes[name]
    return told


def _predict(ctx: Context) -> Outputs:
    stored = stored_network(ctx)
    table = ctx.inputs.first("test_data", "eval_data")
    if stored is None:
        raise BadParameter(path="input.model", reason="test_data needs a trained model")
    if table is None:
        raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
    meaning = stored.meaning
    rows = _Rows(ctx, table, header=stored.header, meaning=meaning, kind="predict")
    learner = _learner(ctx, stored)
    return Outputs(data=(write_scored(ctx, [rows.scored(learner)], task=stored.task),))


class _Rows:
    """One data set of this party."""

    def __init__(
        self,
        ctx: Context,
        table: Table,
        *,
        header: tuple[str, ...] | None,
        meaning: OutputMeaning,
        kind: str,
    ) -> None:
        from fedflow.components.nn.learner import examples_of, examples_of_own

        self.kind = kind
        self.meaning = meaning
        self.task = task = meaning.task
        self.data: Instances = read_instances(table, columns=header)
        labeled = self.data.labels is not None and kind != "predict"
        labels = read_targets(self.data, task=task) if labeled else None
        dataset = ctx.params.dataset
        self.examples: Examples
        if dataset.own is None:
            self.examples = examples_of(self.data.features, labels, task=task)
            return
        where = "dataset.dataset_name"
        made_of = made(
            own_class(_folder(ctx), "datasets", dataset.own, path=where), dataset.param, path=where
        )
        made_of.load(table)
        self.examples = examples_of_own(made_of, count=table.count, labeled=labeled)

    def scored(self, learner: NetworkLearner) -> Scored:
        """Return what the network says of them."""
        values = self.meaning.read(learner.scores(self.examples.features))
        return Scored(kind=self.kind, data=self.data, values=values)


class _Run:
    """A training at guest or host."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        params: HomoNNParams = ctx.params
        self._given = params.trainer.fedavg
        stored = stored_network(ctx)
        self._begun = stored.epochs if stored else 0
        define = params.nn_define or (stored.define if stored else None)
        loss = params.loss or (stored.loss if stored else None)
        if define is None or loss is None or params.optimizer is None:
            raise BadParameter(path="nn_define", reason="layers, loss and optimizer are needed")
        self._params = replace_params(params, define=define, loss=loss)
        given = self._params
        self._meaning = OutputMeaning.of(given.layers, given.loss_function, task=given.task)
        header = stored.header if stored else None
        self._sets = [self._rows("train", header, "train_data")]
        if ctx.inputs.first("validate_data", "eval_data") is not None:
            header = self._sets[0].data.columns
            self._sets.append(self._rows("validate", header, "validate_data", "eval_data"))
        self._learner = _learner(ctx, stored, self._params)
        self._plan = self._planned()
        self._labels = self._own_labels()
        self._knows_classes = False
        self._recorded = 0
        self._saved = -1  #: round of the last checkpoint
        self._measures: dict[str, dict[str, list[float]]] = {}

    def train(self) -> Outputs:
        """Take part in the rounds, and return model and predictions."""
        ctx = self._ctx
        record_start(ctx, self._begun)
        member = AveragingMember(
            self._plan,
            rows=1 if self._params.dp_param.need_dp else self._sets[0].data.rows,
            classes=self._labels,
            validate=self._validate,
            first=lambda: averaged(self._learner.states),
            train=self._train,
            took=self._took,
        )
        begun = self._checkpoint()
        self._saved = -1 if begun is None else begun.round
        state = run_member(ctx, member, rules=_rules(ctx), state=begun)
        losses = losses_in(state)
        self._load(state)
        network = self._network(state)
        best = best_epoch(losses, begun=self._begun, every=self._plan.every)
        if self._plan.follows_best:
            best = self._epochs(state.notes["best_round"] + 1) - 1
        scored = [rows.scored(self._learner) for rows in self._sets]
        return Outputs(
            data=(write_scored(ctx, scored, task=network.task),),
            model=network.to_model(self._params, best=best),
            summary={
                **_told(state),
                "best_epoch": best,
                "need_stop": network.converged,
                "metrics_summary": self._measures,
            },
        )

    def _train(
        self, means: Mapping[str, Floats], round_: int
    ) -> tuple[Mapping[str, Floats], float]:
        self._take(means)
        given = self._given
        loss = self._learner.train(
            self._sets[0].examples,
            epochs=self._plan.epochs_of(round_),
            batch_size=given.batch_size,
            shuffle=given.shuffle,
            round_=round_,
            proximal=strategy_of(self._params.strategy).proximal,
        )
        return averaged(self._learner.states), loss

    def _own_labels(self) -> list[Any]:
        """Return the labels of the own rows; none if they are numbers, or of an own data set."""
        if self._params.task == "regression" or self._params.dataset.own is not None:
            return []
        table = self._sets[0].data.table
        return sorted(read_labels(table, needed_by="training").unique().to_pylist())

    def _validate(self, means: Mapping[str, Floats]) -> tuple[int, float]:
        """Return the validation rows, and their mean loss by these numbers."""
        rows = next((r for r in self._sets[1:] if r.examples.labels is not None), None)
        if rows is None:
            return 0, 0.0
        self._take(means)
        return len(rows.examples.features), self._learner.loss_of(rows.examples)

    def _took(self, state: RoundState) -> None:
        """Record what a state says, measure it and store a checkpoint if it is time."""
        if not self._knows_classes:
            self._knows_classes = True
            warn_of_missing(self._ctx, self._labels, state.notes.get(CLASSES, ()))
        losses = losses_in(state)
        for number in range(self._recorded, len(losses)):
            record_loss(self._ctx, self._epochs(number + 1) - 1, losses[number])
        new = len(losses) > self._recorded
        self._recorded = len(losses)
        self._ctx.tracker.progress(min(1.0, state.round / (self._plan.rounds + 1)))
        if not new:
            return
        epochs = self._epochs(len(losses))
        if _due(self._given.validation_freqs, epochs, self._plan.every):
            self._load(state)
            self._measure(epochs - 1)
        due = _due(self._given.checkpoint_save_freqs, epochs, self._plan.every)
        if due and state.round > self._saved:
            self._saved = state.round
            self._load(state)
            model = self._network(state).to_model(self._params, best=-1)
            save_step(self._ctx, state.round, with_state(model, state))

    def _measure(self, epoch: int) -> None:
        for rows in self._sets:
            if rows.data.labels is None:
                continue
            name = f"iteration_{epoch}"
            found = measure(self._ctx, rows.scored(self._learner), task=rows.task, name=name)
            kept = self._measures.setdefault(rows.kind, {})
            for measured, value in found.items():
                kept.setdefault(measured, []).append(value)

    def _checkpoint(self) -> RoundState | None:
        """Return the state of the latest checkpoint that fits, if an attempt left one."""
        step = self._ctx.checkpoints.latest() if self._ctx.task_version else None
        if step is None:
            return None
        state = state_in(step.model)
        numbers_in(state, self._plan)
        self._ctx.log.info("there is a checkpoint after round %s", state.round)
        return state

    def _load(self, state: RoundState) -> None:
        self._take(numbers_in(state, self._plan))

    def _take(self, means: Mapping[str, Floats]) -> None:
        try:
            self._learner.load(means)
        except ValueError as exc:
            raise CodecError(reason=f"the arbiter's state: {exc}") from exc

    def _epochs(self, rounds: int) -> int:
        """Return how many epochs so many rounds are, those of the loaded model included."""
        return self._begun + min(rounds * self._plan.every, self._plan.epochs)

    def _network(self, state: RoundState) -> TrainedNetwork:
        losses = losses_in(state)
        return TrainedNetwork(
            define=self._params.nn_define or {},
            loss=self._params.loss or {},
            task=self._params.task,
            header=self._sets[0].data.columns,
            epochs=self._epochs(len(losses)),
            losses=tuple(losses),
            converged=bool(state.notes.get("converged")),
            states=self._learner.states,
        )

    def _planned(self) -> TrainingPlan:
        params, given = self._params, self._given
        about = [params.nn_define, params.loss, params.optimizer, params.torch_seed]
        states, learnt = self._learner.states, self._learner.learnt
        if params.dp_param.need_dp and set(learnt) != set(states):
            reason = "the network has numbers that are not trained, which would have no noise"
            raise BadParameter(path="dp_param.need_dp", reason=reason)
        return TrainingPlan(
            shapes={name: list(array.shape) for name, array in states.items()},
            definition=hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest(),
            columns=digest_of(self._sets[0].data.columns),
            rounds=given.rounds,
            begun=self._begun,
            every=given.every,
            epochs=given.epochs,
            weighted=given.weighted_aggregation and not params.dp_param.need_dp,
            learnt=learnt,
            strategy=params.strategy,
            dp_param=params.dp_param,
            follows_best=params.follows_best,
            patience=params.early_stopping_rounds,
            early_stop=given.early_stop and given.early_stop.lower(),
            tol=given.tol,
        )

    def _rows(self, kind: str, header: Sequence[str] | None, *ports: str) -> _Rows:
        table = self._ctx.inputs.first(*ports)
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {self._ctx.site}")
        columns = None if header is None else tuple(header)
        rows = _Rows(self._ctx, table, header=columns, meaning=self._meaning, kind=kind)
        if kind == "train" and rows.data.labels is None:
            raise BadData(where=f"table {table.namespace}.{table.name}", reason="it has no labels")
        return rows


def replace_params(
    params: HomoNNParams, *, define: Mapping[str, Any], loss: Mapping[str, Any]
) -> HomoNNParams:
    """Return parameters with the layers and the loss of a loaded model, where they have none."""
    import msgspec

    return msgspec.structs.replace(params, nn_define=dict(define), loss=dict(loss))


def _learner(
    ctx: Context, stored: TrainedNetwork | None, params: HomoNNParams | None = None
) -> NetworkLearner:
    """Return the network, with the stored numbers; with `params` it can be trained."""
    from fedflow.components.nn.learner import NetworkLearner, loss_function, network_of

    folder, seed = _folder(ctx), ctx.params.torch_seed
    layers = params.layers if params is not None else stored.layers if stored else ()
    network = network_of(layers, folder=folder, seed=seed)
    if params is None:
        learner = NetworkLearner(network)
    else:
        trainer = None
        if (own := params.trainer.own) is not None:
            path = "trainer.trainer_name"
            kind = own_class(folder, "trainers", own, path=path)
            trainer = made(kind, params.trainer.more, path=path).train
        learner = NetworkLearner(
            network,
            optimizer=params.optimizing,
            loss=loss_function(params.loss_function, folder=folder),
            seed=_seed_of(ctx, seed),
            trainer=trainer,
        )
    if stored is not None:
        try:
            learner.restore(stored.states)
        except ValueError as exc:
            raise BadData(where="the model input", reason=str(exc)) from exc
    return learner


def _seed_of(ctx: Context, seed: int) -> int:
    """Return the seed of a party's batches: another one at each."""
    digest = hashlib.sha256(f"{seed} {ctx.site.key}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def _folder(ctx: Context) -> Path | None:
    return ctx.nn_folder


def _rules(ctx: Context) -> RoundRules:
    secure = ctx.params.trainer.fedavg.secure_aggregate
    return rules_of(ctx, secure=secure)


def _due(every: int | None, epochs: int, step: int) -> bool:
    """Tell whether a multiple of `every` is among the last `step` epochs."""
    return every is not None and epochs // every > max(0, epochs - step) // every
