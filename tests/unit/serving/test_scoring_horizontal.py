"""Scores of horizontal models online, at each party alone, equal those of a predict job."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedflow.base.errors.serving import UnservableModel
from fedflow.components.binning.homo_feature_binning import HomoFeatureBinning
from fedflow.components.features.homo_one_hot import HomoOneHotEncoder
from fedflow.components.features.scale import FeatureScale
from fedflow.components.horizontal.homo_lr import HomoLR
from fedflow.components.nn.homo_nn import HomoNN
from fedflow.serving.scoring.batch import Score
from fedflow.serving.scoring.pipeline import OnlineModel, build
from tests.unit.components.hetero_lr_parties import GUEST, HOST
from tests.unit.serving.scoring_parties import (
    PARTIES,
    Node,
    Pipeline,
    Row,
    Rows,
    assert_same,
    numbers_of,
)
from tests.unit.serving.test_scoring_linear import LABELLED, read_node

LR = {"max_iter": 2, "init_param": {"init_method": "zeros"}, "learning_rate": 0.5}
NETWORK: dict[str, Any] = {
    "trainer": {"param": {"epochs": 2, "batch_size": -1}},
    "nn_define": {
        "0-0": {"layer": "Linear", "in_features": 4, "out_features": 3},
        "1-1": {"layer": "ReLU"},
        "2-2": {"layer": "Linear", "in_features": 3, "out_features": 1},
    },
    "loss": {"loss_fn": "BCEWithLogitsLoss"},
    "optimizer": {"optimizer": "Adam", "lr": 0.1},
}


def read_all() -> Node:
    """Return a DataTransform that reads labels at all parties."""
    node = read_node()
    node.at = dict.fromkeys(PARTIES, LABELLED[GUEST])
    return node


def trained(
    nodes: Sequence[Node], folder: Path, *, classes: int = 2, missing: float = 0.1
) -> Pipeline:
    pipeline = Pipeline([read_all(), *nodes], folder)
    rows = numbers_of(40, seed=1, missing=missing)
    rows[HOST] = rows[HOST][:30]
    pipeline.train_all(rows, {site: labels_of(given, classes) for site, given in rows.items()})
    return pipeline


def labels_of(rows: Sequence[Row], classes: int) -> list[int]:
    totals = np.array([sum(value or 0.0 for value in row.values()) for row in rows])
    cuts = np.quantile(totals, np.arange(1, classes) / classes)
    return [int(number) for number in np.searchsorted(cuts, totals)]


def scored(model: OnlineModel, rows: Sequence[Row]) -> list[Score]:
    return model.merge(model.local(model.read(rows)), {})


def check_each_party(pipeline: Pipeline, fresh: Rows, *, within: float = 1e-9) -> None:
    """Compare with a predict job at both parties: a batch, single rows, rows beside wrong ones."""
    for site in PARTIES:
        model = build(pipeline.deployed(site))
        assert (model.scores_alone, model.hosts) == (True, ())
        offline = pipeline.predict(fresh, site=site)
        scores = scored(model, fresh[site])
        assert_same(scores, offline, within=within)
        first = {name: values[:20] for name, values in offline.items()}
        assert_same([scored(model, [row])[0] for row in fresh[site][:20]], first, within=within)
        spoilt = [{**row, "x0": "word"} if n % 7 == 0 else row for n, row in enumerate(fresh[site])]
        others = scored(model, spoilt)
        assert {n for n, one in enumerate(others) if one.error} == set(range(0, len(spoilt), 7))
        good = [n for n in range(len(others)) if n % 7]
        kept = {name: [values[n] for n in good] for name, values in offline.items()}
        assert_same([others[n] for n in good], kept, within=within)


def test_logistic_regression_behind_all_horizontal_steps(tmp_path: Path) -> None:
    binning = {"bin_num": 3, "transform_param": {"transform_type": "bin_num"}}
    pipeline = trained(
        [
            Node(name="binning_0", cls=HomoFeatureBinning, params={"bin_names": ["x0"], **binning}),
            Node(name="one_hot_0", cls=HomoOneHotEncoder, params={"transform_col_names": ["x0"]}),
            Node(name="scale_0", cls=FeatureScale),
            Node(name="homo_lr_0", cls=HomoLR, params=LR),
        ],
        tmp_path,
    )
    check_each_party(pipeline, numbers_of(60, seed=2, missing=0.2))


def test_one_model_for_each_class(tmp_path: Path) -> None:
    pipeline = trained([Node(name="homo_lr_0", cls=HomoLR, params=LR)], tmp_path, classes=3)
    check_each_party(pipeline, numbers_of(60, seed=2))
    assert build(pipeline.deployed(HOST)).labels == (0, 1, 2)


@pytest.fixture(scope="module")
def torch() -> None:
    """Import PyTorch, and what its first step imports: it takes long on a busy machine."""
    pytest.importorskip("torch", exc_type=ImportError)
    importlib.import_module("torch._dynamo")


@pytest.fixture(scope="module")
def network(torch: None, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    node = Node(name="homo_nn_0", cls=HomoNN, params=NETWORK)
    return trained([node], tmp_path_factory.mktemp("network"))


def test_a_network(network: Pipeline) -> None:
    fresh = numbers_of(60, seed=2, missing=0.1)
    check_each_party(network, fresh, within=1e-6)


def test_a_network_of_several_classes(torch: None, tmp_path: Path) -> None:
    layers = {"0-0": {"layer": "Linear", "in_features": 4, "out_features": 3}}
    given = {**NETWORK, "nn_define": layers, "loss": {"loss_fn": "CrossEntropyLoss"}}
    pipeline = trained([Node(name="homo_nn_0", cls=HomoNN, params=given)], tmp_path, classes=3)
    check_each_party(pipeline, numbers_of(60, seed=2), within=1e-6)


def test_a_host_says_nothing_of_its_rows_to_a_guest(network: Pipeline) -> None:
    model = build(network.deployed(HOST))
    with pytest.raises(ValueError, match="each party has the whole model"):
        model.partial(model.read(numbers_of(1, seed=2)[HOST]))


def test_what_a_network_needs_is_named_when_it_is_loaded(
    network: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = network.deployed(GUEST)
    (name,) = [name for name in share.components if name.startswith("homo_nn")]
    own = {"layer": "CustModel", "module_name": "net", "class_name": "Net"}
    cases = [
        ({"nn_define": [msgspec.json.encode({"0-0": own}).decode()]}, {}, "nn_folder"),
        ({}, {"dataset": {"dataset_name": "images"}}, "made by images"),
        (
            {
                "nn_define": [
                    msgspec.json.encode(
                        {"0-0": {"layer": "Linear", "in_features": 3, "out_features": 1}}
                    ).decode()
                ]
            },
            {},
            "the arrays are not those of this network",
        ),
    ]
    for meta, params, said in cases:
        stored = share.components[name]
        changed = msgspec.structs.replace(
            share,
            components={
                **share.components,
                name: msgspec.structs.replace(stored, meta={**stored.meta, **meta}),
            },
            parameters={**share.parameters, name: {**share.parameters[name], **params}},
        )
        with pytest.raises(UnservableModel, match=said):
            build(changed)
        if said == "nn_folder":
            with pytest.raises(UnservableModel, match="this party has no models module net"):
                build(changed, nn_folder=tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UnservableModel, match=r"PyTorch is not installed here.*fedflow\[nn\]"):
        build(share)


def test_a_network_of_ones_own_is_served_from_the_folder(torch: None, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.line = torch.nn.Linear(4, 1)\n"
        "    def forward(self, rows):\n"
        "        if (rows > 1e6).any():\n"
        "            raise ValueError('too large')\n"
        "        return self.line(rows)\n"
    )
    own = {"0-0": {"layer": "CustModel", "module_name": "net", "class_name": "Net"}}
    node = Node(name="homo_nn_0", cls=HomoNN, params={**NETWORK, "nn_define": own})
    pipeline = Pipeline([read_all(), node], tmp_path / "work", nn_folder=tmp_path)
    rows = numbers_of(40, seed=1)
    pipeline.train_all(rows, {site: labels_of(given, 2) for site, given in rows.items()})
    model = build(pipeline.deployed(HOST), nn_folder=tmp_path)
    fresh = numbers_of(10, seed=2)
    offline = pipeline.predict(fresh, site=HOST)
    assert_same(scored(model, fresh[HOST]), offline, within=1e-6)
    found = scored(model, [{**fresh[HOST][0], "x0": 1e9}, *fresh[HOST]])
    assert found[0].error == "too large"
    assert_same(found[1:], offline, within=1e-6)
