"""Where in a conf a component's parameter was set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.job.conf import Conf, parse_conf
from fedflow.domain.job.document import Report
from fedflow.domain.site import Role, Site

GUEST = Site(Role.GUEST, PartyId("9999"))
HOSTS = [Site(Role.HOST, PartyId(party)) for party in ("10000", "10001")]


def conf(parameters: Mapping[str, Any]) -> Conf:
    found = parse_conf(
        {
            "dsl_version": 2,
            "initiator": {"role": "guest", "party_id": 9999},
            "role": {"guest": [9999], "host": [10000, 10001]},
            "component_parameters": parameters,
        },
        Report(),
        component_names=("lr_0",),
    )
    assert found is not None
    return found


PARAMETERS = {
    "common": {"lr_0": {"alpha": 1, "encrypt_param": {"method": "x"}}},
    "role": {
        "host": {"all": {"lr_0": {"encrypt_param": {"bits": 1}}}, "1": {"lr_0": {"alpha": 2}}},
        "guest": {"lr_0": {"tol": 1}},
    },
}


@pytest.mark.parametrize(
    ("site", "members", "path"),
    [
        (GUEST, ("alpha",), "common.lr_0.alpha"),
        (GUEST, ("tol",), "role.guest.lr_0.tol"),
        (HOSTS[0], ("alpha",), "common.lr_0.alpha"),
        (HOSTS[1], ("alpha",), 'role.host["1"].lr_0.alpha'),
        (HOSTS[0], ("encrypt_param", "bits"), "role.host.all.lr_0.encrypt_param.bits"),
        (HOSTS[1], ("encrypt_param", "method"), "common.lr_0.encrypt_param.method"),
    ],
)
def test_a_path_names_the_layer_that_set_the_value(
    site: Site, members: tuple[str, ...], path: str
) -> None:
    assert conf(PARAMETERS).path_of("lr_0", site, members) == f"$.conf.component_parameters.{path}"


def test_what_is_set_nowhere_has_the_place_where_it_might_be() -> None:
    path = conf({}).path_of("lr_0", GUEST, ("needed",))
    assert path == "$.conf.component_parameters.common.lr_0.needed"
