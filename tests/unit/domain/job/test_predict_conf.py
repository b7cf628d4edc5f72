"""The conf of a predict job: whose parameters count, for which party, and what is left out."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.domain.job.predict_conf import (
    merge_predict_conf,
    predict_conf_template,
    unknown_names,
)
from tests.unit.domain.json_values import json_values, places

TRAIN: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10, 20, 30], "arbiter": [10]},
    "job_parameters": {
        "common": {
            "job_type": "train",
            "task_cores": 3,
            "inheritance_info": {"job_id": "1", "component_list": ["a"]},
        },
        "role": {"host": {"1": {"task_cores": 1}}, "arbiter": {"0": {"task_cores": 9}}},
    },
    "component_parameters": {
        "common": {"lr_0": {"max_iter": 5, "list": [1, 2]}},
        "role": {
            "guest": {"0": {"reader_0": {"table": {"name": "train", "namespace": "n"}}}},
            "host": {
                "0|2": {"clean_0": {"x": 1}},
                "1": {"clean_0": {"x": 2}},
                "all": {"clean_0": {"y": 3}},
            },
        },
    },
    "provider": {"common": {"lr_0": "fate"}},
}
PREDICT: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": ["9999"], "host": [30, "10"]},
    "job_parameters": {"common": {"job_type": "predict", "model_id": "m", "model_version": "1"}},
    "component_parameters": {
        "common": {"lr_0": {"list": [3]}},
        "role": {
            "guest": {"0": {"reader_0": {"table": {"name": "new", "namespace": "n"}}}},
            "host": {"1|0": {"clean_0": {"z": 4}}},
        },
    },
}


def merge(train: Any, predict: Any) -> dict[str, object]:
    return merge_predict_conf(train, predict)[0]


def test_parameters_follow_their_parties_to_the_new_places() -> None:
    merged: Any = merge(TRAIN, PREDICT)
    assert merged["role"] == PREDICT["role"]
    assert merged["component_parameters"]["role"] == {
        "guest": {"0": {"reader_0": {"table": {"name": "new", "namespace": "n"}}}},
        "host": {"1|0": {"clean_0": {"x": 1, "z": 4}}, "all": {"clean_0": {"y": 3}}},
    }
    assert merged["component_parameters"]["common"] == {"lr_0": {"max_iter": 5, "list": [3]}}


def test_what_concerned_the_training_job_alone_is_left_out() -> None:
    merged: Any = merge(TRAIN, PREDICT)
    assert "provider" not in merged
    assert merged["job_parameters"] == {
        "common": {"job_type": "predict", "model_id": "m", "model_version": "1", "task_cores": 3},
        "role": {"host": {}},
    }


def test_the_type_and_the_model_may_stand_beside_common() -> None:
    predict = copy.deepcopy(PREDICT)
    predict["job_parameters"] = predict["job_parameters"]["common"]
    assert merge(TRAIN, predict) == merge(TRAIN, PREDICT)


@pytest.mark.parametrize(
    ("role", "rule", "path"),
    [
        ({"guest": [9999], "host": [10, 40]}, "UnknownParty", "$.conf.role.host[1]"),
        ({"guest": "9999"}, "RoleError", "$.conf.role.guest"),
        (None, "RoleError", "$.conf.role"),
    ],
)
def test_every_party_had_its_role_in_the_training_job(role: object, rule: str, path: str) -> None:
    with pytest.raises(InvalidJobSpec) as caught:
        merge_predict_conf(TRAIN, {**PREDICT, "role": role})
    assert [(p.rule, p.path) for p in caught.value.problems] == [(rule, path)]


def test_a_role_that_the_training_job_did_not_have_takes_no_part() -> None:
    train = {**TRAIN, "role": {"guest": [9999], "host": [10, 20, 30]}}
    predict = copy.deepcopy(PREDICT)
    predict["role"]["arbiter"] = [50]
    predict["component_parameters"]["role"]["arbiter"] = {"0": {"lr_0": {"x": 1}}}
    predict["job_parameters"]["role"] = {"arbiter": {"0": {"task_cores": 2}}}
    merged, warnings = merge_predict_conf(train, predict)
    assert [(one.code, one.path) for one in warnings] == [("UnknownRole", "$.conf.role.arbiter")]
    assert merged == {**merge(train, PREDICT), "job_parameters": merged["job_parameters"]}
    assert "arbiter" not in merged["job_parameters"]["role"]  # type: ignore[index,operator]


def test_names_that_neither_the_model_nor_its_training_knows_are_warned_of() -> None:
    conf = {
        "job_parameters": {"common": {"task_conf": {"gone_0": {}, "lr_0": {}}}},
        "component_parameters": {
            "common": {"gone_1": {}, "lr_0": {}},
            "role": {"guest": {"0": {"gone_2": {}}}},
        },
        "provider": {"common": {"gone_3": "fate"}},
        "algorithm_parameters": {"gone_4": {}},
        "role_parameters": {"guest": {"gone_5": {}, "args": {}}},
    }
    found = unknown_names(conf, {"lr_0"})
    assert {one.code for one in found} == {"UnknownComponentName"}
    assert [one.path for one in found] == [
        "$.conf.component_parameters.common.gone_1",
        '$.conf.component_parameters.role.guest["0"].gone_2',
        "$.conf.provider.common.gone_3",
        "$.conf.job_parameters.common.task_conf.gone_0",
        "$.conf.algorithm_parameters.gone_4",
        "$.conf.role_parameters.guest.gone_5",
    ]
    assert unknown_names([1], ()) == ()


def test_a_conf_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidJobSpec):
        merge_predict_conf(TRAIN, [1])


def test_merging_leaves_the_given_confs_alone() -> None:
    before = copy.deepcopy((TRAIN, PREDICT))
    merged: Any = merge(TRAIN, PREDICT)
    merged["role"]["guest"].append(1)
    merged["component_parameters"]["common"]["lr_0"]["list"].append(1)
    assert before == (TRAIN, PREDICT)


@given(st.permutations([10, 20, 30]), st.integers(1, 3), st.data())
def test_each_party_keeps_exactly_its_own_parameters(
    parties: list[int], count: int, data: st.DataObject
) -> None:
    chosen = parties[:count]
    keys = st.sampled_from(["0", "1", "2", "0|1", "2|0", "2|1|0", "all"])
    by_index: dict[str, Any] = data.draw(
        st.dictionaries(keys, st.dictionaries(st.sampled_from("abc"), st.just({})))
    )
    for key, values in by_index.items():
        values |= {name: {"from": key, key: 1} for name in values}
    train = copy.deepcopy(TRAIN)
    train["component_parameters"] = {"role": {"host": by_index}}
    predict = {**PREDICT, "role": {"guest": [9999], "host": chosen}, "component_parameters": {}}
    merged: Any = merge(train, predict)
    new = merged["component_parameters"]["role"]["host"]
    for place, party in enumerate(chosen):
        old = [10, 20, 30].index(party)
        assert _layers(new, place) == _layers(by_index, old)


def _layers(by_index: dict[str, Any], index: int) -> set[tuple[str, str]]:
    """Return which layers reach a party, as (component, training key)."""
    return {
        (name, mark)
        for key, values in by_index.items()
        if key == "all" or str(index) in key.split("|")
        for name, parameters in values.items()
        for mark in parameters.keys() - {"from"}
    }


WORDS = [
    *("role", "guest", "host", "common", "job_parameters", "component_parameters", "reader_0"),
    *("all", "0", "0|1", "job_type", "predict", "components", "module", "Reader"),
]
JSON_VALUES = json_values(WORDS)


@given(st.data())
def test_any_two_confs_give_a_conf_or_a_list_of_problems(data: st.DataObject) -> None:
    confs = copy.deepcopy([TRAIN, PREDICT])
    for _ in range(data.draw(st.integers(1, 4))):
        container, key = data.draw(st.sampled_from(places(confs)))
        container[key] = data.draw(JSON_VALUES)
    train, predict = (conf if isinstance(conf, dict) else {} for conf in confs)
    with contextlib.suppress(InvalidJobSpec):
        merge_predict_conf(train, predict)
    dsl = data.draw(st.dictionaries(st.sampled_from(WORDS), JSON_VALUES))
    predict_conf_template(dsl, train, model_id="m", model_version="1")


def test_a_template_has_a_place_for_every_table() -> None:
    dsl = {"components": {"reader_0": {"module": "Reader"}, "lr_0": {"module": "HeteroLR"}}}
    conf: Any = predict_conf_template(dsl, TRAIN, model_id="m", model_version="7")
    assert conf["dsl_version"] == 2
    assert conf["role"] == TRAIN["role"]
    assert conf["initiator"] == TRAIN["initiator"]
    common = {"task_cores": 3, "model_id": "m", "model_version": "7", "job_type": "predict"}
    assert conf["job_parameters"]["common"] == common

    def place(number: int) -> dict[str, Any]:
        names = {"name": "name_to_be_filled_", "namespace": "namespace_to_be_filled_"}
        return {"reader_0": {"table": {k: f"{v}{number}" for k, v in names.items()}}}

    assert conf["component_parameters"]["role"] == {
        "guest": {"0": place(0)},
        "host": {"0": place(1), "1": place(2), "2": place(3)},
    }
    assert merge(TRAIN, conf)["role"] == TRAIN["role"]
