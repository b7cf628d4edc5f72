"""A federation that changes or keeps the messages of rounds: hostile parties, and a wiretap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedflow.components.binning.homo_feature_binning import HomoFeatureBinning
from fedflow.components.features.homo_one_hot import HomoOneHotEncoder
from fedflow.components.horizontal.homo_lr import HomoLR
from fedflow.components.nn.homo_nn import HomoNN
from fedflow.sdk import Site
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import RunResult
from tests.unit.components.homo_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
    load_torch,
    run_homo,
)
from tests.unit.components.secure_aggregation.identities import NamedIdentity

Message = dict[str, Any]
Change = Callable[[Site, Site, Message], Message]

MEMBERS = (GUEST, HOST, HOST_2)
LR: dict[str, Any] = {
    "optimizer": "sgd",
    "max_iter": 2,
    "early_stop": "weight_diff",  # never stops
    "init_param": {"init_method": "zeros"},
}
NETWORK: dict[str, Any] = {
    "trainer": {"param": {"epochs": 2}},
    "nn_define": {"0-0": {"layer": "Linear", "in_features": 2, "out_features": 1}},
    "loss": {"loss_fn": "BCEWithLogitsLoss"},
    "optimizer": {"optimizer": "SGD", "lr": 0.1},
}
MODULES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "HomoLR": (HomoLR, LR, "train_data"),
    "HomoNN": (HomoNN, NETWORK, "train_data"),
    "HomoFeatureBinning": (HomoFeatureBinning, {"bin_num": 3}, "data"),
    "HomoOneHotEncoder": (HomoOneHotEncoder, {"transform_col_indexes": [0]}, "data"),
}


class TamperedFederation(LocalFederation):
    """Gives each receiver what `change` makes of a message from `source` to `destination`."""

    def __init__(self, sites: Iterable[Site], change: Change) -> None:
        super().__init__(sites, receive_timeout_s=60)
        self.seen: list[tuple[Site, Site, Message]] = []
        self._change = change

    def _put(self, key: Any, value: Any, size: int) -> None:
        changed = self._change(key.source, key.destination, value)
        self.seen.append((key.source, key.destination, changed))
        super()._put(key, changed, size)


def honest(_source: Site, _destination: Site, value: Message) -> Message:
    """Change nothing."""
    return value


def stage_of(value: Message) -> str:
    """Return the stage of the secure sum that a message is of, or its kind."""
    body = value.get("body")
    return str(body.get("stage", value["kind"])) if isinstance(body, Mapping) else value["kind"]


def run_tampered(
    name: str,
    work_dir: Path,
    change: Change = honest,
    *,
    signed: bool = False,
    members: Sequence[Site] = MEMBERS,
    **params: Any,
) -> tuple[dict[Site, RunResult], TamperedFederation]:
    """Run a component at three parties and an arbiter; return the results and what was sent."""
    module, given, port = MODULES[name]
    if module is HomoNN:
        load_torch()
    draw = np.random.default_rng(3)
    rows = {}
    for number, site in enumerate(members):
        count = 20 + number
        rows[site] = {
            "id": [f"{number}_{n}" for n in range(count)],
            "y": [n % 2 for n in range(count)],
            "x0": draw.integers(0, 4, count),
            "x1": draw.normal(size=count),
        }
    sites = [*members, ARBITER]
    federation = TamperedFederation(sites, change)
    results = run_homo(
        module,
        rows,
        work_dir,
        params={**given, **params, "aggregator_may_lie": signed},
        ports=(port,),
        federation=federation,
        identities={site: NamedIdentity(site.key) for site in sites},
    )
    return results, federation
