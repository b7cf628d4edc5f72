"""Reading a DSL: what it gives, and one test per rule with the exact path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fedflow.domain.job.document import MAX_FINDINGS, Report
from fedflow.domain.job.dsl import Component, Ref, edges_of, parse_dsl

DSL: dict[str, Any] = {
    "provider": "fate@1.11.4",
    "components": {
        "reader_0": {"module": "Reader", "provider": "fate_flow", "output": {"data": ["data"]}},
        "intersection_0": {
            "module": "Intersection",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "cache": ["cache"]},
            "need_deploy": False,
            "CodePath": "ignored",
        },
        "lr_0": {
            "module": "HeteroLR",
            "input": {
                "data": {"train_data": ["intersection_0.data"], "validate_data": ["reader_0.data"]}
            },
            "output": {"data": ["data"], "model": ["lr"]},
        },
        "lr_1": {
            "module": "HeteroLR",
            "input": {
                "data": {"test_data": ["intersection_0.data", "reader_0.data"]},
                "model": ["lr_0.lr"],
                "isometric_model": ["lr_0.lr"],
                "cache": ["intersection_0.cache"],
            },
        },
    },
}
C = "$.dsl.components"
NO_SUCH = "InputComponentNotExistError"


def read(dsl: object) -> tuple[tuple[Component, ...], list[tuple[str, str]]]:
    report = Report()
    components = parse_dsl(dsl, report)
    return components, [(p.rule, p.path) for p in report.problems]


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the good DSL with one member replaced; the path is split at slashes."""
    dsl = copy.deepcopy(DSL)
    *parents, last = path.split("/")
    target: Any = dsl
    for key in parents:
        target = target[key]
    target[last] = value
    return dsl


def test_a_good_dsl_gives_its_components_in_order() -> None:
    components, problems = read(DSL)
    assert problems == []
    assert [c.name for c in components] == ["reader_0", "intersection_0", "lr_0", "lr_1"]
    reader, intersection, trained, applied = components
    assert (reader.provider, trained.provider) == ("fate_flow", "fate@1.11.4")
    assert intersection.cache_outputs == ("cache",)
    assert (intersection.need_deploy, trained.need_deploy) == (False, None)
    assert trained.data == {
        "train_data": (Ref("intersection_0", "data"),),
        "validate_data": (Ref("reader_0", "data"),),
    }
    assert applied.data["test_data"] == (Ref("intersection_0", "data"), Ref("reader_0", "data"))
    assert applied.model == applied.isometric_model == (Ref("lr_0", "lr"),)
    assert applied.cache == (Ref("intersection_0", "cache"),)
    assert str(applied.model[0]) == "lr_0.lr"
    assert set(edges_of(components)) == {
        ("reader_0", "intersection_0"),
        ("intersection_0", "lr_0"),
        ("reader_0", "lr_0"),
        ("intersection_0", "lr_1"),
        ("reader_0", "lr_1"),
        ("lr_0", "lr_1"),
    }


def test_an_input_of_null_and_an_empty_port_are_no_input() -> None:
    assert read(changed("components/lr_1/input", None))[1] == []
    components, problems = read(changed("components/lr_1/input", {"data": {"data": []}}))
    assert problems == []
    assert components[3].data == {}


@pytest.mark.parametrize("dsl", [{}, None, [], "{}", 5])
def test_a_dsl_must_be_an_object_with_members(dsl: object) -> None:
    assert read(dsl) == ((), [("DSLNotExistError", "$.dsl")])


@pytest.mark.parametrize("components", [None, {}, [], "x"])
def test_components_must_exist(components: object) -> None:
    assert read({"components": components})[1] == [("ComponentFieldNotExistError", C)]
    assert read({"provider": "fate"})[1] == [("ComponentFieldNotExistError", C)]


