"""What another party's job may use here, and that a refusal tells which kind of thing it was."""

from __future__ import annotations

import pytest

from fedflow.app.administration.permissions import ALL_TABLES, PermissionRules, Permissions
from fedflow.base.errors.requests import BadRequest, PermissionDenied, PermissionsOff, UnknownGrant
from fedflow.base.ids import PartyId
from fedflow.domain.administration.records import GrantKind
from fedflow.domain.records import JobKey, OutputTable, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.wire import envelope
from tests.unit.app.fakes import HOST, OneServer, conf, create_body, dsl

KEY = JobKey(job_id="1", site=HOST)
READS = {"common": {"a": {"table": {"namespace": "exp", "name": "t"}}}}
READING = create_body(dsl_=dsl(a="Reader", b="Step"), parameters=READS)


@pytest.fixture
def permissions(host: OneServer) -> Permissions:
    """The permissions of party 10000, all checks on."""
    host.put_table("exp", "t")
    host.core.permissions.rules = PermissionRules(switch=True, component=True, dataset=True)
    return host.core.permissions


def refusal(host: OneServer) -> PermissionDenied:
    with pytest.raises(PermissionDenied) as info:
        host.ask("job_create", KEY, body=READING)
    return info.value


def test_without_the_switch_nothing_is_checked(host: OneServer) -> None:
    host.put_table("exp", "t")
    host.core.permissions.rules = PermissionRules(component=True, dataset=True)
    assert host.ask("job_create", KEY, body=READING).retcode == 0


def test_a_component_that_was_not_granted_is_refused_with_fates_code(
    host: OneServer, permissions: Permissions
) -> None:
    permissions.grant("9999", components=["reader"], datasets=[("exp", "t")])
    refused = refusal(host)
    assert refused.data == {
        "code": 2, "message": "Party 9999 may not use the component Step at this site.",
    }  # fmt: skip
    shown = envelope.failure(refused)
    assert (shown["retcode"], shown["data"]["code"]) == (108, 2)


def test_a_table_that_was_not_granted_is_refused(host: OneServer, permissions: Permissions) -> None:
    permissions.grant("9999", components=["*"], datasets=[("other", "t"), ("exp", "u")])
    assert refusal(host).data["code"] == 3


def test_a_job_that_uses_only_what_was_granted_is_created(
    host: OneServer, permissions: Permissions
) -> None:
    permissions.grant("9999", components=["Reader", "STEP"], datasets=[("exp", "t")])
    assert host.ask("job_create", KEY, body=READING).retcode == 0


def test_a_grant_is_for_one_party_only(host: OneServer, permissions: Permissions) -> None:
    permissions.grant("999", components=["*"], datasets=[("exp", "t")])
    permissions.grant("99990", components=["*"], datasets=[("exp", "t")])
    assert refusal(host).data["code"] == 2


def test_an_earlier_job_does_not_keep_a_table_whose_grant_was_taken_back_since(
    host: OneServer, permissions: Permissions
) -> None:
    permissions.grant("9999", components=["*"])
    host.create("0")
    key = TaskKey(job_id="0", component="a", version=0, site=HOST)
    with host.store.transaction() as tx:
        tx.tracking.put_output(
            OutputTable(key=key, data_name="data", position=0, namespace="exp", name="t"), now_ms=1
        )
    earlier = {"job_id": "0", "component_name": "a", "data_name": "data"}
    body = create_body(
        dsl_=dsl(a="Reader", b="Step"), parameters={"common": {"a": {"table": earlier}}}
    )
    with pytest.raises(PermissionDenied) as info:
        host.ask("job_create", KEY, body=body)
    assert info.value.data["code"] == 3
    permissions.grant("9999", datasets=[("exp", "t")])
    assert host.ask("job_create", KEY, body=body).retcode == 0


def test_only_what_is_switched_on_is_checked(host: OneServer, permissions: Permissions) -> None:
    permissions.rules = PermissionRules(switch=True, dataset=True)
    permissions.grant("9999", datasets=[("exp", "t")])
    assert host.ask("job_create", KEY, body=READING).retcode == 0


