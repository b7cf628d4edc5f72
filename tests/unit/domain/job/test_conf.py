"""Reading a runtime conf: sites, layers of parameters, and each rule with its exact path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fedflow.base.errors.jobs import NotEnoughResources
from fedflow.base.ids import PartyId
from fedflow.domain.job.amounts import Capacity, ComputeResources
from fedflow.domain.job.conf import Conf, mode_of, parse_conf, readable_conf
from fedflow.domain.job.document import Report
from fedflow.domain.job.parameters import JobParameters, merge_job_parameters
from fedflow.domain.job.resources import check_ceiling, demand_at, shortage
from fedflow.domain.site import Role, Site

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("10000"))
CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": ["10000", 10001], "arbiter": [10000]},
    "job_parameters": {
        "common": {"task_parallelism": 2, "eggroll_run": {"a": 1}},
        "role": {"host": {"0": {"task_cores": 2, "eggroll_run": {"b": 2}}}},
    },
    "component_parameters": {
        "common": {"lr_0": {"max_iter": 5}},
        "role": {"host": {"all": {"lr_0": {"x": 1}}, "0|1": {"lr_0": {"x": 2}}}},
    },
    "provider": {"common": {"lr_0": "fate@1.11.4"}, "role": {"host": {"0": {"lr_0": "fate"}}}},
}
NAMES = ("lr_0", "reader_0")


def read(conf: object) -> tuple[Conf | None, Report]:
    report = Report()
    readable = readable_conf(conf, report)
    if readable is None:
        return None, report
    return parse_conf(readable, report, component_names=NAMES), report


def problems(conf: object) -> list[tuple[str, str]]:
    return [(p.rule, p.path) for p in read(conf)[1].problems]


def changed(path: str, value: Any) -> dict[str, Any]:
    conf = copy.deepcopy(CONF)
    *parents, last = path.split("/")
    target: Any = conf
    for key in parents:
        target = target[key]
    target[last] = value
    return conf


def test_a_good_conf_gives_sites_in_its_order_and_text_ids() -> None:
    conf, report = read(CONF)
    assert (report.problems, report.warnings) == ((), ())
    assert conf is not None
    assert conf.initiator == GUEST
    assert [s.key for s in conf.sites] == [
        "guest-9999",
        "host-10000",
        "host-10001",
        "arbiter-10000",
    ]
    assert conf.index_of(Site(Role.HOST, PartyId("10001"))) == 1
    with pytest.raises(KeyError, match="guest 10000 is not a site"):
        conf.index_of(Site(Role.GUEST, PartyId("10000")))


def test_layers_apply_by_index_in_file_order() -> None:
    conf, _ = read(CONF)
    assert conf is not None
    layers = conf.component_parameters
    assert layers.at(Role.GUEST, 0) == ({"lr_0": {"max_iter": 5}},)
    assert layers.at(Role.HOST, 1)[1:] == ({"lr_0": {"x": 1}}, {"lr_0": {"x": 2}})


@pytest.mark.parametrize("party_id", [9999, "9999", "09999"])
def test_party_ids_may_be_numbers_or_text(party_id: object) -> None:
    conf, report = read(changed("initiator/party_id", party_id))
    assert report.problems == ()
    assert conf is not None
    assert conf.initiator == GUEST


@pytest.mark.parametrize("version", [2, "2"])
def test_version_2_may_be_a_number_or_text(version: object) -> None:
    assert problems(changed("dsl_version", version)) == []


@pytest.mark.parametrize("version", [1, "1"])
def test_another_version_is_the_only_problem_reported(version: object) -> None:
    conf, report = read({"dsl_version": version})
    assert conf is None
    (problem,) = report.problems
    assert (problem.rule, problem.path) == ("DSLVersionError", "$.conf.dsl_version")
    assert problem.message.startswith("must be 2, not")


def test_a_missing_version_means_1() -> None:
    conf = {k: v for k, v in CONF.items() if k != "dsl_version"}
    (problem,) = read(conf)[1].problems
    assert "a missing one means 1" in problem.message


@pytest.mark.parametrize("path", ["job_parameters/job_type", "job_parameters/common/job_type"])
def test_a_predict_job_is_known_by_its_type_in_either_place(path: str) -> None:
    predict = changed(path, "predict")
    assert (mode_of(CONF), mode_of(predict), mode_of([1])) == ("train", "predict", "train")
    conf, report = read(predict)
    assert conf is not None
    assert report.problems == ()
    assert conf.job_parameters.common["job_type"] == "predict"


def test_model_members_beside_common_count_but_common_wins() -> None:
    conf = changed("job_parameters/model_id", "beside")
    conf["job_parameters"]["model_version"] = "7"
    conf["job_parameters"]["common"]["model_version"] = "8"
    parsed, report = read(conf)
    assert parsed is not None
    assert parsed.job_parameters.common["model_id"] == "beside"
    assert parsed.job_parameters.common["model_version"] == "8"
    assert [w.path for w in report.warnings] == [
        "$.conf.job_parameters.model_id",
        "$.conf.job_parameters.model_version",
    ]


def test_a_predict_job_carries_parameters_of_components_that_it_does_not_have() -> None:
    conf = changed("job_parameters/common/job_type", "predict")
    conf["component_parameters"]["common"]["gone_0"] = {"x": 1}
    parsed, report = read(conf)
    assert parsed is not None
    assert (report.problems, report.warnings) == ((), ())
    assert "gone_0" not in parsed.component_parameters.common


@pytest.mark.parametrize(
    ("path", "value", "rule", "where"),
    [
        ("dsl_version", 3, "DSLVersionError", "dsl_version"),
        ("dsl_version", True, "DSLVersionError", "dsl_version"),
        ("dsl_version", None, "DSLVersionError", "dsl_version"),
        ("initiator", None, "InitiatorError", "initiator"),
        ("initiator/role", "boss", "InitiatorError", "initiator.role"),
        ("initiator/party_id", "9999a", "InitiatorError", "initiator.party_id"),
        ("initiator/party_id", True, "InitiatorError", "initiator.party_id"),
        ("initiator/party_id", 10000, "InitiatorError", "initiator"),
        ("initiator/role", "local", "InitiatorError", "initiator"),
        ("role", [], "RoleError", "role"),
        ("role/host", 10000, "RoleError", "role.host"),
        ("role/local", [], "RoleError", "role.local"),
        ("role/boss", [1], "UnknownRole", "role.boss"),
        ("role/host", [10000, -5], "PartyIdError", "role.host[1]"),
        ("role/host", [10000, 1.5], "PartyIdError", "role.host[1]"),
        ("role/host", [10000, 10**18], "PartyIdError", "role.host[1]"),
        ("role/host", [10000, "10000"], "DuplicateParty", "role.host[1]"),
        ("job_parameters", [], "ParametersTypeError", "job_parameters"),
        ("job_parameters/common", 5, "ParametersTypeError", "job_parameters.common"),
        ("component_parameters/role", 5, "ParametersTypeError", "component_parameters.role"),
        (
            "component_parameters/role/guest",
            5,
            "ParametersTypeError",
            "component_parameters.role.guest",
        ),
        (
            "component_parameters/common/lr_0",
            [1],
            "ParametersTypeError",
            "component_parameters.common.lr_0",
        ),
        ("provider/common/lr_0", "a@b@c", "ValueError", "provider.common.lr_0"),
        (
            "job_parameters/common/task_cores",
            0,
            "JobParameterError",
            "job_parameters.common.task_cores",
        ),
        (
            "job_parameters/common/task_cores",
            True,
            "JobParameterError",
            "job_parameters.common.task_cores",
        ),
        (
            "job_parameters/common/timeout",
            "1h",
            "JobParameterError",
            "job_parameters.common.timeout",
        ),
        (
            "job_parameters/common/computing_engine",
            "ABACUS",
            "JobParameterError",
            "job_parameters.common.computing_engine",
        ),
        (
            "job_parameters/role/host/0",
            {"task_cores": 1.5},
            "JobParameterError",
            'job_parameters.role.host["0"].task_cores',
        ),
        (
            "job_parameters/common/eggroll_run",
            {"eggroll.session.processors.per.node": "many"},
            "JobParameterError",
            'job_parameters.common.eggroll_run["eggroll.session.processors.per.node"]',
        ),
        (
            "job_parameters/common/inheritance_info",
            {"job_id": "1"},
            "JobParameterError",
            "job_parameters.common.inheritance_info",
        ),
        (
            "job_parameters/common/inheritance_info",
            {"job_id": "1", "component_list": [7]},
            "JobParameterError",
            "job_parameters.common.inheritance_info",
        ),
        (
            "job_parameters/common/task_conf",
            {"lr_0": {"launcher": "deepspeed"}},
            "NotSupportedYet",
            "job_parameters.common.task_conf.lr_0.launcher",
        ),
        (
            "job_parameters/role/host/0",
            {"job_type": "predict"},
            "JobParameterError",
            'job_parameters.role.host["0"].job_type',
        ),
    ],
)
def test_one_mistake_is_reported_once_at_its_path(
    path: str, value: object, rule: str, where: str
) -> None:
    assert problems(changed(path, value)) == [(rule, f"$.conf.{where}")]


@pytest.mark.parametrize("member", ["initiator", "role"])
def test_required_members_are_missed(member: str) -> None:
    conf = {k: v for k, v in CONF.items() if k != member}
    rule = {"initiator": "InitiatorError", "role": "RoleError"}[member]
    assert problems(conf) == [(rule, f"$.conf.{member}")]


def test_a_conf_that_is_no_object_is_one_problem() -> None:
    assert problems([1]) == [("ConfTypeError", "$.conf")]


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("comment", "hello", "$.conf.comment"),
        ("role_parameters", {}, "$.conf.role_parameters"),
        ("job_parameters/work_mode", 1, "$.conf.job_parameters.work_mode"),
        ("job_parameters/common/work_mode", 1, "$.conf.job_parameters.common.work_mode"),
        ("job_parameters/common/backend", 0, "$.conf.job_parameters.common.backend"),
        ("job_parameters/common/task_core", 3, "$.conf.job_parameters.common.task_core"),
        (
            "job_parameters/common/computing_engine",
            "eggroll",
            "$.conf.job_parameters.common.computing_engine",
        ),
        (
            "component_parameters/role/host/lr_0",
            {"x": 9},
            "$.conf.component_parameters.role.host.lr_0",
        ),
    ],
)
def test_what_has_no_or_a_surprising_effect_is_a_warning(
    path: str, value: object, where: str
) -> None:
    conf, report = read(changed(path, value))
    assert conf is not None
    assert report.problems == ()
    assert [w.path for w in report.warnings] == [where]


@pytest.mark.parametrize(
    ("path", "value", "code", "where"),
    [
        (
            "component_parameters/role/local",
            {"0": {}},
            "UnknownRole",
            "component_parameters.role.local",
        ),
        (
            "component_parameters/role/boss",
            {"0": {}},
            "UnknownRole",
            "component_parameters.role.boss",
        ),
        (
            "component_parameters/role/host/2",
            {},
            "UnknownIndex",
            'component_parameters.role.host["2"]',
        ),
        (
            "component_parameters/role/host/0|x",
            {},
            "UnknownIndex",
            'component_parameters.role.host["0|x"]',
        ),
        (
            "component_parameters/role/host/-1",
            {},
            "UnknownIndex",
            'component_parameters.role.host["-1"]',
        ),
        (
            "component_parameters/common/lr_7",
            {},
            "UnknownComponentName",
            "component_parameters.common.lr_7",
        ),
        (
            "component_parameters/role/host/0",
            {"lr_7": {}},
            "UnknownComponentName",
            'component_parameters.role.host["0"].lr_7',
        ),
        ("provider/common/lr_7", "fate", "UnknownComponentName", "provider.common.lr_7"),
        (
            "job_parameters/common/task_conf",
            {"lr_7": {"task_cores": 1}},
            "UnknownComponentName",
            "job_parameters.common.task_conf.lr_7",
        ),
        (
            "job_parameters/role/host/9",
            {"task_cores": 1},
            "UnknownIndex",
            'job_parameters.role.host["9"]',
        ),
    ],
)
def test_what_fate_ignores_is_ignored_with_a_warning(
    path: str, value: object, code: str, where: str
) -> None:
    conf, report = read(changed(path, value))
    assert conf is not None
    assert report.problems == ()
    (warning,) = report.warnings
    assert (warning.code, warning.path) == (code, f"$.conf.{where}")
    assert warning.hint
    good, _ = read(CONF)
    assert good is not None
    parameters = [c.parameters_of("lr_0", site) for c in (conf, good) for site in good.sites[:2]]
    assert parameters[:2] == parameters[2:] or "role/host/0" in path


def test_the_known_places_of_an_index_key_count_and_the_others_are_warned_of() -> None:
    conf, report = read(changed("component_parameters/role/host/1|7", {"lr_0": {"x": 9}}))
    assert conf is not None
    assert [one.code for one in report.warnings] == ["UnknownIndex"]
    assert [conf.parameters_of("lr_0", site)["x"] for site in conf.sites[1:3]] == [2, 9]


@pytest.mark.parametrize("member", ["conf_path", "dsl_path", "local"])
def test_what_clients_always_send_is_not_even_a_warning(member: str) -> None:
    _, report = read(changed(member, "x"))
    assert (report.problems, report.warnings) == ((), ())


def test_a_component_name_in_the_place_of_an_index_counts_for_all_parties_of_the_role() -> None:
    conf, _ = read(changed("component_parameters/role/host", {"lr_0": {"x": 9}}))
    assert conf is not None
    for index in (0, 1):
        layers = conf.component_parameters.at(Role.HOST, index)
        assert layers == ({"lr_0": {"max_iter": 5}}, {"lr_0": {"x": 9}})


def test_null_sections_and_null_parameters_are_absent_ones() -> None:
    conf = changed("job_parameters/common/model_id", None)
    conf["provider"] = None
    conf["component_parameters"]["common"] = None
    assert problems(conf) == []


def job_parameters_at(conf: dict[str, Any], role: Role, index: int) -> JobParameters:
    parsed, report = read(conf)
    assert parsed is not None, report.problems
    return merge_job_parameters(
        parsed.job_parameters.at(role, index), defaults=JobParameters(task_cores=8)
    )


def test_what_is_taken_over_from_an_earlier_job_is_typed() -> None:
    conf = changed("job_parameters/common/inheritance_info", {"job_id": "1", "component_list": []})
    inherits = job_parameters_at(conf, Role.GUEST, 0).inherits
    assert inherits is not None
    assert (inherits.job_id, inherits.component_list) == ("1", [])
    assert job_parameters_at(CONF, Role.GUEST, 0).inherits is None


def test_a_model_version_may_be_a_number() -> None:
    conf = changed("job_parameters/common/model_version", 2026)
    assert job_parameters_at(conf, Role.GUEST, 0).model_version == "2026"


def test_job_parameters_merge_deeply_and_later_wins() -> None:
    host = job_parameters_at(CONF, Role.HOST, 0)
    assert (host.task_parallelism, host.task_cores) == (2, 2)
    assert host.eggroll_run == {"a": 1, "b": 2}
    other = job_parameters_at(CONF, Role.HOST, 1)
    assert (other.task_cores, other.eggroll_run) == (8, {"a": 1})
    assert other.timeout == 259_200
    assert other.as_json()["auto_retry_delay"] == 1


def test_engine_names_may_be_in_lower_case() -> None:
    conf = changed("job_parameters/common", {"computing_engine": "standalone"})
    assert job_parameters_at(conf, Role.GUEST, 0).computing_engine == "STANDALONE"


def test_cores_of_a_job_are_those_of_its_tasks_at_once() -> None:
    demand = demand_at(GUEST, JobParameters(task_cores=5, task_parallelism=3), nodes=2)
    assert (demand.nodes, demand.cores_per_node) == (2, 2)  # 5 cores over 2 nodes, rounded down
    assert (demand.usable_cores, demand.task_cores, demand.job_cores) == (4, 4, 12)
    assert demand_at(GUEST, JobParameters(task_cores=1), nodes=2).cores_per_node == 1


def test_an_arbiter_takes_no_cores_but_may_use_one() -> None:
    demand = demand_at(ARBITER, JobParameters(task_cores=4, task_parallelism=2))
    assert (demand.usable_cores, demand.task_cores, demand.job_cores) == (1, 0, 0)


def test_engine_options_win_over_task_cores() -> None:
    options: dict[str, object] = {"eggroll.session.processors.per.node": "3"}
    assert demand_at(GUEST, JobParameters(eggroll_run=options), nodes=2).job_cores == 6
    spark: dict[str, object] = {"num-executors": 4, "executor-cores": 2}
    on_spark = JobParameters(computing_engine="SPARK", spark_run=spark, eggroll_run=options)
    assert demand_at(GUEST, on_spark).job_cores == 8
    linkis = JobParameters(computing_engine="LINKIS_SPARK", spark_run=spark)
    assert demand_at(GUEST, linkis).job_cores == 0


def test_a_job_that_could_never_start_is_refused() -> None:
    demand = demand_at(GUEST, JobParameters(task_cores=4, task_memory=50, task_parallelism=2))
    check_ceiling({GUEST: demand}, Capacity(cores=8))
    half = Capacity(cores=15, cores_percent=0.5)
    assert half.cores_per_job == 7
    with pytest.raises(NotEnoughResources) as refused:
        check_ceiling({GUEST: demand}, half)
    assert refused.value.message == (
        "job_parameters.common.task_cores x task_parallelism (4 x 2) = 8 cores; "
        "guest 9999 has 7 for one job, of 15. Request less, or raise "
        "fate_on_standalone.standalone.max_cores_percent_per_job at that party."
    )
    with pytest.raises(NotEnoughResources, match=r"has 7\. .*\.cores_per_node at that"):
        check_ceiling({GUEST: demand}, Capacity(cores=7))
    check_ceiling({GUEST: demand}, Capacity(cores=8, memory=100))
    with pytest.raises(NotEnoughResources, match=r"= 100 MiB of memory; .*memory_per_node at"):
        check_ceiling({GUEST: demand}, Capacity(cores=8, memory=99))


def test_the_shares_of_one_engine_must_fit_together() -> None:
    demand = demand_at(GUEST, JobParameters(task_cores=5))
    check_ceiling({GUEST: demand, ARBITER: demand_at(ARBITER, JobParameters())}, Capacity(cores=5))
    with pytest.raises(NotEnoughResources, match="5 x 1 at 2 sites") as refused:
        check_ceiling({GUEST: demand, HOST: demand}, Capacity(cores=9))
    assert "= 10 cores; guest 9999 and host 10000 has 9" in refused.value.message


def test_a_component_may_need_more_or_less_than_the_others() -> None:
    parameters = JobParameters(
        task_cores=4,
        task_memory=100,
        task_conf={"big": {"task_cores": 6, "task_memory": 300}, "odd": {"task_cores": "x"}},
    )
    assert demand_at(GUEST, parameters, component="big").of_task == ComputeResources(
        cores=6, memory=300
    )
    assert demand_at(GUEST, parameters, component="odd").of_task == ComputeResources(
        cores=4, memory=100
    )
    assert demand_at(GUEST, parameters).of_job == ComputeResources(cores=4, memory=100)
    assert demand_at(ARBITER, parameters, component="big").of_task == ComputeResources()


def test_what_is_short_is_told_in_numbers() -> None:
    capacity, free = Capacity(cores=8, memory=100), ComputeResources(cores=2, memory=30)
    assert shortage(ComputeResources(cores=2, memory=30), free, capacity) is None
    assert shortage(ComputeResources(cores=3), free, capacity) == ("3 cores", "2 of 8 free")
    missing = ("31 MiB of memory", "30 of 100 MiB free")
    assert shortage(ComputeResources(memory=31), free, capacity) == missing
    assert shortage(ComputeResources(memory=31), ComputeResources(), Capacity(cores=8)) is None
    assert str(ComputeResources(cores=3, memory=5)) == "3 cores and 5 MiB of memory"
    assert str(ComputeResources()) == "0 cores"
