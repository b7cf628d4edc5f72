"""What a stored network shows: layers and losses, and none of its numbers."""

from __future__ import annotations

import json
from typing import Any

from fedflow.board.presenters.models.registry import sections_of
from fedflow.board.presenters.models.sections import Facts, NoticeSection, Table
from fedflow.domain.site import Role

META: dict[str, Any] = {
    "nn_define": [json.dumps({"0-0": {"layer": "Linear", "in_features": 3, "dtype": None}})],
    "loss_func_define": [json.dumps({"loss_fn": "BCELoss"})],
    "optimizer_define": ["no JSON"],
}
PARAM: dict[str, Any] = {
    "model_bytes": "secret",
    "epoch_idx": 4,
    "converge_status": True,
    "loss_history": [0.5, 0.25],
    "best_epoch": 3,
    "header": ["a", "b", "c"],
}


def test_a_network_shows_its_layers_and_not_its_numbers() -> None:
    facts, layers = sections_of(Role.HOST, "HomoNNParam", PARAM, META, {})
    assert isinstance(facts, Facts)
    assert list(dict(facts.pairs).values()) == [4, True, 3, 3, 0.25, "BCELoss", "-"]
    assert isinstance(layers, Table)
    assert layers.rows == [("0-0", "Linear", "in_features=3")]
    assert "secret" not in repr((facts, layers))


def test_a_damaged_network_shows_what_it_has() -> None:
    facts, layers = sections_of(Role.GUEST, "HomoNNParam", {"best_epoch": -1}, {}, {})
    assert isinstance(facts, Facts)
    assert dict(facts.pairs)["Best epoch"] is None
    assert isinstance(layers, Table)
    assert not layers.rows


def test_an_arbiter_shows_nothing() -> None:
    (notice,) = sections_of(Role.ARBITER, "HomoNNParam", PARAM, META, {})
    assert isinstance(notice, NoticeSection)
