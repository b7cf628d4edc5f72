"""Other party ids in a version and in component models, and nothing else changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.ids import PartyId
from fedflow.domain.models.migration import Migration, structure_fault
from fedflow.domain.models.model import ModelKey, ModelVersion
from fedflow.domain.site import Role, Site

OLD = {"guest": ["9999"], "host": ["10000", "10001"], "arbiter": ["10000"]}
NEW = {"guest": ["1"], "host": ["3", "2"], "arbiter": ["4"]}
GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10001"))


def migration(**changes: Any) -> Migration:
    members: dict[str, Any] = {
        "old": OLD,
        "new": NEW,
        "initiator": Site(Role.GUEST, PartyId("1")),
        "model_id": "arbiter-4#guest-1#host-2_3#model",
        "model_version": "7",
    }
    return Migration(**{**members, **changes})


def test_a_party_with_two_roles_becomes_two_parties() -> None:
    assert migration().site(Site(Role.HOST, PartyId("10000"))) == Site(Role.HOST, PartyId("3"))
    assert migration().site(Site(Role.ARBITER, PartyId("10000"))) == Site(
        Role.ARBITER, PartyId("4")
    )


def test_anonymous_names_get_the_new_party() -> None:
    given_ = {
        "anonymous_header": ["host_10001_x0", "host_10001_x1", "guest_9999", "x3"],
        "meta": {"anonymousNameMap": {"a": "guest_9999_x0"}},
    }
    assert migration().content(given_) == {
        "anonymous_header": ["host_2_x0", "host_2_x1", "guest_1", "x3"],
        "meta": {"anonymousNameMap": {"a": "guest_1_x0"}},
    }


def test_owners_of_tree_nodes_are_the_new_sites() -> None:
    given_ = {"tree_": [{"id": 1, "sitename": "host:10001", "fid": 1}, {"sitename": "guest:9999"}]}
    assert migration().content(given_) == {
        "tree_": [{"id": 1, "sitename": "host:2", "fid": 1}, {"sitename": "guest:1"}]
    }


def test_what_is_kept_by_site_gets_the_new_site() -> None:
    given_ = {"hosts": {"host-10000": 1, "host.10001": 2, "host_10002": 3, "arbiter:10000": 4}}
    assert migration().content(given_) == {
        "hosts": {"host-3": 1, "host.2": 2, "host_10002": 3, "arbiter:4": 4}
    }


def test_texts_that_only_look_like_parties_stay() -> None:
    given_ = {
        "header": ["host_10000", "guest_9999_x0"],
        "host_10000_weight": 1.5,
        "anonymous_header": ["host_100000_x0", "xhost_10000_x0", "host_10000x"],
        "number": 10000,
        "nothing": None,
    }
    assert migration().content(given_) == given_


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_json)
def test_there_and_back_again_is_the_same(value: Any) -> None:
    there = migration()
    back = migration(old=NEW, new=OLD)
    assert back.content(there.content(value)) == value or "_" in repr(value)
    unchanged = migration(new=OLD)
    assert unchanged.content(value) == value


def version(site: Site = HOST) -> ModelVersion:
    return ModelVersion(
        key=ModelKey(site=site, model_id="m", model_version="5"),
        job_id="5",
        roles=OLD,
        initiator=GUEST,
        train_dsl={"components": {}},
        train_conf={
            "dsl_version": 2,
            "initiator": {"role": "guest", "party_id": 9999},
            "role": {"guest": [9999], "host": [10000, 10001], "arbiter": [10000]},
            "job_parameters": {"common": {"model_version": "5"}, "role": {"host": {"1": {"a": 1}}}},
            "component_parameters": {"role": {"host": {"1": {"lr_0": {"alpha": 1}}}}},
        },
        conf_on_party={"job_parameters": {"model_version": "5", "task_cores": 2}},
        fate_version="1.11.4",
        created_ms=1,
        updated_ms=1,
        imported=True,
        loaded_times=3,
    )


def test_a_version_is_of_the_new_parties_and_cannot_be_used_yet() -> None:
    new = migration().version(version(), now_ms=9)
    assert new.key == ModelKey(
        site=Site(Role.HOST, PartyId("2")),
        model_id="arbiter-4#guest-1#host-2_3#model",
        model_version="7",
    )
    assert (new.roles, new.initiator.key) == (NEW, "guest-1")
    assert new.train_conf["role"] == {"guest": [1], "host": [3, 2], "arbiter": [4]}
    assert new.train_conf["initiator"] == {"role": "guest", "party_id": 1}
    assert new.train_conf["job_parameters"] == {
        "common": {"model_id": new.key.model_id, "model_version": "7"},
        "role": {"host": {"1": {"a": 1}}},
    }
    assert new.train_conf["component_parameters"] == version().train_conf["component_parameters"]
    assert new.conf_on_party["job_parameters"] == {
        "model_id": new.key.model_id,
        "model_version": "7",
        "task_cores": 2,
    }
    assert (new.ready, new.imported, new.loaded_times, new.created_ms) == (False, False, 0, 9)
    assert new.parent


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"guest": ["1"], "host": ["2", "3"]}, "has the roles guest, host, not arbiter"),
        ({**NEW, "host": ["2"]}, "host lists 1 parties, not 2"),
        ({**NEW, "host": ["2", "2"]}, "lists a party twice"),
    ],
)
def test_roles_of_another_structure_do_not_fit(new: dict[str, list[str]], words: str) -> None:
    fault = structure_fault(OLD, new)
    assert fault is not None
    assert words in fault
    assert structure_fault(OLD, NEW) is None
