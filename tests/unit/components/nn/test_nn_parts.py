"""The parts of HomoNN that need no PyTorch: definitions, arrays as bytes, folders, outputs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.horizontal.rounds import RoundState, Total
from fedflow.components.nn.definition import Custom, Layer, Named, layers_of, loss_of, optimizer_of
from fedflow.components.nn.folder import own_class, own_file
from fedflow.components.nn.params import HomoNNParams
from fedflow.components.nn.predicting import OutputMeaning
from fedflow.components.nn.rounds import AveragingCombiner, AveragingMember, TrainingPlan
from fedflow.components.nn.states import as_before, averaged, from_bytes, to_bytes
from fedflow.sdk import check_params
from tests.unit.components.homo_parties import GUEST, HOST

ARRAYS = st.dictionaries(
    st.text(max_size=8),
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
        elements=st.floats(-9, 9, width=32),
    ),
    max_size=4,
)


@given(ARRAYS)
def test_arrays_come_back_from_bytes(arrays: dict[str, Any]) -> None:
    found = from_bytes(to_bytes(arrays))
    assert list(found) == list(arrays)
    assert all((found[n] == arrays[n]).all() and found[n].dtype == np.float32 for n in arrays)


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(content: bytes) -> None:
    if content[:6] == b"\x02\x00\x00\x00[]" and len(content) == 6:
        return
    with pytest.raises(BadData):
        from_bytes(content)


@given(ARRAYS, st.integers(0, 200))
def test_bytes_that_are_cut_off_are_refused(arrays: dict[str, Any], cut: int) -> None:
    content = to_bytes({**arrays, "last": np.ones(3)})
    with pytest.raises(BadData):
        from_bytes(content[: len(content) - 1 - cut % len(content)])


def test_a_pickle_is_no_model() -> None:
    with pytest.raises(BadData):
        from_bytes(pickle.dumps({"weight": [1.0]}))


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(BadData):
        from_bytes(to_bytes({"w": np.array([np.inf])}))


def test_counters_are_rounded_after_a_mean() -> None:
    own = {"n": np.array(3), "w": np.ones(2, np.float32)}
    found = as_before({"n": np.array(3.5001), "w": np.full(2, 0.25)}, own)
    assert found["n"] == 4
    assert found["n"].dtype == own["n"].dtype
    assert found["w"].dtype == np.float32
    assert averaged(own)["n"].dtype == np.float64
    with pytest.raises(ValueError, match="another shape"):
        as_before({"n": np.array(3.0), "w": np.ones(3)}, own)


def test_layers_are_in_the_order_of_their_numbers() -> None:
    define = {
        "1-act": {"layer": "ReLU", "initializer": {}},
        "0-a": {"layer": "Linear", "in_features": 3, "out_features": 2, "device": None},
        "2-b": {"0-0": {"layer": "Dropout", "p": 0.5}},
    }
    names = [layer.name for layer in layers_of(define)]
    assert names == ["Linear", "ReLU", "Sequential"]
    assert layers_of(define)[0].arguments == {"in_features": 3, "out_features": 2}
    assert layers_of(define)[2].inner[0].arguments == {"p": 0.5}


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"0-0": {"layer": "ReLU"}}
    for _ in range(depth):
        found = {"0-0": found}
    return found


@pytest.mark.parametrize(
    ("define", "said"),
    [
        ({}, "no layers"),
        (None, "no layers"),
        ({"first": {"layer": "ReLU"}}, "is not a name such as 0-0"),
        ({"0-0": {"layer": "os.system"}}, "'os.system' is not one of"),
        ({"0-0": {"layer": "Module"}}, "is not one of"),
        ({"0-0": {"layer": ["ReLU"]}}, "nn_define.0-0"),
        ({"0-0": {"layer": "ReLU", "in-place": 1}}, "arguments must have names"),
        ({"0-0": {"layer": "ReLU", "device": "cuda"}}, "nn_define.0-0.device"),
        (
            {"0-0": {"layer": "Linear", "initializer": {"weight": {}, "bias": {"a": 1}}}},
            "initializer",
        ),
        ({"0-0": {"layer": "ReLU"}, "0-1": {"layer": "ReLU"}}, "two layers have one number"),
        ({f"{n}-{n}": {"layer": "ReLU"} for n in range(1001)}, "more than 1000 layers"),
        (nested(9), "networks in each other"),
        (
            {"0-0": {"layer": "CustModel", "module_name": "../a", "class_name": "B"}},
            "names in Python",
        ),
        (
            {"0-0": {"layer": "CustModel", "module_name": "a.b", "class_name": "B"}},
            "names in Python",
        ),
        ({"0-0": {"layer": "CustModel", "module_name": "a"}}, "names in Python"),
    ],
)
def test_definitions_that_are_none_are_refused(define: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace(".", r"\.").replace("[", r"\[")):
        layers_of(define)


def test_losses_and_optimizers_as_the_sdk_sends_them() -> None:
    sent = {"weight": None, "size_average": None, "reduce": None, "reduction": "mean"}
    assert loss_of({**sent, "loss_fn": "BCELoss"}).arguments == {}
    assert loss_of({"loss_fn": "CrossEntropyLoss", "label_smoothing": 0.1}).arguments
    adam = {"optimizer": "Adam", "lr": 0.01, "config_type": "pytorch", "betas": [0.9, 0.999]}
    assert optimizer_of(adam).arguments == {"lr": 0.01, "betas": [0.9, 0.999]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ds_config": {"a": 1}}, "ds_config"),
        ({"server_init": True}, "server_init"),
        ({"trainer": {"param": {"epochs": 0}}}, "epochs"),
        ({"trainer": {"param": {"cuda": 0}}}, "cuda"),
        ({"trainer": {"param": {"batch_size": 0}}}, "batch_size"),
        ({"trainer": {"param": {"twice": 1}}}, "twice"),
        ({"trainer": {"trainer_name": "../x"}}, "names in Python"),
        ({"dataset": {"dataset_name": "/etc/passwd"}}, "names in Python"),
        ({"dataset": {"param": {"path": "/etc"}}}, "dataset.param.path"),
        ({"loss": {"loss_fn": "exec"}}, "is not one of"),
        ({"loss": {"loss_fn": "BCELoss", "reduction": "sum"}}, "reduction"),
        ({"loss": {"loss_fn": "BCELoss", "weight": [1]}}, "weight"),
        ({"optimizer": {"optimizer": "LBFGS"}}, "is not one of"),
        ({"optimizer": {"optimizer": "SGD", "config_type": "keras"}}, "config_type"),
        (
            {"loss": {"loss_fn": "CustLoss", "loss_module_name": "a", "class_name": "B"}},
            "task_type",
        ),
    ],
)
def test_parameters_that_are_not_offered_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said.replace(".", r"\.")):
        check_params(HomoNNParams, change, path="$")


def test_a_module_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own" / "models").mkdir(parents=True)
    (tmp_path / "evil.py").write_text("raise SystemExit")
    (tmp_path / "own" / "models" / "link.py").symlink_to(tmp_path / "evil.py")
    for module in ("link", "missing", "../../evil", "a/b", ""):
        with pytest.raises(BadParameter):
            own_file(tmp_path / "own", "models", module, path="nn_define")
    with pytest.raises(BadParameter, match=r"executor\.nn_folder"):
        own_file(None, "models", "net", path="nn_define")
    (tmp_path / "own" / "models" / "net.py").write_text("class Net: pass\nvalue = 3\n")
    found = own_class(tmp_path / "own", "models", Custom(module="net", name="Net"), path="x")
    assert found.__name__ == "Net"
    with pytest.raises(BadParameter, match="no class value"):
        own_class(tmp_path / "own", "models", Custom(module="net", name="value"), path="x")


def meaning(last: str, loss: str, task: str = "binary") -> OutputMeaning:
    """Return what outputs are; `own` is a layer or a loss of the party's own."""
    own = Custom(module="own", name="Own")
    layer = Layer(name=last, custom=own if last == "own" else None)
    after = Layer(name="Flatten")  # says nothing
    named = Named(name=loss, custom=own if loss == "own" else None)
    return OutputMeaning.of((Layer(name="Sequential", inner=(layer, after)),), named, task=task)


