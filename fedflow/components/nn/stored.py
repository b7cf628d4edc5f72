"""A trained network as HomoNNMeta and HomoNNParam, and as a checkpoint."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.horizontal.rounds import RoundState
from fedflow.components.nn.definition import Layer, Named, layers_of, loss_of
from fedflow.components.nn.params import HomoNNParams, task_of
from fedflow.components.nn.predicting import OutputMeaning
from fedflow.components.nn.states import States, from_bytes, to_bytes
from fedflow.components.samples.stored import own_model
from fedflow.sdk import BadData, Context, Model
from fedflow.sdk.decoding import read_as

META: Final = "HomoNNMeta"
PARAM: Final = "HomoNNParam"
RESUME: Final = "resume_state"  #: in the parameters of a checkpoint; final models have none


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedNetwork:
    """What a stored model says."""

    define: Mapping[str, Any]
    loss: Mapping[str, Any]
    task: str
    header: tuple[str, ...]  #: the columns, in order
    epochs: int  #: that it has had
    losses: tuple[float, ...]
    converged: bool
    states: States

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the layers. Raises: ValueError: they are none."""
        return layers_of(self.define)

    @property
    def loss_function(self) -> Named:
        """Return the loss. Raises: ValueError: it is none."""
        return loss_of(self.loss)

    @property
    def meaning(self) -> OutputMeaning:
        """Return what its outputs are. Raises: ValueError: layers or loss are none."""
        return OutputMeaning.of(self.layers, self.loss_function, task=self.task)

    def to_model(self, params: HomoNNParams, *, best: int) -> Model:
        """Return the model objects. Source: docs/reference/models.md#fields."""
        return Model(
            meta_name=META,
            param_name=PARAM,
            meta={
                "nn_define": [json.dumps(self.define)],
                "optimizer_define": [json.dumps(params.optimizer or {})],
                "loss_func_define": [json.dumps(self.loss)],
                "task_type": self.task,
            },
            param={
                "model_bytes": _text(to_bytes(self.states)),
                "extra_data_bytes": "",
                "epoch_idx": self.epochs,
                "converge_status": self.converged,
                "loss_history": list(self.losses),
                "best_epoch": best,
                "local_save_path": "",
                "header": list(self.header),
            },
        )

    @staticmethod
    def of(model: Model) -> TrainedNetwork:
        """Return what a model says. Raises: BadData: it is no HomoNNParam, or damaged."""
        try:
            meta = read_as(dict(model.meta), _Meta)
            param = read_as(dict(model.param), _Param)
            define, loss = json.loads(meta.nn_define[0]), json.loads(meta.loss_func_define[0])
            layers_of(define)
            task = meta.task_type or task_of("auto", loss)
            states = from_bytes(base64.b64decode(param.model_bytes, validate=True))
        except (msgspec.ValidationError, binascii.Error, ValueError, IndexError) as exc:
            raise BadData(where="the model input", reason=f"it is no {PARAM} ({exc})") from exc
        return TrainedNetwork(
            define=define,
            loss=loss,
            task=task,
            header=tuple(param.header),
            epochs=param.epoch_idx,
            losses=tuple(param.loss_history),
            converged=param.converge_status,
            states=states,
        )


class _Meta(msgspec.Struct, frozen=True, kw_only=True):
    nn_define: list[str]
    loss_func_define: list[str]
    task_type: str = ""


class _Param(msgspec.Struct, frozen=True, kw_only=True):
    model_bytes: str
    epoch_idx: int
    header: list[str]
    converge_status: bool = False
    loss_history: list[float] = []


class _Resume(msgspec.Struct, frozen=True, kw_only=True):
    round: int
    arrays: str
    notes: dict[str, Any]


def stored_network(ctx: Context) -> TrainedNetwork | None:
    """Return the connected model, None if there is none. Raises: BadData."""
    model = own_model(ctx, PARAM)
    return None if model is None else TrainedNetwork.of(model)


def with_state(model: Model, state: RoundState) -> Model:
    """Return the model of a checkpoint, from whose state rounds can go on."""
    arrays = {name: np.asarray(array, np.float64) for name, array in state.arrays.items()}
    resume = {
        "round": state.round,
        "arrays": _text(to_bytes(arrays)),
        "notes": dict(state.notes),
    }
    return replace(model, param={**model.param, RESUME: resume})


def state_in(model: Model) -> RoundState:
    """Return the state of a checkpoint. Raises: BadData: it has none."""
    try:
        found = read_as(model.param.get(RESUME), _Resume)
        arrays: dict[str, NDArray[Any]] = from_bytes(base64.b64decode(found.arrays, validate=True))
    except (msgspec.ValidationError, binascii.Error) as exc:
        raise BadData(where="checkpoint", reason=f"{RESUME}: {exc}") from exc
    return RoundState(round=found.round, arrays=arrays, notes=found.notes)


def best_epoch(losses: Sequence[float], *, begun: int, every: int) -> int:
    """Return the epoch, from 0, after which the loss was least; -1 without any."""
    return begun + (int(np.argmin(losses)) + 1) * every - 1 if losses else -1


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
