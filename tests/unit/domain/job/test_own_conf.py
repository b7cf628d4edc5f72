"""A site that did not submit a job sees what counts for all, and what counts for itself."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.job.own_conf import own_conf, without_others
from fedflow.domain.site import Role, Site

GUEST = Site(Role.GUEST, PartyId("9999"))
SECOND = Site(Role.HOST, PartyId("10001"))
ROLES = {"guest": ["9999"], "host": ["10000", "10001"], "arbiter": ["10000"]}
CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000, 10001], "arbiter": [10000]},
    "job_parameters": {
        "common": {"task_cores": 1},
        "role": {"guest": {"0": {"user": "g"}}, "host": {"all": {"user": "h"}}},
    },
    "component_parameters": {
        "common": {"lr": {"max_iter": 3}},
        "role": {
            "guest": {"0": {"transform": {"label_name": "bought"}}},
            "host": {
                "0": {"reader": {"table": "first"}},
                "1": {"reader": {"table": "second"}},
                "0|1": {"scale": {"method": "a"}},
                "all": {"binning": {"bin_num": 5}},
                "toy": {"output": "all parties"},
            },
        },
    },
}


def test_the_initiator_sees_all_of_its_conf() -> None:
    assert own_conf(CONF, GUEST, ROLES, is_initiator=True) == CONF


def test_another_site_sees_its_own_part() -> None:
    shown = own_conf(CONF, SECOND, ROLES, is_initiator=False)
    assert shown["component_parameters"]["common"] == {"lr": {"max_iter": 3}}
    assert shown["component_parameters"]["role"] == {
        "host": {
            "1": {"reader": {"table": "second"}},
            "0|1": {"scale": {"method": "a"}},
            "all": {"binning": {"bin_num": 5}},
            "toy": {"output": "all parties"},
        }
    }
    assert shown["job_parameters"]["role"] == {"host": {"all": {"user": "h"}}}
    assert shown["role"] == CONF["role"]


def test_a_role_without_parameters_of_its_own_sees_the_common_ones() -> None:
    arbiter = Site(Role.ARBITER, PartyId("10000"))
    shown = own_conf(CONF, arbiter, ROLES, is_initiator=False)
    assert shown["component_parameters"] == {"common": {"lr": {"max_iter": 3}}, "role": {}}


def test_a_site_that_is_not_in_the_job_sees_nothing_of_single_parties() -> None:
    stranger = Site(Role.HOST, PartyId("7"))
    shown = own_conf(CONF, stranger, ROLES, is_initiator=False)
    assert set(shown["component_parameters"]["role"]["host"]) == {"all", "toy"}


def test_who_else_takes_part_can_be_left_out() -> None:
    shown = without_others(CONF, SECOND)
    assert "initiator" not in shown
    assert shown["role"] == {"host": [10000, 10001]}


@pytest.mark.parametrize("conf", [None, [], "x", {}, {"component_parameters": 3}])
def test_a_conf_of_any_other_form_stays_as_it_is(conf: Any) -> None:
    assert own_conf(conf, SECOND, ROLES, is_initiator=False) == conf
    assert without_others(conf, SECOND) == conf
