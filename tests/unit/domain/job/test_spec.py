"""A submitted job as a whole: sites, parameters per site, rules over both files, hostile input."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.ids import PartyId
from fedflow.domain.job.parameters import JobParameters
from fedflow.domain.job.spec import JobSpec, ModuleInfo, model_id, model_id_of, parse_job
from fedflow.domain.site import Role, Site
from tests.unit.domain.json_values import json_values, places

EXAMPLE = Path(__file__).parents[4] / "examples" / "hetero_lr"
BOTH = (Role.GUEST, Role.HOST)
ALL = (*BOTH, Role.ARBITER)
TRAINING = ("train_data", "validate_data", "test_data", "eval_data")


def module(
    name: str,
    *,
    roles: tuple[Role, ...] = BOTH,
    ports: tuple[str, ...] = ("data",),
    needs_input: bool = True,
    outputs: tuple[str, ...] = ("data", "model"),
) -> ModuleInfo:
    return ModuleInfo(
        module=name, roles=roles, data_ports=ports, needs_input=needs_input, outputs=outputs
    )


MODULES = {
    m.module.lower(): m
    for m in (
        module("Reader", ports=(), needs_input=False, outputs=("data",)),
        module("DataTransform"),
        module("Intersection", outputs=("data",)),
        module("HeteroLR", roles=ALL, ports=TRAINING),
        module("HeteroKmeans", roles=ALL, ports=TRAINING),
        module("Tool", roles=ALL, ports=("data", *TRAINING), needs_input=False),
        module("Evaluation", outputs=()),
        module("Upload", roles=(Role.LOCAL,), ports=(), needs_input=False),
    )
}
MODULES["dataio"] = MODULES["datatransform"]

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
HOST_1 = Site(Role.HOST, PartyId("10001"))
ARBITER = Site(Role.ARBITER, PartyId("10000"))


def conf(hosts: tuple[int, ...] = (10000,), arbiter: int | None = 10000) -> dict[str, Any]:
    roles: dict[str, Any] = {"guest": [9999], "host": list(hosts)}
    if arbiter is not None:
        roles["arbiter"] = [arbiter]
    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": roles,
        "component_parameters": {},
    }


def dsl(**components: Any) -> dict[str, Any]:
    return {"components": components}


def reader() -> dict[str, Any]:
    return {"module": "Reader", "output": {"data": ["data"]}}


def takes(module_name: str, port: str = "data", *, source: str = "r.data") -> dict[str, Any]:
    return {
        "module": module_name,
        "input": {"data": {port: [source]}},
        "output": {"data": ["data"], "model": ["model"]},
    }


def problems(dsl_: object, conf_: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobSpec) as caught:
        parse_job(dsl_, conf_, modules=MODULES)
    return [(p.rule, p.path) for p in caught.value.problems]


def example() -> JobSpec:
    dsl_ = json.loads((EXAMPLE / "dsl.json").read_text())
    conf_ = json.loads((EXAMPLE / "conf.json").read_text())
    return parse_job(dsl_, conf_, modules=MODULES)


def test_the_example_is_a_job_of_three_sites_without_mistakes() -> None:
    spec = example()
    assert spec.initiator == GUEST
    assert spec.sites == (GUEST, HOST, ARBITER)
    assert spec.dag.order == (
        "reader_0",
        "data_transform_0",
        "intersection_0",
        "hetero_lr_0",
        "evaluation_0",
    )
    assert spec.sites_of("hetero_lr_0") == (GUEST, HOST, ARBITER)
    assert spec.sites_of("reader_0") == (GUEST, HOST)
    assert spec.modules["hetero_lr_0"].module == "HeteroLR"
    assert model_id(spec) == "arbiter-10000#guest-9999#host-10000#model"
    assert spec.warnings == ()


def test_the_example_gives_every_site_its_own_parameters() -> None:
    spec = example()
    table = {"name": "breast_hetero_host", "namespace": "experiment"}
    assert spec.component_parameters("reader_0", HOST) == {"table": table}
    assert spec.component_parameters("reader_0", ARBITER) == {}
    assert spec.component_parameters("data_transform_0", GUEST)["label_name"] == "y"
    trained = spec.component_parameters("hetero_lr_0", ARBITER)
    assert (trained["max_iter"], trained["batch_size"]) == (30, 320)
    assert spec.job_parameters_at(HOST).task_cores == 1
    assert spec.component("hetero_lr_0").data["train_data"][0].component == "intersection_0"


def test_parameters_are_merged_by_index_key_in_file_order() -> None:
    conf_ = conf(hosts=(10000, 10001))
    conf_["component_parameters"] = {
        "common": {"a": {"x": 1, "nest": {"p": 1, "q": 1}, "list": [1, 2]}},
        "role": {
            "host": {
                "all": {"a": {"x": 2, "nest": {"q": 2}}},
                "1": {"a": {"x": 3, "nest": {"r": 3}, "list": [9]}},
                "0|1": {"a": {"y": 4, "nest": 5}},
                "0": {"a": {"nest": {"s": 6}}},
            }
        },
    }
    spec = parse_job(dsl(a={"module": "Reader"}), conf_, modules=MODULES)
    assert spec.component_parameters("a", GUEST) == conf_["component_parameters"]["common"]["a"]
    host = spec.component_parameters("a", HOST)
    assert host == {"x": 2, "y": 4, "nest": {"s": 6}, "list": [1, 2]}
    assert spec.component_parameters("a", HOST_1) == {"x": 3, "y": 4, "nest": 5, "list": [9]}


def test_objects_deeper_than_5_levels_are_replaced_whole() -> None:
    def nested(leaf: dict[str, int]) -> dict[str, Any]:
        return {"l1": {"l2": {"l3": {"l4": {"l5": leaf}}}}}

    conf_ = conf()
    conf_["component_parameters"] = {
        "common": {"a": nested({"old": 1}) | {"m1": {"m2": {"m3": {"m4": {"old": 1}}}}}},
        "role": {
            "guest": {"0": {"a": nested({"new": 2}) | {"m1": {"m2": {"m3": {"m4": {"new": 2}}}}}}}
        },
    }
    spec = parse_job(dsl(a={"module": "Reader"}), conf_, modules=MODULES)
    merged: Any = spec.component_parameters("a", GUEST)
    assert merged["l1"]["l2"]["l3"]["l4"]["l5"] == {"new": 2}
    assert merged["m1"]["m2"]["m3"]["m4"] == {"old": 1, "new": 2}


def test_a_spec_cannot_be_changed_through_what_it_gives_or_was_given() -> None:
    conf_ = conf()
    conf_["component_parameters"] = {"common": {"a": {"list": [1]}}}
    given_dsl = dsl(a={"module": "Reader"})
    spec = parse_job(given_dsl, conf_, modules=MODULES)
    conf_["role"]["guest"].append(5)
    given_dsl["components"].clear()
    got: Any = spec.component_parameters("a", GUEST)
    got["list"].append(2)
    assert spec.component_parameters("a", GUEST) == {"list": [1]}
    assert spec.conf["role"] == {"guest": [9999], "host": [10000], "arbiter": [10000]}
    assert spec.dsl == dsl(a={"module": "Reader"})


def test_unknown_names_and_sites_raise_key_errors() -> None:
    spec = example()
    for call in (spec.component, spec.sites_of):
        with pytest.raises(KeyError):
            call("nobody")
    with pytest.raises(KeyError):
        spec.component_parameters("nobody", GUEST)
    with pytest.raises(KeyError):
        spec.job_parameters_at(HOST_1)


def test_the_nearest_provider_wins() -> None:
    conf_ = conf(hosts=(10000, 10001))
    conf_["provider"] = {"common": {"a": "one"}, "role": {"host": {"1": {"a": "two@3"}}}}
    dsl_ = dsl(a={"module": "Reader"}, b={"module": "Reader"}) | {"provider": "top"}
    spec = parse_job(dsl_, conf_, modules=MODULES)
    assert [spec.provider_of("a", s) for s in (GUEST, HOST, HOST_1)] == ["one", "one", "two@3"]
    assert spec.provider_of("b", GUEST) == "top"


def test_the_servers_defaults_fill_what_the_conf_leaves_out() -> None:
    spec = parse_job(
        dsl(a={"module": "Reader"}),
        conf(),
        modules=MODULES,
        defaults=JobParameters(task_cores=7, timeout=60),
    )
    assert spec.job_parameters_at(GUEST).task_cores == 7


def test_module_names_are_matched_without_case_and_by_alias() -> None:
    spec = parse_job(dsl(r=reader(), a=takes("DATAIO")), conf(), modules=MODULES)
    assert spec.modules["a"].module == "DataTransform"
    assert spec.component("a").module == "DATAIO"


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (
            {"guest": ["9999"], "host": ["10000", "10001"], "arbiter": ["10000"]},
            "arbiter-10000#guest-9999#host-10000_10001#model",
        ),
        ({"host": ["10000", "9", "10000"]}, "host-9_10000#model"),
        ({"local": ["0"]}, "local-0#model"),
    ],
)
def test_model_ids_are_fates(roles: dict[str, list[str]], expected: str) -> None:
    assert model_id_of(roles) == expected


def test_party_ids_in_a_model_id_are_sorted_by_number() -> None:
    conf_ = conf(hosts=(10000, 9000), arbiter=None)
    spec = parse_job(dsl(r=reader()), conf_, modules=MODULES)
    assert model_id(spec) == "guest-9999#host-9000_10000#model"


def test_a_single_party_job_of_a_local_tool_is_a_job() -> None:
    conf_ = {
        "dsl_version": 2,
        "initiator": {"role": "local", "party_id": 0},
        "role": {"local": [0]},
    }
    spec = parse_job(dsl(upload_0={"module": "Upload"}), conf_, modules=MODULES)
    assert spec.sites_of("upload_0") == (Site(Role.LOCAL, PartyId("0")),)


C = "$.dsl.components"


def test_an_unknown_module_is_a_problem() -> None:
    assert problems(dsl(r={"module": "Nope"}), conf()) == [("ModuleNotFound", f"{C}.r.module")]


def test_a_missing_input_is_a_problem() -> None:
    assert problems(dsl(t={"module": "DataTransform"}), conf()) == [
        ("MissingInput", f"{C}.t.input.data")
    ]


def test_a_port_that_the_module_does_not_understand_is_a_problem() -> None:
    assert problems(dsl(r=reader(), t=takes("DataTransform", "train_data")), conf()) == [
        ("PortNotSupported", f"{C}.t.input.data.train_data")
    ]


def test_a_component_that_no_role_of_the_job_runs_is_a_problem() -> None:
    assert problems(dsl(u={"module": "Upload"}), conf()) == [("NoSiteForComponent", f"{C}.u")]


@pytest.mark.parametrize(
    ("ports", "has_model", "wrong"),
    [
        (["train_data"], False, []),
        (["train_data", "validate_data"], False, []),
        (["train_data", "eval_data"], True, []),
        (["test_data"], True, []),
        (["eval_data"], True, []),
        (["data"], True, []),
        (["validate_data"], False, ["validate_data"]),
        (["train_data", "data"], False, ["data"]),
        (["train_data", "test_data"], True, ["test_data"]),
        (["test_data"], False, ["test_data"]),
        (["eval_data"], False, ["eval_data"]),
        (["train_data", "validate_data", "eval_data"], False, ["eval_data"]),
        (["test_data", "eval_data"], True, ["eval_data"]),
    ],
)
def test_ports_must_fit_together(ports: list[str], has_model: bool, wrong: list[str]) -> None:
    tool: dict[str, Any] = {
        "module": "Tool",
        "input": {"data": {port: ["r.data"] for port in ports}},
    }
    if has_model:
        tool["input"]["model"] = ["m.model"]
    dsl_ = dsl(r=reader(), m=takes("DataTransform"), t=tool)
    if not wrong:
        assert parse_job(dsl_, conf(), modules=MODULES).component("t").data.keys() == set(ports)
        return
    paths = [f"{C}.t.input.data.{port}" for port in wrong]
    assert problems(dsl_, conf()) == [("IllegalPorts", path) for path in paths]


@pytest.mark.parametrize("switch", ["cv_param/need_cv", "stepwise_param/need_stepwise"])
def test_cross_validation_takes_training_data_only(switch: str) -> None:
    member, key = switch.split("/")
    conf_ = conf()
    conf_["component_parameters"] = {"role": {"guest": {"0": {"t": {member: {key: True}}}}}}
    tool = takes("Tool", "train_data")
    assert parse_job(dsl(r=reader(), t=tool), conf_, modules=MODULES)
    tool["input"]["data"]["validate_data"] = ["r.data"]
    tool["input"]["model"] = ["m.model"]
    assert problems(dsl(r=reader(), m=takes("DataTransform"), t=tool), conf_) == [
        ("IllegalPorts", f"{C}.t.input.data.validate_data"),
        ("IllegalPorts", f"{C}.t.input.model"),
    ]


@pytest.mark.parametrize("module_name", ["heterolr", "HeteroKmeans"])
@pytest.mark.parametrize(
    ("guest", "hosts", "arbiter", "allowed"),
    [
        (9999, [10000], 10000, True),
        (9999, [9999], 9999, True),
        (9999, [10000], 9999, False),
        (9999, [9999, 10000], 9999, False),
        (9999, [9999, 10000], 10000, True),
    ],
)
def test_the_guest_of_a_regression_may_not_be_its_arbiter(
    guest: int, hosts: list[int], arbiter: int, allowed: bool, module_name: str
) -> None:
    conf_ = conf()
    conf_["role"] = {"guest": [guest], "host": hosts, "arbiter": [arbiter]}
    dsl_ = dsl(r=reader(), lr=takes(module_name, "train_data"))
    if allowed:
        assert parse_job(dsl_, conf_, modules=MODULES)
    else:
        assert problems(dsl_, conf_) == [("GuestIsArbiter", "$.conf.role.arbiter[0]")]
    assert parse_job(dsl(r=reader()), conf_, modules=MODULES)  # other modules have no such rule


def test_outputs_that_are_never_written_are_declared_freely_but_not_used_unnoticed() -> None:
    inter = takes("Intersection")
    inter["output"]["cache"] = ["cache"]
    dsl_ = dsl(r=reader(), i=inter, e=takes("Evaluation", source="i.data"))
    assert parse_job(dsl_, conf(), modules=MODULES).warnings == ()
    dsl_["components"]["t"] = takes("Tool", source="e.data")
    (warning,) = parse_job(dsl_, conf(), modules=MODULES).warnings
    assert (warning.code, warning.path) == ("NotWritten", f"{C}.t.input")
    assert warning.message == "e.data will be missing: Evaluation writes no data"


def test_mistakes_of_dsl_and_conf_come_together() -> None:
    conf_ = conf()
    conf_["role"]["boss"] = [1]
    conf_["job_parameters"] = {"common": {"run_to": "nobody"}}
    found = problems(dsl(r={"module": "Nope"}, t=takes("Tool", source="r.data")), conf_)
    assert {rule for rule, _ in found} == {
        "InputNameNotExistError",
        "ModuleNotFound",
        "UnknownRole",
        "UnknownComponentName",
    }
    with pytest.raises(InvalidJobSpec) as caught:
        parse_job(dsl(r={"module": "Nope"}), conf_, modules=MODULES)
    assert "$.dsl.components.r.module" in str(caught.value)


def test_the_toy_jobs_misplaced_component_name_is_tolerated() -> None:
    conf_ = conf()
    conf_["component_parameters"] = {
        "role": {"guest": {"0": {"toy_0": {"seed": 1}}}, "host": {"toy_0": {"seed": 2}}}
    }
    spec = parse_job(dsl(toy_0={"module": "Reader"}), conf_, modules=MODULES)
    assert len(spec.warnings) == 1
    assert spec.component_parameters("toy_0", HOST) == {"seed": 2}


def test_a_version_1_job_that_was_not_converted_gives_one_clear_problem() -> None:
    v1 = {"components": {"a": {"module": "X", "input": {"data": {"data": ["args.train"]}}}}}
    assert problems(v1, {"initiator": {}}) == [("DSLVersionError", "$.conf.dsl_version")]


# --- predict jobs -------------------------------------------------------------------------------


def predict_conf(**common: Any) -> dict[str, Any]:
    conf_ = conf()
    model = {"job_type": "predict", "model_id": "m", "model_version": "1"}
    conf_["job_parameters"] = {"common": model | common}
    return conf_


def predicts(*models: str) -> dict[str, Any]:
    lr = takes("HeteroLR", "test_data")
    lr["input"]["model"] = list(models)
    lr["output"] = {"data": ["data"]}
    return dsl(r=reader(), lr=lr)


def test_a_predict_job_takes_stored_models() -> None:
    spec = parse_job(predicts("pipeline.lr.model"), predict_conf(), modules=MODULES)
    assert spec.mode == "predict"
    assert [str(ref) for ref in spec.component("lr").stored_models] == ["lr.model"]
    assert spec.dag.upstream("lr") == ("r",)
    assert example().mode == "train"


def test_a_training_job_has_no_stored_models() -> None:
    path = f"{C}.lr.input.model[0]"
    rules = [("InputComponentNotExistError", path)]
    found = problems(predicts("pipeline.lr.model"), conf())
    assert [one for one in found if one[1] == path] == rules


def test_a_component_of_a_predict_job_needs_its_data_and_its_model() -> None:
    without_model = ("IllegalPorts", f"{C}.lr.input.data.test_data")
    assert problems(predicts(), predict_conf()) == [without_model]
    without_data = predicts("pipeline.lr.model")
    del without_data["components"]["lr"]["input"]["data"]
    assert problems(without_data, predict_conf()) == [("MissingInput", f"{C}.lr.input.data")]


@pytest.mark.parametrize("member", ["model_id", "model_version"])
def test_a_predict_job_names_the_model_that_it_uses(member: str) -> None:
    path = f"$.conf.job_parameters.common.{member}"
    found = problems(predicts("pipeline.lr.model"), predict_conf(**{member: None}))
    assert found == [("ModelNotNamed", path)]


def test_parameters_that_only_concern_training_do_not_keep_a_job_from_predicting() -> None:
    conf_ = predict_conf()
    conf_["component_parameters"] = {
        "common": {"lr": {"cv_param": {"need_cv": True}}, "gone": {"x": 1}}
    }
    assert parse_job(predicts("pipeline.lr.model"), conf_, modules=MODULES)


# --- limits -------------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_deep_nesting_is_a_problem_and_no_crash() -> None:
    conf_ = conf()
    conf_["component_parameters"] = {"common": {"r": {"x": nested(100_000)}}}
    ((rule, path),) = problems(dsl(r=reader()), conf_)
    assert rule == "LimitExceeded"
    assert path.startswith("$.conf.component_parameters.common.r.x[0][0]")
    assert problems(nested(100_000), conf())[0][0] == "LimitExceeded"


@pytest.mark.parametrize(
    "value",
    ["x" * 100_001, "\ud800", 2**64, float("nan"), float("inf"), b"x", (1,), {1: 2}, {"\ud800": 1}],
)
def test_what_is_not_proper_json_is_a_problem_at_its_path(value: object) -> None:
    conf_ = conf()
    conf_["component_parameters"] = {"common": {"r": {"x": [0, value]}}}
    assert problems(dsl(r=reader()), conf_) == [
        ("LimitExceeded", "$.conf.component_parameters.common.r.x[1]")
    ]


def test_too_many_values_are_refused() -> None:
    conf_ = conf()
    conf_["component_parameters"] = {"common": {"r": {"x": [0] * 1_000_001}}}
    assert problems(dsl(r=reader()), conf_) == [("LimitExceeded", "$.conf")]


def test_1000_components_are_read_and_checked_fast() -> None:
    components: dict[str, Any] = {"r": reader()}
    for i in range(999):
        sources = ["r.data", *(f"t{j}.data" for j in (i - 1, i - 2, i // 2) if 0 <= j < i)]
        components[f"t{i}"] = takes("Tool")
        components[f"t{i}"]["input"]["data"]["data"] = list(dict.fromkeys(sources))
    conf_ = conf()
    conf_["component_parameters"] = {
        "common": {name: {"a": 1, "b": {"c": [1, 2]}} for name in components}
    }
    best_s = 10.0
    for _ in range(3):
        start = time.process_time()
        spec = parse_job({"components": components}, conf_, modules=MODULES)
        best_s = min(best_s, time.process_time() - start)
    assert len(spec.dag.order) == 1_000
    assert best_s < 0.4  # seconds of CPU; the budget is 0.2 s on a free machine


# --- properties ---------------------------------------------------------------------------------

WORDS = [
    *("components", "module", "input", "output", "data", "model", "cache", "provider", "r.data"),
    *("role", "guest", "host", "common", "all", "0", "0|1", "initiator", "party_id", "r", "t"),
    *("dsl_version", "job_parameters", "component_parameters", "task_cores", "cv_param"),
]
JSON_VALUES = json_values(WORDS)


def good_pair() -> tuple[dict[str, Any], dict[str, Any]]:
    dsl_ = dsl(
        r=reader(),
        i=takes("Intersection"),
        t=takes("HeteroLR", "train_data", source="i.data"),
    )
    conf_ = conf(hosts=(10000, 10001))
    conf_["job_parameters"] = {"common": {"task_cores": 2}, "role": {"host": {"0": {"timeout": 9}}}}
    conf_["component_parameters"] = {
        "common": {"t": {"cv_param": {"need_cv": True}}},
        "role": {"host": {"0|1": {"t": {"x": {"y": 1}}}, "all": {"r": {"table": {}}}}},
    }
    return dsl_, conf_


@given(JSON_VALUES, JSON_VALUES)
def test_any_json_gives_a_spec_or_a_list_of_problems(dsl_: Any, conf_: Any) -> None:
    with contextlib.suppress(InvalidJobSpec):
        parse_job(dsl_, conf_, modules=MODULES)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(st.data())
def test_a_good_job_with_a_member_replaced_gives_a_spec_or_problems(data: st.DataObject) -> None:
    pair = list(good_pair())
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(pair)))
        container[key] = data.draw(JSON_VALUES)
    try:
        spec = parse_job(pair[0], pair[1], modules=MODULES)
    except InvalidJobSpec as error:
        event("refused")
        paths = [p.path for p in error.problems]
    else:
        event("accepted")
        paths = []
        check_readable(spec)
    assert all(path.startswith(("$.dsl", "$.conf")) for path in paths)


def check_readable(spec: JobSpec) -> None:
    """Check that a spec that was accepted can be read for every site and component."""
    for site in spec.sites:
        spec.job_parameters_at(site)
        for component in spec.components:
            json.dumps(spec.component_parameters(component.name, site))
            spec.provider_of(component.name, site)
    assert spec.initiator in spec.sites
    json.dumps([spec.dsl, spec.conf])
    model_id(spec)


@given(st.data())
def test_random_acyclic_jobs_are_read_and_ordered(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 15))
    components: dict[str, Any] = {}
    for i in data.draw(st.permutations(range(count))):
        ups = data.draw(st.sets(st.integers(0, i - 1), max_size=4)) if i else set()
        components[f"c{i}"] = {
            "module": "Tool",
            "input": {"data": {"data": [f"c{up}.data" for up in sorted(ups)]}},
            "output": {"data": ["data"]},
        }
    spec = parse_job({"components": components}, conf(), modules=MODULES)
    place = {name: i for i, name in enumerate(spec.dag.order)}
    assert set(place) == set(components)
    for component in spec.components:
        sources = {ref.component for ref in component.refs}
        assert set(spec.dag.upstream(component.name)) == sources
        assert all(place[up] < place[component.name] for up in sources)


SMALL = st.dictionaries(
    st.sampled_from("abc"),
    st.one_of(st.integers(0, 9), st.dictionaries(st.sampled_from("pq"), st.integers(0, 9))),
    max_size=3,
)


@given(
    common=SMALL,
    overlays=st.dictionaries(st.sampled_from(["0", "1", "0|1", "1|0", "all"]), SMALL),
)
def test_each_site_gets_the_layers_that_name_it_the_last_one_winning(
    common: dict[str, Any], overlays: dict[str, dict[str, Any]]
) -> None:
    conf_ = conf(hosts=(10000, 10001))
    conf_["component_parameters"] = {
        "common": {"r": common},
        "role": {"host": {key: {"r": values} for key, values in overlays.items()}},
    }
    spec = parse_job(dsl(r=reader()), conf_, modules=MODULES)
    assert spec.component_parameters("r", GUEST) == common
    for index, site in enumerate((HOST, HOST_1)):
        layers = [common]
        layers += [v for k, v in overlays.items() if k == "all" or str(index) in k.split("|")]
        merged = spec.component_parameters("r", site)
        assert merged.keys() == {key for layer in layers for key in layer}
        for key, value in merged.items():
            last = next(layer[key] for layer in reversed(layers) if key in layer)
            if isinstance(last, dict):
                assert isinstance(value, dict)
                assert last.items() <= value.items()
            else:
                assert value == last


def test_parsing_leaves_the_given_objects_alone() -> None:
    dsl_, conf_ = good_pair()
    before = copy.deepcopy((dsl_, conf_))
    parse_job(dsl_, conf_, modules=MODULES)
    assert (dsl_, conf_) == before
