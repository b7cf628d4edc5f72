"""Weights of evidence (woe) as parties hand them on: from a guest's binning model to a host's.

A guest learns the woe of its hosts' bins, under the anonymous names of their columns; a host never
does. What the guest extracts and gives to the host, out of band, is an object
{anonymous column: {"woeArray": [woe per bin]}}, as FATE's `component/woe_array` has it. The models
are FeatureBinningParam with the field names they are stored with.
Source: `docs/reference/components.md#binning` and `docs/reference/models.md#binning-model`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.domain.records import Json

PARAM: Final = "FeatureBinningParam"
ARRAY: Final = "woeArray"
_SHOWN: Final = 20  #: columns that a sentence names


def extract_woe(param: Mapping[str, Any], host: str | None = None) -> dict[str, Any]:
    """Return the woe arrays of a host's columns in a guest's model, of the first host if none is
    named.

    Args:
        param: the guest's FeatureBinningParam.
        host: the host's party id.

    Raises: ValueError: it is no such model, there is no such host, or a class too many: with more
        than two there is no one woe per bin.
    """
    try:
        classes = len(param["multi_class_result"]["labels"])
        hosts = {str(found["party_id"]): found["binning_result"] for found in param["host_results"]}
        if classes > 2:
            raise ValueError(f"the label has {classes} classes, so a bin has more than one woe")
        if not hosts:
            raise ValueError("the model has no statistics of hosts' columns")
        if host is not None and host not in hosts:
            raise ValueError(
                f"there is no host {host[:100]!r}, only {', '.join(sorted(hosts)[:_SHOWN])}"
            )
        columns = hosts[host] if host is not None else next(iter(hosts.values()))
        return {name: {ARRAY: list(found["woe_array"])} for name, found in columns.items()}
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"it is no {PARAM} ({exc!r})") from exc


def merge_woe(param: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return a host's model with the woe arrays of some of its columns; others stay as they are.

    Args:
        param: the host's FeatureBinningParam.
        arrays: what `extract_woe` gave at the guest.

    Raises: ValueError: it is no such model, or an array fits no column or not its bins.
    """
    if not arrays:
        raise ValueError("there are no arrays")
    try:
        names = dict(zip(param["header_anonymous"], param["header"], strict=False))
        columns: dict[str, Any] = dict(param["binning_result"]["binning_result"])
        unknown = [name for name in arrays if names.get(name) not in columns]
        if unknown:
            raise ValueError(
                f"{len(unknown)} of the columns are not among the binned ones of this model:"
                f" {_listed(unknown)}"
            )
        for anonymous, given in arrays.items():
            name = names[anonymous]
            columns[name] = {**columns[name], "woe_array": _woe(anonymous, given, columns[name])}
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"it is no {PARAM} ({exc!r})") from exc
    return {**param, "binning_result": {**param["binning_result"], "binning_result": columns}}


def _woe(anonymous: str, given: Any, column: Mapping[str, Any]) -> list[float]:
    """Return the array of a column. Raises: ValueError: it is none, or has not one woe per bin."""
    array = given.get(ARRAY) if isinstance(given, dict) else None
    if not isinstance(array, list) or not all(map(_is_number, array)):
        raise ValueError(f"column {_listed([anonymous])}: {ARRAY} must be a list of numbers")
    bins = column["bin_nums"]
    if len(array) != bins:
        raise ValueError(
            f"column {_listed([anonymous])}: {len(array)} numbers for {bins} bins; the file is of"
            " another model"
        )
    return [float(value) for value in array]


def _is_number(value: Json) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _SHOWN else ""
    return ", ".join(name[:100] for name in names[:_SHOWN]) + more
