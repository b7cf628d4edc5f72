"""Checking the parameters of one component at all its sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedflow.app.ports import Catalog
from fedflow.base.errors import BadParameter, Problem

RULE = "ParameterException"  #: FATE's word


def parameter_problems(
    catalog: Catalog, module: str, asked: Iterable[tuple[str, Mapping[str, Any]]]
) -> list[Problem]:
    """Return what is wrong with parameter sets, given as (path, parameters); equal ones count once.

    Raises: UnknownComponent.
    """
    problems: list[Problem] = []
    seen: list[Mapping[str, Any]] = []
    for path, parameters in asked:
        if parameters in seen:
            continue
        seen.append(parameters)
        try:
            catalog.check(module, parameters, path=path)
        except BadParameter as exc:
            problems.append(Problem(exc.fields["path"], exc.fields["reason"], RULE))
    return problems
