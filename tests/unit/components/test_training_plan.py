"""Rules over roles and connected ports of trainings, known before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.components.linear.params import HeteroLRParams, HeteroPoissonParams
from fedflow.sdk import PlannedRun, check_params
from tests.unit.components.hetero_lr_parties import ARBITER, GUEST, HOST, HOST_2

SITES = (GUEST, HOST, ARBITER)


def check(kind: type[Any] = HeteroLRParams, *, params: Any = None, **plan: Any) -> None:
    known: dict[str, Any] = {"site": GUEST, "sites": SITES, "data_ports": ("train_data",)}
    check_params(kind, params or {}, path="$").check_run(PlannedRun(**known | plan))


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"has_model": True},
        {"data_ports": ("train_data", "validate_data")},
        {"data_ports": ("train_data", "eval_data"), "has_model": True},
        {"data_ports": ("test_data",), "has_model": True, "sites": (GUEST, HOST)},
        {"data_ports": ("eval_data",), "has_model": True},
        {"params": {"early_stop": "weight_diff"}, "sites": (*SITES, HOST_2)},
        {"data_ports": ("test_data",), "has_model": True, "sites": (GUEST, HOST, HOST_2)},
        {"params": {"cv_param": {"need_cv": True}}},
    ],
)
def test_what_fate_allows_is_planned(plan: dict[str, Any]) -> None:
    check(**plan)


STOPS = {"callbacks": ["EarlyStopping"], "validation_freqs": 1, "early_stopping_rounds": 1}


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        ({"sites": (GUEST, HOST)}, "role: HeteroLR needs exactly one arbiter"),
        ({"sites": (HOST, ARBITER)}, "role: HeteroLR needs exactly one guest"),
        ({"sites": (GUEST, ARBITER)}, "role: HeteroLR needs at least one host"),
        ({"data_ports": ("train_data", "test_data")}, "input.data: train_data together with"),
        ({"data_ports": ("validate_data",)}, "input.data: validate_data without train_data"),
        ({"data_ports": ("test_data",)}, "input.model: test_data needs a trained model"),
        (
            {"data_ports": ("train_data", "validate_data", "eval_data")},
            "input.data: eval_data together with",
        ),
        (
            {"params": {"cv_param": {"need_cv": True}}, "has_model": True},
            "cv_param.need_cv: takes train_data alone",
        ),
        (
            {
                "params": {"stepwise_param": {"need_stepwise": True}},
                "data_ports": ("train_data", "validate_data"),
            },
            "stepwise_param.need_stepwise: takes train_data alone",
        ),
        ({"sites": (*SITES, HOST_2)}, "early_stop: 'diff' needs the loss"),
        ({"params": {"callback_param": STOPS}}, "EarlyStopping needs validate_data"),
        (
            {
                "kind": HeteroPoissonParams,
                "params": {"early_stop": "weight_diff"},
                "sites": (*SITES, HOST_2),
            },
            "role: HeteroPoisson works with 1 host, not with 2",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(plan: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        check(**plan)