def test_the_own_party_and_local_sites_always_pass(permissions: Permissions) -> None:
    own = Site(Role.GUEST, PartyId("10000"))
    permissions.check(own, HOST, components=["Step"], datasets=[])
    local = Site(Role.LOCAL, PartyId("0"))
    permissions.check(local, local, components=["Upload"], datasets=[])


def test_what_is_taken_back_is_refused_again(permissions: Permissions) -> None:
    guest = Site(Role.GUEST, PartyId("9999"))
    permissions.grant("9999", components=["step", "keys"], datasets=[("exp", "t"), ("exp", "u")])
    assert permissions.query("9999") == (["keys", "step"], [("exp", "t"), ("exp", "u")])
    permissions.delete("9999", components=["step"], datasets=[("exp", "u")])
    assert permissions.query("9999") == (["keys"], [("exp", "t")])
    with pytest.raises(PermissionDenied):
        permissions.check(guest, HOST, components=["Step"], datasets=[])
    permissions.delete("9999", components=["*"], all_datasets=True)
    assert permissions.query("9999") == ([], [])


def test_all_tables_are_those_that_come_later_too(permissions: Permissions) -> None:
    guest = Site(Role.GUEST, PartyId("9999"))
    permissions.grant("9999", components=["*"], datasets=[ALL_TABLES])
    permissions.check(guest, HOST, components=["Step"], datasets=[("exp", "t"), ("", "new")])
    assert permissions.query("9999") == (["*"], [ALL_TABLES])
    permissions.delete("9999", all_datasets=True)
    with pytest.raises(PermissionDenied):
        permissions.check(guest, HOST, components=[], datasets=[("exp", "t")])


def test_a_table_whose_name_is_a_star_is_one_table(permissions: Permissions) -> None:
    guest = Site(Role.GUEST, PartyId("9999"))
    permissions.grant("9999", datasets=[("exp", "*")])
    permissions.check(guest, HOST, components=[], datasets=[("exp", "*")])
    with pytest.raises(PermissionDenied):
        permissions.check(guest, HOST, components=[], datasets=[("exp", "t")])


@pytest.mark.parametrize("role", ["", "nobody"])
def test_arguments_that_make_no_sense_are_refused(permissions: Permissions, role: str) -> None:
    with pytest.raises(UnknownGrant):
        permissions.grant("9999", components=["step", "nope"])
    with pytest.raises(BadRequest):
        permissions.grant("99/99", components=["step"])
    with pytest.raises(BadRequest):
        permissions.grant("9999", datasets=[("n" * 300, "t")])
    with pytest.raises(BadRequest):
        permissions.privileges("9999", role)
    with pytest.raises(UnknownGrant):
        permissions.grant_privileges("9999", "guest", [(GrantKind.COMMAND, "sudo")])
    assert permissions.query("9999") == ([], [])


def test_with_the_switch_off_nothing_can_be_granted(host: OneServer) -> None:
    permissions = host.core.permissions
    for change in (permissions.grant, permissions.delete):
        with pytest.raises(PermissionsOff):
            change("9999", components=["step"])
    for older in (permissions.grant_privileges, permissions.delete_privileges):
        with pytest.raises(PermissionsOff):
            older("9999", "guest", [(GrantKind.ROLE, "host")])


def test_a_role_privilege_restricts_from_the_first_one_on(
    host: OneServer, permissions: Permissions
) -> None:
    permissions.grant("9999", components=["*"], datasets=[("exp", "t")])
    permissions.grant_privileges("9999", "guest", [(GrantKind.ROLE, "arbiter")])
    assert refusal(host).data == {
        "code": 1, "message": "Party 9999 may not use the role host at this site.",
    }  # fmt: skip
    permissions.grant_privileges("9999", "guest", [(GrantKind.ROLE, "host")])
    assert host.ask("job_create", KEY, body=READING).retcode == 0


