"""The server's knowledge of component modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fedflow.app.administration.modules import Modules
from fedflow.base.errors.components import UnknownComponent
from fedflow.base.ids import PartyId
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.registry import describe
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.site import Role, Site
from fedflow.sdk import spec_of


class OneModule:
    """Has HeteroLR imported."""

    def describe(self) -> list[dict[str, Any]]:
        return [describe(spec_of(HeteroLR))]

    def check(
        self, module: str, parameters: Mapping[str, Any], *, path: str, run: Any = None, **_: Any
    ) -> tuple[()]:
        raise NotImplementedError


def test_all_parameters_are_told_and_given_ones_replace_defaults_also_within_objects() -> None:
    given = {"max_iter": 5, "init_param": {"init_method": "zeros"}, "metrics": ["ks"]}
    name, values = Modules(OneModule()).parameters("heterolr", given)
    assert name == "HeteroLogisticParam"
    assert values["max_iter"] == 5
    assert values["metrics"] == ["ks"]
    assert values["init_param"] == {
        "init_method": "zeros",
        "init_const": 1.0,
        "fit_intercept": True,
        "random_seed": None,
    }
    assert values["encrypt_param"]["key_length"] == 2048
    assert given == {"max_iter": 5, "init_param": {"init_method": "zeros"}, "metrics": ["ks"]}


def test_parameters_of_an_unknown_module_are_an_error() -> None:
    with pytest.raises(UnknownComponent):
        Modules(OneModule()).parameters("NoSuch", {})


class Agreeable(OneModule):
    """Finds everything good, and keeps which runs it was asked about."""

    def __init__(self, *, looks: bool = False) -> None:
        self.runs: list[PlannedRun | None] = []
        self._looks = looks

    def describe(self) -> list[dict[str, Any]]:
        return [{**one, "checks_run": self._looks} for one in super().describe()]

    def check(
        self, module: str, parameters: Mapping[str, Any], *, path: str,
        run: PlannedRun | None = None, **_: Any,
    ) -> tuple[()]:  # fmt: skip
        self.runs.append(run)
        return ()


@pytest.mark.parametrize("looks", [True, False])
def test_planned_runs_count_only_where_parameters_look_at_them(looks: bool) -> None:
    guest, host = Site(Role.GUEST, PartyId("9999")), Site(Role.HOST, PartyId("10000"))
    runs = [PlannedRun(site=site, sites=(guest, host)) for site in (guest, host)]
    describer = Agreeable(looks=looks)
    modules = Modules(describer)
    for run in (*runs, *runs):
        modules.check("heterolr", {}, path="p", run=run)
    assert describer.runs == (runs if looks else [None])


def test_good_parameters_are_asked_for_once_and_do_not_fill_the_memory() -> None:
    describer = Agreeable()
    modules = Modules(describer)
    for text in ("a" * 1_000_000, "b" * 1_000_000, "a" * 1_000_000):
        modules.check("heterolr", {"metrics": [text]}, path="p")
    assert len(describer.runs) == 2
    assert sum(map(len, modules._good)) < 100