@pytest.mark.parametrize(
    ("path", "value", "rule", "where"),
    [
        ("components/lr_1", {}, "ModuleFieldNotExistError", ".lr_1.module"),
        ("components/lr_1", "HeteroLR", "ModuleFieldNotExistError", ".lr_1"),
        ("components/lr_1/module", 7, "ModuleFieldNotExistError", ".lr_1.module"),
        ("components/lr_1/module", "M" * 101, "ModuleFieldNotExistError", ".lr_1.module"),
        ("components/a b", {"module": "M"}, "NamingFormatError", '["a b"]'),
        ("components/größe", {"module": "M"}, "NamingFormatError", '["gr\\u00f6\\u00dfe"]'),
        ("components/", {"module": "M"}, "NamingFormatError", '[""]'),
        ("components/lr_1/output", None, "ComponentOutputTypeError", ".lr_1.output"),
        ("components/lr_1/output", ["data"], "ComponentOutputTypeError", ".lr_1.output"),
        (
            "components/lr_1/output",
            {"data": "data"},
            "ComponentOutputKeyTypeError",
            ".lr_1.output.data",
        ),
        (
            "components/lr_1/output",
            {"model": ["a.b"]},
            "NamingFormatError",
            ".lr_1.output.model[0]",
        ),
        ("components/lr_1/output", {"cache": [3]}, "NamingFormatError", ".lr_1.output.cache[0]"),
        (
            "components/lr_1/output",
            {"data": ["a", "b", "a"]},
            "DuplicateOutputName",
            ".lr_1.output.data[2]",
        ),
        ("components/lr_1/input", ["x"], "ComponentInputTypeError", ".lr_1.input"),
        (
            "components/lr_1/input/model",
            "lr_0.lr",
            "ComponentInputValueTypeError",
            ".lr_1.input.model",
        ),
        ("components/lr_1/input/model", ["lr_9.lr"], NO_SUCH, ".lr_1.input.model[0]"),
        (
            "components/lr_1/input/model",
            ["reader_0.lr"],
            "InputNameNotExistError",
            ".lr_1.input.model[0]",
        ),
        (
            "components/lr_1/input/model",
            ["lr_0.model"],
            "InputNameNotExistError",
            ".lr_1.input.model[0]",
        ),
        (
            "components/lr_1/input/isometric_model",
            ["lr_0.data"],
            "InputNameNotExistError",
            ".lr_1.input.isometric_model[0]",
        ),
        (
            "components/lr_1/input/cache",
            ["lr_0.cache"],
            "InputNameNotExistError",
            ".lr_1.input.cache[0]",
        ),
        ("components/lr_1/input/cache", {}, "ComponentInputValueTypeError", ".lr_1.input.cache"),
        (
            "components/lr_1/input/data",
            ["reader_0.data"],
            "ComponentInputDataTypeError",
            ".lr_1.input.data",
        ),
        (
            "components/lr_0/input/data/train_data",
            "reader_0.data",
            "ComponentInputValueTypeError",
            ".lr_0.input.data.train_data",
        ),
        (
            "components/lr_0/input/data/train_data",
            ["nobody.data"],
            NO_SUCH,
            ".lr_0.input.data.train_data[0]",
        ),
        (
            "components/lr_0/input/data/train_data",
            ["args.train_data"],
            NO_SUCH,
            ".lr_0.input.data.train_data[0]",
        ),
        (
            "components/lr_0/input/data/train_data",
            ["reader_0.table"],
            "InputNameNotExistError",
            ".lr_0.input.data.train_data[0]",
        ),
        (
            "components/lr_0/input/data/train_data",
            ["lr_0.data"],
            "LoopError",
            ".lr_0.input.data.train_data[0]",
        ),
        (
            "components/lr_0/input/data/train_data",
            ["reader_0"],
            "RefFormatError",
            ".lr_0.input.data.train_data[0]",
        ),
        (
            "components/lr_0/input/data/train_data",
            ["reader_0.data.x"],
            "RefFormatError",
            ".lr_0.input.data.train_data[0]",
        ),
        (
            "components/lr_0/input/data/train_data",
            [None],
            "RefFormatError",
            ".lr_0.input.data.train_data[0]",
        ),
        ("components/lr_1/provider", "fate@1@2", "ValueError", ".lr_1.provider"),
        ("components/lr_1/provider", "@1", "ValueError", ".lr_1.provider"),
        ("components/lr_1/provider", ["fate"], "ValueError", ".lr_1.provider"),
    ],
)
def test_one_mistake_is_reported_once_at_its_path(
    path: str, value: object, rule: str, where: str
) -> None:
    assert read(changed(path, value))[1] == [(rule, C + where)]


