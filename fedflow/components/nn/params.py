"""Parameters of HomoNN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, field

from fedflow.components.horizontal.privacy import DpParam
from fedflow.components.horizontal.strategies import StrategyParam, check_strategy
from fedflow.components.nn.definition import (
    BINARY_LOSSES,
    CLASS_LOSSES,
    NUMBER_LOSSES,
    Custom,
    Layer,
    Named,
    layers_of,
    loss_of,
    optimizer_of,
)
from fedflow.components.training.params import Positive, one_of
from fedflow.sdk import Doubt, Params, Role
from fedflow.sdk.decoding import read_as
from fedflow.sdk.params import PlannedRun
from fedflow.sdk.spellings import Flag

FEDAVG: Final = "fedavg_trainer"
TABLE: Final = "table"
TASKS: Final = ("auto", "binary", "multi", "regression")

_LABEL_TYPES: Final = (
    "auto",
    "int",
    "long",
    "float",
    "double",
    "int32",
    "int64",
    "float32",
    "float64",
)


class FedAvgParam(Params, frozen=True, kw_only=True):
    """`trainer.param` of fedavg_trainer; another trainer may have more."""

    epochs: Positive = 10  #: passes over the own rows
    batch_size: int = 512  #: rows of a step; -1: all
    secure_aggregate: Flag = True  #: false: the arbiter sees the model of every party
    weighted_aggregation: Flag = True  #: by rows; false: each party counts the same
    aggregate_every_n_epoch: Positive | None = None  #: epochs of a round; null: one
    early_stop: str | None = None  #: of the mean loss: `diff`, `abs` (below `tol`) or null
    tol: Annotated[float, Meta(ge=0)] = 1e-4  #: of `early_stop`
    cuda: Any = None  #: must be null or false: tasks compute on the processor
    pin_memory: Any = True  #: without effect
    shuffle: Flag = True  #: the own rows in a new order for each epoch, by `torch_seed`
    data_loader_worker: Any = 0  #: without effect
    validation_freqs: Positive | None = None  #: epochs between two measures of the model
    checkpoint_save_freqs: Positive | None = None  #: epochs between two checkpoints
    task_type: str = "auto"  #: `binary`, `multi`, `regression`; `auto`: the loss tells
    save_to_local_dir: Any = False  #: without effect: checkpoints are stored with the job

    def check(self) -> None:
        if self.batch_size != -1 and self.batch_size < 1:
            raise ValueError("batch_size: must be -1 or at least 1")
        one_of("task_type", self.task_type, TASKS)
        if self.early_stop is not None:
            one_of("early_stop", self.early_stop, ("diff", "abs"))
        if self.cuda is not None and self.cuda is not False:
            raise ValueError("cuda: tasks compute on the processor; leave it out")

    def doubts(self) -> Iterable[Doubt]:
        if self.data_loader_worker:
            yield Doubt("trainer.param.data_loader_worker", "rows are in memory")
        if self.save_to_local_dir:
            message = "nothing is written outside; checkpoint_save_freqs stores checkpoints"
            yield Doubt("trainer.param.save_to_local_dir", message)
        if not self.secure_aggregate:
            message = "the arbiter sees the model of every party after every round"
            yield Doubt("trainer.param.secure_aggregate", message, "Unmasked")

    @property
    def every(self) -> int:
        """Return how many epochs a round has."""
        return self.aggregate_every_n_epoch or 1

    @property
    def rounds(self) -> int:
        """Return how many rounds there are; the last may have fewer epochs."""
        return -(-self.epochs // self.every)


class TrainerParam(Params, frozen=True, kw_only=True):
    """How a party trains between two rounds."""

    #: `fedavg_trainer`, or a module in the folder `trainers`, see `executor.nn_folder`
    trainer_name: str | None = FEDAVG
    param: dict[str, Any] = field(default_factory=dict)  #: see `FedAvgParam`

    @property
    def own(self) -> Custom | None:
        """Return the party's own trainer. Raises: ValueError: it is no name."""
        return _own(
            self.trainer_name, FEDAVG, default_class="Trainer", where="trainer.trainer_name"
        )

    @property
    def fedavg(self) -> FedAvgParam:
        """Return what all trainers have. Raises: ValueError: `trainer.param...: <sentence>`."""
        known = set(FedAvgParam.__struct_fields__)
        given = self.param
        if self.own is not None:
            given = {name: value for name, value in given.items() if name in known}
        try:
            found = read_as(given, FedAvgParam)
            found.check()
        except msgspec.ValidationError as exc:
            raise ValueError(f"trainer.param: {exc}") from exc
        except ValueError as exc:
            raise ValueError(f"trainer.param.{exc}") from exc
        return found

    @property
    def more(self) -> Mapping[str, Any]:
        """Return the arguments of the party's own trainer."""
        known = set(FedAvgParam.__struct_fields__)
        return {name: value for name, value in self.param.items() if name not in known}


