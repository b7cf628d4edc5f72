"""Jobs of version 1: the rules of their own, and that they become the jobs that they meant."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.ids import PartyId
from fedflow.domain.job.conf import given_version
from fedflow.domain.job.document import Report
from fedflow.domain.job.dsl import parse_dsl
from fedflow.domain.job.formats import FORMATS, JobForm, as_strict, read_job
from fedflow.domain.job.parameters import PROCESSORS_KEY
from fedflow.domain.job.predict_conf import merge_predict_conf
from fedflow.domain.job.predict_dsl import deduce_predict_dsl
from fedflow.domain.job.spec import ModuleInfo, parse_job
from fedflow.domain.site import Role, Site
from tests.unit.domain.json_values import json_values, places

GUEST = Site(Role.GUEST, PartyId("9999"))
HOSTS = tuple(Site(Role.HOST, PartyId(party)) for party in ("10000", "10001"))
DSL: dict[str, Any] = {
    "components": {
        "dataio_0": {
            "module": "DataIO",
            "input": {"data": {"data": ["args.train_data"]}},
            "output": {"data": ["train"], "model": ["dataio"]},
            "need_deploy": True,
        },
        "hetero_lr_0": {
            "module": "HeteroLR",
            "input": {"data": {"train_data": ["dataio_0.train"], "eval_data": ["args.eval_data"]}},
            "output": {"data": ["train"], "model": ["hetero_lr"]},
        },
        "evaluation_0": {
            "module": "Evaluation",
            "input": {"data": {"data": ["hetero_lr_0.train"]}},
        },
    }
}
CONF: dict[str, Any] = {
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000, 10001], "arbiter": [10000]},
    "job_parameters": {"work_mode": 1, "task_cores": 2, "processors_per_node": 3},
    "role_parameters": {
        "guest": {
            "args": {
                "data": {
                    "train_data": [{"name": "g", "namespace": "demo"}],
                    "eval_data": [{"name": "ge", "namespace": "demo"}],
                }
            },
            "dataio_0": {"with_label": [True], "nested": {"x": [1]}},
        },
        "host": {
            "args": {
                "data": {
                    "train_data": [
                        {"name": "h0", "namespace": "demo"},
                        {"name": "h1", "namespace": "demo"},
                    ],
                    "eval_data": [
                        {"name": "he0", "namespace": "demo"},
                        {"name": "he1", "namespace": "demo"},
                    ],
                }
            },
            "dataio_0": {"with_label": [False, False], "nested": {"x": [2, 3]}},
        },
    },
    "algorithm_parameters": {"hetero_lr_0": {"max_iter": 5}},
}
D, C = "$.dsl.components", "$.conf"


def module(name: str, *, ports: tuple[str, ...], roles: tuple[Role, ...] = ()) -> ModuleInfo:
    return ModuleInfo(
        module=name,
        roles=roles or (Role.GUEST, Role.HOST),
        data_ports=ports,
        needs_input=bool(ports),
        outputs=("data", "model"),
    )


TRAINING = ("train_data", "validate_data", "test_data", "eval_data")
MODULES = {
    "reader": module("Reader", ports=()),
    "dataio": module("DataTransform", ports=("data",)),
    "heterolr": module("HeteroLR", ports=TRAINING, roles=(Role.GUEST, Role.HOST, Role.ARBITER)),
    "evaluation": module("Evaluation", ports=("data",)),
    "tool": module("Tool", ports=("data",)),
}


def put(document: Any, path: str, value: Any) -> Any:
    """Return a copy with one member replaced; the path is split at slashes."""
    changed = copy.deepcopy(document)
    *parents, last = path.split("/")
    target = changed
    for key in parents:
        target = target[key]
    target[last] = value
    return changed


def problems(dsl: object, conf: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobSpec) as caught:
        read_job(dsl, conf)
    return [(p.rule, p.path) for p in caught.value.problems]


def test_a_job_of_version_2_stays_as_it_is() -> None:
    conf = {"dsl_version": "2"}
    form = read_job(DSL, conf)
    assert form == JobForm(dsl=DSL, conf=conf, version=2, mode="train", warnings=())


def test_the_data_of_the_conf_comes_from_readers() -> None:
    form = read_job(DSL, CONF)
    dsl: Any = form.dsl
    assert form.version == 1
    assert list(dsl["components"])[:2] == ["reader_0", "reader_1"]
    reader = {"module": "Reader", "output": {"data": ["train_data"]}}
    assert dsl["components"]["reader_0"] == reader
    assert dsl["components"]["dataio_0"]["input"] == {"data": {"data": ["reader_0.train_data"]}}
    assert dsl["components"]["hetero_lr_0"]["input"]["data"]["eval_data"] == ["reader_1.eval_data"]
    assert [one.message for one in form.warnings] == [
        "args.train_data is read by a new component, reader_0",
        "args.eval_data is read by a new component, reader_1",
    ]


def test_a_converted_job_gives_each_site_what_version_1_meant() -> None:
    form = read_job(DSL, CONF)
    spec = parse_job(form.dsl, form.conf, modules=MODULES, warnings=form.warnings)
    assert spec.warnings[: len(form.warnings)] == form.warnings
    for site, names in zip((GUEST, *HOSTS), (("g", "ge"), ("h0", "he0"), ("h1", "he1"))):
        for reader, name in zip(("reader_0", "reader_1"), names):
            table = {"name": name, "namespace": "demo"}
            assert spec.component_parameters(reader, site) == {"table": table}
    first = {"with_label": True, "nested": {"x": 1}}
    assert spec.component_parameters("dataio_0", GUEST) == first
    second = {"with_label": False, "nested": {"x": 3}}
    assert spec.component_parameters("dataio_0", HOSTS[1]) == second
    assert spec.component_parameters("hetero_lr_0", HOSTS[0]) == {"max_iter": 5}
    parameters = spec.job_parameters_at(GUEST)
    assert (parameters.task_cores, parameters.dsl_version) == (2, 1)
    assert parameters.eggroll_run == {PROCESSORS_KEY: 3}
    assert (given_version(CONF), given_version(form.conf)) == (2, 1)


def test_reading_changes_nothing_that_was_given() -> None:
    before = copy.deepcopy((DSL, CONF))
    form = read_job(DSL, CONF)
    conf: Any = form.conf
    conf["component_parameters"]["common"]["hetero_lr_0"]["max_iter"] = 6
    assert before == (DSL, CONF)


def test_a_converted_job_of_version_2_is_not_converted_again() -> None:
    form = read_job(DSL, CONF)
    again = read_job(form.dsl, form.conf)
    assert (again.dsl, again.conf, again.version) == (form.dsl, form.conf, 2)


def test_new_readers_avoid_names_that_are_taken() -> None:
    dsl = put(DSL, "components/reader_0", {"module": "Reader", "output": {"data": ["own"]}})
    conf = put(CONF, "role_parameters/guest/reader_0", {"table": [{"name": "own"}]})
    form = read_job(dsl, conf)
    components: Any = form.dsl
    assert {"reader_0", "reader_1", "reader_2"} < set(components["components"])
    by_index: Any = form.conf["component_parameters"]
    assert by_index["role"]["guest"]["0"]["reader_0"] == {"table": {"name": "own"}}


@pytest.mark.parametrize(
    ("path", "value", "rule", "where"),
    [
        ("components/dataio", {"module": "DataIO"}, "NamingError", f"{D}.dataio"),
        ("components/dataio_1", {"module": "Tool"}, "ComponentMultiMappingError", f"{D}.dataio_1"),
        ("components/other_0", {"module": "DataIO"}, "ComponentMultiMappingError", f"{D}.other_0"),
        ("components/dataio_2", {"module": "DataIO"}, "NamingIndexError", D),
        ("components/dataio_00", {"module": "DataIO"}, "NamingIndexError", D),
        (
            "components/dataio_0/input/data/data",
            ["args.other"],
            "DataNotExistInSubmitConfError",
            f"{C}.role_parameters",
        ),
        (
            "components/dataio_0/input/data/data",
            ["args."],
            "RefFormatError",
            f"{D}.dataio_0.input.data.data[0]",
        ),
        (
            "components/dataio_0/input/data/data",
            ["nobody.data"],
            "InputComponentNotExistError",
            f"{D}.dataio_0.input.data.data[0]",
        ),
    ],
)
def test_a_dsl_of_version_1_has_rules_of_its_own(
    path: str, value: object, rule: str, where: str
) -> None:
    assert problems(put(DSL, path, value), CONF) == [(rule, where)]


@pytest.mark.parametrize(
    ("path", "value", "rule", "where"),
    [
        (
            "role_parameters/host/dataio_0/with_label",
            False,
            "RoleParameterNotListError",
            "role_parameters.host.dataio_0.with_label",
        ),
        (
            "role_parameters/host/dataio_0/nested/x",
            [1, 2, 3],
            "RoleParameterNotConsistencyError",
            "role_parameters.host.dataio_0.nested.x",
        ),
        (
            "role_parameters/host/args/data/train_data",
            [{}],
            "RoleParameterNotConsistencyError",
            "role_parameters.host.args.data.train_data",
        ),
        (
            "role_parameters/host/args/data",
            5,
            "ParametersTypeError",
            "role_parameters.host.args.data",
        ),
        (
            "role_parameters/host/dataio_0",
            [],
            "ParametersTypeError",
            "role_parameters.host.dataio_0",
        ),
        (
            "algorithm_parameters/hetero_lr_0",
            5,
            "ParametersTypeError",
            "algorithm_parameters.hetero_lr_0",
        ),
        ("algorithm_parameters", [], "ParametersTypeError", "algorithm_parameters"),
        ("component_parameters", {"common": {}}, "DSLVersionError", "component_parameters"),
        ("dsl_version", 3, "DSLVersionError", "dsl_version"),
        ("dsl_version", None, "DSLVersionError", "dsl_version"),
        ("dsl_version", True, "DSLVersionError", "dsl_version"),
    ],
)
def test_a_conf_of_version_1_has_rules_of_its_own(
    path: str, value: object, rule: str, where: str
) -> None:
    assert problems(DSL, put(CONF, path, value)) == [(rule, f"{C}.{where}")]


def test_parameters_of_a_component_that_the_dsl_does_not_have_are_a_warning() -> None:
    conf = put(CONF, "algorithm_parameters/other_0", {"x": 1})
    conf = put(conf, "role_parameters/guest/other_0", {"x": [1]})
    form = read_job(DSL, conf)
    warned = [one.path for one in form.warnings]
    assert f"{C}.algorithm_parameters.other_0" in warned
    assert f"{C}.role_parameters.guest.other_0" in warned
    assert parse_job(form.dsl, form.conf, modules=MODULES)


@pytest.mark.parametrize("role", ["boss", "local"])
def test_parameters_of_a_role_that_the_job_does_not_have_are_a_warning(role: str) -> None:
    form = read_job(DSL, put(CONF, f"role_parameters/{role}", {}))
    warned = [(one.code, one.path) for one in form.warnings]
    assert ("UnknownRole", f"{C}.role_parameters.{role}") in warned
    assert parse_job(form.dsl, form.conf, modules=MODULES)


@pytest.mark.parametrize(
    ("conf", "strict"),
    [
        ({"dsl_version": 2}, {"common": {"strict": True}}),
        (
            {"dsl_version": 2, "job_parameters": {"common": {"task_cores": 1}, "role": {}}},
            {"common": {"task_cores": 1, "strict": True}, "role": {}},
        ),
        ({"job_parameters": {"work_mode": 0}}, {"work_mode": 0, "strict": True}),
        (
            {"dsl_version": "1", "job_parameters": {"common": {"work_mode": 0}}},
            {"common": {"work_mode": 0, "strict": True}},
        ),
    ],
)
def test_a_conf_of_either_version_becomes_strict(conf: Any, strict: Any) -> None:
    given = copy.deepcopy(conf)
    assert as_strict(conf) == {**conf, "job_parameters": strict}
    assert conf == given


@pytest.mark.parametrize(
    "conf", [None, [1], {"job_parameters": 5}, {"dsl_version": 2, "job_parameters": {"common": 5}}]
)
def test_what_is_no_conf_is_left_to_the_reader(conf: object) -> None:
    assert as_strict(conf) is conf


def test_what_is_wrong_in_both_versions_is_found_after_the_conversion() -> None:
    form = read_job(DSL, put(CONF, "job_parameters", 5))
    with pytest.raises(InvalidJobSpec) as caught:
        parse_job(form.dsl, form.conf, modules=MODULES)
    assert [(p.rule, p.path) for p in caught.value.problems] == [
        ("ParametersTypeError", f"{C}.job_parameters")
    ]


@pytest.mark.parametrize("conf", [None, [], "x", {1: 2}])
def test_a_conf_that_is_no_json_object_is_refused(conf: object) -> None:
    with pytest.raises(InvalidJobSpec):
        read_job(DSL, conf)


PREDICT_CONF: dict[str, Any] = {
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10001], "arbiter": [10000]},
    "job_parameters": {"job_type": "predict", "model_id": "m", "model_version": "1"},
    "role_parameters": {
        "guest": {"args": {"data": {"eval_data": [{"name": "new_g", "namespace": "demo"}]}}},
        "host": {"args": {"data": {"eval_data": [{"name": "new_h", "namespace": "demo"}]}}},
    },
}


def test_a_model_of_version_1_predicts_with_a_conf_of_version_1() -> None:
    trained = read_job(DSL, CONF)
    conf: Any = trained.conf
    predict_dsl = deduce_predict_dsl(trained.dsl, version=given_version(conf))
    assert list(predict_dsl["components"]) == ["reader_0", "reader_1", "dataio_0", "hetero_lr_0"]  # type: ignore[call-overload]
    form = read_job(predict_dsl, PREDICT_CONF)
    assert (form.dsl, form.mode) == (predict_dsl, "predict")
    spec = parse_job(form.dsl, merge_predict_conf(conf, form.conf)[0], modules=MODULES)
    assert spec.mode == "predict"
    assert [str(ref) for ref in spec.component("hetero_lr_0").stored_models] == [
        "hetero_lr_0.hetero_lr"
    ]
    table = {"name": "new_h", "namespace": "demo"}
    assert spec.component_parameters("reader_1", HOSTS[1]) == {"table": table}
    assert spec.component_parameters("dataio_0", HOSTS[1])["nested"] == {"x": 3}


def test_evaluation_data_feeds_whatever_reader_the_converted_job_has() -> None:
    dsl = put(DSL, "components/hetero_lr_0/input/data", {"train_data": ["dataio_0.train"]})
    trained = read_job(dsl, CONF)
    predict_dsl = deduce_predict_dsl(trained.dsl, version=1)
    conf: Any = read_job(predict_dsl, PREDICT_CONF).conf
    table = {"name": "new_g", "namespace": "demo"}
    assert conf["component_parameters"]["role"]["guest"]["0"]["reader_0"] == {"table": table}


def test_a_predict_dsl_of_version_1_is_converted_too() -> None:
    predict_dsl = deduce_predict_dsl(DSL, version=1)
    form = read_job(predict_dsl, PREDICT_CONF)
    dsl: Any = form.dsl
    conf: Any = form.conf
    data = dsl["components"]["dataio_0"]["input"]["data"]
    assert data == {"data": ["reader_0.eval_data"]}
    table = {"name": "new_g", "namespace": "demo"}
    assert conf["component_parameters"]["role"]["guest"]["0"]["reader_0"] == {"table": table}


# --- properties ---------------------------------------------------------------------------------

WORDS = [
    *(
        "components",
        "module",
        "input",
        "output",
        "data",
        "model",
        "args.train_data",
        "args",
        "role",
    ),
    *("guest", "host", "initiator", "role_parameters", "algorithm_parameters", "job_parameters"),
    *("dataio_0", "dsl_version", "train_data", "common", "job_type", "predict", "1", "2"),
]
JSON_VALUES = json_values(WORDS)


def read_whole(dsl: object, conf: object) -> None:
    """Read a job as a submit does."""
    with contextlib.suppress(InvalidJobSpec):
        form = read_job(dsl, conf)
        parse_job(form.dsl, form.conf, modules=MODULES)


@given(JSON_VALUES, JSON_VALUES, st.sampled_from(list(FORMATS)))
def test_any_json_gives_a_job_or_a_list_of_problems(dsl: Any, conf: Any, version: str) -> None:
    if isinstance(conf, dict):
        conf["dsl_version"] = version
    read_whole(dsl, conf)


@given(st.data())
def test_a_good_job_of_version_1_with_members_replaced_gives_a_job_or_problems(
    data: st.DataObject,
) -> None:
    pair = copy.deepcopy([DSL, data.draw(st.sampled_from([CONF, PREDICT_CONF]))])
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(pair)))
        container[key] = data.draw(JSON_VALUES)
    read_whole(pair[0], pair[1])
    with contextlib.suppress(InvalidJobSpec):
        merge_predict_conf(read_job(DSL, CONF).conf, pair[1])


@given(st.data())
def test_a_random_job_of_version_1_becomes_one_of_version_2_that_reads(data: st.DataObject) -> None:
    keys = ["train_data", "eval_data", "more"]
    components: dict[str, Any] = {}
    for i in range(data.draw(st.integers(1, 8))):
        sources = [f"args.{key}" for key in keys] + [f"tool_{j}.x" for j in range(i)]
        refs = data.draw(st.lists(st.sampled_from(sources), unique=True, min_size=1, max_size=3))
        components[f"tool_{i}"] = {
            "module": "Tool",
            "input": {"data": {"data": refs}},
            "output": {"data": ["x"], "model": ["m"]},
            "need_deploy": data.draw(st.booleans()),
        }
    hosts = data.draw(st.lists(st.integers(1, 50), unique=True, min_size=1, max_size=4))

    def tables(role: str, count: int) -> dict[str, Any]:
        names = [{"name": f"{role}{i}", "namespace": "n"} for i in range(count)]
        return dict.fromkeys(keys, names)

    conf = {
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": hosts},
        "job_parameters": {"work_mode": 1},
        "role_parameters": {
            "guest": {"args": {"data": tables("g", 1)}},
            "host": {
                "args": {"data": tables("h", len(hosts))},
                "tool_0": {"number": list(range(len(hosts)))},
            },
        },
        "algorithm_parameters": {"tool_0": {"common": 1}},
    }
    form = read_job({"components": components}, conf)
    spec = parse_job(form.dsl, form.conf, modules=MODULES)
    assert {c.name for c in spec.components} >= components.keys()
    for i, host in enumerate(hosts):
        site = Site(Role.HOST, PartyId(str(host)))
        assert spec.component_parameters("tool_0", site) == {"common": 1, "number": i}
        for component in spec.components:
            if component.module == "Reader":
                table = {"name": f"h{i}", "namespace": "n"}
                assert spec.component_parameters(component.name, site) == {"table": table}
    if any(raw["need_deploy"] for raw in components.values()):
        predict_dsl = deduce_predict_dsl(form.dsl, version=1)
        report = Report()
        parse_dsl(predict_dsl, report, mode="predict")
        assert report.problems == ()
