"""Deducing a predict DSL: the worked examples, each rule, and what must never happen."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.domain.job.document import Report
from fedflow.domain.job.dsl import Ref, parse_dsl
from fedflow.domain.job.predict_dsl import deduce_predict_dsl

V1: dict[str, Any] = {
    "components": {
        "dataio_0": {
            "module": "DataIO",
            "input": {"data": {"data": ["args.train_data"]}},
            "output": {"data": ["rows"], "model": ["io_model"]},
            "need_deploy": True,
        },
        "fsample_0": {
            "module": "FederatedSample",
            "input": {"data": {"data": ["dataio_0.rows"]}},
            "output": {"data": ["rows"]},
        },
        "hetero_lr_0": {
            "module": "HeteroLR",
            "input": {"data": {"train_data": ["fsample_0.rows"]}},
            "output": {"data": ["pred"], "model": ["lr"]},
        },
        "evaluation_0": {
            "module": "Evaluation",
            "input": {"data": {"data": ["hetero_lr_0.pred"]}},
        },
    }
}
V1_PREDICT: dict[str, Any] = {
    "components": {
        "dataio_0": {
            "module": "DataIO",
            "input": {
                "model": ["pipeline.dataio_0.io_model"],
                "data": {"data": ["args.eval_data"]},
            },
            "output": {"data": ["rows"]},
        },
        "hetero_lr_0": {
            "module": "HeteroLR",
            "input": {
                "model": ["pipeline.hetero_lr_0.lr"],
                "data": {"test_data": ["dataio_0.rows"]},
            },
            "output": {"data": ["pred"]},
        },
    }
}
V2: dict[str, Any] = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["table"]}},
        "clean_0": {
            "module": "DataTransform",
            "input": {"data": {"data": ["reader_0.table"]}},
            "output": {"data": ["clean"], "model": ["rules"]},
        },
        "align_0": {
            "module": "Intersection",
            "input": {"data": {"data": ["clean_0.clean"]}},
            "output": {"data": ["joined"]},
        },
        "split_0": {
            "module": "HeteroDataSplit",
            "input": {"data": {"data": ["align_0.joined"]}},
            "output": {"data": ["train_data", "validate_data", "test_data"]},
        },
        "lr_0": {
            "module": "HeteroLR",
            "input": {
                "data": {
                    "train_data": ["split_0.train_data"],
                    "validate_data": ["split_0.validate_data"],
                }
            },
            "output": {"data": ["scores"], "model": ["weights"]},
        },
        "lr_1": {
            "module": "HeteroLR",
            "input": {"data": {"test_data": ["split_0.test_data"]}, "model": ["lr_0.weights"]},
            "output": {"data": ["scores"]},
        },
        "eval_0": {
            "module": "Evaluation",
            "input": {"data": {"data": ["lr_0.scores", "lr_1.scores"]}},
            "output": {"data": ["report"]},
        },
    }
}
DEPLOYED = ["reader_0", "clean_0", "align_0", "lr_0"]
V2_PREDICT: dict[str, Any] = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["table"]}},
        "clean_0": {
            "module": "DataTransform",
            "input": {"model": ["pipeline.clean_0.rules"], "data": {"data": ["reader_0.table"]}},
            "output": {"data": ["clean"]},
        },
        "align_0": {
            "module": "Intersection",
            "input": {"data": {"data": ["clean_0.clean"]}},
            "output": {"data": ["joined"]},
        },
        "lr_0": {
            "module": "HeteroLR",
            "input": {
                "model": ["pipeline.lr_0.weights"],
                "data": {"test_data": ["align_0.joined"]},
            },
            "output": {"data": ["scores"]},
        },
    }
}
C = "$.dsl.components"


def component(dsl: Any, name: str) -> Any:
    return dsl["components"][name]


def problems(dsl: object, deployed: Any = None, *, version: int = 2) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobSpec) as caught:
        deduce_predict_dsl(dsl, deployed, version=version)
    return [(p.rule, p.path) for p in caught.value.problems]


def predict_problems(dsl: object, *, version: int = 2) -> list[tuple[str, str]]:
    report = Report()
    parse_dsl(dsl, report, mode="predict", version=version)
    return [(p.rule, p.path) for p in report.problems]


def test_version_1_is_deduced_by_itself() -> None:
    assert deduce_predict_dsl(V1, version=1) == V1_PREDICT
    assert predict_problems(V1_PREDICT, version=1) == []


def test_version_2_keeps_what_is_listed() -> None:
    deduced = deduce_predict_dsl(V2, DEPLOYED)
    assert deduced == V2_PREDICT
    assert list(component(deduced, "lr_0")) == ["module", "input", "output"]
    assert predict_problems(V2_PREDICT) == []


def test_without_its_reader_a_component_has_no_data_to_be_filled_in_by_the_user() -> None:
    deduced = deduce_predict_dsl(V2, DEPLOYED[1:])
    assert component(deduced, "clean_0")["input"] == {"model": ["pipeline.clean_0.rules"]}


def test_a_component_that_goes_is_replaced_by_its_input() -> None:
    deduced = deduce_predict_dsl(V2, [*DEPLOYED, "eval_0"])
    data = component(deduced, "eval_0")["input"]["data"]
    assert data == {"data": ["lr_0.scores", "align_0.joined"]}


def test_all_components_stay_if_none_are_listed() -> None:
    deduced = deduce_predict_dsl(V2)
    assert list(deduced["components"]) == list(V2["components"])  # type: ignore[call-overload]
    data = {"test_data": ["split_0.train_data"]}
    assert component(deduced, "lr_0")["input"]["data"] == data
    assert component(deduced, "lr_1")["input"] == {"data": {"test_data": ["split_0.test_data"]}}


def test_every_output_of_a_component_that_goes_is_bypassed() -> None:
    deduced = deduce_predict_dsl(V2, ["align_0", "lr_1", "lr_0"])
    assert component(deduced, "lr_1")["input"]["data"] == {"test_data": ["align_0.joined"]}


def test_two_bypasses_that_lead_to_one_table_name_it_once() -> None:
    deduced = deduce_predict_dsl(V2, ["reader_0", "clean_0", "align_0", "eval_0"])
    assert component(deduced, "eval_0")["input"] == {"data": {"data": ["align_0.joined"]}}


def test_evaluation_data_alone_is_data_to_predict_with() -> None:
    dsl = copy.deepcopy(V2)
    dsl["components"]["lr_0"]["input"]["data"] = {"eval_data": ["align_0.joined"]}
    assert deduce_predict_dsl(dsl, DEPLOYED) == V2_PREDICT


def test_external_data_behind_a_component_that_goes_becomes_evaluation_data() -> None:
    dsl = copy.deepcopy(V1)
    dsl["components"]["dataio_0"]["need_deploy"] = False
    lr = component(deduce_predict_dsl(dsl, version=1), "hetero_lr_0")
    assert lr["input"]["data"] == {"test_data": ["args.eval_data"]}


def test_in_version_1_the_modules_default_decides_what_the_component_leaves_open() -> None:
    keeps = {"evaluation": True, "heterolr": False}
    deduced = deduce_predict_dsl(V1, version=1, keeps=keeps)
    assert list(deduced["components"]) == ["dataio_0", "evaluation_0"]  # type: ignore[call-overload]
    data = component(deduced, "evaluation_0")["input"]["data"]
    assert data == {"data": ["dataio_0.rows"]}


def test_a_chosen_provider_is_kept() -> None:
    dsl = copy.deepcopy(V2) | {"provider": "fate"}
    dsl["components"]["lr_0"]["provider"] = "fate@1.11.4"
    deduced = deduce_predict_dsl(dsl, DEPLOYED)
    assert deduced["provider"] == "fate"
    assert component(deduced, "lr_0")["provider"] == "fate@1.11.4"


def test_a_cache_comes_along_with_the_component_that_made_it() -> None:
    dsl = copy.deepcopy(V2)
    dsl["components"]["align_0"]["output"]["cache"] = ["ids"]
    dsl["components"]["lr_0"]["input"]["cache"] = ["align_0.ids"]
    deduced = deduce_predict_dsl(dsl, DEPLOYED)
    assert component(deduced, "align_0")["output"] == {"data": ["joined"], "cache": ["ids"]}
    assert component(deduced, "lr_0")["input"]["cache"] == ["align_0.ids"]
    path = f"{C}.lr_0.input.cache[0]"
    assert problems(dsl, ["lr_0"]) == [("InputComponentNotExistError", path)]


@pytest.mark.parametrize(
    ("deployed", "path"),
    [([], "$.cpn_list"), (["lr_0", "lr_7"], "$.cpn_list[1]"), ([["lr_0"]], "$.cpn_list[0]")],
)
def test_the_list_names_components_of_the_dsl(deployed: list[Any], path: str) -> None:
    assert ("DeployComponentNotExistError", path) in problems(V2, deployed)


def test_a_wrong_training_dsl_is_refused_with_its_paths() -> None:
    assert problems({"components": {"a": {}}}) == [("ModuleFieldNotExistError", f"{C}.a.module")]
    assert problems([1]) == [("DSLNotExistError", "$.dsl")]
    assert problems(V1, version=2) == [
        ("InputComponentNotExistError", f"{C}.dataio_0.input.data.data[0]")
    ]


def test_version_1_leaves_nothing_if_nothing_needs_to_be_deployed() -> None:
    dsl = {"components": {"evaluation_0": {"module": "Evaluation"}}}
    assert problems(dsl, version=1) == [("DeployComponentNotExistError", C)]


def test_a_predict_dsl_by_hand_may_add_components_and_names_stored_models() -> None:
    dsl = copy.deepcopy(V2_PREDICT)
    dsl["components"]["report_0"] = {
        "module": "Evaluation",
        "input": {"data": {"data": ["lr_0.scores"]}},
        "output": {"data": ["report"]},
    }
    report = Report()
    components = {c.name: c for c in parse_dsl(dsl, report, mode="predict")}
    assert report.problems == ()
    assert components["lr_0"].stored_models == (Ref("lr_0", "weights"),)
    assert components["lr_0"].model == ()
    assert components["lr_0"].refs == (Ref("align_0", "joined"),)
    trained = Report()
    parse_dsl(dsl, trained)
    assert [(p.rule, p.path) for p in trained.problems] == [
        ("InputComponentNotExistError", f"{C}.clean_0.input.model[0]"),
        ("InputComponentNotExistError", f"{C}.lr_0.input.model[0]"),
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("pipeline.lr_0", "InputComponentNotExistError"),
        ("pipeline.lr_0.", "RefFormatError"),
        ("pipeline.lr 0.weights", "RefFormatError"),
        ("pipeline.lr_0.weights.more", "RefFormatError"),
        ("clean_0.rules", "InputNameNotExistError"),
    ],
)
def test_a_reference_to_a_stored_model_has_three_parts(text: str, rule: str) -> None:
    dsl = copy.deepcopy(V2_PREDICT)
    dsl["components"]["lr_0"]["input"]["model"] = [text]
    assert predict_problems(dsl) == [(rule, f"{C}.lr_0.input.model[0]")]


def test_a_stored_model_is_no_data() -> None:
    dsl = copy.deepcopy(V2_PREDICT)
    dsl["components"]["lr_0"]["input"]["data"]["test_data"] = ["pipeline.lr_0.weights"]
    path = f"{C}.lr_0.input.data.test_data[0]"
    assert predict_problems(dsl) == [("InputComponentNotExistError", path)]


def test_a_stored_model_that_is_listed_twice_is_taken_once() -> None:
    dsl = copy.deepcopy(V2_PREDICT)
    dsl["components"]["lr_0"]["input"]["model"] *= 2
    assert predict_problems(dsl) == []


MODULES = st.sampled_from(["Reader", "DataIO", "HeteroLR", "Evaluation", "FederatedSample"])
PORTS = st.sampled_from(["data", "train_data", "validate_data", "test_data", "eval_data"])


@st.composite
def training_dsls(draw: st.DrawFn, *, version: int) -> dict[str, Any]:
    """Draw an acyclic DSL with data, models and caches, and in version 1 external data."""
    components: dict[str, Any] = {}
    given_data = ["args.train_data", "args.eval_data"] if version == 1 else []
    models: list[str] = []
    caches: list[str] = []
    for i in range(draw(st.integers(1, 8))):
        name = f"c_{i}"
        raw: dict[str, Any] = {"module": draw(MODULES)}
        ports = draw(st.dictionaries(PORTS, st.just(None), max_size=3)) if given_data else {}
        data = {
            p: draw(st.lists(st.sampled_from(given_data), unique=True, max_size=3)) for p in ports
        }
        raw["input"] = {"data": data}
        if models:
            raw["input"]["model"] = draw(st.lists(st.sampled_from(models), unique=True, max_size=2))
        if caches and draw(st.integers(0, 4)) == 0:
            raw["input"]["cache"] = [draw(st.sampled_from(caches))]
        raw["output"] = {"data": draw(st.sampled_from([[], ["x"], ["x", "y", "z"]]))}
        if draw(st.booleans()):
            raw["output"]["model"] = ["m"]
            models.append(f"{name}.m")
        if draw(st.integers(0, 4)) == 0:
            raw["output"]["cache"] = ["k"]
            caches.append(f"{name}.k")
        if draw(st.booleans()):
            raw["need_deploy"] = draw(st.booleans())
        given_data = [*given_data, *(f"{name}.{output}" for output in raw["output"]["data"])]
        components[name] = raw
    names = draw(st.permutations(list(components)))
    return {"components": {name: components[name] for name in names}}


@given(st.data(), st.sampled_from([1, 2]))
def test_a_deduced_dsl_always_reads_as_a_predict_dsl(data: st.DataObject, version: int) -> None:
    dsl = data.draw(training_dsls(version=version))
    before = copy.deepcopy(dsl)
    names = list(dsl["components"])
    listed = st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True)
    deployed = data.draw(listed)
    deduced, found = None, []
    try:
        deduced = deduce_predict_dsl(dsl, deployed, version=version)
    except InvalidJobSpec as error:
        found = [(p.rule, p.path) for p in error.problems]
    assert dsl == before
    if deduced is None:
        dangling = [path for rule, path in found if rule == "InputComponentNotExistError"]
        assert all(".cache[" in path for path in dangling)
        assert dangling or found == [("DeployComponentNotExistError", C)]
        return
    assert predict_problems(deduced, version=version) == []
    if version == 2:
        kept: Any = deduced["components"]
        assert set(kept) == set(names if deployed is None else deployed)