class DatasetParam(Params, frozen=True, kw_only=True):
    """What the network gets of a table."""

    #: `table`, or a module in the folder `datasets`, see `executor.nn_folder`
    dataset_name: str | None = TABLE
    #: of `table`: `label_dtype`, `feature_dtype`, `label_shape`, `flatten_label`, as in FATE, of
    #: which none changes anything: the loss tells what labels are; of others: their arguments
    param: dict[str, Any] = field(default_factory=dict)

    @property
    def own(self) -> Custom | None:
        """Return the party's own data set. Raises: ValueError: it is no name."""
        return _own(self.dataset_name, TABLE, default_class="Dataset", where="dataset.dataset_name")

    def check(self) -> None:
        if self.own is not None:
            return
        known = {"label_col", "label_dtype", "feature_dtype", "label_shape", "flatten_label"}
        if unknown := sorted(set(self.param) - known):
            raise ValueError(f"dataset.param.{unknown[0]}: the data set `table` has no such")
        for name in ("label_dtype", "feature_dtype"):
            one_of(f"dataset.param.{name}", str(self.param.get(name, "auto")), _LABEL_TYPES)
        if self.param.get("label_col") is not None:
            raise ValueError("dataset.param.label_col: the label is DataTransform's")


class HomoNNParams(Params, frozen=True, kw_only=True):
    """All parameters of HomoNN, with FATE's names and defaults."""

    trainer: TrainerParam = field(default_factory=TrainerParam)  #: how it is trained
    dataset: DatasetParam = field(default_factory=DatasetParam)  #: what it is trained on
    torch_seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 100  #: of first weights and batches
    #: the layers: {"0-0": {"layer": "Linear", ...}}; needed to train
    nn_define: dict[str, Any] | None = None
    loss: dict[str, Any] | None = None  #: {"loss_fn": "BCELoss"}; needed to train
    optimizer: dict[str, Any] | None = None  #: {"optimizer": "Adam", "lr": 0.01}; needed to train
    #: fedflow's own; keys are signed with the certificates of TLS; over 2/3 of a round's parties
    #: must stay to its end
    aggregator_may_lie: Flag = False
    strategy: StrategyParam = field(default_factory=StrategyParam)  #: table below
    dp_param: DpParam = field(default_factory=DpParam)  #: table below
    #: fedflow's own: the network is that of the round with the least loss of all parties'
    #: `validate_data`
    keep_best: Flag = False
    #: fedflow's own: rounds without a smaller loss of `validate_data` after which training stops,
    #: with the network of the best round
    early_stopping_rounds: Positive | None = None
    ds_config: Any = None  #: must be null: there is no deepspeed
    server_init: Flag = False  #: must be false: first weights come of `torch_seed`

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the layers. Raises: ValueError."""
        return layers_of(self.nn_define)

    @property
    def loss_function(self) -> Named:
        """Return the loss. Raises: ValueError."""
        return loss_of(self.loss)

    @property
    def optimizing(self) -> Named:
        """Return the optimizer. Raises: ValueError."""
        return optimizer_of(self.optimizer)

    @property
    def follows_best(self) -> bool:
        """Tell whether the network of the best round is kept."""
        return self.keep_best or self.early_stopping_rounds is not None

    @property
    def task(self) -> str:
        """Return `binary`, `multi` or `regression`. Raises: ValueError: nothing tells."""
        return task_of(self.trainer.fedavg.task_type, self.loss)

    def check(self) -> None:
        if self.ds_config is not None:
            raise ValueError("ds_config: there is no deepspeed; leave it out")
        if self.server_init:
            raise ValueError("server_init: first weights come of torch_seed at every party")
        self.dataset.check()
        given = self.trainer.fedavg
        check_strategy(self.strategy, self.dp_param, secure=given.secure_aggregate)
        if self.nn_define is not None:
            layers_of(self.nn_define)
        if self.optimizer is not None:
            optimizer_of(self.optimizer)
        if self.loss is not None:
            loss_of(self.loss)
            task_of(given.task_type, self.loss)

    def doubts(self) -> Iterable[Doubt]:
        yield from self.trainer.fedavg.doubts()
        if not self.trainer.fedavg.secure_aggregate and self.aggregator_may_lie:
            yield Doubt("aggregator_may_lie", "has no effect without secure_aggregate", "Unused")

    def check_run(self, run: PlannedRun) -> None:
        if "train_data" not in run.data_ports:
            return
        if len(run.sites_of(Role.ARBITER)) != 1:
            raise ValueError("role: one arbiter is needed, which adds up the models")
        if self.follows_best and not {"validate_data", "eval_data"} & set(run.data_ports):
            name = "keep_best" if self.keep_best else "early_stopping_rounds"
            raise ValueError(f"{name}: needs validate_data")
        for name in ("nn_define", "loss", "optimizer"):
            if getattr(self, name) is None and not run.has_model:
                raise ValueError(f"{name}: is needed to train")


def task_of(task_type: str, loss: Mapping[str, Any] | None) -> str:
    """Return the kind of task. Raises: ValueError: the parameter is `auto`, and no loss tells."""
    if task_type.lower() != "auto":
        return task_type.lower()
    name = (loss or {}).get("loss_fn")
    for kind, losses in (
        ("binary", BINARY_LOSSES),
        ("multi", CLASS_LOSSES),
        ("regression", NUMBER_LOSSES),
    ):
        if name in losses:
            return kind
    raise ValueError("trainer.param.task_type: must be given with a loss of one's own")


def _own(name: str | None, built_in: str, *, default_class: str, where: str) -> Custom | None:
    if name is None or name == built_in:
        return None
    return Custom.of(
        {"module_name": name, "class_name": default_class}, where=where, module_key="module_name"
    )