def test_privileges_hold_in_one_role_of_the_other_party_only(
    permissions: Permissions,
) -> None:
    everything = [(kind, "*") for kind in (GrantKind.ROLE, GrantKind.COMMAND, GrantKind.COMPONENT)]
    permissions.grant_privileges("9999", "guest", everything)
    found = permissions.privileges("9999", "guest")
    assert found[GrantKind.ROLE] == ["guest", "host", "arbiter"]
    assert found[GrantKind.COMMAND] == ["create", "stop", "run"]
    assert {"keys", "reader", "step"} <= set(found[GrantKind.COMPONENT])
    assert permissions.query("9999") == ([], [])
    permissions.check(Site(Role.GUEST, PartyId("9999")), HOST, components=["Step"], datasets=[])
    with pytest.raises(PermissionDenied):
        permissions.check(Site(Role.HOST, PartyId("9999")), HOST, components=["Step"], datasets=[])
    permissions.delete_privileges("9999", "guest", [(GrantKind.COMPONENT, "*")])
    assert permissions.privileges("9999", "guest")[GrantKind.COMPONENT] == []


@pytest.mark.parametrize(
    ("name", "more"),
    [("job_parameters", {"epoch": 0}), ("job_rerun", {"epoch": 1, "tasks": {"a": 1}})],
)
def test_what_another_party_wants_of_an_ended_job_is_checked_for_that_party_too(
    host: OneServer, permissions: Permissions, name: str, more: dict[str, object]
) -> None:
    permissions.grant("9999", components=["*"], datasets=[("exp", "t"), ("exp", "u")])
    host.put_table("exp", "u", address="t2")
    before = conf(guest=[9999, 9998], host=[10000], parameters=READS)
    host.ask("job_create", KEY, body=create_body(dsl_=dsl(a="Reader", b="Step"), conf_=before))
    host.ask("job_stop", KEY, status="failed")
    other = {"common": {"a": {"table": {"namespace": "exp", "name": "u"}}}}
    after = conf(guest=[9999, 9998], host=[10000], parameters=other)
    body = {"runtime_conf": after, "requested_by": "guest-9998", **more}
    with pytest.raises(PermissionDenied, match="9998 may not use"):
        host.ask(name, KEY, body=body)
    permissions.grant("9998", components=["*"])
    with pytest.raises(PermissionDenied, match=r"9998 may not use the table exp\.u"):
        host.ask(name, KEY, body=body)
    assert host.job("1").conf == before
    plain = {"runtime_conf": before, "requested_by": "guest-9998", **more}
    assert host.ask(name, KEY, body=plain).retcode == 0  # the job as it is


def test_an_output_of_an_earlier_job_is_not_read_for_a_party_that_had_no_part_in_it(
    host: OneServer, permissions: Permissions
) -> None:
    permissions.grant("9999", components=["*"], datasets=[ALL_TABLES])
    permissions.grant("9998", components=["*"], datasets=[ALL_TABLES])
    host.create("0")
    before = conf(guest=[9999, 9998], host=[10000], parameters=READS)
    host.ask("job_create", KEY, body=create_body(dsl_=dsl(a="Reader", b="Step"), conf_=before))
    host.ask("job_stop", KEY, status="failed")
    earlier = {"job_id": "0", "component_name": "a", "data_name": "data"}
    after = conf(guest=[9999, 9998], host=[10000], parameters={"common": {"a": {"table": earlier}}})
    body = {"epoch": 0, "runtime_conf": after, "requested_by": "guest-9998"}
    key = TaskKey(job_id="0", component="a", version=0, site=HOST)
    with host.store.transaction() as tx:
        tx.tracking.put_output(
            OutputTable(key=key, data_name="data", position=0, namespace="exp", name="t"), now_ms=1
        )
    with pytest.raises(PermissionDenied, match="an output of job 0"):
        host.ask("job_parameters", KEY, body=body)
    assert host.ask("job_parameters", KEY, body={**body, "requested_by": None}).retcode == 0