def test_outputs_that_are_no_probabilities_become_such() -> None:
    softmax = meaning("Softmax", "CrossEntropyLoss", "multi")
    scores = meaning("Linear", "CrossEntropyLoss", "multi")
    assert softmax.read(np.array([[0.5, 0.25, 0.25]])).tolist() == [[0.5, 0.25, 0.25]]
    assert scores.read(np.array([[3.0, 3.0, 3.0]]))[0] == pytest.approx([1 / 3] * 3)
    two = meaning("Linear", "CrossEntropyLoss")
    assert two.read(np.array([[1.0, 1.0]])).tolist() == [0.5]
    assert meaning("Linear", "MSELoss", "regression").read(np.array([[3.0]])).tolist() == [3.0]
    for outputs, task in (
        ([[1.0, 2.0]], "regression"),
        ([[1.0]], "multi"),
        ([[1.0, 2.0, 3.0]], "binary"),
        ([[np.nan]], "binary"),
    ):
        with pytest.raises(BadData):
            meaning("Linear", "MSELoss", task).read(np.array(outputs))


@pytest.mark.parametrize(
    ("last", "loss", "are_probabilities"),
    [
        ("Sigmoid", "BCELoss", True),
        ("Sigmoid", "own", True),
        ("Linear", "BCELoss", True),
        ("Linear", "BCEWithLogitsLoss", False),
        ("Linear", "own", False),
        ("own", "BCELoss", True),
        ("own", "BCEWithLogitsLoss", False),
    ],
)
def test_a_row_means_the_same_whatever_rows_are_beside_it(
    last: str, loss: str, are_probabilities: bool
) -> None:
    one = meaning(last, loss)
    assert one.is_certain
    near, beside = one.read(np.array([[0.25]])), one.read(np.array([[0.25], [7.0]]))
    assert near[0] == beside[0]
    assert bool(near[0] == 0.25) is are_probabilities