def test_an_input_that_is_listed_twice_is_taken_once_with_a_warning() -> None:
    report = Report()
    twice = changed("components/lr_0/input/data/train_data", ["reader_0.data", "reader_0.data"])
    parsed = {c.name: c for c in parse_dsl(twice, report)}
    once = changed("components/lr_0/input/data/train_data", ["reader_0.data"])
    assert parsed == {c.name: c for c in parse_dsl(once, Report())}
    assert report.problems == ()
    (warning,) = report.warnings
    assert (warning.code, warning.path) == (
        "DuplicateInput", C + ".lr_0.input.data.train_data[1]",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "code", "where"),
    [
        ("components/lr_1/output", {"metric": []}, "UnknownMember", C + ".lr_1.output.metric"),
        ("components/lr_1/input", {"modle": []}, "UnknownMember", C + ".lr_1.input.modle"),
        ("components/lr_0/input/data/extra", [], "UnknownPort", C + ".lr_0.input.data.extra"),
        ("components/lr_1/Module", "x", "UnknownMember", C + ".lr_1.Module"),
        ("version", 2, "UnknownMember", "$.dsl.version"),
    ],
)
def test_what_fate_does_not_read_is_ignored_with_a_warning(
    path: str, value: object, code: str, where: str
) -> None:
    report = Report()
    assert parse_dsl(changed(path, value), report)
    assert report.problems == ()
    assert [(one.code, one.path) for one in report.warnings] == [(code, where)]


def test_mistakes_on_top_have_their_path_too() -> None:
    assert read(changed("provider", "@1"))[1] == [("ValueError", "$.dsl.provider")]


def test_a_cycle_is_reported_as_a_chain() -> None:
    report = Report()
    parse_dsl(changed("components/intersection_0/input/data/data", ["lr_0.data"]), report)
    (problem,) = report.problems
    assert (problem.rule, problem.path) == ("LoopError", C)
    assert problem.message == "there is a cycle: lr_0->intersection_0->lr_0"


def test_all_mistakes_are_reported_at_once() -> None:
    dsl = changed("components/lr_0/module", None)
    dsl["components"]["lr_1"]["input"]["model"] = ["lr_0.x", "no.x"]
    dsl["components"]["reader_0"]["output"]["data"].append("data")
    components, problems = read(dsl)
    assert sorted(problems) == sorted(
        [
            ("ModuleFieldNotExistError", f"{C}.lr_0.module"),
            ("InputNameNotExistError", f"{C}.lr_1.input.model[0]"),
            (NO_SUCH, f"{C}.lr_1.input.model[1]"),
            ("DuplicateOutputName", f"{C}.reader_0.output.data[1]"),
        ]
    )
    assert [c.name for c in components] == ["intersection_0"]


def test_names_of_a_component_with_wrong_outputs_are_not_doubted() -> None:
    _, problems = read(changed("components/lr_0/output", "model"))
    assert problems == [("ComponentOutputTypeError", f"{C}.lr_0.output")]


def test_too_many_components_are_refused_without_reading_them() -> None:
    dsl = {"components": {f"c{i}": None for i in range(5_001)}}
    assert read(dsl) == ((), [("LimitExceeded", C)])
    assert len(read({"components": {f"c{i}": {"module": "M"} for i in range(5_000)}})[0]) == 5_000


def test_long_names_are_refused_and_cut_in_the_message() -> None:
    report = Report()
    parse_dsl({"components": {"x" * 50_000: {"module": "M", "input": 3}}}, report)
    assert {p.rule for p in report.problems} == {"NamingFormatError", "ComponentInputTypeError"}
    assert all(len(str(p)) < 300 for p in report.problems)


def test_the_list_of_problems_is_bounded_and_says_so() -> None:
    report = Report()
    parse_dsl({"components": {f"c{i}": None for i in range(4_000)}}, report)
    assert len(report.problems) == MAX_FINDINGS + 1
    assert report.problems[-1].message == "3000 more problems"
