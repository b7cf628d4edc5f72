"""What the models of other components say of columns: the isometric models.

Source of the fields: docs/reference/models.md#fields. Values of a host's columns stand in the
guest's models under anonymous names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk import BadData, BadParameter, Model

T = TypeVar("T")
Value = float | None
Values = Mapping[str, Value]

BINNING: Final = "binning_model"
STATISTICS: Final = "statistic_model"
PEARSON: Final = "HeteroPearson"
PSI: Final = "psi"
HETERO_TREES: Final = "hetero_sbt"
HOMO_TREES: Final = "homo_sbt"

_MAKERS: Final = {
    BINNING: "HeteroFeatureBinning",
    STATISTICS: "DataStatistics",
    PEARSON: "HeteroPearson",
    PSI: "PSI",
    HETERO_TREES: "HeteroSecureBoost",
    HOMO_TREES: "HomoSecureBoost",
}  #: the module that makes each kind of model
_NAMES: Final = {
    "hetero_fast_sbt_mix": HETERO_TREES,
    "hetero_fast_sbt_layered": HETERO_TREES,
}  #: `model_name`s of another form of a kind
_OBJECTS: Final = {
    "FeatureBinningParam": BINNING,
    "StatisticParam": STATISTICS,
    "HeteroPearsonModelParam": PEARSON,
    "PSIParam": PSI,
    "HeteroSecureBoostingTreeGuestParam": HETERO_TREES,
    "HeteroSecureBoostingTreeHostParam": HETERO_TREES,
    "HomoSecureBoostingTreeGuestParam": HOMO_TREES,
    "HomoSecureBoostingTreeHostParam": HOMO_TREES,
}  #: for models without a `model_name`


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """Values of columns: the own ones, and by party id those of hosts."""

    own: Values
    hosts: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Correlations:
    """Correlations of the guest's columns, with each other and with one host's."""

    own: tuple[str, ...]
    local: NDArray[np.float64]
    remote: tuple[str, ...]  #: anonymous names
    cross: NDArray[np.float64]  #: own columns x remote ones


class IsometricModels:
    """The models beside the data, by kind."""

    def __init__(self, models: Iterable[Model], *, component: str) -> None:
        """Raises: BadParameter: two models are of one kind."""
        self._component = component
        self._models: dict[str, Model] = {}
        for model in models:
            kind = _kind(model)
            if kind is None:
                continue
            if kind in self._models:
                raise BadParameter(
                    path=f"{component}.isometric_model",
                    reason=f"two models of {_MAKERS[kind]} are given; one of a kind can be used",
                )
            self._models[kind] = model

    def has(self, kind: str) -> bool:
        """Tell whether there is a model of this kind."""
        return kind in self._models

    def need(self, kind: str, *, filter_name: str) -> None:
        """Do nothing if there is a model of this kind. Raises: BadParameter: there is none."""
        if kind not in self._models:
            raise BadParameter(
                path=f"{self._component}.filter_methods",
                reason=f"{filter_name} needs the model of {_MAKERS[kind]} on isometric_model",
            )

    def iv(self, merge: str) -> Known:
        """Return information values; those of several classes are merged by average, min or max.

        A column without statistics has no entry.
        """
        return self._read(BINNING, lambda param: _iv(param, _MERGES[merge]))

    def statistics(self) -> Mapping[str, Values]:
        """Return statistic -> column -> value."""
        return self._read(
            STATISTICS,
            lambda param: {
                str(one["value_name"]): _values(zip(one["col_names"], one["values"], strict=True))
                for one in param["self_values"]["results"]
            },
        )

    def psi(self) -> Known:
        """Return population stability indexes."""
        return self._read(PSI, lambda param: Known(own=_values(param["total_score"].items())))

    def vif(self) -> Known:
        """Return variance inflation factors. Raises: BadData: none were computed."""
        return self._read(PEARSON, _vif)

    def correlations(self) -> Correlations:
        """Return correlations of the guest's columns."""
        return self._read(PEARSON, _correlations)

    def importances(self, kind: str) -> Known:
        """Return importances in trees, at the guest or of horizontal trees.

        A feature that no tree uses has no entry.
        """
        return self._read(kind, lambda param: _importances(param, apart=kind == HETERO_TREES))

    def _read(self, kind: str, reader: Callable[[Mapping[str, Any]], T]) -> T:
        model = self._models[kind]
        try:
            return reader(model.param)
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise BadData(
                where=f"isometric_model of {self._component}",
                reason=f"the model of {_MAKERS[kind]} cannot be read ({exc!r})",
            ) from exc


def _kind(model: Model) -> str | None:
    name = str(model.param.get("model_name") or "")
    name = _NAMES.get(name, name)
    return name if name in _MAKERS else _OBJECTS.get(model.param_name)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


_MERGES: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "average": _mean,
    "min": min,
    "max": max,
}


def _iv(param: Mapping[str, Any], merge: Callable[[list[float]], float]) -> Known:
    classes = param.get("multi_class_result") or {}
    own = classes.get("results") or [param["binning_result"]]
    hosts: dict[str, list[Any]] = {}
    for result in classes.get("host_results") or param.get("host_results") or ():
        hosts.setdefault(str(result["party_id"]), []).append(result)
    return Known(
        own=_merged(own, merge), hosts={p: _merged(found, merge) for p, found in hosts.items()}
    )


def _merged(results: Iterable[Any], merge: Callable[[list[float]], float]) -> Values:
    """Return one value per column of the results of all classes."""
    found: dict[str, list[float]] = {}
    for result in results:
        for name, column in result["binning_result"].items():
            if column["iv_array"]:
                found.setdefault(str(name), []).append(float(column["iv"]))
    return {name: merge(values) for name, values in found.items()}


def _vif(param: Mapping[str, Any]) -> Known:
    if not param["local_vif"]:
        raise ValueError("it has no factors: calc_local_vif was false")
    return Known(own=_values(zip(param["names"], param["local_vif"], strict=True)))


def _correlations(param: Mapping[str, Any]) -> Correlations:
    own = tuple(str(name) for name in param["names"])
    local = np.array(param["local_corr"], dtype=np.float64).reshape(len(own), len(own))
    remote: tuple[str, ...] = ()
    if len(param["shapes"]) > 1:
        remote = tuple(str(name) for name in param["all_names"][1]["names"])
    cross = np.array(param["corr"], dtype=np.float64).reshape(len(own), len(remote))
    return Correlations(own=own, local=local, remote=remote, cross=cross)


def _importances(param: Mapping[str, Any], *, apart: bool) -> Known:
    """Return importances; with `apart` those of hosts' features are not own ones."""
    own: dict[str, Value] = {}
    hosts: dict[str, dict[str, Value]] = {}
    for one in param["feature_importances"]:
        role, _, party_id = str(one["sitename"]).partition(":")
        names = hosts.setdefault(party_id, {}) if apart and role == "host" else own
        names[str(one["fullname"])] = float(one["importance"])
    return Known(own=own, hosts=hosts)


def _values(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Value]:
    return {str(name): None if value is None else float(value) for name, value in pairs}