def test_a_network_of_ones_own_with_a_loss_of_ones_own_is_judged_by_its_rows() -> None:
    one = meaning("own", "own")
    assert not one.is_certain
    assert one.read(np.array([[0.2], [0.7]])).tolist() == [0.2, 0.7]
    assert one.read(np.array([[0.0], [7.0]]))[0] == 0.5


def plan(**given: Any) -> TrainingPlan:
    fields: dict[str, Any] = {
        "shapes": {"w": [2]},
        "definition": "d",
        "columns": "c",
        "rounds": 3,
        "begun": 0,
        "every": 2,
        "epochs": 5,
        "weighted": True,
        "early_stop": None,
        "tol": 0.0,
    }
    return TrainingPlan(**{**fields, **given})


def member(one: TrainingPlan, rows: int = 3) -> AveragingMember:
    return AveragingMember(
        one,
        rows=rows,
        first=lambda: {"w": np.zeros(2)},
        train=lambda means, _: (means, 0.5),
        took=lambda _: None,
    )


def test_the_last_round_has_the_epochs_that_are_left() -> None:
    assert [plan().epochs_of(round_) for round_ in (1, 2, 3)] == [2, 2, 1]


@pytest.mark.parametrize("weight", [0.0, 5.0, -3.0])
def test_weights_that_are_not_the_rows_give_the_round_up(weight: float) -> None:
    combiner = AveragingCombiner()
    state = combiner.begin({GUEST: member(plan()).newcomer, HOST: member(plan()).newcomer})
    sums = {"state.w": np.ones(2), "loss": np.array(1.0), "weight": np.array(weight)}
    with pytest.raises(ValueError, match="the weights add up"):
        combiner.combine(state, Total(arrays=sums, rows=6, counted={GUEST: 3, HOST: 3}))


def test_a_state_of_another_network_is_refused() -> None:
    state = RoundState(round=1, arrays={"state.w": np.ones(3)}, notes={})
    with pytest.raises(CodecError):
        member(plan()).work(state, (GUEST,))
    combiner = AveragingCombiner()
    begun = combiner.begin({GUEST: member(plan()).newcomer})
    assert combiner.admit(begun, member(plan(tol=1.0)).newcomer) is not None
    assert combiner.admit(begun, member(plan(), rows=7).newcomer) is None
